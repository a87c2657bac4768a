"""γ chosen from the rounds so far: what it believes, what it then does, and that it wins where workloads are mixed."""

from __future__ import annotations

import pytest
from helpers import crc_rule

from specdec_lab import autoregressive_decode, optimal_gamma, speculative_rounds
from specdec_lab.decoding.dial import DialDrafter
from specdec_lab.decoding.rounds import BONUS, CORRECTION, PLAIN, Round, Trace
from specdec_lab.measure.adaptive import AdaptiveGamma, HeuristicGamma
from specdec_lab.models.scripted import ScriptedModel

COST, WIDTH = 0.08, 50


def v(n):
    return 1 + 0.06 * (n - 1)


def played(accepted, drafted):
    """A round of a chain."""
    outcome = PLAIN if not drafted else BONUS if accepted == drafted else CORRECTION
    return Round(
        tuple(range(drafted)), tuple(range(-1, drafted - 1)), tuple(range(accepted)), (0,) * (accepted + 1),
        outcome, 1, 1, 1, 1, 0.0, 0.0,
    )  # fmt: skip


def test_belief_starts_where_it_is_told_and_moves_with_verdicts():
    gamma = AdaptiveGamma(COST, v, alpha=0.5, doubt=4, memory=1000)
    assert gamma.belief([]) == 0.5
    assert gamma.belief([played(3, 4)]) == pytest.approx((3 + 2) / (4 + 4), abs=0.002)  # three good, one not
    assert gamma.belief([played(4, 4)]) > gamma.belief([played(3, 4)]) > gamma.belief([played(0, 4)])
    assert gamma.belief([played(1, 4)]) == gamma.belief([played(1, 9)])  # what was not judged says nothing


def test_the_last_verdicts_count_most():
    gamma = AdaptiveGamma(COST, v, memory=20)
    good, bad = [played(4, 4)] * 30, [played(0, 4)] * 30
    assert gamma.belief(good + bad) < 0.3 < 0.8 < gamma.belief(bad + good)
    steady = AdaptiveGamma(COST, v, memory=20).belief([played(4, 5), played(1, 1)] * 200)
    assert steady == pytest.approx(5 / 6, abs=0.06)


def test_it_drafts_what_is_best_for_its_belief():
    gamma = AdaptiveGamma(COST, v, doubt=0.01)
    for rounds in ([played(16, 16)] * 20, [played(2, 3)] * 20, [played(0, 1)] * 20):
        alpha = round(gamma.belief(rounds) * 200) / 200
        assert gamma(rounds) == optimal_gamma(alpha, COST, v)
    assert gamma([played(16, 16)] * 20) == 16


def test_evidence_fades_while_nothing_is_drafted():
    gamma = AdaptiveGamma(COST, v, alpha=0.5, memory=40)
    lost = [played(0, 2)] * 10
    beliefs = [gamma.belief(lost + [played(0, 0)] * plain) for plain in (0, 20, 100, 1000)]
    assert beliefs == sorted(beliefs) and beliefs[0] < 0.1 < 0.3 < beliefs[2] and beliefs[3] == 0.5


def test_where_nothing_pays_it_stops_and_asks_again():
    gamma = AdaptiveGamma(0.5, v, alpha=0.5, retry=5)
    lost = [played(0, 2)] * 10
    assert gamma(lost) == 0 and gamma(lost + [played(0, 0)] * 4) == 0
    assert gamma(lost + [played(0, 0)] * 5) == 1
    assert gamma(lost + [played(0, 0)] * 5 + [played(0, 1)]) == 0


def test_it_never_changes_the_text():
    target = ScriptedModel(crc_rule(WIDTH), WIDTH)
    plain = autoregressive_decode(target, [1, 2], 50, None)
    for gamma in (AdaptiveGamma(COST, v), AdaptiveGamma(0.9, v, retry=3), HeuristicGamma(2)):
        rounds = speculative_rounds(
            target, DialDrafter(target, 0.6), [1, 2], max_new_tokens=50, gamma=gamma, eos_token_id=None
        )
        assert Trace.of([1, 2], rounds).sequence == plain


def model_time(alphas, gamma):
    """Time of one run for each α, by the cost model: the draft's passes and the target's, in plain passes."""
    target, time = ScriptedModel(crc_rule(WIDTH), WIDTH), 0.0
    for seed, alpha in enumerate(alphas):
        for item in speculative_rounds(
            target,
            DialDrafter(target, alpha, seed=seed),
            [seed],
            max_new_tokens=200,
            gamma=gamma,
            eos_token_id=None,
        ):
            time += len(item.drafted) * COST + v(len(item.drafted) + 1)
    return time


@pytest.mark.parametrize("alphas", [(0.9, 0.9), (0.3, 0.3), (0.6, 0.6)])
def test_on_a_steady_workload_it_is_near_the_best_fixed_gamma(alphas):
    best = min(model_time(alphas, gamma) for gamma in range(1, 17))
    plain = 200 * len(alphas)
    assert model_time(alphas, AdaptiveGamma(COST, v)) < 1.06 * min(best, plain)


def test_on_a_mixed_workload_it_beats_every_fixed_gamma():
    alphas = (0.95, 0.1) * 2
    best = min(model_time(alphas, gamma) for gamma in range(1, 17))
    assert model_time(alphas, AdaptiveGamma(COST, v)) < 0.97 * best


def test_the_heuristic_is_two_up_and_one_down():
    gamma = HeuristicGamma(start=3, largest=6)
    assert gamma([]) == 3
    assert gamma([played(3, 3)]) == 5 and gamma([played(3, 3)] * 2) == 6
    assert gamma([played(1, 3)]) == 2 and gamma([played(0, 3)] * 9) == 1


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"largest": 0}, ValueError, "largest must be 1 or more"),
        ({"alpha": 1.5}, ValueError, "alpha must be between 0 and 1, got 1.5"),
        ({"doubt": 0}, ValueError, "doubt must be a number above 0, got 0"),
        ({"memory": 0}, ValueError, "memory must be 1 or more"),
        ({"retry": 0}, ValueError, "retry must be 1 or more"),
        ({"cost_ratio": -1}, ValueError, "cost_ratio must be 0 or more"),
    ],
)
def test_bad_settings_are_refused(more, error, words):
    with pytest.raises(error, match=words):
        AdaptiveGamma(**{"cost_ratio": 0.1} | more)
