"""Formulas about speculative decoding. Numbers or arrays in, numbers or arrays out; no torch, and loads at once.

Every argument may be a number or a numpy array (or a list); arrays broadcast, and numpy is loaded when a formula is
first used. The rounds of a whole generation, with its short last ones, are in `generation.py`; what a pass costs on
which machine is in `roofline.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

from .arrays import chances, counts, least_zero, numbers, plain

# v(n): time of a target pass over n tokens ÷ over one; a number or array stands for v(γ + 1) itself
VerifyCost = float | Callable[[int], float]


def estimate_alpha(accepted: int, rejected: int) -> float:
    """α̂ = accepted ÷ (accepted + rejected): the share of *judged* drafted tokens that were accepted.

    Tokens behind a rejection were never judged and count on neither side, so this is not the acceptance
    rate, which divides by everything drafted and falls with γ. NaN when nothing was judged. The chance α
    is that of Leviathan et al. 2023, definition 3.1 and section 3.1. Taught in notebook 03.

    Raises `ValueError` for negative counts, `TypeError` for counts that are no integers.

    >>> estimate_alpha(accepted=8, rejected=2)
    0.8
    """
    if isinstance(accepted, int) and isinstance(rejected, int) and accepted >= 0 <= rejected:
        judged = accepted + rejected  # every trace asks; numpy is not needed for this
        return accepted / judged if judged else math.nan
    import numpy as np

    accepted, rejected = counts(least=0, accepted=accepted), counts(least=0, rejected=rejected)
    judged = accepted + rejected
    with np.errstate(invalid="ignore"):
        return plain(np.where(judged > 0, accepted / np.maximum(judged, 1), np.nan))


def alpha_interval(accepted: int, rejected: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for α from judged tokens: where α may well lie, given what was counted. Taught in notebook 06.

    It takes the verdicts to be independent, as the formulas do; runs of easy and hard text make the truth wider.
    (0, 1) when nothing was judged. Wilson 1927, J. Am. Stat. Assoc. 22; stays inside 0…1 and works at both ends.

    Args:
        accepted, rejected: counts, as for `estimate_alpha`.
        confidence: how often such an interval holds the true α, between 0 and 1.

    Raises `ValueError` outside these bounds, `TypeError` for counts that are no integers.

    >>> [round(end, 3) for end in alpha_interval(80, 20)]
    [0.711, 0.867]
    """
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise TypeError(f"confidence must be a number, got {confidence!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    import numpy as np

    accepted, rejected = counts(least=0, accepted=accepted), counts(least=0, rejected=rejected)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    judged = accepted + rejected
    share = np.where(judged > 0, accepted / np.maximum(judged, 1), 0.5)
    shrink = judged + z * z
    middle = (judged * share + z * z / 2) / shrink
    half = z * np.sqrt(judged * share * (1 - share) + z * z / 4) / shrink
    # the ends that the formula reaches exactly, without the rounding
    low = np.where(accepted == 0, 0.0, middle - half)
    high = np.where(rejected == 0, 1.0, middle + half)
    return plain(low), plain(high)


def expected_tokens_per_round(alpha: float, gamma: int) -> float:
    """E(α, γ) = 1 + α + … + α^γ = (1 - α^(γ+1)) ÷ (1 - α): mean new tokens of a full round.

    Leviathan et al. 2023, equation 1; it takes every drafted token to be accepted with the same chance α,
    independently. Exact at α = 1 and in its neighbourhood. Taught in notebook 06.

    Raises `ValueError` for α outside 0…1 and γ below 0, `TypeError` for a γ that is no integer.

    >>> round(expected_tokens_per_round(0.8, 5), 4), expected_tokens_per_round(1.0, 4)
    (3.6893, 5.0)
    """
    alpha, gamma = chances(alpha=alpha), counts(least=0, gamma=gamma)
    return plain(_tokens(alpha, gamma))


def accepted_distribution(alpha: float, gamma: int) -> Any:
    """Chances that 0, 1, …, γ drafted tokens of a full round are accepted: an array with γ + 1 entries last.

    α^k (1 - α) for k < γ, and α^γ for all of them: the distribution behind `expected_tokens_per_round`.
    Taught in notebook 06.

    Args:
        alpha: a number or an array of shape (…).
        gamma: one number, 0 or more.

    Returns:
        numpy array, shape (…, γ + 1); sums to 1.

    >>> accepted_distribution(0.5, 3).tolist()
    [0.5, 0.25, 0.125, 0.125]
    """
    import numpy as np

    alpha, gamma = chances(alpha=alpha), counts(least=0, gamma=gamma)
    if gamma.ndim:
        raise ValueError(f"gamma must be one number, because it sets the length, got {gamma.tolist()}")
    k = np.arange(int(gamma) + 1)
    alpha = alpha[..., None]
    return alpha**k * np.where(k < gamma, 1 - alpha, 1.0)


def acceptance_rate(alpha: float, gamma: int) -> float:
    """Accepted ÷ drafted tokens of full rounds: (E(α, γ) - 1) ÷ γ. It falls with γ; α does not. Taught in notebook 06.

    Raises `ValueError` for α outside 0…1 and γ below 1, `TypeError` for a γ that is no integer.

    >>> round(acceptance_rate(0.8, 1), 3), round(acceptance_rate(0.8, 5), 3)
    (0.8, 0.538)
    """
    alpha, gamma = chances(alpha=alpha), counts(gamma=gamma)
    return plain(_rate(alpha, gamma))


def alpha_from_acceptance_rate(rate: float, gamma: int) -> float:
    """The α whose `acceptance_rate` at this γ is `rate`: the way back, for papers that print only the rate.

    Raises `ValueError` for a rate outside 0…1 and γ below 1, `TypeError` for a γ that is no integer.
    Taught in notebook 06.

    >>> round(alpha_from_acceptance_rate(0.53786, 5), 3)
    0.8
    """
    import numpy as np

    rate, gamma = np.broadcast_arrays(chances(rate=rate), counts(gamma=gamma))
    return plain(_solve(lambda alpha: _rate(alpha, gamma), rate))


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
    alpha, gamma = chances(alpha=alpha), counts(least=0, gamma=gamma)
    return plain(_tokens(alpha, gamma) / _round_time(gamma, cost_ratio, verify_cost))


def operations_factor(alpha: float, gamma: int, operations_ratio: float = 0.0) -> float:
    """FLOPs of speculative ÷ plain decoding: (γ·ĉ + γ + 1) ÷ E(α, γ). Speculation buys time with arithmetic.

    Leviathan et al. 2023, theorem 3.11. Taught in notebook 06.

    Args:
        alpha, gamma: as in `speedup`.
        operations_ratio: ĉ, FLOPs of the draft ÷ of the target for one token, 0 or more.

    >>> round(operations_factor(0.8, 5), 2), operations_factor(1.0, 4)
    (1.63, 1.0)
    """
    alpha, gamma = chances(alpha=alpha), counts(least=0, gamma=gamma)
    ratio = least_zero(operations_ratio=operations_ratio)
    return plain((gamma * ratio + gamma + 1) / _tokens(alpha, gamma))


def optimal_gamma(alpha: float, cost_ratio: float, verify_cost: VerifyCost = 1.0, largest: int = 16) -> int:
    """The γ in 0…`largest` with the highest `speedup`; the smallest of equal ones, 0 where nothing pays.

    >>> optimal_gamma(0.8, 0.1), optimal_gamma(0.3, 0.5)
    (6, 0)
    """
    gammas = _every_gamma(largest, least=0)
    alpha, ratio = chances(alpha=alpha)[..., None], least_zero(cost_ratio=cost_ratio)[..., None]
    speeds = _tokens(alpha, gammas) / _round_time(gammas, ratio, verify_cost)
    return plain(speeds.argmax(axis=-1))


def break_even_alpha(
    gamma: int | None, cost_ratio: float, verify_cost: VerifyCost = 1.0, largest: int = 16
) -> float | None:
    """The α at which `speedup` is 1: below it this γ slows decoding down. None where even α = 1 does not pay.

    Args:
        gamma: 0 or more, or None: the least α at which *some* γ of 1…`largest` breaks even. With v = 1 that is c
            (Leviathan et al. 2023, corollary 3.9, by γ = 1); with a measured v it need not be at γ = 1.
        cost_ratio, verify_cost: as in `speedup`.
        largest: see γ.

    Returns:
        A number or None; for arrays an array, NaN in the place of None. Taught in notebook 06.

    >>> round(break_even_alpha(1, 0.25), 6), break_even_alpha(4, 1.5), round(break_even_alpha(None, 0.25), 6)
    (0.25, None, 0.25)
    """
    import numpy as np

    if gamma is None:
        gammas, ratio = _every_gamma(largest, least=1), least_zero(cost_ratio=cost_ratio)[..., None]
        every = _break_even(gammas, ratio, verify_cost)
        best = np.where(np.isnan(every), np.inf, every).min(axis=-1)
        return _none_for_nan(np.where(np.isinf(best), np.nan, best))
    return _none_for_nan(_break_even(counts(least=0, gamma=gamma), cost_ratio, verify_cost))


def break_even_cost_ratio(
    alpha: float, gamma: int | None = None, verify_cost: VerifyCost = 1.0, largest: int = 16
) -> float | None:
    """The c at which `speedup` is 1: (E(α, γ) - v(γ + 1)) ÷ γ. None where even a free draft does not pay.

    Args:
        alpha: as in `speedup`.
        gamma: 1 or more, or None: the largest such c over γ in 1…`largest`.
        verify_cost: as in `speedup`.
        largest: see γ.

    Returns:
        A number or None; for arrays an array, NaN in the place of None. Taught in notebook 06.

    >>> round(break_even_cost_ratio(0.6, 4), 4), break_even_cost_ratio(0.1, 4, verify_cost=1.5)
    (0.3264, None)
    """
    import numpy as np

    if gamma is None:
        gammas, alpha = _every_gamma(largest, least=1), chances(alpha=alpha)[..., None]
        ratios = ((_tokens(alpha, gammas) - _verify(gammas, verify_cost)) / gammas).max(axis=-1)
    else:
        alpha, gamma = chances(alpha=alpha), counts(gamma=gamma)
        ratios = (_tokens(alpha, gamma) - _verify(gamma, verify_cost)) / gamma
    return _none_for_nan(np.where(ratios < 0, np.nan, ratios))


def _tokens(alpha: Any, gamma: Any) -> Any:
    """E(α, γ) by (1 - α^(γ+1)) ÷ (1 - α), without its cancellation near α = 1."""
    import numpy as np

    missing = 1 - alpha
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = -np.expm1((gamma + 1) * np.log1p(-missing)) / missing
    return np.where(missing == 0, gamma + 1.0, sums)


def _rate(alpha: Any, gamma: Any) -> Any:
    # α·E(α, γ - 1) = E(α, γ) - 1, without the cancellation at small α
    return alpha * _tokens(alpha, gamma - 1) / gamma


def _verify(gamma: Any, verify_cost: Any) -> Any:
    """v(γ + 1), and 1 at γ = 0, where a round is a plain pass."""
    import numpy as np

    if callable(verify_cost):
        asked = {n: verify_cost(n) for n in sorted({int(g) + 1 for g in gamma.flat if g > 0})}
        v = numbers(verify_cost=list(asked.values()) or [1.0])
        known = dict(zip(asked, v, strict=False))
        v = np.array([known[int(g) + 1] if g > 0 else 1.0 for g in gamma.flat]).reshape(gamma.shape)
    else:
        v = numbers(verify_cost=verify_cost)
    if not ((v > 0) & np.isfinite(v)).all():
        raise ValueError(f"verify_cost must be above 0, got {plain(v)}")
    return np.where(gamma == 0, 1.0, v)


def _round_time(gamma: Any, cost_ratio: Any, verify_cost: Any) -> Any:
    """Time of a round in target passes over one token."""
    return gamma * least_zero(cost_ratio=cost_ratio) + _verify(gamma, verify_cost)


def _every_gamma(largest: Any, least: int) -> Any:
    """All γ from `least` on, along an axis of their own."""
    import numpy as np

    largest = counts(least=least, largest=largest)
    if largest.ndim:
        raise ValueError(f"largest must be one number, got {largest.tolist()}")
    return np.arange(least, int(largest) + 1)


def _break_even(gamma: Any, cost_ratio: Any, verify_cost: Any) -> Any:
    import numpy as np

    needed = _round_time(gamma, cost_ratio, verify_cost)
    gamma, needed = np.broadcast_arrays(gamma, needed)
    alpha = _solve(lambda alpha: _tokens(alpha, gamma), needed)
    return np.where(needed > gamma + 1, np.nan, np.where(needed <= 1, 0.0, alpha))


def _solve(rising: Callable[[Any], Any], wanted: Any) -> Any:
    """The α in 0…1 at which a rising function of it reaches `wanted`, by bisection."""
    import numpy as np

    low, high = np.zeros(wanted.shape), np.ones(wanted.shape)
    for _ in range(60):
        middle = (low + high) / 2
        below = rising(middle) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def _none_for_nan(value: Any) -> Any:
    value = plain(value)
    return None if isinstance(value, float) and math.isnan(value) else value
