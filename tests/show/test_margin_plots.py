"""Pictures of margins: their sentences against counts made by hand, their marks against their sentences."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex

from specdec_lab.measure.divergence import Divergence
from specdec_lab.show.control import Control
from specdec_lab.show.explorer import explore
from specdec_lab.show.margin_plots import gaps_of_divergences, map_of_margins, share_by_margin
from specdec_lab.show.picture import to_png
from specdec_lab.show.style import VERMILION

TOKENS = ["To", "␣be", "␣or", "␣not", "↵", "$x$", "a" * 30, "?", "␣that", "␣is"]
OTHERS = ["Or", "␣see", ",", "␣no", "␣", "$", "b" * 30, "!", "␣this", "␣was"]
GAPS = [0.05, 3.0, 0.2, 9.0, 0.5, 1.0, 0.75, 2.0, 0.15, 6.0]
FLOORS = {"float32": 0.002, "bfloat16": 0.5}


def words(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


# ---------------------------------------------------------------- the map


def test_the_map_names_what_counts_as_a_tie():
    _, sentence = map_of_margins(TOKENS, OTHERS, GAPS, 0.2)
    assert sentence == (
        "Margin 0.2: 3 of 10 tokens count as ties: ‘To’ before ‘Or’ by 0.05; ‘␣or’ before ‘,’ by 0.20; "
        "‘␣that’ before ‘␣this’ by 0.15."
    )
    assert map_of_margins(TOKENS, OTHERS, GAPS, 0.01)[1] == "Margin 0.01: 0 of 10 tokens count as ties."


def test_many_ties_are_counted_and_not_all_named():
    _, sentence = map_of_margins(TOKENS, OTHERS, GAPS, 2)
    assert sentence.startswith("Margin 2: 7 of 10 tokens count as ties: ‘To’") and sentence.endswith(
        "; and 4 more."
    )


def test_every_token_has_its_gap_and_a_close_one_its_rival():
    figure, _ = map_of_margins(TOKENS, OTHERS, GAPS, 0.2)
    texts = words(figure)
    assert len(texts) == 2 * len(TOKENS)
    assert texts[0::2] == [token if len(token) <= 9 else token[:8] + "…" for token in TOKENS]
    assert texts[1::2] == [
        "≈ 0.05, Or",
        "3.0",
        "≈ 0.20, ,",
        "9.0",
        "0.5",
        "1.0",
        "0.8",
        "2.0",
        "≈ 0.15, ␣this",
        "6.0",
    ]


def test_a_tie_is_told_by_more_than_its_colour():
    figure, _ = map_of_margins(TOKENS, OTHERS, GAPS, 0.2)
    bars = figure.axes[0].patches[1::2]  # each token has a frame and, in it, its bar
    close = [bar for bar in bars if bar.get_hatch()]
    assert len(bars) == 10 and [bars.index(bar) for bar in close] == [0, 2, 8]
    assert {to_hex(bar.get_edgecolor()).upper() for bar in close} == {VERMILION}
    bold = [text.get_text() for text in figure.axes[0].texts if text.get_weight() == "bold"]
    assert bold == ["To", "␣or", "␣that"]


def test_bars_grow_with_the_gap_and_never_leave_their_frame():
    figure, _ = map_of_margins(TOKENS, OTHERS, GAPS, 0.2)
    patches = figure.axes[0].patches
    lengths = {gap: bar.get_width() for gap, bar in zip(GAPS, patches[1::2], strict=True)}
    assert [lengths[gap] for gap in sorted(lengths)] == sorted(lengths.values())
    assert lengths[2.0] == pytest.approx(2 * lengths[1.0]) and lengths[9.0] == patches[0].get_width()
    to_png(figure)  # dollars and long tokens do no harm


def test_a_token_that_plain_decoding_did_not_choose_is_close_by_its_distance():
    """Gaps below 0 occur where a text is not the target's own."""
    _, sentence = map_of_margins(["a", "b"], ["c", "d"], [-0.1, -3.0], 0.2)
    assert sentence == "Margin 0.2: 1 of 2 tokens count as ties: ‘a’ before ‘c’ by -0.10."


# ---------------------------------------------------------------- shares


@pytest.mark.parametrize(
    ("margin", "sentence"),
    [
        (
            0.0001,
            "0 of 10 tokens, 0.0 %, count as ties. The margin is below what rounding in float32 asks for and below",
        ),
        (
            0.2,
            "3 of 10 tokens, 30.0 %, count as ties. The margin is above what rounding in float32 asks for and below",
        ),
        (
            2,
            "7 of 10 tokens, 70.0 %, count as ties. The margin is above what rounding in float32 asks for and above",
        ),
    ],
)
def test_the_share_and_its_side_of_the_floors(margin, sentence):
    said = share_by_margin(GAPS, margin, FLOORS)[1]
    assert said == f"Margin {margin:g}: {sentence} what rounding in bfloat16 asks for."


def test_the_curve_passes_through_the_marked_point_and_ends_at_all():
    figure, _ = share_by_margin(GAPS, 0.3, FLOORS)
    (ax,) = figure.axes
    curve, *floors, point = ax.lines
    below = [y for x, y in zip(*curve.get_data(), strict=True) if x <= 0.3]
    assert below[-1] == 30 and [*map(float, point.get_xydata()[0])] == [0.3, 30]
    assert curve.get_ydata()[-1] == 100 and sorted(curve.get_ydata()) == list(curve.get_ydata())
    assert [line.get_xdata()[0] for line in floors] == [0.002, 0.5]
    assert len({line.get_linestyle() for line in floors}) == 2
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["tokens with at most this gap", "rounding in float32", "rounding in bfloat16"]


def test_exact_ties_and_no_noise_fit_on_the_axis():
    figure, said = share_by_margin([0.0, 0.0, 1.0], 0.001, {"float32": 0.0})
    assert said.startswith("Margin 0.001: 2 of 3 tokens, 66.7 %")
    to_png(figure)


# ---------------------------------------------------------------- differences


def found(gap, block, exact=math.nan, noise=0.2, tie=True):
    return Divergence(5, 1, 2, gap, noise, tie, block, exact)


def test_differences_are_counted_by_verdict_and_by_the_referee():
    items = {
        "token 5": found(0.1, -0.1, -0.05),
        "token 9": found(0.3, 0.0, 0.2),
        "token 12": found(3, 3, 3.1, tie=False),
    }
    figure, sentence = gaps_of_divergences(items)
    assert sentence == (
        "3 differences: 2 ties and 1 fault; the gap in a step is at most 3.00, twice the noise at most 0.40. "
        "float64 sides with plain decoding in 2 and with the other token in 1."
    )
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "token 5: tie",
        "token 9: tie",
        "token 12: fault",
    ]
    marks = {
        line.get_label(): list(line.get_xdata()) for line in ax.lines if line.get_label().startswith("in ")
    }
    assert marks == {
        "in a step": [0.1, 0.3, 3],
        "in a block": [-0.1, 0.0, 3],
        "in float64": [-0.05, 0.2, 3.1],
    }
    assert len({line.get_marker() for line in ax.lines if line.get_label().startswith("in ")}) == 3


def test_without_float64_nothing_is_said_of_it():
    figure, sentence = gaps_of_divergences({"token 5": found(0.1, -0.1)})
    assert (
        sentence
        == "1 difference: 1 tie and 0 faults; the gap in a step is at most 0.10, twice the noise at most 0.40."
    )
    assert "in float64" not in {line.get_label() for line in figure.axes[0].lines}


def test_the_band_is_twice_the_noise_and_zero_lies_in_the_middle():
    figure, _ = gaps_of_divergences({"a": found(0.1, 0.0, noise=0.2), "b": found(0.1, 0.0, noise=0.05)})
    (ax,) = figure.axes
    assert [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches] == [
        (-0.4, pytest.approx(0.4)),
        (-0.1, pytest.approx(0.1)),
    ]
    low, high = ax.get_xlim()
    assert low == -high and high > 0.4


def test_a_fault_far_out_does_not_hide_the_ties():
    figure, _ = gaps_of_divergences({"a": found(0.1, -0.1), "b": found(10.0, 10.0, tie=False)})
    (ax,) = figure.axes
    assert ax.get_xscale() == "symlog" and "logarithmic" in ax.get_xlabel()
    left, right = (ax.transData.transform((x, 0))[0] for x in (-0.4, 0.4))
    assert (right - left) > 0.2 * ax.get_window_extent().width
    no_noise, _ = gaps_of_divergences({"a": found(2.0, 2.0, noise=0.0, tie=False)})
    assert no_noise.axes[0].get_xscale() == "linear"


# ---------------------------------------------------------------- all


def test_sliders_move_every_picture():
    open_before = plt.get_fignums()
    margins = Control([0.001, 0.1, 1, 5], default=0.1)
    for draw in (
        lambda margin: map_of_margins(TOKENS, OTHERS, GAPS, margin),
        lambda margin: share_by_margin(GAPS, margin, FLOORS),
    ):
        sentences = explore(draw, margin=margins).check(every=True)
        assert len(set(sentences)) == 4
    assert plt.get_fignums() == open_before
