"""Medusa heads as a drafter: a whole tree from one hidden state of the target, no draft model, no second cache.

The heads guess independently of one another: what the second head says does not depend on which token of the first
it follows. The tree is what makes up for that: it crosses the likeliest guesses.
"""

from __future__ import annotations

from typing import Any

import torch

from .chance import Chance
from .drafters import Proposal
from .token_tree import as_shape


class MedusaDrafter:
    """Crosses the heads' likeliest tokens into a tree of fixed shape. Taught in notebook 09.

    A node of depth d and rank r holds the r-th likeliest token of head d. The first round of a run drafts nothing:
    the target has not read the prompt yet. Guesses are point masses, so greedy verification and sampling are exact.

    Args:
        heads: a module (hidden) → (heads, vocab), `MedusaHeads`, on the target's device.
        tree: a `TreeShape`, branching factors such as (4, 2, 1), or paths of ranks; no deeper than there are heads.

    Raises:
        ValueError, TypeError: no such tree.

    Source: Cai et al. 2024 (arXiv 2401.10774), section 2.

    Example:
        >>> drafter = MedusaDrafter(load_medusa("heads"), (4, 2, 1))  # doctest: +SKIP
        >>> tokens, rate = tree_decode(pair.target, drafter, ids, 64, (4, 2, 1), None)  # doctest: +SKIP
    """

    wants_hidden = True

    def __init__(self, heads: Any, tree: Any) -> None:
        self._heads = heads
        self._hidden: torch.Tensor | None = None
        self.use_tree(tree)

    def use_tree(self, tree: Any) -> None:
        """Draft this shape from now on."""
        shape = as_shape(tree)
        if shape.depth > len(self._heads):
            raise ValueError(f"tree has {shape.depth} levels, and there are {len(self._heads)} heads")
        self._shape = shape

    @property
    def depth(self) -> int:
        """Levels of the tree."""
        return self._shape.depth

    def start(self, prompt: list[int]) -> None:
        """Begin a run: nothing is known of the target yet."""
        self._hidden = None

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """A tree of at most `limit` levels; nothing in the first round."""
        shape = self._shape.cut(limit)
        if self._hidden is None or not len(shape):
            return Proposal()
        widest = max(shape.ranks) + 1
        with torch.inference_mode():
            guesses = self._heads(self._hidden)  # (heads, vocab)
            best = guesses.topk(min(widest, guesses.shape[-1]), dim=-1).indices.tolist()
        tokens = tuple(best[depth - 1][rank] for depth, rank in zip(shape.depths, shape.ranks, strict=True))
        return Proposal(tokens, shape.parents)

    def commit(self, sequence: list[int], hidden: Any = None) -> None:
        """Keep what the target's head was given at the last token that it has read."""
        self._hidden = hidden
