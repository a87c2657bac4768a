"""Formulas about speculative decoding and about the passes it is made of. Plain Python: no torch, no numpy, loads at once."""

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


def token_ceiling(parameters: float, bytes_each: float, bandwidth: float) -> float:
    """Tokens per second that one sequence cannot exceed: bandwidth ÷ bytes of all weights. Taught in notebook 01.

    Every new token needs a pass, and every pass reads every weight once. Reading the KV cache comes on top. Drafting
    breaks the first half of that sentence: tokens per round multiply this.

    Args:
        parameters: how many the model has (of a mixture of experts: those used for a token).
        bytes_each: bytes of one parameter, 4 in float32.
        bandwidth: bytes per second.

    Raises `ValueError` unless all three are above 0.

    >>> token_ceiling(8e9, 2, 3350e9)
    209.375
    """
    size = _above_zero(parameters, "parameters") * _above_zero(bytes_each, "bytes_each")
    return _above_zero(bandwidth, "bandwidth") / size


def bend(bytes_each: float, bandwidth: float, flops: float) -> float:
    """Tokens in a pass at which arithmetic takes as long as reading the weights. Taught in notebook 01.

    2 FLOPs per parameter and token, `bytes_each` bytes per parameter however many tokens there are: the roofline of
    Williams et al. 2009 for matrices that are read once.

    Args:
        bytes_each: bytes of one parameter.
        bandwidth: bytes per second.
        flops: FLOPs per second.

    Raises `ValueError` unless all three are above 0.

    >>> round(bend(2, 3350e9, 989e12))
    295
    """
    balance = _above_zero(flops, "flops") / _above_zero(bandwidth, "bandwidth")
    return balance * _above_zero(bytes_each, "bytes_each") / 2


def textbook_verify_cost(tokens: int, bend_at: float, users: int = 1) -> float:
    """v(n) by the roofline: a pass takes the longer of reading and computing. Taught in notebook 01.

    With `users` sequences in one pass, both the plain pass and the verification carry that many times the tokens.

    Args:
        tokens: n of one sequence, 1 or more.
        bend_at: tokens at which computing takes as long as reading; `bend`.
        users: sequences in one pass, 1 or more.

    Raises `ValueError` outside these bounds, `TypeError` for counts that are no integers.

    >>> textbook_verify_cost(5, 295), round(textbook_verify_cost(5, 295, users=256), 2)
    (1.0, 4.34)
    """
    tokens, users = _count(tokens, "tokens"), _count(users, "users")
    bend_at = _above_zero(bend_at, "bend_at")
    return max(1.0, users * tokens / bend_at) / max(1.0, users / bend_at)


def _round_time(gamma: int, cost_ratio: float, verify_cost: VerifyCost) -> float:
    """Time of a round in target passes over one token."""
    c = _number(cost_ratio, "cost_ratio")
    if not 0 <= c < math.inf:
        raise ValueError(f"cost_ratio must be 0 or more, got {c}")
    v = 1.0 if gamma == 0 else verify_cost(gamma + 1) if callable(verify_cost) else verify_cost
    return gamma * c + _above_zero(v, "verify_cost")


def _chance(alpha: float) -> float:
    number = _number(alpha, "alpha")
    if not 0 <= number <= 1:
        raise ValueError(f"alpha must be between 0 and 1, got {number}")
    return number


def _gamma(gamma: int, argument: str = "gamma") -> int:
    return _count(gamma, argument, least=0)


def _count(value: int, argument: str, least: int = 1) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{argument} must be an integer, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{argument} must be an integer, got {value!r}") from None
    if number < least:
        raise ValueError(f"{argument} must be {least} or more, got {number}")
    return number


def _above_zero(value: float, argument: str) -> float:
    number = _number(value, argument)
    if not 0 < number < math.inf:
        raise ValueError(f"{argument} must be above 0, got {number}")
    return number


def _number(value: float, argument: str) -> float:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{argument} must be a number, got {value!r}")
    return float(value)
