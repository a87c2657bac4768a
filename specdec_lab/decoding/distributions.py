"""Distributions as plain functions: from logits to probabilities, the filters, the residual, the overlap.

Every function takes tensors whose last dimension is the vocabulary and returns a new tensor of at least float32
(float64 stays float64). Nothing is drawn here, nothing is changed in place, and nothing knows who p and q are.
"""

from __future__ import annotations

from typing import Any

import torch

GREEDY_BELOW = 1e-5  # a temperature below this is greedy decoding, exactly
HOTTEST = 1e30
_ENOUGH = 1024  # so many of the largest probabilities nearly always hold a nucleus; sorting them all is slow


def distribution(
    logits: torch.Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> torch.Tensor:
    """What is sampled from: temperature first, then top-k, then top-p, each renormalised. Taught in notebook 07.

    The order is that of transformers. A temperature below 1e-5 puts everything on the argmax, whatever the
    filters. A row that holds NaN or +inf, or nothing but -inf, comes out as NaN throughout.

    Args:
        logits: (..., vocab).
        temperature, top_k, top_p: as in `Sampling`, which checks them; None is no filter.

    Returns:
        (..., vocab), every row summing to 1.

    >>> distribution(torch.tensor([2.0, 1.0, 0.0]), temperature=0.5, top_k=2).round(decimals=3).tolist()
    [0.8809999823570251, 0.11900000274181366, 0.0]
    """
    probabilities = softmax(logits, temperature)
    if top_k is not None:
        probabilities = keep_top_k(probabilities, top_k)
    if top_p is not None:
        probabilities = keep_top_p(probabilities, top_p)
    return probabilities


def softmax(logits: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Probabilities of `logits` ÷ `temperature`; a one-hot at the first argmax below 1e-5.

    The largest logit is taken off before the division, so that no temperature overflows (turboderp/exllama 226).
    """
    logits = _wide(logits)
    if temperature < GREEDY_BELOW:
        where = logits.argmax(dim=-1, keepdim=True)
        largest = logits.gather(-1, where)
        # NaN and +inf in the largest logit stay visible: inf - inf is NaN
        return torch.zeros_like(logits).scatter_(-1, where, 1.0) + (largest - largest)
    if temperature != 1:
        # beyond HOTTEST float32 has no larger number to divide by, and -inf ÷ inf is NaN
        logits = (logits - logits.amax(dim=-1, keepdim=True)) / min(temperature, HOTTEST)
    return torch.softmax(logits, dim=-1)


def keep_top_k(probabilities: torch.Tensor, top_k: int) -> torch.Tensor:
    """The `top_k` largest probabilities, renormalised. Among equal ones the lower ids stay, so that never more than
    `top_k` do; 0 or more than the vocabulary keeps all.

    >>> keep_top_k(torch.tensor([0.25, 0.5, 0.25]), 2).round(decimals=2).tolist()
    [0.33000001311302185, 0.6700000166893005, 0.0]
    """
    probabilities = _wide(probabilities)
    if not 0 < top_k < probabilities.shape[-1]:
        return probabilities.clone()
    smallest = probabilities.topk(top_k, dim=-1).values[..., -1:]
    return _keep_largest(probabilities, smallest, top_k)


def keep_top_p(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """The nucleus: the fewest largest probabilities that sum to `top_p` or more, renormalised.

    The token that crosses the threshold is in it, so at least one always stays; 1 keeps all, 0 keeps the argmax.
    Among equal ones the lower ids stay (fishaudio/fish-speech PR 1171, thu-nics/C2C PR 21).

    >>> p = torch.tensor([0.5, 0.25, 0.125, 0.125])
    >>> [int(keep_top_p(p, top_p).count_nonzero()) for top_p in (0.0, 0.5, 0.6, 0.75, 0.8, 1.0)]
    [1, 1, 2, 2, 3, 4]
    """
    probabilities = _wide(probabilities)
    if top_p >= 1:
        return probabilities.clone()
    size = min(_ENOUGH, probabilities.shape[-1])
    ordered = probabilities.topk(size, dim=-1).values
    reached = _sums(ordered)
    if size < probabilities.shape[-1] and not bool((reached[..., -1] >= top_p).all()):
        ordered = probabilities.sort(dim=-1, descending=True).values
        reached = _sums(ordered)
    # a token stays if those before it do not reach the threshold by themselves
    count = 1 + (reached[..., :-1] < top_p).sum(dim=-1, keepdim=True)
    return _keep_largest(probabilities, ordered.gather(-1, count - 1), count)


def residual_distribution(p: Any, q: Any) -> torch.Tensor:
    """What a rejected draft is replaced from: the positive part of p - q, normalised. Taught in notebook 07.

    Where nothing is positive (q = p, or above it everywhere by rounding) a rejection has probability 0, and p
    itself is returned: finite and summing to 1 in every case (sgl-project/sglang 27618).

    Args:
        p, q: the target's and the draft's distribution, (..., vocab), tensors or lists. Where the vocabularies
            differ, q is taken to be 0 on ids that it lacks, and ids that p lacks do not count.

    Returns:
        (..., vocab of p). An id of probability 0 under p has probability 0 here.

    Raises:
        ValueError: not finite, negative, or not summing to 1; shapes that do not go together.

    Source: Leviathan et al. 2023, section 2.3; Chen et al. 2023, theorem 1.

    >>> residual_distribution([0.1, 0.6, 0.3], [0.6, 0.3, 0.1]).round(decimals=4).tolist()
    [0.0, 0.6000000238418579, 0.4000000059604645]
    """
    p, q = _checked(p, "p"), _checked(q, "q")
    if p.shape[:-1] != q.shape[:-1]:
        raise ValueError(
            f"p and q must have the same shape but for the vocabulary, got {tuple(p.shape)} and {tuple(q.shape)}"
        )
    return residual(p, fit(q, p))


def residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """`residual_distribution` without its checks, for tensors of one shape, dtype and device."""
    positive = (p - q).clamp_(min=0)
    total = positive.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, positive / total, p)


def overlap(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Σ min(p, q), (...): the chance that a token drawn from q is accepted, and 1 minus the total variation distance.

    >>> round(float(overlap(torch.tensor([0.1, 0.6, 0.3]), torch.tensor([0.6, 0.3, 0.1]))), 4)
    0.5
    """
    return torch.minimum(p, fit(q, p)).sum(dim=-1)


def fit(q: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """q over the ids of p, with its dtype and device: 0 where q has no such id, nothing where p has none."""
    q = q.to(device=p.device, dtype=p.dtype)
    missing = p.shape[-1] - q.shape[-1]
    return q if missing == 0 else torch.nn.functional.pad(q, (0, missing))


def _keep_largest(
    probabilities: torch.Tensor, smallest: torch.Tensor, count: int | torch.Tensor
) -> torch.Tensor:
    """Keep what is above `smallest` (..., 1) and, in the order of ids, as many equal to it as make `count`."""
    above, equal = probabilities > smallest, probabilities == smallest
    room = count - above.sum(dim=-1, keepdim=True)
    kept = torch.where(above | (equal & (equal.cumsum(dim=-1) <= room)), probabilities, 0)
    return kept / kept.sum(dim=-1, keepdim=True)


def finest(device: torch.device) -> torch.dtype:
    """float64 where the device has it (pytorch/pytorch 122602), for running sums and uniform numbers: 24 bits
    cannot tell rare tokens apart."""
    return torch.float32 if device.type == "mps" else torch.float64


def _sums(ordered: torch.Tensor) -> torch.Tensor:
    return ordered.cumsum(dim=-1, dtype=finest(ordered.device))


def _wide(values: torch.Tensor) -> torch.Tensor:
    return values if values.dtype == torch.float64 else values.float()


def _checked(values: Any, argument: str) -> torch.Tensor:
    tensor = _wide(torch.as_tensor(values))
    if tensor.dim() == 0:
        raise ValueError(f"{argument} must have the vocabulary as its last dimension, got a single number")
    if not bool(torch.isfinite(tensor).all()) or bool((tensor < 0).any()):
        raise ValueError(
            f"{argument} must hold finite probabilities of 0 or more, got {tensor.tolist()!r:.80}"
        )
    sums = tensor.sum(dim=-1)
    if bool(((sums - 1).abs() > 1e-2).any()):
        worst = sums.flatten()[(sums.flatten() - 1).abs().argmax()].item()
        raise ValueError(f"{argument} must sum to 1 over the vocabulary, got {worst:.4g}")
    return tensor
