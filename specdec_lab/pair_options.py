"""The command-line options that say which pair and which prompts, shared by the commands that take any pair.

It reads and checks; it measures nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

DTYPES = ("float32", "bfloat16", "float16")
DRAFT = (
    'local folder or Hub id of the draft; or "prompt-lookup", "early-exit:k" for the target\'s first k layers, "eagle" or '
    '"eagle:FOLDER" for an EAGLE draft'
)


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """--pair, --target, --draft, --dtype, --device, --device-map, --attention, --threads, --chat."""
    parser.add_argument("--pair", help='a pair by name: "tiny", "tiny-weak" or "smollm2" (default: tiny)')
    parser.add_argument("--target", help="local folder or Hub id of the target, instead of --pair")
    parser.add_argument("--draft", help=f"{DRAFT} (default: the pair's own)")
    parser.add_argument(
        "--dtype", choices=DTYPES, help="of the weights (default: the pair's choice, mostly float32)"
    )
    parser.add_argument("--device", help="device for both models (default: cpu)")
    parser.add_argument("--device-map", help='"auto" spreads the target over all devices (needs accelerate)')
    parser.add_argument("--attention", help='attention implementation, such as "sdpa" or "eager"')
    parser.add_argument("--threads", type=int, help="CPU threads for torch (default: torch's own choice)")
    parser.add_argument("--chat", action="store_true", help="put your prompts into the model's chat template")


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """--prompts, --max-prompts, --max-new-tokens."""
    parser.add_argument("--prompts", type=Path, help="prompts: a JSON list of texts, or one text a line")
    parser.add_argument("--max-prompts", type=int, default=8, help="use the first so many (default: 8)")
    parser.add_argument("--max-new-tokens", type=int, default=96, help="tokens to add (default: 96)")


def read_texts(options: argparse.Namespace) -> list[str] | None:
    """The texts of --prompts, None without it. Checks what can be checked before a model is loaded."""
    if options.max_prompts < 1:
        raise ValueError(f"--max-prompts must be at least 1, got {options.max_prompts}")
    return None if options.prompts is None else read_prompts(options.prompts)


def load(options: argparse.Namespace) -> Any:
    """The pair."""
    if options.threads is not None and options.threads < 1:
        raise ValueError(f"--threads must be at least 1, got {options.threads}")
    if options.pair not in (None, "smollm2") and options.target is not None:
        raise ValueError(f"--target takes the place of --pair {options.pair}: give one of them")
    import torch

    from specdec_lab import load_pair

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    return load_pair(
        options.pair or "tiny",
        target=options.target,
        draft=options.draft,
        dtype=options.dtype,
        device=options.device,
        device_map=options.device_map,
        attention=options.attention,
    )


def load_with_prompts(options: argparse.Namespace, texts: list[str] | None) -> tuple[Any, list[list[int]]]:
    """The pair, and the prompts as ids: `texts`, or the pair's own."""
    pair = load(options)
    if texts is None and not pair.prompts:
        raise ValueError("--prompts FILE is needed: this pair brings no prompts of its own")
    if texts is None:
        return pair, pair.prompt_ids[: options.max_prompts]
    return pair, [encode(pair, text, options) for text in texts[: options.max_prompts]]


def encode(pair: Any, text: str, options: argparse.Namespace) -> list[int]:
    """A text of the user's → ids, as it stands or, with --chat, as what a user says to the model."""
    return pair.chat(text) if options.chat else pair.encode(text)


def read_prompts(path: Path) -> list[str]:
    """Texts of a prompts file: a JSON list of strings (".json"), or one text a line, empty lines skipped."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--prompts {path} cannot be read: {error}") from None
    if path.suffix == ".json":
        try:
            prompts = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"--prompts {path} is no JSON: {error}") from None
        if not isinstance(prompts, list) or not all(isinstance(item, str) and item for item in prompts):
            raise ValueError(f"--prompts {path} must hold a JSON list of texts, none of them empty")
    else:
        prompts = [line for line in text.splitlines() if line.strip()]
    if not prompts:
        raise ValueError(f"--prompts {path} holds no prompt")
    return prompts
