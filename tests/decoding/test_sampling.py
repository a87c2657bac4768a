"""Speculative sampling: what comes out, what is drawn for it, and what happens to bad rows and bad drafters.

Whole laws are enumerated in `tests/measure/test_law.py`. Here seeded runs of the whole decoder are counted (bounds
of 3 standard errors), and everything that a law cannot show: seeds, refusals, records, dtypes, modes.
"""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import VOCABULARY, Dtypes, assert_rounds_hold, random_model, with_noise

from specdec_lab import (
    DialDrafter,
    ModelDrafter,
    PromptLookupDrafter,
    Proposal,
    Round,
    Trace,
    autoregressive_decode,
    speculative_decode,
    speculative_rounds,
)
from specdec_lab.decoding import chance as chance_module
from specdec_lab.decoding import distributions, sampling_rule
from specdec_lab.decoding.chance import GeneratorChance
from specdec_lab.decoding.sampling import Sampling, autoregressive_sample, speculative_sample
from specdec_lab.models.scripted import ScriptedModel, fixed, hash_of_prefix, scattered, wrong_when

NAN, INF = math.nan, math.inf
P, Q = [0.1, 0.6, 0.3], [0.6, 0.3, 0.1]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


class Steady:
    """The same distribution at every position, as cheap as can be: the cache is a number."""

    def __init__(self, probabilities):
        self.row = torch.tensor(fixed(probabilities)([]))
        self.vocab_size = len(self.row)

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        count = input_ids.shape[1]
        rows = self.row.expand(1, count, -1)
        return SimpleNamespace(logits=rows, past_key_values=(past_key_values or 0) + count)

    def truncate_cache(self, past_key_values, valid_length):
        return valid_length


def sampled(target, drafter, prompt=(0,), n=8, gamma=3, ends=(), seed=0, chance=None, **settings):
    """A trace of a sampled run."""
    rounds = speculative_rounds(
        target,
        drafter,
        list(prompt),
        max_new_tokens=n,
        gamma=gamma,
        eos_token_id=list(ends),
        sampling=Sampling(**settings),
        chance=chance or GeneratorChance(seeded(seed)),
    )
    return Trace.of(prompt, rounds)


def frequencies(tokens, width=3):
    return [tokens.count(i) / len(tokens) for i in range(width)]


def assert_drawn_from(tokens, probabilities, errors=3.0):
    for found, p in zip(frequencies(tokens, len(probabilities)), probabilities, strict=True):
        assert abs(found - p) <= errors * math.sqrt(p * (1 - p) / len(tokens)), (found, p, len(tokens))


def tv(found, expected):
    return sum(abs(a - b) for a, b in zip(found, expected, strict=True)) / 2


# ---------------------------------------------------------------- 20,000 draws of the whole decoder


@pytest.fixture(scope="session")  # made once, however pytest orders the tests
def long_runs():
    """Ten runs of 4,000 tokens with a generator each, γ = 3: with P throughout, tokens are independent draws."""
    target, draft = Steady(P), Steady(Q)
    return [sampled(target, draft, n=4000, seed=seed) for seed in range(10)]


@pytest.mark.scripted
def test_f07_proposals_are_drawn_not_argmaxed(long_runs):
    """The argmax is proposed and its softmax taken for q: [.167, .5, .333] (huggingface/transformers 32867)."""
    tokens = [token for trace in long_runs[:5] for token in trace.new_tokens]
    assert len(tokens) == 20_000
    assert_drawn_from(tokens, P)
    assert max(abs(a - b) for a, b in zip(frequencies(tokens), P, strict=True)) < 0.015
    drafted = [item.drafted[0] for trace in long_runs for item in trace.rounds if item.drafted]
    assert_drawn_from(drafted, Q)


def test_f07_greedy_takes_the_target_s_best():
    target, draft = Steady([0.3, 0.5, 0.2]), Steady([0.4, 0.3, 0.3])
    for temperature in (0.0, 1e-6):
        tokens, rate = speculative_sample(target, draft, [0], 6, 3, None, temperature=temperature)
        assert tokens == [0] + [1] * 6 and rate == 0


@pytest.mark.scripted
def test_f15_the_rule_of_rejection(long_runs):
    """Softmax of the clipped difference, or a replacement from p (huggingface/transformers PR 28508, NJUNLP/MCSD 5)."""
    rounds = [item for trace in long_runs for item in trace.rounds if item.drafted]
    tokens = [token for trace in long_runs[5:] for token in trace.new_tokens]
    assert len(tokens) == 20_000 and tv(frequencies(tokens), P) < 0.015
    first = [bool(item.accepted) for item in rounds]
    assert len(first) > 20_000
    share = sum(first) / len(first)
    assert abs(share - 0.5) < 0.01 and abs(share - 0.5) < 3 * 0.5 / math.sqrt(len(first))
    replaced = [item.emitted[-1] for item in rounds if item.outcome == "correction"]
    assert_drawn_from(replaced, [0.0, 0.6, 0.4])
    kept = [item.drafted[0] for item in rounds if item.accepted]
    assert_drawn_from(kept, [0.2, 0.6, 0.2])  # min(p, q) normalised
    # behind a rejection nothing is kept, and each place is accepted with Σ min(p, q) given those before it
    for place in (1, 2):
        reached = [item for item in rounds if len(item.accepted) >= place and len(item.drafted) > place]
        share = sum(len(item.accepted) > place for item in reached) / len(reached)
        assert abs(share - 0.5) < 3 * 0.5 / math.sqrt(len(reached))


@pytest.mark.scripted
def test_f26_the_bonus_is_drawn_from_p(long_runs):
    """Not from the residual, and it is kept (vllm PR 5765)."""
    bonuses = [item.emitted[-1] for trace in long_runs for item in trace.rounds if item.outcome == "bonus"]
    assert len(bonuses) > 2000
    assert_drawn_from(bonuses, P)


@pytest.mark.scripted
def test_f31_every_draw_has_a_number_of_its_own(long_runs):
    """One uniform for accepting and replacing gives [.10, .56, .34] (vllm PR 54282, NVIDIA-NeMo/Automodel PR 3166)."""
    tokens = [token for trace in long_runs for token in trace.new_tokens]
    assert len(tokens) == 40_000 and tv(frequencies(tokens), P) < 0.01
    assert_drawn_from(tokens, P)
    pairs = [
        3 * a + b for trace in long_runs for a, b in zip(trace.new_tokens, trace.new_tokens[1:], strict=False)
    ]
    assert_drawn_from(pairs, [a * b for a in P for b in P], errors=3.5)  # nine at once


@pytest.mark.scripted
def test_f31_first_tokens_of_many_seeds():
    """A generator made anew for each run: its first numbers must do as well. n = γ + 2."""
    target, draft = Steady(P), Steady(Q)
    first = [
        speculative_sample(target, draft, [0], 3, 1, None, generator=seeded(seed))[0][1]
        for seed in range(1500)
    ]
    assert_drawn_from(first, P)


@pytest.mark.scripted
def test_f16_equal_distributions_accept_everything():
    """Accepted only if it equals a sample of the target's: .38 instead of 1 (ml-explore/mlx-swift-lm PR 459)."""
    probabilities = [0.5, 0.3, 0.2]
    trace = sampled(Steady(probabilities), Steady(probabilities), n=8000)
    assert len(trace.rounds) == 2000
    assert trace.acceptance_rate == 1.0 and {item.outcome for item in trace.rounds} == {"bonus"}
    assert_drawn_from(trace.new_tokens, probabilities)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.4}, {"top_k": 2}, {"top_p": 0.7}])
def test_f16_the_same_scattered_model_twice(settings):
    """q is what was sampled from: the filters and the temperature apply to both sides of the test."""
    rule = scattered(7, seed=4, spread=2.0)
    for seed in range(20):
        trace = sampled(ScriptedModel(rule, 7), ScriptedModel(rule, 7), n=24, gamma=4, seed=seed, **settings)
        assert trace.acceptance_rate == 1.0


@pytest.mark.scripted
def test_f18_filters_apply_to_what_is_emitted():
    """With top-k 2 the rarest of three never comes, and the others keep their odds (thu-nics/C2C PR 21)."""
    for settings in ({"top_k": 2}, {"top_p": 0.9}):
        trace = sampled(Steady(P), Steady(Q), n=3000, **settings)
        assert_drawn_from(trace.new_tokens, [0.0, 2 / 3, 1 / 3])
        # q keeps its own two largest, ids 0 and 1, and only 1 is possible for both
        assert sum(bool(i.accepted) for i in trace.rounds) / len(trace.rounds) == pytest.approx(
            1 / 3, abs=0.03
        )


@pytest.mark.scripted
def test_temperature_applies_to_both():
    p, q = ([x * x / sum(y * y for y in row) for x in row] for row in (P, Q))
    trace = sampled(Steady(P), Steady(Q), n=3000, temperature=0.5)
    assert_drawn_from(trace.new_tokens, p)
    assert_drawn_from([item.drafted[0] for item in trace.rounds if item.drafted], q)
    assert trace.expected_alpha == pytest.approx(sum(map(min, p, q)), abs=1e-5)


@pytest.mark.scripted
def test_plain_sampling():
    tokens = autoregressive_sample(Steady(P), [0, 1], 8000, None, generator=seeded(1))
    assert tokens[:2] == [0, 1] and len(tokens) == 8002
    assert_drawn_from(tokens[2:], P)
    filtered = autoregressive_sample(
        Steady(P), [0], 3000, None, top_k=2, temperature=0.5, generator=seeded(1)
    )
    assert_drawn_from(filtered[1:], [0, 0.8, 0.2])


# ---------------------------------------------------------------- the rule itself, at its edges


class Tosses:
    """A chance that says what it is asked to, and notes every question."""

    def __init__(self, *answers, draws=()):
        self.answers, self.draws, self.asked, self.drawn_from = list(answers), list(draws), [], []

    def accept(self, probability):
        self.asked.append(probability)
        return self.answers.pop(0)

    def draw(self, probabilities):
        self.drawn_from.append(probabilities.tolist())
        return self.draws.pop(0) if self.draws else int(probabilities.argmax())


def logs(*rows):
    return torch.tensor([fixed(row)([]) for row in rows])


def near(values):
    return pytest.approx(values, abs=1e-6)


def test_the_numbers_that_chance_is_asked_for():
    rows = logs(P, P, P)
    proposal = Proposal((1, 0), probabilities=torch.tensor([Q, Q]))
    chance = Tosses(True, True, draws=[2])
    verdict = Sampling().accept(proposal, rows, chance)
    assert (verdict.path, verdict.own) == ((0, 1), 2) and verdict.overlaps == near((0.5, 0.5))
    assert chance.asked == near([1.0, 1 / 6]) and chance.drawn_from == [near(P)], "the bonus comes from p"
    chance = Tosses(True, False, draws=[1])
    verdict = Sampling().accept(proposal, rows, chance)
    assert (verdict.path, verdict.own) == ((0,), 1) and verdict.overlaps == near((0.5, 0.5))
    assert chance.drawn_from == [near([0, 0.6, 0.4])]
    chance = Tosses(False)
    verdict = Sampling().accept(proposal, rows, chance)
    assert len(verdict.path) == 0 and len(chance.asked) == 1 and verdict.overlaps == near((0.5,))


def test_a_guess_is_a_point_mass():
    """One draw from p, which the guess either is or is not: accepted with p(x), replaced from p without x."""

    class Draws(Tosses):
        def draw(self, probabilities):
            self.drawn_from.append(probabilities.tolist())
            return self.answers.pop(0)

    for answers, path, own, overlaps in (([2], (), 2, (0.6,)), ([1, 0, 1], (0, 1), 1, (0.6, 0.1))):
        chance = Draws()
        chance.answers = answers
        verdict = Sampling().accept(Proposal((1, 0)), logs(P, P, P), chance)
        assert (verdict.path, verdict.own) == (path, own) and verdict.overlaps == near(overlaps)
        assert chance.asked == [] and chance.drawn_from == [near(P)] * (len(path) + 1)
    chance = Tosses()
    Sampling(temperature=0.5, top_k=2).accept(Proposal((0,)), logs(P, P), chance)
    assert chance.drawn_from == [near([0, 0.8, 0.2])]


def test_nothing_proposed_is_a_plain_draw():
    chance = Tosses()
    verdict = Sampling().accept(Proposal(), logs(P), chance)
    assert len(verdict.path) == 0 and chance.drawn_from == [near(P)] and verdict.overlaps == ()


def test_an_end_token_accepted_last_needs_no_more_draws():
    chance = Tosses(True)
    proposal = Proposal((1,), probabilities=torch.tensor([Q]), ends=frozenset({0}))
    assert Sampling().accept(proposal, logs(P, P), chance)[:2] == ((0,), None)
    assert chance.drawn_from == []
    assert Sampling().accept(proposal, logs(P, P), Tosses(False)).own is not None, "rejected, it ends nothing"


def test_a_token_refused_unseen_is_replaced_from_the_residual():
    chance = Tosses(True, False)
    rows = torch.tensor([[*Q, 0.0], [0.2, 0.1, 0.1, 0.6]])
    verdict = Sampling().accept(Proposal((1,), probabilities=rows, refused=3), logs(P, P), chance)
    assert chance.drawn_from == [near([0, 5 / 7, 2 / 7])] and chance.asked[1] == 0
    assert verdict.path == (0,) and verdict.overlaps == near((0.5, 0.3))


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 1e-12])
def test_f13_greedy_in_every_branch(temperature):
    """Draft, verify, correction and bonus, with logits up to ±80 (vllm PR 27077)."""

    def rule(prefix):
        best = hash_of_prefix(5)(prefix)
        return [80.0 if i == best else 79.99 if i == (best + 1) % 5 else -80.0 for i in range(5)]

    target = ScriptedModel(rule, 5)
    half = ScriptedModel(lambda prefix: rule(prefix) if len(prefix) % 3 else [80.0, -80, 0, 1, 2], 5)
    expected = autoregressive_decode(target, [1], 30, None)
    for top in ({}, {"top_k": 3}, {"top_p": 0.4}):
        found, rate = speculative_sample(target, half, [1], 30, 4, None, temperature=temperature, **top)
        assert found == expected and 0 < rate < 1
        assert autoregressive_sample(target, [1], 30, None, temperature=temperature, **top) == expected
    trace = sampled(target, half, (1,), 30, 4, temperature=temperature)
    assert {item.outcome for item in trace.rounds} >= {"correction", "bonus"}
    for item in trace.rounds:
        assert item.overlaps is None


@pytest.mark.parametrize("temperature", [1e-5, 1e-4, 1e-3])
def test_f13_just_above_the_limit_nothing_overflows(temperature):
    def rule(prefix):
        best = hash_of_prefix(5)(prefix)
        return [80.0 if i == best else -80.0 for i in range(5)]

    target, draft = (
        ScriptedModel(rule, 5),
        ScriptedModel(wrong_when(hash_of_prefix(5), 5, lambda i: i % 2), 5),
    )
    found, _ = speculative_sample(
        target, draft, [1], 20, 3, None, temperature=temperature, generator=seeded(1)
    )
    assert found == autoregressive_decode(target, [1], 20, None)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_temperature_zero_is_speculative_decode_on_transformers(family):
    target = random_model(family, seed=1)
    draft = with_noise(random_model(family, seed=1), 0.006 if family == "llama" else 0.02, seed=9)
    for prompt in ([7], [5, 9, 13, 7, 2]):
        for drafter in (draft, PromptLookupDrafter(), DialDrafter(target, 0.6)):
            expected = speculative_decode(target, drafter, prompt, 30, 4, [3])
            assert speculative_sample(target, drafter, prompt, 30, 4, [3], temperature=0) == expected


def test_temperature_zero_with_lookup_and_scripted_models():
    rule = lambda prefix: (prefix[-1] * 3 + prefix[0]) % 11  # noqa: E731
    target = ScriptedModel(rule, 11)
    for ends in (None, 5, [5, 7]):
        expected = speculative_decode(target, PromptLookupDrafter(), [4, 2, 9], 40, 4, ends)
        assert (
            speculative_sample(target, PromptLookupDrafter(), [4, 2, 9], 40, 4, ends, temperature=0)
            == expected
        )
        assert expected[1] > 0.5


def test_temperature_zero_draws_nothing_at_all(monkeypatch):
    generator = seeded(5)
    torch.manual_seed(3)
    before = torch.get_rng_state(), generator.get_state()
    monkeypatch.setattr(torch, "rand", None)
    monkeypatch.setattr(torch, "multinomial", None)
    target, draft = ScriptedModel(scattered(5, 1), 5), ScriptedModel(scattered(5, 2), 5)
    for given in (None, generator):
        speculative_sample(target, draft, [0], 20, 3, None, temperature=0.0, generator=given)
        autoregressive_sample(target, [0], 20, None, temperature=1e-6, generator=given)
    assert torch.equal(torch.get_rng_state(), before[0]) and torch.equal(generator.get_state(), before[1])


# ---------------------------------------------------------------- seeds


@pytest.fixture(scope="module")
def scattered_pair():
    return ScriptedModel(scattered(6, 1, 1.5), 6), ScriptedModel(scattered(6, 2, 1.5), 6)


def test_f31_seeds_repeat_and_differ(scattered_pair):
    def run(seed, **settings):
        return speculative_sample(*scattered_pair, [0], 20, 3, None, generator=seeded(seed), **settings)

    assert run(1) == run(1) and run(1, top_p=0.8) == run(1, top_p=0.8)
    assert len({tuple(run(seed)[0]) for seed in range(20)}) == 20

    def plain(seed):
        return autoregressive_sample(scattered_pair[0], [0], 20, None, generator=seeded(seed))

    assert plain(4) == plain(4) != plain(5)


def test_f31_the_global_state_is_left_alone(scattered_pair):
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first = speculative_sample(*scattered_pair, [0], 20, 3, None, generator=seeded(1))
    plain = autoregressive_sample(scattered_pair[0], [0], 20, None, generator=seeded(1))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    assert first == speculative_sample(*scattered_pair, [0], 20, 3, None, generator=seeded(1))
    assert plain == autoregressive_sample(scattered_pair[0], [0], 20, None, generator=seeded(1))


def test_without_a_generator_torch_s_own_is_used(scattered_pair):
    def run(seed):
        torch.manual_seed(seed)
        return speculative_sample(*scattered_pair, [0], 20, 3, None)

    assert run(1) == run(1) != run(2)
    state = torch.get_rng_state()
    autoregressive_sample(scattered_pair[0], [0], 3, None)
    assert not torch.equal(torch.get_rng_state(), state)


def test_a_generator_runs_on_from_call_to_call(scattered_pair):
    generator = seeded(1)
    runs = [speculative_sample(*scattered_pair, [0], 12, 3, None, generator=generator)[0] for _ in range(6)]
    assert len(set(map(tuple, runs))) == 6


def test_a_dial_meets_the_same_errors_again():
    """Its errors depend on prompt, position and seed: a second run with the same generator is the first once more."""
    target = ScriptedModel(scattered(5, seed=1), 5)
    dial = DialDrafter(target, 0.7, seed=3)
    for seed in range(8):
        fresh = DialDrafter(target, 0.7, seed=3)
        runs = [
            speculative_sample(target, drafter, [0], 12, 3, None, generator=seeded(seed))
            for drafter in (fresh, dial, dial)
        ]
        assert runs[0] == runs[1] == runs[2]


def test_a_chance_is_used_whatever_it_looks_like(scattered_pair):
    """A replayed record may well be an empty list of its own kind."""

    class Replay(list):
        draw = staticmethod(lambda probabilities: int(probabilities.argmax()))
        accept = staticmethod(lambda probability: probability >= 0.5)

    runs = []
    for seed in range(3):
        torch.manual_seed(seed)
        rounds = speculative_rounds(
            *scattered_pair,
            [0],
            max_new_tokens=12,
            gamma=3,
            eos_token_id=None,
            sampling=Sampling(),
            chance=Replay(),
        )
        runs.append(Trace.of([0], rounds).new_tokens)
    assert runs[0] == runs[1] == runs[2]


# ---------------------------------------------------------------- extreme uniform numbers

LARGEST = 1 - 2.0**-53


def every_token_was_possible(target, prompt, tokens, settings):
    for i, token in enumerate(tokens):
        row = torch.tensor(target.rule([*prompt, *tokens[:i]]), dtype=target.logits_dtype)
        assert Sampling(**settings).distribution(row)[token] > 0, (i, token)


@pytest.mark.scripted
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "settings", [{}, {"top_k": 2}, {"top_p": 0.4}, {"temperature": 0.2, "top_k": 3, "top_p": 0.9}]
)
def test_the_impossible_never_comes_out(monkeypatch, settings, dtype):
    """Uniform numbers of 0 and of the largest below 1, in any order, with rows that begin and end with zeros."""

    def rule(seed):
        def row(prefix):
            values = scattered(9, seed, 2.0)(prefix)
            return [-INF if i in (0, 8, (prefix[-1] + seed) % 9) else x for i, x in enumerate(values)]

        return row

    target = ScriptedModel(rule(1), 9, logits_dtype=dtype)
    draft = ScriptedModel(rule(2), 9, logits_dtype=dtype)
    for pattern in range(48):
        order = torch.rand(400, generator=seeded(pattern)).tolist()
        share = pattern / 47
        numbers = iter([0.0 if x < share else LARGEST for x in order])
        monkeypatch.setattr(GeneratorChance, "_uniform", lambda self, numbers=numbers: next(numbers))
        for drafter in (draft, PromptLookupDrafter()):
            tokens, _ = speculative_sample(
                target, drafter, [4, 1], 8, 3, None, generator=seeded(0), **settings
            )
            every_token_was_possible(target, [4, 1], tokens[2:], settings)


def test_uniform_numbers_have_53_bits():
    """24 bits would never draw a token of probability 1e-9, nor tell its neighbours apart."""
    chance = GeneratorChance(seeded(0))
    numbers = [chance._uniform() for _ in range(1000)]
    assert all(0 <= x < 1 for x in numbers)
    assert sum(x * 2**24 % 1 != 0 for x in numbers) > 990


# ---------------------------------------------------------------- drafters of one's own


class Own:
    """Proposes what it is made with."""

    def __init__(self, make):
        self.make = make

    def start(self, prompt):
        pass

    def propose(self, sequence, limit, chance):
        return self.make(sequence, limit, chance)

    def commit(self, sequence, hidden=None):
        pass


def drawn(row, kind=torch.tensor):
    """A drafter that draws from `row` and says so."""

    def make(sequence, limit, chance):
        tokens = tuple(chance.draw(torch.tensor(row, dtype=torch.float64)) for _ in range(limit))
        return Proposal(tokens, probabilities=kind([row] * limit))

    return Own(make)


@pytest.mark.scripted
@pytest.mark.parametrize("kind", [torch.tensor, list, np.array])
def test_a_drafter_of_one_s_own_that_draws(kind):
    trace = sampled(Steady(P), drawn(Q, kind), n=1500)
    assert_drawn_from(trace.new_tokens, P)
    assert trace.expected_alpha == near(0.5)


@pytest.mark.scripted
def test_a_drafter_that_lies_about_q_is_seen_in_the_counts():
    """This is what the rule cannot know: q has to be what was drawn from."""

    def make(sequence, limit, chance):
        tokens = tuple(chance.draw(torch.tensor(Q)) for _ in range(limit))
        return Proposal(tokens, probabilities=torch.tensor([[1 / 3] * 3] * limit))

    with pytest.raises(AssertionError):
        assert_drawn_from(sampled(Steady(P), Own(make), n=4000).new_tokens, P)


REFUSED = {
    "zero": (
        [0.0, 0.5, 0.5],
        r"token 1 of its proposal must be a distribution that 0 can have been drawn from.*0 has 0$",
    ),
    "nan": ([NAN, 0.5, 0.5], r"probabilities for token 1 of its proposal must be"),
    "nan elsewhere": ([0.5, 0.5, NAN], r"probabilities for token 1 of its proposal must be"),
    "negative": ([-0.5, 0.75, 0.75], r"probabilities for token 1 of its proposal must be"),
    "negative elsewhere": ([0.75, -0.25, 0.5], r"token 1 of its proposal must be.*the least is -0\.25"),
    "inf": ([INF, 0.5, 0.5], r"probabilities for token 1 of its proposal must be"),
    "inf elsewhere": ([0.5, 0.5, INF], r"probabilities for token 1 of its proposal must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_probabilities_are_refused_by_name(case):
    row, message = REFUSED[case]
    drafter = Own(lambda sequence, limit, chance: Proposal((0,), probabilities=torch.tensor([row])))
    with pytest.raises(ValueError, match=message):
        sampled(Steady(P), drafter)


@pytest.mark.parametrize("row", [[NAN, 0.5, 0.0, 0.5], [0.5, 0.5, NAN, 0.0]])
def test_wrong_probabilities_of_a_foreign_token_are_refused_too(row):
    """Its row is what the replacement is made from."""
    drafter = Own(lambda sequence, limit, chance: Proposal((3,), probabilities=torch.tensor([row])))
    with pytest.raises(ValueError, match="probabilities for token 1 of its proposal must be"):
        sampled(Steady(P), drafter)


@pytest.mark.scripted
def test_a_token_refused_unseen_is_a_rejection_in_the_record():
    """The target has three ids, the drafter draws a fourth half the time: α is what was to be expected."""
    trace = sampled(Steady(P), drawn([0.1, 0.2, 0.2, 0.5]), n=4000)
    refused = [item for item in trace.rounds if 3 in item.drafted]
    assert len(refused) > 500
    for item in refused:
        assert item.outcome == "correction" and item.drafted[-1] == 3 and item.rejected == 1
        assert item.parents == tuple(range(-1, len(item.drafted) - 1))
        assert len(item.overlaps) == len(item.accepted) + 1
    judged = trace.accepted + trace.rejected
    assert trace.expected_alpha == near(0.5)  # Σ min(p, q)
    assert abs(trace.alpha - 0.5) < 3 * math.sqrt(0.25 / judged)


def test_the_place_that_is_named_is_the_wrong_one():
    rows = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0, 0.5, 0.5]])
    drafter = Own(lambda _, limit, chance: Proposal((0, 0, 0)[:limit], probabilities=rows[:limit]))
    with pytest.raises(ValueError, match="token 3 of its proposal"):
        sampled(Steady([1.0, 0, 0]), drafter)
    # behind a rejection nobody looks
    trace = sampled(Steady([0.0, 1, 0]), drafter)
    assert trace.new_tokens == [1] * 8


@pytest.mark.parametrize(
    "probabilities",
    [
        torch.ones(3),
        torch.full((1, 3), 1 / 3),
        torch.full((4, 3), 1 / 3),
        torch.full((1, 2, 3), 1 / 3),
        [],
        1.0,
    ],
)
def test_probabilities_of_the_wrong_shape_are_refused(probabilities):
    drafter = Own(lambda sequence, limit, chance: Proposal((0, 1), probabilities=probabilities))
    with pytest.raises(ValueError, match=r"one row of the vocabulary for each of its 2 tokens, got shape \("):
        sampled(Steady(P), drafter)


def test_a_drafter_that_has_no_guess_may_say_so_in_any_way():
    """A list of rows that stayed empty, as one collects them."""
    for nothing in (None, torch.empty(0, 3), []):
        drafter = Own(lambda sequence, limit, chance, x=nothing: Proposal((), probabilities=x))
        trace = sampled(Steady(P), drafter)
        assert {item.outcome for item in trace.rounds} == {"plain"}


@pytest.mark.scripted
def test_probabilities_over_fewer_or_more_ids():
    for row, target in (([0.3, 0.7], P), ([0.2, 0.2, 0.3, 0.3], P)):
        trace = sampled(Steady(target), drawn(row), n=2500)
        assert_drawn_from(trace.new_tokens, target)
        assert max(trace.new_tokens) == 2


@pytest.mark.scripted
def test_a_drafter_by_hand_without_sampling_is_a_point_mass():
    trace = sampled(Steady(P), ModelDrafter(Steady(Q)), n=2000)
    assert {item.drafted[0] for item in trace.rounds if item.drafted} == {0}
    assert_drawn_from(trace.new_tokens, P)
    assert trace.expected_alpha == near(0.1)


# ---------------------------------------------------------------- rows that are not finite

BAD = {"nan": [0.0, NAN, 0.0], "inf": [0.0, INF, 0.0], "nothing": [-INF] * 3}
MODES = [{}, {"temperature": 0.0}, {"top_k": 2}, {"top_p": 0.5}]


@pytest.mark.parametrize("settings", MODES)
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("place", [2, 3, 7, 9])
def test_a_bad_row_of_the_target_is_named(place, bad, settings):
    """The position in the whole sequence of the token that it would choose."""
    target = ScriptedModel(lambda prefix: bad if len(prefix) == place else [0.0, 1.0, 0.5], 3)
    draft = ScriptedModel(lambda prefix: [0.0, 1.0, 0.5], 3)
    message = rf"the target's logits for position {place} are not finite"
    for drafter in (draft, PromptLookupDrafter()):
        with pytest.raises(ValueError, match=message):
            speculative_sample(target, drafter, [0, 1], 12, 4, None, generator=seeded(1), **settings)
    with pytest.raises(ValueError, match=message):
        autoregressive_sample(target, [0, 1], 12, None, generator=seeded(1), **settings)


@pytest.mark.parametrize("settings", MODES)
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_row_that_is_never_reached_does_not_matter(bad, settings):
    """Behind a rejected draft, behind an end token, behind the last token."""
    always_one = [-INF, 5.0, -INF]
    target = ScriptedModel(lambda prefix: bad if 0 in prefix[1:] else always_one, 3)
    draft = ScriptedModel(lambda prefix: [5.0, -INF, -INF], 3)  # 0 is refused, what follows it is bad
    tokens, rate = speculative_sample(target, draft, [0], 6, 3, None, generator=seeded(1), **settings)
    assert tokens == [0] + [1] * 6 and rate == 0
    target = ScriptedModel(lambda prefix: bad if 2 in prefix else [-INF, -INF, 5.0], 3)
    same = ScriptedModel(lambda prefix: [-INF, -INF, 5.0], 3)
    tokens, rate = speculative_sample(target, same, [0], 6, 3, [2], generator=seeded(1), **settings)
    assert (tokens, rate) == ([0, 2], 1.0)
    target = ScriptedModel(lambda prefix: bad if len(prefix) > 6 else always_one, 3)
    assert speculative_sample(target, same, [0], 6, 3, None, **settings)[0] == [0] + [1] * 6


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_row_of_the_draft_leaves_the_target_alone(bad):
    target = ScriptedModel(scattered(3, 1), 3)
    never = sampled(target, ScriptedModel(lambda prefix: bad, 3), n=8)
    assert never.drafted == 0 and {item.outcome for item in never.rounds} == {"plain"}
    # every third row: shorter drafts, and the caches stay right
    rule = scattered(3, 2)
    draft = ScriptedModel(lambda prefix: bad if len(prefix) % 3 == 0 else rule(prefix), 3)
    for seed in range(20):
        trace = sampled(target, draft, n=20, gamma=4, seed=seed)
        assert len(trace.new_tokens) == 20 and trace.drafted > 0
        position = 1
        for item in trace.rounds:
            assert len(item.drafted) <= (-position) % 3, "it drafts up to the bad row, not beyond"
            position += len(item.emitted)


# ---------------------------------------------------------------- dtypes, devices, vocabularies


@pytest.mark.parametrize("target_dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("draft_dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_f32_dtypes_meet_in_the_accept_test(target_dtype, draft_dtype, monkeypatch):
    """float64 logits stay float64, half precision is widened (huggingface/transformers 35099)."""
    target = ScriptedModel(scattered(4, 1), 4, logits_dtype=target_dtype)
    draft = ScriptedModel(scattered(4, 2), 4, logits_dtype=draft_dtype)
    seen, real = set(), sampling_rule.residual
    monkeypatch.setattr(sampling_rule, "residual", lambda p, q: seen.add((p.dtype, q.dtype)) or real(p, q))
    for seed in range(5):
        trace = sampled(target, draft, n=16, seed=seed)
        assert 0 < trace.acceptance_rate < 1
        assert all(0 <= overlap <= 1 + 1e-6 for item in trace.rounds for overlap in item.overlaps)
    wide = torch.float64 if torch.float64 in (target_dtype, draft_dtype) else torch.float32
    assert seen == {(wide, wide)}


def test_f32_half_precision_of_a_real_pair():
    target = random_model("llama", seed=1)
    draft = random_model("llama", seed=1).to(torch.bfloat16)
    tokens, rate = speculative_sample(
        target, draft, [5, 9], 30, 4, None, temperature=0.5, generator=seeded(1)
    )
    assert len(tokens) == 32 and rate > 0.5
    assert draft.dtype == torch.bfloat16 and target.dtype == torch.float32


def test_f32_no_float64_where_the_device_has_none(monkeypatch):
    """As on MPS: everything stays float32, the running sums and uniform numbers too (pytorch/pytorch 122602)."""
    for module in (distributions, chance_module, sampling_rule):
        monkeypatch.setattr(module, "finest", lambda device: torch.float32)
    target, draft = random_model("llama", seed=1), random_model("llama", seed=2)
    for settings in ({}, {"temperature": 0.7, "top_k": 9, "top_p": 0.9}, {"temperature": 0.0}):
        with Dtypes() as noted:
            for drafter in (draft, PromptLookupDrafter()):
                speculative_sample(target, drafter, [1, 2, 1], 8, 3, None, generator=seeded(0), **settings)
        assert torch.float32 in noted.seen and torch.float64 not in noted.seen, settings


class Elsewhere(Steady):
    """A model whose ids live on the `meta` device; its rows can be read."""

    device = torch.device("meta")

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        assert input_ids.device.type == "meta", "ids must be moved to the model's device"
        return super().forward(input_ids, use_cache, past_key_values)


@pytest.mark.parametrize("role", ["target", "draft"])
def test_f32_ids_are_moved_to_each_model_s_device(role):
    """Target and draft on different devices (huggingface/transformers 31060)."""
    kinds = (Elsewhere, Steady) if role == "target" else (Steady, Elsewhere)
    trace = sampled(kinds[0](P), kinds[1](Q), n=2000)
    assert_drawn_from(trace.new_tokens, P)


def test_f32_q_follows_p_to_its_device():
    """What `accept` compares is on the target's device, in its dtype."""
    p = torch.empty(3, 4, device="meta")
    found = sampling_rule._together(Proposal((0, 1), probabilities=torch.full((2, 3), 1 / 3)), p)
    assert [(x.device.type, x.shape[-1], x.dtype) for x in found] == [
        ("meta", 4, torch.float32),
        ("meta", 3, torch.float32),
    ]
    rows, tokens = sampling_rule._rows_above(Proposal((0, 1)), p.device)
    assert rows.device.type == tokens.device.type == "meta"


def test_f09_padded_vocabularies():
    """Never an id that the target lacks, and no IndexError (huggingface/transformers 45307)."""
    small, large = (ScriptedModel(scattered(width, 1), width) for width in (4, 9))
    for seed in range(30):
        trace = sampled(small, large, n=12, seed=seed)
        assert max(trace.new_tokens) < 4 and all(max(r.drafted, default=0) < 4 for r in trace.rounds)
        wanted = 12
        for item in trace.rounds:  # q is over the target's ids from the start: no draw is wasted on others
            assert len(item.drafted) == min(3, wanted - 1)
            wanted -= len(item.emitted)
        mixed = sampled(large, small, n=12, seed=seed)
        unreadable = next((i for i, token in enumerate(mixed.new_tokens) if token >= 4), None)
        if unreadable is not None:
            first = 0
            for item in mixed.rounds:
                assert not item.drafted or first <= unreadable
                first += len(item.emitted)


def test_f09_transformers_models_of_different_width():
    small, large = (random_model("llama", seed=1, vocab_size=size) for size in (48, 80))
    for target, draft, width in ((small, large, 48), (large, small, 80)):
        tokens, _ = speculative_sample(target, draft, [5, 40, 7], 30, 4, None, generator=seeded(2))
        assert len(tokens) == 33 and max(tokens) < width


# ---------------------------------------------------------------- the record


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "top_p": 0.9}, {"temperature": 0.0}])
@pytest.mark.parametrize("ends", [(), (3,), (3, 11, 30)])
def test_runs_of_real_models_hold_together(tiny, ends, settings):
    """Budget, caches, end tokens and outcomes, for drafts of every quality; the caches are those of the text."""
    for draft in tiny.drafts.values():
        for seed, n in ((0, 1), (1, 2), (2, 25)):
            trace = sampled(tiny.target, draft, tuple(tiny.prompts[1]), n, 4, ends, seed, **settings)
            assert_rounds_hold(trace.prompt, trace.rounds, ends, n)
            if settings.get("temperature") != 0.0:
                judged = [len(item.accepted) + item.rejected for item in trace.rounds]
                assert [len(item.overlaps) for item in trace.rounds] == judged


def test_a_cached_draft_is_the_draft_itself(tiny_llama):
    """p and q are those of the text so far: with the target as its own draft nothing is ever refused."""
    for seed in range(3):
        trace = sampled(tiny_llama.target, tiny_llama.drafts["agree"], (7,), 40, 4, seed=seed)
        # rounding between a step and a block may refuse one in ten thousand
        assert trace.rejected <= 1 and trace.expected_alpha == pytest.approx(1, abs=1e-4)


def test_one_draft_pass_a_token_and_one_target_pass_a_round():
    target, draft = ScriptedModel(scattered(5, 1), 5), ScriptedModel(scattered(5, 2), 5)
    trace = sampled(target, draft, n=60, gamma=4)
    assert_rounds_hold((0,), trace.rounds, (), 60)
    assert target.passes == len(trace.rounds) and draft.passes == trace.drafted
    assert target.fed_tokens == 60 + trace.drafted - trace.accepted
    assert 0.3 < trace.acceptance_rate < 0.9


def test_overlaps_are_those_of_the_text():
    """Σ min(p, q) behind every prefix that was judged, from the rules, in plain Python."""
    rules = scattered(5, 1), scattered(5, 2)
    target, draft = (ScriptedModel(rule, 5, logits_dtype=torch.float64) for rule in rules)
    for settings in ({}, {"temperature": 0.5}):
        trace = sampled(target, draft, n=60, gamma=4, **settings)
        prefix, expected = [0], []
        for item in trace.rounds:
            for place in range(len(item.accepted) + item.rejected):
                rows = []
                for rule in rules:
                    logits = rule([*prefix, *item.drafted[:place]])
                    weights = [math.exp(x / settings.get("temperature", 1.0)) for x in logits]
                    rows.append([w / sum(weights) for w in weights])
                expected.append(sum(map(min, *rows)))
                assert item.overlaps[place] == pytest.approx(expected[-1], abs=1e-12)
            prefix += item.emitted
        assert trace.expected_alpha == pytest.approx(sum(expected) / len(expected), abs=1e-12)
        places = trace.acceptance_by_position()
        for place in range(4):
            there = [r.overlaps[place] for r in trace.rounds if len(r.overlaps) > place]
            assert len(there) == places[place]["judged"]
            assert places[place]["expected"] == pytest.approx(sum(there) / len(there), abs=1e-12)


def test_expected_and_observed_alpha_meet(long_runs):
    rounds = [item for trace in long_runs for item in trace.rounds]
    trace = Trace.of([0], rounds)
    assert trace.expected_alpha == near(0.5)
    judged = trace.accepted + trace.rejected
    assert abs(trace.alpha - 0.5) < 3 * 0.5 / math.sqrt(judged)
    for place in trace.acceptance_by_position():
        assert place["expected"] == near(0.5)
        assert abs(place["chance"] - 0.5) < 3.5 * 0.5 / math.sqrt(place["judged"])


def test_greedy_runs_expect_nothing():
    target = ScriptedModel(scattered(5, 1), 5)
    rounds = speculative_rounds(target, target, [0], max_new_tokens=8, gamma=3, eos_token_id=None)
    for trace in (Trace.of([0], rounds), sampled(target, ScriptedModel(scattered(5, 2), 5), temperature=0)):
        assert all(item.overlaps is None for item in trace.rounds)
        assert math.isnan(trace.expected_alpha)
        assert all("expected" not in place for place in trace.acceptance_by_position())
    assert math.isnan(Trace((0,), ()).expected_alpha)


def test_records_come_back_from_json(tmp_path):
    target, draft = ScriptedModel(scattered(5, 1), 5), ScriptedModel(scattered(5, 2), 5)
    for settings in ({}, {"temperature": 0.0}):
        trace = sampled(target, draft, n=20, **settings)
        assert Trace.from_json(trace.to_json()) == trace
        trace.save(tmp_path / "trace.json")
        assert Trace.load(tmp_path / "trace.json") == trace
        for item in trace.rounds:
            assert Round.from_dict(json.loads(json.dumps(item.to_dict()))) == item
    assert isinstance(json.loads(sampled(target, draft).to_json())["rounds"][0]["overlaps"], list)


def test_records_from_before_still_load():
    item = sampled(Steady(P), Steady(Q)).rounds[0]
    old = {name: value for name, value in item.to_dict().items() if name != "overlaps"}
    loaded = Round.from_dict(old)
    assert loaded.overlaps is None and loaded.emitted == item.emitted
    text = json.dumps({"schema_version": 1, "prompt": [0], "rounds": [old]})
    assert math.isnan(Trace.from_json(text).expected_alpha)
    with pytest.raises(ValueError, match="lacks drafted"):
        Round.from_dict({name: value for name, value in old.items() if name != "drafted"})


def test_streaming_yields_as_tokens_are_confirmed():
    """Nothing is drawn for a round before the one before it has been taken."""
    target = ScriptedModel(scattered(5, 1), 5)
    chance = Tosses(*[True] * 99)
    rounds = speculative_rounds(
        target,
        ScriptedModel(scattered(5, 1), 5),
        [0],
        max_new_tokens=12,
        gamma=3,
        eos_token_id=None,
        sampling=Sampling(),
        chance=chance,
    )
    assert chance.drawn_from == [] and target.passes == 0
    next(rounds)
    assert len(chance.drawn_from) == 4 and len(chance.asked) == 3 and target.passes == 1


# ---------------------------------------------------------------- end tokens, context, modes


@pytest.mark.parametrize(
    ("ends", "stops"),
    [
        (None, set()),
        ([], set()),
        (99, set()),
        (2, {2}),
        ([2], {2}),
        ((1, 2), {1, 2}),
        ({1, 2}, {1, 2}),
        (torch.tensor([1, 2]), {1, 2}),
    ],
)
def test_end_tokens(ends, stops):
    target, draft = ScriptedModel(scattered(5, 1), 5), ScriptedModel(scattered(5, 2), 5)
    lengths = set()
    for seed in range(12):
        for tokens in (
            speculative_sample(target, draft, [2, 1], 10, 4, ends, generator=seeded(seed))[0],
            autoregressive_sample(target, [2, 1], 10, ends, generator=seeded(seed)),
        ):
            new = tokens[2:]
            assert not stops & set(new[:-1])
            assert len(new) == 10 or new[-1] in stops
            lengths.add(len(new))
    assert (len(lengths) > 5) == bool(stops)


def test_context_limits():
    """The draft's is shorter than the target's; the target's own may be filled to the last place (vllm 57941)."""
    target = ScriptedModel(scattered(4, 1), 4, max_position_embeddings=20)
    draft = ScriptedModel(scattered(4, 2), 4, max_position_embeddings=9)
    for seed in range(10):
        trace = sampled(target, draft, (0, 1, 2), 17, 4, seed=seed)
        assert len(trace.new_tokens) == 17 and trace.drafted > 0
        assert trace.rounds[-1].outcome == "plain"
    for refused in (
        lambda: speculative_sample(target, draft, [0, 1, 2], 18, 4, None),
        lambda: autoregressive_sample(target, [0, 1, 2], 18, None),
    ):
        target.calls.clear()
        with pytest.raises(ValueError, match=r"3 tokens and max_new_tokens is 18.*context of 20"):
            refused()
        assert target.passes == 0
    assert len(speculative_sample(target, draft, list(range(4)) * 4, 4, 8, None)[0]) == 20


def test_models_run_in_eval_mode_and_are_left_as_found():
    """Dropout left active, or gradients recorded (karpathy/nanoGPT PR 240)."""
    dropout = {"attn_pdrop": 0.5, "embd_pdrop": 0.5, "resid_pdrop": 0.5}
    target, draft = (random_model("gpt2", seed=s, **dropout) for s in (1, 2))

    def run():
        return speculative_sample(target, draft, [1, 2], 20, 3, None, generator=seeded(1))

    expected = run()
    target.train()
    draft.transformer.h[0].train()
    flags = [[m.training for m in model.modules()] for model in (target, draft)]
    assert run() == expected == run()
    assert flags == [[m.training for m in model.modules()] for model in (target, draft)]
    torch.manual_seed(1)
    state = torch.get_rng_state()
    run()
    assert torch.equal(torch.get_rng_state(), state), "dropout drew"


def test_what_a_chance_is_given_records_no_gradient():
    seen = []

    class Looks(Tosses):
        def draw(self, probabilities):
            seen.append(probabilities)
            return super().draw(probabilities)

    model = random_model("llama", seed=1)
    sampled(model, random_model("llama", seed=2), n=8, chance=Looks(*[True, False] * 20))
    assert seen and not any(row.requires_grad for row in seen)
    assert all(len(row) == VOCABULARY for row in seen) and torch.is_grad_enabled()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"temperature": -0.1}, ValueError, r"temperature must be a finite number of 0 or more, got -0\.1"),
        ({"temperature": -1e-9}, ValueError, r"temperature must be a finite number of 0 or more, got -1e-09"),
        ({"temperature": NAN}, ValueError, r"temperature must be a finite number of 0 or more, got nan"),
        ({"temperature": INF}, ValueError, r"temperature must be a finite number of 0 or more, got inf"),
        ({"temperature": "hot"}, TypeError, r"temperature must be a finite number of 0 or more, got 'hot'"),
        ({"temperature": None}, TypeError, r"temperature must be .*got None"),
        ({"temperature": True}, TypeError, r"temperature must be .*got True"),
        ({"temperature": [1.0]}, TypeError, r"temperature must be .*got \[1\.0\]"),
        ({"top_k": -1}, ValueError, r"top_k must be at least 0, got -1"),
        ({"top_k": 2.0}, TypeError, r"top_k must be an integer, got 2\.0"),
        ({"top_k": True}, TypeError, r"top_k must be an integer, got True"),
        ({"top_k": "2"}, TypeError, r"top_k must be an integer, got '2'"),
        ({"top_p": -0.1}, ValueError, r"top_p must be between 0 and 1, got -0\.1"),
        ({"top_p": 1.1}, ValueError, r"top_p must be between 0 and 1, got 1\.1"),
        ({"top_p": NAN}, ValueError, r"top_p must be between 0 and 1, got nan"),
        ({"top_p": "0.9"}, TypeError, r"top_p must be a number between 0 and 1, got '0\.9'"),
        ({"top_p": True}, TypeError, r"top_p must be a number between 0 and 1, got True"),
        ({"generator": 7}, TypeError, r"generator must be a torch\.Generator or None, got int"),
    ],
)
def test_bad_settings_are_refused_before_the_first_pass(settings, error, message):
    target, draft = (ScriptedModel(scattered(3, s), 3) for s in (1, 2))
    with pytest.raises(error, match=message):
        speculative_sample(target, draft, [0], 4, 2, None, **settings)
    with pytest.raises(error, match=message):
        autoregressive_sample(target, [0], 4, None, **settings)
    assert target.passes == draft.passes == 0
    if "generator" not in settings:
        with pytest.raises(error, match=message):
            Sampling(**settings)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], 4, 2, None), ValueError, "input_ids must hold at least one id"),
        (([0, 3], 4, 2, None), ValueError, r"below the target's vocabulary size 3, got 3 at \[1\]"),
        (([-1], 4, 2, None), ValueError, "input_ids must hold ids of 0 or more, got -1"),
        (([[0]], 4, 2, None), ValueError, "one flat sequence"),
        (([0.5], 4, 2, None), TypeError, "must be an integer"),
        (("text", 4, 2, None), TypeError, "got text"),
        (([0], 0, 2, None), ValueError, "max_new_tokens must be at least 1, got 0"),
        (([0], 4, 0, None), ValueError, "gamma must be at least 1, got 0"),
        (([0], 4, 1.5, None), TypeError, "gamma must be an integer"),
        (([0], 4, lambda rounds: 2, None), TypeError, "gamma must be an integer"),
        (([0], 4, 2, "end"), TypeError, "eos_token_id"),
    ],
)
def test_bad_arguments_are_refused_before_the_first_pass(arguments, error, message):
    target, draft = (ScriptedModel(scattered(3, s), 3) for s in (1, 2))
    with pytest.raises(error, match=message):
        speculative_sample(target, draft, *arguments)
    assert target.passes == draft.passes == 0
    for pair in ((object(), draft), (target, object())):
        with pytest.raises(TypeError, match=r"(target|draft)_model must be a transformers"):
            speculative_sample(*pair, [0], 4, 2, None)


def test_what_is_no_sampling_is_refused():
    for wrong in (0.7, "greedy", {"temperature": 1}):
        with pytest.raises(TypeError, match="sampling must be a Sampling or None"):
            speculative_rounds(
                Steady(P), Steady(Q), [0], max_new_tokens=4, gamma=2, eos_token_id=None, sampling=wrong
            )


def test_settings_are_normalised():
    assert Sampling(1, 0, 1) == Sampling(1.0, None, None) == Sampling()
    assert Sampling(np.float32(0.5), np.int64(3), np.float64(0.25)) == Sampling(0.5, 3, 0.25)
    assert Sampling(torch.tensor(0.5)).temperature == 0.5
    assert [Sampling(t).greedy for t in (0, 1e-6, 9.9e-6, 1e-5, 1)] == [True, True, True, False, False]
    assert len({Sampling(), Sampling(1, 0)}) == 1


def test_input_forms_and_the_caller_s_list():
    target, draft = (ScriptedModel(scattered(3, s), 3) for s in (1, 2))
    ids = [0, 2]
    expected = speculative_sample(target, draft, ids, 6, 2, None, generator=seeded(0))
    assert ids == [0, 2]
    for form in ((0, 2), torch.tensor(ids), np.array(ids)):
        assert speculative_sample(target, draft, form, 6, 2, None, generator=seeded(0)) == expected
    assert all(type(token) is int for token in expected[0])
