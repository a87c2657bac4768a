"""A model and its tokenizer from a folder or the Hub, on a device, in a dtype; and whether two read the same tokens.

What goes wrong is said with the argument that is to be mended. It does not know pairs by name: that is `pairs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from .protocol import as_model

# what two tokenizers must encode alike: prose, figures, code, space, accents, other scripts, symbols
SAMPLES = (
    "Once more unto the breach, dear friends: 1599 — \n\n\tWho's there?  {x: [1, 2]}",
    "def f(x):\n    return x ** 2  # 3.14159\n\n\n        \tend",
    " Über façade naïve, cafe\u0301, señor; Привет, мир! 你好，世界。 こんにちは",
    "12345678 0x7f 1e-5 1,000,000 %$#@!~^&*<|>«»“”…🙂 ",
)


@dataclass(frozen=True)
class Loading:
    """How a model is loaded; None leaves the choice open. Raises `ValueError` for what no machine or this one has."""

    dtype: torch.dtype | str | None = None
    device: torch.device | str | None = None
    device_map: str | dict | None = None
    attention: str | None = None

    def __post_init__(self) -> None:
        if self.device is not None and self.device_map is not None:
            raise ValueError(
                f"device and device_map exclude each other, got {self.device!r} and {self.device_map!r}"
            )
        if self.device_map is None:
            object.__setattr__(self, "device", _a_device(self.device))
        object.__setattr__(self, "dtype", _a_dtype(self.dtype))

    def beside(self, target: Any) -> Loading:
        """The same for a draft: on one device, which is the target's first where that is spread over several."""
        if self.device_map is None:
            return self
        first = target.get_input_embeddings().weight.device
        return replace(self, device_map=None, device=None if first.type == "meta" else first)

    def in_fastest_dtype(self) -> Loading:
        """The same, in bfloat16 where it is native and nothing else was asked for."""
        if self.dtype is not None:
            return self
        spread = self.device_map is not None and torch.cuda.is_available()
        device = torch.device("cuda") if spread else self.device
        return replace(self, dtype=torch.bfloat16 if multiplies_bfloat16(device) else torch.float32)


def load_model(source: str | Path, argument: str, how: Loading) -> Any:
    """The model in eval mode, or `ValueError` where there is none that can be decoded exactly."""
    more = {} if how.attention is None else {"attn_implementation": how.attention}
    if how.device_map is not None:
        more["device_map"] = how.device_map
    try:
        config = AutoConfig.from_pretrained(source)
        if config.is_encoder_decoder:
            raise ValueError(
                f"it is an encoder-decoder (model type {config.model_type!r}); use a decoder-only model"
            )
        with no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(source, dtype=how.dtype or torch.float32, **more)
        model = (model if how.device_map is not None else model.to(how.device)).eval()
        as_model(model, argument)
    except (OSError, ValueError, ImportError) as error:
        asked = "".join(f", {name} {value!r}" for name, value in more.items())
        raise ValueError(
            f"{argument} {str(source)!r}{asked.replace('attn_implementation', 'attention')} cannot be loaded for "
            f"decoding: {_shortened(error)}"
        ) from error
    return model


def load_tokenizer(source: str | Path, argument: str) -> Any:
    """The tokenizer, or `ValueError` where there is none."""
    if (Path(source).is_absolute() or str(source).startswith(".")) and not Path(source).is_dir():
        raise ValueError(f"{argument} must be a local folder or a Hub id; there is no folder {str(source)!r}")
    if Path(source).is_dir() and not list(Path(source).glob("*.json")):
        raise ValueError(
            f"{argument} must be a local folder with a model and its tokenizer, there is none in {str(source)!r}"
        )
    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, ImportError) as error:
        raise ValueError(
            f"{argument} must be a local folder with a model and its tokenizer, or a Hub id that can be reached; "
            f"{str(source)!r} is neither: {_shortened(error)}"
        ) from error


def check_same_tokens(one: Any, other: Any, target: str | Path, draft: str | Path) -> None:
    """`ValueError` with the first text that two tokenizers encode differently. Their names do not matter, and one may
    have more tokens than the other, as long as text does not use them."""
    for sample in SAMPLES:
        ids, others = (tokenizer.encode(sample, add_special_tokens=False) for tokenizer in (one, other))
        if ids == others:
            continue
        place = next((i for i, (a, b) in enumerate(zip(ids, others, strict=False)) if a != b), None)
        place = min(len(ids), len(others)) if place is None else place
        raise ValueError(
            f"target {target} and draft {draft} encode the same text differently, they need one tokenizer: of "
            f"{sample[:40]!r} token {place} is {_token(one, ids, place)} for the target, "
            f"{_token(other, others, place)} for the draft"
        )


def _token(tokenizer: Any, ids: list[int], place: int) -> str:
    return f"{ids[place]} {tokenizer.decode(ids[place : place + 1])!r}" if place < len(ids) else "none"


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether products in bfloat16 are native there, so that half the bytes are read in about half the time."""
    if device.type == "cuda":  # emulated on older cards, such as a free Colab's, and slow there
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return True
    asked = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
    return any(ask is not None and ask() for ask in asked)


@contextmanager
def no_progress_bar() -> Iterator[None]:
    """transformers 5 draws a bar even for tiny models; it would end up in stored notebooks."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def _a_device(device: torch.device | str | None) -> torch.device:
    try:
        found = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device must name a torch device such as 'cpu' or 'cuda', got {device!r}"
        ) from error
    there = {"cpu", "meta"}
    there |= {kind for kind in ("cuda", "mps", "xpu") if getattr(torch, kind).is_available()}
    if found.type not in there:
        raise ValueError(
            f"device {str(found)!r} is not there; torch sees {', '.join(sorted(there - {'meta'}))}"
        )
    return found


def _a_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    found = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if found is not None and not (isinstance(found, torch.dtype) and found.is_floating_point):
        found = None
    if found is None and dtype is not None:
        raise ValueError(
            f"dtype must be a floating-point dtype such as 'float32' or 'bfloat16', got {dtype!r}"
        )
    return found


def _shortened(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
