"""A model, its cache, and how much it has seen: feed what is new, get the rows needed, roll back.

It runs one pass at a time in eval mode under `inference_mode`, both entered per pass and left as found
(karpathy/nanoGPT PR 240). It does not decide what to feed or where to cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from specdec_lab.models.protocol import (
    Model,
    as_model,
    carries,
    keeps_logits,
    model_device,
    model_name,
    torch_modules,
)


class Session:
    """One decoding session of one model. Taught in notebooks 02 and 04.

    Attributes:
        carried: what the rider brought back from the last pass, one row for each row of logits, (rows, …); None
            without a rider.
        length: confirmed-or-speculative positions in the cache, as fed and cut by this session.
        passes, fed_tokens: how often the model ran, and over how many tokens in all.
    """

    def __init__(self, model: Any, argument: str = "model", *, rider: Any = None) -> None:
        self.model: Model = as_model(model, argument)
        self.length = 0
        self.passes = 0
        self.fed_tokens = 0
        self._cache = None
        self._device = model_device(self.model)
        self._keeps_logits = keeps_logits(self.model)
        self._modules = torch_modules(self.model)
        self._training: list | None = None  # None: look again before the next pass
        self._exposes_length = True
        self._rider = rider
        self.carried: torch.Tensor | None = None
        if rider is not None and not carries(self.model):
            raise ValueError(
                f"{argument} must let the drafter ride on its passes (rider, see `Model`); "
                f"{model_name(self.model)} does not"
            )
        self._tree: list[int] = []  # parents of the tree nodes at the end of the cache

    def continue_in(self, cache: Any, length: int) -> None:
        """Go on in a cache that is there already and holds `length` positions; None and 0 let it go."""
        self._cache, self.length = cache, length

    def feed(self, tokens: list[int], rows: int, parents: Sequence[int] = ()) -> torch.Tensor:
        """Run the model over `tokens`, which follow what it has seen; logits of the last `rows`, (rows, vocab).

        The last `len(parents)` tokens may be nodes of a tree that grows behind everything else, until the next
        roll-back: each sees the sequence, its ancestors and itself. Parents count the nodes fed since then, -1 is
        the sequence. A chain needs none of this.
        """
        ids = torch.tensor([tokens], dtype=torch.long, device=self._device)
        more: dict[str, Any] = {"logits_to_keep": rows} if self._keeps_logits else {}
        if parents:
            more |= self._tree_inputs(len(tokens), parents)
        if self._rider is not None:
            more["rider"] = self._rider
        if self._training is None:
            self._training = [module for module in self._modules if module.training]
        training = self._training
        try:
            for module in training:
                module.training = False
            with torch.inference_mode():
                output = self.model.forward(ids, use_cache=True, past_key_values=self._cache, **more)
                logits = output.logits[0, -rows:]
        finally:
            for module in training:
                module.training = True
        if output.logits.dim() != 3 or output.logits.shape[0] != 1 or len(logits) != rows:
            raise ValueError(
                f"{model_name(self.model)}.forward must return logits (1, {len(tokens)}, vocab) for {len(tokens)} "
                f"tokens, got shape {tuple(output.logits.shape)}"
            )
        self._cache = output.past_key_values
        if self._rider is not None:
            self.carried = None if output.carried is None else output.carried[0, -rows:]
        self.length += len(tokens)
        self.passes += 1
        self.fed_tokens += len(tokens)
        self._check_length("after a pass over new tokens")
        return logits

    def roll_back(self, valid_length: int) -> None:
        """Cut the cache to its first `valid_length` positions; nothing happens where it is not longer.

        Raises `RuntimeError`, naming the model, where the cache says that the cut did not take.
        """
        self._training = None  # a round is over, and between rounds the caller may call train() or eval()
        self._tree = []
        if valid_length >= self.length:
            return
        with torch.inference_mode():
            cut = self.model.truncate_cache(self._cache, valid_length)
        if cut is not None:
            self._cache = cut
        self.length = valid_length
        self._check_length("after truncate_cache")

    def keep(self, first: int, rows: Sequence[int]) -> None:
        """Keep positions 0…first-1 of the cache and then these later ones: an accepted path, out of a tree.

        Where the rows stand together at the front, this is a roll-back: a chain never selects.
        """
        rows = list(rows)
        if rows == list(range(first, first + len(rows))):
            self.roll_back(first + len(rows))
            return
        self._training, self._tree = None, []
        with torch.inference_mode():
            kept = self.model.select_cache(self._cache, first, rows)
        if kept is not None:
            self._cache = kept
        self.length = first + len(rows)
        self._check_length("after select_cache")

    def _tree_inputs(self, count: int, parents: Sequence[int]) -> dict[str, torch.Tensor]:
        """Mask (1, 1, n, cache + n), True where a token may look, and positions (1, n)."""
        held = len(self._tree)
        base = self.length - held if held else self.length + count - len(parents)
        self._tree += parents
        total = base + len(self._tree)
        mask = torch.ones(count, total, dtype=torch.bool).tril(total - count)
        positions = list(range(self.length, self.length + count))
        depths: list[int] = []
        rows: list[list[int]] = []
        for node, parent in enumerate(self._tree):
            depths.append(1 if parent < 0 else depths[parent] + 1)
            rows.append([node] if parent < 0 else [*rows[parent], node])
        for node in range(held, len(self._tree)):
            row = node - len(self._tree)  # counted from the end
            mask[row, base:] = False
            mask[row, [base + seen for seen in rows[node]]] = True
            positions[row] = base + depths[node] - 1
        return {
            "attention_mask": mask[None, None].to(self._device),
            "position_ids": torch.tensor([positions], dtype=torch.long, device=self._device),
        }

    def _check_length(self, when: str) -> None:
        if not self._exposes_length:
            return
        held = exposed_length(self._cache)
        if held == self.length:
            return
        if held is None:
            self._exposes_length = False
            return
        raise RuntimeError(
            f"the cache of {model_name(self.model)} holds {held} positions {when}, {self.length} were expected: "
            "it cannot be rolled back exactly, so this model cannot be decoded speculatively"
        )


def exposed_length(cache: Any) -> int | None:
    """How many positions a cache says that it holds, or None if it is opaque.

    Read from `get_seq_length()`, a `length` attribute, or the size of a list of token ids.
    """
    ask = getattr(cache, "get_seq_length", None)
    length = ask() if callable(ask) else getattr(cache, "length", None)
    if isinstance(length, int) and not isinstance(length, bool):
        return length
    if isinstance(cache, list) and (not cache or isinstance(cache[0], int)):
        return len(cache)
    return None
