"""Pictures about the cost of a pass: ceilings, bandwidth reached, and verify cost by the book and as measured.

Each is a pure function that returns a matplotlib Figure and the sentence that holds its numbers. Nothing is measured
here and no formula stands here: those are `measure.passes`, `measure.machines` and `measure.roofline`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from specdec_lab.measure.machines import BYTES, MACHINES
from specdec_lab.measure.roofline import bend, textbook_verify_cost, token_ceiling

from .style import FONT_SIZE, GREY, SERIES, SKY, VERMILION, label, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    class Seconds(Protocol):
        """n → seconds of a pass over n tokens: a dict, or `measure.passes.PassTimes`."""

        def __iter__(self) -> Iterator[int]: ...
        def __getitem__(self, tokens: int) -> float: ...


SILENT_READING = (
    238 / 60 * 4 / 3
)  # tokens per second: 238 words a minute (Brysbaert 2019), 4 tokens for 3 words


def ceiling_by_bandwidth(billions: float, precision: str, bandwidth: float) -> tuple[Figure, str]:
    """Most tokens per second of one sequence against memory bandwidth, on double log axes. Taught in notebook 01.

    Args:
        billions: parameters ÷ 10⁹, above 0.
        precision: a key of `measure.machines.BYTES`; its line is the thick one.
        bandwidth: GB/s, above 0; the point that is marked.

    Returns:
        The figure, and a sentence with the size of the weights and the ceiling at the point.

    Raises:
        ValueError: outside these bounds.

    Example:
        `explore(ceiling_by_bandwidth, billions=[1, 8, 70], precision=list(BYTES), bandwidth=[90, 3350])`
    """
    if precision not in BYTES:
        raise ValueError(f"precision must be one of {', '.join(BYTES)}, got {precision!r}")
    reached = token_ceiling(billions * 1e9, BYTES[precision], bandwidth * 1e9)
    figure, (ax,) = new_figure(height=5.6)
    span, size = (5, 9000), billions * BYTES[precision]
    for (name, bytes_each), (colour, _, dash) in zip(BYTES.items(), SERIES, strict=False):
        rates = [token_ceiling(billions * 1e9, bytes_each, x * 1e9) for x in span]
        ax.plot(span, rates, dash, color=colour, linewidth=3.5 if name == precision else 1.6, label=name)
    small = {"fontsize": FONT_SIZE - 2, "color": GREY, "ha": "right", "va": "bottom"}
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0}
    for name, machine in MACHINES.items():
        ax.axvline(machine.bandwidth / 1e9, color=GREY, linewidth=1, linestyle=":")
        ax.text(machine.bandwidth / 1e9, 0.0012, f"{name} ", rotation=90, bbox=paper, **small)
    ax.axhline(SILENT_READING, color=GREY, linewidth=1.5)
    reading = f"silent reading: 4 words, {SILENT_READING:.1f} tokens/s"
    ax.text(8600, 0.93 * SILENT_READING, reading, **small | {"color": "black", "va": "top"}, bbox=paper)
    ax.plot(bandwidth, reached, "o", color="black", markersize=12, zorder=5)
    ax.set(xscale="log", yscale="log", xlim=span, ylim=(0.001, 100_000))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    label(ax, f"{billions:g} billion parameters", "memory bandwidth (GB/s)", "tokens per second, at most")
    ax.legend(fontsize=FONT_SIZE - 1, loc="upper left", ncols=2)
    rate = f"{reached:.2f}" if reached >= 0.1 else f"{reached:.2g}"
    sentence = (
        f"{billions:g} billion parameters in {precision} are {size:g} GB of weights; {bandwidth:g} GB/s can read "
        f"them {rate} times a second, so one sequence gets at most {rate} tokens per second."
    )
    return figure, sentence


def bandwidth_reached(rows: Mapping[str, tuple[int, float, float]], bandwidth: float) -> tuple[Figure, str]:
    """How fast one-token passes read their weights, beside what stands in their way. Taught in notebook 01.

    Args:
        rows: name → (bytes of weights, seconds of a pass over one token, bytes per second of
            `measure.passes.product_bandwidth` in its dtype); one or more.
        bandwidth: bytes per second, as `measure.passes.memory_bandwidth` gives it.

    Returns:
        The figure, one bar for each row, and a sentence with the GB/s and tokens/s of each.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        raise ValueError("rows must hold at least one model, got none")
    figure, (ax,) = new_figure(width=9.0, height=1.8 + 0.8 * len(rows))
    places = range(len(rows))
    reached = [size / seconds / 1e9 for size, seconds, _ in rows.values()]
    alone = [product / 1e9 for _, _, product in rows.values()]
    look = {"color": VERMILION, "markersize": 36, "markeredgewidth": 4}
    ax.barh(places, reached, color=SKY, height=0.62, label="a pass of the model")
    ax.plot(alone, places, "|", label="matrix × vector alone", **look)
    ax.axvline(bandwidth / 1e9, color="black", linewidth=2.2, linestyle="--", label="memory")
    ax.set_yticks(places, [f"{name}\n{1 / seconds:.0f} tokens/s" for name, (_, seconds, _) in rows.items()])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.05 * max(*reached, *alone, bandwidth / 1e9))
    ax.grid(False, axis="y")
    label(ax, "How fast the weights are read, one token in a pass", "weights read (GB/s)", "")
    figure.legend(fontsize=FONT_SIZE - 1, frameon=False, loc="outside lower center", ncols=3, markerscale=0.5)
    said = [
        f"{name} at {1 / seconds:.0f} tokens/s reads {rate:.1f} GB/s, matrix × vector alone {product:.1f} GB/s"
        for (name, (_, seconds, _)), rate, product in zip(rows.items(), reached, alone, strict=True)
    ]
    memory = f"On the machine that made this page memory delivers {bandwidth / 1e9:.1f} GB/s."
    return figure, f"{memory} {'; '.join(said)}."


def roofline_verify_cost(machine: str, users: int, gamma: int) -> tuple[Figure, str]:
    """Time of a pass against the tokens in it, by the roofline, and what verification adds. Taught in notebook 01.

    Args:
        machine: a key of `measure.machines.MACHINES` whose FLOP/s are known.
        users: sequences decoded in one pass, 1 or more.
        gamma: each of them has γ + 1 tokens verified; 0 or more.

    Returns:
        The figure in bfloat16, and a sentence with v(γ + 1).

    Raises:
        ValueError, TypeError: outside these bounds.
    """
    bends = {name: bend(2, item.bandwidth, item.flops) for name, item in MACHINES.items() if item.flops}
    if machine not in bends:
        raise ValueError(f"machine must be one of {', '.join(bends)}, got {machine!r}")
    cost = textbook_verify_cost(gamma + 1, bends[machine], users)
    figure, (ax,) = new_figure(height=5.0)
    for (name, at), (colour, _, dash) in zip(bends.items(), SERIES, strict=False):
        look = {"color": colour, "linewidth": 3.5 if name == machine else 1.6}
        ax.plot([1, at, 8192], [1, 1, 8192 / at], dash, label=f"{name}: bends at {at:.0f}", **look)
    plain, checked = users, users * (gamma + 1)
    before = textbook_verify_cost(users, bends[machine])
    ax.plot(plain, before, "o", color="black", markersize=12, markerfacecolor="white", zorder=5)
    ax.plot(checked, before * cost, "o", color="black", markersize=12, zorder=5)
    words = {"textcoords": "offset points", "fontsize": FONT_SIZE}
    ax.annotate("plain", (plain, before), (-4, -24), **words)
    ax.annotate("verify", (checked, before * cost), (-8, 12), ha="right", **words)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set(xlim=(0.8, 8192), ylim=(0.6, 64), xticks=[4**k for k in range(7)], yticks=[2**k for k in range(7)])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    label(ax, "A pass by the roofline, bfloat16", "tokens in the pass", "time ÷ time of reading the weights")
    ax.legend(fontsize=FONT_SIZE - 1, frameon=False, loc="upper left")
    sequences = "one sequence" if users == 1 else f"{users} sequences at once"
    sentence = (
        f"{machine}, {sequences}: a plain pass carries {plain} token{'s' * (plain > 1)}, a verification at "
        f"γ = {gamma} carries {checked}; arithmetic catches up with reading at {bends[machine]:.0f}, so "
        f"v({gamma + 1}) = {cost:.2f}."
    )
    return figure, sentence


def verify_cost_by_tokens(
    curves: Mapping[str, Seconds], floors: Mapping[str, Seconds], gamma: int
) -> tuple[Figure, str]:
    """Measured v(n) against n, the roofline's floor below it dotted, one γ marked. Taught in notebook 01.

    Args:
        curves: name → (n → seconds of a pass over n tokens), 1 and γ + 1 among the n of each.
        floors: name → (n → seconds that reading or computing take at least), for the same n; a name may be missing.
        gamma: the verification that the sentence is about.

    Returns:
        The figure, and a sentence with v(γ + 1) of each curve.

    Raises:
        ValueError: no curves, or one without times for 1 and γ + 1.
    """
    if not curves:
        raise ValueError("curves must hold at least one, got none")
    for name, seconds in curves.items():
        if not {1, gamma + 1} <= set(seconds):
            raise ValueError(
                f"curves[{name!r}] must hold n = 1 and γ + 1 = {gamma + 1}, got {sorted(seconds)}"
            )
    figure, (ax,) = new_figure(width=9.0, height=5.4)
    said, top = [], 2.0
    for (name, seconds), (colour, marker, dash) in zip(curves.items(), SERIES, strict=False):
        tokens = sorted(seconds)
        costs = [seconds[n] / seconds[1] for n in tokens]
        top = max(top, *costs)
        look = {"color": colour, "linewidth": 2.4}
        ax.plot(tokens, costs, dash, marker=marker, markersize=9, label=name, **look)
        if name in floors:
            ax.plot(tokens, [floors[name][n] / seconds[1] for n in tokens], ":", **look)
        said.append(f"{seconds[gamma + 1] / seconds[1]:.2f} for {name}")
    longest = max(max(seconds) for seconds in curves.values())
    ax.plot([1, longest], [1, longest], color=GREY, linewidth=1.5, label="n passes over one token")
    if floors:
        ax.plot([], [], ":", color="black", linewidth=2.4, label="roofline floor, each in its colour")
    ax.axvline(gamma + 1, color="black", linewidth=1.2, linestyle="--")
    ax.set(
        xlim=(0.5, longest + 0.5), ylim=(0, 1.5 * top), xticks=sorted({n for s in curves.values() for n in s})
    )
    title = "What a pass over n tokens costs here"
    label(ax, title, "tokens n in one pass", "v(n), in passes over one token")
    ax.legend(fontsize=FONT_SIZE - 1, loc="upper right", ncols=2)
    sentence = (
        f"On the machine that made this page, at γ = {gamma}, v({gamma + 1}) is {', '.join(said)}; "
        f"{gamma + 1} separate passes would cost {gamma + 1}."
    )
    return figure, sentence
