"""`python tests/notebooks/stamp.py [--check] [FILE ...]`: writes the Colab line and the install cell into notebooks.

The one place for what they say is pyproject.toml: the version, and `repository` in `[tool.specdec_lab]`, an address
such as https://github.com/OWNER/NAME, or "" while there is none. With an address notebooks get a badge that opens them
on Colab, and the cell installs the tag `vVERSION` from it; without one the line says how to use an upload or a fork.

The two cells stand behind the title and have the ids "colab" and "install". Nothing else changes, except that the
execution counts of a notebook that has been run go on from 1 to n. It runs no notebook: `store.py` does.
"""

from __future__ import annotations

import argparse
import copy
import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import nbformat

sys.path.insert(0, str(Path(__file__).parent))
from reading import NOTEBOOKS, PRACTICE, ROOT, code_cells

README = "On your own machine [the README]({up}README.md) installs specdec_lab in one command"
WITH_ADDRESS = """\
[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]\
(https://colab.research.google.com/github/{repository}/blob/v{version}/{path})

*{readme}. On Colab the next cell does, and leaves torch as it is.*"""
WITHOUT_ADDRESS = """\
*{readme}. On Colab put a wheel or zip of it into the files on the left, or the address of your fork into `source`, and \
run the next cell: it leaves torch as it is.*"""
INSTALL = """\
# @title Install specdec_lab where it is missing
# Where it is installed, this does nothing. torch, numpy and ipywidgets stay as they are, or pip says why it cannot.
from glob import glob
from importlib.metadata import version
from importlib.util import find_spec

source = "{source}"  # @param {{"type": "string", "placeholder": "git+https://github.com/YOU/specdec_lab, or a wheel or zip"}}
spec = find_spec("specdec_lab")
if spec is None or spec.origin is None:  # a folder of that name alone is no package
    source = source or "".join(glob("specdec_lab*.whl")[:1] or glob("specdec_lab*.zip")[:1])
    if not source:
        raise ImportError("write into `source` where specdec_lab is, or put its wheel or zip into the files")
    there = [name for name in ("torch", "numpy", "ipywidgets") if find_spec(name)]
    kept = " ".join(f"{{name}}=={{version(name)}}" for name in there)
    get_ipython().run_line_magic("pip", f'install -q "{{source}}" {{kept}}')"""


class Place(NamedTuple):
    """Where the project is to be had: `repository` is "OWNER/NAME" on GitHub, or "" while it is nowhere."""

    repository: str
    version: str


def place(pyproject: Path = ROOT / "pyproject.toml") -> Place:
    """What pyproject.toml says. `ValueError` for an address that Colab could not open."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    address = project["tool"]["specdec_lab"]["repository"]
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git|/)?", address)
    if address and not match:
        raise ValueError(f"repository must be https://github.com/OWNER/NAME or empty, got {address!r}")
    return Place(match[1] if match else "", project["project"]["version"])


def stamped(notebook, path: str, where: Place):
    """A copy of the notebook with both cells as they have to be; `path` is the notebook's in the repository."""
    notebook = copy.deepcopy(notebook)
    repository, release = where
    line = (WITH_ADDRESS if repository else WITHOUT_ADDRESS).format(
        readme=README.format(up="../" * path.count("/")), repository=repository, version=release, path=path
    )
    source = f"git+https://github.com/{repository}@v{release}" if repository else ""
    others = [cell for cell in notebook.cells if cell.id not in ("colab", "install")]
    ran = any(cell.execution_count for cell in code_cells(notebook))
    notebook.cells = [
        others[0],
        nbformat.v4.new_markdown_cell(line, id="colab"),
        nbformat.v4.new_code_cell(INSTALL.format(source=source), id="install"),
        *others[1:],
    ]
    if ran:
        for count, cell in enumerate(code_cells(notebook), 1):
            cell.execution_count = count
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = count
    return notebook


def main(arguments: list[str]) -> int:
    """Stamp in place; with `--check` only name the notebooks that would change, and return how many."""
    parser = argparse.ArgumentParser(
        prog="stamp.py", description="write the Colab line and the install cell into notebooks"
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if something would change"
    )
    parser.add_argument("files", nargs="*", type=Path, help="notebooks of this repository; default: all")
    options = parser.parse_args(arguments)
    where, changed = place(), 0
    for path in options.files or [*NOTEBOOKS, *PRACTICE]:
        before = path.read_text(encoding="utf-8")
        notebook = stamped(
            nbformat.reads(before, as_version=4), path.resolve().relative_to(ROOT).as_posix(), where
        )
        nbformat.validate(notebook)
        if nbformat.writes(notebook).rstrip("\n") == before.rstrip("\n"):
            continue
        changed += 1
        print(path.name)
        if not options.check:
            nbformat.write(notebook, path)
    return changed if options.check else 0


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
