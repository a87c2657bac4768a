"""Medusa heads as a drafter: a whole tree from one hidden state of the target, no draft model, no second cache."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from specdec_lab.models.rider import HeadInput

from .crossing import CrossingDrafter


class MedusaDrafter(CrossingDrafter):
    """Crosses the heads' likeliest tokens into a tree of fixed shape. Taught in notebook 09.

    Args:
        heads: a module (hidden) → (heads, vocab), `MedusaHeads`, on the target's device. Where it states a `hidden_size`
            and a `vocab_size`, they are compared with the target's before the first pass.
        tree: a `TreeShape`, branching factors such as (4, 2, 1), or paths of ranks; no deeper than there are heads.

    Raises:
        ValueError, TypeError: no such tree; later, as a run begins, heads of another target.

    Source: Cai et al. 2024 (arXiv 2401.10774), section 2.

    Example:
        >>> drafter = MedusaDrafter(load_medusa("tiny"), (4, 2, 1))  # doctest: +SKIP
        >>> tokens, rate = tree_decode(pair.target, drafter, ids, 64, None, None)  # doctest: +SKIP
    """

    guess_name = "heads"

    def __init__(self, heads: Any, tree: Any) -> None:
        self._heads, self.guess_count = heads, len(heads)
        self.rider = _InputOf(heads)
        super().__init__(tree)

    def guesses(self, carried: torch.Tensor) -> torch.Tensor:
        return self._heads(carried)


class _InputOf(HeadInput):
    """What the target's head is given, once it is clear that the Medusa heads can read it."""

    def __init__(self, heads: Any) -> None:
        self._heads = heads

    def riding(
        self, model: Any, rows: int | None, *others: Any
    ) -> AbstractContextManager[list[torch.Tensor]]:
        head = model.get_output_embeddings()
        for mine, its, words in (
            ("hidden_size", "in_features", "hidden size"),
            ("vocab_size", "out_features", "vocabulary"),
        ):
            made_for, found = getattr(self._heads, mine, None), getattr(head, its, None)
            if None not in (made_for, found) and made_for != found:
                raise ValueError(
                    f"heads must be made for this target: they are for a {words} of {made_for}, its head has {found}"
                )
        return super().riding(model, rows, *others)
