"""Pictures of roll-back: both caches around one round, caches that drift, and the work of a generation.

Pure functions: each returns a matplotlib Figure and one sentence that holds its numbers. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from specdec_lab.decoding.rounds import BONUS, CORRECTION, END, PLAIN, Round, Trace

from .cells import CONFIRMED, CUT, STALE, UNFED, Frame, Span, count, frames, held
from .frame_words import token_writer
from .style import BLUE, FONT_SIZE, GREY, SERIES, VERMILION, label, new_figure
from .terminal import WORDS, style_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 13  # positions shown, so that pictures of different γ have the same width
_LOOKS = {  # fill, edge, hatch: no state is told by its colour alone
    CONFIRMED: {"facecolor": "#C9E1EF", "edgecolor": BLUE, "linewidth": 1.2},
    STALE: {"facecolor": "#F9DDCB", "edgecolor": VERMILION, "linewidth": 1.2, "hatch": "//"},
    CUT: {"facecolor": "none", "edgecolor": GREY, "linewidth": 1.2, "linestyle": ":"},
    UNFED: {"facecolor": "none", "edgecolor": GREY, "linewidth": 1.2, "linestyle": "--"},
}
_NAMES = {
    CONFIRMED: "held, and valid",
    STALE: "held, but refused or never judged",
    CUT: "cut",
    UNFED: "in the text, not read yet",
}
_MARKS = style_for("utf-8", colour=False).marks
_ENDS = {
    CORRECTION: " and a correction",
    BONUS: " and a bonus",
    END: ", the last of them an end token, so nothing follows",
    PLAIN: "nothing drafted, one plain token of the target",
}


def caches_of_round(
    trace: Trace, number: int, decode: Callable[[list[int]], str], *, title: str = ""
) -> tuple[Figure, str]:
    """Text and both caches before a round, after its passes, and after its roll-back. Taught in notebook 04.

    Args:
        trace: a recorded run of chains with a draft model.
        number: of the round, from 1.
        decode: ids → text; it is asked for one token at a time.
        title: a heading, which the sentence begins with; "" for "Round … of …".

    Returns:
        The figure, and a sentence with the lengths of both caches.

    Raises:
        ValueError: there is no such round, it drafted a tree, or its drafter has no cache.
    """
    if not 1 <= number <= len(trace.rounds):
        raise ValueError(f"number must be between 1 and {len(trace.rounds)}, got {number}")
    item, shown = trace.rounds[number - 1], frames(trace)
    if item.draft_cache_before is None:
        raise ValueError(f"the drafter of round {number} has no cache")
    before, read, after = shown[4 * number - 4], shown[4 * number - 1], shown[4 * number]
    columns = max(COLUMNS, len(item.drafted) + 4)
    start = max(0, read.base + len(item.drafted) + 1 - columns)
    write = token_writer(decode)

    figure, (ax,) = new_figure(width=11.0, height=6.3)
    made = len(item.drafted)
    old = [("", token) for token in before.sequence]
    judged = [(_MARKS[kind], token) for kind, token in zip(read.verdicts, read.drafted, strict=True)]
    new = [(_MARKS[kind], token) for kind, token in zip(item.origins, item.emitted, strict=True)]
    blocks = (
        ("before the round", before, old, f"{len(old)} tokens"),
        ("after its passes", read, old + judged, f"{len(old)} + {made} guessed"),
        ("after the roll-back", after, old + new, f"{len(old) + len(new)} tokens"),
    )
    beside = {"va": "center", "fontsize": FONT_SIZE - 1}
    for position in range(start, start + columns):
        _write(ax, position, -1.4, str(position), colour=GREY)
    for block, (name, frame, text, length) in enumerate(blocks):
        top = block * 4.0
        ax.text(start - 0.1, top - 0.12, name, fontsize=FONT_SIZE, weight="bold", va="bottom")
        for position, (mark, token) in enumerate(text):
            if position >= start:
                _write(ax, position, top, mark + write(token))
        caches = [frame.target_cache, frame.draft_cache]
        for row, cache in enumerate(caches, 1):
            for span in _now(cache, len(old)) if block == 0 else cache:
                _draw_span(ax, span, start, top + row, frame, write)
        names = ("text", "target's cache", "draft's cache")
        words = (length, *(f"{held(cache)} held" for cache in caches))
        for row, (owner, word) in enumerate(zip(names, words, strict=True)):
            ax.text(start - 0.25, top + row + 0.44, owner, ha="right", **beside)
            ax.text(start + columns + 0.15, top + row + 0.44, word, **beside)
    ax.text(start - 0.25, -0.96, "position", ha="right", color=GREY, **beside)
    marks = "   ".join(f"{_MARKS[kind]} {word}" for kind, word in WORDS.items())
    ax.text(start + columns / 2, 11.3, marks, ha="center", va="center", fontsize=FONT_SIZE - 2)
    ax.set(xlim=(start - 2.6, start + columns + 2.1), ylim=(11.7, -1.5))
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.grid(False)
    heading = title or f"Round {number} of {len(trace.rounds)}"
    ax.set_title(heading, fontsize=FONT_SIZE + 1, loc="left")
    _legend(figure)

    return figure, _round_in_words(heading, item, before, read, after)


def _round_in_words(heading: str, item: Round, before: Frame, read: Frame, after: Frame) -> str:
    made, agreed = len(item.drafted), len(item.accepted)
    what = f"{made} drafted, {agreed} accepted{_ENDS[item.outcome]}" if made else _ENDS[PLAIN]
    target, draft = (
        f"the {name} {held(cache(before))}, then {held(cache(read))}, then {held(cache(after))}"
        for name, cache in (("target's", lambda f: f.target_cache), ("draft's", lambda f: f.draft_cache))
    )
    stale = count(read.target_cache, STALE), count(read.draft_cache, STALE)
    return (
        f"{heading}: {what}; the text grows from {len(before.sequence)} to {len(after.sequence)} tokens. Positions held "
        f"before the round, after its passes and after the roll-back: {target}; {draft}. Cut as stale: "
        f"{stale[0]} and {stale[1]}."
    )


def _now(cache: tuple[Span, ...], length: int) -> list[Span]:
    """A cache as it is between two rounds: what it holds, and what it has not read."""
    holds = held(cache)
    return [Span(CONFIRMED, 0, holds), Span(UNFED, holds, length)]


def _draw_span(
    ax: Axes, span: Span, start: int, row: float, frame: Frame, write: Callable[[int], str]
) -> None:
    from matplotlib.patches import Rectangle

    for position in range(max(span.start, start), span.stop):
        ax.add_patch(Rectangle((position + 0.04, row + 0.05), 0.92, 0.78, **_LOOKS[span.state]))
        if span.state == UNFED:
            continue
        token = frame.text[position] if position < len(frame.text) else frame.sequence[position]
        _write(ax, position, row, write(token), colour="#555555" if span.state == CUT else "black")
        if span.state == CUT:
            ax.plot([position + 0.14, position + 0.86], [row + 0.44] * 2, color=GREY, linewidth=1.4)


def _write(ax: Axes, position: int, row: float, text: str, *, colour: str = "black") -> None:
    from matplotlib.patheffects import withStroke

    text = text if len(text) <= 8 else text[:7] + "…"
    size = FONT_SIZE - 2 if len(text) <= 6 else FONT_SIZE - 4
    look = {"ha": "center", "va": "center", "fontsize": size, "color": colour, "parse_math": False}
    halo = [withStroke(linewidth=3, foreground="white", alpha=0.7)]  # over the hatching
    ax.text(position + 0.5, row + 0.44, text, path_effects=halo, **look)


def _legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(**_LOOKS[state], label=name) for state, name in _NAMES.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=FONT_SIZE - 2, frameon=False)


def cache_drift(runs: Mapping[str, Trace]) -> tuple[Figure, str]:
    """How much longer each cache is than the text, after every round: -1 is right for the target. Taught in notebook 04.

    Args:
        runs: name → a run with a draft model whose record holds what the caches really held; 1 to 6 runs.

    Returns:
        The figure, target left and draft right, and a sentence with the lengths after the last round.
    """
    figure, axes = new_figure(panels=2, width=5.6, height=4.6)
    said = []
    for ax, owner in zip(axes, ("target", "draft"), strict=True):
        ends = []
        for (name, trace), (colour, marker, dash) in zip(runs.items(), SERIES, strict=False):
            drift = _drift(trace, owner)
            look = {"color": colour, "marker": marker, "linestyle": dash, "linewidth": 2.2, "markersize": 7}
            ax.plot(range(1, len(drift) + 1), drift, label=name, markevery=0.1, alpha=0.9, **look)
            ends.append(f"{drift[-1]:+d} for {name}")
        said.append(f"the {owner}'s cache ends at {', '.join(ends)}")
        ax.set_yscale("symlog", linthresh=3, linscale=1)
        ticks = [-3, -2, -1, 0, 1, 2, 10, 100]
        ax.set_yticks(ticks, [f"{tick}".replace("-", "−") for tick in ticks])
        ax.minorticks_off()
        ax.set_ylim(-3.5, 300)  # −3: a round without a draft behind a full acceptance
        label(ax, f"{owner}'s cache", "round", "held − tokens in the text")
        ax.xaxis.get_major_locator().set_params(integer=True)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, f"Cache length minus length of the text after each round: {'; '.join(said)}."


def _drift(trace: Trace, owner: str) -> list[int]:
    length, drift = len(trace.prompt), []
    for item in trace.rounds:
        length += len(item.emitted)
        drift.append((item.target_cache_after if owner == "target" else item.draft_cache_after) - length)
    return drift


def work_by_gamma(
    curves: Mapping[str, Mapping[int, float]],
    points: Mapping[str, Mapping[int, float]] | None = None,
    *,
    title: str,
) -> tuple[Figure, str]:
    """Passes, FLOPs and bytes of a speculative run in units of plain decoding's, against γ. Taught in notebook 04.

    Args:
        curves: name → (γ → factor), drawn as lines: the formula.
        points: the same as counted, drawn as marks; None where nothing was counted.
        title: a heading, which the sentence begins with.

    Returns:
        The figure, and a sentence with the smallest and the last value of each line, or of the marks where there are
        some.
    """
    figure, (ax,) = new_figure(width=9.0, height=4.8)
    said = []
    for (name, line), (colour, marker, dash) in zip(curves.items(), SERIES, strict=False):
        gammas = sorted(line)
        ax.plot(
            gammas,
            [line[gamma] for gamma in gammas],
            color=colour,
            linestyle=dash,
            linewidth=2.2,
            label=name,
            marker=None if points else marker,
            markersize=7,
        )
        told = points[name] if points else line
        if points:
            ax.plot(sorted(told), [told[gamma] for gamma in sorted(told)], marker, color=colour, markersize=9)
        least = min(told, key=told.get)
        last = max(told)
        ending = f" and {told[last]:.2f} at γ = {last}" if last != least else ""
        said.append(f"{name} lowest with {told[least]:.2f} at γ = {least}{ending}")
    ax.axhline(1.0, color=GREY, linewidth=1.5)
    ax.annotate("plain decoding", (1.0, 1.0), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    ax.texts[-1].set(fontsize=FONT_SIZE - 2, color=GREY)
    ax.set_ylim(bottom=0)
    ax.set_xticks([gamma for gamma in gammas if len(gammas) <= 8 or gamma % 2 == 0 or gamma == 1])
    label(ax, title, "γ (most tokens drafted in a round)", "relative to plain decoding")
    ax.legend(fontsize=FONT_SIZE - 1, frameon=False, loc="upper left")
    return figure, f"{title}, relative to plain decoding: {'; '.join(said)}."
