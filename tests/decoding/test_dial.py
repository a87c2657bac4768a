"""The dial: α comes out as set, the text stays the target's, and the draft it pays for is really paid."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import PlainModel, assert_rounds_hold, crc_rule, follow

from specdec_lab import DialDrafter, ModelDrafter, Sampling, Trace, benchmark_decoding, speculative_rounds
from specdec_lab.decoding.chance import GeneratorChance
from specdec_lab.models.scripted import ScriptedModel

pytestmark = pytest.mark.scripted

WIDTH = 23
RULE = crc_rule(WIDTH)
PROMPT = [3, 1, 4, 1, 5]


def target():
    return ScriptedModel(RULE, WIDTH, max_position_embeddings=4096)


def run(drafter, model=None, n=60, gamma=4, ends=None, prompt=PROMPT):
    model = target() if model is None else model
    rounds = speculative_rounds(model, drafter, prompt, max_new_tokens=n, gamma=gamma, eos_token_id=ends)
    return Trace.of(prompt, rounds)


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 0.8, 1.0])
def test_alpha_comes_out_as_set(alpha):
    model = target()
    trace = run(DialDrafter(model, alpha, seed=1), model, n=2000)
    assert trace.sequence == follow(RULE, PROMPT, 2000)
    judged = trace.accepted + trace.rejected
    assert judged > 400
    assert abs(trace.alpha - alpha) <= 4 * (alpha * (1 - alpha) / judged) ** 0.5


@pytest.mark.parametrize("gamma", [1, 2, 4, 7])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("paid", [False, True])
def test_output_is_the_targets_own(alpha, gamma, paid):
    model = target()
    draft = ScriptedModel(crc_rule(WIDTH, seed=8), WIDTH) if paid else None
    trace = run(DialDrafter(model, alpha, draft_model=draft), model, gamma=gamma)
    assert trace.sequence == follow(RULE, PROMPT, 60)
    if paid:
        assert_rounds_hold(PROMPT, trace.rounds, (), 60)
        assert draft.passes == trace.drafted, "one pass for each drafted token, and no other"


def test_a_paid_draft_is_fed_what_it_would_feed_itself():
    """Everything pending first, then each drafted token but the last: as if it had chosen them."""
    model, paid = target(), ScriptedModel(crc_rule(WIDTH, seed=8), WIDTH)
    trace = run(DialDrafter(model, 0.6, draft_model=paid), model)
    sequence, expected = list(PROMPT), []
    for item in trace.rounds:
        if item.drafted:
            expected += [sequence[item.draft_cache_before :], *([token] for token in item.drafted[:-1])]
        sequence += item.emitted
    assert [list(call.tokens) for call in paid.calls if call.kind == "forward"] == expected


def test_errors_are_the_same_at_every_gamma_and_in_every_repetition():
    model = target()
    drafter = DialDrafter(model, 0.5, seed=3)

    def right(trace):
        length, verdicts = len(PROMPT), {}
        for item in trace.rounds:
            verdicts.update({length + i: True for i in range(len(item.accepted))})
            if item.rejected:
                verdicts[length + len(item.accepted)] = False
            length += len(item.emitted)
        return verdicts

    first, again, wider = (right(run(drafter, model, gamma=gamma)) for gamma in (3, 3, 6))
    assert first == again
    both = first.keys() & wider.keys()
    assert len(both) > 30 and all(first[place] == wider[place] for place in both)
    other = right(run(DialDrafter(model, 0.5, seed=4), model, gamma=3))
    assert any(first[place] != other[place] for place in first.keys() & other.keys())


def test_a_wrong_token_is_never_an_end_token_nor_the_right_one():
    ends = [0, 1, 2, 3, 4, 5, 6, 7, 8]
    rule = lambda prefix: 9 + RULE(prefix) % 3  # noqa: E731
    model = ScriptedModel(rule, 12)
    trace = run(DialDrafter(model, 0.0, eos_token_id=ends), model, ends=ends)
    drafted = {token for item in trace.rounds for token in item.drafted}
    assert drafted and not drafted & set(ends)
    assert trace.accepted == 0 and trace.sequence == follow(rule, PROMPT, 60)


def test_it_stops_at_the_end_token_as_a_draft_does():
    truth = follow(RULE, PROMPT, 40)
    end = truth[len(PROMPT) + 12]
    model = target()
    trace = run(DialDrafter(model, 1.0, eos_token_id=end), model, n=40, ends=end)
    assert trace.sequence == follow(RULE, PROMPT, 40, ends=[end])


def test_prepared_it_asks_the_target_nothing_while_drafting():
    model = target()
    drafter = DialDrafter(model, 0.5)
    drafter.prepare(PROMPT, 60)
    asked = model.passes
    assert asked == 60
    trace = run(drafter, model)
    assert model.passes - asked == len(trace.rounds)


def test_a_benchmark_prepares_it_before_any_clock_runs():
    model = target()
    drafter = DialDrafter(model, 0.7)
    result = benchmark_decoding(model, drafter, [PROMPT, [7, 7]], 30, 4, None, warmup_runs=0, num_runs=1)
    assert result["outputs_match"]
    assert model.passes == 2 * 30 + result["rounds"] + 2 * 30  # oracle, speculative, plain


def test_it_works_to_the_end_of_the_context():
    model = ScriptedModel(RULE, WIDTH, max_position_embeddings=24)
    trace = run(DialDrafter(model, 1.0), model, n=24 - len(PROMPT), gamma=8)
    assert trace.sequence == follow(RULE, PROMPT, 24 - len(PROMPT))


def test_text_that_leaves_the_greedy_path_is_followed_from_there():
    model = target()
    drafter = DialDrafter(model, 1.0)
    drafter.start(PROMPT)
    assert drafter.propose(PROMPT, 3, None).tokens == tuple(follow(RULE, PROMPT, 3)[len(PROMPT) :])
    elsewhere = [*PROMPT, (RULE(PROMPT) + 1) % WIDTH]
    assert drafter.propose(elsewhere, 3, None).tokens == tuple(follow(RULE, elsewhere, 3)[len(elsewhere) :])


def test_a_draft_with_a_shorter_context_drafts_less():
    model = target()
    draft = ScriptedModel(crc_rule(WIDTH, seed=8), WIDTH, max_position_embeddings=16)
    trace = run(DialDrafter(model, 1.0, draft_model=draft), model)
    assert trace.sequence == follow(RULE, PROMPT, 60)
    assert trace.rounds[-1].drafted == ()


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), float("inf")])
def test_alpha_outside_0_to_1_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        DialDrafter(target(), alpha)


@pytest.mark.parametrize("alpha", ["0.5", None, True])
def test_alpha_that_is_no_number_is_refused(alpha):
    with pytest.raises(TypeError, match="alpha"):
        DialDrafter(target(), alpha)


def test_a_target_without_a_wrong_token_is_refused():
    with pytest.raises(ValueError, match="two tokens that are not end tokens"):
        DialDrafter(ScriptedModel(lambda prefix: 0, 3), 0.5, eos_token_id=[1, 2])


def test_a_target_that_hides_its_vocabulary_is_refused():
    with pytest.raises(ValueError, match="states its vocab_size"):
        DialDrafter(PlainModel(RULE, WIDTH), 0.5)


def test_the_paid_draft_is_asked_for_its_answer(monkeypatch):
    """A real draft reads an argmax from the device for every token, and the dial pays that too."""
    answers = []
    real = ModelDrafter._choose
    monkeypatch.setattr(ModelDrafter, "_choose", lambda self, row: answers.append(1) or real(self, row))
    model = target()
    trace = run(DialDrafter(model, 0.6, draft_model=ScriptedModel(crc_rule(WIDTH, seed=8), WIDTH)), model)
    assert len(answers) == trace.drafted > 0


def test_under_sampling_acceptance_is_what_the_target_gives_the_guess_and_not_alpha():
    model = ScriptedModel(lambda prefix: [math.log(p) for p in (0.25, 0.5, 0.25)], 3)
    for alpha, expected in (
        (1.0, 0.5),
        (0.0, 0.25),
    ):
        rounds = speculative_rounds(
            model,
            DialDrafter(model, alpha),
            [0],
            max_new_tokens=60,
            gamma=3,
            eos_token_id=None,
            sampling=Sampling(),
            chance=GeneratorChance(torch.Generator().manual_seed(5)),
        )
        assert Trace.of([0], rounds).expected_alpha == pytest.approx(expected)
