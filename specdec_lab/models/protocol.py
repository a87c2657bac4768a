"""What a model is, to this package: two methods. Everything else is optional and found by asking.

It does not run models (that is `decoding/session.py`) and does not import transformers.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Model(Protocol):
    """A plain object with these two methods can be decoded; nothing more is required.

    Optional, asked for by name:

    - a `logits_to_keep` keyword of `forward`: build only the last so many rows of logits;
    - keywords `attention_mask`, (1, 1, n, cache + n) bool, True where a token may look, and `position_ids`, (1, n), of
      `forward`, together with `select_cache(past_key_values, first, rows)`, which keeps positions 0…first-1 and then
      the given later ones: trees of drafts;
    - a `rider` keyword of `forward`: something that rides on the pass (`rider.py`), whose result is `.carried`;
    - `vocab_size` (or `config.vocab_size`), `max_position_embeddings`, `device`: so that bad ids and
      overlong requests are refused before the first pass. State `vocab_size` where target and draft
      have vocabularies of different size.

    A cache that exposes its length (`get_seq_length()`, a `length` attribute, or a list of token ids) is
    checked after every pass and every cut; an opaque cache is trusted.
    """

    def forward(self, input_ids: Any, use_cache: bool = True, past_key_values: Any = None) -> Any:
        """input_ids (1, n) on the model's device → object with `.logits` (1, n, vocab), `.past_key_values`."""

    def truncate_cache(self, past_key_values: Any, valid_length: int) -> Any:
        """Keep the first `valid_length` positions. A return value other than None replaces the cache."""


def as_model(model: Any, argument: str = "model") -> Model:
    """`model` itself if it has the two methods, or an adapter around a transformers model.

    Raises `TypeError`, naming the argument, for anything else.
    """
    if callable(getattr(model, "truncate_cache", None)) and callable(getattr(model, "forward", None)):
        return model
    transformers = sys.modules.get("transformers")  # a transformers model cannot exist without it
    if transformers is not None and isinstance(model, transformers.PreTrainedModel):
        from .transformers_adapter import TransformersAdapter

        return TransformersAdapter(model)
    raise TypeError(
        f"{argument} must be a transformers decoder-only model or an object with forward(input_ids, use_cache=True, "
        f"past_key_values=None) and truncate_cache(past_key_values, valid_length); got {type(model).__name__}"
    )


def keeps_logits(model: Model) -> bool:
    """Whether `forward` takes `logits_to_keep` by name."""
    return _takes(model, "logits_to_keep")


def carries(model: Model) -> bool:
    """Whether `forward` takes a `rider` by name."""
    return _takes(model, "rider")


def why_no_trees(model: Model) -> str | None:
    """Half a sentence saying why trees of drafts cannot be verified with this model, or None. Models that know
    more of themselves than their signature are asked: a method `why_no_trees`."""
    if not _takes(model, "attention_mask", "position_ids"):
        return "takes no attention_mask and position_ids"
    if not callable(getattr(model, "select_cache", None)):
        return "has no select_cache, so an accepted path cannot be kept"
    ask = getattr(model, "why_no_trees", None)
    return ask() if callable(ask) else None


def _takes(model: Model, *keywords: str) -> bool:
    try:
        return set(keywords) <= set(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):
        return False


def torch_modules(model: Any) -> list:
    """Every torch module inside `model`, for switching training mode off during a pass and on again.

    Looks into plain objects that wrap a module, or that wrap a wrapper of one.
    """
    from torch import nn

    modules: dict[int, Any] = {}
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, nn.Module):
            modules.update((id(module), module) for module in part.modules())
        elif part is model or callable(getattr(part, "forward", None)):
            waiting += getattr(part, "__dict__", {}).values()
    return list(modules.values())


def vocabulary_size(model: Model) -> int | None:
    """How many ids the model can read: stated, or the size of its only embedding table; None if unknown."""
    size = _stated(model, "vocab_size")
    if size is not None:
        return size
    from torch import nn

    embeddings = [module for module in torch_modules(model) if isinstance(module, nn.Embedding)]
    return embeddings[0].num_embeddings if len(embeddings) == 1 else None


def context_length(model: Model) -> int | None:
    """How many positions the model has, or None where it does not say."""
    return _stated(model, "max_position_embeddings")


def model_device(model: Model):
    """The device that input ids have to be on: what the model says, else its first weight's, else the CPU."""
    import torch

    device = getattr(model, "device", None)
    if device is None:
        weight = next((p for module in torch_modules(model)[:1] for p in module.parameters()), None)
        device = "cpu" if weight is None else weight.device
    return torch.device(device)


def model_dtype(model: Model):
    """The dtype of the weights: what the model says, else its first weight's; None for a model without weights."""
    stated = getattr(model, "dtype", None)
    if stated is not None:
        return stated
    return next((p.dtype for module in torch_modules(model)[:1] for p in module.parameters()), None)


def model_name(model: Model) -> str:
    """A short name for messages."""
    return getattr(model, "name", None) or type(model).__name__


def _stated(model: Model, name: str) -> int | None:
    for place in (
        model,
        getattr(model, "config", None),
        getattr(getattr(model, "model", None), "config", None),
    ):
        value = getattr(place, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
