"""What README.md says of the notebooks is so: its table, and how many cells the tests compare."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from reading import NOTEBOOKS, PRACTICE, ROOT, UNCOMPARED_TAGS, code_cells, name_of, read, tags

README = (ROOT / "README.md").read_text("utf-8")
ROWS = re.findall(
    r"^\| \[(\d\d) [^]]*\]\(notebooks/(.+?)\.ipynb\) \| (\d+) \| .+ \| `(.+?)\.html` \|$", README, re.M
)


def test_the_table_has_every_lesson_in_order():
    assert [name for _, name, _, _ in ROWS] == [name_of(path) for path in NOTEBOOKS]
    assert all(name.startswith(f"{number}_") and page == name for number, name, _, page in ROWS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_minutes_are_those_of_the_notebook(path):
    (minutes,) = (minutes for _, name, minutes, _ in ROWS if name == name_of(path))
    assert re.search(rf"\b{minutes} minutes", read(path).cells[0].source)


@pytest.mark.parametrize("page", ["00_start_here.ipynb", "instructor/README.md"])
def test_other_tables_of_lessons_say_the_same_minutes(page):
    path = ROOT / "notebooks" / page
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        (text,) = (cell.source for cell in read(path).cells if cell.id == "h-map")
    told = re.findall(r"^\| \[?(\d\d)\b[^|]*\|(?: \[?[A-Z][^|]*\|)? (\d+) \|", text, re.M)
    assert told == [(number, minutes) for number, _, minutes, _ in ROWS]


def test_it_says_how_many_cells_are_really_compared():
    kinds = Counter(
        "uncompared" if tags(cell) & UNCOMPARED_TAGS else "compared" if cell.outputs else "silent"
        for path in [*NOTEBOOKS, *PRACTICE]
        for cell in code_cells(read(path))
    )
    said = re.search(
        r"have (\d+) code cells\.\s+(\d+) print something.*?\. (\d+) show measured.*?\. (\d+) print nothing",
        README,
        re.S,
    )
    assert said, "the README says how many cells are compared"
    assert [int(count) for count in said.groups()] == [
        kinds.total(),
        kinds["compared"],
        kinds["uncompared"],
        kinds["silent"],
    ]
