"""Pictures of roll-back: their sentences against the record, their marks against the frames."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest

from specdec_lab import Trace, speculative_rounds
from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix, last_token, wrong_when
from specdec_lab.show.picture import to_png
from specdec_lab.show.rollback_plots import cache_drift, caches_of_round, work_by_gamma

RULE = last_token(1, 100)


def decode(ids):
    return str(ids[0])


def run(wrong=(3, 6, 14), gamma=4, new_tokens=13, ends=None, prompt=(10, 11, 12)):
    target = ScriptedModel(RULE, 100)
    draft = ScriptedModel(wrong_when(RULE, 100, lambda position: position in wrong), 100)
    rounds = speculative_rounds(
        target, draft, prompt, max_new_tokens=new_tokens, gamma=gamma, eos_token_id=ends
    )
    return Trace.of(prompt, rounds)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (1, "4 drafted, 0 accepted and a correction; the text grows from 3 to 4 tokens"),
        (2, "4 drafted, 2 accepted and a correction; the text grows from 4 to 7 tokens"),
        (3, "4 drafted, 4 accepted and a bonus; the text grows from 7 to 12 tokens"),
        (5, "nothing drafted, one plain token of the target; the text grows from 15 to 16 tokens"),
    ],
)
def test_the_sentence_says_the_outcome(number, said):
    figure, sentence = caches_of_round(run(), number, decode)
    assert sentence.startswith(f"Round {number} of 5: {said}.")
    assert len(figure.axes) == 1


def test_the_sentence_gives_the_lengths_before_during_and_after():
    _, sentence = caches_of_round(run(), 2, decode, title="γ = 4, round 2")
    assert sentence == (
        "γ = 4, round 2: 4 drafted, 2 accepted and a correction; the text grows from 4 to 7 tokens. Positions held "
        "before the round, after its passes and after the roll-back: the target's 3, then 8, then 6; the draft's 3, "
        "then 7, then 6. Cut as stale: 2 and 1."
    )


def test_an_end_token_is_said_and_nothing_follows():
    _, sentence = caches_of_round(run(ends=19), 3, decode)
    assert "3 drafted, 3 accepted, the last of them an end token, so nothing follows" in sentence
    assert "the target's 6, then 10, then 9; the draft's 6, then 9, then 9" in sentence


def test_tokens_carry_their_verdicts_and_caches_their_counts():
    figure, _ = caches_of_round(run(), 2, decode)
    words = texts(figure)
    assert {"✓14", "✓15", "✗17", "◦18", "→16"} <= set(words)
    assert [word for word in words if word.endswith("held")] == [
        "3 held",
        "3 held",
        "8 held",
        "7 held",
        "6 held",
        "6 held",
    ]


def test_states_differ_in_more_than_colour():
    figure, _ = caches_of_round(run(), 2, decode)
    patches = figure.axes[0].patches
    kinds = {(patch.get_hatch(), patch.get_linestyle(), patch.get_fill()) for patch in patches}
    assert len({(hatch, line) for hatch, line, _ in kinds}) == 4  # valid, stale, cut, unread
    cut = sum(patch.get_linestyle() in (":", "dotted") for patch in patches)
    assert cut == 3, "two in the target's cache, one in the draft's"


def test_every_gamma_has_the_same_width_and_the_round_is_in_the_window():
    prompt = tuple(range(10, 60))
    widths = set()
    for gamma in (1, 4, 8):
        figure, _ = caches_of_round(run(gamma=gamma, prompt=prompt), 1, decode)
        low, high = figure.axes[0].get_xlim()
        widths.add(round(high - low, 6))
        assert {"59"} <= set(texts(figure)), "the pending token is shown"
    assert len(widths) == 1
    figure, _ = caches_of_round(run(gamma=16, new_tokens=30, prompt=prompt, wrong=()), 1, decode)
    assert {"✓60", "✓75", "+76"} <= set(texts(figure))


def test_dollars_and_long_tokens_do_no_harm():
    words = {10: "$x$", 11: "a" * 30, 12: "\n"}
    figure, _ = caches_of_round(run(), 1, lambda ids: words.get(ids[0], "$"))
    to_png(figure)
    assert "a" * 7 + "…" in texts(figure)


@pytest.mark.parametrize("number", [0, 6])
def test_a_round_that_is_not_there_is_refused(number):
    with pytest.raises(ValueError, match="between 1 and 5"):
        caches_of_round(run(), number, decode)


def test_a_drafter_without_a_cache_is_refused():
    from specdec_lab import PromptLookupDrafter

    target = ScriptedModel(RULE, 100)
    rounds = speculative_rounds(
        target, PromptLookupDrafter(), [1, 2], max_new_tokens=3, gamma=2, eos_token_id=None
    )
    with pytest.raises(ValueError, match="no cache"):
        caches_of_round(Trace.of([1, 2], rounds), 1, decode)


def test_drift_is_minus_one_and_minus_two_after_a_full_acceptance():
    figure, sentence = cache_drift({"correct": run(new_tokens=9)})
    left, right = (
        [list(line.get_ydata()) for line in ax.lines if len(line.get_xdata()) > 2] for ax in figure.axes
    )
    assert left == [[-1, -1, -1]] and right == [[-1, -1, -2]]
    assert "the target's cache ends at -1 for correct; the draft's cache ends at -2 for correct" in sentence


def test_the_least_drift_lies_inside_the_picture():
    trace = run(wrong=(), new_tokens=6)  # a full acceptance, then a round without a draft
    figure, sentence = cache_drift({"correct": trace})
    assert "the draft's cache ends at -3" in sentence
    assert all(ax.get_ylim()[0] < -3 for ax in figure.axes)


def test_drift_tells_runs_apart_without_colour():
    figure, sentence = cache_drift({"one": run(), "two": run(gamma=2)})
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 2]
    assert len({line.get_marker() for line in lines}) == len({line.get_linestyle() for line in lines}) == 2
    assert "for one" in sentence and "for two" in sentence


def test_work_names_the_lowest_and_the_last():
    curves = {"FLOPs": {1: 1.5, 2: 2.0, 4: 3.0}, "weight bytes": {1: 0.9, 2: 0.8, 4: 0.7}}
    figure, sentence = work_by_gamma(curves, title="A pair")
    assert sentence == (
        "A pair, relative to plain decoding: FLOPs lowest with 1.50 at γ = 1 and 3.00 at γ = 4; "
        "weight bytes lowest with 0.70 at γ = 4."
    )
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(curves)
    assert "γ" in ax.get_xlabel() and "plain" in ax.get_ylabel()


def test_the_sentence_is_about_what_was_counted():
    figure, sentence = work_by_gamma({"FLOPs": {1: 1.0, 2: 2.0}}, {"FLOPs": {1: 1.25, 2: 1.75}}, title="T")
    assert "1.25 at γ = 1 and 1.75 at γ = 2" in sentence
    marks = [line for line in figure.axes[0].lines if line.get_linestyle() == "None"]
    assert [list(line.get_ydata()) for line in marks] == [[1.25, 1.75]]


def test_nothing_of_pyplot_is_touched_and_type_is_large_enough():
    before = plt.get_fignums()
    curves = {"FLOPs": {1: 1.0, 2: 2.0}}
    for figure, _ in (
        caches_of_round(run(), 2, decode),
        cache_drift({"a": run()}),
        work_by_gamma(curves, title="T"),
    ):
        to_png(figure)
        for ax in figure.axes:
            assert all(text.get_fontsize() >= 10 for text in ax.texts)
    assert plt.get_fignums() == before


def test_it_draws_any_run():
    rule = hash_of_prefix(40)
    target = ScriptedModel(rule, 40)
    draft = ScriptedModel(wrong_when(rule, 40, lambda position: position % 5 == 0), 40)
    rounds = speculative_rounds(target, draft, [1], max_new_tokens=20, gamma=3, eos_token_id=None)
    trace = Trace.of([1], rounds)
    for number in range(1, len(trace.rounds) + 1):
        caches_of_round(trace, number, decode)
