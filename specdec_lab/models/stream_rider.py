"""How streams ride on the target's pass: hooks around its top layers, and which rows get streams.

The rider reads the main stream's hidden state, keys and values, and leaves nothing behind but what it carries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from .streams import FoldedMaps, Streams


class StreamRider:
    """Takes streams along on the target's pass: one set behind each row of logits.

    After a pass, `.carried` holds the streams behind the last layer, (1, rows, γ, hidden); a row whose streams were
    pruned holds NaN.

    Args:
        streams: a `Streams`.
        count: how many of its streams, the first ones: a stream never reads a later one, so fewer streams are
            exactly the first of more. None for all.
        keep: at most so many drafted nodes get streams, those that the early exit finds likeliest; the row before
            the drafts always does. None for all.
        folded: `streams.fold(target)`: the same, faster, while the weights stay as they are.

    Attributes:
        rows: stream rows so far.
        below: after a pass, what the first of the top layers was given, (1, rows, hidden).
    """

    def __init__(
        self,
        streams: Streams,
        *,
        count: int | None = None,
        keep: int | None = None,
        folded: list[FoldedMaps] | None = None,
    ) -> None:
        self.streams, self.keep = streams, keep
        self.folded = [None] * len(streams.layers) if folded is None else folded
        self.count = len(streams) if count is None else count
        if not 1 <= self.count <= len(streams):
            raise ValueError(f"count must be between 1 and the {len(streams)} streams, got {count}")
        if keep is not None and keep < 0:
            raise ValueError(f"keep must be 0 or more, or None, got {keep}")
        self.rows = 0
        self.below: torch.Tensor | None = None

    @contextmanager
    def riding(
        self,
        model: PreTrainedModel,
        rows: int | None,
        past_key_values: Any,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        input_ids: torch.Tensor,
    ) -> Iterator[list[torch.Tensor]]:
        if past_key_values is None:
            raise ValueError(
                "past_key_values must be a cache: streams read the main stream's keys and values"
            )
        self.streams.check_fits(model)
        decoder, networks = model.get_decoder(), self.streams.layers
        layers = list(decoder.layers)[len(decoder.layers) - len(networks) :]
        first, new = past_key_values.get_seq_length(), input_ids.shape[1]
        rows = new if rows is None else min(rows, new)
        length = first + new
        if attention_mask is None:
            at = torch.arange(length - rows, length, device=input_ids.device)
            visible = torch.arange(length, device=input_ids.device) <= at[:, None]
        else:
            visible = attention_mask[0, 0, -rows:]
        if position_ids is None:
            position_ids = torch.arange(first, length, device=input_ids.device)[None]
        positions = position_ids[:, -rows:]
        held: dict[str, Any] = {}
        carried: list[torch.Tensor] = []

        def enter(module: nn.Module, args: tuple, kwargs: dict) -> None:
            self.below = hidden = (args[0] if args else kwargs["hidden_states"])[:, -rows:]
            kept = self._kept(model, hidden, input_ids[:, -rows:], visible)
            held["kept"], held["visible"] = kept, visible[kept]
            held["streams"] = self.streams.begin(hidden[:, kept], self.count)
            ahead = torch.arange(1, self.count + 1, device=positions.device)
            places = positions[:, kept, None] + ahead
            cosine, sine = decoder.rotary_emb(hidden, position_ids=places.flatten(1))
            held["turn"] = tuple(part.unflatten(1, places.shape[1:]) for part in (cosine, sine))

        def along(place: int) -> Any:
            def pass_on(module: nn.Module, args: tuple, output: Any) -> None:
                cache = past_key_values.layers[module.self_attn.layer_idx]
                visible, window = held["visible"], window_of(module) if attention_mask is None else None
                if window is not None:
                    near = torch.arange(length, device=at.device) > at[held["kept"], None] - window
                    visible = visible & near
                held["streams"] = networks[place](
                    module,
                    held["streams"],
                    cache.keys,
                    cache.values,
                    visible,
                    held["turn"],
                    self.folded[place],
                )

            return pass_on

        with ExitStack() as hooks:
            hooks.callback(layers[0].register_forward_pre_hook(enter, with_kwargs=True).remove)
            for place, layer in enumerate(layers):
                hooks.callback(layer.register_forward_hook(along(place)).remove)
            yield carried
        streams = held["streams"]
        self.rows += streams.shape[0] * streams.shape[1] * streams.shape[2]
        if len(held["kept"]) < rows:
            everything = streams.new_full((streams.shape[0], rows, *streams.shape[2:]), float("nan"))
            everything[:, held["kept"]] = streams
            streams = everything
        carried.append(streams)

    def _kept(
        self, model: PreTrainedModel, hidden: torch.Tensor, ids: torch.Tensor, visible: torch.Tensor
    ) -> torch.Tensor:
        """Which rows get streams, in order: the first, and the drafted ones that the early exit finds likeliest."""
        rows = hidden.shape[1]
        if self.keep is None or rows - 1 <= self.keep:
            return torch.arange(rows, device=hidden.device)
        seen = visible[:, -rows:].clone()  # among the rows themselves: ancestors and itself
        path = seen.clone()
        path[:, 0] = False  # the row before the drafts has been chosen already
        seen.fill_diagonal_(False)
        # parents stand before their children, so the last one seen is the parent
        parents = (seen * torch.arange(rows, device=seen.device)).amax(-1)
        says = self.streams.early(model, hidden[0]).float().log_softmax(-1)
        step = says[parents, ids[0]]
        likely = (path * step).sum(-1)
        best = likely[1:].topk(self.keep).indices + 1
        return torch.cat([best.new_zeros(1), best.sort().values])


def window_of(layer: nn.Module) -> int | None:
    """How far back a layer looks, or None. Qwen2 says it layer by layer, Mistral for all."""
    attention = layer.self_attn
    if hasattr(attention, "sliding_window"):
        return attention.sliding_window
    return getattr(attention.config, "sliding_window", None)
