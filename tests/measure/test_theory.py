"""The formulas: plain numbers in, plain numbers out, and nothing heavy loaded."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_lab import (
    break_even_alpha,
    estimate_alpha,
    expected_tokens_per_round,
    optimal_gamma,
    speedup,
)
from specdec_lab.measure.theory import bend, textbook_verify_cost, token_ceiling

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
    with pytest.raises(ValueError, match=rf"{counts[0]} and {counts[1]}"):
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


# ---------------------------------------------------------------- passes


@pytest.mark.parametrize(
    ("parameters", "bytes_each", "bandwidth", "tokens"),
    [(8e9, 2, 3350e9, 3350 / 16), (70e9, 0.5, 3350e9, 3350 / 35), (1, 1, 1, 1.0)],
)
def test_the_ceiling_is_how_often_the_weights_can_be_read(parameters, bytes_each, bandwidth, tokens):
    assert token_ceiling(parameters, bytes_each, bandwidth) == pytest.approx(tokens, rel=1e-12)
    assert token_ceiling(2 * parameters, bytes_each, 2 * bandwidth) == pytest.approx(tokens, rel=1e-12)


def test_at_the_bend_reading_takes_as_long_as_computing():
    """Times of both, worked out for a model of 7 parameters; the bend does not depend on how many they are."""
    for bytes_each, bandwidth, flops in ((2, 3350e9, 989e12), (4, 20e9, 95e9), (0.5, 1e9, 1e9)):
        n = bend(bytes_each, bandwidth, flops)
        assert 7 * bytes_each / bandwidth == pytest.approx(2 * 7 * n / flops, rel=1e-12)


@pytest.mark.parametrize("users", [1, 3, 60, 1000])
@pytest.mark.parametrize("tokens", [1, 5, 17])
def test_the_textbooks_verify_cost_is_the_longer_of_reading_and_computing(users, tokens):
    parameters, bytes_each, bandwidth, flops = 11e9, 2, 2e12, 300e12

    def seconds(n):
        return max(parameters * bytes_each / bandwidth, 2 * parameters * n / flops)

    cost = textbook_verify_cost(tokens, bend(bytes_each, bandwidth, flops), users)
    assert cost == pytest.approx(seconds(users * tokens) / seconds(users), rel=1e-12)
    assert 1 <= cost <= tokens and (tokens > 1 or cost == 1)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: token_ceiling(0, 2, 1e9), ValueError, "parameters must be above 0, got 0"),
        (lambda: token_ceiling(1e9, -2, 1e9), ValueError, "bytes_each must be above 0, got -2"),
        (lambda: token_ceiling(1e9, 2, math.inf), ValueError, "bandwidth must be above 0"),
        (lambda: token_ceiling("8B", 2, 1e9), TypeError, "parameters must be a number"),
        (lambda: bend(2, 0, 1e12), ValueError, "bandwidth must be above 0"),
        (lambda: bend(2, 1e9, math.nan), ValueError, "flops must be above 0"),
        (lambda: bend(0, 1e9, 1e9), ValueError, "bytes_each must be above 0"),
        (lambda: textbook_verify_cost(0, 295), ValueError, "tokens must be 1 or more, got 0"),
        (lambda: textbook_verify_cost(5, 295, 0), ValueError, "users must be 1 or more, got 0"),
        (lambda: textbook_verify_cost(5, 0), ValueError, "bend_at must be above 0"),
        (lambda: textbook_verify_cost(5.5, 295), TypeError, "tokens must be an integer"),
        (lambda: textbook_verify_cost(5, 295, True), TypeError, "users must be an integer"),
    ],
)
def test_bad_input_about_passes_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
