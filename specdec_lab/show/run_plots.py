"""Pictures of stored runs, task by task: tokens per round, speed-ups with their ranges, and a reader's run beside them.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. Rows come from
`measure/runs.py`, and `benchmarks/real_speed.py` makes them; nothing runs and nothing is timed here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .style import BLUE, FONT_SIZE, SERIES, SKY, VERMILION, bar_look, label, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLAIN, THEIRS = "plain", "transformers"

# ---------------------------------------------------------------- tasks


def tokens_per_round_by_task(rows: Sequence[Mapping[str, Any]]) -> tuple[Figure, str]:
    """Tokens per round of each drafter on each task. Taught in notebook 11.

    Args:
        rows: {"task", "contender", "tokens_per_round", "acceptance_rate"} each; the rate may be None or NaN.

    Returns:
        The figure, one group of bars for each task, and a sentence with all values.

    Raises:
        ValueError: no rows, or two of one contender and task.
    """
    table, tasks, contenders = _table(rows)
    figure, ax = _groups(tasks, contenders)
    for i, task in enumerate(tasks):
        for j, contender in enumerate(contenders):
            row = table.get((task, contender))
            if row is None:
                continue
            rate = row.get("acceptance_rate")
            accepted = "" if _missing(rate) else f", {100 * rate:.0f} % accepted"
            _bar(ax, i, j, len(contenders), row["tokens_per_round"])
            _beside(
                ax, row["tokens_per_round"], i, j, len(contenders), f"{row['tokens_per_round']:.1f}{accepted}"
            )
    ax.set_xlim(0, 1.45 * max(row["tokens_per_round"] for row in rows))
    ax.axvline(1, color="black", linewidth=1.8, linestyle="--")
    label(ax, "", "tokens per round (plain decoding: 1)", "")
    return figure, _said(
        table, tasks, contenders, lambda row: f"{row['tokens_per_round']:.1f}", "Tokens per round"
    )


def speedups_by_task(
    rows: Sequence[Mapping[str, Any]], contenders: Sequence[str], title: str = "Measured"
) -> tuple[Figure, str]:
    """Speed-up over plain decoding of some contenders on each task, with its range. Taught in notebook 11.

    Args:
        rows: {"task", "contender", "speedup", "speedup_low", "speedup_high"} each, of a stored run.
        contenders: which of them, in order; up to six.

    Returns:
        The figure, one group of bars for each task, and a sentence with all values and ranges.

    Raises:
        ValueError: no such contender, or two rows of one contender and task.
    """
    table, tasks, _ = _table(rows)
    missing = [name for name in contenders if name not in {contender for _, contender in table}]
    if missing or not contenders:
        raise ValueError(f"contenders must be in the rows, {', '.join(missing) or 'none'} is not")
    figure, ax = _groups(tasks, contenders)
    shown = [row for (_, name), row in table.items() if name in contenders]
    for i, task in enumerate(tasks):
        for j, contender in enumerate(contenders):
            row = table.get((task, contender))
            if row is None:
                continue
            _bar(ax, i, j, len(contenders), row["speedup"])
            _whisker(ax, row, _place(i, j, len(contenders)))
            _beside(ax, row["speedup_high"], i, j, len(contenders), f"{row['speedup']:.2f}")
    ax.set_xlim(0, 1.2 * _right(max(row["speedup_high"] for row in shown)))
    ax.axvline(1, color="black", linewidth=1.8, linestyle="--")
    label(ax, title, "speed-up over plain decoding", "")
    return figure, _said(table, tasks, contenders, _speedup_in_words, "Speed-up over plain decoding (range)")


def speedups_of_task(rows: Sequence[Mapping[str, Any]], task: str, title: str = "") -> tuple[Figure, str]:
    """Every contender on one task: range, equal texts, and where transformers' own stands. Taught in notebook 11.

    Args:
        rows: of a stored run; beside those of `speedups_by_task` "equal", "questions", "over_transformers" (ours ÷ theirs,
            None or NaN where they have no counterpart).
        task: one of theirs.

    Returns:
        The figure, one bar for each contender of ours with a diamond where its counterpart stands, and a sentence with
        the best, its range, how it compares, and how many texts differ.

    Raises:
        ValueError: no such task.
    """
    found = [row for row in rows if row["task"] == task and not row["contender"].startswith(THEIRS)]
    if not found:
        raise ValueError(
            f"task must be one of {', '.join(dict.fromkeys(row['task'] for row in rows))}, got {task!r}"
        )
    figure, (ax,) = new_figure(width=10.0, height=2.0 + 0.52 * len(found))
    most = _right(max(row["speedup_high"] for row in found))
    for place, row in enumerate(found):
        slower = row["speedup"] < 1
        look = {"color": "white" if slower else SKY, "edgecolor": VERMILION if slower else BLUE}
        ax.barh(place, row["speedup"], height=0.66, hatch="//" if slower else "", linewidth=1.4, **look)
        _whisker(ax, row, place)
        theirs = row.get("over_transformers")
        if not _missing(theirs):
            ax.plot(
                row["speedup"] / theirs,
                place,
                "D",
                color="black",
                markersize=9,
                markerfacecolor="white",
                zorder=5,
            )
        equal = f"{row['speedup']:.2f}, {row['equal']} of {row['questions']} texts equal"
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        words = {"textcoords": "offset points", "va": "center", "fontsize": FONT_SIZE - 1, "bbox": paper}
        ax.annotate(equal, (_right(row["speedup_high"]), place), (9, 0), **words)
    ax.axvline(1, color="black", linewidth=1.8, linestyle="--")
    ax.set(xlim=(0, 1.7 * most), yticks=range(len(found)))
    ax.set_yticklabels([row["contender"] for row in found])
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    label(ax, f"{task}{', ' * bool(title)}{title}", "speed-up over plain decoding; ◇ transformers' own", "")
    best = max(found, key=lambda row: row["speedup"])
    slower = [row["contender"] for row in found if row["speedup"] < 1 and row["contender"] != PLAIN]
    beside = best.get("over_transformers")
    more = "" if _missing(beside) else f", {beside:.2f} times as fast as transformers' own"
    differ = [row for row in found if row["equal"] < row["questions"]]
    return figure, (
        f"{task}{', ' * bool(title)}{title}: the best is {best['contender']} with {_speedup_in_words(best)}{more}. "
        f"Slower than plain: {', '.join(slower) or 'none'}. "
        f"With texts unlike plain decoding's: {', '.join(_unequal(row) for row in differ) or 'none'}."
    )


# ---------------------------------------------------------------- a run of the reader's own


def mine_beside(frame: Any, title: str = "") -> tuple[Figure, str]:
    """A reader's speed-ups beside stored ones, with their ranges. Taught in notebook 11.

    Args:
        frame: as `measure.runs.with_mine` gives it, of one task; contenders that the reader did not run are left out.

    Returns:
        The figure, one row for each contender and one mark in it for each run, and a sentence.

    Raises:
        ValueError: nothing that the reader and a stored run have in common.
    """
    runs = list(dict.fromkeys(frame["whose"]))
    rows = frame.to_dict("records")
    by = {(row["whose"], row["contender"]): row for row in rows}
    contenders = [name for name in dict.fromkeys(row["contender"] for row in rows) if (runs[-1], name) in by]
    contenders = [name for name in contenders if any((whose, name) in by for whose in runs[:-1])]
    if not contenders:
        raise ValueError("the runs have no contender in common")
    figure, (ax,) = new_figure(width=10.0, height=2.4 + 0.4 * len(contenders) * len(runs))
    said = []
    for number, whose in enumerate(runs):
        colour, marker, _ = SERIES[number % len(SERIES)]
        its_rows = [(i, by[whose, name]) for i, name in enumerate(contenders) if (whose, name) in by]
        for turn, (place, row) in enumerate(its_rows):
            y = place + 0.22 * (number - (len(runs) - 1) / 2)
            _whisker(ax, row, y, colour)
            look = {"color": colour, "markersize": 11, "markeredgecolor": "black"}
            ax.plot(row["speedup"], y, marker, label=whose if not turn else "", **look)
        its = [f"{name} {by[whose, name]['speedup']:.2f}" for name in contenders if (whose, name) in by]
        said.append(f"{whose}: {', '.join(its)}")
    ax.axvline(1, color="black", linewidth=1.8, linestyle="--")
    ax.set_yticks(range(len(contenders)), contenders)
    ax.set(ylim=(len(contenders) - 0.5, -0.5))
    ax.set_xlim(left=0)
    ax.grid(False, axis="y")
    label(ax, title, "speed-up over plain decoding", "")
    figure.legend(loc="outside lower center", ncols=1, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, f"Speed-up over plain decoding; {'; '.join(said)}."


# ---------------------------------------------------------------- parts


def _table(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[tuple[str, str], Mapping], list[str], list[str]]:
    """(task, contender) → row; tasks and contenders in order."""
    if not rows:
        raise ValueError("rows must hold at least one, got none")
    table = {(row["task"], row["contender"]): row for row in rows}
    if len(table) < len(rows):
        raise ValueError("rows must hold each contender once for each task")
    return table, list(dict.fromkeys(t for t, _ in table)), list(dict.fromkeys(c for _, c in table))


def _groups(tasks: Sequence[str], contenders: Sequence[str]) -> tuple[Figure, Axes]:
    """Axes with a group of rows for each task, and a legend of the contenders."""
    from matplotlib.patches import Patch

    height = 2.0 + len(tasks) * (0.3 + 0.36 * len(contenders))
    figure, (ax,) = new_figure(width=10.0, height=height)
    ax.set_yticks(range(len(tasks)), tasks)
    ax.set_ylim(len(tasks) - 0.5, -0.5)
    ax.grid(False, axis="y")
    patches = [Patch(label=name, edgecolor="white", **bar_look(j)) for j, name in enumerate(contenders)]
    figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, ax


def _place(group: int, number: int, count: int) -> float:
    return group + 0.84 * ((number + 0.5) / count - 0.5)


def _bar(ax: Axes, group: int, number: int, count: int, value: float) -> None:
    ax.barh(
        _place(group, number, count), value, height=0.84 / count * 0.9, edgecolor="white", **bar_look(number)
    )


def _whisker(ax: Axes, row: Mapping[str, Any], place: float, colour: str = "black") -> None:
    low = max(row["speedup"] - row["speedup_low"], 0.0)
    high = max(row["speedup_high"] - row["speedup"], 0.0)
    look = {"fmt": "none", "ecolor": colour, "capsize": 4, "linewidth": 1.8}
    ax.errorbar([row["speedup"]], [place], xerr=[[low], [high]], **look)


def _beside(ax: Axes, x: float, group: int, number: int, count: int, text: str) -> None:
    where = _right(x), _place(group, number, count)
    ax.annotate(text, where, (8, 0), textcoords="offset points", va="center")
    ax.texts[-1].set_fontsize(FONT_SIZE - 2)


def _right(x: float) -> float:
    """Where a text beside a bar begins: right of the line at 1 too, which would strike it through."""
    return max(x, 1.0)


def _said(table, tasks, contenders, words, what: str) -> str:
    said = []
    for task in tasks:
        its = [f"{name} {words(table[task, name])}" for name in contenders if (task, name) in table]
        said.append(f"{task}: {', '.join(its)}")
    return f"{what}. {'; '.join(said)}."


def _speedup_in_words(row: Mapping[str, Any]) -> str:
    return f"{row['speedup']:.2f} ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})"


def _unequal(row: Mapping[str, Any]) -> str:
    return f"{row['contender']} ({row['questions'] - row['equal']} of {row['questions']})"


def _missing(value: Any) -> bool:
    return value is None or math.isnan(value)
