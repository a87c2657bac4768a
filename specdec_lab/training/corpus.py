"""Tiny Shakespeare: read, verified by hash, split by groups of speeches, cut into batches.

It does not download: the corpus is not committed, and the command says where users get it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from .recipe import CORPUS_SHA256, CORPUS_URL, END_TOKEN, Recipe


def read_corpus(path: str | Path) -> str:
    """The text of the corpus file; `ValueError` if it is not the file that the recipe was made for."""
    data = Path(path).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != CORPUS_SHA256:
        raise ValueError(
            f"corpus {path} has sha256 {digest}, expected {CORPUS_SHA256}; get it from {CORPUS_URL}"
        )
    return data.decode("utf-8")


def split_corpus(text: str, recipe: Recipe) -> tuple[list[str], list[str]]:
    """Training groups and held-out groups: every `held_out_every`-th group of 40 speeches is held out."""
    speeches = text.strip().split("\n\n")
    size = recipe.speeches_per_group
    groups = ["\n\n".join(speeches[i : i + size]) + "\n\n" for i in range(0, len(speeches), size)]
    every = recipe.held_out_every
    held_out = groups[every - 1 :: every]
    training = [group for i, group in enumerate(groups) if i % every != every - 1]
    return training, held_out


def encode_groups(tokenizer, groups: list[str]) -> torch.Tensor:
    """All groups as one 1-D tensor of ids, an end token behind each group."""
    end = tokenizer.convert_tokens_to_ids(END_TOKEN)
    ids: list[int] = []
    for group in groups:
        ids += [*tokenizer.encode(group, add_special_tokens=False), end]
    return torch.tensor(ids)


def window_shape(step: int, tokens_per_step: int) -> tuple[int, int]:
    """(batch, length) of a step: mostly 256-token windows, some long, so that far positions mean something."""
    length = 256
    if step % 8 == 7:
        length = 1024
    if step % 32 == 23:
        length = 2048
    if step % 128 == 87:
        length = 4096
    return max(1, tokens_per_step // length), length


def random_windows(ids: torch.Tensor, batch: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """`batch` random windows of `length + 1` ids, shape (batch, length + 1)."""
    starts = torch.randint(0, len(ids) - length, (batch,), generator=generator)
    return torch.stack([ids[s : s + length + 1] for s in starts.tolist()])
