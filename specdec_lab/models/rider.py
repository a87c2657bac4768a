"""What rides on a pass of the target: something that reads, or computes beside, the pass that verifies drafts.

A drafter that has no model of its own guesses from inside the target's pass: Medusa from what the head is given
(`HeadInput`), Speculative Streaming from streams of its own through the top layers (`stream_rider.py`). A rider changes
nothing in the pass that carries it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch


class Rider(Protocol):
    """Something that rides. `riding` surrounds one pass; what it collects is there when the pass is over."""

    def riding(
        self,
        model: Any,
        rows: int | None,
        past_key_values: Any,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        input_ids: torch.Tensor,
    ) -> Any:
        """A context around one pass of `model` (a transformers model) that yields a list. At its end the list holds
        one tensor, (1, rows, …): a row for each row of logits.

        Args:
            model: the transformers model that runs.
            rows: how many rows of logits are wanted, the last ones; None for all.
            past_key_values: the cache that the pass appends to, or None.
            attention_mask: (1, 1, n, cache + n) bool, True where a token may look; None is causal.
            position_ids: (1, n), or None where they count on.
            input_ids: (1, n).
        """


class HeadInput:
    """What the target's head is given, (1, rows, hidden size).

    Example:
        >>> out = adapter.forward(ids, rider=HeadInput())  # doctest: +SKIP
        >>> out.carried.shape  # doctest: +SKIP
        torch.Size([1, 7, 160])
    """

    @contextmanager
    def riding(self, model: Any, rows: int | None, *_: Any) -> Iterator[list[torch.Tensor]]:
        caught: list[torch.Tensor] = []
        hook = model.get_output_embeddings().register_forward_pre_hook(
            lambda module, inputs: caught.append(inputs[0])
        )
        try:
            yield caught
        finally:
            hook.remove()
