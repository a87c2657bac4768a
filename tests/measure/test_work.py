"""Work: the record and the formulas against models that count their own calls."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest

from specdec_lab import (
    PromptLookupDrafter,
    Trace,
    autoregressive_decode,
    speculative_decode,
    speculative_rounds,
)
from specdec_lab.measure.theory import expected_tokens_per_round
from specdec_lab.measure.work import CountedModel, Work, expected_work, plain_work, work_of
from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix, last_token, wrong_when

PROMPT = [3, 1, 4, 1, 5]
HASH = hash_of_prefix(50)
DRAFTS = {
    "agrees": lambda position: False,
    "errs at times": lambda position: position % 7 in (0, 3),
    "never agrees": lambda position: True,
}


def run(wrong, gamma, new_tokens=23, ends=None):
    target, draft = ScriptedModel(HASH, 50), ScriptedModel(wrong_when(HASH, 50, wrong), 50)
    rounds = speculative_rounds(
        target, draft, PROMPT, max_new_tokens=new_tokens, gamma=gamma, eos_token_id=ends
    )
    return Trace.of(PROMPT, rounds), target, draft


@pytest.mark.parametrize("gamma", [1, 2, 4, 16])
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("ends", [None, 7])
def test_the_record_knows_what_the_models_saw(draft, gamma, ends):
    trace, target, draft_model = run(DRAFTS[draft], gamma, ends=ends)
    assert work_of(trace) == Work(
        target.passes, target.fed_tokens, draft_model.passes, draft_model.fed_tokens
    )


@pytest.mark.parametrize("new_tokens", [1, 2, 9])
def test_plain_work_is_that_of_plain_decoding(new_tokens):
    target = ScriptedModel(HASH, 50)
    autoregressive_decode(target, PROMPT, new_tokens, None)
    assert plain_work(len(PROMPT), new_tokens) == Work(target.passes, target.fed_tokens)


def test_a_drafter_without_a_cache_costs_no_passes():
    prompt = [1, 2, 3, 1, 2, 3, 1, 2]
    target = ScriptedModel(lambda prefix: len(prefix) % 3 + 1, 50)
    rounds = speculative_rounds(
        target, PromptLookupDrafter(), prompt, max_new_tokens=12, gamma=4, eos_token_id=None
    )
    trace = Trace.of(prompt, rounds)
    assert trace.drafted > 0
    assert work_of(trace) == Work(target.passes, target.fed_tokens, 0, 0)


@pytest.mark.parametrize("gamma", [1, 3, 4])
def test_the_formula_is_exact_where_nothing_is_left_out(gamma):
    """A draft that never agrees has τ = 1, no catch-up, and full rounds until the budget is short."""
    new_tokens = 30
    trace, *_ = run(DRAFTS["never agrees"], gamma, new_tokens)
    formula, counted = expected_work(len(PROMPT), new_tokens, gamma, 1.0), work_of(trace)
    short = sum(gamma - len(item.drafted) for item in trace.rounds)  # guesses that the last rounds save
    assert trace.rounds[-1].drafted == () and counted.target_passes == formula.target_passes
    assert counted.target_tokens == formula.target_tokens - short
    assert counted.draft_passes == counted.draft_tokens - (len(PROMPT) - 1) == formula.draft_passes - short


def test_the_formula_is_the_papers_factor():
    """Leviathan et al. 2023, theorem 3.11: (1 - α)(γ·ĉ + γ + 1) ÷ (1 - α^(γ+1)) times the operations."""
    for alpha in (0.0, 0.3, 0.8, 0.95):
        for gamma in (1, 4, 16):
            tau = expected_tokens_per_round(alpha, gamma)
            factor = expected_work(1, 1000, gamma, tau).over(plain_work(1, 1000), 20, 1)["FLOPs"]
            assert factor == pytest.approx(
                (1 - alpha) * (gamma / 20 + gamma + 1) / (1 - alpha ** (gamma + 1))
            )
            assert factor >= 1, "speculation never saves arithmetic"


def test_bytes_fall_exactly_where_tau_exceeds_one_plus_gamma_times_the_size():
    for gamma, size in ((1, 0.5), (4, 0.25), (8, 0.01)):
        even = 1 + gamma * size
        for tau, side in ((even, 0), (even * 0.99, 1), (min(gamma + 1, even * 1.01), -1)):
            if tau < 1:
                continue
            factor = expected_work(1, 1, gamma, tau).over(plain_work(1, 1), 1, size)["weight bytes"]
            assert (factor > 1 + 1e-9) - (factor < 1 - 1e-9) == side


def test_gamma_zero_is_plain_decoding():
    assert expected_work(7, 12, 0, 1) == plain_work(7, 12)


def test_flops_bytes_and_sums():
    work = Work(2, 10, 8, 9)
    assert work.flops(100, 10) == 2 * (10 * 100 + 9 * 10)
    assert work.weight_bytes(100, 10, 2) == 2 * (2 * 100 + 8 * 10)
    assert work + Work(1, 1) == Work(3, 11, 8, 9)
    assert work.over(work, 100, 10) == {"target passes": 1, "FLOPs": 1, "weight bytes": 1}
    with pytest.raises(TypeError):
        work + 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0, 1, 1, 1.0), "prompt_tokens"),
        ((1, 0, 1, 1.0), "new_tokens"),
        ((1, 1, -1, 1.0), "gamma"),
        ((1, 1, 4, 0.9), "tokens_per_round"),
        ((1, 1, 4, 5.1), "tokens_per_round"),
    ],
)
def test_what_cannot_be_is_refused(arguments, named):
    with pytest.raises(ValueError, match=named):
        expected_work(*arguments)


def test_a_counted_model_is_the_model():
    target = CountedModel(ScriptedModel(last_token(1, 10), 10))
    draft = CountedModel(ScriptedModel(last_token(1, 10), 10))
    assert target.vocab_size == 10
    sequence, rate = speculative_decode(target, draft, [3], 9, 2, None)
    assert (sequence, rate) == ([*range(3, 10), 0, 1, 2], 1.0)
    for counted in (target, draft):
        assert (counted.passes, counted.fed_tokens) == (counted.model.passes, counted.model.fed_tokens)
    assert copy.copy(target).passes == target.passes
    with pytest.raises(AttributeError):
        _ = target.no_such_thing
    with pytest.raises(TypeError):
        CountedModel("a text")


def test_a_transformers_model_is_counted_too(tiny_llama):
    target, draft = CountedModel(tiny_llama.target), CountedModel(tiny_llama.target)
    sequence, rate = speculative_decode(target, draft, [1, 2, 3], 8, 3, None)
    assert rate == 1.0 and len(sequence) == 11
    assert (target.passes, target.fed_tokens) == (2, 10) and draft.passes == 6


def test_it_loads_without_torch():
    code = "import sys, specdec_lab.measure.work; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
