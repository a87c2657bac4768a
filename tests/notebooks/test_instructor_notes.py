"""The instructor's notes: one form, cells that exist, numbers that the lesson printed, answers that are folded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from nbformat.v4 import new_markdown_cell, new_notebook
from reading import ANCHOR, FOLDER, NOTEBOOKS, prose, read, said

NOTES = FOLDER / "instructor"
EVERY = pytest.mark.parametrize("path", sorted(NOTES.glob("[0-9]*.md")), ids=lambda path: path.stem)
SECTIONS = ["Cuts", "Expected wrong answers", "On the board", "Exam questions"]
CUTS = [15, 45, 90]  # minutes
ONE_MORE = {"00": 5}  # lessons with a cut that the others do not have

CELL = re.compile(r"`cell: ([^`]*)`")
FENCE = re.compile(r"^```.*?^```$", re.S | re.M)
FOLDED = re.compile(r"<details><summary>[^<]*</summary>\n\n.+?\n\n</details>", re.S)
ITEM = re.compile(r"^(\d+)\. \*\*(\d+) min\*\* .*(?:\n   .*)*", re.M)
QUESTION = re.compile(r"^\*\*(\d+)\. \((\d+) points?\)", re.M)
POINTS = re.compile(r"\((\d+) points?\)")


@dataclass(frozen=True)
class Notes:
    """Notes as text, the lesson that they belong to, and what is wrong with them in words."""

    text: str
    lesson: object  # a notebook

    @classmethod
    def of(cls, path: Path) -> Notes:
        return cls(path.read_text(encoding="utf-8"), read(FOLDER / f"{path.stem}.ipynb"))

    @property
    def cuts(self) -> list[int]:
        """Minutes of the cuts that are due."""
        return sorted(CUTS + [m for number, m in ONE_MORE.items() if self.text.startswith(f"# {number} ")])

    @property
    def bare(self) -> str:
        """Without drawings, which may hold anything."""
        return FENCE.sub("", self.text)

    def section(self, title: str) -> str:
        """What stands below "## title"."""
        found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", self.text, re.S | re.M)
        return found[1] if found else ""

    def cut(self, minutes: int) -> str:
        """What stands below "### N minutes"."""
        found = re.search(rf"^### {minutes} minutes\n(.*?)(?=^##|\Z)", self.section("Cuts"), re.S | re.M)
        return found[1] if found else ""

    # ------------------------------------------------------------ complaints: each a list, empty if all is well

    def of_the_head(self) -> list[str]:
        title = self.lesson.cells[0].source.splitlines()[0]
        first, blank, aim, *_ = self.text.splitlines()
        wrong = [] if first == f"{title}: notes for the instructor" else [f"title: {first}"]
        return (
            wrong if not blank and "understand:** " in aim else [*wrong, f"what is to be understood: {aim}"]
        )

    def of_the_headings(self) -> list[str]:
        found = re.findall(r"^#{2,} .*", self.bare, re.M)
        due = ["## Cuts", *(f"### {minutes} minutes" for minutes in self.cuts)]
        due += [f"## {title}" for title in SECTIONS[1:]]
        return [] if found == due else [f"headings: {found}"]

    def of_the_cuts(self) -> list[str]:
        wrong = []
        for minutes in self.cuts:
            text = self.cut(minutes)
            items = [match for match in ITEM.finditer(text)]
            if [int(item[1]) for item in items] != list(range(1, len(re.findall(r"^\d+\.", text, re.M)) + 1)):
                wrong.append(f"{minutes}: items are numbered and begin with their minutes")
            spent = sum(int(item[2]) for item in items)
            if not 0.8 * minutes <= spent <= minutes:
                wrong.append(f"{minutes}: the items take {spent} minutes")
            wrong += [f"{minutes}: no cell in {item[0]}" for item in items if not CELL.search(item[0])]
            if not re.search(r"^Skip: \S", text, re.M):
                wrong.append(f"{minutes}: what is skipped?")
        return wrong

    def of_the_cells(self) -> list[str]:
        there = {cell.id for cell in self.lesson.cells}
        return [name for name in CELL.findall(self.text) if name not in there]

    def of_the_numbers(self) -> list[str]:
        spoken = said(self.lesson)
        (text,) = prose(new_notebook(cells=[new_markdown_cell(self.bare)]))
        wrong = [
            f"{number} for {name!r}, said: {spoken.get(name)}"
            for number, name in ANCHOR.findall(text)
            if number.replace("−", "-").rstrip(".,") != spoken.get(name)
        ]
        left = re.sub(r"<!--.*?-->", "", ANCHOR.sub("", text), flags=re.S)
        return wrong + [f"{n} without an anchor" for n in re.findall(r"(?<![\w.])\d+\.\d+(?!\w|\.\d)", left)]

    def of_the_anchors(self) -> list[str]:
        """An anchor without a number before it, or in a drawing, would be compared with nothing."""
        (text,) = prose(new_notebook(cells=[new_markdown_cell(self.bare)]))
        return re.findall(r"<!--[^>]*say:[^>]*-->", ANCHOR.sub("", text) + "".join(FENCE.findall(self.text)))

    def of_the_wrong_answers(self) -> list[str]:
        items = re.split(r"^- ", self.section("Expected wrong answers"), flags=re.M)[1:]
        wrong = [] if 5 <= len(items) <= 8 else [f"{len(items)} wrong answers"]
        return wrong + [f"what does one ask back? {item}" for item in items if "*Ask:*" not in item]

    def of_the_board(self) -> list[str]:
        text = self.section("On the board")
        sketches, told = len(FENCE.findall(text)), len(re.findall(r"\bSay\b", FENCE.sub("", text)))
        return (
            []
            if 2 <= sketches <= 3 and told >= 2
            else [f"{sketches} sketches, {told} times told what to say"]
        )

    def of_the_exam(self) -> list[str]:
        text = self.section("Exam questions")
        questions = QUESTION.findall(text)
        wrong = [] if 5 <= len(questions) <= 6 else [f"{len(questions)} questions"]
        if [int(number) for number, _ in questions] != list(range(1, len(questions) + 1)):
            wrong.append(f"numbers of the questions: {questions}")
        first, *each = re.split(r"(?=^\*\*\d+\. )", text, flags=re.M)
        wrong += ["something stands before the first question"] if first.strip() else []
        for question in each:
            answers = FOLDED.findall(question)
            number = question[:6]
            if len(answers) != 1 or not question.rstrip().endswith("</details>"):
                wrong.append(f"{number} one folded answer, and nothing behind it")
            shared = [int(points) for answer in answers for points in POINTS.findall(answer)]
            if shared and sum(shared) != sum(int(points) for _, points in QUESTION.findall(question)):
                wrong.append(f"{number} points of the parts: {shared}")
        return wrong

    def of_the_folds(self) -> list[str]:
        marks = re.findall(r"</?details>", self.bare)
        return [] if marks == ["<details>", "</details>"] * (len(marks) // 2) else [f"folds: {marks}"]

    def of_the_links(self) -> list[str]:
        links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]*)\)", self.bare)]
        return [link for link in links if link and "://" not in link and not (NOTES / link).exists()]


COMPLAINTS = [name for name in vars(Notes) if name.startswith("of_the_")]


def test_every_lesson_has_notes_and_no_notes_are_without_a_lesson():
    assert sorted(path.stem for path in NOTES.glob("[0-9]*")) == [path.stem for path in NOTEBOOKS]


@EVERY
@pytest.mark.parametrize("complaint", COMPLAINTS)
def test_nothing_is_wrong_with_the_notes(path, complaint):
    assert getattr(Notes.of(path), complaint)() == []


# ---------------------------------------------------------------- the checks see what they are there for


@pytest.mark.parametrize(
    ("complaint", "old", "new"),
    [
        ("of_the_head", ": notes for the instructor", ""),
        ("of_the_headings", "## On the board", "## On a board"),
        ("of_the_headings", "### 45 minutes", "### 40 minutes"),
        ("of_the_headings", "### 5 minutes", "### 6 minutes"),
        ("of_the_cuts", "1. **2 min** ", "1. **9 min** "),
        ("of_the_cuts", "1. **2 min** ", "1. "),
        ("of_the_cuts", "Skip: ", ""),
        ("of_the_cuts", " `cell: h-both`\n", "\n"),
        ("of_the_cells", "`cell: h-both`", "`cell: h-neither`"),
        ("of_the_numbers", "22<!-- say: rounds, γ 4 -->", "23<!-- say: rounds, γ 4 -->"),
        ("of_the_numbers", "say: rounds, γ 4 -->", "say: rounds, γ 5 -->"),
        ("of_the_numbers", "<!-- say: acceptance rate, γ 16 -->", ""),
        ("of_the_anchors", "22<!-- say: rounds, γ 4 -->", "<!-- say: rounds, γ 4 -->"),
        ("of_the_anchors", "```text\n", "```text\n22<!-- say: rounds, γ 4 -->\n"),
        ("of_the_wrong_answers", "*Ask:*", "Ask:"),
        ("of_the_board", "```", ""),
        ("of_the_exam", "<details><summary>Answer</summary>", "Answer:"),
        ("of_the_exam", "**2. (2 points)", "**2. (3 points)"),
        ("of_the_exam", "**2. (2 points)", "**2.**"),
        ("of_the_folds", "</details>", ""),
        ("of_the_links", "../exercises/00_start_here.ipynb", "../exercises/00_start.ipynb"),
    ],
)
def test_a_fault_is_seen(complaint, old, new):
    notes = Notes.of(NOTES / "00_start_here.md")
    assert old in notes.text and getattr(notes, complaint)() == []
    assert getattr(
        Notes(notes.text.replace(old, new, 1 if "```text" in old else -1), notes.lesson), complaint
    )()


@pytest.mark.parametrize("name", ["README.md", "follow_ups.md", "notation.md"])
def test_pages_without_a_lesson_point_to_cells_and_files_that_exist(name):
    text = (NOTES / name).read_text(encoding="utf-8")
    lessons = {path.name[:2]: {cell.id for cell in read(path).cells} for path in NOTEBOOKS}
    pointed = re.findall(r"`(\d\d) cell: ([\w-]+)`", text)
    assert pointed or name == "notation.md"
    assert not [(number, cell) for number, cell in pointed if cell not in lessons[number]]
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert link.startswith("https://") or (NOTES / link).exists(), link
