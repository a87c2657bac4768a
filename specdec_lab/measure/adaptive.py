"""γ chosen anew each round from what passes cost and what was accepted lately.

Give one of these as `gamma` to `speculative_rounds`. They keep no state of their own: the rounds so far say it all, so
one object can serve many runs, one after another or at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec_lab.decoding.rounds import Round

from .arrays import chances, counts
from .cost_profile import CostProfile
from .theory import VerifyCost, optimal_gamma

_STEPS = 200  # α is rounded to 1 / _STEPS, so that the best γ of each can be worked out beforehand


class AdaptiveGamma:
    """Each round drafts the γ that is best for the acceptance seen lately. Taught in notebook 06.

    α is estimated from judged tokens, the last ones counting most: a verdict that lies `memory` verdicts back weighs
    1/e. Before there are any, and mixed in with the weight of `doubt` verdicts, stands `alpha`. Where nothing pays,
    rounds are plain; evidence then fades, and after `retry` plain rounds one draft asks again.

    Args:
        cost_ratio, verify_cost: c and v of the pair; `AdaptiveGamma.from_profile` takes them from a profile.
        largest: largest γ, 1 or more.
        alpha: what is believed before anything was judged.
        doubt: how many verdicts that belief weighs, above 0.
        memory: in verdicts, 1 or more.
        retry: plain rounds before it asks again, 1 or more.

    Example:
        >>> gamma = AdaptiveGamma.from_profile(profile)  # doctest: +SKIP
        >>> speculative_rounds(
        ...     pair.target, pair.draft, ids, max_new_tokens=96, gamma=gamma, eos_token_id=None
        ... )  # doctest: +SKIP

    >>> AdaptiveGamma(0.1, alpha=0.8)([]), AdaptiveGamma(0.9, alpha=0.5)([])
    (6, 0)
    """

    def __init__(
        self,
        cost_ratio: float,
        verify_cost: VerifyCost = 1.0,
        *,
        largest: int = 16,
        alpha: float = 0.75,
        doubt: float = 2.0,
        memory: int = 40,
        retry: int = 16,
    ) -> None:
        self.largest, self.retry = int(counts(largest=largest)), int(counts(retry=retry))
        self.memory = int(counts(memory=memory))
        self.alpha = float(chances(alpha=alpha))
        if isinstance(doubt, bool) or not isinstance(doubt, int | float) or not doubt > 0:
            raise ValueError(f"doubt must be a number above 0, got {doubt!r}")
        self.doubt = float(doubt)
        grid = [step / _STEPS for step in range(_STEPS + 1)]
        self._best = optimal_gamma(grid, cost_ratio, verify_cost, self.largest).tolist()

    @classmethod
    def from_profile(cls, profile: CostProfile, context: float | None = None, **more) -> AdaptiveGamma:
        """With c and v as measured at a length of the sequence (None: the middle of those measured)."""
        largest = min(more.pop("largest", profile.largest_gamma), profile.largest_gamma)
        return cls(
            profile.cost_ratio(context), lambda n: profile.verify_cost(n, context), largest=largest, **more
        )

    def belief(self, rounds: Sequence[Round]) -> float:
        """α as estimated from these rounds."""
        keep = 1 - 1 / self.memory
        weight = accepted = 0.0
        age = 1.0
        for item in reversed(rounds):  # the latest first
            if age < 1e-3:
                break
            for good in [False] * item.rejected + [True] * len(item.accepted):
                accepted += age * good
                weight += age
                age *= keep
            if not item.drafted:
                age *= keep
        return (accepted + self.doubt * self.alpha) / (weight + self.doubt)

    def __call__(self, rounds: Sequence[Round]) -> int:
        """γ of the next round."""
        best = self._best[round(self.belief(rounds) * _STEPS)]
        recent = rounds[-self.retry :]
        if not best and len(recent) == self.retry and not any(item.drafted for item in recent):
            return 1
        return best


class HeuristicGamma:
    """Two more after a round that was accepted whole, one fewer after any other, never under 1: the "heuristic"
    schedule of transformers' assisted generation. Taught in notebook 06.

    Args:
        start: γ of the first round, 1 or more.
        largest: never more than this, 1 or more.

    >>> HeuristicGamma(start=5)([])
    5
    """

    def __init__(self, start: int = 5, largest: int = 16) -> None:
        self.start, self.largest = int(counts(start=start)), int(counts(largest=largest))

    def __call__(self, rounds: Sequence[Round]) -> int:
        """γ of the next round."""
        gamma = self.start
        for item in rounds:
            whole = len(item.accepted) == len(item.drafted)
            gamma = min(gamma + 2, self.largest) if whole else max(gamma - 1, 1)
        return min(gamma, self.largest)
