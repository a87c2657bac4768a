"""What decoding costs in memory: bytes of KV cache per token, the peak of a prefill, and what appending copies.

Bytes are counted, not sampled: of tensors, as torch allocates and frees them, so the figures are the same on every
machine. Workspace inside a kernel is not seen, and neither are the weights. Time is `benchmark`'s business.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from specdec_lab.decoding.checks import check_count, check_fits
from specdec_lab.models.cache import cache_bytes
from specdec_lab.models.protocol import as_model, model_device


def cache_bytes_per_token(model: Any) -> int:
    """Bytes that one more token adds to the KV cache, all layers together. Taught in notebook 02.

    2 (keys and values) × layers × key-value heads × head size × bytes of the dtype, found by feeding a token
    and looking. A speculative run holds two caches: add the draft's.

    Raises:
        TypeError: a model whose cache is not this package's slab cache; only the adapter's is known.

    Example:
        >>> cache_bytes_per_token(pair.target) + cache_bytes_per_token(pair.draft)  # doctest: +SKIP
    """
    adapter = as_model(model)
    with torch.inference_mode():
        output = adapter.forward(torch.zeros(1, 1, dtype=torch.long, device=model_device(adapter)))
        one, _ = cache_bytes(output.past_key_values)
    return one


def prefill_peak_bytes(model: Any, tokens: int = 2048, *, every_row: bool = False) -> int:
    """Largest number of bytes that tensors take while a prompt of `tokens` is processed. Taught in notebook 02.

    Args:
        model: a transformers decoder-only model.
        tokens: length of the prompt, 1 or more.
        every_row: build logits for every position, as a call without `logits_to_keep` does. On a vocabulary
            of 49,152 in float32 that is 403 MB at 2048 tokens, for one row that is read.

    Raises:
        ValueError, TypeError: bad input, or more tokens than the model's context.
    """
    adapter = as_model(model)
    tokens = check_count(tokens, "tokens")
    check_fits(adapter, [0] * tokens, 0, "a prompt of `tokens`")
    ids = torch.zeros(1, tokens, dtype=torch.long, device=model_device(adapter))
    with torch.inference_mode(), LiveBytes() as memory:
        adapter.forward(ids, logits_to_keep=None if every_row else 1)
    return memory.peak


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all tensors made inside the block while they live.

    Attributes:
        now, peak: bytes alive at this moment, and at most so far.

    >>> with LiveBytes() as memory:
    ...     a = torch.zeros(1000)
    ...     b = a + 1
    ...     del a, b
    >>> memory.now, memory.peak
    (0, 8000)
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._alive: dict[int, int] = {}

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        """Run the operation and note the storages of what it returns."""
        result = operation(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor.untyped_storage())
        return result

    def _note(self, storage: Any) -> None:
        key = storage._cdata
        if key in self._alive:
            return
        self._alive[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, key)

    def _forget(self, key: int) -> None:
        self.now -= self._alive.pop(key)


class CopiedBytes(TorchDispatchMode):
    """Counts the bytes that `torch.cat` and `copy_` write inside the block. Taught in notebook 02.

    Enough for what appending to a cache copies. Other ways to write (`clone`, `+=`, indexed assignment) are not counted.

    Attributes:
        total: bytes written so far.

    >>> with CopiedBytes() as copied:
    ...     joined = torch.cat([torch.zeros(10), torch.zeros(1)])
    >>> copied.total
    44
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        """Run the operation, and note what it wrote."""
        result = operation(*args, **(kwargs or {}))
        if operation in (torch.ops.aten.cat.default, torch.ops.aten.copy_.default):
            self.total += result.nbytes
        return result
