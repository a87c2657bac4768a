"""Formulas about speculative decoding. Plain Python: no torch, no numpy, loads at once."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

# v(n): time of a target pass over n tokens ÷ over one; a number stands for the same v at every γ ≥ 1
VerifyCost = float | Callable[[int], float]


def estimate_alpha(accepted: int, rejected: int) -> float:
    """α̂ = accepted ÷ (accepted + rejected): the share of *judged* drafted tokens that were accepted.

    Tokens behind a rejection were never judged and count on neither side, so this is not the acceptance
    rate, which divides by everything drafted and falls with γ. NaN when nothing was judged. The chance α
    is that of Leviathan et al. 2023, definition 3.1 and section 3.1.

    Raises `ValueError` for negative counts.

    >>> estimate_alpha(accepted=8, rejected=2)
    0.8
    """
    if accepted < 0 or rejected < 0:
        raise ValueError(f"accepted and rejected must be 0 or more, got {accepted} and {rejected}")
    judged = accepted + rejected
    return accepted / judged if judged else float("nan")


def expected_tokens_per_round(alpha: float, gamma: int) -> float:
    """E(α, γ) = 1 + α + … + α^γ = (1 - α^(γ+1)) ÷ (1 - α): mean new tokens of a full round.

    Leviathan et al. 2023, equation 1; it takes every drafted token to be accepted with the same chance α,
    independently. Summed term by term, so α = 1 and its neighbourhood are exact. Taught in notebook 06.

    Raises `ValueError` for α outside 0…1 and γ below 0, `TypeError` for a γ that is no integer.

    >>> round(expected_tokens_per_round(0.8, 5), 4), expected_tokens_per_round(1.0, 4)
    (3.6893, 5.0)
    """
    alpha, gamma = _chance(alpha), _gamma(gamma)
    return math.fsum(alpha**i for i in range(gamma + 1))


def speedup(alpha: float, gamma: int, cost_ratio: float, verify_cost: VerifyCost = 1.0) -> float:
    """E(α, γ) ÷ (γ·c + v(γ + 1)): tokens of a round ÷ its time in target passes. 1.0 at γ = 0.

    Leviathan et al. 2023, theorem 3.8, is the case v = 1: a pass over γ + 1 tokens as cheap as over one. On
    a CPU it is not; give v(γ + 1), or the function v, for what was measured. Taught in notebook 06.

    Args:
        alpha: chance that a drafted token is accepted once all before it were. Not the acceptance rate.
        gamma: tokens drafted in a round, 0 or more.
        cost_ratio: c, time of one draft pass ÷ time of one target pass, 0 or more.
        verify_cost: v, a number above 0 or a function of the tokens in the pass.

    Raises `ValueError` outside these bounds.

    >>> round(speedup(0.8, 5, 0.1), 4), round(speedup(0.5, 4, 1.0), 4), speedup(0.5, 0, 1.0)
    (2.4595, 0.3875, 1.0)
    """
    gamma, tokens = _gamma(gamma), expected_tokens_per_round(alpha, gamma)
    return tokens / _round_time(gamma, cost_ratio, verify_cost)


def optimal_gamma(alpha: float, cost_ratio: float, verify_cost: VerifyCost = 1.0, largest: int = 16) -> int:
    """The γ in 0…`largest` with the highest `speedup`; the smallest of equal ones, 0 where nothing pays.

    >>> optimal_gamma(0.8, 0.1), optimal_gamma(0.3, 0.5)
    (6, 0)
    """
    gammas = range(_gamma(largest, "largest") + 1)
    return max(gammas, key=lambda gamma: (speedup(alpha, gamma, cost_ratio, verify_cost), -gamma))


def break_even_alpha(gamma: int, cost_ratio: float, verify_cost: VerifyCost = 1.0) -> float | None:
    """The α at which `speedup` is 1: below it this γ slows decoding down. None where even α = 1 does not pay.

    >>> round(break_even_alpha(1, 0.25), 6), break_even_alpha(4, 1.5)
    (0.25, None)
    """
    gamma = _gamma(gamma)
    needed = _round_time(gamma, cost_ratio, verify_cost)
    if needed > gamma + 1:
        return None
    if needed <= 1:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(100):  # E rises with α, from 1 to γ + 1
        middle = (low + high) / 2
        if expected_tokens_per_round(middle, gamma) < needed:
            low = middle
        else:
            high = middle
    return high


def _round_time(gamma: int, cost_ratio: float, verify_cost: VerifyCost) -> float:
    """Time of a round in target passes over one token."""
    c = _number(cost_ratio, "cost_ratio")
    if not 0 <= c < math.inf:
        raise ValueError(f"cost_ratio must be 0 or more, got {c}")
    v = 1.0 if gamma == 0 else verify_cost(gamma + 1) if callable(verify_cost) else verify_cost
    v = _number(v, "verify_cost")
    if not 0 < v < math.inf:
        raise ValueError(f"verify_cost must be above 0, got {v}")
    return gamma * c + v


def _chance(alpha: float) -> float:
    number = _number(alpha, "alpha")
    if not 0 <= number <= 1:
        raise ValueError(f"alpha must be between 0 and 1, got {number}")
    return number


def _gamma(gamma: int, argument: str = "gamma") -> int:
    if isinstance(gamma, bool):
        raise TypeError(f"{argument} must be an integer, got {gamma!r}")
    try:
        number = operator.index(gamma)
    except TypeError:
        raise TypeError(f"{argument} must be an integer, got {gamma!r}") from None
    if number < 0:
        raise ValueError(f"{argument} must be 0 or more, got {number}")
    return number


def _number(value: float, argument: str) -> float:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{argument} must be a number, got {value!r}")
    return float(value)
