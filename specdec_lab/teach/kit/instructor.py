"""The instructor's notes as pages: `instructor/*.md` beside the lessons, where there are any. It writes none of them.

A note of a lesson has the lesson's name. Where it says `cell: NAME`, the page leads to that cell of the lesson.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from .lessons import NOT_SHOWN
from .render import Renderer

FOLDER = "instructor"
CELL = re.compile(r"<code>cell: ([^<]+)</code>")
HEADING = re.compile(r'<h(\d) id="([^"]*)">')


@dataclass(frozen=True)
class Notes:
    """Notes for whoever teaches: what they are called by ("instructor/03_draft_and_verify"), their title, and their Markdown."""

    name: str
    title: str
    text: str


def read_notes(notebooks: Path) -> list[Notes]:
    """All notes beside the lessons, in the order of their names."""
    found = []
    for path in sorted((notebooks / FOLDER).glob("*.md")):
        text = path.read_text(encoding="utf-8")
        title = re.search(r"^# (.+)$", text, flags=re.M)
        found.append(Notes(f"{FOLDER}/{path.stem}", title[1] if title else path.stem, text))
    return found


def places(notes: list[Notes]) -> dict[str, str]:
    """Where links to notes lead in the kit, and those from notes to whole folders of the course."""
    folders = {"exercises": "index.html#lessons", "solutions": "index.html#lessons"}
    return folders | {f"{one.name}.md": f"{one.name}.html" for one in notes}


def body_of(note: Notes, renderer: Renderer, lesson_page: str | None) -> str:
    """HTML of notes. `renderer` must have been told the place; `lesson_page` is the lesson's, as the page reaches it."""
    html = renderer.markdown(note.text)
    if lesson_page is not None:
        html = CELL.sub(lambda match: cell_link(match[1], lesson_page), html)
    return HEADING.sub(lambda match: f'<h{match[1]} id="{anchor(unescape(match[2]))}">', html)


def cell_link(name: str, lesson_page: str) -> str:
    """A link to a cell of a lesson's page, where the page shows it."""
    code = f"<code>{name}</code>"
    return code if name in NOT_SHOWN else f'<a href="{lesson_page}#cell-id={name}">{code}</a>'


def anchor(name: str) -> str:
    """The name of a heading as Markdown files are linked to: small letters, no punctuation."""
    return re.sub(r"[^\w-]", "", name.lower())
