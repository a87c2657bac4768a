"""What a run of a decoder shows from outside: seven numbers, its passes in order, and a picture beside the correct loop.

It counts what the models of an audited run wrote down (`audit.py`) and judges nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from specdec_lab.show.style import BLUE, FONT_SIZE, GREY, VERMILION, label, new_figure

from .audit import Case, Decoder, Run, common_length, run_case
from .judgements import DRAFT, TARGET, foreign_entry_by_round
from .plain_loop import PlainLoop

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 8.0  # the axis ends at this ratio; what lies beyond is drawn as an arrow


def symptoms(run: Run) -> dict[str, float]:
    """Name → number: tokens, acceptance rate, passes and tokens read. Taught in notebook 12.

    "right tokens" are those before the first wrong one. Where there was no answer, all that stands in it is 0.

    >>> case = Case(6, 2)
    >>> symptoms(run_case(PlainLoop().decode, case))["target passes"]
    2
    """
    start = len(run.case.prompt)
    new, due = run.sequence[start:], run.case.truth()[start:]
    return {
        "new tokens": len(new),
        "right tokens": common_length(new, due),
        "acceptance rate": run.rate,
        "target passes": run.target.passes,
        "draft passes": run.draft.passes,
        "tokens read by the target": run.target.fed_tokens,
        "tokens read by the draft": run.draft.fed_tokens,
    }


class Pass(NamedTuple):
    """One pass of a model: what its cache held before, and what was fed. `model` is "target" or "draft"."""

    model: str
    held: list[int]
    fed: list[int]


def passes_in_order(run: Run) -> list[Pass]:
    """The passes of both models, as they came one after another. Taught in notebook 12.

    >>> for item in passes_in_order(run_case(PlainLoop().decode, Case(2, 1, prompt=(4,)))):
    ...     print(item.model, item.held, len(item.fed))
    draft [] 1
    target [] 2
    """
    seen = {TARGET: iter(run.target.passes_seen), DRAFT: iter(run.draft.passes_seen)}
    return [Pass(name, *next(seen[name])) for name in run.target.order]


def symptom_picture(decoder: Decoder, case: Case) -> tuple[Figure, str]:
    """Each number of a run ÷ that of the correct loop on the same case, on a log axis. Taught in notebook 12.

    Args:
        decoder: signature and answer of `speculative_decode`; its `repr` is the title.
        case: what it is asked.

    Returns:
        The figure, and a sentence with all numbers. Both say of each cache whether it held anything but what belongs in
        it, and since which round.
    """
    run, right = run_case(decoder, case), run_case(PlainLoop().decode, case)
    found, due = symptoms(run), symptoms(right)
    heading = f"{decoder!r}, γ = {case.gamma}, a draft that {case.draft}"
    state = "no answer" if run.problem else ", ".join(_state(run, name) for name in (TARGET, DRAFT))

    figure, (ax,) = new_figure(width=10.5, height=4.6)
    for row, (name, value) in enumerate(found.items()):
        _draw(ax, row, value, due[name])
    ax.axvline(1.0, color=GREY, linewidth=1.5, linestyle="--", zorder=1)
    ax.set_xscale("log", base=2)
    ax.set_xlim(0.85 / MOST, 1.18 * MOST)
    ticks = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8]
    ax.set_xticks(ticks, ["÷ 8", "÷ 4", "÷ 2", "the same", "× 2", "× 4", "× 8"])
    ax.set_yticks(range(len(found)), list(found))
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.minorticks_off()
    label(ax, f"{heading}\n{state}", "number ÷ that of the correct loop", "")

    numbers = "; ".join(
        f"{name} {_short(value)} (right: {_short(due[name])})" for name, value in found.items()
    )
    problem = f"; {run.problem.rstrip('.')}" if run.problem else ""
    return figure, f"{heading}: {numbers}; {state}{problem}."


def _draw(ax: Axes, row: int, value: float, due: float) -> None:
    """A dot where the number is right, and else a bar from 1 to the ratio: never told by colour alone."""
    beside = {
        "xycoords": ("axes fraction", "data"),
        "va": "center",
        "fontsize": FONT_SIZE - 1,
        "annotation_clip": False,
    }
    ax.annotate(_short(value), (1.09, row), ha="right", weight="normal" if value == due else "bold", **beside)
    ax.annotate(f"right: {_short(due)}", (1.12, row), color="#404040", **beside)
    if value == due:
        ax.plot([1.0], [row], "o", color=BLUE, markersize=11)
        return
    ratio = value / due if due else MOST * 2
    shown = min(max(ratio, 1 / MOST), MOST)
    ax.plot([1.0, shown], [row, row], color=VERMILION, linewidth=9, solid_capstyle="butt")
    marker = ">" if ratio > MOST else "<" if ratio < 1 / MOST else "s"
    ax.plot([shown], [row], marker, color=VERMILION, markersize=13)


def _state(run: Run, name: str) -> str:
    found = foreign_entry_by_round(run, name)
    since = re.search(r"in round (\d+)", found or "")
    return f"{name}'s cache {f'wrong from round {since[1]} on' if since else 'clean'}"


def _short(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
