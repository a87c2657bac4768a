"""Reading notebooks for tests: cells, tags, what was said, what prose repeats. It runs nothing."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
EXERCISES, SOLUTIONS = FOLDER / "exercises", FOLDER / "solutions"
NOTEBOOKS = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))  # the lessons
PRACTICE = sorted([*SOLUTIONS.glob("*.ipynb"), *EXERCISES.glob("*.ipynb")])
UNCOMPARED_TAGS = {"nbval-ignore-output", "nbval-skip", "nbval-check-output-false"}
ANCHOR = re.compile(r"([+\-−]?\d[\d,.]*\d|\d)(?:\s?(?:%|×))?<!-- ?say: ?([^>]+?) ?-->")


def name_of(path: Path) -> str:
    """For test ids, and what a notebook is called by: "02_the_kv_cache", "solutions/02_the_kv_cache"."""
    return path.relative_to(FOLDER).with_suffix("").as_posix()


def read(path: Path):
    """The notebook, format 4."""
    return nbformat.read(path, as_version=4)


def code_cells(notebook) -> list:
    """Code cells that are not empty."""
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def tags(cell) -> set[str]:
    """Tags of a cell."""
    return set(cell.metadata.get("tags", []))


def printed(cell) -> str:
    """All text that a cell shows: streams, plain text, HTML."""
    parts = []
    for output in cell.get("outputs", []):
        parts.append(output.get("text", ""))
        data = output.get("data", {})
        parts += [data.get("text/plain", ""), data.get("text/html", ""), data.get("text/markdown", "")]
    return "\n".join(part if isinstance(part, str) else "".join(part) for part in parts)


def sayings(notebook) -> list[tuple[str, str]]:
    """What `say` printed in the stored outputs: (name, number as printed without its unit), in order."""
    lines = [
        line
        for cell in code_cells(notebook)
        for output in cell.get("outputs", [])
        for line in output.get("text", "").splitlines()
    ]
    return [(match[1], match[2]) for line in lines if (match := re.fullmatch(r"(.+?) = (\S+)(?: .*)?", line))]


def said(notebook) -> dict[str, str]:
    """The same by name."""
    return dict(sayings(notebook))


def prose(notebook) -> list[str]:
    """Markdown with code, formulas, links and tables' rulers taken out."""
    texts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = re.sub(
                r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$|\]\([^)]*\)|<img[^>]*>",
                " ",
                cell.source,
                flags=re.S,
            )
            texts.append(text)
    return texts
