"""What is loaded: of a pair's target and draft the source, the dtype, the devices, the attention, and their bytes.

Counted, never timed. What a text of a given length takes is weights + tokens × bytes of KV cache a token, of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec_lab.decoding.drafters import is_drafter
from specdec_lab.models.protocol import torch_modules

from .memory import cache_bytes_per_token

if TYPE_CHECKING:
    from specdec_lab.models.pairs import Pair


@dataclass(frozen=True)
class Loaded:
    """One of the two. Taught in notebook 11.

    Attributes:
        role: "target" or "draft".
        source: where it comes from, in words.
        parameters: tied ones counted once; of a draft only what it does not share with the target.
        weight_bytes: of these, buffers included.
        cache_bytes_per_token: what one more token adds to its own KV cache; 0 for a draft that has none.
        dtypes, devices: of the weights, sorted; empty for a draft without weights of its own.
        attention: transformers' name of the implementation, or None.
    """

    role: str
    source: str
    parameters: int
    weight_bytes: int
    cache_bytes_per_token: int
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    attention: str | None = None

    def __str__(self) -> str:
        """
        >>> print(Loaded("target", "org/large", 1000, 4000, 64, ("float32",), ("cpu",), "sdpa"))
        target: org/large; 1,000 parameters, 0.004 MB in float32 on cpu, sdpa attention, 64 bytes of KV cache a token
        """
        if not self.parameters:
            return f"{self.role}: {self.source}; no weights and no KV cache of its own"
        attention = "" if self.attention is None else f", {self.attention} attention"
        return (
            f"{self.role}: {self.source}; {self.parameters:,} parameters, {self.weight_bytes / 1e6:,.4g} MB in "
            f"{' and '.join(self.dtypes)} on {' and '.join(self.devices)}{attention}, "
            f"{self.cache_bytes_per_token:,} bytes of KV cache a token"
        )


def describe_pair(pair: Pair) -> tuple[Loaded, Loaded]:
    """The target and the draft of a pair. One token is fed to each model that has a cache. Taught in notebook 11.

    Of a drafter the model that it runs counts, as `model`, and its cache where it says that it has one, as `cache_length`.

    Example:
        >>> for part in describe_pair(load_pair("tiny", draft="early-exit:4")):  # doctest: +SKIP
        ...     print(part)
    """
    target = _loaded("target", pair.sources.get("target", pair.name), pair.target)
    draft = _loaded("draft", pair.sources.get("draft", pair.name), pair.draft, besides=pair.target)
    return target, draft


def _loaded(role: str, source: str, thing: Any, besides: Any = None) -> Loaded:
    runs = getattr(thing, "model", thing) if is_drafter(thing) else thing
    caches = not is_drafter(thing) or getattr(thing, "cache_length", None) is not None
    there = (
        set() if besides is None else {id(tensor) for tensor in [*_parameters(besides), *_buffers(besides)]}
    )
    parameters = [tensor for tensor in _parameters(runs) if id(tensor) not in there]
    tensors = parameters + [tensor for tensor in _buffers(runs) if id(tensor) not in there]
    return Loaded(
        role=role,
        source=source,
        parameters=sum(tensor.numel() for tensor in parameters),
        weight_bytes=sum(tensor.nbytes for tensor in tensors),
        cache_bytes_per_token=cache_bytes_per_token(runs) if caches else 0,
        dtypes=tuple(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in parameters})),
        devices=tuple(sorted({str(tensor.device) for tensor in tensors})),
        attention=getattr(getattr(thing, "config", None), "_attn_implementation", None),
    )


def _parameters(thing: Any) -> list[Any]:
    """Each once, however many modules share it."""
    modules = torch_modules(thing)
    return list({id(p): p for module in modules for p in module.parameters(recurse=False)}.values())


def _buffers(thing: Any) -> list[Any]:
    modules = torch_modules(thing)
    return list({id(b): b for module in modules for b in module.buffers(recurse=False)}.values())
