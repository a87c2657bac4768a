"""Finite generations against full enumeration and against coins; the short last rounds are where mistakes hide."""

from __future__ import annotations

import random
from itertools import product

import pytest

from specdec_lab import speculative_rounds
from specdec_lab.decoding.dial import DialDrafter
from specdec_lab.measure.generation import generation_speedup, rounds_by_drafts
from specdec_lab.measure.theory import speedup
from specdec_lab.models.scripted import ScriptedModel


def enumerated(new_tokens, chances, gamma):
    """Every way the verdicts can fall, each with its weight; a position of a round owns a coin of its own."""
    rounds = [0.0] * (gamma + 1)

    def play(left, weight):
        if not left:
            return
        drafts = min(gamma, left - 1)
        rounds[drafts] += weight
        for verdicts in product((True, False), repeat=drafts):
            chance = weight
            for good, alpha in zip(verdicts, chances, strict=False):
                chance *= alpha if good else 1 - alpha
            accepted = next((i for i, good in enumerate(verdicts) if not good), drafts)
            if chance:
                play(left - accepted - 1, chance)

    play(new_tokens, 1.0)
    return rounds


@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("new_tokens", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.75, 1.0])
def test_rounds_are_those_of_full_enumeration(new_tokens, alpha, gamma):
    expected = enumerated(new_tokens, [alpha] * gamma, gamma)
    assert rounds_by_drafts(new_tokens, alpha, gamma) == pytest.approx(expected, abs=1e-12)


def test_chances_may_differ_by_position():
    chances = [0.9, 0.2, 0.6]
    assert rounds_by_drafts(7, chances, 3) == pytest.approx(enumerated(7, chances, 3), abs=1e-12)


def test_the_library_plays_by_these_counts():
    """A dial on a scripted model: mean counts over many seeds are the formula's."""
    target = ScriptedModel(lambda prefix: (7 * len(prefix) + prefix[-1] + 1) % 50, vocab_size=50)
    counted = [0] * 5
    for seed in range(400):
        drafter = DialDrafter(target, 0.7, seed=seed)
        for item in speculative_rounds(target, drafter, [3], max_new_tokens=13, gamma=4, eos_token_id=None):
            counted[len(item.drafted)] += 1
    expected = rounds_by_drafts(13, 0.7, 4)
    assert [count / 400 for count in counted] == pytest.approx(expected, abs=0.1)
    assert max(expected) > 1.5 and sum(count > 0.1 for count in expected) == 5  # every kind of round occurs


def test_tokens_are_conserved():
    """Accepted tokens and one of the target's own a round make up the generation."""
    chance = random.Random(3)
    for _ in range(20):
        new_tokens, alpha, gamma = chance.randint(1, 60), chance.random(), chance.randint(0, 16)
        rounds = rounds_by_drafts(new_tokens, alpha, gamma)
        emitted = sum(count * sum(alpha**i for i in range(k + 1)) for k, count in enumerate(rounds))
        assert emitted == pytest.approx(new_tokens)


def test_long_generations_reach_the_formula_for_full_rounds():
    v = lambda n: 1 + 0.04 * (n - 1)  # noqa: E731
    for alpha, gamma in ((0.5, 2), (0.8, 5), (1.0, 4)):
        finite = generation_speedup(4000, alpha, gamma, 0.1, v)
        assert finite == pytest.approx(speedup(alpha, gamma, 0.1, v), rel=2e-3)


def test_short_generations_gain_less():
    """With 16 drafts and 8 tokens wanted, most of γ is never used; drafting it all would cost more than it brings."""
    assert generation_speedup(8, 0.9, 16, 0.05) < speedup(0.9, 16, 0.05)
    assert generation_speedup(1, 1.0, 16, 0.05, lambda n: 9.0) == 1.0  # one token is a plain pass


def test_overhead_is_paid_by_both_sides():
    free, paid = (generation_speedup(64, 0.8, 4, 0.1, 1.2, overhead=o) for o in (0.0, 0.5))
    assert 1 < free < paid  # fewer rounds, fewer times overhead
    assert generation_speedup(10, 0.0, 1, 0.0, 1.0, overhead=0.3) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0, 0.5, 4), ValueError, "new_tokens must be 1 or more, got 0"),
        ((2.5, 0.5, 4), TypeError, "new_tokens must be an integer"),
        ((9, 1.5, 4), ValueError, "alpha must be between 0 and 1, got 1.5"),
        ((9, [0.5, 0.5], 4), ValueError, r"one for each of the 4 positions, got shape \(2,\)"),
        ((9, 0.5, -1), ValueError, "gamma must be 0 or more, got -1"),
    ],
)
def test_bad_input_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        rounds_by_drafts(*arguments)


def test_bad_costs_are_refused():
    with pytest.raises(ValueError, match="overhead must be 0 or more, got -1"):
        generation_speedup(9, 0.5, 4, 0.1, overhead=-1)
    with pytest.raises(ValueError, match="verify_cost must be above 0, got 0"):
        generation_speedup(9, 0.5, 4, 0.1, lambda n: 0.0)
