"""Text that the target writes itself, with its opinions: what the draft learns from.

The draft is only ever asked to continue the target's own greedy text, and text that the target has
not memorised. So each stretch starts from a corpus window, walks away from it by a few *sampled*
tokens, and goes on greedily. The target's most likely tokens are kept with their probabilities, so
that the target need not run again while the draft trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from specdec_lab.models.transformers_adapter import TransformersAdapter

from .corpus import random_windows
from .recipe import Recipe

KEPT = 8  # most likely tokens kept per position


@dataclass(frozen=True)
class SelfText:
    """`ids` (windows, tokens); `top_ids` and `top_probabilities` (windows, predictions, 8).

    Prediction i is the target's for token `first + i` of its row, where `first` is the prompt's length.
    """

    ids: torch.Tensor
    top_ids: torch.Tensor
    top_probabilities: torch.Tensor
    first: int

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def joined(cls, parts: Sequence[SelfText]) -> SelfText:
        """All stretches of all parts."""
        return cls(
            torch.cat([p.ids for p in parts]),
            torch.cat([p.top_ids for p in parts]),
            torch.cat([p.top_probabilities for p in parts]),
            parts[0].first,
        )


@torch.inference_mode()
def continue_batch(
    target, prompts: torch.Tensor, sampled: int, total: int, generator: torch.Generator
) -> SelfText:
    """Continue every row of `prompts` (batch, n) up to `total` tokens: `sampled` drawn ones, then argmaxes."""
    adapter = TransformersAdapter(target)
    rows, step, cache = [prompts], prompts, None
    top_ids, top_probabilities = [], []
    for i in range(total - prompts.shape[1]):
        output = adapter.forward(step, past_key_values=cache, logits_to_keep=1)
        cache = output.past_key_values
        probabilities = output.logits[:, -1].softmax(-1)
        best = probabilities.topk(KEPT)
        top_ids.append(best.indices.to(torch.int16))
        top_probabilities.append(best.values.half())
        step = (
            torch.multinomial(probabilities, 1, generator=generator) if i < sampled else best.indices[:, :1]
        )
        rows.append(step)
    return SelfText(
        torch.cat(rows, dim=1).to(torch.int16),
        torch.stack(top_ids, dim=1),
        torch.stack(top_probabilities, dim=1),
        prompts.shape[1],
    )


def write_self_text(
    target,
    corpus: torch.Tensor,
    recipe: Recipe,
    folder: Path,
    seed: int,
    windows: int,
    workers: tuple[int, int] = (0, 1),
) -> SelfText:
    """`windows` stretches in batches of 500; finished batches are kept in `folder`, so it resumes.

    `workers` = (i, n) makes only every n-th batch, from the i-th on: several processes can share the work.
    """
    folder.mkdir(parents=True, exist_ok=True)
    batch, parts = min(500, windows), []
    for index in range(workers[0], windows // batch, workers[1]):
        file = folder / f"part{index:03d}.pt"
        if not file.exists():
            generator = torch.Generator().manual_seed(seed + index)
            prompts = random_windows(corpus, batch, recipe.window_tokens - 1, generator)
            sampled = recipe.sampled_tokens[index % len(recipe.sampled_tokens)]
            part = continue_batch(
                target, prompts, sampled, recipe.window_tokens + recipe.new_tokens, generator
            )
            torch.save((part.ids, part.top_ids, part.top_probabilities, part.first), file)
            print(f"self-generated text: batch {index + 1} of {windows // batch}", flush=True)
        parts.append(SelfText(*torch.load(file, weights_only=True)))
    return SelfText.joined(parts)


@torch.inference_mode()
def annotate_corpus(target, corpus: torch.Tensor, recipe: Recipe, seed: int, windows: int) -> SelfText:
    """`windows` random stretches of the corpus with the target's opinion of every token behind the 32nd."""
    generator = torch.Generator().manual_seed(seed)
    first, length = recipe.window_tokens, recipe.window_tokens + recipe.new_tokens
    parts = []
    for _ in range(windows // 50):
        ids = random_windows(corpus, 50, length - 1, generator)
        best = target(ids[:, :-1], use_cache=False).logits[:, first - 1 :].softmax(-1).topk(KEPT)
        parts.append(SelfText(ids.to(torch.int16), best.indices.to(torch.int16), best.values.half(), first))
    return SelfText.joined(parts)
