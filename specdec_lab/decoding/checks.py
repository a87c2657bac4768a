"""Bad input is refused here, before the first pass: the argument, its value, and what would be right."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from specdec_lab.models.protocol import Model, context_length, model_name, vocabulary_size


def check_count(value: Any, argument: str, least: int = 1) -> int:
    """`value` as an int of at least `least`. bool and float are a `TypeError`, too small a `ValueError`."""
    number = _as_int(value, argument)
    if number < least:
        raise ValueError(f"{argument} must be at least {least}, got {number}")
    return number


def check_probability(value: Any, argument: str) -> float:
    """`value` as a float in 0…1; NaN and everything outside is a `ValueError`, what is no number a `TypeError`."""
    number = _as_float(value, argument, "a number between 0 and 1")
    if not 0 <= number <= 1:
        raise ValueError(f"{argument} must be between 0 and 1, got {number}")
    return number


def check_temperature(value: Any) -> float:
    """`value` as a finite float of 0 or more; what is no number is a `TypeError`, every other a `ValueError`."""
    number = _as_float(value, "temperature", "a finite number of 0 or more")
    if not 0 <= number < math.inf:
        raise ValueError(f"temperature must be a finite number of 0 or more, got {number}")
    return number


def check_input_ids(input_ids: Any, argument: str = "input_ids") -> list[int]:
    """A fresh list of ids from a list, a tuple or a 1-D integer tensor or array. The caller's stays as it is."""
    if isinstance(input_ids, (str, bytes)):
        raise TypeError(f"{argument} must be token ids, got text; encode it with the pair's tokenizer first")
    dimensions = getattr(input_ids, "ndim", None)
    if dimensions is not None and dimensions != 1:
        raise ValueError(
            _not_flat(argument, f"shape {tuple(input_ids.shape)}", len(input_ids) if dimensions == 2 else 0)
        )
    if hasattr(input_ids, "is_floating_point"):  # a torch tensor; this file does without torch
        if input_ids.is_floating_point() or input_ids.is_complex() or str(input_ids.dtype) == "torch.bool":
            raise TypeError(f"{argument} must hold integer ids, got a tensor of {input_ids.dtype}")
        ids = input_ids.tolist()
    else:
        if dimensions is None and not isinstance(input_ids, Sequence):
            raise TypeError(
                f"{argument} must be a list, a tuple or a 1-D tensor of ids, got {type(input_ids).__name__}"
            )
        ids = []
        for i, value in enumerate(input_ids):
            if isinstance(value, Sequence) or getattr(value, "ndim", 0):
                raise ValueError(_not_flat(argument, f"{value!r} at [{i}]", len(input_ids)))
            ids.append(_as_int(value, f"{argument}[{i}]"))
    if not ids:
        raise ValueError(f"{argument} must hold at least one id, got none")
    worst = min(ids)
    if worst < 0:
        raise ValueError(f"{argument} must hold ids of 0 or more, got {worst} at [{ids.index(worst)}]")
    return ids


def check_end_tokens(eos_token_id: Any) -> frozenset[int]:
    """The end tokens as a set: from an int, a sequence of ints (possibly empty), or None."""
    if eos_token_id is None:
        return frozenset()
    if isinstance(eos_token_id, (str, bytes)):
        raise TypeError(f"eos_token_id must be an id, a sequence of ids or None, got {eos_token_id!r}")
    if getattr(eos_token_id, "ndim", 0) or isinstance(eos_token_id, (Sequence, set, frozenset)):
        return frozenset(_as_int(value, "eos_token_id") for value in eos_token_id)
    return frozenset({_as_int(eos_token_id, "eos_token_id")})


def check_fits(model: Model, prompt: list[int], max_new_tokens: int, argument: str = "input_ids") -> None:
    """`ValueError` if an id is not in the model's vocabulary, or prompt + new tokens exceed its context or cross a
    length at which a cached step and a block differ."""
    vocabulary = vocabulary_size(model)
    worst = max(prompt)
    if vocabulary is not None and worst >= vocabulary:
        raise ValueError(
            f"{argument} must hold ids below the target's vocabulary size {vocabulary}, "
            f"got {worst} at [{prompt.index(worst)}]"
        )
    context = context_length(model)
    if context is not None and len(prompt) + max_new_tokens > context:
        raise ValueError(
            f"{argument} has {len(prompt)} tokens and max_new_tokens is {max_new_tokens}: together "
            f"{len(prompt) + max_new_tokens}, more than the target's context of {context}"
        )
    switch = getattr(model, "rotary_switch", None)
    if switch is not None and len(prompt) <= switch < len(prompt) + max_new_tokens:
        raise ValueError(
            f"{argument} has {len(prompt)} tokens and max_new_tokens is {max_new_tokens}: {model_name(model)} changes "
            f"its rotary frequencies at {switch} tokens, and decoding across that length is not exact"
        )


def check_tree_fits(model: Model, prompt: list[int], max_new_tokens: int) -> None:
    """`ValueError` if prompt + new tokens exceed a sliding window: a tree's own mask would ignore it."""
    window, total = getattr(model, "window", None), len(prompt) + max_new_tokens
    if window is not None and total > window:
        raise ValueError(
            f"input_ids has {len(prompt)} tokens and max_new_tokens is {max_new_tokens}: together {total}, more than "
            f"the attention window {window} of {model_name(model)}, which a tree of drafts would ignore; use a chain"
        )


def _not_flat(argument: str, got: str, rows: int) -> str:
    told = f"{argument} must be one flat sequence of ids, without a batch dimension, got {got}"
    return f"{told}; pass {argument}[0]" if rows == 1 else told


def _as_float(value: Any, argument: str, right: str) -> float:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{argument} must be {right}, got {value!r}")
    return float(value)


def _as_int(value: Any, argument: str) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{argument} must be an integer, got {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{argument} must be an integer, got {value!r}") from None
