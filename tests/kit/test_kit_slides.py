"""What a lecturer needs of slides: whole answers, legible pictures, addresses, marks; and a kit that can be handed out."""

from __future__ import annotations

import io
import re
import zipfile
from base64 import b64encode
from types import SimpleNamespace

import nbformat
import pytest
import small_course as small
from bs4 import BeautifulSoup
from nbformat.v4 import new_output
from PIL import Image, ImageDraw

from specdec_lab.teach.kit.build import build
from specdec_lab.teach.kit.deck import CAPTION, caption_of
from specdec_lab.teach.kit.lessons import KitError
from specdec_lab.teach.kit.pictures import halves

CAPTION_OF_ALL = "Twelve bars: " + "; ".join(f"bar {n} is {n} high" for n in range(40)) + "."
NOTES = """\
# Notes on one

## Cuts

### 15 minutes

1. **15 min** The question. `cell: asked`

### 45 minutes

1. **45 min** More. `cell: asked`, `cell: counted`

### 90 minutes

1. **90 min** All. `cell: gap`; before that `01 cell: long`, never `cell: install`

## Exam questions?
"""


AND_A_LIST = "\n\n- A point."


def tall() -> str:
    """A picture taller than wide, of four thick bars; only between the second and the third is nothing drawn at row 90."""
    picture = Image.new("RGB", (100, 200), "white")
    for top in (5, 50, 95, 150):
        ImageDraw.Draw(picture).rectangle((10, top, 90, top + 35), fill="navy")
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return b64encode(buffer.getvalue()).decode()


def error(name: str, words: str):
    return new_output("error", ename=name, evalue=words, traceback=["frame 1", "frame 2", "frame 3"])


def cells() -> list:
    """A lesson with everything that lecturers complained of."""
    shown = [small.printed("bars = 12\n"), *small.picture(f"picture: {CAPTION_OF_ALL}")]
    shown[1].data["image/png"] = tall()
    shown[2].data["text/html"] = f"<p>{CAPTION_OF_ALL}</p>"
    fold = "<details><summary>Answer</summary>\n\n{}\n\n</details>"
    question = (
        f"**Question:** {small.LONG}\n\n- One thing to look at.\n\n{fold.format(small.LONG + AND_A_LIST)}"
    )
    return [
        small.text(small.FIRST, "title"),
        small.code("install()", "install"),
        small.text("## Asked", "heading"),
        small.text(question, "asked"),
        small.code("quiet()", "quiet"),
        small.code("count()", "counted", [small.printed("things = 3\n")]),
        small.code("draw()", "drawn", shown),
        small.text(f"### Under a heading\n\n{small.LONG}", "under"),
        small.text("## Your turn\n\nWrite it.", "task"),
        small.code(
            'def it():\n    raise NotImplementedError("it")\n\nassert it() == 1',
            "gap",
            [error("NotImplementedError", "it")],
            ["raises-exception"],
        ),
        small.code(
            "refuse(-1)",
            "refused",
            [small.printed("asked\n"), error("ValueError", "n=-1 is negative\nmore")],
            ["raises-exception"],
        ),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A project with that lesson, and exercises that lead to their solutions."""
    folder = tmp_path_factory.mktemp("course")
    leads = "See the [answers](../solutions/00_one.ipynb#1.-Do-it), the [lesson](../00_one.ipynb), <https://example.org>."
    practice = [*small.course()["exercises/00_one"], small.text(f"## Next\n\n{leads}", "next")]
    notebooks = small.write(folder, {"00_one": cells(), "exercises/00_one": practice})
    (notebooks / "instructor" / "00_one.md").write_text(NOTES, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def kit(folder):
    """The kit of that project: `soup(page)`, and `slide(cell)`, its slide."""
    made = build(folder / "notebooks", folder / "kit", folder, package=False)

    def soup(page: str) -> BeautifulSoup:
        return BeautifulSoup((made.folder / page).read_text("utf-8"), "html.parser")

    deck = soup("slides/00_one.html")
    return SimpleNamespace(
        root=made.folder, soup=soup, deck=deck, slide=lambda name: owner(deck.find(id=name))
    )


def owner(tag):
    """The slide that a tag is, or stands on."""
    return tag if tag.name == "section" else tag.find_parent("section")


def body(slide) -> str:
    return slide.find(class_="body").get_text(" ", strip=True)


def below(slide):
    return slide.find_next_sibling("section")


# ---------------------------------------------------------------- slides


def test_an_answer_shows_whole_however_long(kit):
    question = kit.slide("asked")
    assert body(question).startswith("Question: This paragraph") and "One thing to look at." in body(question)
    assert body(below(question)) == f"Answer {small.LONG.strip()} A point."
    assert small.LONG.strip() in question.find(class_="notes").get_text()


def test_a_heading_does_not_stand_alone_while_its_paragraph_is_said(kit):
    assert body(kit.slide("under")) == f"Under a heading {small.LONG.strip()}"


def test_a_function_to_write_is_shown_and_its_error_is_not(kit):
    text = body(kit.slide("gap"))
    assert "def it" in text and "assert it() == 1" in re.sub(r" (?=[().])|(?<=[(]) ", "", text)
    assert "frame 1" not in kit.deck.get_text() and "NotImplementedError: it" not in kit.deck.get_text()


def test_an_error_that_is_to_come_has_one_line(kit):
    assert body(kit.slide("refused")) == "asked ValueError: n=-1 is negative"


def test_a_tall_picture_is_cut_between_two_bars_and_has_two_slides(kit):
    upper = kit.slide("drawn")
    lower = below(upper)
    sizes = []
    for slide, word in ((upper, "upper"), (lower, "lower")):
        assert slide["class"] == ["picture"]
        assert slide.img["alt"] == f"{CAPTION_OF_ALL} (The {word} part of the picture.)"
        with Image.open(kit.root / "slides" / slide.img["src"]) as picture:
            sizes.append(picture.size)
    assert sum(height for _, height in sizes) == 200 and all(width == 100 for width, _ in sizes)
    assert 86 <= sizes[0][1] <= 95, "between the bars that end at 85 and begin at 95"
    flat = new_output("display_data", data={"image/png": small.PNG, "text/plain": "picture: One."})
    assert halves(flat) == [flat]


def test_a_caption_has_two_lines_and_the_speaker_has_all_of_it(kit):
    upper = kit.slide("drawn")
    caption = body(below(upper))
    assert caption.startswith("Twelve bars: bar 0 is 0 high;") and caption.endswith("; …")
    assert len(caption) <= CAPTION
    for slide in (upper, below(upper)):
        assert slide.find(class_="notes").get_text() == CAPTION_OF_ALL


@pytest.mark.parametrize(
    ("whole", "short"),
    [
        ("<p>It&#x27;s short.</p>", "<p>It&#x27;s short.</p>"),
        (
            f"<p>A first sentence &amp; {'a' * 60}. {'b ' * 90}</p>",
            f"<p>A first sentence &amp; {'a' * 60}. …</p>",
        ),
        (f"<p>One. {'word ' * 40}</p>", f"<p>One. {('word ' * 32).strip()} …</p>"),
    ],
)
def test_a_caption_ends_where_a_sentence_or_a_word_does(whole, short):
    assert caption_of(whole) == short


# ---------------------------------------------------------------- addresses and marks


def test_every_cell_has_one_address_in_the_deck(kit):
    names = [tag["id"] for tag in kit.deck.find_all(id=True)]
    wanted = [cell.id for cell in cells() if cell.id != "install"]
    assert {name: names.count(name) for name in wanted} == dict.fromkeys(wanted, 1)
    assert kit.slide("heading") is kit.slide("asked"), "a heading alone is no slide"
    assert kit.slide("drawn")["class"] == ["picture"], "and not what is printed before it"
    assert "bars = 12" in body(kit.slide("counted"))
    assert kit.slide("quiet")["class"] == ["text"] and "count()" in kit.slide("counted").template.get_text()


def test_slides_of_the_short_cuts_are_marked(kit):
    def mark(slide) -> list[str]:
        return [number.get_text() for number in slide.select(".cuts b")]

    assert mark(kit.slide("asked")) == mark(below(kit.slide("asked"))) == ["15", "45"]
    assert mark(kit.slide("counted")) == ["45"]
    assert mark(kit.slide("gap")) == mark(kit.slide("title")) == []


def test_notes_lead_to_the_page_and_to_the_slide(kit):
    links = [link["href"] for link in kit.soup("instructor/00_one.html").main.find_all("a")]
    own = [("00_one", name) for name in ("asked", "asked", "counted", "gap")]
    assert links == [
        address
        for lesson, name in [*own, ("01_two", "long")]
        for address in (f"../lessons/{lesson}.html#cell-id={name}", f"../slides/{lesson}.html#/{name}")
    ]


def test_a_link_to_a_slide_that_is_not_there_stops_the_build(tmp_path):
    notebooks = small.write(tmp_path)
    (notebooks / "instructor" / "00_one.md").write_text("# Notes\n\n`cell: nowhere`\n", encoding="utf-8")
    with pytest.raises(
        KitError, match=r"slides/00_one.html#/nowhere' leads to a page that has no such place"
    ):
        build(notebooks, tmp_path / "kit", tmp_path, package=False)


# ---------------------------------------------------------------- for students


def test_the_kit_for_students_has_no_answers_and_no_links_to_them(folder):
    made = build(folder / "notebooks", folder / "handed", folder, package=False, students=True)
    assert (made.pages, made.decks) == (4, 3)
    with zipfile.ZipFile(made.archive) as archive:
        packed = archive.namelist()
    assert not [name for name in packed if "solutions" in name or "instructor" in name]
    assert "handed/notebooks/exercises/00_one.ipynb" in packed
    for page in made.folder.rglob("*.html"):
        soup = BeautifulSoup(page.read_text("utf-8"), "html.parser")
        assert not [link for link in soup.find_all("a") if "solutions/" in link["href"]], page.name
        assert not soup.select(".cuts"), "marks mean nothing without the notes"
    text = BeautifulSoup((made.folder / "index.html").read_text("utf-8"), "html.parser").get_text()
    assert "solutions" not in text and "nstructor" not in text and "exercises" in text
    copy = nbformat.read(made.folder / "notebooks" / "exercises" / "00_one.ipynb", as_version=4)
    assert copy.cells[-1].source == (
        "## Next\n\nSee the answers, the [lesson](../00_one.ipynb), <https://example.org>."
    )
    page = (made.folder / "lessons" / "exercises" / "00_one.html").read_text("utf-8")
    assert "See the answers, the" in page


def test_the_kit_for_the_instructor_says_how_to_make_one_for_students(kit):
    assert "--students builds a kit to hand out" in kit.soup("index.html").get_text().replace("\n", " ")
