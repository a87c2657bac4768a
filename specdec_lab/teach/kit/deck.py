"""A deck from a notebook, by rule, because notebooks say nothing about slides.

- Every `##` opens a column of slides; right leads to the next column, down through the details of one.
- Within a column each text cell, each picture and each player has a slide of its own; printed text stays with the text before it.
- A question stands alone, and what is folded below it comes one slide down, and in the question's speaker notes.
- A paragraph too long to be read from the back row goes to the speaker notes if its slide has something else to show.
- Code is kept aside: a key shows that of the slide. Only a section that is nothing but code shows it.

How much fits on a slide is not known here: `static/deck.js` measures, and moves the rest one slide down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import nbformat
from bs4 import BeautifulSoup, Tag

from .lessons import Lesson
from .render import Renderer

LONG = 260  # characters of a paragraph; more is for the speaker
TEXT, PICTURE, STAGE = "text", "picture", "stage"
QUESTION = re.compile(r"^\s*<p>\s*<strong>\s*Question")


@dataclass
class Slide:
    """One slide.

    Attributes:
        heading: HTML of its heading.
        top: whether it is the first of the deck.
        kind: "text", "picture" or "stage" (something that is played).
        blocks: HTML, one block after another; of a picture, its sentence.
        picture: HTML of the picture or the player.
        notes: HTML for the speaker.
        code: coloured HTML of the code behind it.
    """

    heading: str
    top: bool = False
    kind: str = TEXT
    blocks: list[str] = field(default_factory=list)
    picture: str = ""
    notes: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def empty(self) -> bool:
        return not (self.blocks or self.picture)


def deck_of(lesson: Lesson, renderer: Renderer) -> list[list[Slide]]:
    """The columns of a deck. `renderer` must have been told the place of the deck."""
    maker = _Maker(renderer)
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            maker.text(cell.source)
        elif cell.cell_type == "code":
            maker.code(cell)
    return [column for column in map(tidied, maker.columns) if column]


class _Maker:
    """Puts cell after cell on slides."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self.columns: list[list[Slide]] = []

    def text(self, source: str) -> None:
        """A Markdown cell."""
        parts = parts_of(self._renderer.markdown(source))
        for number, part in enumerate(parts):
            if part.name in ("h1", "h2") or not self.columns:
                self._column(part)
                if part.name in ("h1", "h2"):
                    continue
            if number == 0 or part.name in ("h3", "h4") or QUESTION.match(str(part)):
                self._fresh()
            if part.name == "details":
                self._folded(part)
                continue
            slide = self._open()
            for fold in part.find_all("details"):
                if fold.find_parent("details") is None:
                    slide.notes.append(f"<div>{fold.decode_contents()}</div>".replace("<details", "<div"))
            for fold in part.find_all("details"):
                fold.extract()
            slide.blocks.append(str(part))

    def code(self, cell: Any) -> None:
        """A code cell: its outputs on slides, its code behind the first of them."""
        code = self._renderer.code(cell.source)
        outputs = [] if cell.id == "setup" else list(shown(cell))
        first: Slide | None = None
        for kind, output in outputs:
            html = self._renderer.output(cell, output)
            if kind in (PICTURE, STAGE):
                slide = self._new(kind)
                slide.picture = html
            elif html_of(output).startswith("<p>") and self._last.kind == PICTURE and first is not None:
                slide = self._last
                slide.blocks.append(html)
            else:
                slide = self._open()
                slide.blocks.append(html)
            first = first or slide
        (first or self._open()).code.append(code)

    def _column(self, part: Tag) -> None:
        heading = part.decode_contents() if part.name in ("h1", "h2") else ""
        self.columns.append([Slide(heading, top=not self.columns)])

    @property
    def _last(self) -> Slide:
        return self.columns[-1][-1]

    def _new(self, kind: str = TEXT) -> Slide:
        """A slide below the last; an empty one is used up first."""
        if self._last.empty and not self._last.code and not self._last.closed:
            self._last.kind = kind
            return self._last
        self.columns[-1].append(Slide(self._last.heading, kind=kind))
        return self._last

    def _fresh(self) -> None:
        """What comes next does not stand beside what is there."""
        if not self._last.empty:
            self._last.closed = True

    def _open(self) -> Slide:
        """A slide that takes text."""
        return self._new() if self._last.kind != TEXT or self._last.closed else self._last

    def _folded(self, fold: Tag) -> None:
        """Each folded text one slide below, one inside another too, and all of them in the notes of the slide above."""
        above = self._last
        while fold is not None:
            inner = fold.find("details")
            inner = inner.extract() if inner else None
            summary = fold.find("summary")
            name = summary.extract().decode_contents() if summary else "Answer"
            self._fresh()
            slide = self._open()
            slide.blocks += [f"<h3>{name}</h3>", *map(str, children(fold))]
            above.notes.append(f"<div><strong>{name}</strong> {fold.decode_contents()}</div>")
            fold = inner
        self._fresh()


def tidied(column: list[Slide]) -> list[Slide]:
    """A column without slides that show nothing; long paragraphs are with the speaker."""
    kept: list[Slide] = []
    left: list[str] = []
    for slide in column:
        long = [text for text in slide.blocks if slide.kind == TEXT and is_long(text)]
        if long and len(long) < len(slide.blocks) and not slide.top:
            slide.notes = [*long, *slide.notes]
            slide.blocks = [text for text in slide.blocks if text not in long]
        slide.code = [*left, *slide.code]
        left = []
        if not slide.empty:
            kept.append(slide)
        elif kept:
            kept[-1].code += slide.code
        else:
            left = slide.code
    if not kept and left:
        column[0].blocks, column[0].code = left, []
        kept = [column[0]]
    return kept


def is_long(block: str) -> bool:
    """Whether a block is a paragraph for the speaker."""
    return block.startswith("<p>") and len(re.sub(r"<[^>]+>", "", block)) > LONG


def parts_of(html: str) -> list[Tag]:
    """The outermost elements of rendered Markdown."""
    return children(BeautifulSoup(html, "html.parser"))


def children(element: Tag) -> list[Tag]:
    """The elements in an element; bare text becomes a paragraph."""
    found = []
    for part in element.children:
        if isinstance(part, Tag):
            found.append(part)
        elif (
            str(part).strip()
            and not str(part).lstrip().startswith("<!--")
            and type(part).__name__ != "Comment"
        ):
            found.append(BeautifulSoup(f"<p>{part}</p>", "html.parser").p)
    return found


def shown(cell: Any) -> Iterator[tuple[str, Any]]:
    """Outputs that a lecture shows, and as what. The error of an exercise that nobody has solved yet is none."""
    for output in cell.get("outputs", []):
        if output.output_type == "error" and "exercise" in cell.metadata.get("tags", []):
            continue
        if output.output_type == "stream":
            output = nbformat.from_dict({**output, "text": output.text.rstrip()})
        html = html_of(output)
        if ("image/png" in output.get("data", {}) and not html) or "<img" in html:
            yield PICTURE, output
        elif "<script" in html:
            yield STAGE, output
        else:
            yield TEXT, output


def html_of(output: Any) -> str:
    """The HTML of an output, or ""."""
    return "".join(output.get("data", {}).get("text/html", "")).strip()
