"""Medusa heads: small networks on the target's last hidden state, one for each token further ahead.

They read what the target's own head reads and guess what comes *after* the token that this head chooses. How they are
trained is in `training/medusa.py`, how their guesses become a tree in `decoding/medusa.py`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from . import saved


class MedusaHead(nn.Module):
    """A residual block, then a projection on the vocabulary: (..., hidden) → (..., vocab)."""

    def __init__(self, hidden_size: int, vocab_size: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(hidden_size, inner)
        self.down = nn.Linear(inner, hidden_size)
        self.projection = nn.Linear(hidden_size, vocab_size, bias=False)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.projection(hidden + self.down(nn.functional.silu(self.up(hidden))))


class MedusaHeads(nn.Module):
    """`heads` of them: head k (from 1) guesses the token k places behind the target's own next one.

    Args:
        hidden_size, vocab_size: of the target.
        heads: how many tokens further ahead.
        inner: width inside the residual block; the hidden size unless given.

    Source: Medusa-1, Cai et al. 2024 (arXiv 2401.10774), section 2.1: the target stays frozen. The paper's block is
    one square map; ours goes through a width of its own, because beside so small a hidden state the square one
    learns less.

    Example:
        >>> heads = MedusaHeads(hidden_size=8, vocab_size=20, heads=3)
        >>> heads(torch.zeros(5, 8)).shape
        torch.Size([3, 5, 20])
    """

    def __init__(self, hidden_size: int, vocab_size: int, heads: int, inner: int | None = None) -> None:
        super().__init__()
        self.hidden_size, self.vocab_size, self.inner = hidden_size, vocab_size, inner or hidden_size
        self.heads = nn.ModuleList(MedusaHead(hidden_size, vocab_size, self.inner) for _ in range(heads))

    def __len__(self) -> int:
        return len(self.heads)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """(..., hidden) → (heads, ..., vocab)."""
        return torch.stack([head(hidden) for head in self.heads])

    def save(self, folder: str | Path) -> None:
        """Write weights in bfloat16 and their sizes; the folder is made."""
        sizes = {
            "hidden_size": self.hidden_size,
            "vocab_size": self.vocab_size,
            "heads": len(self),
            "inner": self.inner,
        }
        saved.save(self, sizes, folder)


def load_medusa(folder: str | Path = "tiny", *, dtype: torch.dtype | None = None) -> MedusaHeads:
    """The heads that `MedusaHeads.save` wrote into a folder, or the bundled ones (`training/medusa.py` makes them).

    Args:
        folder: where they are; "tiny" for the bundled ones, which belong to the target of `load_pair("tiny")`.
        dtype: of the loaded weights; float32 unless given.

    Raises:
        ValueError: no heads there.

    Taught in notebook 09.

    Example:
        >>> len(load_medusa("tiny"))
        4
    """
    return saved.load(MedusaHeads, folder, "medusa", dtype)
