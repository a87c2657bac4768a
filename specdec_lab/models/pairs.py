"""Pairs by name: a target, a draft, their tokenizer, and prompts to try them on; and models of any size by shape.

It loads and builds; it does not decode and does not train (`specdec_lab/training`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from specdec_lab.files import ASSETS

# name → (folder in assets/, folder of the draft in it)
BUNDLED = {"tiny": ("tiny", "draft"), "tiny-weak": ("tiny", "weak")}

_SAMPLE = "Once more unto the breach, dear friends: 1599 — \n\n\tWho's there?  {x: [1, 2]}"


@dataclass(frozen=True)
class Pair:
    """A target and a draft that read the same tokens.

    Attributes:
        name: how it was asked for.
        target, draft: transformers models in eval mode; every decoder takes them as they are.
        tokenizer: the transformers tokenizer of both.
        prompts: texts to try it on, none of which the models were trained on; empty for pairs that bring none.
        eos_token_id: the end token, or None.
        card: where the weights come from: origin, licence, seed, hashes, figures; empty if not bundled.

    Example:
        >>> pair = load_pair("tiny")  # doctest: +SKIP
        >>> ids = pair.encode(pair.prompts[0])  # doctest: +SKIP
        >>> tokens, rate = speculative_decode(
        ...     pair.target, pair.draft, ids, 64, 4, pair.eos_token_id
        ... )  # doctest: +SKIP
        >>> print(pair.decode(tokens))  # doctest: +SKIP
    """

    name: str
    target: Any
    draft: Any
    tokenizer: Any
    prompts: tuple[str, ...] = ()
    eos_token_id: int | None = None
    card: dict = field(default_factory=dict, repr=False)

    @property
    def prompt_ids(self) -> list[list[int]]:
        """The prompts as token ids, ready for `benchmark_decoding`."""
        return [self.encode(prompt) for prompt in self.prompts]

    def encode(self, text: str) -> list[int]:
        """Text → ids, without special tokens."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids: Any) -> str:
        """Ids → text, exactly: no clean-up, special tokens shown."""
        return self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)


def load_pair(
    name: str = "tiny",
    *,
    target: str | Path | None = None,
    draft: str | Path | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
) -> Pair:
    """Load a bundled pair by name, or any two models by local folder or Hub id.

    Args:
        name: "tiny" (16-layer target, distilled one-layer draft; 5 and 1.2 million parameters) or "tiny-weak"
            (same target, a draft that disappoints). Both write pseudo-Shakespeare and need no network.
        target, draft: local folders or Hub ids of decoder-only models; given together, they replace `name`.
        dtype: of the loaded weights; float32 unless given, the dtype in which exactness is promised.
        device: the CPU unless given. The bundled models are too small to gain from anything else.

    Raises:
        ValueError: an unknown name, only one of target and draft, tokenizers that encode differently, or a
            device that this machine or this build of torch does not have.

    Example:
        >>> pair = load_pair("tiny")  # doctest: +SKIP
    """
    dtype, device = torch.float32 if dtype is None else dtype, _check_device(device)
    if (target is None) != (draft is None):
        missing = "draft" if draft is None else "target"
        raise ValueError(f"target and draft must be given together; {missing} is missing")
    if target is None:
        if name not in BUNDLED:
            raise ValueError(f"name must be one of {', '.join(sorted(BUNDLED))}, got {name!r}")
        folder, draft_folder = ASSETS / BUNDLED[name][0], BUNDLED[name][1]
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return Pair(
            name=name,
            target=_load_model(folder / "target", dtype, device),
            draft=_load_model(folder / draft_folder, dtype, device),
            tokenizer=tokenizer,
            prompts=tuple(json.loads((folder / "prompts.json").read_text(encoding="utf-8"))["prompts"]),
            eos_token_id=tokenizer.eos_token_id,
            card=json.loads((folder / "card.json").read_text(encoding="utf-8")),
        )
    tokenizer, other = _load_tokenizer(target, "target"), _load_tokenizer(draft, "draft")
    if tokenizer.encode(_SAMPLE, add_special_tokens=False) != other.encode(_SAMPLE, add_special_tokens=False):
        raise ValueError(
            f"target {target} and draft {draft} encode the same text differently; they need one tokenizer"
        )
    return Pair(
        name=f"{target} + {draft}",
        target=_load_model(target, dtype, device),
        draft=_load_model(draft, dtype, device),
        tokenizer=tokenizer,
        eos_token_id=tokenizer.eos_token_id,
    )


def random_like(model: Any, *, seed: int = 0, **shape: Any) -> Any:
    """A model of the same architecture and vocabulary, of another shape, with random weights, in eval mode.

    It writes nonsense at the speed of a real model of its size. A tied head stays tied. On the CPU, in torch's default
    dtype (float32); the given model and torch's global randomness are left as found. Taught in notebook 01.

    Args:
        model: a transformers decoder-only model.
        seed: of the weights.
        shape: fields of its config, such as `hidden_size` or `num_hidden_layers`.

    Raises:
        TypeError: a model that is not from transformers.
        ValueError: a field that its config does not have.

    Example:
        >>> wide = random_like(pair.target, hidden_size=1024, num_hidden_layers=12)  # doctest: +SKIP
    """
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"model must be a transformers model, got {type(model).__name__}")
    unknown = [name for name in shape if not hasattr(model.config, name)]
    if unknown:
        raise ValueError(f"shape must name fields of {type(model.config).__name__}, got {', '.join(unknown)}")
    config = copy.deepcopy(model.config)
    config.update(shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return type(model)(config).eval()


def _check_device(device: torch.device | str | None) -> torch.device:
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


def _load_tokenizer(source: str | Path, argument: str) -> Any:
    if (Path(source).is_absolute() or str(source).startswith(".")) and not Path(source).is_dir():
        raise ValueError(f"{argument} must be a local folder or a Hub id; there is no folder {str(source)!r}")
    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, ImportError) as error:
        said = " ".join(str(error).split())
        raise ValueError(
            f"{argument} must be a local folder with a model and its tokenizer, or a Hub id that can be reached; "
            f"{str(source)!r} is neither: {said[:200]}"
        ) from error


def _load_model(source: str | Path, dtype: torch.dtype | str, device: torch.device) -> Any:
    with no_progress_bar():
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    return model.to(device).eval()


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
