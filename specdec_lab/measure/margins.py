"""How close every choice of plain decoding was, and how far rounding can move it.

The same text is evaluated as plain decoding does, one cached step after another, and in blocks, as a verify pass
does. Only plain decoding's own text and caches are used: the noise that a run is held against must not come from
that run. Nothing is judged here but by `is_near_tie`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specdec_lab.decoding.checks import check_count, check_fits, check_input_ids
from specdec_lab.decoding.session import Session
from specdec_lab.models.protocol import as_model, model_dtype

FLOAT32_TIE = 1e-4  # × max(1, largest |logit|): closer than this, rounding decides even in float32
MOST_NOISE = (
    16  # × eps × max(1, largest |logit|): more than this is no rounding, whatever the model says of itself
)
MOST_NOISE_UNKNOWN = (
    1 / 3
)  # × max(1, largest |logit|), for a model without weights: its arithmetic is unknown


@dataclass(frozen=True)
class Margins:
    """One entry for each new token of a text. Taught in notebook 08.

    Attributes:
        tokens: the text.
        runners_up: the best other token at each place, in a cached step.
        gaps: logit of the token minus logit of the runner-up, in a cached step; 0 or more in greedy text.
        block_gaps: the same two logits in blocks; below 0 where a block would choose otherwise.
        changes: the largest difference of any logit between the step and the blocks.
        largest_logits: the largest |logit| of the step.
        eps: the relative rounding of one number in the dtype of the weights; None for a model without weights.
    """

    tokens: tuple[int, ...]
    runners_up: tuple[int, ...]
    gaps: tuple[float, ...]
    block_gaps: tuple[float, ...]
    changes: tuple[float, ...]
    largest_logits: tuple[float, ...]
    eps: float | None = None

    @property
    def noise(self) -> float:
        """The noise floor: the largest change anywhere in the text."""
        return max(self.changes)

    @property
    def noisy_logit(self) -> float:
        """The largest |logit| at the place where that change is."""
        return self.largest_logits[self.changes.index(self.noise)]

    def share_within(self, margin: float) -> float:
        """Share of places whose gap is at most `margin`.

        >>> Margins((1, 2), (0, 0), (0.5, 2.0), (0.5, 2.0), (0.0, 0.0), (1.0, 1.0)).share_within(1.0)
        0.5
        """
        return sum(gap <= margin for gap in self.gaps) / len(self.gaps)

    def near_ties(self) -> list[int]:
        """The places that rounding may decide (`is_near_tie`)."""
        pairs = zip(self.gaps, self.largest_logits, strict=True)
        noise, where = self.noise, self.noisy_logit
        return [i for i, (gap, top) in enumerate(pairs) if is_near_tie(gap, noise, top, self.eps, where)]


def is_near_tie(
    gap: float, noise: float, largest_logit: float, eps: float | None, noisy_logit: float | None = None
) -> bool:
    """Whether rounding explains that the lower of two logits won. NaN is no tie.

    Each of the two may have moved by `noise`, so a gap of twice that may close; if the noise is one that rounding
    can make (`is_rounding`) where it was met, for a model whose blocks are wrong must not excuse itself. And nothing
    below 1e-4 × max(1, largest |logit|) is ever told apart for sure.

    Args:
        gap: between the two logits.
        noise: the noise floor.
        largest_logit: the largest |logit| where the gap is.
        eps: the relative rounding of one number, None where it is unknown.
        noisy_logit: the largest |logit| where the noise was met; `largest_logit` unless given.

    >>> bfloat16, float32 = 2**-7, 2**-23
    >>> [is_near_tie(gap, noise=0.12, largest_logit=10.0, eps=bfloat16) for gap in (0.2, 0.5)]
    [True, False]
    >>> is_near_tie(0.2, noise=0.12, largest_logit=10.0, eps=float32)
    False
    """
    there = largest_logit if noisy_logit is None else noisy_logit
    believed = noise if is_rounding(noise, there, eps) else 0.0
    return abs(gap) <= max(2 * believed, FLOAT32_TIE * max(1.0, largest_logit))


def is_rounding(noise: float, largest_logit: float, eps: float | None) -> bool:
    """Whether rounding can make a step and a block so different: at most 16 × eps × max(1, largest |logit|)."""
    most = MOST_NOISE_UNKNOWN if eps is None else MOST_NOISE * eps
    return noise <= most * max(1.0, largest_logit)


def measure_margins(target_model: Any, input_ids: Any, new_tokens: Sequence[int], block: int = 5) -> Margins:
    """Evaluate a text three times: in cached steps, in cached blocks, and in one pass. Taught in notebook 08.

    Args:
        target_model: as in `speculative_decode`.
        input_ids: the prompt.
        new_tokens: what followed it, mostly plain decoding's output; 1 or more.
        block: tokens in a block, γ + 1 for a verify pass of γ drafts.

    Raises:
        ValueError, TypeError: bad input, before the first pass.

    Example:
        >>> margins = measure_margins(pair.target, ids, plain[len(ids) :])  # doctest: +SKIP
        >>> margins.noise, margins.share_within(0.1)  # doctest: +SKIP
    """
    prompt = check_input_ids(input_ids)
    tokens = check_input_ids(new_tokens, "new_tokens")
    block = check_count(block, "block")
    target = as_model(target_model, "target_model")
    check_fits(target, prompt, len(tokens))
    check_fits(target, tokens, 0, "new_tokens")
    found = evaluate(target, prompt, tokens, block)
    others = [_best_other(row, token) for row, token in zip(found.steps, tokens, strict=True)]
    places = list(enumerate(zip(tokens, others, strict=True)))
    return Margins(
        tokens=tuple(tokens),
        runners_up=tuple(others),
        gaps=tuple(gap_between(found.steps[i], token, other) for i, (token, other) in places),
        block_gaps=tuple(gap_between(found.blocks[i], token, other) for i, (token, other) in places),
        changes=found.changes,
        largest_logits=tuple(largest(row) for row in found.steps),
        eps=found.eps,
    )


@dataclass(frozen=True)
class Evaluation:
    """Rows of logits, (vocab) each, one for each token of a text: in cached steps and in cached blocks; the largest
    change of a logit between the steps and either the blocks or one pass over everything; and the eps of the dtype."""

    steps: list[torch.Tensor]
    blocks: list[torch.Tensor]
    changes: tuple[float, ...]
    eps: float | None

    @property
    def noise(self) -> float:
        """The largest change anywhere in the text."""
        return max(self.changes)

    @property
    def noisy_logit(self) -> float:
        """The largest |logit| at the place where that change is."""
        return largest(self.steps[self.changes.index(self.noise)])


def evaluate(target_model: Any, prompt: list[int], tokens: list[int], block: int) -> Evaluation:
    """Run the target over `prompt` and `tokens` in all three ways; arguments as in `measure_margins`."""
    steps = list(choosing_rows(target_model, prompt, tokens, 1))
    blocks = list(choosing_rows(target_model, prompt, tokens, block))
    whole = choosing_rows(target_model, prompt, tokens, len(tokens))
    rows = zip(steps, blocks, whole, strict=True)
    changes = tuple(max(_change(step, b), _change(step, w)) for step, b, w in rows)
    dtype = model_dtype(as_model(target_model))
    if dtype is not None and not dtype.is_floating_point:  # quantised
        dtype = steps[0].dtype
    return Evaluation(steps, blocks, changes, None if dtype is None else torch.finfo(dtype).eps)


def choosing_rows(
    target_model: Any, prompt: list[int], tokens: list[int], block: int
) -> Iterator[torch.Tensor]:
    """The logits, (vocab), that choose each of `tokens`, fed `block` at a time; the prompt rides on the first pass."""
    session = Session(target_model, "target_model")
    text = [*prompt, *tokens]
    for first in range(0, len(tokens), block):
        last = min(first + block, len(tokens))
        yield from session.feed(text[session.length : len(prompt) + last - 1], rows=last - first)


def gap_between(row: torch.Tensor, token: int, other: int) -> float:
    """How much higher the logit of `token` is than that of `other`, subtracted in float64."""
    return row[token].item() - row[other].item()


def largest(row: torch.Tensor) -> float:
    """The largest |logit| among those that are finite."""
    finite = row[row.isfinite()]
    return finite.abs().max().item() if len(finite) else float("nan")


def _change(a: torch.Tensor, b: torch.Tensor) -> float:
    return (
        torch.where(a == b, 0.0, a.float() - b.float()).abs().max().item()
    )  # -inf masks are equal, not NaN apart


def _best_other(row: torch.Tensor, token: int) -> int:
    others = row.clone()
    others[token] = -torch.inf
    best = int(others.argmax())
    return best if best != token else (token + 1) % len(row)  # all others are impossible: any will do
