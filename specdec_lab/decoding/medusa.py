"""Medusa heads as a drafter: a whole tree from one hidden state of the target, no draft model, no second cache."""

from __future__ import annotations

from typing import Any

import torch

from specdec_lab.models.rider import HeadInput

from .crossing import CrossingDrafter


class MedusaDrafter(CrossingDrafter):
    """Crosses the heads' likeliest tokens into a tree of fixed shape. Taught in notebook 09.

    Args:
        heads: a module (hidden) → (heads, vocab), `MedusaHeads`, on the target's device.
        tree: a `TreeShape`, branching factors such as (4, 2, 1), or paths of ranks; no deeper than there are heads.

    Raises:
        ValueError, TypeError: no such tree.

    Source: Cai et al. 2024 (arXiv 2401.10774), section 2.

    Example:
        >>> drafter = MedusaDrafter(load_medusa("tiny"), (4, 2, 1))  # doctest: +SKIP
        >>> tokens, rate = tree_decode(pair.target, drafter, ids, 64, (4, 2, 1), None)  # doctest: +SKIP
    """

    rider = HeadInput()
    guess_name = "heads"

    def __init__(self, heads: Any, tree: Any) -> None:
        self._heads, self.guess_count = heads, len(heads)
        super().__init__(tree)

    def guesses(self, carried: torch.Tensor) -> torch.Tensor:
        return self._heads(carried)
