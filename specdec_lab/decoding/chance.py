"""Where randomness comes in: every draw and every coin toss of a decoder goes through a `Chance`.

Greedy decoding draws nothing, and `NO_CHANCE` makes sure of it.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from .distributions import finest


class Chance(Protocol):
    """A source of draws. A torch generator, a replayed record, an exact enumerator can all be one."""

    def draw(self, probabilities: Any) -> int:
        """An index drawn with these probabilities, (vocab,)."""

    def accept(self, probability: float) -> bool:
        """True with this probability."""


class GeneratorChance:
    """Draws from a `torch.Generator`, one uniform number for each draw and each toss. Taught in notebook 07.

    The generator may be on another device than the probabilities; the global random state is left alone, unless
    it is torch's default generator.

    >>> chance = GeneratorChance(torch.Generator().manual_seed(0))
    >>> chance.draw(torch.tensor([0.0, 1.0, 0.0])), chance.accept(1.0), chance.accept(0.0)
    (1, True, False)
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def draw(self, probabilities: torch.Tensor) -> int:
        """The first index whose running sum exceeds the uniform number: never one of probability 0."""
        sums = probabilities.cumsum(-1, dtype=finest(probabilities.device))
        index = int(torch.searchsorted(sums, sums[-1:] * self._uniform(), right=True))
        if index < len(sums):
            return index
        if not sums[-1] > 0:
            raise ValueError(f"probabilities must sum to more than 0, got {sums[-1].item()}")
        # the product was rounded up to the whole sum
        return int(probabilities.nonzero()[-1])

    def accept(self, probability: float) -> bool:
        """A uniform number in [0, 1) below `probability`: never for 0, always for 1."""
        return self._uniform() < probability

    def _uniform(self) -> float:
        device = self.generator.device
        return torch.rand((), generator=self.generator, device=device, dtype=finest(device)).item()


class _NoChance:
    """The chance of greedy decoding: asking it for anything is a mistake."""

    def draw(self, probabilities: Any) -> int:
        raise RuntimeError("greedy decoding draws nothing, but a draw was asked for")

    def accept(self, probability: float) -> bool:
        raise RuntimeError("greedy decoding tosses no coin, but one was asked for")


NO_CHANCE = _NoChance()
