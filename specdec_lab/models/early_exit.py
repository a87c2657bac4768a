"""A model's first layers with its own head on top: an early exit, which shares the model's weights and its cache.

Nothing is copied: the exit is the same modules, fewer of them, and reads and writes the same rows of the cache.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from .cache import SlabCache
from .taps import layers_of

# what hangs on a module itself and calls that very module: accelerate's hooks, a compiled call
_BOUND = ("forward", "_old_forward", "_hf_hook", "_compiled_call_impl")


def exit_after(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """The first `layers` layers of `model`, then its own norm and head, as a model that shares every weight.

    The given model stays as it is. One that accelerate has spread over devices is taken too.

    Raises:
        TypeError: not a transformers model.
        ValueError: a family whose layers cannot be found, not 1 ≤ layers < its number, or weights that are brought in
            from elsewhere for each pass over the whole model.

    Example:
        >>> shallow = exit_after(pair.target, 4)  # doctest: +SKIP
    """
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"model must be a transformers model, got {type(model).__name__}")
    decoder, stack, every = layers_of(model)
    count = len(every)
    if count == 1:
        raise ValueError("model must have two layers or more to leave after the first, it has one")
    if isinstance(layers, bool) or not isinstance(layers, int) or not 1 <= layers < count:
        raise ValueError(
            f"layers must be a whole number between 1 and {count - 1}, one less than the model has, got {layers!r}"
        )
    shallow = _sharing(decoder, {stack: nn.ModuleList(list(every)[:layers])})
    shallow.config = copy.deepcopy(decoder.config)
    shallow.config.num_hidden_layers = layers
    if getattr(shallow.config, "layer_types", None):
        shallow.config.layer_types = shallow.config.layer_types[:layers]
    path = next(name for name, part in model.named_modules() if part is decoder)
    for name in reversed(path.split(".")):
        above = model.get_submodule(path.removesuffix(name).removesuffix("."))
        shallow, path = _sharing(above, {name: shallow}), path.removesuffix(name).removesuffix(".")
    return shallow


def _sharing(module: nn.Module, replaced: dict[str, nn.Module]) -> Any:
    """The same module with some of its children replaced; the given one is left alone."""
    if getattr(getattr(module, "_hf_hook", None), "offload", False):
        raise ValueError(
            f"model must hold its weights: those of {type(module).__name__} are brought in from elsewhere for each pass"
        )
    twin = copy.copy(module)
    twin.__dict__ = {name: value for name, value in module.__dict__.items() if name not in _BOUND}
    twin._modules = module._modules | replaced
    return twin


class CacheLender:
    """Rides on a model's passes and knows their cache, so that an exit can read and write in it. The cache belongs to
    the run that made it, and goes when that does."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.forget()

    def forget(self) -> None:
        """A new run begins."""
        self._cache: Any = lambda: None

    @contextmanager
    def riding(self, model: Any, rows: int | None, past_key_values: Any, *_: Any) -> Iterator[list]:
        """Around one pass; brings back nothing."""
        if model is not self.model:
            raise ValueError("an early exit drafts for the model that it is a part of, and for no other")
        if not isinstance(past_key_values, SlabCache):
            raise TypeError(
                f"an early exit needs a SlabCache to draft in, got {type(past_key_values).__name__}"
            )
        self._cache = weakref.ref(past_key_values)
        yield []

    def first(self, layers: int) -> SlabCache | None:
        """The first layers of that cache as a cache, the same rows, nothing copied; None before the first pass."""
        cache = self._cache()
        if cache is None:
            return None
        view = SlabCache()
        view.layers = cache.layers[:layers]
        return view
