"""The formulas: plain numbers in, plain numbers out, and nothing heavy loaded."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from specdec_lab import (
    break_even_alpha,
    estimate_alpha,
    expected_tokens_per_round,
    optimal_gamma,
    speedup,
)
from specdec_lab.measure.theory import (
    acceptance_rate,
    accepted_distribution,
    alpha_from_acceptance_rate,
    alpha_interval,
    break_even_cost_ratio,
    operations_factor,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("accepted", "rejected", "alpha"), [(8, 2, 0.8), (0, 5, 0.0), (5, 0, 1.0), (1, 2, 1 / 3)]
)
def test_alpha_is_accepted_among_judged(accepted, rejected, alpha):
    assert estimate_alpha(accepted, rejected) == pytest.approx(alpha, rel=1e-12)
    assert type(estimate_alpha(accepted, rejected)) is float


def test_nothing_judged_is_nan():
    assert math.isnan(estimate_alpha(0, 0))


@pytest.mark.parametrize("counts", [(-1, 3), (3, -1), (-1, -1)])
def test_negative_counts_are_refused(counts):
    with pytest.raises(ValueError, match="must be 0 or more, got -1"):
        estimate_alpha(*counts)


@pytest.mark.parametrize("alpha", [0.3, 0.8])
def test_it_recovers_the_chance_that_made_the_runs(alpha):
    """Rounds of gamma independent coins: α is found whatever gamma is, while the acceptance rate falls with it."""
    rates = []
    for gamma in (2, 8):
        chance, accepted, rejected = random.Random(0), 0, 0
        for _ in range(20_000):
            agreed = next((i for i in range(gamma) if chance.random() >= alpha), gamma)
            accepted, rejected = accepted + agreed, rejected + (agreed < gamma)
        assert abs(estimate_alpha(accepted, rejected) - alpha) < 0.01
        rates.append(accepted / (20_000 * gamma))
        assert abs(rates[-1] - (alpha - alpha ** (gamma + 1)) / (gamma * (1 - alpha))) < 0.01
    assert rates[1] < rates[0] - 0.05


def test_theory_and_rounds_load_without_torch(tmp_path):
    code = """
import sys, specdec_lab.measure.theory, specdec_lab.decoding.rounds
import specdec_lab.measure.generation, specdec_lab.measure.roofline, specdec_lab.measure.cost_profile
import specdec_lab.measure.predict, specdec_lab.measure.reference, specdec_lab.measure.adaptive
print({"torch", "transformers", "numpy", "pandas"} & set(sys.modules) or "light")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "light\n", "")


# ---------------------------------------------------------------- F12


@pytest.mark.parametrize(
    ("alpha", "gamma", "tokens", "within"),
    [
        (0.8, 5, 3.6893, 5e-5),
        (1, 4, 5, 0),
        (0, 4, 1, 0),
        (1 - 1e-12, 4, 5, 1e-3),
        (0.6, 0, 1, 0),
        (1.0, 16, 17, 0),
    ],
)
def test_f12_expected_tokens(alpha, gamma, tokens, within):
    """The closed form breaks at α = 1 (ggml-org/llama.cpp 3649)."""
    assert abs(expected_tokens_per_round(alpha, gamma) - tokens) <= within


@pytest.mark.parametrize(
    ("alpha", "gamma", "c", "expected"),
    [
        (0.8, 5, 0.1, 2.4595),
        (1, 4, 0.05, 4.1667),
        (0, 4, 0.05, 0.8333),
        (0.5, 4, 1, 0.3875),
        (0.7, 0, 0.3, 1.0),
    ],
)
def test_f12_speedup(alpha, gamma, c, expected):
    """γ mistaken for α in the cost term (dilab-zju/self-speculative-decoding 22)."""
    assert speedup(alpha, gamma, c) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((-0.1, 4, 0.1), ValueError, "alpha must be between 0 and 1, got -0.1"),
        ((1.1, 4, 0.1), ValueError, "alpha"),
        ((float("nan"), 4, 0.1), ValueError, "alpha"),
        ((0.5, -1, 0.1), ValueError, "gamma must be 0 or more, got -1"),
        ((0.5, 1.5, 0.1), TypeError, "gamma must be an integer"),
        ((0.5, True, 0.1), TypeError, "gamma"),
        ((0.5, 4, -0.1), ValueError, "cost_ratio must be 0 or more, got -0.1"),
        ((0.5, 4, float("inf")), ValueError, "cost_ratio"),
        ((0.5, 4, 0.1, 0), ValueError, "verify_cost must be above 0"),
        ((0.5, 4, 0.1, float("nan")), ValueError, "verify_cost"),
        ((0.5, 4, 0.1, lambda n: -1), ValueError, "verify_cost"),
        (("0.5", 4, 0.1), TypeError, "alpha must be a number"),
        ((0.5, 4, None), TypeError, "cost_ratio must be a number"),
    ],
)
def test_f12_bad_input_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        speedup(*arguments)


def test_f12_nothing_pays():
    assert optimal_gamma(0.3, 0.5) == 0 and optimal_gamma(0.0, 0.0, 1.2) == 0
    assert optimal_gamma(1.0, 0.0) == 16
    assert break_even_alpha(4, 1.5) is None


def test_speedup_is_tokens_over_time_counted_round_by_round():
    """A simulation in which nothing of the formula occurs."""
    chance = random.Random(1)
    for alpha, gamma, c, v in ((0.6, 3, 0.1, 1.3), (0.9, 6, 0.05, 1.6)):
        tokens = passes = 0.0
        for _ in range(60_000):
            agreed = next((i for i in range(gamma) if chance.random() >= alpha), gamma)
            tokens, passes = tokens + agreed + 1, passes + gamma * c + v
        assert speedup(alpha, gamma, c, v) == pytest.approx(tokens / passes, rel=0.01)


def test_a_measured_verify_cost_is_asked_for_the_tokens_in_the_pass():
    asked = []
    speedup(0.5, 4, 0.1, lambda n: asked.append(n) or 1.5)
    assert asked == [5]
    assert speedup(0.5, 0, 0.1, lambda n: 7.0) == 1.0


@pytest.mark.parametrize("gamma", [1, 2, 5, 16])
@pytest.mark.parametrize("c", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("v", [1.0, 1.4])
def test_break_even_is_where_the_speedup_crosses_one(gamma, c, v):
    alpha = break_even_alpha(gamma, c, v)
    assert alpha is not None
    assert speedup(alpha, gamma, c, v) == pytest.approx(1, abs=1e-9)
    if 0 < alpha < 0.99:
        assert speedup(alpha - 0.01, gamma, c, v) < 1 < speedup(alpha + 0.01, gamma, c, v)


def test_with_free_verification_one_draft_pays_exactly_above_c():
    """Leviathan et al. 2023, corollary 3.9."""
    for c in (0.05, 0.2, 0.7):
        assert break_even_alpha(1, c) == pytest.approx(c)
        assert optimal_gamma(c + 0.02, c) >= 1 and optimal_gamma(c - 0.02, c) == 0


def test_optimal_gamma_is_the_best_of_all():
    chance = random.Random(2)
    for _ in range(50):
        alpha, c, slope = chance.random(), chance.random() / 3, chance.random() / 10
        best = optimal_gamma(alpha, c, lambda n, s=slope: 1 + s * (n - 1), largest=12)
        speeds = [speedup(alpha, g, c, lambda n, s=slope: 1 + s * (n - 1)) for g in range(13)]
        assert speeds[best] == max(speeds)


# ---------------------------------------------------------------- vectors, inverses, intervals


@pytest.mark.parametrize(
    ("alpha", "gamma", "speed", "operations"),
    [
        (0.6, 2, 1.96, 1.53),
        (0.7, 3, 2.53, 1.58),
        (0.8, 2, 2.44, 1.23),
        (0.8, 5, 3.69, 1.63),
        (0.9, 2, 2.71, 1.11),
        (0.9, 10, 6.86, 1.60),
    ],
)
def test_leviathan_table_1(alpha, gamma, speed, operations):
    assert speedup(alpha, gamma, 0.0) == pytest.approx(speed, abs=0.005)
    assert operations_factor(alpha, gamma) == pytest.approx(operations, abs=0.005)


def test_operations_count_the_draft_too():
    assert operations_factor(0.0, 4, 0.1) == pytest.approx(5.4)
    assert operations_factor(0.5, 0, 0.3) == 1.0


def test_accepted_counts_are_those_of_all_verdicts():
    """Brute force over every pattern of verdicts."""
    alpha, gamma = 0.37, 5
    chances = [0.0] * (gamma + 1)
    for verdicts in product((True, False), repeat=gamma):
        weight = math.prod(alpha if good else 1 - alpha for good in verdicts)
        chances[next((i for i, good in enumerate(verdicts) if not good), gamma)] += weight
    found = accepted_distribution(alpha, gamma)
    assert found.tolist() == pytest.approx(chances, abs=1e-14)
    assert float(found @ range(1, gamma + 2)) == pytest.approx(expected_tokens_per_round(alpha, gamma))
    assert accepted_distribution([0.0, 1.0], 2).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert accepted_distribution(0.3, 0).tolist() == [1.0]


@pytest.mark.parametrize("gamma", [1, 2, 7, 16])
def test_acceptance_rate_and_back(gamma):
    for alpha in (0.0, 1e-9, 0.2, 0.5, 0.9, 1 - 1e-9, 1.0):
        rate = acceptance_rate(alpha, gamma)
        assert rate == pytest.approx(sum(alpha**i for i in range(1, gamma + 1)) / gamma, rel=1e-9, abs=1e-300)
        assert alpha_from_acceptance_rate(rate, gamma) == pytest.approx(alpha, abs=1e-9)


def test_the_acceptance_rate_falls_with_gamma_and_alpha_does_not():
    rates = acceptance_rate(0.8, range(1, 17))
    assert all(a > b for a, b in pairwise(rates)) and rates[0] == pytest.approx(0.8)
    assert alpha_from_acceptance_rate(rates, range(1, 17)) == pytest.approx([0.8] * 16)


def test_arrays_give_what_numbers_give():
    alphas, gammas = [0.0, 0.31, 0.999999, 1.0], [0, 1, 4, 16]
    grid = np.meshgrid(alphas, gammas, indexing="ij")
    v = lambda n: 1 + 0.03 * (n - 1)  # noqa: E731
    for function, more in (
        (expected_tokens_per_round, ()),
        (speedup, (0.07, v)),
        (operations_factor, (0.05,)),
    ):
        found = function(*grid, *more)
        assert found.shape == (4, 4)
        for place, value in np.ndenumerate(found):
            alone = function(float(grid[0][place]), int(grid[1][place]), *more)
            assert type(alone) is float and value == alone
    best = optimal_gamma(np.array(alphas)[:, None], np.array([0.0, 0.1, 0.9]), v)
    assert best.shape == (4, 3)
    assert best.tolist() == [[optimal_gamma(a, c, v) for c in (0.0, 0.1, 0.9)] for a in alphas]
    edges = break_even_alpha(np.array([1, 4, 16]), np.array([0.1, 2.0, 0.5]))
    assert edges.tolist() == pytest.approx([0.1, math.nan, break_even_alpha(16, 0.5)], nan_ok=True)


def test_the_neighbourhood_of_one_is_exact():
    """1 - α^n loses every digit there unless it is computed another way."""
    for missing in (1e-3, 1e-8, 1e-13):
        alpha = Fraction(1) - Fraction(missing)
        exact = sum(alpha**i for i in range(17))
        assert expected_tokens_per_round(float(alpha), 16) == pytest.approx(float(exact), rel=1e-12)


def test_some_gamma_pays_exactly_when_one_of_them_does():
    """With a measured v, γ = 1 is not the test: here v(2) = v(5), so only longer drafts pay."""
    v = lambda n: 1.0 if n == 1 else 1.5  # noqa: E731
    alpha, c = 0.6, 0.02
    assert speedup(alpha, 1, c, v) > 1 > speedup(0.5, 1, c, v)
    lowest = break_even_alpha(None, c, v)
    assert lowest < break_even_alpha(1, c, v)
    assert optimal_gamma(lowest + 0.005, c, v) > 1 and optimal_gamma(lowest - 0.005, c, v) == 0
    assert break_even_alpha(None, 1.0) == 1.0
    assert break_even_alpha(None, 1.0, v) is None and break_even_alpha(None, 1.2) is None


def test_break_even_cost_ratio_is_where_the_speedup_crosses_one():
    v = lambda n: 1 + 0.05 * (n - 1)  # noqa: E731
    for alpha, gamma in ((0.4, 1), (0.6, 4), (0.9, 8), (1.0, 16)):
        c = break_even_cost_ratio(alpha, gamma, v)
        assert speedup(alpha, gamma, c, v) == pytest.approx(1)
    assert break_even_cost_ratio(0.1, 4, v) is None and break_even_cost_ratio(0.0, None) == 0.0
    best = break_even_cost_ratio(0.7, None, v)
    assert best == max(filter(None, (break_even_cost_ratio(0.7, g, v) for g in range(1, 17))))
    assert optimal_gamma(0.7, best - 0.01, v) > 0 and optimal_gamma(0.7, best + 0.01, v) == 0
    assert break_even_cost_ratio([0.1, 1.0], 4, v).tolist() == pytest.approx([math.nan, 0.95], nan_ok=True)


def test_wilson_against_published_figures():
    """Newcombe 1998, Statistics in Medicine 17, table I, method 3."""
    for good, of, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        assert alpha_interval(good, of - good) == pytest.approx((low, high), abs=5e-5)
    assert alpha_interval(29, 0)[1] == 1.0 and alpha_interval(0, 0) == (0.0, 1.0)
    assert alpha_interval(8, 2, 0.99)[0] < alpha_interval(8, 2, 0.9)[0]


def test_the_interval_holds_alpha_as_often_as_it_says():
    chance, held = random.Random(5), 0
    for _ in range(2000):
        good = sum(chance.random() < 0.7 for _ in range(60))
        low, high = alpha_interval(good, 60 - good, 0.9)
        held += low <= 0.7 <= high
    assert 0.87 < held / 2000 < 0.93


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: alpha_interval(1, 1, 1.0), ValueError, "confidence must lie between 0 and 1, got 1.0"),
        (lambda: alpha_interval(1.5, 1), TypeError, "accepted must be an integer"),
        (lambda: alpha_from_acceptance_rate(1.2, 3), ValueError, "rate must be between 0 and 1, got 1.2"),
        (lambda: alpha_from_acceptance_rate(0.2, 0), ValueError, "gamma must be 1 or more, got 0"),
        (lambda: accepted_distribution(0.5, [1, 2]), ValueError, r"gamma must be one number.*\[1, 2\]"),
        (
            lambda: expected_tokens_per_round([0.5, 1.5], 2),
            ValueError,
            "alpha must be between 0 and 1, got 1.5",
        ),
        (lambda: expected_tokens_per_round(0.5, np.array([1.0, 2.0])), TypeError, "gamma must be an integer"),
        (lambda: optimal_gamma(0.5, 0.1, largest=-1), ValueError, "largest must be 0 or more, got -1"),
        (lambda: optimal_gamma(1.5, 0.1), ValueError, "alpha must be between 0 and 1"),
        (lambda: break_even_cost_ratio(0.5, 0), ValueError, "gamma must be 1 or more"),
        (lambda: operations_factor(0.5, 2, -0.1), ValueError, "operations_ratio must be 0 or more"),
    ],
)
def test_bad_vectors_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
