"""The instructor's notes as pages: `instructor/*.md` beside the lessons, where there are any. It writes none of them.

A note of a lesson has the lesson's name. Where it says `cell: NAME`, or `03 cell: NAME` for another lesson, the page leads to
that cell of the lesson and to its slide; where it says so below "### 15 minutes", the slide belongs to that cut.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from .lessons import NOT_SHOWN, relative
from .render import Renderer

FOLDER = "instructor"
CELL = re.compile(r"<code>(?:(\d\d) )?cell: ([^<]+)</code>")
SHORT_CUTS = (15, 45)  # minutes; their slides are marked
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


def cuts_of(note: Notes) -> dict[int, set[str]]:
    """The cells that each of the short cuts of a lesson's notes names: minutes → ids."""
    cuts = {}
    for minutes in SHORT_CUTS:
        part = re.search(rf"^### {minutes} minutes\n(.*?)(?=^##|\Z)", note.text, flags=re.M | re.S)
        cuts[minutes] = set(re.findall(r"`cell: ([^`]+)`", part[1])) if part else set()
    return cuts


def body_of(note: Notes, renderer: Renderer, lessons: Collection[str]) -> str:
    """HTML of notes. `renderer` must have been told the place; `lessons` are the names of those in the kit."""
    own = note.name.partition("/")[2]

    def link(match: re.Match) -> str:
        number, cell = match.groups()
        begins = f"{number}_" if number else own
        lesson = next((name for name in lessons if name.startswith(begins)), None)
        return (
            cell_link(cell, lesson, f"{note.name}.html", f"{number} " if number else "")
            if lesson
            else match[0]
        )

    html = CELL.sub(link, renderer.markdown(note.text))
    return HEADING.sub(lambda match: f'<h{match[1]} id="{anchor(unescape(match[2]))}">', html)


def cell_link(name: str, lesson: str, page: str, words: str = "") -> str:
    """Links from `page` to a cell of a lesson's page and of its deck, where these show it; `words` stand before its name."""
    code = f"<code>{words}{name}</code>"
    if name in NOT_SHOWN:
        return code
    cell = relative(f"lessons/{lesson}.html#cell-id={name}", page)
    slide = relative(f"slides/{lesson}.html#/{name}", page)
    return f'<a href="{cell}">{code}</a> <a class="slide" href="{slide}" aria-label="slide of {words}{name}">slide</a>'


def anchor(name: str) -> str:
    """The name of a heading as Markdown files are linked to: small letters, no punctuation."""
    return re.sub(r"[^\w-]", "", name.lower())
