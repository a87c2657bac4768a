"""The formulas: plain numbers in, plain numbers out, and nothing heavy loaded."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_lab import estimate_alpha

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
