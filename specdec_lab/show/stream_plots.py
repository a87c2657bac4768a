"""Pictures of Speculative Streaming: where the streams run, what they see, and what they cost.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. No model runs here
and nothing is timed; the network itself is `models/streams.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specdec_lab.decoding.token_tree import ROOT, TreeShape

from .style import BLUE, FONT_SIZE, GREEN, GREY, SKY, label, new_figure
from .words import many, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST = 10  # letters of a token that a picture shows

# ---------------------------------------------------------------- where streams run


def network(layers: int, top: int, streams: int) -> tuple[Figure, str]:
    """The target's layers with the main stream, and the streams beside it in the top ones. Taught in notebook 10.

    Args:
        layers: of the target.
        top: N_s, how many of them streams go through.
        streams: γ, at each position.

    Returns:
        The figure, and a sentence with the layers and with what each stream guesses.

    Raises:
        ValueError: more top layers than layers, or no streams.
    """
    _check_network(layers, top, streams)
    figure, (ax,) = new_figure(width=9.6, height=3.4 + 0.5 * min(top, 8))
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.set_yticks([])
    ax.tick_params(length=0)
    below, height = 1.9, 0.72  # what the lower layers take in the drawing, and one of the upper ones
    floor = below if layers > top else 0.0
    if layers > top:
        _block(ax, 0, 0, below - 0.25, SKY)
        ax.text(0, below / 2 - 0.12, f"layers 1 to {layers - top}", **_middle())
    for place in range(top):
        y = floor + place * height
        _block(ax, 0, y, height - 0.2, SKY)
        ax.text(0, y + height / 2 - 0.1, f"layer {layers - top + place + 1}", **_middle())
        for stream in range(1, streams + 1):
            _block(ax, stream, y, height - 0.2, GREEN, alpha=0.35)
            ax.text(stream, y + height / 2 - 0.1, "+ adapters", **_middle(-3))
            _arrow(ax, (stream - 0.62, y + height / 2 - 0.1), (stream - 0.4, y + height / 2 - 0.1), GREY)
    for stream in range(1, streams + 1):  # they begin as the hidden state below the top layers
        _arrow(ax, (0.0, floor - 0.12), (stream, floor - 0.02), GREEN, "angle,angleA=0,angleB=90,rad=5")
    notes = (
        (0.36, GREEN, "streams begin as the hidden state below the top layers"),
        (0.76, "black", "→ reads keys and values: each stream those of the main stream,"),
        (1.06, "black", "of the whole text, and those of the streams before it"),
    )
    for down, colour, words in notes:
        ax.text(0.45, floor - down, words, fontsize=FONT_SIZE - 2, color=colour)
    roof = floor + top * height
    for column in range(streams + 1):
        _arrow(ax, (column, roof - 0.18), (column, roof + 0.16), GREEN if column else BLUE)
        what = f"guess of t + {column + 1}" if column else "next, t + 1"
        ax.text(column, roof + 0.22, what, ha="center", va="bottom", fontsize=FONT_SIZE - 1)
    ax.set(xlim=(-0.55, streams + 0.55), ylim=(min(-0.1, floor - 1.3), roof + 0.6))
    names = ["main stream\nposition t", *(f"stream {j}\nposition t + {j}" for j in range(1, streams + 1))]
    ax.set_xticks(range(streams + 1), names, fontsize=FONT_SIZE - 1)
    ax.get_xticklabels()[0].set_color(BLUE)
    ahead = f"tokens t + 2 to t + {streams + 1}" if streams > 1 else "token t + 2"
    return figure, (
        f"The main stream runs through all {many(layers, 'layer')} and chooses token t + 1. From layer "
        f"{layers - top + 1} on, {many(streams, 'stream')} beside it guess {ahead}, through {many(top, 'layer')}; "
        "they read the main stream, and it reads nothing of them."
    )


def mask_of_streams(
    confirmed: Sequence[str], words: Sequence[str], shape: TreeShape, streams: int, row: int, shown: int = 3
) -> tuple[Figure, str]:
    """What each row of a top layer sees: the main stream's rows, and the streams of each. Taught in notebook 10.

    Rows of the main stream are the last confirmed token and the nodes; behind each of them stand its streams.

    Args:
        confirmed: the confirmed tokens, readable; the last one rides on the pass.
        words, shape: the tree.
        streams: γ.
        row: the row to point out, 0 for the last confirmed token, counted with streams.
        shown: how many confirmed tokens are drawn.

    Returns:
        The figure, and a sentence with what the row sees, its position and what it guesses.

    Raises:
        ValueError: another number of words than nodes, no such row, no stream or no confirmed token.
    """
    if len(words) != len(shape):
        raise ValueError(f"words must hold one for each node, got {len(words)} for {len(shape)}")
    if streams < 1 or shown < 1 or not confirmed:
        raise ValueError("mask_of_streams needs a stream, at least one confirmed token, and to show one")
    rows = (1 + len(shape)) * (1 + streams)
    if not 0 <= row < rows:
        raise ValueError(f"row must be between 0 and {rows - 1}, got {row}")
    shown = min(shown, len(confirmed))
    mains = [confirmed[-1], *words]
    seen_nodes = [[False] * len(shape), *shape.mask()]  # of each row of the main stream, among nodes
    positions = [len(confirmed) - 1, *shape.positions(len(confirmed))]
    figure, (ax,) = new_figure(width=11.4, height=2.2 + 0.42 * rows)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    first_stream = shown + len(shape)
    columns = first_stream + streams * len(mains)
    names = []
    for place in range(rows):
        owner, stream = divmod(place, 1 + streams)
        sees = [True] * shown + seen_nodes[owner]
        sees += [other == owner and j <= stream for other in range(len(mains)) for j in range(1, streams + 1)]
        if not stream:
            sees[first_stream:] = [False] * (columns - first_stream)
        for column, seen in enumerate(sees):
            colour = (BLUE if column < first_stream else GREEN) if seen else "white"
            _cell(ax, column, place, colour, strong=place == row)
        names.append(f"stream {stream}" if stream else f"main, {_name(owner, mains)}")
        here = f"position {positions[owner] + stream}"
        weight = "bold" if place == row else "normal"
        ax.text(columns - 0.3, place, here, va="center", fontsize=FONT_SIZE - 1, fontweight=weight)
    for owner in range(1, len(mains)):
        ax.axhline(owner * (1 + streams) - 0.5, color=GREY, linewidth=0.9)
        ax.axvline(first_stream + owner * streams - 0.5, color=GREY, linewidth=0.9)
    ax.axvline(first_stream - 0.5, color="black", linewidth=1.8, linestyle="--")
    ax.set(xlim=(-0.5, columns + 2.1), ylim=(rows - 0.4, -0.6))
    across = [
        *(shortened(word, LONGEST) for word in confirmed[-shown:]),
        *(_name(i + 1, mains) for i in range(len(words))),
        *(
            f"stream {j} of {i - 1}" if i else f"stream {j} of text"
            for i in range(len(mains))
            for j in range(1, streams + 1)
        ),
    ]
    ax.set_xticks(range(columns), across, rotation=50, ha="left")
    ax.xaxis.tick_top()
    ax.set_yticks(range(rows), names)
    for text in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
        text.set(parse_math=False, fontsize=FONT_SIZE - 2)
    ax.get_yticklabels()[row].set_fontweight("bold")
    ax.text(
        0.5 * (first_stream - 1),
        rows - 0.1,
        "main stream's rows",
        ha="center",
        va="top",
        fontsize=FONT_SIZE - 1,
    )
    ax.text(
        first_stream + 0.5 * (columns - first_stream - 1), rows - 0.1, "rows of streams", ha="center", va="top",
        fontsize=FONT_SIZE - 1,
    )  # fmt: skip
    owner, stream = divmod(row, 1 + streams)
    where = f"node {owner - 1} ‘{mains[owner]}’" if owner else f"the last confirmed token ‘{mains[0]}’"
    who = f"Stream {stream} of {where}" if stream else f"The main stream's row of {where}"
    above = [f"node {i}" for i, seen in enumerate(seen_nodes[owner]) if seen and (stream or i != owner - 1)]
    beside = [f"stream {j} beside it" for j in range(1, stream)]
    others = "".join(f", {one}" for one in [*above, *beside])
    itself = " and itself" if stream or owner else ""
    place = positions[owner] + stream
    return figure, (
        f"{who} sees all {many(len(confirmed), 'confirmed token')}{others}{itself}, and no "
        f"{'other stream' if stream else 'stream'}. It stands at position {place} and "
        f"{'guesses' if stream else 'chooses'} the token of position {place + 1}."
    )


# ---------------------------------------------------------------- what it costs


def rows_of_a_pass(layers: int, top: int, nodes: int, streams: int) -> tuple[Figure, str]:
    """Rows that a verifying pass carries through each layer, with and without streams. Taught in notebook 10.

    Args:
        layers: of the target.
        top: N_s.
        nodes: drafted nodes; the last confirmed token rides beside them.
        streams: γ, behind each row.

    Returns:
        The figure, one bar for each layer, and a sentence with the rows in all.

    Raises:
        ValueError: more top layers than layers, no streams, or fewer than no nodes.
    """
    _check_network(layers, top, streams)
    if nodes < 0:
        raise ValueError(f"nodes must be 0 or more, got {nodes}")
    main, more = 1 + nodes, (1 + nodes) * streams
    figure, (ax,) = new_figure(height=4.6)
    numbers = range(1, layers + 1)
    ax.barh(numbers, [main] * layers, color=BLUE, edgecolor="white", label="main stream")
    upper = range(layers - top + 1, layers + 1)
    ax.barh(upper, [more] * top, left=main, color=GREEN, edgecolor="white", hatch="//", label="streams")
    ax.set_yticks(sorted({1, layers - top, layers - top + 1, layers} & set(numbers)))
    ax.set_xlim(0, max(17 * 5, main + more))
    ax.grid(False, axis="y")
    ax.legend(fontsize=FONT_SIZE - 1, frameon=False, loc="lower right")
    label(
        ax,
        f"{main} + {more} rows in the top {many(top, 'layer')}",
        "rows in the pass",
        "layer",
    )
    alone, all_of_them = main * layers, main * layers + more * top
    return figure, (
        f"{many(nodes, 'node')} and the last token are {many(main, 'row')} through {many(layers, 'layer')}; with "
        f"{many(streams, 'stream')} behind each, {more} more through the top {top}. Rows × layers: {alone} become "
        f"{all_of_them}, {all_of_them / alone:.2f} times as many."
    )


def pruned_nodes(
    words: Sequence[str], shape: TreeShape, chances: Sequence[float], keep: int, accepted: Sequence[int]
) -> tuple[Figure, str]:
    """Which nodes get streams when the early exit may keep so many, and whether the path ends there.
    Taught in notebook 10.

    Args:
        words, shape: the tree; one node or more.
        chances: of each node's path, by the early exit.
        keep: how many nodes get streams.
        accepted: the accepted path, which the early exit did not know.

    Returns:
        The figure, one bar for each node, and a sentence with those that are kept.

    Raises:
        ValueError: no nodes, or another number of words or chances.
    """
    if not len(shape) or not len(words) == len(chances) == len(shape):
        raise ValueError(
            f"words and chances must hold one for each node, got {len(words)} and {len(chances)} for {len(shape)}"
        )
    order = sorted(range(len(shape)), key=lambda node: -chances[node])
    kept = sorted(order[:keep])
    end = accepted[-1] if accepted else ROOT
    figure, (ax,) = new_figure(width=10.0, height=1.9 + 0.42 * len(shape))
    for node, chance in enumerate(chances):
        look = {"color": GREEN} if node in kept else {"color": "white", "hatch": "//"}
        ax.barh(node, 100 * chance, edgecolor=GREY, height=0.7, **look)
        told = f"{100 * chance:.1f} %" if chance >= 0.001 else "below 0.1 %"
        tail = " ← the accepted path ends here" if node == end else " (accepted)" if node in accepted else ""
        ax.text(100 * chance + 1, node, told + tail, va="center", fontsize=FONT_SIZE - 1)
    paths = [" ".join(shortened(words[i], LONGEST) for i in shape.path(node)) for node in range(len(shape))]
    ax.set_yticks(range(len(shape)), [f"{node}: {path}" for node, path in enumerate(paths)])
    for text in ax.get_yticklabels():
        text.set(parse_math=False)
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    ax.set(xlim=(0, 160), xticks=range(0, 101, 20))  # room for words behind a long bar
    title = f"{many(len(kept), 'node')} of {len(shape)} with streams (filled)"
    label(ax, title, "chance of the node's path, by the early exit, per cent", "node: its path")
    if end == ROOT:
        after = "nothing was accepted, and the row before the drafts always has streams"
    elif end in kept:
        after = f"the accepted path ends at node {end}, which has them"
    else:
        after = f"the accepted path ends at node {end}, which has none: the next round drafts nothing"
    names = ", ".join(map(str, kept)) or "none"
    return figure, f"Of {many(len(shape), 'node')}, those with streams: {names}; {after}."


# ---------------------------------------------------------------- parts


def _check_network(layers: int, top: int, streams: int) -> None:
    if not 1 <= top <= layers:
        raise ValueError(f"top must be between 1 and the {layers} layers, got {top}")
    if streams < 1:
        raise ValueError(f"streams must be 1 or more, got {streams}")


def _block(ax: Axes, column: float, y: float, height: float, colour: str, alpha: float = 0.45) -> None:
    from matplotlib.patches import FancyBboxPatch

    box = FancyBboxPatch((column - 0.33, y), 0.66, height, boxstyle="round,pad=0.0,rounding_size=0.06")
    box.set(facecolor=colour, edgecolor=GREY, linewidth=1.2, alpha=alpha)
    ax.add_patch(box)


def _middle(smaller: int = -2) -> dict:
    return {"ha": "center", "va": "center", "fontsize": FONT_SIZE + smaller}


def _arrow(ax: Axes, start: tuple, end: tuple, colour: str, style: str = "arc3") -> None:
    arrow = {"arrowstyle": "->", "color": colour, "linewidth": 1.8, "connectionstyle": style}
    ax.annotate("", end, start, arrowprops=arrow)


def _cell(ax: Axes, column: int, row: int, colour: str, strong: bool) -> None:
    from matplotlib.patches import Rectangle

    square = Rectangle((column - 0.46, row - 0.42), 0.92, 0.84, edgecolor=GREY, facecolor=colour)
    square.set(linewidth=0.8, alpha=1.0 if strong else 0.4)
    ax.add_patch(square)


def _name(owner: int, mains: Sequence[str]) -> str:
    return f"{owner - 1}: {shortened(mains[owner], LONGEST)}" if owner else shortened(mains[0], LONGEST)
