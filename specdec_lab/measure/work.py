"""The work of a generation: passes, tokens read, and from them FLOPs and bytes of weights. Counted, never timed.

The counts come from a recorded trace, from the formulas, or from a model that counts its own calls. Attention over
the context and the KV cache are left out; `memory.py` has the bytes of the cache. No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specdec_lab.decoding.checks import check_count
from specdec_lab.decoding.rounds import Trace
from specdec_lab.models.protocol import Model, as_model


@dataclass(frozen=True)
class Work:
    """How often two models ran, and over how many tokens. Works add up. Taught in notebook 04.

    Attributes:
        target_passes, draft_passes: forward passes of each model.
        target_tokens, draft_tokens: tokens that each model read in them, all together.

    >>> one = Work(target_passes=1, target_tokens=5, draft_passes=4, draft_tokens=4)
    >>> one.flops(1000, 100), one.weight_bytes(1000, 100)
    (10800, 5600)
    """

    target_passes: float
    target_tokens: float
    draft_passes: float = 0
    draft_tokens: float = 0

    def __add__(self, other: Work) -> Work:
        if not isinstance(other, Work):
            return NotImplemented
        return Work(
            self.target_passes + other.target_passes,
            self.target_tokens + other.target_tokens,
            self.draft_passes + other.draft_passes,
            self.draft_tokens + other.draft_tokens,
        )

    def flops(self, target_parameters: float, draft_parameters: float = 0) -> float:
        """2 for each parameter and each token read (Kaplan et al. 2020, section 2.1): a multiplication and an
        addition."""
        return 2 * (self.target_tokens * target_parameters + self.draft_tokens * draft_parameters)

    def weight_bytes(
        self, target_parameters: float, draft_parameters: float = 0, bytes_each: float = 4
    ) -> float:
        """Bytes of weights that travel to the processor: all of a model's, once a pass, whatever it reads.

        Args:
            bytes_each: bytes of one parameter, 4 in float32.
        """
        return bytes_each * (self.target_passes * target_parameters + self.draft_passes * draft_parameters)

    def over(self, plain: Work, target_parameters: float, draft_parameters: float = 0) -> dict[str, float]:
        """This work in units of another's: target passes, FLOPs and weight bytes, each divided by `plain`'s.

        >>> Work(1, 5, 4, 4).over(Work(4, 4), 1000, 100)
        {'target passes': 0.25, 'FLOPs': 1.35, 'weight bytes': 0.35}
        """
        sizes = target_parameters, draft_parameters
        return {
            "target passes": self.target_passes / plain.target_passes,
            "FLOPs": self.flops(*sizes) / plain.flops(*sizes),
            "weight bytes": self.weight_bytes(*sizes) / plain.weight_bytes(*sizes),
        }


def work_of(trace: Trace) -> Work:
    """What a recorded run took, from the record alone: chains, with a draft model or with a drafter that has none.

    In a round that drafts k tokens the target reads everything that was pending and the k guesses, in one pass; the
    draft reads what was pending for it and every guess but its last, in k passes. Taught in notebook 04.

    >>> from specdec_lab.decoding.rounds import Round
    >>> item = Round((5, 6), (-1, 0), (0,), (5, 9), "correction", 3, 5, 3, 5, 0.0, 0.0)
    >>> work_of(Trace((1, 2, 3, 4), (item,)))
    Work(target_passes=1, target_tokens=3, draft_passes=2, draft_tokens=2)
    """
    length, total = len(trace.prompt), Work(0, 0)
    for item in trace.rounds:
        drafted = len(item.drafted)
        passes = drafted if item.draft_cache_before is not None else 0
        read = length - item.draft_cache_before + drafted - 1 if passes else 0
        total += Work(1, length - item.target_cache_before + drafted, passes, read)
        length += len(item.emitted)
    return total


def plain_work(prompt_tokens: int, new_tokens: int) -> Work:
    """What plain decoding takes: one pass a new token; every token is read once but the last, which is not read.

    Raises `ValueError` for less than one token.

    >>> plain_work(prompt_tokens=10, new_tokens=5)
    Work(target_passes=5, target_tokens=14, draft_passes=0, draft_tokens=0)
    """
    prompt_tokens = check_count(prompt_tokens, "prompt_tokens")
    new_tokens = check_count(new_tokens, "new_tokens")
    return Work(new_tokens, prompt_tokens - 1 + new_tokens)


def expected_work(prompt_tokens: int, new_tokens: int, gamma: int, tokens_per_round: float) -> Work:
    """What speculative decoding takes by the formula: n ÷ τ rounds of one target pass over γ + 1 tokens and γ draft
    passes over one. Taught in notebook 04.

    Both models read the prompt once, all but its last token, which counts as the pending one of the first round. Left
    out: the token that the draft catches up on after a full acceptance, and that the last rounds are shorter.
    Multiplied out for the FLOPs it is theorem 3.11 of Leviathan et al. 2023, (γ·ĉ + γ + 1) ÷ τ times plain decoding's.

    Args:
        gamma: tokens drafted in a round, 0 (plain decoding) or more.
        tokens_per_round: τ, measured or from `theory.expected_tokens_per_round`; 1 or more.

    Raises `ValueError` outside these bounds.

    >>> expected_work(prompt_tokens=10, new_tokens=12, gamma=4, tokens_per_round=3.0)
    Work(target_passes=4.0, target_tokens=29.0, draft_passes=16.0, draft_tokens=25.0)
    """
    prompt_tokens = check_count(prompt_tokens, "prompt_tokens")
    new_tokens = check_count(new_tokens, "new_tokens")
    gamma = check_count(gamma, "gamma", least=0)
    if not 1 <= tokens_per_round <= gamma + 1:
        raise ValueError(
            f"tokens_per_round must be between 1 and gamma + 1 = {gamma + 1}, got {tokens_per_round}"
        )
    rounds, prompt = new_tokens / tokens_per_round, prompt_tokens - 1
    drafted = gamma * rounds
    return Work(rounds, prompt + rounds + drafted, drafted, prompt + drafted if gamma else 0)


class CountedModel:
    """A model that counts its passes and the tokens it is fed, and is otherwise the model. Taught in notebook 04.

    Attributes:
        passes, fed_tokens: since it was made.

    Raises `TypeError` for what is no model.

    Example:
        >>> target, draft = CountedModel(pair.target), CountedModel(pair.draft)  # doctest: +SKIP
        >>> _ = speculative_decode(target, draft, ids, 32, 4, None)  # doctest: +SKIP
        >>> target.passes, draft.fed_tokens  # doctest: +SKIP
    """

    def __init__(self, model: Any) -> None:
        self.model: Model = as_model(model)
        self.passes = 0
        self.fed_tokens = 0

    def forward(self, input_ids: Any, use_cache: bool = True, past_key_values: Any = None) -> Any:
        """As the model's own, counted; input_ids (1, n)."""
        self.passes += 1
        self.fed_tokens += input_ids.shape[-1]
        return self.model.forward(input_ids, use_cache=use_cache, past_key_values=past_key_values)

    def truncate_cache(self, past_key_values: Any, valid_length: int) -> Any:
        """The model's own."""
        return self.model.truncate_cache(past_key_values, valid_length)

    def __getattr__(self, name: str) -> Any:
        if name == "model":  # not made yet: copy and pickle ask
            raise AttributeError(name)
        return getattr(self.model, name)  # vocab_size, device, …
