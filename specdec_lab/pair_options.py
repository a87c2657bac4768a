"""The command-line options that say which pair and which prompts, shared by the commands that take any pair.

It reads and checks; it measures nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

DTYPES = ("float32", "bfloat16", "float16")


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """--pair, --target, --draft, --prompts, --max-prompts, --max-new-tokens, --dtype, --device, --threads."""
    parser.add_argument("--pair", default="tiny", help='bundled pair: "tiny" or "tiny-weak" (default: tiny)')
    parser.add_argument("--target", help="local folder or Hub id of the target, instead of --pair")
    parser.add_argument("--draft", help="local folder or Hub id of the draft, with --target")
    parser.add_argument("--prompts", type=Path, help="prompts: a JSON list of texts, or one text a line")
    parser.add_argument("--max-prompts", type=int, default=8, help="use the first so many (default: 8)")
    parser.add_argument("--max-new-tokens", type=int, default=96, help="tokens to add (default: 96)")
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="of the weights (default: float32)"
    )
    parser.add_argument("--device", help="device for both models (default: cpu)")
    parser.add_argument("--threads", type=int, help="CPU threads for torch (default: torch's own choice)")


def read_texts(options: argparse.Namespace) -> list[str] | None:
    """The texts of --prompts, None without it. Checks what can be checked before a model is loaded."""
    if options.max_prompts < 1:
        raise ValueError(f"--max-prompts must be at least 1, got {options.max_prompts}")
    if options.threads is not None and options.threads < 1:
        raise ValueError(f"--threads must be at least 1, got {options.threads}")
    return None if options.prompts is None else read_prompts(options.prompts)


def load(options: argparse.Namespace, texts: list[str] | None) -> tuple[Any, list[list[int]]]:
    """The pair, and the prompts as ids: `texts`, or the pair's own."""
    import torch

    from specdec_lab import load_pair

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    pair = load_pair(
        options.pair,
        target=options.target,
        draft=options.draft,
        dtype=getattr(torch, options.dtype),
        device=options.device,
    )
    texts = list(pair.prompts) if texts is None else texts
    if not texts:
        raise ValueError("--prompts FILE is needed: this pair brings no prompts of its own")
    return pair, [pair.encode(text) for text in texts[: options.max_prompts]]


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
