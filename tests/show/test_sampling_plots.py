"""Pictures of sampling: their bars are held against sums made by hand, their sentences against the bars."""

from __future__ import annotations

import pytest
import torch

from specdec_lab.decoding.chance import GeneratorChance
from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.decoding.rounds import Round, Trace
from specdec_lab.decoding.sampling import Sampling
from specdec_lab.measure.theory import alpha_interval
from specdec_lab.models.scripted import ScriptedModel, scattered
from specdec_lab.show.control import Control
from specdec_lab.show.explorer import explore
from specdec_lab.show.picture import to_png
from specdec_lab.show.sampling_plots import (
    acceptance_by_temperature,
    bias_of_rules,
    observed_and_expected,
    overlap_of,
    where_the_output_comes_from,
)

P, Q = [0.1, 0.6, 0.3], [0.6, 0.3, 0.1]


def heights(ax):
    """One list for each kind of bar."""
    return [[round(bar.get_height(), 9) for bar in bars] for bars in ax.containers]


# ---------------------------------------------------------------- one token


def test_the_output_is_built_from_what_is_kept_and_what_is_replaced():
    figure, sentence = where_the_output_comes_from(P, Q, "ABC", "T = 1")
    left, middle, right = figure.axes
    assert heights(left) == [P]
    assert heights(middle) == [[0.1, 0.3, 0.1], [0.5, 0, 0]]
    assert heights(right) == [[0.1, 0.3, 0.1], [0, 0.3, 0.2]]
    assert [bar.get_y() for bar in right.containers[1]] == [bar.get_height() for bar in right.containers[0]]
    (level,) = right.collections
    assert [segment[0][1] for segment in level.get_segments()] == P
    assert sentence == (
        "T = 1: p is A 0.10, B 0.60, C 0.30; q is A 0.60, B 0.30, C 0.10; a draft is accepted with chance 0.50 and "
        "replaced with 0.50; what comes out is A 0.10, B 0.60, C 0.30, which is p."
    )


@pytest.mark.parametrize("p", [[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
@pytest.mark.parametrize("q", [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
def test_whatever_is_drafted_p_comes_out(p, q):
    figure, sentence = where_the_output_comes_from(torch.tensor(p), torch.tensor(q), "AB")
    green, blue = heights(figure.axes[2])
    assert [a + b for a, b in zip(green, blue, strict=True)] == pytest.approx(p)
    assert sentence.startswith("p is A ") and sentence.endswith("which is p.")


def test_an_output_that_is_not_p_would_be_told(monkeypatch):
    from specdec_lab.decoding import distributions

    monkeypatch.setattr(distributions, "residual_distribution", lambda p, q: p)
    sentence = where_the_output_comes_from(P, Q, "ABC")[1]
    assert "what comes out is A 0.15, B 0.60, C 0.25, which is off p by up to 0.05." in sentence


# ---------------------------------------------------------------- the overlap


def test_the_parts_of_the_overlap_add_up():
    p, q = [0.5, 0.25, 0.125, 0.125, 0.0], [0.25, 0.25, 0.0, 0.25, 0.25]
    figure, sentence = overlap_of(p, q, ["a", "b", "$x_1$", "a very long token", "e"], "Here", shown=3)
    (ax,) = figure.axes
    shared, rarely, often = heights(ax)
    assert (
        shared == [0.25, 0.25, 0.125, 0.0] and rarely == [0.25, 0, 0, 0.125] and often == [0, 0, 0.125, 0.25]
    )
    assert sum(shared) == pytest.approx(1 - sum(rarely)) and sum(rarely) == sum(often)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b", "a very lon…", "2 others"]
    assert sentence == (
        "Here: the overlap Σ min(p, q) is 0.62, so the total variation distance is 0.38; both like ‘a’ best, p with 0.50 "
        "and q with 0.25."
    )
    to_png(figure)  # a name that is no formula would raise here
    assert "p likes ‘b’ best (0.60), q ‘a’ (0.60)" in overlap_of(P, Q, "abc", "There")[1]
    assert len(overlap_of(P, Q, "abc", "There")[0].axes[0].get_xticklabels()) == 3, (
        "nothing is left to add up"
    )


# ---------------------------------------------------------------- wrong rules


def test_a_rule_stands_beside_what_is_wanted_and_all_are_compared():
    outputs = {"resample": [0.15, 0.6, 0.25]}
    distances = {"right": 1e-17, "resample": 0.05, "worse": 0.25}
    figure, sentence = bias_of_rules(P, outputs, distances, "resample", "ABC", "T = 1")
    left, right = figure.axes
    assert heights(left) == [P, [0.15, 0.6, 0.25]]
    assert [bar.get_width() for bar in right.containers[0]] == [1e-17, 0.05, 0.25], "the least first"
    assert [text.get_text().strip() for text in right.texts] == ["0, exact", "0.0500", "0.2500"]
    bold = [text.get_text() for text in right.get_yticklabels() if text.get_fontweight() == "bold"]
    assert bold == ["resample"]
    assert sentence == (
        "T = 1, resample: the first token is A 0.15, B 0.60, C 0.25, wanted is A 0.10, B 0.60, C 0.30; total variation "
        "distance of whole texts: 0.0500."
    )
    with pytest.raises(ValueError, match="rule must be one of resample, got 'worse'"):
        bias_of_rules(P, outputs, distances, "worse", "ABC", "T = 1")


# ---------------------------------------------------------------- acceptance


def sampled(new_tokens, gamma=3):
    target, draft = (ScriptedModel(scattered(4, seed), 4, logits_dtype=torch.float64) for seed in (1, 2))
    rounds = speculative_rounds(
        target, draft, [0], max_new_tokens=new_tokens, gamma=gamma, eos_token_id=None,
        sampling=Sampling(), chance=GeneratorChance(torch.Generator().manual_seed(0)),
    )  # fmt: skip
    return Trace.of([0], rounds)


def test_observed_points_and_expected_bars_are_those_of_the_trace():
    trace = sampled(60)
    figure, sentence = observed_and_expected(trace)
    (ax,) = figure.axes
    places = trace.acceptance_by_position()
    assert [bar.get_height() for bar in ax.containers[0]] == [place["expected"] for place in places]
    points = ax.containers[1].lines[0]
    assert list(points.get_ydata()) == [place["chance"] for place in places]
    low, high = alpha_interval(places[0]["accepted"], places[0]["judged"] - places[0]["accepted"])
    (bottom, top) = ax.containers[1].lines[2][0].get_segments()[0][:, 1]
    assert (bottom, top) == (pytest.approx(low), pytest.approx(high))
    assert sentence.startswith(
        f"60 sampled tokens: α is {trace.expected_alpha:.3f} expected and {trace.alpha:.3f} observed; place 1: "
    )
    judged = sum(place["judged"] for place in places)
    assert judged == trace.accepted + trace.rejected, "every verdict is in one of the bars"


def test_a_greedy_run_has_nothing_expected():
    greedy = Trace((1,), (Round((5, 6), (-1, 0), (0,), (5, 9), "correction", 0, 2, 0, 2, 0.0, 0.0),))
    with pytest.raises(ValueError, match="was it sampled"):
        observed_and_expected(greedy)


def test_every_way_to_draft_has_its_line():
    curves = {"it draws": {0: 0.5, 1.0: 0.75, 2.0: 0.8}, "it is certain": {0: 0.5, 1.0: 0.25, 2.0: 0.1}}
    figure, sentence = acceptance_by_temperature(curves, 1.0, "A text, no filter")
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 3]
    assert [list(line.get_ydata()) for line in lines] == [[0.5, 0.75, 0.8], [0.5, 0.25, 0.1]]
    assert sentence == (
        "A text, no filter, T = 1: α is expected to be 0.75 if it draws, 0.25 if it is certain."
    )
    with pytest.raises(ValueError, match=r"one of 0, 1\.0, 2\.0, got 0\.5"):
        acceptance_by_temperature(curves, 0.5, "A text")
    with pytest.raises(ValueError, match="at least one curve"):
        acceptance_by_temperature({}, 0, "A text")


# ---------------------------------------------------------------- all of them


def test_lengths_that_differ_are_refused():
    for draw in (
        lambda: where_the_output_comes_from(P, Q, "AB"),
        lambda: overlap_of(P, [0.5, 0.5], "ABC", "Here"),
        lambda: bias_of_rules(P, {"rule": [1.0]}, {"rule": 0.5}, "rule", "ABC", "T = 1"),
    ):
        with pytest.raises(ValueError, match="must have one length"):
            draw()


def test_they_move_with_their_controls():
    curves = {"it draws": {0: 0.5, 1: 0.75}}
    for draw, control in (
        (lambda x: where_the_output_comes_from([1 - x, x], [0.5, 0.5], "AB"), (0, 1, 0.25)),
        (lambda x: overlap_of([1 - x, x], [0.5, 0.5], "AB", "Here"), (0, 1, 0.25)),
        (lambda x: observed_and_expected(sampled(x)), [10, 40]),
        (lambda x: acceptance_by_temperature(curves, x, "A text"), [0, 1]),
    ):
        sentences = explore(draw, x=Control(control)).check(every=True)
        assert len(set(sentences)) == len(Control(control).settings)
