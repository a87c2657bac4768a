"""Trees from guesses that do not depend on one another: what Medusa's heads and Speculative Streaming's streams give.

Guess k says what stands k places further on, whatever stands before it. The tree is what makes up for that: it
crosses the likeliest guesses.
"""

from __future__ import annotations

from typing import Any

import torch

from .chance import Chance
from .drafters import Proposal
from .token_tree import as_shape


class CrossingDrafter:
    """A tree of fixed shape: a node of depth d and rank r holds the r-th likeliest token of guess d.

    The first round of a run drafts nothing: the target has not read the prompt yet. Guesses are point masses, so
    greedy verification and sampling are exact. Subclasses say what rides on the target's pass (`rider`) and how its
    row becomes guesses.
    """

    rider: Any
    guess_count: int
    guess_name = "guesses"

    def __init__(self, tree: Any) -> None:
        self._carried: torch.Tensor | None = None
        self.use_tree(tree)

    def guesses(self, carried: torch.Tensor) -> torch.Tensor:
        """What the rider brought for the last confirmed token that the target has read → logits (levels, vocab)."""
        raise NotImplementedError

    def use_tree(self, tree: Any) -> None:
        """Draft this shape from now on."""
        shape = as_shape(tree)
        if shape.depth > self.guess_count:
            raise ValueError(
                f"tree has {shape.depth} levels, and there are {self.guess_count} {self.guess_name}"
            )
        self._shape = shape

    @property
    def depth(self) -> int:
        """Levels of the tree."""
        return self._shape.depth

    def start(self, prompt: list[int]) -> None:
        """Begin a run: nothing is known of the target yet."""
        self._carried = None

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """A tree of at most `limit` levels; nothing in the first round."""
        shape = self._shape.cut(limit)
        if self._carried is None or not len(shape):
            return Proposal()
        widest = max(shape.ranks) + 1
        with torch.inference_mode():
            guesses = self.guesses(self._carried)
            best = guesses.topk(min(widest, guesses.shape[-1]), dim=-1).indices.tolist()
        tokens = tuple(best[depth - 1][rank] for depth, rank in zip(shape.depths, shape.ranks, strict=True))
        return Proposal(tokens, shape.parents)

    def commit(self, sequence: list[int], carried: Any = None) -> None:
        """Keep what rode on the target's pass, at the last token that it has read."""
        self._carried = None if carried is None else carried[-1]
