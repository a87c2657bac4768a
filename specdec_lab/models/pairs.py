"""Pairs by name: a target, a draft, their tokenizer, and prompts to try them on; and models of any size by shape.

It loads and builds; it does not decode and does not train (`specdec_lab/training`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from specdec_lab.files import ASSETS

# name → (folder in assets/, folder of the draft in it)
BUNDLED = {"tiny": ("tiny", "draft"), "tiny-weak": ("tiny", "weak")}

# what two tokenizers must encode alike: prose, figures, code, space, accents, other scripts, symbols
_SAMPLES = (
    "Once more unto the breach, dear friends: 1599 — \n\n\tWho's there?  {x: [1, 2]}",
    "def f(x):\n    return x ** 2  # 3.14159\n\n\n        \tend",
    "Über façade naïve, señor; Привет, мир! 你好，世界。 こんにちは",
    "12345678 0x7f 1e-5 1,000,000 %$#@!~^&*<|>«»“”…🙂",
)


@dataclass(frozen=True)
class Pair:
    """A target and a draft that read the same tokens.

    Attributes:
        name: how it was asked for.
        target: a transformers model in eval mode; every decoder takes it as it is.
        draft: likewise, or a drafter (prompt lookup, early exit).
        tokenizer: the transformers tokenizer of both.
        prompts: texts to try it on, none of which the models were trained on; empty for pairs that bring none.
        eos_token_id: the end token, several, or None.
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
    eos_token_id: int | list[int] | None = None
    card: dict = field(default_factory=dict, repr=False)

    @property
    def prompt_ids(self) -> list[list[int]]:
        """The prompts as token ids, ready for `benchmark_decoding`."""
        return [self.encode(prompt) for prompt in self.prompts]

    def encode(self, text: str) -> list[int]:
        """Text → ids, without special tokens."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def chat(self, messages: str | list[dict[str, str]]) -> list[int]:
        """A conversation → ids, by the tokenizer's chat template, ready for the model's answer.

        Args:
            messages: what the user says, or a list of {"role": …, "content": …}.

        Raises:
            ValueError: a tokenizer without a chat template.
        """
        if not self.tokenizer.chat_template:
            raise ValueError(
                f"pair {self.name!r} has no chat template: use encode, and a model that was made for chat"
            )
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return self.encode(text)

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
    device_map: str | dict | None = None,
    attention: str | None = None,
) -> Pair:
    """Load a pair by name, or any model by local folder or Hub id with something that drafts for it.

    Args:
        name: "tiny" (16-layer target, distilled one-layer draft; 5 and 1.2 million parameters) or "tiny-weak"
            (same target, a draft that disappoints). Both write pseudo-Shakespeare and need no network. "smollm2":
            SmolLM2-135M-Instruct from wherever it is on this machine (`smollm2.py`).
        target: a local folder or Hub id of a decoder-only model, which replaces `name`; with "smollm2" a folder that
            holds it.
        draft: a local folder or Hub id of a smaller one that reads the same tokens; or "prompt-lookup", or
            "early-exit:k" for the first k layers of the target. A named pair has a draft of its own.
        dtype: of the loaded weights. Unless given float32, the dtype in which exactness is promised; for "smollm2"
            bfloat16 where this processor multiplies it natively.
        device: the CPU unless given.
        device_map: "auto" or a map of accelerate's, for a target that is spread over devices; instead of `device`.
        attention: transformers' name of an attention implementation ("sdpa", "eager", …); its own choice unless given.

    Raises:
        ValueError: an unknown name, a target without a draft, tokenizers that encode differently, a draft that is
            none, or a device that this machine or this build of torch does not have.

    Example:
        >>> pair = load_pair("tiny")  # doctest: +SKIP
        >>> pair = load_pair(target="org/large", draft="prompt-lookup")  # doctest: +SKIP
    """
    if device is not None and device_map is not None:
        raise ValueError(f"device and device_map exclude each other, got {device!r} and {device_map!r}")
    device = _check_device(device)
    how = Loading(dtype=dtype, device=device, device_map=device_map, attention=attention)
    if name == "smollm2":
        return _smollm2(target, draft or "prompt-lookup", how)
    if target is None:
        return _bundled(name, draft, how)
    if draft is None:
        raise ValueError(
            'target and draft must be given together; draft is missing: a folder, a Hub id, "prompt-lookup" or '
            '"early-exit:k"'
        )
    kind = _kind_of_draft(draft)
    tokenizer = _load_tokenizer(target, "target")
    if kind is None:
        _check_same_tokens(tokenizer, _load_tokenizer(draft, "draft"), target, draft)
    model = _load_model(target, how)
    return Pair(
        name=f"{target} + {draft}",
        target=model,
        draft=_load_model(draft, how.on_one_device()) if kind is None else _drafter(kind, model),
        tokenizer=tokenizer,
        eos_token_id=_end_tokens(model, tokenizer),
    )


@dataclass(frozen=True)
class Loading:
    """How a model is loaded; None leaves the choice open."""

    dtype: torch.dtype | str | None
    device: torch.device
    device_map: str | dict | None = None
    attention: str | None = None

    def on_one_device(self) -> Loading:
        """The same for a model that is small enough for one."""
        return replace(self, device_map=None)


def _bundled(name: str, draft: str | Path | None, how: Loading) -> Pair:
    if name not in BUNDLED:
        raise ValueError(f"name must be one of {', '.join(sorted([*BUNDLED, 'smollm2']))}, got {name!r}")
    folder, draft_folder = ASSETS / BUNDLED[name][0], BUNDLED[name][1]
    kind = None if draft is None else _kind_of_draft(draft)
    if draft is not None and kind is None:
        raise ValueError(
            f"target and draft must be given together; target is missing, draft is {str(draft)!r}"
        )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = _load_model(folder / "target", how)
    return Pair(
        name=name if draft is None else f"{name} + {draft}",
        target=model,
        draft=_load_model(folder / draft_folder, how) if kind is None else _drafter(kind, model),
        tokenizer=tokenizer,
        prompts=tuple(json.loads((folder / "prompts.json").read_text(encoding="utf-8"))["prompts"]),
        eos_token_id=tokenizer.eos_token_id,
        card=json.loads((folder / "card.json").read_text(encoding="utf-8")),
    )


def _smollm2(folder: str | Path | None, draft: str | Path, how: Loading) -> Pair:
    from .smollm2 import find_smollm2

    kind, source = _kind_of_draft(draft), find_smollm2(folder)
    tokenizer = _load_tokenizer(source.path, "target")
    if kind is None:
        _check_same_tokens(tokenizer, _load_tokenizer(draft, "draft"), source.path, draft)
    if how.dtype is None:
        how = replace(how, dtype=torch.bfloat16 if multiplies_bfloat16(how.device) else torch.float32)
    model = _load_model(source.path, how)
    return Pair(
        name=f"smollm2 + {draft}",
        target=model,
        draft=_load_model(draft, how.on_one_device()) if kind is None else _drafter(kind, model),
        tokenizer=tokenizer,
        eos_token_id=_end_tokens(model, tokenizer),
        card={"origin": source.kind, "path": source.path},
    )


def _kind_of_draft(draft: str | Path) -> str | int | None:
    """ "prompt-lookup", the number of layers of an early exit, or None for a model."""
    if draft == "prompt-lookup":
        return "prompt-lookup"
    if isinstance(draft, str) and draft.split(":")[0] == "early-exit":
        layers = draft.removeprefix("early-exit").removeprefix(":")
        if not layers.isdecimal():
            raise ValueError(
                f'draft must be "early-exit:k" with k the number of layers, such as "early-exit:8", got {draft!r}'
            )
        return int(layers)
    return None


def _drafter(kind: str | int, target: Any) -> Any:
    """Something that drafts for this target without a model of its own."""
    from specdec_lab.decoding.early_exit import EarlyExitDrafter
    from specdec_lab.decoding.lookup import PromptLookupDrafter

    return PromptLookupDrafter() if kind == "prompt-lookup" else EarlyExitDrafter(target, kind)


def _check_same_tokens(one: Any, other: Any, target: str | Path, draft: str | Path) -> None:
    """`ValueError` with the first text that two tokenizers encode differently."""
    for sample in _SAMPLES:
        ids, others = (tokenizer.encode(sample, add_special_tokens=False) for tokenizer in (one, other))
        if ids != others:
            place = next(
                (i for i, (a, b) in enumerate(zip(ids, others, strict=False)) if a != b),
                min(len(ids), len(others)),
            )
            raise ValueError(
                f"target {target} and draft {draft} encode the same text differently, they need one tokenizer: of "
                f"{sample[:40]!r} token {place} is {ids[place : place + 1]} for the target, {others[place : place + 1]} "
                "for the draft"
            )


def _end_tokens(model: Any, tokenizer: Any) -> int | list[int] | None:
    """What the model's own generation ends at; chat models often have several."""
    found = getattr(model.generation_config, "eos_token_id", None)
    return tokenizer.eos_token_id if found is None else found


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether products in bfloat16 are native there, so that half the bytes are read in about half the time."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type != "cpu":
        return True
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


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


def _load_model(source: str | Path, how: Loading) -> Any:
    more = {} if how.attention is None else {"attn_implementation": how.attention}
    if how.device_map is not None:
        more["device_map"] = how.device_map
    with no_progress_bar():
        model = AutoModelForCausalLM.from_pretrained(source, dtype=how.dtype or torch.float32, **more)
    return (model if how.device_map is not None else model.to(how.device)).eval()


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
