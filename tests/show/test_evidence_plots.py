"""Pictures of points beside the formulas: what they draw is what they were given, and their sentences count it."""

from __future__ import annotations

import pandas as pd
import pytest

from specdec_lab.measure.published import PUBLISHED
from specdec_lab.measure.theory import speedup
from specdec_lab.show.evidence_plots import (
    measured_over_theory,
    pairs_on_the_map,
    published_over_theory,
    rules_against_fixed,
)
from specdec_lab.show.picture import to_png


def surface():
    rows = [("plain", 0, None, 1.0, 1.0, 1.0, 1.0, 1.0)]
    for dial, measured, model, book in (
        (0.5, (1.2, 1.0), (1.32, 1.0), (1.8, 2.0)),
        (1.0, (1.5, 2.5), (1.5, 2.0), (2, 5)),
    ):
        for gamma, *values in zip((1, 4), measured, model, book, strict=True):
            rows.append(
                (
                    f"gamma={gamma} alpha={dial}",
                    gamma,
                    dial,
                    values[0],
                    values[0] - 0.1,
                    values[0] + 0.2,
                    *values[1:],
                )
            )
    names = ["decoder", "gamma", "dial", "speedup", "speedup_low", "speedup_high", "predicted", "textbook"]
    return pd.DataFrame(rows, columns=names)


def test_the_measured_line_and_all_errors():
    figure, sentence = measured_over_theory(surface(), 0.5)
    assert sentence == (
        "α set to 0.5: measured at best 1.20 at γ = 1, predicted 1.32 at γ = 1. Over all 4 settings the cost model is off "
        "by 5.0 % in the middle and 20 % at most, the textbook by 75 % and 100 %."
    )
    left, right = figure.axes
    (bars,) = left.containers
    assert list(bars.lines[0].get_ydata()) == [1.2, 1.0]
    lines = {line.get_label(): line for line in [*left.lines, *right.lines]}
    assert list(lines["textbook: v = 1, endless"].get_ydata()) == [1.8, 2.0]
    assert len(right.lines[2].get_xdata()) == 4 and len(lines["α set to 0.5"].get_xdata()) == 2
    to_png(figure)


def test_a_dial_that_was_not_measured_is_refused():
    with pytest.raises(ValueError, match=r"dial must be one of 0.5, 1, got 0.7"):
        measured_over_theory(surface(), 0.7)


def v(n):
    return 1 + 0.05 * (n - 1)


def test_pairs_stand_where_they_are():
    pairs = {"good": (0.6, 0.1), "costly": (1.0, 1.0)}
    figure, sentence = pairs_on_the_map(pairs, v, 4)
    left, right = figure.axes[:2]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in right.lines] == list(pairs.values())
    assert left.lines[0].get_ydata()[3] == pytest.approx(speedup(0.6, 4, 0.1, 1.2))
    assert f"good (α = 0.60, c = 0.10) {speedup(0.6, 4, 0.1, 1.2):.2f}, best at γ = " in sentence
    assert sentence.endswith(f"costly (α = 1.00, c = 1.00) {5 / 5.2:.2f}, no γ pays.")
    to_png(figure)
    (legend,) = figure.legends  # beside the vertical line at γ, not under it
    assert [text.get_text() for text in legend.get_texts()] == list(pairs)
    assert not any(legend.get_window_extent().overlaps(ax.get_window_extent()) for ax in (left, right))
    with pytest.raises(ValueError, match="pairs must be 1 to 6, got 0"):
        pairs_on_the_map({}, v, 4)


@pytest.mark.parametrize("draft", dict.fromkeys(item.draft for item in PUBLISHED))
def test_every_printed_point_is_drawn(draft):
    figure, sentence = published_over_theory(draft)
    (ax,) = figure.axes
    drawn = {
        name: line
        for line in ax.lines
        if (name := line.get_label()).split(" (no")[0] in {i.draft for i in PUBLISHED}
    }
    assert sum(len(line.get_ydata()) for line in drawn.values()) == len(PUBLISHED)
    (low, high), (x0, x1) = ax.get_ylim(), ax.get_xlim()
    for line in drawn.values():
        assert all(low < y < high for y in line.get_ydata()) and all(x0 < x < x1 for x in line.get_xdata())
    own = [item for item in PUBLISHED if item.draft == draft]
    assert sentence.startswith(f"{draft}, {own[0].source.authors}, c = ")
    assert sentence.count("printed") == len(own)
    to_png(figure)


def test_an_unknown_draft_is_refused():
    with pytest.raises(ValueError, match=r"draft must be one of T5-small, 77M, .*got 'T5'"):
        published_over_theory("T5")


def test_rules_are_held_against_the_best_fixed_gamma():
    figure, sentence = rules_against_fixed({0: 1.0, 1: 1.4, 2: 1.5}, {"rule": 1.45, "other": 1.6}, "mixed")
    assert (
        sentence
        == "mixed: the best fixed γ is 2 with 1.50; rule reaches 1.45, 3.3 % below it; other reaches 1.60, 6.7 % above it."
    )
    (ax,) = figure.axes
    assert list(ax.lines[0].get_ydata()) == [1.0, 1.4, 1.5]
    to_png(figure)
    with pytest.raises(ValueError, match="1 to 3 rules, got 3 and 0"):
        rules_against_fixed({0: 1.0, 1: 1.4, 2: 1.5}, {}, "mixed")
