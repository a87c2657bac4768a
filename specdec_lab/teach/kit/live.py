"""Live-coding copies: headings and code of a notebook, checks included, without prose and outputs.

For the lecturer's own kernel: what is said aloud is not on the screen, and nothing gives a result away before its cell has run.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

from .lessons import Lesson

HEADING = re.compile(r"^#{1,6} .+$", flags=re.M)
FENCE = re.compile(r"^ *```.*?^ *```", flags=re.M | re.S)


def live_copy(lesson: Lesson):
    """The copy. Cells keep their ids and tags; a text cell keeps its headings, and one without any is left out."""
    notebook = nbformat.from_dict(lesson.notebook)
    kept = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        else:
            cell.source = "\n\n".join(HEADING.findall(FENCE.sub("", cell.source)))
        if cell.source.strip():
            kept.append(cell)
    notebook.cells = kept
    return notebook


def write_live_copy(lesson: Lesson, folder: Path) -> Path:
    """Write the copy to `folder`/NAME.ipynb; its path."""
    path = folder / f"{lesson.name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = live_copy(lesson)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)
    return path
