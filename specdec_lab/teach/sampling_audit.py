"""What a sampler is asked by the checks, the truth about it, and the exact law of its answers.

It judges nothing; `sampling_checks.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specdec_lab.decoding.chance import Chance
from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.decoding.rounds import Trace
from specdec_lab.decoding.sampling import Sampling
from specdec_lab.measure.law import Law, law, target_law
from specdec_lab.models.scripted import NextToken, ScriptedModel, fixed

from .audit import AuditedModel

# (target, draft, prompt, max_new_tokens, gamma, eos_token_id, sampling, chance) → the new tokens, acceptance rate
Sampler = Callable[..., tuple[Sequence[int], float]]

P, Q = (0.1, 0.6, 0.3), (0.6, 0.3, 0.1)
PLAIN = Sampling()
MOST_PATHS = 20_000  # the largest case of the checks has some hundreds


@dataclass(frozen=True)
class Case:
    """What a sampler is asked. p and q are distributions, the same in every place, or rules of a scripted model."""

    p: tuple[float, ...] | NextToken = P
    q: tuple[float, ...] | NextToken = Q
    new_tokens: int = 3
    gamma: int = 1
    sampling: Sampling = PLAIN
    ends: Any = None
    says: str = ""
    vocabulary: int = 3
    dtypes: tuple[torch.dtype, torch.dtype] = (torch.float64, torch.float64)

    def models(self) -> tuple[AuditedModel, AuditedModel]:
        """Target and draft, new."""
        pair = []
        for name, rule, dtype in zip(("target", "draft"), self._rules(), self.dtypes, strict=True):
            model = AuditedModel(name, rule, self.vocabulary, 20 * self.new_tokens * (self.gamma + 2))
            model.logits_dtype = dtype
            pair.append(model)
        return tuple(pair)

    def truth(self) -> Law:
        """The law of the target's own outputs."""
        target = ScriptedModel(self._rules()[0], self.vocabulary, logits_dtype=self.dtypes[0])
        return target_law(target, [0], self.new_tokens, self.sampling, self.ends)

    def _rules(self) -> list[NextToken]:
        return [rule if callable(rule) else fixed(rule) for rule in (self.p, self.q)]

    def __str__(self) -> str:
        models = self.says or f"p={list(self.p)}, q={list(self.q)}"
        filters = "".join(
            f", {name}={value}"
            for name in ("top_k", "top_p")
            if (value := getattr(self.sampling, name)) is not None
        )
        end = "" if self.ends is None else f", eos_token_id={self.ends}"
        return (
            f"{models}, max_new_tokens={self.new_tokens}, gamma={self.gamma}, "
            f"temperature={self.sampling.temperature:g}{filters}{end}"
        )


def package_sampler(
    target: Any,
    draft: Any,
    prompt: list[int],
    max_new_tokens: int,
    gamma: int,
    eos_token_id: Any,
    sampling: Sampling,
    chance: Chance,
) -> tuple[list[int], float]:
    """`specdec_lab.speculative_sample` in the form that the checks call. Taught in notebook 07."""
    rounds = speculative_rounds(
        target,
        draft,
        prompt,
        max_new_tokens=max_new_tokens,
        gamma=gamma,
        eos_token_id=eos_token_id,
        sampling=sampling,
        chance=chance,
    )
    trace = Trace.of(prompt, rounds)
    return trace.new_tokens, trace.acceptance_rate


class Unlucky:
    """A chance that loses every toss that can be lost, and draws the likeliest token: one path of thousands."""

    def draw(self, probabilities: Any) -> int:
        total = float(probabilities.sum())
        if not abs(total - 1) < 1e-3:
            raise ValueError(f"a draw was asked for, and the probabilities sum to {total:g}")
        return int(probabilities.argmax())

    def accept(self, probability: float) -> bool:
        return probability >= 1


def answer(sampler: Sampler, case: Case, chance: Chance) -> tuple[Sequence[int], str | None]:
    """The new tokens of one run, or a sentence about why there are none."""
    try:
        return _call(sampler, case, chance)[0], None
    except Exception as error:
        return (), f"{case}: {_in_words(error)}"


def law_of(
    sampler: Sampler,
    case: Case,
    of: Callable[[Sequence[int], float], Sequence[Hashable]] = lambda new, rate: new,
) -> tuple[Law, str | None]:
    """The law of a sampler's answers, or a sentence about why it has none."""

    def decoder(target: Any, draft: Any, prompt: list[int], n: int, chance: Chance) -> Sequence[Hashable]:
        return of(*_call(sampler, case, chance))

    try:
        return law(decoder, None, None, [0], case.new_tokens, most_paths=MOST_PATHS), None
    except Exception as error:
        return Law(), f"{case}: {_in_words(error)}"


def _call(sampler: Sampler, case: Case, chance: Chance) -> tuple[list[int], float]:
    new, rate = sampler(*case.models(), [0], case.new_tokens, case.gamma, case.ends, case.sampling, chance)
    return [int(token) for token in new], float(rate)


def _in_words(error: Exception) -> str:
    return f"it raised {type(error).__name__}: {error}".rstrip(": .") + "."
