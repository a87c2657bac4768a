"""Finite generations: how many rounds `new_tokens` tokens take, the short last ones included. No torch.

`theory.py` speaks of full rounds, as papers do. A generation of N tokens ends with rounds that may draft only what is
still wanted, and its last round need not fill up: at N = 32 and γ = 16 that matters more than α. A chance that differs
from position to position is taken as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .arrays import above_zero, chances, counts, least_zero
from .theory import VerifyCost


def rounds_by_drafts(new_tokens: int, alpha: float | Sequence[float], gamma: int) -> list[float]:
    """Expected number of rounds that draft 0, 1, …, γ tokens in a generation of `new_tokens`. Taught in notebook 06.

    With m tokens still wanted a round drafts min(γ, m - 1): a draft whose acceptance cannot save a target pass is
    never made. Their sum is the number of target passes; Σ k · rounds[k] that of draft passes. No end token is met.

    Args:
        new_tokens: 1 or more.
        alpha: chance that a drafted token is accepted once all before it were, in 0…1; or one chance for each of the
            γ positions of a round.
        gamma: 0 or more.

    Returns:
        γ + 1 numbers.

    Raises:
        ValueError, TypeError: outside these bounds, or not one chance for each position.

    >>> rounds_by_drafts(5, 1.0, 4), rounds_by_drafts(3, 0.0, 2), rounds_by_drafts(2, 0.5, 1)
    ([0.0, 0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.5, 1.0])
    """
    wanted, gamma = int(counts(new_tokens=new_tokens)), int(counts(least=0, gamma=gamma))
    chance = chances(alpha=alpha)
    if chance.ndim == 0:
        chance = [float(chance)] * gamma
    elif chance.shape != (gamma,):
        raise ValueError(
            f"alpha must be one number or one for each of the {gamma} positions, got shape {chance.shape}"
        )
    else:
        chance = chance.tolist()
    reached = [0.0] * wanted + [1.0]  # chance that a round begins with so many tokens wanted
    rounds = [0.0] * (gamma + 1)
    for left in range(wanted, 0, -1):
        here, drafts = reached[left], min(gamma, left - 1)
        rounds[drafts] += here
        for position in range(drafts):
            reached[left - 1 - position] += here * (1 - chance[position])
            here *= chance[position]
        reached[left - 1 - drafts] += here
    return rounds


def generation_speedup(
    new_tokens: int,
    alpha: float | Sequence[float],
    gamma: int,
    cost_ratio: float,
    verify_cost: VerifyCost = 1.0,
    overhead: float = 0.0,
) -> float:
    """Plain ÷ speculative time of a generation of `new_tokens`; `theory.speedup` is its limit for long ones.

    Plain: new_tokens · (1 + overhead). Speculative: the sum over rounds of k·c + v(k + 1) + overhead, k being what the
    round may draft. Prompt processing is not in it. Taught in notebook 06.

    Args:
        new_tokens, alpha, gamma: as in `rounds_by_drafts`.
        cost_ratio: c, time of a draft pass ÷ of a target pass, 0 or more.
        verify_cost: v; a number stands for v(n) at every n ≥ 2.
        overhead: time of a round outside the models ÷ time of a target pass, 0 or more.

    >>> round(generation_speedup(64, 0.8, 4, 0.1), 3), round(generation_speedup(6, 0.8, 4, 0.1), 3)
    (2.37, 2.049)
    """
    ratio, extra = float(least_zero(cost_ratio=cost_ratio)), float(least_zero(overhead=overhead))
    v: Callable[[int], float] = verify_cost if callable(verify_cost) else lambda n: verify_cost
    rounds = rounds_by_drafts(new_tokens, alpha, gamma)
    time = sum(
        count * (k * ratio + (float(above_zero(verify_cost=v(k + 1))) if k else 1.0) + extra)
        for k, count in enumerate(rounds)
        if count
    )
    return new_tokens * (1 + extra) / time
