"""Plans, homework and marks in the instructor's README fit the notes, the exercises and the grader."""

from __future__ import annotations

import re

import pytest
from reading import EXERCISES, FOLDER, ROOT, SOLUTIONS, read
from test_instructor_notes import NOTES, Notes

from specdec_lab.teach.behaviours import BEHAVIOURS
from specdec_lab.teach.graded_file import KINDS

README = (NOTES / "README.md").read_text(encoding="utf-8")
LESSONS = {path.name[:2]: path for path in sorted(NOTES.glob("[0-9]*.md"))}


def section(title: str) -> str:
    """What stands below "## title"."""
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.S | re.M)[1]


def rows(text: str) -> list[list[str]]:
    """The rows of all tables in a text, without heads and rulers, as their columns."""
    tables = re.findall(r"^\|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.M)
    return [[c.strip() for c in row.strip("|").split("|")] for rows in tables for row in rows.splitlines()]


def exercises_of(number: str) -> list[tuple[int, int]]:
    """(filled circles, minutes) of each exercise of a lesson."""
    (path,) = EXERCISES.glob(f"{number}_*.ipynb")
    told = [
        re.search(r"^Difficulty: (●+)○* · (\d+) minutes$", cell.source, re.M) for cell in read(path).cells
    ]
    return [(len(found[1]), int(found[2])) for found in told if found]


def test_what_hands_on_to_what_is_what_needs_what():
    table = {row[0][1:3]: row for row in rows(section("What needs what"))}
    assert list(table) == list(LESSONS)
    for number, (*_, onward) in table.items():
        if not onward.startswith("all"):
            needed_by = [other for other, row in table.items() if re.search(rf"\b{number}\b", row[2])]
            assert re.findall(r"\d\d", onward) == needed_by, number


@pytest.mark.parametrize("plan", ["One lecture, 90 minutes", "Six sessions of 90 minutes"])
def test_a_plan_uses_cuts_that_exist(plan):
    text = section(plan)
    named = re.findall(r"\b(\d\d), (?:then \d\d: )?the (\d+)-minute cut", text)
    named += re.findall(r"then (\d\d): the (\d+)-minute cut", text)
    assert len(named) >= 5
    for number, minutes in named:
        assert Notes.of(LESSONS[number]).cut(int(minutes)), (number, minutes)
    assert not re.search(r"\b\d\d \(\d+ minutes\)", text), "a lesson gets minutes for which there is no cut"


def test_the_lecture_takes_as_long_as_it_says():
    assert sum(int(row[0]) for row in rows(section("One lecture, 90 minutes"))) == 90


def test_installing_has_its_place_before_the_first_session():
    before = section("Six sessions of 90 minutes").split("|")[0]
    assert "specdec_lab doctor" in before and "WRONG" in before


def test_homework_is_that_of_the_sessions_with_minutes_and_points_of_the_exercises():
    sessions = rows(section("Six sessions of 90 minutes"))
    homework = [row for row in rows(section("Homework and marks")) if len(row) == 4]
    assert [row[0] for row in homework] == [row[0] for row in sessions]
    for (*_, asked), (_, names, minutes, points) in zip(sessions, homework, strict=True):
        assert f"exercises {names}" in asked
        due = [exercise for number in re.findall(r"\d\d", names) for exercise in exercises_of(number)]
        assert (int(points), int(minutes)) == tuple(map(sum, zip(*due, strict=True))), names
    assert f"of the {sum(int(row[3]) for row in homework)} points" in README


def test_each_kind_of_the_grader_is_named_with_the_exercise_that_it_grades():
    table = [row for row in rows(section("Homework and marks")) if row[1].startswith("`--")]
    assert {re.search(r"--kind ([a-z-]+)", row[1])[1] for row in table if "--kind" in row[1]} == (
        set(KINDS) - {"greedy"}
    )
    for exercise, options in table:
        kind = found[1] if (found := re.search(r"--kind ([a-z-]+)", options)) else "greedy"
        function = found[1] if (found := re.search(r"--function (\w+)", options)) else KINDS[kind].function
        if exercise.startswith("more, "):
            assert f"`{function}`" in exercise and exercise[13:15] in LESSONS
            continue
        number, which = re.match(r"(\d\d), (\d) ", exercise).groups()
        (path,) = SOLUTIONS.glob(f"{number}_*.ipynb")
        (cell,) = (cell for cell in read(path).cells if cell.id == f"exercise-{which}")
        grader = KINDS[kind].grader.split(".")[1]
        assert f"def {function}(" in cell.source and f"{grader}({function})" in cell.source


def test_the_lines_of_the_grader_that_marks_depend_on_are_called_so():
    names = [item.name for item in BEHAVIOURS]
    first, last, passes = (
        names.index(n) for n in ("agreeing_draft", "gamma_above_budget", "one_target_pass_per_round")
    )
    assert first < last < passes
    told = section("Homework and marks")
    assert "`agreeing_draft` to `gamma_above_budget`" in told and "`one_target_pass_per_round`" in told


def test_a_report_can_earn_ten_points():
    scale = section("Homework and marks").split("**The report")[1]
    assert sum(int(row[0]) for row in rows(scale)) == 10


def test_losing_has_as_many_ways_everywhere():
    lesson = read(FOLDER / "06_the_speedup_explorer.ipynb")
    texts = [cell.source for cell in lesson.cells if cell.cell_type == "markdown"]
    texts += [path.read_text(encoding="utf-8") for path in NOTES.glob("*.md")]
    ways = [way.lower() for text in texts for way in re.findall(r"\b(\w+) ways to lose", text, re.I)]
    assert len(ways) >= 4 and len(set(ways)) == 1


def test_the_kit_without_answers_is_asked_for_by_its_name():
    assert "--students" in section("Homework and marks")
    assert "--students" in (ROOT / "specdec_lab/teach/kit/__main__.py").read_text(encoding="utf-8")
