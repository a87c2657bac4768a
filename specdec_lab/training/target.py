"""The tokenizer and the target: next-token training on the corpus."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from .corpus import random_windows, window_shape
from .fit import fit
from .recipe import END_TOKEN, Recipe, Schedule


def train_tokenizer(groups: list[str], recipe: Recipe) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of `recipe.vocabulary` ids; id 0 is the end token. It can encode any text."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=[END_TOKEN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(groups, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=END_TOKEN,
        eos_token=END_TOKEN,
        model_max_length=recipe.context,
        clean_up_tokenization_spaces=False,
    )


@torch.inference_mode()
def held_out_loss(model, ids: torch.Tensor, length: int = 256) -> float:
    """Mean next-token loss in nats over consecutive windows of held-out ids."""
    windows = ids[: len(ids) // (length + 1) * (length + 1)].view(-1, length + 1)
    logits = model(windows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).item()


def train_on_corpus(
    model,
    schedule: Schedule,
    recipe: Recipe,
    seed_offset: int,
    training: torch.Tensor,
    held_out: torch.Tensor,
    checkpoint: Path,
):
    """Plain next-token training, in place; used for the target and for the draft that is meant to disappoint."""

    def loss_of_step(step: int):
        generator = torch.Generator().manual_seed(recipe.seed * 1000 + seed_offset * 100_000 + step)
        batch, length = window_shape(step, schedule.tokens_per_step)
        windows = random_windows(training, batch, length, generator)
        logits = model(windows[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), windows[:, 1:].flatten()), {}

    fit(model, schedule, loss_of_step, checkpoint, lambda: {"loss": round(held_out_loss(model, held_out), 4)})
    return model
