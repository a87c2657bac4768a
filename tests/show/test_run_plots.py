"""Pictures of stored runs: sentences held against rows made by hand, bars and marks against sentences."""

from __future__ import annotations

import pandas as pd
import pytest

from specdec_lab.show.control import Control
from specdec_lab.show.explorer import explore
from specdec_lab.show.picture import to_png
from specdec_lab.show.run_plots import (
    mine_beside,
    speedups_by_task,
    speedups_of_task,
    tokens_per_round_by_task,
)

NAN = float("nan")


def row(task, contender, speedup, theirs=None, equal=4, **more):
    low, high = speedup - 0.25, speedup + 0.5
    counts = {"tokens_per_round": 2 * speedup, "acceptance_rate": 0.5}
    spread = {"speedup": speedup, "speedup_low": low, "speedup_high": high}
    return {
        "task": task,
        "contender": contender,
        "questions": 4,
        "equal": equal,
        "over_transformers": theirs,
        **counts,
        **spread,
        **more,
    }


ROWS = [
    row("copy", "plain", 1.0, 1.125, acceptance_rate=None),
    row("copy", "lookup, γ 8", 4.0, 2.0),
    row("copy", "exit", 0.5, NAN, equal=3),
    row("copy", "transformers lookup, γ 8", 2.0, tokens_per_round=NAN),
    row("chat", "plain", 1.0, 1.125, acceptance_rate=None),
    row("chat", "lookup, γ 8", 1.25, 1.25, equal=2),
]


def words(ax):
    return [text.get_text() for text in ax.texts]


# ---------------------------------------------------------------- tokens per round


def test_tokens_per_round_task_by_task():
    ours = [one for one in ROWS if not one["contender"].startswith("transformers")]
    figure, sentence = tokens_per_round_by_task(ours)
    assert (
        sentence
        == "Tokens per round. copy: plain 2.0, lookup, γ 8 8.0, exit 1.0; chat: plain 2.0, lookup, γ 8 2.5."
    )
    (ax,) = figure.axes
    assert words(ax) == ["2.0", "8.0, 50 % accepted", "1.0, 50 % accepted", "2.0", "2.5, 50 % accepted"]
    assert [bars[0].get_width() for bars in ax.containers] == [2, 8, 1, 2, 2.5]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["copy", "chat"]
    middles = [bars[0].get_y() + bars[0].get_height() / 2 for bars in ax.containers]
    assert middles[1] == pytest.approx(0) and middles == sorted(middles), "a group stands around its tick"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["plain", "lookup, γ 8", "exit"]


@pytest.mark.parametrize(
    ("rows", "message"), [([], "at least one"), ([ROWS[1], ROWS[1]], "once for each task")]
)
def test_no_such_rows(rows, message):
    with pytest.raises(ValueError, match=message):
        tokens_per_round_by_task(rows)


# ---------------------------------------------------------------- speed-ups


@pytest.mark.parametrize(
    "draw", [lambda rows: speedups_by_task(rows, ["exit"]), lambda rows: speedups_of_task(rows, "copy")]
)
def test_no_text_lies_on_the_line_at_one(draw):
    rows = [row("copy", "plain", 1.0), row("copy", "exit", 0.25), row("copy", "lookup", 0.75)]
    (ax,) = draw(rows)[0].axes
    ax.figure.draw_without_rendering()
    assert min(text.get_window_extent().x0 for text in ax.texts) > ax.transData.transform((1, 0))[0]


def test_speedups_of_some_contenders():
    figure, sentence = speedups_by_task(ROWS, ["lookup, γ 8", "exit"], "bfloat16")
    assert sentence == (
        "Speed-up over plain decoding (range). copy: lookup, γ 8 4.00 (3.75 to 4.50), exit 0.50 (0.25 to 1.00); chat: "
        "lookup, γ 8 1.25 (1.00 to 1.75)."
    )
    (ax,) = figure.axes
    assert words(ax) == ["4.00", "0.50", "1.25"] and ax.get_title(loc="left") == "bfloat16"
    with pytest.raises(ValueError, match="head is not"):
        speedups_by_task(ROWS, ["lookup, γ 8", "head"])
    with pytest.raises(ValueError, match="none is not"):
        speedups_by_task(ROWS, [])


def test_all_of_one_task_with_their_counterparts():
    figure, sentence = speedups_of_task(ROWS, "copy", "bfloat16")
    assert sentence == (
        "copy, bfloat16: the best is lookup, γ 8 with 4.00 (3.75 to 4.50), 2.00 times as fast as transformers' own. Slower "
        "than plain: exit. With texts unlike plain decoding's: exit (1 of 4)."
    )
    (ax,) = figure.axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["plain", "lookup, γ 8", "exit"]
    assert words(ax) == ["1.00, 4 of 4 texts equal", "4.00, 4 of 4 texts equal", "0.50, 3 of 4 texts equal"]
    diamonds = {line.get_ydata()[0]: line.get_xdata()[0] for line in ax.lines if line.get_marker() == "D"}
    assert diamonds == {0: pytest.approx(1 / 1.125), 1: 2.0}
    assert (
        "none." in speedups_of_task(ROWS, "chat")[1] and "chat: the best" in speedups_of_task(ROWS, "chat")[1]
    )
    with pytest.raises(ValueError, match="one of copy, chat, got 'tea'"):
        speedups_of_task(ROWS, "tea")


def test_rows_of_a_frame_have_nan_where_there_is_nothing():
    rows = pd.DataFrame(ROWS).to_dict("records")
    assert speedups_of_task(rows, "copy") and speedups_by_task(rows, ["plain"])
    assert words(tokens_per_round_by_task(rows[:2])[0].axes[0])[0] == "2.0"


def test_every_control_of_the_table_changes_the_sentence():
    explorer = explore(lambda task: speedups_of_task(ROWS, task), task=Control(["copy", "chat"]))
    assert len(set(explorer.check(every=True))) == 2


# ---------------------------------------------------------------- mine


def test_mine_stands_beside_the_stored_ones():
    stored = [one | {"whose": "two cores"} for one in ROWS[:3]]
    other = [one | {"whose": "a laptop", "speedup": one["speedup"] + 1} for one in ROWS[1:2]]
    mine = [
        row("copy", "plain", 1.0) | {"whose": "mine"},
        row("copy", "lookup, γ 8", 3.0) | {"whose": "mine"},
    ]
    figure, sentence = mine_beside(pd.DataFrame([*stored, *other, *mine]), "copy")
    assert sentence == (
        "Speed-up over plain decoding; two cores: plain 1.00, lookup, γ 8 4.00; a laptop: lookup, γ 8 5.00; mine: plain "
        "1.00, lookup, γ 8 3.00."
    )
    (ax,) = figure.axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["plain", "lookup, γ 8"], (
        "exit was not run here"
    )
    marks = [
        (line.get_marker(), float(line.get_xdata()[0])) for line in ax.lines if line.get_marker() in "os^"
    ]
    assert marks == [("o", 1.0), ("o", 4.0), ("s", 5.0), ("^", 1.0), ("^", 3.0)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["two cores", "a laptop", "mine"]
    to_png(figure)


def test_nothing_in_common():
    frame = pd.DataFrame([ROWS[0] | {"whose": "them"}, ROWS[1] | {"whose": "mine"}])
    with pytest.raises(ValueError, match="no contender in common"):
        mine_beside(frame)
