"""Pictures of methods that draft trees: heads, streams and their training, and all methods by what a round costs.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. Nothing is trained
and nothing is timed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .style import FONT_SIZE, SERIES, bar_look, label, new_figure

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
            `measure.trees.load_tree_reference` gives them. Where their "budget" is not the same, the bars are
            named by it too.

    Returns:
        The figure, one bar for each row, a colour for each method, and a sentence with the numbers.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        raise ValueError("rows must hold at least one, got none")
    several = len({row.get("budget") for row in rows} - {None, 0}) > 1  # 0: plain decoding
    figure, (ax,) = new_figure(width=10.8 if several else 9.6, height=1.6 + 0.62 * len(rows))
    worth = {f"{number} {row['method']}": row["speedup"] for number, row in enumerate(rows)}
    names = [
        f"{row['method']}, {row['budget']} nodes" if several and row["budget"] else row["method"]
        for row in rows
    ]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    texts = [f"τ {row['tokens_per_round']:.2f}, {_millions(row['extra_parameters'])}" for row in rows]
    _bars(ax, worth, {}, [methods.index(row["method"]) for row in rows])
    spread = [
        [row["speedup"] - row["speedup_low"] for row in rows],
        [row["speedup_high"] - row["speedup"] for row in rows],
    ]
    look = {"fmt": "none", "ecolor": "black", "capsize": 5, "linewidth": 1.8}
    ax.errorbar([row["speedup"] for row in rows], range(len(rows)), xerr=spread, **look)
    for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
        right = max(row["speedup_high"], 1)  # of the line at 1 too, which would strike the text through
        ax.text(right + 0.03, place, text, va="center", fontsize=FONT_SIZE - 1)
    ax.set_yticks(range(len(rows)), names)
    ax.set_xlim(0, 1.8 * max(1, *(row["speedup_high"] for row in rows)))
    label(ax, "Measured", "speed-up over plain decoding", "")
    said = [
        f"{name} {row['speedup']:.2f} ({row['speedup_low']:.2f} to {row['speedup_high']:.2f}) at "
        f"{row['tokens_per_round']:.2f} tokens per round, {_millions(row['extra_parameters'])}"
        for name, row in zip(names, rows, strict=True)
    ]
    return figure, f"Speed-up over plain decoding: {'; '.join(said)}."


# ---------------------------------------------------------------- parts


def _bars(
    ax: Axes, values: Mapping[str, float], texts: Mapping[str, str], looks: Sequence[int] | None = None
) -> None:
    """Bars from top to bottom; those with the same number in `looks` look alike, without it none do."""
    for place, (name, value) in enumerate(values.items()):
        look = bar_look(place if looks is None else looks[place])
        ax.barh(place, value, edgecolor="white", height=0.66, **look)
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


# ---------------------------------------------------------------- streams beside heads, and stored runs of theirs


def accuracy_ahead(accuracies: Mapping[str, Sequence[Mapping[str, float]]]) -> tuple[Figure, str]:
    """How often the right token is first, and among the likeliest, against places ahead. Taught in notebook 10.

    Args:
        accuracies: name of the method → one entry for each place ahead, "top1", …, "top8" → share, as in the cards
            of heads and of streams.

    Returns:
        The figure, and a sentence with the first and the last place of each.

    Raises:
        ValueError: no methods, or one without entries.
    """
    if not accuracies or not all(accuracies.values()):
        raise ValueError("accuracies must hold at least one method, and at least one entry for each")
    figure, (ax,) = new_figure(width=9.0, height=4.4)
    said, most = [], max(map(len, accuracies.values()))
    for (name, entries), (colour, marker, _) in zip(accuracies.items(), SERIES, strict=False):
        places = range(1, len(entries) + 1)
        last = list(entries[0])[-1]
        for key, dash, text in (("top1", "-", "first guess"), (last, ":", f"among its {last[3:]}")):
            look = {"color": colour, "marker": marker, "linewidth": 2.4, "markersize": 8}
            ax.plot(places, [100 * entry[key] for entry in entries], dash, label=f"{name}, {text}", **look)
        said.append(
            f"{name} {_percents(entries, 'top1')} at first, {_percents(entries, last)} among the {last[3:]} likeliest"
        )
    ax.set(ylim=(0, 100), xticks=list(range(1, most + 1)))
    ax.legend(fontsize=FONT_SIZE - 2, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    label(
        ax,
        "Held-out text: is the right token there?",
        "guess, places behind the target's own token",
        "per cent",
    )
    return figure, f"For 1 to {most} places ahead: {'; '.join(said)}."


def parameters(target: int, counts: Mapping[str, int]) -> tuple[Figure, str]:
    """Parameters that each method needs beside the target. Taught in notebook 10.

    Args:
        target: its parameters, which the others are compared with.
        counts: name → parameters.

    Returns:
        The figure, one bar for each, and a sentence with the numbers.

    Raises:
        ValueError: nothing to show, or a target without parameters.
    """
    if not counts or target < 1:
        raise ValueError(
            f"parameters needs a target with some and at least one method, got {target}, {dict(counts)}"
        )
    figure, (ax,) = new_figure(width=9.6, height=1.6 + 0.6 * len(counts))
    said = {
        name: f"{count / 1e6:.2f} million, {100 * count / target:.0f} % of the target"
        for name, count in counts.items()
    }
    for place, (name, count) in enumerate(counts.items()):
        ax.barh(place, count / 1e6, edgecolor="white", height=0.66, **bar_look(place))
        words = {"textcoords": "offset points", "va": "center", "fontsize": FONT_SIZE - 1}
        ax.annotate(said[name], (count / 1e6, place), (7, 0), **words)
    ax.set_xlim(0, 2 * max(counts.values()) / 1e6)
    ax.set_yticks(range(len(counts)), list(counts))
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    label(ax, f"Beside the target's {target / 1e6:.1f} million", "million parameters", "")
    return figure, (
        f"Beside the target's {target / 1e6:.2f} million parameters: "
        f"{'; '.join(f'{name} {words}' for name, words in said.items())}."
    )


def runs_by_streams(reference: Mapping[str, Any], layers: int, streams: int) -> tuple[Figure, str]:
    """Stored runs without pruning: tokens per round and speed-up against γ for each N_s. Taught in notebook 10.

    Args:
        reference: "rows", {"layers", "streams", "keep", "tokens_per_round", "stream_rows_per_round", "speedup",
            "speedup_low", "speedup_high"} each; "accuracy" and "parameters" by N_s as text.
        layers, streams: N_s and γ of the run to point out.

    Returns:
        The figure, and a sentence with that run.

    Raises:
        ValueError: no such run.
    """
    rows = [row for row in reference["rows"] if row["keep"] is None]
    found = [row for row in rows if (row["layers"], row["streams"]) == (layers, streams)]
    if not found:
        raise ValueError(f"no run with N_s = {layers} and γ = {streams} is stored")
    (chosen,) = found
    figure, axes = new_figure(2, width=6.0, height=4.6)
    for number, (colour, marker, dash) in zip(sorted({row["layers"] for row in rows}), SERIES, strict=False):
        line = sorted((row for row in rows if row["layers"] == number), key=lambda row: row["streams"])
        for ax, key in zip(axes, ("tokens_per_round", "speedup"), strict=True):
            look = {"color": colour, "marker": marker, "linewidth": 2.2, "markersize": 7}
            ax.plot(
                [row["streams"] for row in line],
                [row[key] for row in line],
                dash,
                label=f"N_s = {number}",
                **look,
            )
            if number == layers:
                ax.plot(streams, chosen[key], marker, color=colour, markersize=16)
    low, high = chosen["speedup"] - chosen["speedup_low"], chosen["speedup_high"] - chosen["speedup"]
    axes[1].errorbar(streams, chosen["speedup"], yerr=[[low], [high]], ecolor="black", capsize=6, fmt="none")
    for ax, title, key in (
        (axes[0], "Tokens per round, 8 nodes", "tokens_per_round"),
        (axes[1], "Speed-up, as measured", "speedup_high"),
    ):
        ax.axhline(1, color="black", linewidth=1.6, linestyle="--")
        ax.set(ylim=(0, 1.15 * max(row[key] for row in rows)))
        ax.set_xticks(sorted({row["streams"] for row in rows}))
        label(ax, title, "γ, streams at each position", title.split(",")[0].lower())
    axes[0].legend(fontsize=FONT_SIZE - 1, frameon=False, loc="lower right", ncols=2)
    for ax in axes:
        for text in ax.get_legend().get_texts() if ax.get_legend() else ():
            text.set(parse_math=False)
    first = reference["accuracy"][str(layers)][0]["top1"]
    return figure, (
        f"N_s = {layers}, γ = {streams}: {chosen['tokens_per_round']:.2f} tokens per round with "
        f"{chosen['stream_rows_per_round']:.1f} stream rows through {layers} layer{'s' * (layers != 1)} in a round; speed-up "
        f"{chosen['speedup']:.2f} ({chosen['speedup_low']:.2f} to {chosen['speedup_high']:.2f}). "
        f"{reference['parameters'][str(layers)] / 1e6:.2f} million parameters, stream 1 right at first in "
        f"{100 * first:.0f} %."
    )


def runs_by_kept(rows: Sequence[Mapping[str, Any]]) -> tuple[Figure, str]:
    """Stored runs of one γ and N_s: what pruning takes from tokens per round and from rows. Taught in notebook 10.

    Args:
        rows: as in `runs_by_streams`; "keep" is a number, or None for all nodes.

    Returns:
        The figure, and a sentence with the numbers.

    Raises:
        ValueError: no rows, or of more than one γ or N_s.
    """
    if len({(row["layers"], row["streams"]) for row in rows}) != 1:
        raise ValueError("rows must hold at least one run, all of one N_s and one γ")
    ordered = sorted(rows, key=lambda row: float("inf") if row["keep"] is None else row["keep"])
    names = ["all" if row["keep"] is None else str(row["keep"]) for row in ordered]
    figure, axes = new_figure(3, width=4.4, height=4.2)
    panels = (
        ("tokens_per_round", "Tokens per round", SERIES[0]),
        ("stream_rows_per_round", "Stream rows per round", SERIES[2]),
        ("speedup", "Speed-up, as measured", SERIES[1]),
    )
    for ax, (key, title, (colour, marker, dash)) in zip(axes, panels, strict=True):
        values = [row[key] for row in ordered]
        ax.plot(range(len(ordered)), values, dash, marker=marker, color=colour, linewidth=2.4, markersize=8)
        if key == "speedup":
            spread = [
                [row["speedup"] - row["speedup_low"] for row in ordered],
                [row["speedup_high"] - row["speedup"] for row in ordered],
            ]
            look = {"fmt": "none", "ecolor": "black", "capsize": 5}
            ax.errorbar(range(len(ordered)), values, yerr=spread, **look)
            ax.axhline(1, color="black", linewidth=1.6, linestyle="--")
            values = [row["speedup_high"] for row in ordered]
        ax.set_ylim(0, 1.15 * max(values))
        ax.set_xticks(range(len(ordered)), names)
        label(ax, title, "nodes with streams", "")
    said = [
        f"{name}: {row['tokens_per_round']:.2f} tokens and {row['stream_rows_per_round']:.1f} stream rows per round, "
        f"speed-up {row['speedup']:.2f}"
        for name, row in zip(names, ordered, strict=True)
    ]
    return figure, f"Nodes with streams {'; '.join(said)}."


def _percents(entries: Sequence[Mapping[str, float]], key: str) -> str:
    return ", ".join(f"{100 * entry[key]:.0f} %" for entry in entries)
