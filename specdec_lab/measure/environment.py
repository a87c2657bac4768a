"""What this machine has, in words: what is wrong, and what to do. Needs nothing but Python to run.

It checks and reports; it changes nothing and loads no model.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from specdec_lab import __version__
from specdec_lab.files import ASSETS

OK, NOTE, WRONG = "ok", "note", "wrong"
BUNDLED = ("tiny", "tiny-medusa", "tiny-streams", "smollm2-eagle")


@dataclass(frozen=True)
class Finding:
    """One checked thing: "ok", "note" (works, but know this) or "wrong"; a sentence, and what to do."""

    level: str
    subject: str
    sentence: str
    remedy: str = ""


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide what is measured."""
    return {"python": platform.python_version(), "specdec_lab": __version__} | {
        package: installed_version(package) or "not installed" for package in ("torch", "transformers")
    }


def stamp(model: Any) -> dict[str, Any]:
    """What a measurement depends on: device, dtype, threads, versions, machine."""
    import torch

    from specdec_lab.models.protocol import model_device, model_dtype

    return {
        "device": str(model_device(model)),
        "dtype": str(model_dtype(model) or "unknown").removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def installed_version(package: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def examine() -> list[Finding]:
    """Every check, in the order in which a newcomer would meet the problems."""
    return [
        _python(),
        _torch(),
        _threads(),
        _transformers(),
        _assets(),
        _smollm2(),
        *_optional(),
        _terminal(),
    ]


def _python() -> Finding:
    return Finding(
        OK, "Python", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}."
    )


def _torch() -> Finding:
    try:
        torch = importlib.import_module("torch")
    except Exception as error:  # a broken install fails in many ways; all of them are the finding
        return Finding(
            WRONG,
            "torch",
            f"torch cannot be imported ({type(error).__name__}: {error}).",
            "Run: pip install -r requirements.txt",
        )
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices.append(f"cuda ({torch.cuda.get_device_name(0)})")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return Finding(OK, "torch", f"torch {torch.__version__}; devices: {', '.join(devices)}.")


def _threads() -> Finding:
    cores = os.cpu_count() or 1
    torch = sys.modules.get("torch")
    if torch is None:
        return Finding(NOTE, "threads", f"{cores} CPU cores; torch is not there to use them.")
    threads = torch.get_num_threads()
    sentence = f"torch uses {threads} threads on {cores} CPU cores."
    if threads > cores:
        return Finding(NOTE, "threads", sentence, f"Timings suffer: set OMP_NUM_THREADS={cores}.")
    return Finding(OK, "threads", sentence)


def _transformers() -> Finding:
    try:
        transformers = importlib.import_module("transformers")
    except Exception as error:
        return Finding(
            WRONG,
            "transformers",
            f"transformers cannot be imported ({type(error).__name__}: {error}).",
            "Run: pip install -r requirements.txt",
        )
    if int(transformers.__version__.split(".")[0]) < 5:
        return Finding(
            WRONG,
            "transformers",
            f"transformers {transformers.__version__} is too old: its caches have another interface.",
            "Run: pip install -r requirements.txt",
        )
    return Finding(OK, "transformers", f"transformers {transformers.__version__}.")


def _assets() -> Finding:
    again, count = "Install the package again: pip install --force-reinstall .", 0
    for folder in BUNDLED:
        card = ASSETS / folder / "card.json"
        if not card.exists():
            return Finding(WRONG, "bundled weights", f"The weights in {folder} are missing.", again)
        for name, digest in json.loads(card.read_text(encoding="utf-8"))["sha256"].items():
            file, count = card.parent / name, count + 1
            if not file.exists():
                return Finding(WRONG, "bundled weights", f"{name} is missing in {folder}.", again)
            if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
                sentence = f"{name} in {folder} is not the file that was shipped (sha256 differs)."
                return Finding(WRONG, "bundled weights", sentence, again)
    return Finding(OK, "bundled weights", f"{count} files, all as shipped; no network is needed.")


def _smollm2() -> Finding:
    from specdec_lab.models.smollm2 import INSTALL, PACKAGE, look_for_smollm2

    place = look_for_smollm2()
    if place is None:
        return Finding(NOTE, "SmolLM2", "the chat model SmolLM2 is not here.", f"To get it: {INSTALL}")
    if place == "package" and installed_version("gguf") is None:
        sentence = f"{PACKAGE} is installed, the package gguf that reads it is not."
        return Finding(NOTE, "SmolLM2", sentence, "Run: pip install gguf")
    return Finding(OK, "SmolLM2", f"the chat model SmolLM2 comes from the {place}.")


def _optional() -> list[Finding]:
    findings = []
    for package, use in (
        ("jupyterlab", "notebooks"),
        ("ipywidgets", "sliders"),
        ("matplotlib", "pictures"),
        ("accelerate", "targets spread over several devices"),
    ):
        version = installed_version(package)
        if version is None:
            findings.append(
                Finding(
                    NOTE,
                    package,
                    f"{package} is not installed.",
                    f"For {use}: pip install -r requirements.txt",
                )
            )
        else:
            findings.append(Finding(OK, package, f"{package} {version}, for {use}."))
    return findings


def _terminal() -> Finding:
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    try:
        "✓✗→↵␣γατ".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return Finding(
            NOTE,
            "terminal",
            f"The terminal's encoding is {encoding}; ASCII marks are used.",
            "For the real ones set PYTHONIOENCODING=utf-8.",
        )
    return Finding(OK, "terminal", f"The terminal prints {encoding}.")
