"""Speculative Streaming as a drafter: the pass that verifies a tree also drafts the next one."""

from __future__ import annotations

from typing import Any

import torch

from specdec_lab.models.stream_rider import StreamRider
from specdec_lab.models.streams import Streams
from specdec_lab.models.transformers_adapter import TransformersAdapter

from .chance import Chance
from .checks import check_count
from .crossing import CrossingDrafter
from .drafters import Proposal


class StreamDrafter(CrossingDrafter):
    """Crosses the likeliest tokens of the streams that rode on the target's last pass. Taught in notebook 10.

    Every row of the pass carries its streams, so whatever path is accepted, what comes next has been guessed. No
    draft model, no second cache; stream rows are never in the cache. The drafter holds a copy of the top layers'
    weights with the streams' adapters in them, as they are when it is made.

    Args:
        target: the transformers model that decodes; its head reads the streams.
        streams: `Streams` that fit it.
        tree: a `TreeShape`, branching factors such as (4, 2, 1), or paths of ranks; no deeper than there are streams.
        keep: prune: at most so many drafted nodes get streams, chosen by the early exit. Where the accepted path ends
            at another node, the next round drafts nothing. None prunes nothing.

    Attributes:
        stream_rows: rows that streams took in the top layers since the run began.

    Raises:
        ValueError, TypeError: streams that do not fit, no such tree.

    Source: Bhendawade et al. 2024 (arXiv 2402.11131), section 3.2.

    Example:
        >>> drafter = StreamDrafter(pair.target, load_streams("tiny"), (4, 2, 1))  # doctest: +SKIP
        >>> tokens, rate = tree_decode(pair.target, drafter, ids, 64, None, None)  # doctest: +SKIP
    """

    guess_name = "streams"

    def __init__(self, target: Any, streams: Streams, tree: Any, *, keep: int | None = None) -> None:
        self._target = target.model if isinstance(target, TransformersAdapter) else target
        if not isinstance(streams, Streams):
            raise TypeError(
                f"streams must be Streams, from load_streams or trained, got {type(streams).__name__}"
            )
        streams.check_fits(self._target)
        self._streams, self.guess_count = streams, len(streams)
        keep = None if keep is None else check_count(keep, "keep", least=0)
        self.rider = StreamRider(streams, keep=keep, folded=streams.fold(self._target))
        super().__init__(tree)

    def use_tree(self, tree: Any) -> None:
        """Draft this shape from now on, with as many streams as it has levels."""
        super().use_tree(tree)
        self.rider.count = self.depth

    @property
    def stream_rows(self) -> int:
        return self.rider.rows

    def start(self, prompt: list[int]) -> None:
        """Begin a run."""
        super().start(prompt)
        self.rider.rows = 0

    def guesses(self, carried: torch.Tensor) -> torch.Tensor:
        return self._streams.guesses(self._target, carried)

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """A tree of at most `limit` levels; nothing in the first round and behind a pruned node."""
        if self._carried is not None:
            if self._carried.isnan().any():
                return Proposal()
            # the last pass may have been made for a tree of fewer levels
            limit = min(limit, len(self._carried))
        return super().propose(sequence, limit, chance)
