"""A deck from a notebook, by rule, because notebooks say nothing about slides.

- Every `##` opens a column of slides; right leads to the next column, down through the details of one.
- Within a column each text cell, each picture and each player has a slide of its own; printed text stays with the text before it.
- A question stands alone, and what is folded below it comes one slide down, whole, and in the question's speaker notes.
- A paragraph too long to be read from the back row goes to the speaker notes if its slide has something else to show.
- A picture has the room: a caption has two lines, the rest of it is with the speaker; a tall picture has two slides.
- Code is kept aside: a key shows that of the slide. It is shown where a section is nothing but code, and where a function
  is to be written, in place of its error.
- A slide can be reached by the id of each cell that begins on it, or has its picture on it, and is marked with the
  instructor's short cuts.

How much fits on a slide is not known here: `static/deck.js` measures, and moves the rest one slide down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import nbformat
from bs4 import BeautifulSoup, Tag

from .lessons import Lesson
from .pictures import halves
from .render import Renderer

LONG = 260  # characters of a paragraph; more is for the speaker
CAPTION = 170  # characters of a caption: two lines
TEXT, PICTURE, STAGE = "text", "picture", "stage"
QUESTION = re.compile(r"^\s*<p>\s*<strong>\s*Question")


@dataclass
class Slide:
    """One slide.

    Attributes:
        heading: HTML of its heading.
        top: whether it is the first of the deck.
        kind: "text", "picture" or "stage" (something that is played).
        blocks: HTML, one block after another; of a picture, its caption.
        picture: HTML of the picture or the player.
        notes: HTML for the speaker.
        code: coloured HTML of the code behind it.
        cells: ids of the cells that it is made of.
        names: those of them that begin with it: its addresses.
        cuts: minutes of the instructor's cuts that name one of its cells.
        whole: whether long paragraphs stay on it.
    """

    heading: str
    top: bool = False
    kind: str = TEXT
    blocks: list[str] = field(default_factory=list)
    picture: str = ""
    notes: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    whole: bool = False
    closed: bool = False

    @property
    def empty(self) -> bool:
        return not (self.blocks or self.picture)

    def take(self, other: Slide, *, before: bool) -> None:
        """Take over what lies behind a slide that shows nothing."""
        for kind in ("code", "cells", "names"):
            mine, theirs = getattr(self, kind), getattr(other, kind)
            setattr(self, kind, [*theirs, *mine] if before else [*mine, *theirs])


def deck_of(
    lesson: Lesson, renderer: Renderer, cuts: Mapping[int, set[str]] | None = None
) -> list[list[Slide]]:
    """The columns of a deck. `renderer` must have been told the place of the deck; `cuts`: minutes → ids of cells."""
    maker = _Maker(renderer)
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            maker.text(cell)
        elif cell.cell_type == "code":
            maker.code(cell)
    columns = [column for column in map(tidied, maker.columns) if column]
    for slide in (one for column in columns for one in column):
        slide.cuts = [minutes for minutes, cells in (cuts or {}).items() if cells & set(slide.cells)]
    return columns


class _Maker:
    """Puts cell after cell on slides."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self.columns: list[list[Slide]] = []
        self._placed: set[str] = set()  # cells that have an address

    def text(self, cell: Any) -> None:
        """A Markdown cell."""
        parts = parts_of(self._renderer.markdown(cell.source))
        for number, part in enumerate(parts):
            if part.name in ("h1", "h2") or not self.columns:
                self._column(part)
                self._enter(self._last, cell)
                if part.name in ("h1", "h2"):
                    continue
            if number == 0 or part.name in ("h3", "h4") or QUESTION.match(str(part)):
                self._fresh()
            if part.name == "details":
                self._folded(part, cell)
                continue
            slide = self._enter(self._open(), cell)
            for fold in part.find_all("details"):
                if fold.find_parent("details") is None:
                    slide.notes.append(f"<div>{fold.decode_contents()}</div>".replace("<details", "<div"))
            for fold in part.find_all("details"):
                fold.extract()
            slide.blocks.append(str(part))

    def code(self, cell: Any) -> None:
        """A code cell: its outputs on slides, its code behind the first of them. Code that is to be completed is shown."""
        code = self._renderer.code(cell.source)
        if is_gap(cell):
            self._fresh()
            self._enter(self._open(), cell).blocks.append(code)
            self._fresh()
            return
        outputs = [] if cell.id == "setup" else list(shown(cell))
        pictured = any(kind != TEXT for kind, _ in outputs)  # then its address is that of the picture
        slides: list[Slide] = []
        for kind, output in outputs:
            if kind in (PICTURE, STAGE):
                slide = self._enter(self._new(kind), cell)
                slide.picture = self._renderer.output(cell, output)
            elif html_of(output).startswith("<p>") and self._last.kind == PICTURE and slides:
                slide, whole = self._last, html_of(output)
                slide.blocks.append(caption_of(whole))
                if caption_of(whole) != whole:
                    for one in slides:
                        one.notes += [whole] if one.kind == PICTURE else []
            else:
                slide = self._enter(self._open(), cell, address=not pictured)
                slide.blocks.append(self._renderer.output(cell, output))
            slides.append(slide)
        first = slides[0] if slides else self._enter(self._open(), cell)
        first.code.append(code)

    def _enter(self, slide: Slide, cell: Any, *, address: bool = True) -> Slide:
        """The slide, which is about to show something of the cell; the first one that may gets the cell's address."""
        if cell.id not in slide.cells:
            slide.cells.append(cell.id)
        if address and cell.id not in self._placed:
            self._placed.add(cell.id)
            if slide.empty:
                slide.names.append(cell.id)
            else:  # so that it moves with what it is the address of
                slide.blocks.append(f'<span hidden id="{escape(cell.id)}"></span>')
        return slide

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

    def _folded(self, fold: Tag, cell: Any) -> None:
        """Each folded text one slide below, one inside another too, and all of them in the notes of the slide above."""
        above = self._last
        while fold is not None:
            inner = fold.find("details")
            inner = inner.extract() if inner else None
            summary = fold.find("summary")
            name = summary.extract().decode_contents() if summary else "Answer"
            self._fresh()
            slide = self._enter(self._open(), cell)
            slide.whole = True
            slide.blocks += [f"<h3>{name}</h3>", *map(str, children(fold))]
            above.notes.append(f"<div><strong>{name}</strong> {fold.decode_contents()}</div>")
            fold = inner
        self._fresh()


def tidied(column: list[Slide]) -> list[Slide]:
    """A column without slides that show nothing; long paragraphs are with the speaker."""
    kept: list[Slide] = []
    left = Slide("")
    for slide in column:
        long = [text for text in slide.blocks if slide.kind == TEXT and is_long(text)]
        rest = [text for text in slide.blocks if text not in long]
        if long and not (slide.top or slide.whole or all(map(says_nothing, rest))):
            slide.notes, slide.blocks = [*long, *slide.notes], rest
        if slide.empty:
            (kept[-1] if kept else left).take(slide, before=False)
        else:
            slide.take(left, before=True)
            left = Slide("")
            kept.append(slide)
    if not kept and left.code:
        left.heading, left.top, left.blocks, left.code = column[0].heading, column[0].top, left.code, []
        kept = [left]
    return kept


def is_long(block: str) -> bool:
    """Whether a block is a paragraph for the speaker; a question is for the room."""
    return block.startswith("<p>") and not QUESTION.match(block) and len(re.sub(r"<[^>]+>", "", block)) > LONG


def says_nothing(block: str) -> bool:
    """Whether a block is a heading only, or an address only."""
    return block.startswith(("<h3", "<h4", "<span hidden"))


def is_gap(cell: Any) -> bool:
    """Whether a cell holds a function that the reader is to write, and nothing that can be seen before that."""
    outputs, tags = cell.get("outputs", []), cell.metadata.get("tags", [])
    return (
        bool(outputs)
        and all(output.output_type == "error" for output in outputs)
        and {"raises-exception", "exercise"} & set(tags) == {"raises-exception"}
    )


def caption_of(paragraph: str) -> str:
    """A caption of two lines at most: as many whole sentences or parts of them as there is room for."""
    text = BeautifulSoup(paragraph, "html.parser").get_text()
    if len(text) <= CAPTION:
        return paragraph
    start = text[: CAPTION - 2]
    ends = [match.end() for match in re.finditer(r"[.;](?= )", start)]
    if not ends or ends[-1] < CAPTION // 3:
        ends = [match.start() for match in re.finditer(r",? ", start)]
    return f"<p>{escape(start[: ends[-1]] if ends else start)} …</p>"


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
    """Outputs that a lecture shows, and as what. Of an error that is to come one line is shown, of an unsolved exercise none."""
    tags = cell.metadata.get("tags", [])
    for output in cell.get("outputs", []):
        if output.output_type == "error" and "exercise" in tags:
            continue
        if output.output_type == "error" and "raises-exception" in tags:
            line = f"{output.ename}: {output.evalue}".partition("\n")[0]
            output = nbformat.v4.new_output("stream", text=line)
        if output.output_type == "stream":
            output = nbformat.from_dict({**output, "text": output.text.rstrip()})
        html = html_of(output)
        if "image/png" in output.get("data", {}) and not html:
            yield from ((PICTURE, part) for part in halves(output))
        elif "<img" in html:
            yield PICTURE, output
        elif "<script" in html:
            yield STAGE, output
        else:
            yield TEXT, output


def html_of(output: Any) -> str:
    """The HTML of an output, or ""."""
    return "".join(output.get("data", {}).get("text/html", "")).strip()
