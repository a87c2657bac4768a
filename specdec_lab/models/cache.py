"""The slab KV cache, and everything this package knows about transformers' cache API.

Appending writes into memory that is already there, O(new tokens); rolling back moves a length,
O(1) a layer; `select` keeps chosen rows, which trees of drafts need. It does not decide *when* to
roll back: that is `decoding/loop.py`.

The API moved under our feet inside transformers 5 (`crop(positive)` meant "keep" up to 5.14 and
raises from 5.20, `crop(0)` emptied the cache up to 5.13; huggingface/transformers PR 47720, PR 47977),
so a roll-back here never calls `crop` on our own layers, and calls it with negative counts on others'.
"""

from __future__ import annotations

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

FIRST_CAPACITY = 256  # positions; a slab doubles when it is full


class SlabLayer(DynamicLayer):
    """Keys and values of one layer in a preallocated slab, (batch, heads, capacity, head_dim).

    `keys` and `values` are views of the first `length` rows, so readers of a stock layer read this one.
    """

    def __init__(self, **kwargs) -> None:
        self.length = 0
        self._key_slab = self._value_slab = None
        super().__init__()

    def _view(self, slab: torch.Tensor | None) -> torch.Tensor | None:
        return None if slab is None else slab.narrow(-2, 0, self.length)

    # the base class assigns None to both when it is made; what they show is decided by the slab alone
    keys = property(lambda self: self._view(self._key_slab), lambda self, value: None)
    values = property(lambda self: self._view(self._value_slab), lambda self, value: None)

    def lazy_initialization(self, key_states: torch.Tensor, *args, **kwargs) -> None:
        self.device, self.dtype = key_states.device, key_states.dtype
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        """Append rows (batch, heads, new, head_dim); return views of everything held."""
        start, new = self.length, key_states.shape[-2]
        end = start + new
        if self._key_slab is None:
            self.lazy_initialization(key_states)
            self._key_slab = key_states.new_empty(_slab_shape(key_states, max(end, FIRST_CAPACITY)))
            self._value_slab = value_states.new_empty(_slab_shape(value_states, max(end, FIRST_CAPACITY)))
        elif end > self._key_slab.shape[-2]:
            self._key_slab = _grown(self._key_slab, start, end)
            self._value_slab = _grown(self._value_slab, start, end)
        self._key_slab.narrow(-2, start, new).copy_(key_states)
        self._value_slab.narrow(-2, start, new).copy_(value_states)
        self.length = end
        return self.keys, self.values

    def cut(self, valid_length: int) -> None:
        """Forget every row from `valid_length` on. Nothing is copied."""
        self.length = min(self.length, valid_length)

    def select(self, first: int, rows: torch.Tensor) -> None:
        """Keep rows 0…first-1 and then the rows with the given absolute indices, in that order."""
        count = rows.numel()
        for slab in (self._key_slab, self._value_slab):
            slab.narrow(-2, first, count).copy_(slab.index_select(-2, rows))
        self.length = first + count

    def get_seq_length(self, *args) -> int:
        return self.length

    def get_mask_sizes(self, query_length, *args) -> tuple[int, int]:
        if not isinstance(query_length, int):  # early 5.x versions hand over the positions themselves
            query_length = query_length.shape[0]
        return self.length + query_length, 0

    def reset(self) -> None:
        self.length = 0

    def crop(self, tokens_to_remove: int) -> None:
        """As in transformers ≥ 5.20: a negative count removes that many rows, zero removes none."""
        if tokens_to_remove > 0:
            raise ValueError(f"crop takes a negative count of rows to remove, got {tokens_to_remove}")
        self.cut(max(0, self.length + tokens_to_remove))


def _slab_shape(states: torch.Tensor, capacity: int) -> tuple[int, ...]:
    return (*states.shape[:-2], capacity, states.shape[-1])


def _grown(slab: torch.Tensor, used: int, needed: int) -> torch.Tensor:
    larger = slab.new_empty(_slab_shape(slab, max(needed, 2 * slab.shape[-2])))
    larger.narrow(-2, 0, used).copy_(slab.narrow(-2, 0, used))
    return larger


class SlabCache(Cache):
    """One `SlabLayer` per model layer.

    >>> cache = SlabCache()
    >>> cache.get_seq_length()
    0
    """

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=SlabLayer)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions held; asked after every pass and cut, so it does not take the general path."""
        return self.layers[layer_idx].length if layer_idx < len(self.layers) else 0


def check_cache(cache) -> None:
    """`TypeError` unless `cache` is None or a transformers cache whose roll-back is exact."""
    if cache is None or isinstance(cache, SlabCache):
        return
    if type(cache) is not DynamicCache:
        raise TypeError(
            f"past_key_values must be None, the cache that forward returned, or a transformers DynamicCache; "
            f"got {type(cache).__name__}, which cannot be rolled back exactly"
        )
    for layer in cache.layers:
        if type(layer) is not DynamicLayer:
            raise TypeError(
                f"past_key_values has layers of type {type(layer).__name__}, which drop or mix positions and "
                "cannot be rolled back exactly; pass None and let forward make a slab cache"
            )


def cut_cache(cache, valid_length: int):
    """Roll `cache` back to its first `valid_length` positions, in place; returns it.

    Raises `TypeError` for a cache of another type and `ValueError` unless 0 ≤ valid_length ≤ its length.
    """
    check_cache(cache)
    length = 0 if cache is None else cache.get_seq_length()
    if not 0 <= valid_length <= length:
        raise ValueError(
            f"valid_length must be between 0 and the cache's length {length}, got {valid_length}"
        )
    if isinstance(cache, SlabCache):
        for layer in cache.layers:
            layer.cut(valid_length)
    elif valid_length < length:
        cache.crop(valid_length - length)
    return cache


def select_rows(cache: SlabCache, first: int, rows: list[int]) -> SlabCache:
    """Keep positions 0…first-1 and then the given later positions, in place; returns the cache.

    A tree of drafts is verified with all its nodes in the cache; the accepted path is then selected.
    """
    if not isinstance(cache, SlabCache):
        raise TypeError(f"select_rows needs a SlabCache, got {type(cache).__name__}")
    length = cache.get_seq_length()
    if not 0 <= first <= length or any(not first <= row < length for row in rows):
        raise ValueError(f"rows must lie between first={first} and the cache's length {length}, got {rows}")
    with torch.inference_mode():  # the slabs are written in place, and were made in that mode
        for layer in cache.layers:
            if layer.is_initialized:
                layer.select(first, torch.tensor(rows, dtype=torch.long, device=layer.device))
    return cache


def cache_bytes(cache: SlabCache) -> tuple[int, int]:
    """Bytes of the rows held, and of the slabs that they lie in, all layers together."""
    if not isinstance(cache, SlabCache):
        raise TypeError(f"cache_bytes needs a SlabCache, got {type(cache).__name__}")
    held = sum(view.nbytes for layer in cache.layers for view in (layer.keys, layer.values))
    return held, sum(slab.nbytes for layer in cache.layers for slab in (layer._key_slab, layer._value_slab))


def uncuttable_layers(config) -> str | None:
    """Name of the first kind of layer in this model whose state cannot be cut by length, or None.

    Sliding windows are fine: a full-length slab under the model's own mask is exact for chains.
    """
    for kind in getattr(config, "layer_types", None) or ():
        if kind not in ("full_attention", "sliding_attention", "chunked_attention"):
            return kind
    for layer in DynamicCache(config=config).layers:
        if not isinstance(layer, DynamicLayer) or "Linear" in type(layer).__name__:
            return type(layer).__name__
    return None
