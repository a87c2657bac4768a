"""Pictures about passes: their sentences against numbers worked out here, and what they draw."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import pytest

from specdec_lab.measure.machines import BYTES, MACHINES
from specdec_lab.measure.passes import PassTimes
from specdec_lab.show.cost_plots import (
    bandwidth_reached,
    ceiling_by_bandwidth,
    roofline_verify_cost,
    verify_cost_by_tokens,
)
from specdec_lab.show.picture import to_png

CURVES = {"small": {1: 2.0, 3: 2.5, 5: 3.0}, "wide": {1: 4.0, 3: 8.0, 5: 9.0}}


def named(figure, name):
    """The line of the only axes with this label."""
    (line,) = [line for line in figure.axes[0].lines if line.get_label() == name]
    return line


def texts(figure):
    for ax in figure.axes:
        legend = ax.get_legend()
        yield from [ax.xaxis.label, ax.yaxis.label, ax.title, *ax.get_xticklabels(), *ax.get_yticklabels()]
        yield from [*ax.texts, *(legend.get_texts() if legend else [])]


# ---------------------------------------------------------------- the ceiling


@pytest.mark.parametrize(
    ("billions", "precision", "bandwidth", "size", "rate"),
    [
        (8, "bfloat16", 90, "16", "5.62"),
        (70, "int4", 3350, "35", "95.71"),
        (405, "float32", 10, "1620", "0.0062"),
    ],
)
def test_the_ceiling_by_hand(billions, precision, bandwidth, size, rate):
    figure, sentence = ceiling_by_bandwidth(billions, precision, bandwidth)
    assert f"in {precision} are {size} GB" in sentence and f"at most {rate} tokens per second" in sentence
    (x,), (y,) = next(line for line in figure.axes[0].lines if line.get_marker() == "o").get_data()
    assert x == bandwidth and y == pytest.approx(float(rate), rel=5e-3)
    left, right = named(figure, precision).get_data()
    assert right[0] == pytest.approx(left[0] / float(size)) and right[1] == pytest.approx(
        left[1] / float(size)
    )
    widths = {name: named(figure, name).get_linewidth() for name in BYTES}
    assert max(widths, key=widths.get) == precision


def test_people_read_words_and_the_axis_counts_tokens():
    figure, _ = ceiling_by_bandwidth(8, "bfloat16", 90)
    (ax,) = figure.axes
    (line,) = [line.get_ydata()[0] for line in ax.lines if line.get_ydata()[0] == line.get_ydata()[-1]][:1]
    assert 3 * line == pytest.approx(4 * 238 / 60)  # 3 words are 4 tokens
    assert any(f"4 words, {line:.1f} tokens/s" in text.get_text() for text in ax.texts)


def test_the_marked_point_is_inside_at_every_corner():
    for billions, precision, bandwidth in itertools.product((0.15, 405), BYTES, (10, 4800)):
        figure, _ = ceiling_by_bandwidth(billions, precision, bandwidth)
        (ax,) = figure.axes
        point = next(line for line in ax.lines if line.get_marker() == "o")
        (low, high), (x0, x1) = ax.get_ylim(), ax.get_xlim()
        assert low < point.get_ydata()[0] < high and x0 < point.get_xdata()[0] < x1


def test_every_machine_is_named_in_the_ceiling():
    figure, _ = ceiling_by_bandwidth(8, "bfloat16", 90)
    assert set(MACHINES) <= {text.get_text().strip() for text in figure.axes[0].texts}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((8, "float16", 90), "precision must be one of float32, bfloat16, int8, int4, got 'float16'"),
        ((0, "int4", 90), "parameters must be above 0"),
        ((8, "int4", 0), "bandwidth must be above 0"),
    ],
)
def test_a_ceiling_that_cannot_be_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        ceiling_by_bandwidth(*arguments)


# ---------------------------------------------------------------- bandwidth reached


def test_a_bar_for_each_model_in_order():
    rows = {"thin": (1_000_000, 0.01, 15e9), "wide": (600_000_000, 0.05, 17e9)}
    figure, sentence = bandwidth_reached(rows, 24e9)
    (ax,) = figure.axes
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([0.1, 12.0])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["thin\n100 tokens/s", "wide\n20 tokens/s"]
    assert list(named(figure, "matrix × vector alone").get_xdata()) == [15.0, 17.0]
    assert "memory delivers 24.0 GB/s. thin at 100 tokens/s reads 0.1 GB/s" in sentence
    assert "wide at 20 tokens/s reads 12.0 GB/s, matrix × vector alone 17.0 GB/s." in sentence
    assert ax.get_xlim()[1] > 24 and "GB/s" in ax.get_xlabel()
    with pytest.raises(ValueError, match="at least one model"):
        bandwidth_reached({}, 24e9)


# ---------------------------------------------------------------- the roofline


def test_one_user_verifies_for_nothing_on_every_machine():
    known = [name for name, machine in MACHINES.items() if machine.flops]
    assert len(known) >= 3
    for name in known:
        _, sentence = roofline_verify_cost(name, 1, 16)
        assert sentence.startswith(f"{name}, one sequence: a plain pass carries 1 token, ")
        assert sentence.endswith("so v(17) = 1.00.")


def test_many_users_have_eaten_the_lunch():
    figure, sentence = roofline_verify_cost("H100 SXM", 256, 4)
    at = 989 / 3.350  # bfloat16: FLOPs ÷ bytes
    assert (
        f"carries 256 tokens, a verification at γ = 4 carries 1280; arithmetic catches up with reading at {at:.0f}"
        in (sentence)
    )
    assert f"v(5) = {1280 / at:.2f}." in sentence
    points = [line.get_data() for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [x[0] for x, _ in points] == [256, 1280]
    assert [y[0] for _, y in points] == pytest.approx([1, 1280 / at])
    figure, sentence = roofline_verify_cost("H100 SXM", 1000, 1)
    assert "v(2) = 2.00." in sentence, "both passes are bound by arithmetic"
    heights = [line.get_ydata()[0] for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert heights == pytest.approx([1000 / at, 2000 / at])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("Apple M4", 1, 4), "machine must be one of RTX 4090, .*got 'Apple M4'"),
        (("H100 SXM", 0, 4), "users must be 1 or more, got 0"),
        (("H100 SXM", 1, -1), "tokens must be 1 or more, got 0"),
    ],
)
def test_a_roofline_that_cannot_be_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        roofline_verify_cost(*arguments)


# ---------------------------------------------------------------- measured


def test_measured_curves_are_ratios_and_floors_are_dotted():
    figure, sentence = verify_cost_by_tokens(CURVES, {"wide": {1: 1.0, 3: 1.0, 5: 2.0}}, 4)
    assert "at γ = 4, v(5) is 1.50 for small, 2.25 for wide; 5 separate passes would cost 5." in sentence
    assert list(named(figure, "small").get_ydata()) == [1.0, 1.25, 1.5]
    assert list(named(figure, "n passes over one token").get_ydata()) == [1, 5]
    dotted = [line for line in figure.axes[0].lines if line.get_linestyle() == ":" and len(line.get_xdata())]
    assert [list(line.get_ydata()) for line in dotted] == [[0.25, 0.25, 0.5]]
    assert dotted[0].get_color() == named(figure, "wide").get_color()


def test_measured_times_can_be_given_as_they_are():
    times = PassTimes({n: (second,) for n, second in CURVES["wide"].items()}, 64)
    assert (
        verify_cost_by_tokens({"wide": times}, {}, 2)[1]
        == verify_cost_by_tokens({"wide": CURVES["wide"]}, {}, 2)[1]
    )


@pytest.mark.parametrize(
    ("curves", "words"),
    [
        ({}, "at least one"),
        ({"a": {2: 1.0, 5: 1.0}}, r"curves\['a'\] must hold n = 1 and γ \+ 1 = 5, got \[2, 5\]"),
        ({"a": {1: 1.0, 4: 1.0}}, r"γ \+ 1 = 5, got \[1, 4\]"),
    ],
)
def test_curves_without_the_n_that_is_asked_for_are_refused(curves, words):
    with pytest.raises(ValueError, match=words):
        verify_cost_by_tokens(curves, {}, 4)


# ---------------------------------------------------------------- all of them

ALL = {
    "ceiling": lambda: ceiling_by_bandwidth(8, "bfloat16", 90),
    "reached": lambda: bandwidth_reached({"wide": (600_000_000, 0.05, 17e9)}, 24e9),
    "roofline": lambda: roofline_verify_cost("H100 SXM", 16, 4),
    "measured": lambda: verify_cost_by_tokens(CURVES, {"small": {1: 1.0, 3: 1.0, 5: 1.0}}, 4),
}


@pytest.mark.parametrize("name", ALL)
def test_pictures_are_pure_legible_and_in_one_sentence_each(name):
    before = plt.get_fignums()
    figure, sentence = ALL[name]()
    assert to_png(figure) == to_png(ALL[name]()[0]) and ALL[name]()[1] == sentence
    assert plt.get_fignums() == before
    assert min(text.get_fontsize() for text in texts(figure) if text.get_text()) >= 12
    assert "\n" not in sentence and sentence.endswith(".") and len(sentence) > 40
    (ax,) = figure.axes
    looks = [(line.get_marker(), line.get_linestyle()) for line in ax.lines if line.get_label()[0] != "_"]
    assert len(set(looks)) == len(looks) > 1, "colour alone must not tell lines apart"
    assert ax.get_xlabel() and ax.get_title(loc="left")
