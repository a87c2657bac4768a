"""Pairs by name: a target, a draft, their tokenizer, and prompts to try them on; and models of any size by shape.

It loads and builds; it does not decode and does not train (`specdec_lab/training`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from specdec_lab.files import ASSETS

from .loading import Loading, check_same_tokens, load_model, load_tokenizer

# name → (folder in assets/, folder of the draft in it)
BUNDLED = {"tiny": ("tiny", "draft"), "tiny-weak": ("tiny", "weak")}


@dataclass(frozen=True, repr=False)
class Pair:
    """A target and a draft that read the same tokens.

    Attributes:
        name: how it was asked for.
        target: a transformers model in eval mode; every decoder takes it as it is.
        draft: likewise, or a drafter (prompt lookup, early exit, EAGLE).
        tokenizer: the transformers tokenizer of both.
        prompts: texts to try it on, none of which the models were trained on; in a chat model's own format; empty for
            pairs that bring none.
        eos_token_id: the end token, several, or None.
        sources: of "target" and "draft", where each comes from, in words.
        card: where bundled weights come from: origin, licence, seed, hashes, figures; else empty.

    What was chosen and how large it is: `specdec_lab.measure.loaded.describe_pair`.

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
    sources: dict[str, str] = field(default_factory=dict)
    card: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        parts = ", ".join(f"{part} from {source}" for part, source in self.sources.items())
        return f"Pair({self.name!r}: {parts or 'of models of your own'}; {len(self.prompts)} prompts)"

    @property
    def prompt_ids(self) -> list[list[int]]:
        """The prompts as token ids, ready for `benchmark_decoding`."""
        if self.tokenizer.chat_template:  # which has written the special tokens already
            return [self.tokenizer.encode(prompt, add_special_tokens=False) for prompt in self.prompts]
        return [self.encode(prompt) for prompt in self.prompts]

    def encode(self, text: str) -> list[int]:
        """Text → ids: behind the begin token if the tokenizer puts one in front, and with nothing added at the end.

        Models that were trained with a begin token write badly without it. A text that has it already, as chat templates
        write it, gets no second one. The bundled tokenizer has none.
        """
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        front = _put_in_front(self.tokenizer)
        return ids if ids[: len(front)] == front else front + ids

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
        return self.tokenizer.encode(_chat_text(self.tokenizer, messages), add_special_tokens=False)

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
        draft: a local folder or Hub id of a smaller one that reads the same tokens; or "prompt-lookup", "early-exit:k"
            for the first k layers of the target, "eagle:FOLDER" for an `EagleDraft` that was made for it. A named pair
            has a draft of its own; that of "smollm2" is prompt lookup, and "eagle" is its bundled EAGLE draft.
        dtype: of the loaded weights. Unless given float32, the dtype in which exactness is promised; for "smollm2"
            bfloat16 where this processor multiplies it natively.
        device: the CPU unless given.
        device_map: "auto" or a map of accelerate's, for a target that is spread over devices; instead of `device`.
        attention: transformers' name of an attention implementation ("sdpa", "eager", …); its own choice unless given.

    Raises:
        ValueError: an unknown name, a target without a draft, tokenizers that encode differently, a model that cannot
            be decoded exactly, a draft that is none, or a device that this machine or this build of torch does not have.

    Example:
        >>> pair = load_pair("tiny")  # doctest: +SKIP
        >>> pair = load_pair("smollm2", draft="early-exit:10", dtype="float32")  # doctest: +SKIP
        >>> pair = load_pair(target="org/large", draft="org/small", device="cuda")  # doctest: +SKIP
    """
    how = Loading(dtype=dtype, device=device, device_map=device_map, attention=attention)
    if name == "smollm2":
        return _smollm2(target, "prompt-lookup" if draft is None else draft, how)
    if target is None:
        return _bundled(name, draft, how)
    if draft is None:
        raise ValueError(
            'target and draft must be given together; draft is missing: a folder, a Hub id, "prompt-lookup", '
            '"early-exit:k" or "eagle:FOLDER"'
        )
    return _pair(f"{target} + {draft}", target, str(target), draft, how)


def _pair(
    name: str,
    target: str | Path,
    source: str,
    draft: str | Path,
    how: Loading,
    messages: Iterable[str] = (),
    eagle: str | None = None,
) -> Pair:
    """Any target with anything that drafts for it. What is quick to refuse is refused before weights are read."""
    kind = _kind_of_draft(draft)
    tokenizer = load_tokenizer(target, "target")
    if kind is None:
        check_same_tokens(tokenizer, load_tokenizer(draft, "draft"), target, draft)
    model = load_model(target, "target", how)
    if kind is None:
        drafter, drafting = load_model(draft, "draft", how.beside(model)), str(draft)
    else:
        drafter, drafting = _drafter(kind, model, eagle)
    return Pair(
        name=name,
        target=model,
        draft=drafter,
        tokenizer=tokenizer,
        prompts=tuple(_chat_text(tokenizer, message) for message in messages if tokenizer.chat_template),
        eos_token_id=_end_tokens(model, tokenizer),
        sources={"target": source, "draft": drafting},
    )


def _bundled(name: str, draft: str | Path | None, how: Loading) -> Pair:
    if name not in BUNDLED:
        raise ValueError(f"name must be one of {', '.join(sorted([*BUNDLED, 'smollm2']))}, got {name!r}")
    kind = None if draft is None else _kind_of_draft(draft)
    if draft is not None and kind is None:
        raise ValueError(
            f"target and draft must be given together; target is missing, draft is {str(draft)!r}"
        )
    folder, own = ASSETS / BUNDLED[name][0], BUNDLED[name][1]
    tokenizer = load_tokenizer(folder, "name")
    model = load_model(folder / "target", "target", how)
    if kind is None:
        drafter, drafting = (
            load_model(folder / own, "draft", how.beside(model)),
            f"bundled {folder.name}/{own}",
        )
    else:
        drafter, drafting = _drafter(kind, model)
    return Pair(
        name=name if draft is None else f"{name} + {draft}",
        target=model,
        draft=drafter,
        tokenizer=tokenizer,
        prompts=tuple(json.loads((folder / "prompts.json").read_text(encoding="utf-8"))["prompts"]),
        eos_token_id=tokenizer.eos_token_id,
        sources={"target": f"bundled {folder.name}/target", "draft": drafting},
        card=json.loads((folder / "card.json").read_text(encoding="utf-8")),
    )


def _put_in_front(tokenizer: Any) -> list[int]:
    """What the tokenizer adds in front of a text: nothing, or a begin token."""
    for sample in ("a", "1", "the"):
        bare, whole = (tokenizer.encode(sample, add_special_tokens=special) for special in (False, True))
        if bare:  # a small vocabulary may have nothing for a sample
            places = range(len(whole) - len(bare) + 1)
            return next((whole[:at] for at in places if whole[at : at + len(bare)] == bare), [])
    return []


def _smollm2(folder: str | Path | None, draft: str | Path, how: Loading) -> Pair:
    from .smollm2 import HELP, MESSAGES, find_smollm2

    _kind_of_draft(draft)  # a misspelt one is refused before anything is converted
    found = find_smollm2(folder)
    try:
        return _pair(
            f"smollm2 + {draft}",
            found.path,
            f"SmolLM2-135M-Instruct, {found.kind}: {found.path}",
            draft,
            how.in_fastest_dtype(),
            messages=[message for turn in zip_longest(*MESSAGES.values()) for message in turn if message],
            eagle="smollm2",
        )
    except ValueError as error:
        if found.kind == "Hub" and isinstance(error.__cause__, OSError):
            raise ValueError(HELP) from error
        raise


def _kind_of_draft(draft: str | Path) -> tuple | None:
    """("prompt-lookup",), ("early-exit", layers), ("eagle", folder or None), or None for a model."""
    name, _, more = draft.partition(":") if isinstance(draft, str) else ("", "", "")
    if draft == "prompt-lookup":
        return (draft,)
    if name == "eagle":
        return name, more or None
    if name == "early-exit":
        if not (more.isascii() and more.isdecimal()):
            raise ValueError(
                f'draft must be "early-exit:k" with k the number of layers, such as "early-exit:8", got {draft!r}'
            )
        return name, int(more)
    return None


def _drafter(kind: tuple, target: Any, eagle: str | None = None) -> tuple[Any, str]:
    """Something that drafts for this target without a model of its own, and what it is, in words. `eagle` is the bundled
    EAGLE draft of this target, if there is one."""
    from specdec_lab.decoding.eagle import EagleDrafter
    from specdec_lab.decoding.early_exit import EarlyExitDrafter
    from specdec_lab.decoding.lookup import PromptLookupDrafter

    from .eagle import load_eagle

    name, *more = kind
    if name == "prompt-lookup":
        return PromptLookupDrafter(), "prompt lookup, which reads the text only"
    try:
        if name == "early-exit":
            layers = more[0]
            return EarlyExitDrafter(
                target, layers
            ), f"the target's first {layers} layers, its weights and its cache"
        folder = more[0] or eagle
        if folder is None:
            raise ValueError('no draft is bundled for this target: name its folder, "eagle:FOLDER"')
        return EagleDrafter(
            target, load_eagle(folder)
        ), f"EAGLE draft, {'bundled ' if folder == eagle else ''}{folder}"
    except ValueError as error:
        raise ValueError(f"draft {':'.join(str(x) for x in kind if x)!r} is not possible: {error}") from error


def _chat_text(tokenizer: Any, messages: str | list[dict[str, str]]) -> str:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


def _end_tokens(model: Any, tokenizer: Any) -> int | list[int] | None:
    """What the model's own generation ends at; chat models often have several."""
    found = getattr(model.generation_config, "eos_token_id", None)
    return tokenizer.eos_token_id if found is None else found


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
