"""A transformers decoder-only model behind the two methods of the protocol.

It adapts any family whose cache can be cut by length, and refuses the others by name before a token
is produced. It knows transformers' forward signature (looked up once per model) but not its cache
API, which lives in `cache.py`, and it does not load anything: that is `pairs.py`.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from types import SimpleNamespace

import torch
from transformers import PreTrainedModel

from .cache import SlabCache, check_cache, cut_cache, select_rows, uncuttable_layers
from .probe import why_inexact, why_no_trees
from .rider import Rider


class TransformersAdapter:
    """`forward` and `truncate_cache` over a transformers model, with a slab cache of its own.

    Example:
        >>> adapter = TransformersAdapter(model)  # doctest: +SKIP
        >>> out = adapter.forward(torch.tensor([[1, 2, 3]]))  # doctest: +SKIP
        >>> cache = adapter.truncate_cache(out.past_key_values, 2)  # doctest: +SKIP

    Raises:
        TypeError: the model is not a transformers model.
        ValueError: encoder-decoder, recurrent or hybrid models, models without a language-model head, and
            those that do not give a block behind their cache the answers of one pass (`probe.py`): they
            cannot be rolled back or verified exactly. The message names the model type.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        if not isinstance(model, PreTrainedModel):
            raise TypeError(f"TransformersAdapter takes a transformers model, got {type(model).__name__}")
        refusal = why_refused(model)
        if refusal:
            raise ValueError(f"{type(model).__name__} (model type {model.config.model_type!r}) {refusal}")
        self.model = model
        config = model.config.get_text_config(decoder=True)
        self._cache_keyword = cache_keyword(model)
        self._keeps_logits = "logits_to_keep" in inspect.signature(type(model).forward).parameters
        self.vocab_size: int = model.get_input_embeddings().weight.shape[0]
        self.max_position_embeddings: int | None = getattr(config, "max_position_embeddings", None)
        self.rotary_switch: int | None = rotary_switch(config)
        self.window: int | None = attention_window(config)
        self.name: str = config.model_type
        refusal = why_inexact(self)
        if refusal:
            raise ValueError(f"{type(model).__name__} (model type {model.config.model_type!r}) {refusal}")

    @property
    def device(self) -> torch.device:
        """Where input ids have to be: the device of the input embedding (models may be sharded)."""
        return self.model.get_input_embeddings().weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return self.model.dtype

    def forward(
        self,
        input_ids,
        use_cache: bool = True,
        past_key_values=None,
        logits_to_keep: int | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        rider: Rider | None = None,
    ):
        """One pass over new tokens.

        Args:
            input_ids: (1, n) ids on the model's device, the tokens that the cache does not hold yet.
            use_cache: whether to keep keys and values; False needs `past_key_values` None.
            past_key_values: what the last call returned, or None to start.
            logits_to_keep: build logits for the last so many positions only. On a 49k vocabulary a
                2048-token prompt would otherwise fill 400 MB with rows that nobody reads.
            attention_mask: (1, 1, n, cache + n) bool, True where a token may look; None is causal. Only for models
                that honour it: `why_no_trees`.
            position_ids: (1, n), for a tree of drafts.
            rider: something that rides on this pass, such as `HeadInput`: what it collected is `.carried`,
                (1, n or fewer, …), a row for each row of the logits.

        Returns:
            An object with `.logits`, (1, n or fewer, vocab), and `.past_key_values`.
        """
        check_cache(past_key_values)
        if use_cache and past_key_values is None:
            past_key_values = SlabCache()
        more = {"logits_to_keep": logits_to_keep} if logits_to_keep and self._keeps_logits else {}
        more[self._cache_keyword] = past_key_values
        if attention_mask is not None:
            more["attention_mask"] = added_mask(attention_mask, self.dtype)
        if position_ids is not None:
            more["position_ids"] = position_ids
        riding = (
            nullcontext([])
            if rider is None
            else rider.riding(
                self.model, logits_to_keep, past_key_values, attention_mask, position_ids, input_ids
            )
        )
        with riding as carried:
            output = self.model(input_ids=input_ids, use_cache=use_cache, **more)
        return SimpleNamespace(
            logits=output.logits, past_key_values=past_key_values, carried=carried[0] if carried else None
        )

    def truncate_cache(self, past_key_values, valid_length: int):
        """Roll back, in place, to the first `valid_length` positions: 0 (none), some, or all of them.

        Raises `ValueError` outside 0…length and `TypeError` for anything but a cache of `forward`.
        """
        return cut_cache(past_key_values, valid_length)

    def why_no_trees(self) -> str | None:
        """Half a sentence saying why this model cannot verify a tree of drafts, or None; tried once (`probe.py`)."""
        return why_no_trees(self)

    def select_cache(self, past_key_values, first: int, rows: list[int]):
        """Keep positions 0…first-1 and then the given later ones, in place (trees of drafts)."""
        return select_rows(past_key_values, first, rows)


def cache_keyword(model: PreTrainedModel) -> str:
    """What this model's `forward` calls its cache: transformers 5.24 renamed it (the old name is gone in 5.40)."""
    return "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"


def added_mask(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A bool mask, True where a token may look, as what is added to the scores: every attention implementation takes
    that, a bool mask only some."""
    added = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return added.masked_fill_(~visible, torch.finfo(dtype).min)


def why_refused(model: PreTrainedModel) -> str | None:
    """Half a sentence saying why this model cannot be decoded exactly with roll-back, or None."""
    if model.config.is_encoder_decoder:
        return "is an encoder-decoder: its cross-attention cache cannot be cut by length; use a decoder-only model"
    if getattr(model, "_is_stateful", False):
        return "keeps a recurrent state, which cannot be rolled back to an earlier token; use an attention-only model"
    if not model.can_generate() or model.get_output_embeddings() is None:
        return "has no language-model head to generate with; load it with AutoModelForCausalLM"
    causal = any(getattr(module, "is_causal", False) is True for module in model.modules())
    if getattr(model.config, "is_decoder", True) is False and not causal:
        return "is loaded as an encoder, which looks ahead; a causal mask is needed (is_decoder=True in its config)"
    kind = uncuttable_layers(model.config.get_text_config(decoder=True))
    if kind:
        return f"has {kind} layers, whose cache cannot be cut by length; use an attention-only model"
    return None


def attention_window(config) -> int | None:
    """The shortest window that a layer looks back over, or None. Under a mask of its own, a tree's, it is ignored."""
    kinds = set(getattr(config, "layer_types", None) or ())
    sliding, chunk = getattr(config, "sliding_window", None), getattr(config, "attention_chunk_size", None)
    if kinds:
        sliding = sliding if "sliding_attention" in kinds else None
        chunk = chunk if "chunked_attention" in kinds else None
    elif getattr(config, "use_sliding_window", True) is False:
        sliding = None
    return min((size for size in (sliding, chunk) if size), default=None)


def rotary_switch(config) -> int | None:
    """The length at which this model changes its rotary frequencies ("longrope"), or None.

    Keys cached before it were turned by other angles than those behind it, so a block across it is not what
    single steps give.
    """
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    for part in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        if part.get("rope_type", part.get("type")) == "longrope":
            return part.get("original_max_position_embeddings") or config.original_max_position_embeddings
    return None
