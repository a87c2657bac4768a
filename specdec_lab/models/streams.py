"""Speculative Streaming's network: streams through the target's top layers that guess the tokens further ahead.

At every position γ streams start below the top layers, from the main stream's hidden state there. Each goes through
the same layers as the main stream, with small adapters of its own, and reads the main stream's keys and values; the
main stream reads nothing of them, so the target's logits are bit for bit what they are without. How the streams are
trained is in `training/streams.py`, how their guesses become a tree in `decoding/streams.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedModel

from . import saved

ATTENTION, MLP = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
FAMILIES = ("llama", "mistral", "qwen2")


class Adapter(nn.Module):
    """What a stream adds to one linear map of its layer: (…, in) → (…, out), of low rank, nothing before training."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.down(x))

    @property
    def weight(self) -> torch.Tensor:
        """The same as one matrix, (out, in)."""
        return self.up.weight @ self.down.weight


def linear_of(layer: nn.Module, name: str) -> nn.Linear:
    """One of a layer's linear maps, by name."""
    return getattr(layer.self_attn if name in ATTENTION else layer.mlp, name)


class FoldedMaps:
    """A layer's linear maps for streams with the adapters added into the weights, those that read the same input as
    one: a copy of the layer's weights buys few large products instead of many small ones."""

    def __init__(self, layer: nn.Module, adapters: nn.ModuleDict) -> None:
        self._groups: dict[tuple[str, ...], tuple[torch.Tensor, torch.Tensor | None, list[int]]] = {}
        for group in (ATTENTION[:3], ATTENTION[3:], MLP[:2], MLP[2:]):
            maps = [linear_of(layer, name) for name in group]
            weight = torch.cat(
                [x.weight + adapters[name].weight.to(x.weight) for name, x in zip(group, maps, strict=True)]
            )
            sizes, bias = [len(x.weight) for x in maps], None
            if any(x.bias is not None for x in maps):
                parts = [
                    weight.new_zeros(n) if x.bias is None else x.bias
                    for n, x in zip(sizes, maps, strict=True)
                ]
                bias = torch.cat(parts)
            self._groups[group] = (weight.detach(), None if bias is None else bias.detach(), sizes)

    def __call__(self, group: tuple[str, ...], x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        weight, bias, sizes = self._groups[group]
        return F.linear(x, weight, bias).split(sizes, dim=-1)


class StreamLayer(nn.Module):
    """One layer of the target as streams run it: its own weights, and an adapter beside each linear map."""

    def __init__(
        self, hidden_size: int, intermediate_size: int, heads: tuple[int, int, int], rank: int
    ) -> None:
        super().__init__()
        queries, keys, head_size = heads
        sizes = {
            "q_proj": (hidden_size, queries * head_size),
            "k_proj": (hidden_size, keys * head_size),
            "v_proj": (hidden_size, keys * head_size),
            "o_proj": (queries * head_size, hidden_size),
            "gate_proj": (hidden_size, intermediate_size),
            "up_proj": (hidden_size, intermediate_size),
            "down_proj": (intermediate_size, hidden_size),
        }
        self.adapters = nn.ModuleDict({name: Adapter(*sizes[name], rank) for name in (*ATTENTION, *MLP)})
        self.head_size = head_size

    def forward(
        self,
        layer: nn.Module,
        streams: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        visible: torch.Tensor,
        turn: tuple[torch.Tensor, torch.Tensor],
        maps: FoldedMaps | None = None,
    ) -> torch.Tensor:
        """Streams (batch, n, γ, hidden) through `layer` of the target.

        Args:
            layer: the target's layer, whose main stream has just passed.
            keys, values: the main stream's, (batch, heads, length, head size).
            visible: (n, length) bool, what the main stream sees at each of the n positions.
            turn: cosine and sine of the streams' positions, (batch, n, γ, head size) each.
            maps: `fold(layer)`, the same faster where the adapters stay as they are.
        """
        run = maps or (
            lambda group, x: tuple(linear_of(layer, name)(x) + self.adapters[name](x) for name in group)
        )
        scaling = layer.self_attn.scaling
        read = layer.input_layernorm(streams)
        query, key, value = (part.unflatten(-1, (-1, self.head_size)) for part in run(ATTENTION[:3], read))
        query, key = turned(query, *turn), turned(key, *turn)
        query = query.unflatten(-2, (key.shape[-2], -1))  # query heads in groups, one for each key head
        # a stream sees the main stream up to its position, and the streams of that position up to itself
        ahead = torch.einsum("bnskgd,bkld->bkgnsl", query, keys) * scaling
        ahead = ahead.masked_fill(~visible[:, None, :], float("-inf"))
        beside = torch.einsum("bnskgd,bntkd->bkgnst", query, key) * scaling
        lower = torch.ones(beside.shape[-2:], dtype=torch.bool, device=beside.device).tril()
        beside = beside.masked_fill(~lower, float("-inf"))
        weights = torch.cat([ahead, beside], dim=-1).softmax(-1, dtype=torch.float32).to(query.dtype)
        ahead, beside = weights.split([ahead.shape[-1], beside.shape[-1]], dim=-1)
        mixed = torch.einsum("bkgnsl,bkld->bnskgd", ahead, values) + torch.einsum(
            "bkgnst,bntkd->bnskgd", beside, value
        )
        streams = streams + run(ATTENTION[3:], mixed.flatten(-3))[0]
        gate, up = run(MLP[:2], layer.post_attention_layernorm(streams))
        return streams + run(MLP[2:], layer.mlp.act_fn(gate) * up)[0]

    def fold(self, layer: nn.Module) -> FoldedMaps:
        """This layer's maps with its adapters added into the weights."""
        with torch.no_grad():
            return FoldedMaps(layer, self.adapters)


def turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions, as the supported families have them: x (…, heads, size), cosine and sine (…, size)."""
    half = x.shape[-1] // 2
    swapped = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cosine.unsqueeze(-2) + swapped * sine.unsqueeze(-2)


class Streams(nn.Module):
    """γ streams through the top layers of a target.

    Args:
        hidden_size, intermediate_size, heads: of the target; heads are (query heads, key heads, size of one).
        streams: γ, how many tokens further ahead.
        layers: N_s, how many layers from the top they go through.
        rank: of the adapters.

    Source: Bhendawade et al. 2024 (arXiv 2402.11131), section 3.1. The target stays frozen and adapters serve the
    streams alone, so that its output cannot change: what the paper's later versions call the lossless setting (its
    first one fine-tunes the target too).

    Example:
        >>> streams = Streams.beside(target, streams=3, layers=4, rank=8)  # doctest: +SKIP
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        heads: tuple[int, int, int],
        streams: int,
        layers: int,
        rank: int,
    ) -> None:
        super().__init__()
        self.sizes = {
            "hidden_size": hidden_size,
            "intermediate_size": intermediate_size,
            "heads": list(heads),
            "streams": streams,
            "layers": layers,
            "rank": rank,
        }
        self.start = nn.Linear(hidden_size, hidden_size)
        self.embedding = nn.Parameter(torch.zeros(streams, hidden_size))
        self.exit = nn.Linear(hidden_size, hidden_size)
        for linear in (self.start, self.exit):  # begin as the hidden state itself
            nn.init.eye_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.layers = nn.ModuleList(
            StreamLayer(hidden_size, intermediate_size, tuple(heads), rank) for _ in range(layers)
        )

    @classmethod
    def beside(cls, target: PreTrainedModel, *, streams: int, layers: int, rank: int) -> Streams:
        """Untrained streams of the sizes of a target."""
        return cls(**sizes_beside(target, streams, layers, rank))

    def __len__(self) -> int:
        return len(self.embedding)

    def check_fits(self, target: PreTrainedModel) -> None:
        """`ValueError` unless these streams have the sizes and the dtype of the target."""
        needed = sizes_beside(target, len(self), self.sizes["layers"], self.sizes["rank"])
        if needed != self.sizes:
            raise ValueError(f"streams of sizes {self.sizes} do not fit a target that needs {needed}")
        if self.embedding.dtype != target.dtype:
            raise ValueError(
                f"streams must have the target's dtype {target.dtype}, got {self.embedding.dtype}; "
                "load_streams takes a dtype"
            )

    def fold(self, target: PreTrainedModel) -> list[FoldedMaps]:
        """The top layers' maps with the adapters added into the weights, for a `StreamRider`."""
        top = list(target.get_decoder().layers)[-len(self.layers) :]
        return [own.fold(layer) for own, layer in zip(self.layers, top, strict=True)]

    def begin(self, hidden: torch.Tensor, count: int) -> torch.Tensor:
        """The first `count` streams of every position: (batch, n, hidden) → (batch, n, count, hidden)."""
        return self.start(hidden).unsqueeze(-2) + self.embedding[:count]

    def early(self, target: PreTrainedModel, hidden: torch.Tensor) -> torch.Tensor:
        """The target's next token as guessed below the top layers, for pruning: (…, hidden) → logits (…, vocab)."""
        return self.guesses(target, self.exit(hidden))

    @staticmethod
    def guesses(target: PreTrainedModel, streams: torch.Tensor) -> torch.Tensor:
        """What streams that are through say: (…, γ, hidden) → logits (…, γ, vocab), by the target's own head."""
        return target.get_output_embeddings()(target.get_decoder().norm(streams))

    def save(self, folder: str | Path) -> None:
        """Write weights in bfloat16 and their sizes; the folder is made."""
        saved.save(self, self.sizes, folder)


def sizes_beside(target: Any, streams: int, layers: int, rank: int) -> dict[str, Any]:
    """What `Streams` for this target is made of."""
    check_family(target)
    config = target.config
    for name, value in (("streams", streams), ("layers", layers), ("rank", rank)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    if layers > config.num_hidden_layers:
        raise ValueError(
            f"layers must be between 1 and the target's {config.num_hidden_layers}, got {layers}"
        )
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return {
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "heads": [config.num_attention_heads, config.num_key_value_heads, size],
        "streams": streams,
        "layers": layers,
        "rank": rank,
    }


def check_family(target: Any) -> None:
    """`TypeError`, `ValueError` unless streams can run through the target's layers."""
    if not isinstance(target, PreTrainedModel):
        raise TypeError(f"target must be a transformers model, got {type(target).__name__}")
    if target.config.model_type not in FAMILIES:
        raise ValueError(
            f"target must be of a family whose layers streams know ({', '.join(FAMILIES)}), "
            f"got model type {target.config.model_type!r}"
        )
    rope = getattr(target.get_decoder().rotary_emb, "rope_type", "default")
    if rope in ("dynamic", "longrope"):
        raise ValueError(
            f"target must have rotary frequencies that do not depend on the length, got rope_type {rope!r}: streams, "
            "which stand further on, would change those of the target"
        )


def load_streams(folder: str | Path = "tiny", *, dtype: torch.dtype | None = None) -> Streams:
    """The streams that `Streams.save` wrote into a folder, or the bundled ones (`training/streams.py` makes them).

    Args:
        folder: where they are; "tiny" for the bundled ones, which belong to the target of `load_pair("tiny")`.
        dtype: of the loaded weights; float32 unless given.

    Raises:
        ValueError: no streams there.

    Taught in notebook 10.

    Example:
        >>> len(load_streams("tiny"))
        4
    """
    return saved.load(Streams, folder, "streams", dtype)
