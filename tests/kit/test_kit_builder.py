"""The kit's builder on a small course: what it writes, and what it refuses. No browser, no wheel, no model."""

from __future__ import annotations

import json
import re
import zipfile
from types import SimpleNamespace

import nbformat
import pytest
import small_course as small
from bs4 import BeautifulSoup

from specdec_lab.teach.kit import __main__ as command
from specdec_lab.teach.kit.build import build
from specdec_lab.teach.kit.check import check
from specdec_lab.teach.kit.lessons import KitError


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """The kit of the small course: `made`, and `soup(page)`, a page of it."""
    folder = tmp_path_factory.mktemp("course")
    made = build(small.write(folder), folder / "kit", folder, package=False)

    def soup(page: str) -> BeautifulSoup:
        return BeautifulSoup((made.folder / page).read_text("utf-8"), "html.parser")

    return SimpleNamespace(made=made, folder=made.folder, soup=soup)


def links(soup) -> list[str]:
    return [link["href"] for link in soup.find_all("a")]


# ---------------------------------------------------------------- the site


def test_counts_and_zip(kit):
    assert (kit.made.pages, kit.made.decks, kit.made.copies) == (5, 4, 4)
    with zipfile.ZipFile(kit.made.archive) as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
    there = {
        f"kit/{path.relative_to(kit.folder).as_posix()}" for path in kit.folder.rglob("*") if path.is_file()
    }
    assert packed == there
    assert "kit/static/reveal/LICENSE" in packed and "kit/LICENSE-prose" in packed


def test_index_says_minutes_and_goals(kit):
    index = kit.soup("index.html")
    cards = index.find_all("section", class_="card")
    assert [card.h3.get_text(" ", strip=True) for card in cards] == [
        "00 One thing 20 minutes",
        "01 Another thing 25 minutes",
    ]
    goals = [item.get_text(strip=True) for item in cards[0].find_all("li")]
    assert goals == ["do the thing, and say why it works", "leave it alone"]
    assert "45 minutes" in index.get_text() and "exercises, 15 minutes" in cards[0].get_text()
    assert {"slides/exercises/00_one.html", "live/solutions/00_one.ipynb"} <= set(links(cards[0]))
    assert [link for link in links(cards[1]) if "exercises" in link] == []
    labels = [link.get("aria-label") or link.get_text() for link in cards[0].table.find_all("a")]
    assert len(set(labels)) == len(labels) == 13, "links that read alike are told apart"


def test_pages_lead_to_each_other(kit):
    first, second = kit.soup("lessons/00_one.html"), kit.soup("lessons/01_two.html")
    assert [link["href"] for link in first.find_all("a", rel="next")] == ["01_two.html"] * 2
    assert first.find("a", rel="prev") is None
    assert [link["href"] for link in second.find_all("a", rel="prev")] == ["00_one.html"] * 2
    assert {"01_two.html#More", "../index.html#install"} <= set(links(first.main))
    assert second.find(id="More").get_text() == "More"
    assert "../00_one.html" in links(kit.soup("lessons/exercises/00_one.html").main)
    assert "../lessons/00_one.html" in links(kit.soup("slides/01_two.html"))


def test_formulas_are_mathml_and_prices_are_not(kit):
    page = kit.soup("lessons/00_one.html")
    assert [formula.get_text() for formula in page.find_all("math")] == ["α2"]
    assert "$5" in page.get_text()


def test_pictures_are_files_with_words(kit):
    for page in ("lessons/00_one.html", "slides/00_one.html"):
        image = kit.soup(page).find("img")
        assert image["alt"] == "One bar, one high."
        assert (kit.folder / page).parent.joinpath(image["src"]).read_bytes().startswith(b"\x89PNG")
    there = {path.name for path in (kit.folder / "pictures").iterdir()}
    assert len(there - {"rounds.png"}) == 1, "pages share it; the other one is on the first page"


def test_pages_show_code_and_outputs_but_install_nothing(kit):
    text = kit.soup("lessons/00_one.html").main.get_text()
    assert "draw(1)" in text and "things = 3" in text
    assert "install" not in text and "README" not in text


def test_notes_for_the_instructor_are_pages_that_lead_to_the_cells(kit):
    note, index = kit.soup("instructor/00_one.html"), kit.soup("index.html")
    assert {"../lessons/00_one.html#cell-id=body", "../slides/00_one.html"} <= set(links(note))
    assert note.find(id="exam-questions").get_text() == "Exam questions?"
    assert links(kit.soup("instructor/README.html").main) == [
        "00_one.html#exam-questions",
        "../index.html#lessons",
    ]
    assert {"instructor/00_one.html", "instructor/README.html"} <= set(links(index))


# ---------------------------------------------------------------- decks


def deck(kit, name: str) -> list[list]:
    """Columns of a deck; each a list of its slides."""
    slides = kit.soup(f"slides/{name}.html").find(class_="slides")
    return [
        column.find_all("section", recursive=False) for column in slides.find_all("section", recursive=False)
    ]


def test_every_heading_opens_a_column(kit):
    assert [column[0].find(["h1", "h2"]).get_text() for column in deck(kit, "00_one")] == [
        "00 One thing",
        "A section",
        "More",
    ]


def test_what_stands_on_the_slides(kit):
    section = deck(kit, "00_one")[1]
    bodies = [slide.find(class_="body").get_text(" ", strip=True) for slide in section]
    assert bodies[0].startswith("It is α 2 long.") and "Why?" not in bodies[0]
    assert bodies[1:] == ["Question: Why?", "Answer Because of that.", "One bar, one high.", "things = 3"]
    assert [slide["class"] for slide in section] == [["text"]] * 3 + [["picture"], ["text"]]


def test_what_is_for_the_speaker(kit):
    section = deck(kit, "00_one")[1]
    notes = [slide.find("aside", class_="notes") for slide in section]
    assert notes[0].get_text().strip() == small.LONG.strip(), (
        "a long paragraph beside bullets is said, not shown"
    )
    assert "Because of that." in notes[1].get_text()


def test_code_is_kept_aside(kit):
    section = deck(kit, "00_one")[1]
    code = {slide.find("template").get_text().strip() for slide in section if slide.find("template")}
    assert code == {"draw(1)", "count()"}
    assert not section[3].find(class_="frame").find(class_="highlight")


def test_a_player_has_a_slide_and_its_script(kit):
    stage = deck(kit, "00_one")[2][-1]
    assert stage["class"] == ["stage"] and "dataset.ready" in stage.script.get_text()


def test_an_unsolved_exercise_shows_its_task_and_no_error(kit):
    text = kit.soup("slides/exercises/00_one.html").get_text()
    assert "1. Do it" in text and "NotImplementedError:" not in text
    assert "right" in kit.soup("slides/solutions/00_one.html").get_text()


# ---------------------------------------------------------------- notebooks


def test_live_copies_hold_headings_and_code(kit):
    copy = nbformat.read(kit.folder / "live" / "00_one.ipynb", as_version=4)
    original = small.course()["00_one"]
    code = [cell for cell in copy.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code] == [cell.source for cell in original if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    prose = [cell.source for cell in copy.cells if cell.cell_type == "markdown"]
    assert prose == ["# 00 One thing", "## A section", "## More\n\n### Deeper"]


def test_notebooks_come_along_as_they_were_run(kit):
    stored = nbformat.read(kit.folder / "notebooks" / "00_one.ipynb", as_version=4)
    sources = [cell.source for cell in small.course()["00_one"]]
    left = [source.replace("[the README](../README.md)", "the README") for source in sources]
    assert [cell.source for cell in stored.cells] == [
        source.replace("[above](../README.md)", "above") for source in left
    ], "only links out of the kit's notebooks are gone"


# ---------------------------------------------------------------- what it refuses


def changed(name: str, place: int, **what):
    """The small course with one cell changed."""
    cells = small.course()[name]
    for key, value in what.items():
        cells[place][key] = value
    return {name: cells}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (changed("00_one", 6, execution_count=None), r"00_one: cell 'counted' has not been run"),
        (changed("00_one", 0, source="# Title\n\nNo time.\n"), r"00_one: the first cell must say how long"),
        (
            changed("00_one", 0, source="No title, 3 minutes."),
            r"00_one: the first cell must begin with '# Title'",
        ),
        (
            changed("00_one", 4, source="## A\n\n[no](02_no.ipynb)"),
            r"00_one: the link '02_no.ipynb' leads to nothing",
        ),
        (changed("00_one", 4, source="## A\n\n[no](notes.txt)"), r"the link 'notes.txt' leads to nothing"),
        (changed("00_one", 4, source="## A\n\n[no](01_two.ipynb#nowhere)"), r"a page that has no such place"),
        (
            changed("00_one", 4, source='## A\n\n<img src="x.png" alt="x">'),
            r"the link 'x.png' leads to nothing",
        ),
        (changed("00_one", 5, outputs=small.picture("<Figure size 640x480>")), r"'drawn' has no sentence"),
        (
            changed("00_one", 4, source='## A\n\n<img src="https://example.org/x.png" alt="x">'),
            r"<img> fetches 'https://example.org/x.png'",
        ),
        (
            changed("00_one", 4, source='## A\n\n<script src="//example.org/x.js"></script>'),
            r"<script> fetches '//example.org/x.js'",
        ),
        (
            changed("00_one", 4, source='## A\n\n<img src="data:image/png;base64,AA==">'),
            r"nbconvert warns: Alternative",
        ),
        (
            {"exercises/07_alone": small.course()["exercises/00_one"]},
            r"exercises/07_alone belongs to no lesson",
        ),
    ],
)
def test_a_fault_in_a_notebook_stops_the_build(tmp_path, changes, says):
    notebooks = small.write(tmp_path, changes)
    with pytest.raises(KitError, match=says):
        build(notebooks, tmp_path / "kit", tmp_path, package=False)
    assert not (tmp_path / "kit.zip").exists()


def test_it_replaces_kits_and_nothing_else(tmp_path):
    notebooks, out = small.write(tmp_path), tmp_path / "kit"
    out.mkdir()
    (out / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(KitError, match=r"out=.*is a folder that holds something else"):
        build(notebooks, out, tmp_path, package=False)
    (out / "thesis.txt").unlink()
    for _ in range(2):
        build(notebooks, out, tmp_path, package=False)
        (out / "left.txt").write_text("from an earlier kit", encoding="utf-8")
    with pytest.raises(KitError, match=r"out=.*is a file"):
        build(notebooks, out / "left.txt", tmp_path, package=False)
    (tmp_path / "pyproject.toml").unlink()
    with pytest.raises(KitError, match=r"source=.*has no pyproject.toml"):
        build(notebooks, out, tmp_path, package=False)


def test_the_same_notebooks_give_the_same_kit(tmp_path, kit):
    again = build(small.write(tmp_path), tmp_path / "kit", tmp_path, package=False)
    for path in sorted(kit.folder.rglob("*")):
        if path.is_file():
            assert path.read_bytes() == again.folder.joinpath(path.relative_to(kit.folder)).read_bytes(), (
                path.name
            )


def test_the_check_reads_styles_and_anchors(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="#here">x</a><p id="here"><a href="https://example.org">y</a>', "utf-8"
    )
    assert check(tmp_path) == 1, "a reader may follow a link"
    (tmp_path / "a.css").write_text("p { background: url('https://example.org/x.png') }", encoding="utf-8")
    with pytest.raises(KitError, match=r"a.css fetches 'https://example.org/x.png'"):
        check(tmp_path)
    (tmp_path / "a.css").write_text("p { background: url(data:,) }", encoding="utf-8")
    (tmp_path / "a.html").write_text(
        '<style>@import "x.css";</style><img src="a.css"><a href="#no">x</a>', "utf-8"
    )
    with pytest.raises(KitError) as told:
        check(tmp_path)
    assert re.findall(r"fetches|leads to nothing|no such place|without alt", str(told.value)) == [
        "without alt",
        "leads to nothing",
        "no such place",
    ]


def test_the_command_says_what_was_wrong(tmp_path, capsys):
    assert command.main(["--notebooks", str(tmp_path), "--out", str(tmp_path / "kit")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("no kit: notebooks=") and "NN_name.ipynb" in said
    notebooks = small.write(tmp_path, changed("01_two", 0, source="# Title\n\nNo time.\n"))
    assert command.main(["--notebooks", str(notebooks), "--out", str(tmp_path / "kit")]) == 2
    assert "how long it takes" in capsys.readouterr().err
    assert json.loads((notebooks / "00_one.ipynb").read_text("utf-8"))["cells"], "notebooks stay as they are"
