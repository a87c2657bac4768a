"""A model's first layers with its own head on top: an early exit, which shares the model's weights and its cache.

Nothing is copied: the exit is the same modules, fewer of them, and reads and writes the same rows of the cache.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from .cache import SlabCache


def exit_after(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """The first `layers` layers of `model`, then its own norm and head, as a model that shares every weight.

    Raises:
        TypeError: not a transformers model.
        ValueError: a family whose layers cannot be found, or not 1 ≤ layers < its number.

    Example:
        >>> shallow = exit_after(pair.target, 4)  # doctest: +SKIP
    """
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"model must be a transformers model, got {type(model).__name__}")
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    decoder = model.get_decoder()
    stacks = [
        name
        for name, part in decoder.named_children()
        if isinstance(part, nn.ModuleList) and len(part) == count
    ]
    if len(stacks) != 1:
        raise ValueError(f"model must have one list of layers, {type(decoder).__name__} has {len(stacks)}")
    if isinstance(layers, bool) or not isinstance(layers, int) or not 1 <= layers < count:
        raise ValueError(
            f"layers must be a whole number between 1 and {count - 1}, one less than the model has, got {layers!r}"
        )
    shallow_decoder = _sharing(
        decoder, **{stacks[0]: nn.ModuleList(list(getattr(decoder, stacks[0]))[:layers])}
    )
    shallow_decoder.config = copy.deepcopy(decoder.config)
    shallow_decoder.config.num_hidden_layers = layers
    place = next(name for name, part in model.named_children() if part is decoder)
    return _sharing(model, **{place: shallow_decoder})


def _sharing(module: nn.Module, **replaced: nn.Module) -> Any:
    """The same module with some of its children replaced; the given one is left alone."""
    twin = copy.copy(module)
    twin.__dict__ = dict(module.__dict__)
    twin._modules = dict(module._modules) | replaced
    return twin


class CacheLender:
    """Rides on the whole model's passes and remembers its cache, so that an exit can read and write in it."""

    def __init__(self) -> None:
        self.cache: SlabCache | None = None

    @contextmanager
    def riding(self, model: Any, rows: int | None, past_key_values: Any, *_: Any) -> Iterator[list]:
        self.cache = past_key_values
        yield []

    def first(self, layers: int) -> SlabCache:
        """The first layers of that cache as a cache: the same rows, nothing copied."""
        view = SlabCache()
        view.layers = self.cache.layers[:layers]
        return view
