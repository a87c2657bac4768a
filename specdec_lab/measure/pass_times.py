"""Times of passes over n tokens, as `passes` and `profile` measure them, and v(n) from them. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class PassTimes:
    """How long passes over n tokens took; made by `time_passes`. Taught in notebook 01.

    `times[n]` is the median over n tokens in seconds, iterating gives every n, and `verify_cost` can be given to
    `theory.speedup` as it is.

    Attributes:
        seconds: n → seconds, one for each turn, in order; 1 is among the n.
        context: tokens that the cache held before each pass.

    Raises:
        ValueError: no times for n = 1, none at all for some n, or not as many turns for each.

    >>> times = PassTimes({1: (2.0, 2.0, 3.0), 5: (3.0, 2.5, 9.0)}, context=64)
    >>> times[5], times.verify_cost(5), times.verify_cost(3), times.verify_cost_range(5)
    (3.0, 1.5, 1.25, (1.25, 3.0))
    """

    seconds: Mapping[int, Sequence[float]]
    context: int

    def __post_init__(self) -> None:
        if not self.seconds.get(1):
            raise ValueError(f"seconds must hold times for n = 1, got them for {list(self.seconds)}")
        turns = {n: len(values) for n, values in self.seconds.items()}
        if len(set(turns.values())) > 1:
            raise ValueError(f"seconds must hold one time for each turn and n, got n → turns {turns}")

    def __iter__(self) -> Iterator[int]:
        return iter(self.seconds)

    def __getitem__(self, tokens: int) -> float:
        return median(self._turns(tokens))

    def verify_cost(self, tokens: int) -> float:
        """v(n): median over n ÷ median over one; straight lines between the n that were timed.

        Raises `ValueError` outside them. NaN where the clock did not move.
        """
        known = sorted(self.seconds)
        if not known[0] <= tokens <= known[-1]:
            raise ValueError(f"tokens must lie between {known[0]} and {known[-1]}, got {tokens}")
        low = max(n for n in known if n <= tokens)
        high = min(n for n in known if n >= tokens)
        share = (tokens - low) / (high - low) if high > low else 0.0
        return ratio(self[low] + (self[high] - self[low]) * share, self[1])

    def verify_cost_range(self, tokens: int) -> tuple[float, float]:
        """Smallest and largest v(n) of a single turn, for an n that was timed: the spread."""
        ratios = [ratio(many, one) for many, one in zip(self._turns(tokens), self._turns(1), strict=True)]
        return min(ratios), max(ratios)

    def _turns(self, tokens: int) -> Sequence[float]:
        if tokens not in self.seconds:
            raise KeyError(f"no pass over {tokens} tokens was timed, only over {sorted(self.seconds)}")
        return self.seconds[tokens]


def ratio(above: float, below: float) -> float:
    """above ÷ below; NaN where `below` is zero or negative (a clock that did not move)."""
    return above / below if below > 0 else math.nan
