"""The target moves a little towards its draft: most of their disagreements are near ties for the target.

After next-token training the target often finds several tokens about equally good, and which of them is
on top no small model can guess. Here the target learns the geometric mean p^(1 - w) · q^w of itself and a
guide, a first draft distilled from it; a small weight w settles near ties the guide's way and leaves clear
choices alone. It does not touch the draft.

The whole way makes the text loop, so what ships lies `between` the weights before and those after, which behaves like
a target trained with a smaller w.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
import torch.nn.functional as F

from .corpus import random_windows, window_shape
from .fit import fit
from .recipe import Recipe
from .selftext import SelfText


@torch.no_grad()
def mixed(target, guide, ids: torch.Tensor, share: float) -> torch.Tensor:
    """log of the normalised p^(1 - share) · q^share at every position of `ids`, shape (batch, n, vocab)."""
    p = target(ids, use_cache=False).logits.float().log_softmax(-1)
    q = guide(ids, use_cache=False).logits.float().log_softmax(-1)
    return ((1 - share) * p + share * q).log_softmax(-1)


def move_towards(
    target,
    guide,
    recipe: Recipe,
    text: SelfText,
    corpus: torch.Tensor,
    held_out: SelfText,
    checkpoint: Path,
):
    """Train a copy of `target` towards its mean with `guide`, on its own text and, every fourth step, the corpus."""
    teacher, schedule = target.eval(), recipe.finish_schedule
    target = copy.deepcopy(target)
    rows_per_step = schedule.tokens_per_step // text.ids.shape[1]

    def loss_of_step(step: int):
        generator = torch.Generator().manual_seed(recipe.seed * 1000 + 300_000 + step)
        if step % 4 == 3:
            batch, length = window_shape(step // 4, schedule.tokens_per_step)
            ids = random_windows(corpus, batch, length, generator)[:, :-1]
        else:
            rows = torch.randint(0, len(text), (rows_per_step,), generator=generator)
            ids = text.ids[rows, :-1].long()
        wanted = mixed(teacher, guide, ids, recipe.draft_share).flatten(0, 1)
        logits = target(ids, use_cache=False).logits.float().flatten(0, 1)
        return F.kl_div(logits.log_softmax(-1), wanted, log_target=True, reduction="batchmean"), {}

    def evaluate() -> dict:
        ids = held_out.ids[:200, :-1].long()
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
            choice, guess = (
                m(ids, use_cache=False).logits[:, held_out.first - 1 :].argmax(-1) for m in (target, guide)
            )
            wanted = mixed(teacher, guide, ids, recipe.draft_share)[:, held_out.first - 1 :].argmax(-1)

        def share(a: torch.Tensor, b: torch.Tensor) -> float:
            return round((a == b).float().mean().item(), 4)

        return {"with the mean": share(choice, wanted), "with the guide": share(choice, guess)}

    fit(target, schedule, loss_of_step, checkpoint, evaluate)
    return target


def between(before: torch.nn.Module, after: torch.nn.Module, share: float) -> torch.nn.Module:
    """A model of the same shape whose weights lie `share` of the way from those of `before` to those of `after`."""
    model, end = copy.deepcopy(before), after.state_dict()
    model.load_state_dict(
        {name: torch.lerp(start, end[name], share) for name, start in before.state_dict().items()}
    )
    return model
