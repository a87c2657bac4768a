"""Pictures about timing: their sentences against figures made by hand, their marks against their sentences."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from specdec_lab.show.benchmark_plots import headlines_moved, tokens_over_time, turns_in_order
from specdec_lab.show.picture import to_png

# ---------------------------------------------------------------- order

BLOCKS = [("plain", 0.4), ("plain", 0.5), ("speculative", 0.3), ("speculative", 0.3)]


def test_the_ratio_of_an_order_and_its_error():
    figure, sentence = turns_in_order(BLOCKS, truth=2.0)
    assert sentence == (
        "In the order PPSS: plain takes 450 milliseconds on average and speculative 300, a ratio of 1.50 where 2.00 "
        "is true: 25.0 % too low."
    )
    (ax,) = figure.axes
    bars = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for c in ax.containers for bar in c}
    assert bars == pytest.approx({1: 400, 2: 500, 3: 300, 4: 300})
    assert "1.50 measured, 2.00 true" in ax.get_title(loc="left")


def test_who_begins_changes_neither_ratio_nor_colours():
    (one, _), (other, sentence) = turns_in_order(BLOCKS, 1.5), turns_in_order(BLOCKS[::-1], 1.5)
    assert "In the order SSPP" in sentence and sentence.endswith("is true: as it should.")
    colours = [
        {c.get_label(): c.patches[0].get_facecolor() for c in figure.axes[0].containers}
        for figure in (one, other)
    ]
    assert colours[0] == colours[1] and len(set(colours[0].values())) == 2


def test_too_high_is_told_as_well():
    assert "a ratio of 1.50 where 1.00 is true: 50.0 % too high." in turns_in_order(BLOCKS, 1.0)[1]


@pytest.mark.parametrize("turns", [[], BLOCKS[:2], [*BLOCKS, ("third", 1.0)]])
def test_an_order_has_two_contenders(turns):
    with pytest.raises(ValueError, match="two contenders"):
        turns_in_order(turns, 1.0)


# ---------------------------------------------------------------- mistakes

MOVED = {"first": (1.5, 3.0), "second": (80.0, 60.0), "third": (1.25, 1.25)}


def test_every_factor_is_drawn_and_said():
    figure, sentence = headlines_moved(MOVED)
    assert sentence == "Told ÷ honest: first 2.00; second 0.75; third 1.00."
    (ax,) = figure.axes
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for container in ax.containers for bar in container]
    assert [begin for begin, _ in ends] == [1, 1, 1]
    assert [end for _, end in ends] == pytest.approx([2, 0.75, 1])
    words = [text.get_text() for text in ax.texts]
    assert words == ["×2.00   1.50 → 3.00", "×0.75   80 → 60", "×1.00   1.25 → 1.25"]
    assert [text.get_text() for text in ax.get_yticklabels()] == list(MOVED)


@pytest.mark.parametrize("factor", [0.1, 1.0, 40.0])
def test_bars_and_words_stay_inside_the_axes(factor):
    figure, _ = headlines_moved({"only": (1.0, factor)})
    to_png(figure)
    (ax,) = figure.axes
    assert ax.get_xlim()[0] < min(factor, 1) and ax.get_xlim()[1] > max(factor, 1)
    assert ax.texts[0].get_window_extent().x1 <= ax.bbox.x1


def test_no_mistake_is_no_picture():
    with pytest.raises(ValueError, match="at least one"):
        headlines_moved({})


# ---------------------------------------------------------------- arrivals


@dataclass(frozen=True)
class Arrived:
    seconds: float
    arrivals: tuple[float, ...]
    gaps: list[float]


PLAIN = Arrived(0.4, (0.1, 0.2, 0.3, 0.4), [0.1, 0.1, 0.1])
BURSTS = Arrived(0.3, (0.15, 0.3), [0.0, 0.15, 0.0])


def test_stairs_and_waits():
    figure, sentence = tokens_over_time({"plain": PLAIN, "speculative": BURSTS})
    assert sentence == (
        "plain: first token after 100 milliseconds, then 100.0 between two tokens on average, 100 at most, and 0 of 3 "
        "with no wait at all; speculative: first token after 150 milliseconds, then 50.0 between two tokens on "
        "average, 150 at most, and 2 of 3 with no wait at all."
    )
    stairs, waits = figure.axes
    lines = {line.get_label(): line for line in stairs.lines}
    assert list(lines["speculative"].get_xdata()) == pytest.approx([0, 150, 150, 300, 300])
    assert list(lines["speculative"].get_ydata()) == [0, 1, 2, 3, 4]
    points = {line.get_label(): line for line in waits.lines}
    assert list(points["speculative"].get_xdata()) == [2, 3, 4]
    assert list(points["speculative"].get_ydata()) == pytest.approx([0, 150, 0])
    assert [text.get_text() for text in figure.legends[0].texts] == ["plain", "speculative"]


def test_one_token_has_no_waits():
    figure, sentence = tokens_over_time({"plain": Arrived(0.1, (0.1,), [])})
    assert sentence == "plain: one token, after 100 milliseconds."
    to_png(figure)


def test_how_many_decodes_can_be_told_apart():
    for many in (0, 7):
        with pytest.raises(ValueError, match="1 to 6"):
            tokens_over_time({str(n): PLAIN for n in range(many)})
