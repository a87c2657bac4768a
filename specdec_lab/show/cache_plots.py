"""Pictures about the KV cache: what a step reads and computes, and how a cost grows with the text.

Each is a pure function that returns a matplotlib Figure and the sentence that holds its numbers. Nothing is counted on
a model here; that is `measure.memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from .style import BLUE, FONT_SIZE, GREEN, GREY, SERIES, VERMILION, label, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# colour, mark and meaning; the marks tell the kinds apart, the colours repeat them
NEW = (BLUE, "+", "computed in this step")
AGAIN = (VERMILION, "↻", "computed once more")
KEPT = (GREEN, "■", "read from the cache")
PAST = (GREY, "·", "done in an earlier step")
NOT_YET = "#B0B0B0"


def cache_step(t: int, words: Sequence[str]) -> tuple[Figure, str]:
    """What step t computes and reads without a cache (left) and with one (right). Taught in notebook 02.

    One row for each query, one column for each key, and below them the keys and the values themselves.

    Args:
        t: the token that is fed in this step, 1 … len(words).
        words: the text, a word a token.

    Returns:
        The figure, and a sentence with the counts.

    Raises:
        ValueError: a t outside the text.

    Example:
        `explore(lambda t: cache_step(t, words), t=(1, len(words), 1))`
    """
    if not 1 <= t <= len(words):
        raise ValueError(f"t must lie between 1 and the {len(words)} words there are, got {t}")
    figure, axes = new_figure(panels=2, width=5.0, height=6.0)
    for ax, cached in zip(axes, (False, True), strict=True):
        _draw_step(ax, t, words, cached)
    axes[0].set_ylabel("scores, query by key", fontsize=FONT_SIZE, loc="top")
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=colour, alpha=0.4, label=f"{mark}  {what}")
        for colour, mark, what in (NEW, AGAIN, KEPT, PAST)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=FONT_SIZE, frameon=False)
    old, scores = t - 1, t * (t + 1) // 2
    sentence = (
        f"Step {t}. Computed without a cache: keys {t}, values {t}, scores {scores}; "
        f"of these once more: keys {old}, values {old}, scores {scores - t}. "
        f"Computed with a cache: keys 1, values 1, scores {t}; read from it: keys {old}, values {old}."
    )
    return figure, sentence


def _draw_step(ax: Axes, t: int, words: Sequence[str], cached: bool) -> None:
    n = len(words)
    for query in range(t):
        for key in range(query + 1):
            _square(ax, key, query, NEW if query == t - 1 else PAST if cached else AGAIN)
    for key in range(t):
        for row in (n + 0.5, n + 1.5):
            _square(ax, key, row, NEW if key == t - 1 else KEPT if cached else AGAIN)
    ax.plot([0, n], [n + 0.25, n + 0.25], color=GREY, linewidth=1)
    ax.set(xlim=(0, n), ylim=(n + 2.5, 0), aspect="equal")
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    places = [i + 0.5 for i in range(n)]
    ax.set_xticks(places, words, rotation=45)
    ax.set_yticks([*places, n + 1, n + 2], [*words, "keys", "values"])
    for tick in (*ax.get_xticklabels()[t:], *ax.get_yticklabels()[t:n]):
        tick.set_color(NOT_YET)
    for tick in (ax.get_xticklabels()[t - 1], ax.get_yticklabels()[t - 1]):
        tick.set_weight("bold")
    ax.spines[:].set_visible(False)
    ax.grid(False)
    ax.set_title("with a cache" if cached else "without a cache", fontsize=FONT_SIZE + 1)


def _square(ax: Axes, column: float, row: float, look: tuple[str, str, str]) -> None:
    from matplotlib.patches import Rectangle

    colour, mark, _ = look
    ax.add_patch(Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, facecolor=colour, alpha=0.3))
    ax.text(column + 0.5, row + 0.5, mark, ha="center", va="center", fontsize=FONT_SIZE, weight="bold")


def by_length(
    lengths: Sequence[int],
    curves: Mapping[str, Sequence[float]],
    title: str,
    what: str,
    unit: str,
    log: bool = True,
) -> tuple[Figure, str]:
    """One line for each of `curves` over the number of tokens. Taught in notebook 02.

    Args:
        lengths: tokens, rising, two or more.
        curves: name → one value for each length, up to six names.
        title, what, unit: heading; what is counted, and in what.
        log: whether both axes are logarithmic.

    Returns:
        The figure, and a sentence with the last value of each line.

    Raises:
        ValueError: lengths that do not rise, no curve or more than can be told apart, or one of another length.

    Example:
        `by_length([1, 2, 4], {"cat": [1, 3, 10], "slab": [1, 2, 4]}, "Appending", "copied", "rows")`
    """
    if len(lengths) < 2 or any(b <= a for a, b in pairwise(lengths)):
        raise ValueError(f"lengths must hold two or more rising numbers, got {list(lengths)[:8]}")
    if not 1 <= len(curves) <= len(SERIES):
        raise ValueError(f"curves must be 1 to {len(SERIES)}, got {len(curves)}")
    for name, values in curves.items():
        if len(values) != len(lengths):
            raise ValueError(f"curves[{name!r}] has {len(values)} values for {len(lengths)} lengths")
    figure, (ax,) = new_figure(width=9.0)
    for (name, values), (colour, marker, dash) in zip(curves.items(), SERIES, strict=False):
        look = {"color": colour, "marker": marker, "linestyle": dash, "linewidth": 2.2, "markersize": 8}
        ax.plot(lengths, values, label=name, markevery=0.12, **look)
    if log:
        ax.set(xscale="log", yscale="log")
    ticks = _ticks(lengths[0], lengths[-1], log)
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
    if not log:
        ax.set_ylim(bottom=0)
    label(ax, title, "tokens", f"{what} ({unit})")
    ax.legend(fontsize=FONT_SIZE, frameon=False)
    ends = "; ".join(
        f"{name} = {values[-1]:,.{0 if values[-1] >= 100 else 1}f}" for name, values in curves.items()
    )
    return figure, f"{title}: {what} in {unit} at {lengths[-1]:,} tokens: {ends}."


def _ticks(first: int, last: int, log: bool) -> list[int]:
    """Powers of four, or quarters of the axis; the last length always among them."""
    if not log:
        return [last * k // 4 for k in range(5)]
    powers = [4**k for k in range(20) if first <= 4**k < last / 1.5]
    return [*powers, last]
