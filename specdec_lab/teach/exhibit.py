"""What an exhibit of the bug museum is: a correct loop with one wrong method, and its label.

The exhibits themselves are in `wrong_caches.py` and `wrong_tokens.py`, those that draw in `wrong_sampling.py`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specdec_lab.decoding.chance import Chance
from specdec_lab.decoding.sampling import Sampling
from specdec_lab.measure.law import Decoder as LawDecoder

from .plain_loop import PlainLoop
from .plain_sampler import PlainSampler


@dataclass(frozen=True)
class Exhibit:
    """One wrong decoder and its label. Taught in notebook 04, and in 07 where it draws.

    Attributes:
        name: what it is called in the museum.
        wrong_step: what it does instead of the right thing.
        symptom: what a user notices.
        faults: rows of the project's list of faults, "F01" and so on.
        references: threads about it or about what leads to it: owner/name, the number of the issue or "PR" and its number.
        caught_by: names of the checks that notice it; every other check passes.
        loop: the class; one of its methods differs from `PlainLoop` or, where it draws, from `PlainSampler`.
    """

    name: str
    wrong_step: str
    symptom: str
    faults: tuple[str, ...]
    references: tuple[str, ...]
    caught_by: frozenset[str]
    loop: type[PlainLoop]

    def decode(
        self,
        target_model: Any,
        draft_model: Any,
        input_ids: list[int],
        max_new_tokens: int,
        gamma: int,
        eos_token_id: Any,
    ) -> tuple[list[int], float]:
        """The exhibit as a decoder: the signature of `speculative_decode`, and its own idea of the answer.
        `TypeError` for one that draws."""
        return self.loop().decode(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id)

    def sample(
        self,
        target_model: Any,
        draft_model: Any,
        input_ids: list[int],
        max_new_tokens: int,
        gamma: int,
        eos_token_id: Any,
        sampling: Sampling,
        chance: Chance,
    ) -> tuple[list[int], float]:
        """An exhibit that draws, as the checks call it: the new tokens, and the acceptance rate.
        `TypeError` for one that does not."""
        if not self.draws:
            raise TypeError(f"{self.name} is a wrong greedy decoder: it draws nothing, call decode(...)")
        sampler = self.loop()
        new = sampler.sample(
            target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id, sampling, chance
        )
        return new, sampler.rate()

    def sampler(self, gamma: int, sampling: Sampling | None = None, eos_token_id: Any = None) -> LawDecoder:
        """An exhibit that draws, as a decoder for `specdec_lab.measure.law.law`. Taught in notebook 07.
        `TypeError` for one that does not."""
        if not self.draws:
            raise TypeError(f"{self.name} is a wrong greedy decoder: it draws nothing and has no law")

        def decoder(target: Any, draft: Any, prompt: list[int], n: int, chance: Chance) -> list[int]:
            return self.sample(target, draft, prompt, n, gamma, eos_token_id, sampling or Sampling(), chance)[
                0
            ]

        return decoder

    @property
    def draws(self) -> bool:
        """Whether it is a sampler."""
        return issubclass(self.loop, PlainSampler)

    @property
    def correct(self) -> type[PlainLoop]:
        """The correct loop to read it beside."""
        return PlainSampler if self.draws else PlainLoop

    @property
    def replaced(self) -> str | None:
        """The name of the method that differs from the correct loop, None for the correct loop itself."""
        if self.loop is self.correct:
            return None
        return next(name for name, part in vars(self.loop).items() if inspect.isfunction(part))


def exhibit(
    wrong_step: str, symptom: str, *, faults: str, references: str, caught_by: str
) -> Callable[[type[PlainLoop]], type[PlainLoop]]:
    """Put a label on a spoilt loop, as its attribute `exhibit`; it is named after the class, with underscores.

    `faults` and `caught_by` are separated by spaces, `references` by commas; see `Exhibit`.
    """

    def put(loop: type[PlainLoop]) -> type[PlainLoop]:
        loop.exhibit = Exhibit(
            name=re.sub(r"(?<!^)(?=[A-Z])", "_", loop.__name__).lower(),
            wrong_step=wrong_step,
            symptom=symptom,
            faults=tuple(faults.split()),
            references=tuple(references.split(", ")),
            caught_by=frozenset(caught_by.split()),
            loop=loop,
        )
        return loop

    return put
