"""Random numbers that are used twice, as chances that `measure.law` can walk: what some exhibits draw from.

Nothing here may be used to decode.
"""

from __future__ import annotations

import torch

from specdec_lab.decoding.chance import Chance


class OneUniform:
    """One uniform number, asked again and again. Taught in notebook 07.

    The number itself is never drawn. The answers so far say in which interval it lies, and the next answer is drawn
    from what each cell has in common with that interval. So it works with every `Chance`, and `law` integrates over
    the number exactly.

    Attributes:
        low, high: the interval.

    Example:
        >>> from specdec_lab.measure.law import EnumeratingChance
        >>> one = OneUniform(EnumeratingChance())
        >>> one.accept(0.25), one.accept(0.5), one.low, one.high  # a number below 0.25 is below 0.5
        (True, True, 0.0, 0.25)
    """

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.low, self.high = 0.0, 1.0

    def draw(self, probabilities: torch.Tensor) -> int:
        """The index in whose cell of the running sum the number lies."""
        ends = probabilities.double().cumsum(-1)
        ends = ends / ends[-1]
        starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        common = (ends.clamp(max=self.high) - starts.clamp(min=self.low)).clamp(min=0)
        index = self.chance.draw(common / common.sum())
        self.low, self.high = max(self.low, float(starts[index])), min(self.high, float(ends[index]))
        return index

    def accept(self, probability: float) -> bool:
        """Whether the number lies below `probability`."""
        below = (probability - self.low) / (self.high - self.low)
        accepted = self.chance.accept(min(max(below, 0.0), 1.0))
        if accepted:
            self.high = min(self.high, probability)
        else:
            self.low = max(self.low, probability)
        return accepted


class SameForGuessAndToss:
    """Each guess and the toss about it share a number; replacement and bonus have their own. Taught in notebook 07.

    A toss says that the guessing of a round is over, the draw behind it that the round is.
    """

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.numbers: list[OneUniform] = []
        self.tossing = False

    def draw(self, probabilities: torch.Tensor) -> int:
        """A guess, or the token that ends a round."""
        if self.tossing:
            self.numbers, self.tossing = [], False
            return self.chance.draw(probabilities)
        self.numbers.append(OneUniform(self.chance))
        return self.numbers[-1].draw(probabilities)

    def accept(self, probability: float) -> bool:
        """Whether the number that drew the next guess lies below `probability`."""
        self.tossing = True
        return self.numbers.pop(0).accept(probability)
