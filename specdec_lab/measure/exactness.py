"""Where two decodings of one prompt part, and whether rounding can explain it.

Nothing is excused in advance: a difference is reported with the gap between the two tokens, and the noise it is
held against comes from plain decoding (a cached step against one pass over everything), never from the run that
is being judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specdec_lab.decoding.checks import check_input_ids
from specdec_lab.decoding.session import Session


@dataclass(frozen=True)
class Divergence:
    """The first difference between a decoding and plain decoding.

    Attributes:
        index: of the new token, from 0.
        token, plain_token: what was emitted, and what plain decoding says; None where one of them had ended.
        gap: how much higher the target's logit of `plain_token` is than that of `token`, in a plain cached step;
            NaN where one of them had ended.
        noise: largest difference between that cached step and one pass over the whole sequence.
        near_tie: whether rounding explains the difference: the gap is at most twice the noise, or at most
            1e-4 × max(1, largest |logit|).
    """

    index: int
    token: int | None
    plain_token: int | None
    gap: float
    noise: float
    near_tie: bool

    def __str__(self) -> str:
        if self.token is None or self.plain_token is None:
            longer = "plain decoding" if self.token is None else "this decoding"
            return f"new token {self.index}: only {longer} goes on; rounding does not explain that"
        verdict = "rounding explains it" if self.near_tie else "too far apart for rounding: this is a fault"
        return (
            f"new token {self.index} is {self.token}, plain decoding says {self.plain_token}; their logits are "
            f"{self.gap:.3g} apart where a step and a block differ by up to {self.noise:.3g}: {verdict}"
        )


def first_divergence(
    target_model: Any, input_ids: Any, new_tokens: Sequence[int], plain_new_tokens: Sequence[int]
) -> Divergence | None:
    """The first place where `new_tokens` leaves plain decoding, or None where the two are equal.

    Runs the target only where there is a difference. In half precision a round's block and single steps round
    differently, so near ties fall either way (SafeAILab/EAGLE 212); in float32 any difference beyond a near tie
    is a fault. Taught in notebook 08.

    Args:
        target_model: as in `speculative_decode`.
        input_ids: the prompt.
        new_tokens, plain_new_tokens: what the two decodings added to it.

    Raises:
        ValueError, TypeError: bad `input_ids`, or a model that cannot be decoded.

    Example:
        >>> first_divergence(pair.target, ids, ours, plain) is None  # doctest: +SKIP
        True
    """
    prompt = check_input_ids(input_ids)
    index = first_difference(new_tokens, plain_new_tokens)
    if index is None:
        return None
    if index >= len(new_tokens) or index >= len(plain_new_tokens):
        token = new_tokens[index] if index < len(new_tokens) else None
        plain = plain_new_tokens[index] if index < len(plain_new_tokens) else None
        return Divergence(index, token, plain, float("nan"), float("nan"), near_tie=False)
    sequence = [*prompt, *plain_new_tokens[:index]]
    stepwise, block = Session(target_model, "target_model"), Session(target_model, "target_model")
    step = stepwise.feed(prompt, rows=1)[0]
    for token in plain_new_tokens[:index]:
        step = stepwise.feed([token], rows=1)[0]
    step, whole = step.double(), block.feed(sequence, rows=1)[0].double()
    token, plain = new_tokens[index], plain_new_tokens[index]
    gap, noise = (step[plain] - step[token]).item(), (step - whole).abs().max().item()
    bound = max(2 * noise, 1e-4 * max(1.0, step.abs().max().item()))
    return Divergence(index, token, plain, gap, noise, near_tie=abs(gap) <= bound)


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first place where two sequences differ, the end of the shorter one included; None if equal.

    >>> first_difference([1, 2, 3], [1, 2]), first_difference([1, 2], [1, 2])
    (2, None)
    """
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))
