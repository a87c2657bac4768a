"""Pictures of methods that draft trees: Medusa's heads and their training, and all methods by what a round costs.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. Nothing is trained
and nothing is timed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .style import FONT_SIZE, SERIES, label, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# ---------------------------------------------------------------- Medusa's heads


def accuracy_of_heads(accuracy: Sequence[Mapping[str, float]]) -> tuple[Figure, str]:
    """For each head how often the right token is among its likeliest 1, 2, 4, 8. Taught in notebook 09.

    Args:
        accuracy: one entry for each head, "top1", "top2", … → share, as in the card of the heads.

    Returns:
        The figure, and a sentence with the first and the last head.

    Raises:
        ValueError: no heads.
    """
    if not accuracy:
        raise ValueError("accuracy must hold at least one head, got none")
    columns = list(accuracy[0])
    figure, (ax,) = new_figure(width=7.5, height=1.6 + 0.62 * len(accuracy))
    values = [[100 * head[column] for column in columns] for head in accuracy]
    ax.imshow(values, cmap="Blues", vmin=0, vmax=130, aspect="auto")
    for row, head in enumerate(values):
        for column, value in enumerate(head):
            colour = "white" if value > 75 else "black"
            ax.text(
                column, row, f"{value:.0f} %", color=colour, ha="center", va="center", fontsize=FONT_SIZE + 1
            )
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_xticks(range(len(columns)), [f"among its {name.removeprefix('top')}" for name in columns])
    ax.set_yticks(range(len(accuracy)), [f"head {number}" for number in range(1, len(accuracy) + 1)])
    label(ax, "How often the right token is among a head's likeliest", "", "")
    said = [
        f"head {number} has the right token first in {100 * accuracy[number - 1][columns[0]]:.0f} %, "
        f"among its {columns[-1].removeprefix('top')} in {100 * accuracy[number - 1][columns[-1]]:.0f} %"
        for number in dict.fromkeys((1, len(accuracy)))
    ]
    return figure, f"On text that it was not trained on, {'; '.join(said)}."


def training_curve(curve: Sequence[Mapping[str, Any]]) -> tuple[Figure, str]:
    """Held-out accuracy of each head's first guess against training steps. Taught in notebook 09.

    Args:
        curve: entries {"step": …, "held_out": [{"top1": …}, …]}, as in the card of the heads.

    Returns:
        The figure, and a sentence with the first and the last entry.

    Raises:
        ValueError: no entries.
    """
    if not curve:
        raise ValueError("curve must hold at least one entry, got none")
    steps = [entry["step"] for entry in curve]
    figure, (ax,) = new_figure(height=4.2)
    heads = range(len(curve[0]["held_out"]))
    tops = [[100 * entry["held_out"][head]["top1"] for entry in curve] for head in heads]
    for head, (colour, marker, dash) in zip(heads, SERIES, strict=False):
        look = {"marker": marker, "color": colour, "linewidth": 2.4, "markersize": 7}
        ax.plot(steps, tops[head], dash, label=f"head {head + 1}", **look)
    ax.set_ylim(0, 1.25 * max(map(max, tops)))
    ax.legend(fontsize=FONT_SIZE - 1, frameon=False, ncols=len(heads), loc="upper left")
    label(ax, "First guesses that are right, held-out text", "training step", "per cent")
    said = [f"head {head + 1} from {tops[head][0]:.0f} % to {tops[head][-1]:.0f} %" for head in heads]
    return figure, f"From step {steps[0]} to step {steps[-1]} first guesses get better: {', '.join(said)}."


# ---------------------------------------------------------------- methods


def speedup_by_verify_cost(
    methods: Mapping[str, tuple[float, int, float]], slope: float, passes: float
) -> tuple[Figure, str]:
    """What each method is worth when each further token of a pass costs `slope` of one. Taught in notebook 09.

    Args:
        methods: name → (tokens per round, nodes verified in a round, draft passes in a round).
        slope: v(n) = 1 + slope × (n - 1).
        passes: c, a draft pass in target passes.

    Returns:
        The figure, one bar for each method, and a sentence with the order.

    Raises:
        ValueError: no methods.
    """
    if not methods:
        raise ValueError("methods must hold at least one, got none")
    worth = {
        name: tau / (1 + slope * nodes + passes * drafted) for name, (tau, nodes, drafted) in methods.items()
    }
    figure, (ax,) = new_figure(width=9.0, height=1.6 + 0.6 * len(methods))
    _bars(ax, worth, {name: f"{value:.2f}" for name, value in worth.items()})
    ax.set_xlim(0, 1.12 * max(tau for tau, _, _ in methods.values()))
    label(ax, f"v(n) = 1 + {slope:g} (n - 1), c = {passes:g}", "tokens per round ÷ cost of a round", "")
    order = sorted(worth, key=worth.get, reverse=True)
    ranking = ", ".join(f"{name} {worth[name]:.1f}" for name in order)
    return figure, f"With {slope:g} of a pass for each further token and c = {passes:g}: {ranking}."


def measured_speedups(rows: Sequence[Mapping[str, Any]]) -> tuple[Figure, str]:
    """Speed-up over plain decoding as it was measured, with its spread. Taught in notebook 09.

    Args:
        rows: {"method", "tokens_per_round", "speedup", "speedup_low", "speedup_high", "extra_parameters", …} each, as
            `measure.trees.load_tree_reference` gives them.

    Returns:
        The figure, one bar for each row, and a sentence with the numbers.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        raise ValueError("rows must hold at least one, got none")
    figure, (ax,) = new_figure(width=9.6, height=1.6 + 0.62 * len(rows))
    worth = {f"{number} {row['method']}": row["speedup"] for number, row in enumerate(rows)}
    texts = [f"τ {row['tokens_per_round']:.2f}, {_millions(row['extra_parameters'])}" for row in rows]
    _bars(ax, worth, {})
    spread = [
        [row["speedup"] - row["speedup_low"] for row in rows],
        [row["speedup_high"] - row["speedup"] for row in rows],
    ]
    look = {"fmt": "none", "ecolor": "black", "capsize": 5, "linewidth": 1.8}
    ax.errorbar([row["speedup"] for row in rows], range(len(rows)), xerr=spread, **look)
    for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
        ax.text(row["speedup_high"] + 0.03, place, text, va="center", fontsize=FONT_SIZE - 1)
    ax.set_yticks(range(len(rows)), [row["method"] for row in rows])
    ax.set_xlim(0, 1.8 * max(row["speedup_high"] for row in rows))
    label(ax, "Measured", "speed-up over plain decoding", "")
    said = [
        f"{row['method']} {row['speedup']:.2f} ({row['speedup_low']:.2f} to {row['speedup_high']:.2f}) at "
        f"{row['tokens_per_round']:.2f} tokens per round, {_millions(row['extra_parameters'])}"
        for row in rows
    ]
    return figure, f"Speed-up over plain decoding: {'; '.join(said)}."


# ---------------------------------------------------------------- parts


def _bars(ax: Axes, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
    for place, (name, value) in enumerate(values.items()):
        colour, hatch = SERIES[place % len(SERIES)][0], ("", "//", "..", "\\\\", "xx", "")[place % 6]
        ax.barh(place, value, color=colour, hatch=hatch, edgecolor="white", height=0.66)
        if name in texts:
            paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            words = {"textcoords": "offset points", "va": "center", "fontsize": FONT_SIZE - 1, "bbox": paper}
            ax.annotate(texts[name], (value, place), (7, 0), **words)
    ax.axvline(1, color="black", linewidth=1.8, linestyle="--")
    ax.set_yticks(range(len(values)), list(values))
    ax.invert_yaxis()
    ax.grid(False, axis="y")


def _millions(count: float) -> str:
    return f"{count / 1e6:.1f} million parameters more" if count else "no parameters more"
