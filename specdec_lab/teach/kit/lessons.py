"""Notebooks as the kit sees them: name, title, minutes, goals, and where their links lead. It renders nothing.

What it says about a notebook stands in the notebook's own first cell; nothing is kept in a second place.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

KINDS = ("", "exercises", "solutions")  # folders below that of the lessons
TO_A_FILE = re.compile(r"\[([^\]]*)\]\((?![a-z]+:)([^)\s#]+\.(?:ipynb|md))(?:#[^)\s]*)?\)")
NOT_SHOWN = ("colab", "install")  # cells that install the package: a page runs nothing


class KitError(ValueError):
    """A kit that cannot be built; the sentence says where, what was found, and what would be right."""


@dataclass(frozen=True)
class Lesson:
    """A notebook that has been run.

    Attributes:
        name: what it is called by, without suffix: "03_draft_and_verify", "exercises/03_draft_and_verify".
        title: its first heading.
        summary: the paragraph behind the heading, Markdown.
        minutes: how long it takes.
        goals: what a reader will be able to do, Markdown, one string each; exercises have none.
        notebook: the notebook itself, format 4.
    """

    name: str
    title: str
    summary: str
    minutes: int
    goals: tuple[str, ...]
    notebook: Any

    @property
    def kind(self) -> str:
        """ "", "exercises" or "solutions"."""
        return posixpath.dirname(self.name)

    @property
    def base(self) -> str:
        """The name without its folder, by which a lesson finds its exercises."""
        return posixpath.basename(self.name)

    @property
    def cells(self) -> list[Any]:
        """The cells that readers see: neither those that install nor empty ones."""
        return [cell for cell in self.notebook.cells if cell.id not in NOT_SHOWN and cell.source.strip()]


def read_lessons(folder: Path) -> list[Lesson]:
    """All notebooks of a folder, lessons first, then exercises, then solutions, each in the order of their names."""
    found = [
        read_lesson(path, f"{kind}/{path.stem}".lstrip("/"))
        for kind in KINDS
        for path in sorted((folder / kind).glob("[0-9][0-9]_*.ipynb"))
    ]
    if not any(lesson.kind == "" for lesson in found):
        raise KitError(
            f"notebooks={str(folder)!r} holds no lesson: a folder with files NN_name.ipynb is wanted"
        )
    lessons = {lesson.base for lesson in found if lesson.kind == ""}
    for lesson in found:
        if lesson.base not in lessons:
            raise KitError(f"{lesson.name} belongs to no lesson: there is no {lesson.base}.ipynb above it")
    return found


def read_lesson(path: Path, name: str) -> Lesson:
    """One notebook. `KitError` if it has not been run, or if its first cell lacks title, summary or minutes."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.strip() and cell.execution_count is None:
            raise KitError(f"{name}: cell {cell.id!r} has not been run; store the notebook with its outputs")
    first = notebook.cells[0].source if notebook.cells else ""
    title = re.match(r"# (.+)\n+((?:.+\n?)+)", first)
    if not title:
        raise KitError(
            f"{name}: the first cell must begin with '# Title' and a paragraph, it begins {first[:60]!r}"
        )
    minutes = re.search(r"\b(\d+) minutes\b", first)
    if not minutes:
        raise KitError(f"{name}: the first cell must say how long it takes, as in '30 minutes'")
    return Lesson(
        name, title[1].strip(), " ".join(title[2].split()), int(minutes[1]), tuple(bullets(first)), notebook
    )


def bullets(text: str) -> list[str]:
    """The items of the bullet lists of a Markdown text, each on one line."""
    items = re.findall(r"^- (.+(?:\n +.+)*)", text, flags=re.M)
    return [" ".join(item.split()) for item in items]


class Links:
    """Where a link in a notebook leads in the kit.

    Args:
        names: of all notebooks.
        pages: folder of their pages in the kit.
        others: files outside the notebooks, as the lessons reach them ("../README.md"), and what stands for them in the kit.
        left_out: names of notebooks that are not in this kit, though links lead to them.
    """

    def __init__(
        self, names: list[str], pages: str, others: Mapping[str, str], left_out: Collection[str] = ()
    ) -> None:
        self._names, self._pages, self._others = set(names), pages, dict(others)
        self._left_out = set(left_out)

    def rewritten(self, url: str, name: str, page: str) -> str | None:
        """The link `url` of the notebook `name`, as the file `page` of the kit has to say it; None if it is to be words only.

        `KitError` for a link to nothing.
        """
        if re.match(r"[a-z][a-z0-9+.-]*:|#", url, flags=re.I):
            return url
        path, mark, anchor = url.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if target in self._others:
            place = self._others[target]
            return relative(place if "#" in place else place + mark + anchor, page)
        stem = target.removesuffix(".ipynb")
        if stem in self._left_out:
            return None
        if stem == target or stem not in self._names:
            raise KitError(f"{name}: the link {url!r} leads to nothing; a notebook of the kit is wanted")
        return relative(f"{self._pages}/{stem}.html", page) + mark + anchor

    def of_a_notebook(self, text: str, name: str) -> str:
        """The Markdown `text` of the notebook `name` for the kit's own notebooks: links to files that are not among them become words."""

        def kept(match: re.Match) -> str:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2]))
            return match[0] if target.removesuffix(".ipynb") in self._names else match[1]

        return TO_A_FILE.sub(kept, text)


def relative(target: str, page: str) -> str:
    """The path from one file of the kit to another, both relative to the kit."""
    path, mark, anchor = target.partition("#")
    return posixpath.relpath(path, posixpath.dirname(page) or ".") + mark + anchor
