"""Pictures of margins: how clearly each token of a text was chosen, and what rounding can do about it.

Pure functions: each returns a matplotlib Figure and one sentence that holds its numbers. Nothing is run and nothing is
judged here; verdicts come from `measure.divergence`. No torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .style import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, SERIES, VERMILION, label, new_figure
from .words import many, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from specdec_lab.measure.divergence import Divergence

COLUMNS = 8  # tokens in a row of the map
LONGEST = 9  # characters of a token on the map
LEAST, MOST = 1e-5, 30.0  # the axis of margins
_CLEAR = {"facecolor": "#C9E1EF", "edgecolor": BLUE, "linewidth": 1.2}
_CLOSE = {"facecolor": "#F9DDCB", "edgecolor": VERMILION, "linewidth": 2.0, "hatch": "//"}
_BAND = {"facecolor": "#EDEDED", "edgecolor": GREY, "linewidth": 1.0}
_FULL = 4.0  # a gap that fills its bar: 55 to 1 between the two probabilities


def map_of_margins(
    tokens: Sequence[str], runners_up: Sequence[str], gaps: Sequence[float], margin: float
) -> tuple[Figure, str]:
    """Every token of a text with its gap to the best other token; those within the margin are marked. Notebook 08.

    Args:
        tokens: readable texts (`show/readable.py`), in order; 1 or more.
        runners_up: the best other token at each place.
        gaps: logit of the token minus that of the runner-up.
        margin: a gap of at most this counts as a tie.

    Returns:
        The figure, and a sentence that names the tokens within the margin and what stood against them.
    """
    rows = math.ceil(len(tokens) / COLUMNS)
    figure, (ax,) = new_figure(width=11.0, height=1.3 + 1.25 * rows)
    said = []
    for i, (token, other, gap) in enumerate(zip(tokens, runners_up, gaps, strict=True)):
        x, y = i % COLUMNS, i // COLUMNS
        close = abs(gap) <= margin
        _cell(ax, x, y, shortened(token, LONGEST), shortened(other, LONGEST), gap, close)
        if close:
            said.append(f"‘{token}’ before ‘{other}’ by {gap:.2f}")
    ax.set(xlim=(-0.05, COLUMNS), ylim=(rows - 0.02, -0.05), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.grid(False)
    ax.set_title(
        f"A text as a map of margins; {len(said)} of {len(tokens)} within {margin:g}",
        fontsize=FONT_SIZE + 1,
        loc="left",
    )
    _legend(figure, margin)
    which = "; ".join(said) if len(said) <= 4 else "; ".join([*said[:3], f"and {len(said) - 3} more"])
    return figure, (
        f"Margin {margin:g}: {len(said)} of {len(tokens)} tokens count as ties{': ' if said else ''}{which}."
    )


def _cell(ax: Axes, x: int, y: int, token: str, other: str, gap: float, close: bool) -> None:
    """The token, under it a bar as long as its gap, under that the gap and, where it is close, the other token."""
    from matplotlib.patches import Rectangle

    text = {"va": "center", "parse_math": False}
    ax.text(x + 0.03, y + 0.24, token, fontsize=FONT_SIZE + 1, weight="bold" if close else "normal", **text)
    ax.add_patch(Rectangle((x + 0.03, y + 0.42), 0.88, 0.15, facecolor="none", edgecolor="#BBBBBB"))
    length = 0.88 * min(1.0, max(abs(gap) / _FULL, 0.02))
    ax.add_patch(Rectangle((x + 0.03, y + 0.42), length, 0.15, **(_CLOSE if close else _CLEAR)))
    words = f"≈ {gap:.2f}, {other}" if close else f"{gap:.1f}"
    ax.text(x + 0.03, y + 0.73, words, fontsize=FONT_SIZE - 2, **text)


def _legend(figure: Figure, margin: float) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(**_CLOSE, label=f"≈ gap of at most {margin:g}: counts as a tie; behind it, the runner-up"),
        Patch(**_CLEAR, label=f"clearer than that (a full bar: {_FULL:g} or more)"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=FONT_SIZE - 2, frameon=False)


def share_by_margin(gaps: Sequence[float], margin: float, floors: Mapping[str, float]) -> tuple[Figure, str]:
    """The share of tokens whose gap is at most a margin, over the margin; noise floors marked. Taught in notebook 08.

    Args:
        gaps: of all tokens looked at; 1 or more.
        margin: the one in use.
        floors: name of a number format → the margin that its rounding asks for. Drawn, and compared with `margin`
            in the sentence; their numbers are not repeated there, for they differ from machine to machine.

    Returns:
        The figure, and a sentence with the share at `margin` and on which side of each floor it lies.
    """
    figure, (ax,) = new_figure(width=9.0, height=4.8)
    ordered = sorted(max(abs(gap), LEAST) for gap in gaps)
    shares = [100 * (i + 1) / len(ordered) for i in range(len(ordered))]
    ax.step(
        [LEAST, *ordered, MOST],
        [0.0, *shares, 100.0],
        where="post",
        color=BLUE,
        linewidth=2.6,
        label="tokens with at most this gap",
    )
    sides = []
    for (name, floor), (colour, _, dash) in zip(floors.items(), SERIES[1:], strict=False):
        ax.axvline(
            max(floor, LEAST), color=colour, linestyle=dash, linewidth=2.2, label=f"rounding in {name}"
        )
        sides.append(f"{'above' if margin > floor else 'below'} what rounding in {name} asks for")
    count = sum(abs(gap) <= margin for gap in gaps)
    share = 100 * count / len(ordered)
    ax.plot(margin, share, "o", color="black", markersize=12, markeredgecolor="white", zorder=6)
    ax.annotate(
        f"{share:.1f} %",
        (margin, share),
        (-10, 10),
        textcoords="offset points",
        ha="right",
        fontsize=FONT_SIZE,
    )
    ax.set_xscale("log")
    ax.set_xticks([10.0**k for k in range(-5, 2)], ["0.00001", "0.0001", "0.001", "0.01", "0.1", "1", "10"])
    ax.minorticks_off()
    ax.set(xlim=(LEAST, MOST), ylim=(0, 104))
    label(
        ax,
        f"Margin {margin:g}: {count} of {len(ordered)} tokens count as ties",
        "margin (logits)",
        "share of tokens, %",
    )
    figure.legend(loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, (
        f"Margin {margin:g}: {count} of {len(ordered)} tokens, {share:.1f} %, count as ties. The margin is "
        f"{' and '.join(sides)}."
    )


def gaps_of_divergences(divergences: Mapping[str, Divergence]) -> tuple[Figure, str]:
    """Each difference with its gap in the step, in the block and in float64, over what rounding explains. Notebook 08.

    Right of 0 plain decoding's token is ahead, left of 0 the other one.

    Args:
        divergences: name → difference; 1 to about 12, none of which is a text that ended early.

    Returns:
        The figure, and a sentence with the verdicts and how often float64 sides with the other token.
    """
    from matplotlib.patches import Patch

    count = len(divergences)
    figure, (ax,) = new_figure(width=9.0, height=2.0 + 0.5 * count)
    places = range(count)
    found = list(divergences.values())
    for y, item in zip(places, found, strict=True):
        ax.barh(y, 4 * item.noise, left=-2 * item.noise, height=0.66, **_BAND)
    marks = (
        ("in a step", "gap", BLUE, "o", 14),
        ("in a block", "gap_block", ORANGE, "s", 10),
        ("in float64", "gap_float64", GREEN, "D", 8),
    )
    for name, key, colour, marker, points in marks:
        known = [(getattr(item, key), y) for y, item in zip(places, found, strict=True)]
        known = [(gap, y) for gap, y in known if not math.isnan(gap)]
        if known:
            ax.plot(
                *zip(*known, strict=True),
                marker,
                color=colour,
                markersize=points,
                markeredgecolor="black",
                label=name,
                alpha=0.9,
            )
    ax.axvline(0, color="black", linewidth=1.5)
    names = [f"{name}: {item.kind}" for name, item in divergences.items()]
    ax.set_yticks(list(places), names)
    ax.set_ylim(count - 0.4, -0.6)
    ax.grid(False, axis="y")
    band = max([2 * item.noise for item in found])
    reach = max([band, *(abs(gap) for item in found for gap in (item.gap, item.gap_block))])
    beyond = reach > 4 * band > 0
    if beyond:  # a fault far out would squeeze everything else into one spot
        ax.set_xscale("symlog", linthresh=band, linscale=1.2)
        ax.set_xticks([-10, -1, 0, 1, 10], ["−10", "−1", "0", "1", "10"])
        ax.minorticks_off()
    ax.set_xlim(-(1.3 if beyond else 1.1) * reach, (1.3 if beyond else 1.1) * reach)
    label(ax, "", f"gap (logits{'; logarithmic beyond the bands' if beyond else ''})", "")
    ax.set_title("← the other token ahead    |    plain decoding's ahead →", fontsize=FONT_SIZE + 1)
    handles = [*ax.get_legend_handles_labels()[0], Patch(**_BAND, label="twice the noise")]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=FONT_SIZE - 1, frameon=False)
    exact = [item.gap_float64 for item in found if not math.isnan(item.gap_float64)]
    more = ""
    if exact:
        other = sum(gap < 0 for gap in exact)
        more = (
            f" float64 sides with plain decoding in {len(exact) - other} and with the other token in {other}."
        )
    ties = sum(item.near_tie for item in found)
    return figure, (
        f"{many(count, 'difference')}: {many(ties, 'tie')} and {many(count - ties, 'fault')}; the gap in a step is "
        f"at most {max(abs(item.gap) for item in found):.2f}, twice the noise at most "
        f"{2 * max(item.noise for item in found):.2f}.{more}"
    )
