"""Where two decodings of one prompt part, and whether rounding can explain it.

Nothing is excused in advance: a difference is reported with the gap between the two tokens, and the noise it is
held against comes from plain decoding (`margins.py`), never from the run that is being judged.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specdec_lab.decoding.checks import check_count, check_input_ids
from specdec_lab.decoding.distributions import finest
from specdec_lab.models.protocol import as_model, model_device, torch_modules

from .margins import Evaluation, evaluate, gap_between, is_near_tie, largest

TIE, FAULT = "tie", "fault"


@dataclass(frozen=True)
class Divergence:
    """A difference between a decoding and plain decoding.

    Attributes:
        index: of the new token, from 0. In words new tokens are numbered from 1.
        token, plain_token: what was emitted, and what plain decoding says behind the same text; None where one of
            them had ended.
        gap: how much higher the target's logit of `plain_token` is than that of `token`, in a plain cached step;
            NaN where one of them had ended.
        noise: the noise floor: the largest difference of any logit between cached steps and blocks, over plain
            decoding's own text.
        near_tie: whether rounding explains the difference (`margins.is_near_tie`): the gap is at most twice the
            noise, as far as that can be rounding, or at most 1e-4 × max(1, largest |logit|).
        gap_block: the gap in blocks of plain decoding's text; below 0, they too choose the other token.
        gap_float64: the gap with the model's weights and arithmetic in float64: which token rounding moved away
            from. NaN where it was not asked for or the model cannot be converted.
    """

    index: int
    token: int | None
    plain_token: int | None
    gap: float
    noise: float
    near_tie: bool
    gap_block: float = float("nan")
    gap_float64: float = float("nan")

    @property
    def kind(self) -> str:
        """ "tie" or "fault"."""
        return TIE if self.near_tie else FAULT

    def __str__(self) -> str:
        if self.token is None or self.plain_token is None:
            longer = "plain decoding" if self.token is None else "this decoding"
            return f"new token {self.index + 1}: only {longer} goes on; rounding does not explain that"
        verdict = "rounding explains it" if self.near_tie else "too far apart for rounding: this is a fault"
        if not self.near_tie and abs(self.gap) <= 2 * self.noise:
            verdict = "too far apart for rounding, since the model itself answers a block otherwise: this is a fault"
        return (
            f"new token {self.index + 1} is {self.token}, plain decoding says {self.plain_token}; their logits are "
            f"{self.gap:.3g} apart where a step and a block differ by up to {self.noise:.3g}: {verdict}"
        )


def first_divergence(
    target_model: Any,
    input_ids: Any,
    new_tokens: Sequence[int],
    plain_new_tokens: Sequence[int],
    *,
    gamma: int = 4,
) -> Divergence | None:
    """The first place where `new_tokens` leaves plain decoding, or None where the two are equal.

    Runs the target only where there is a difference. In half precision a round's block and single steps round
    differently, so near ties fall either way (SafeAILab/EAGLE 212); in float32 any difference beyond a near tie
    is a fault. Taught in notebook 08.

    Args:
        target_model: as in `speculative_decode`.
        input_ids: the prompt.
        new_tokens, plain_new_tokens: what the two decodings added to it.
        gamma: of the run: the noise is that of blocks of γ + 1 tokens.

    Raises:
        ValueError, TypeError: bad `input_ids` or `gamma`, or a model that cannot be decoded.

    Example:
        >>> first_divergence(pair.target, ids, ours, plain) is None  # doctest: +SKIP
        True
    """
    prompt, block = check_input_ids(input_ids), check_count(gamma, "gamma") + 1
    index = first_difference(new_tokens, plain_new_tokens)
    if index is None:
        return None
    if index >= min(len(new_tokens), len(plain_new_tokens)):
        return one_ends(
            index,
            new_tokens[index] if index < len(new_tokens) else None,
            plain_new_tokens[index] if index < len(plain_new_tokens) else None,
        )
    plain = list(plain_new_tokens)
    found = evaluate(target_model, prompt, plain, block)
    return judge(found, index, new_tokens[index], plain[index], found)


def one_ends(index: int, token: int | None, plain_token: int | None) -> Divergence:
    """A difference of length: never a tie."""
    return Divergence(index, token, plain_token, float("nan"), float("nan"), near_tie=False)


def judge(
    found: Evaluation,
    index: int,
    token: int,
    plain_token: int,
    plain: Evaluation,
    gap_float64: float = float("nan"),
) -> Divergence:
    """What to think of `token` in place of `plain_token`, given the logits of a text in which either stands there, and
    those of plain decoding's own text, which tell the noise.

    A token that the model does not have is a fault; no gap can be given.
    """
    step, noise = found.steps[index], plain.noise
    if not 0 <= token < len(step):
        return Divergence(index, token, plain_token, float("nan"), noise, near_tie=False)
    gap = gap_between(step, plain_token, token)
    return Divergence(
        index,
        token,
        plain_token,
        gap,
        noise,
        near_tie=is_near_tie(gap, noise, largest(step), plain.eps, plain.noisy_logit),
        gap_block=gap_between(found.blocks[index], plain_token, token),
        gap_float64=gap_float64,
    )


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first place where two sequences differ, the end of the shorter one included; None if equal.

    >>> first_difference([1, 2, 3], [1, 2]), first_difference([1, 2], [1, 2])
    (2, None)
    """
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))


def in_float64(model: Any) -> Any | None:
    """A copy of a model with weights and arithmetic in float64, or None for one without weights or on a device
    without float64. transformers' norms go through float32 all the same."""
    import torch

    modules = torch_modules(as_model(model))
    if not modules or finest(model_device(as_model(model))) != torch.float64:
        return None
    twin = copy.deepcopy(model)
    for module in torch_modules(as_model(twin))[:1]:
        module.double()
    return twin
