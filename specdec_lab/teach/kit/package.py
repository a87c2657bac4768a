"""What the kit holds besides lessons: the package's wheel, and its reference. Both are made in processes of their own.

The wheel is built from a copy, so that the source folder stays as it is. Nothing is downloaded: setuptools builds, pdoc reads.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from .lessons import KitError

WHEEL = "from setuptools import build_meta; print(build_meta.build_wheel({folder!r}))"
FILES = ("pyproject.toml", "README.md", "LICENSE", "LICENSE-prose")


def version_of(source: Path) -> str:
    """The version in pyproject.toml. `KitError` where there is none."""
    path = source / "pyproject.toml"
    if not path.is_file():
        raise KitError(
            f"source={str(source)!r} has no pyproject.toml; name the project's folder with --source"
        )
    return tomllib.loads(path.read_text(encoding="utf-8"))["project"]["version"]


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of the project in `source`; its path in `folder`."""
    version_of(source)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "source"
        shutil.copytree(
            source / "specdec_lab", copy / "specdec_lab", ignore=shutil.ignore_patterns("__pycache__")
        )
        for name in FILES:
            shutil.copy(source / name, copy)
        run([sys.executable, "-c", WHEEL.format(folder=str(folder.resolve()))], copy, "the wheel")
    made = list(folder.glob("*.whl"))
    if len(made) != 1:
        raise KitError(f"one wheel was to be built, there are {[path.name for path in made]}")
    return made[0]


def build_reference(source: Path, folder: Path, module: str = "specdec_lab") -> None:
    """Write the reference of a package, made from its docstrings, to `folder`. It imports the package, in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("reference.py")), module, str(folder.resolve())]
    run(command, source, "the reference")


def run(command: list[str], folder: Path, what: str) -> None:
    """Run a command in a folder without a network; `KitError` with its last lines if it fails."""
    kept = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(folder.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=os.environ | kept, capture_output=True, text=True)
    if done.returncode:
        raise KitError(f"{what} could not be made:\n{(done.stdout + done.stderr).strip()[-2000:]}")
