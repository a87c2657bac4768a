"""The draft learns to guess the target: KL to the target's likely tokens plus cross-entropy to its argmax."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F

from .fit import build, fit
from .recipe import Recipe, Schedule, Shape
from .selftext import SelfText


def agreement(model, text: SelfText, rows: int = 200) -> float:
    """Share of positions where the model's argmax is the target's, on the first `rows` stretches."""
    ids = text.ids[:rows].long()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        guess = model(ids[:, :-1], use_cache=False).logits[:, text.first - 1 :].argmax(-1)
    return (guess == text.top_ids[:rows, :, 0]).float().mean().item()


def distill(
    shape: Shape,
    schedule: Schedule,
    recipe: Recipe,
    seed_offset: int,
    text: SelfText,
    held_out: SelfText,
    checkpoint: Path,
    start: torch.nn.Module | None = None,
):
    """Train a draft of this shape on the target's own text; logs agreement on held-out prompts.

    It begins with the weights of `start`, or fresh ones.
    """
    model = build(shape, recipe, seed_offset)
    if start is not None:
        model.load_state_dict(start.state_dict())
    rows_per_step = schedule.tokens_per_step // text.ids.shape[1]

    def loss_of_step(step: int):
        generator = torch.Generator().manual_seed(recipe.seed * 1000 + seed_offset * 100_000 + step)
        rows = torch.randint(0, len(text), (rows_per_step,), generator=generator)
        logits = model(text.ids[rows, :-1].long(), use_cache=False).logits[:, text.first - 1 :].float()
        log_q = logits.log_softmax(-1)
        top_ids, p = text.top_ids[rows].long(), text.top_probabilities[rows].float()
        p = p / p.sum(-1, keepdim=True)
        soft = -(p * log_q.gather(-1, top_ids)).sum(-1).mean()
        hard = F.nll_loss(log_q.flatten(0, 1), top_ids[..., 0].flatten())
        agree = (logits.argmax(-1) == top_ids[..., 0]).float().mean().item()
        return soft + 0.5 * hard, {"agreement": round(agree, 3)}

    fit(
        model, schedule, loss_of_step, checkpoint, lambda: {"agreement": round(agreement(model, held_out), 4)}
    )
    return model
