"""Builds the kit: reads the notebooks, writes every part, checks the whole, packs it. Each part is made in a file of its own.

index.html  lessons/  slides/       to be opened in a browser
live/  notebooks/                   to be opened in Jupyter
wheel/  api/                        the package, and its reference
pictures/  static/                  what the pages share
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from specdec_lab.show.front_picture import PICTURE, SENTENCE

from .check import check
from .deck import deck_of
from .instructor import Notes, body_of, cuts_of, places, read_notes
from .lessons import KitError, Lesson, Links, read_lessons, relative
from .live import write_live_copy
from .package import build_reference, build_wheel, version_of
from .render import Renderer, code_colours

HERE = Path(__file__).parent
MARK = "specdec_lab-kit.txt"  # a folder that holds this file may be replaced
MODULE = "specdec_lab"
OTHERS = {"../README.md": "index.html#install"}


@dataclass(frozen=True)
class Made:
    """What was built: the folder, its zip, and how many pages, decks and live-coding copies are in it."""

    folder: Path
    archive: Path
    pages: int
    decks: int
    copies: int


def build(notebooks: Path, out: Path, source: Path, *, package: bool = True, students: bool = False) -> Made:
    """Build a kit from the notebooks in a folder that have been run. Any warning is an error.

    Args:
        notebooks: folder of the lessons, with the folders `exercises` and `solutions`.
        out: folder to write; it is replaced if it is an earlier kit. The zip is written beside it.
        source: folder with pyproject.toml.
        package: False leaves out wheel and reference, which take most of the time.
        students: True leaves out the solutions and the instructor's notes, and every link to them.

    Raises:
        KitError: a notebook that has not been run, a link to nothing, a picture without words, anything that would be
            fetched from elsewhere, or an `out` that holds something else.
    """
    found = read_lessons(notebooks)
    lessons = [lesson for lesson in found if not (students and lesson.kind == "solutions")]
    left_out = {lesson.name for lesson in found} - {lesson.name for lesson in lessons}
    notes = [] if students else read_notes(notebooks)
    version = version_of(source)
    clear(out)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shutil.copytree(HERE / "static", out / "static")
        (out / "static" / "code.css").write_text(code_colours(), encoding="utf-8")
        writer = _Writer(lessons, notes, out, left_out)
        writer.write()
        wheel = build_wheel(source, out / "wheel").name if package else None
        if package:
            build_reference(source, out / "api")
        writer.index(version, wheel, students)
        for name in ("LICENSE", "LICENSE-prose"):
            shutil.copy(source / name, out)
    check(out)
    archive = Path(
        shutil.make_archive(str(out), "zip", root_dir=out.resolve().parent, base_dir=out.resolve().name)
    )
    return Made(out, archive, len(lessons) + 1, len(lessons), len(lessons))


def clear(out: Path) -> None:
    """An empty folder, marked as a kit. `KitError` if there is something else at its place."""
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise KitError(
            f"out={str(out)!r} is a folder that holds something else; name a new one, or an earlier kit"
        )
    if out.is_file():
        raise KitError(f"out={str(out)!r} is a file; a folder is wanted")
    if (out / MARK).is_file():
        Path(f"{out}.zip").unlink(missing_ok=True)  # it would not be of the new kit if the build fails
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARK).write_text(
        "Made by python -m specdec_lab.teach.kit, which may replace this folder.\n", "utf-8"
    )


class _Writer:
    """Writes index, pages, decks and notebooks."""

    def __init__(self, lessons: list[Lesson], notes: list[Notes], out: Path, left_out: set[str]) -> None:
        self._lessons, self._notes, self._out = lessons, notes, out
        self._links = Links([lesson.name for lesson in lessons], "lessons", OTHERS | places(notes), left_out)
        self._renderer = Renderer(out, self._links)
        self._names = {lesson.name for lesson in lessons}
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def write(self) -> None:
        for kind in {lesson.kind for lesson in self._lessons}:
            row = [lesson for lesson in self._lessons if lesson.kind == kind]
            for place, lesson in enumerate(row):
                before = row[place - 1] if place else None
                behind = row[place + 1] if place + 1 < len(row) else None
                self._page(lesson, before, behind)
                self._deck(lesson)
                self._notebooks(lesson)
        for note in self._notes:
            self._note(note)

    def _page(self, lesson: Lesson, before: Lesson | None, behind: Lesson | None) -> None:
        page = f"lessons/{lesson.name}.html"
        self._renderer.place(lesson.name, page)
        body = self._renderer.cells(lesson.cells)
        self._put(
            "page",
            page,
            lesson=lesson,
            body=body,
            before=before,
            behind=behind,
            siblings=self._siblings(lesson),
        )

    def _deck(self, lesson: Lesson) -> None:
        page = f"slides/{lesson.name}.html"
        self._renderer.place(lesson.name, page)
        note = self._note_of(lesson) if lesson.kind == "" else None
        columns = deck_of(lesson, self._renderer, cuts_of(note) if note else None)
        self._put("deck", page, lesson=lesson, columns=columns)

    def _notebooks(self, lesson: Lesson) -> None:
        """The notebook as it was run, without links that lead out of the kit's notebooks, and its live-coding copy."""
        write_live_copy(lesson, self._out / "live")
        path = self._out / "notebooks" / f"{lesson.name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook = nbformat.from_dict(lesson.notebook)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = self._links.of_a_notebook(cell.source, lesson.name)
        nbformat.write(notebook, path)

    def _note(self, note: Notes) -> None:
        page, lesson = f"{note.name}.html", note.name.partition("/")[2]
        self._renderer.place(note.name, page)
        body = body_of(note, self._renderer, [one.name for one in self._lessons if one.kind == ""])
        self._put("notes", page, note=note, body=body, lesson=lesson if lesson in self._names else None)

    def _note_of(self, lesson: Lesson) -> Notes | None:
        return next((one for one in self._notes if one.name == f"instructor/{lesson.base}"), None)

    def _siblings(self, lesson: Lesson) -> list[tuple[str, str]]:
        """The other notebooks of the same number: (what it is, name)."""
        words = {"": "lesson", "exercises": "exercises", "solutions": "solutions"}
        names = [(word, f"{kind}/{lesson.base}".lstrip("/")) for kind, word in words.items()]
        return [(word, name) for word, name in names if name in self._names and name != lesson.name]

    def index(self, version: str, wheel: str | None, students: bool) -> None:
        """The first page; what it leads to must be there."""
        rows = []
        for lesson in (one for one in self._lessons if one.kind == ""):
            self._renderer.place(lesson.name, "index.html")
            minutes = {one.kind: one.minutes for one in self._lessons if one.base == lesson.base}
            rows.append(
                {
                    "lesson": lesson,
                    "summary": self._renderer.markdown(lesson.summary),
                    "goals": [self._renderer.markdown(goal) for goal in lesson.goals],
                    "siblings": self._siblings(lesson),
                    "minutes": minutes,
                    "note": self._note_of(lesson),
                }
            )
        parts = sorted(path.stem for path in (self._out / "api" / MODULE).glob("*.html"))
        facts = {"version": version, "wheel": wheel, "module": MODULE, "parts": parts, "students": students}
        pictures = self._out / "pictures"
        pictures.mkdir(exist_ok=True)
        shutil.copy(PICTURE, pictures)
        picture = {"picture": f"pictures/{PICTURE.name}", "sentence": SENTENCE.read_text("utf-8").strip()}
        self._put("index", "index.html", rows=rows, notes=self._notes, **facts, **picture)

    def _put(self, template: str, page: str, **values: Any) -> None:
        path = self._out / page
        path.parent.mkdir(parents=True, exist_ok=True)
        html = self._templates.get_template(f"{template}.html.j2").render(
            here=lambda target: relative(target, page), **values
        )
        path.write_text(html, encoding="utf-8")
