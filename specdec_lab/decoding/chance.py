"""Where randomness comes in: every draw and every coin toss of a decoder goes through a `Chance`.

Greedy decoding draws nothing, and `NO_CHANCE` makes sure of it.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch


class Chance(Protocol):
    """A source of draws. A torch generator, a replayed record, an exact enumerator can all be one."""

    def draw(self, probabilities: Any) -> int:
        """An index drawn with these probabilities, (vocab,)."""

    def accept(self, probability: float) -> bool:
        """True with this probability."""


class GeneratorChance:
    """Draws from a `torch.Generator`; the global random state is left alone.

    >>> chance = GeneratorChance(torch.Generator().manual_seed(0))
    >>> chance.draw(torch.tensor([0.0, 1.0, 0.0])), chance.accept(1.0), chance.accept(0.0)
    (1, True, False)
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def draw(self, probabilities: torch.Tensor) -> int:
        """One index; the draw is made on the generator's device."""
        on_device = probabilities.to(self.generator.device)
        return int(torch.multinomial(on_device, 1, generator=self.generator))

    def accept(self, probability: float) -> bool:
        """A uniform number in [0, 1) below `probability`: never for 0, always for 1."""
        uniform = torch.rand((), generator=self.generator, device=self.generator.device, dtype=torch.float32)
        return float(uniform) < probability


class _NoChance:
    """The chance of greedy decoding: asking it for anything is a mistake."""

    def draw(self, probabilities: Any) -> int:
        raise RuntimeError("greedy decoding draws nothing, but a draw was asked for")

    def accept(self, probability: float) -> bool:
        raise RuntimeError("greedy decoding tosses no coin, but one was asked for")


NO_CHANCE = _NoChance()
