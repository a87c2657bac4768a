"""The kit of this repository's notebooks, built by its command, and opened from disk in a browser without a network.

One build serves all tests here, so they stay in one file, which `--dist loadscope` keeps on one core.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from specdec_lab.teach.kit import __main__ as command
from specdec_lab.teach.kit.build import build
from specdec_lab.teach.kit.lessons import read_lessons

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
NAMES = [
    path.relative_to(NOTEBOOKS).with_suffix("").as_posix()
    for kind in ("", "exercises", "solutions")
    for path in sorted((NOTEBOOKS / kind).glob("[0-9][0-9]_*.ipynb"))
]
LESSONS = [name for name in NAMES if "/" not in name]
READY = "() => window.Reveal && Reveal.isReady()"
SMALLEST = 19.1  # px; the player's table, in its narrowest setting; all else has 20

# Goes through all slides of a deck: what reaches over an edge, what only scrolling would show, which text is small.
WRONG = """smallest => {
    const found = [];
    const leaves = [...document.querySelectorAll(".slides section")].filter((one) => !one.querySelector("section"));
    for (const leaf of leaves) {
        const {h, v} = Reveal.getIndices(leaf);
        Reveal.slide(h, v ?? 0);
        const at = `slide ${h}/${v ?? 0}`, frame = leaf.querySelector(".frame"), body = frame.querySelector(".body");
        const hidden = (node) => {
            if (node.scrollHeight > node.clientHeight + 18) found.push(`${at}: ${node.className} is cut off`);  // 18: margins
            if (node.scrollWidth > node.clientWidth + 1) found.push(`${at}: ${node.className} is too wide`);
        };
        const measure = () => {
            [frame, body, ...frame.querySelectorAll(".picture")].forEach(hidden);
            for (const node of frame.querySelectorAll("*")) {
                const box = node.getBoundingClientRect();
                if (box.width && node.checkVisibility() && (box.bottom > 721 || box.right > 1281)) found.push(`${at}: ${node.tagName} is outside`);
            }
        };
        measure();
        if (body.classList.contains("scrolls")) found.push(`${at} scrolls`);
        if (leaf.matches(".picture")) {
            if (body.getBoundingClientRect().height > 63) found.push(`${at}: the caption has more than two lines`);
            if (leaf.nextElementSibling?.querySelector(".more")) found.push(`${at}: the caption goes on`);
        }
        const parts = [...body.children].filter((one) => !one.hidden);
        if (parts.length && parts.every((one) => /^H[1-6]$/.test(one.tagName))) found.push(`${at}: only a heading`);
        for (const slider of frame.querySelectorAll(".specdec-player input"))
            for (let step = 0; step <= +slider.max; step++) {
                slider.value = step;
                slider.oninput();
                hidden(frame.querySelector(".picture"));
            }
        for (const image of frame.querySelectorAll("img")) {
            const {width, height} = image.getBoundingClientRect();
            const scale = Math.min(width / image.naturalWidth, height / image.naturalHeight);
            if (!image.alt || height < 300 || scale < 0.6) found.push(`${at}: a picture is small or wordless`);
        }
        const walker = document.createTreeWalker(frame, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const parent = walker.currentNode.parentElement;
            if (!walker.currentNode.textContent.trim() || !parent.checkVisibility()) continue;
            const size = parseFloat(getComputedStyle(parent).fontSize) * parent.currentCSSZoom;
            if (size < smallest) found.push(`${at}: ${size} px: ${walker.currentNode.textContent.slice(0, 40)}`);
        }
    }
    return [leaves.length, found];
}"""


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """The folder of the kit, the zip, and addresses of its files."""
    folder = tmp_path_factory.mktemp("course") / "kit"
    assert command.main(["--notebooks", str(NOTEBOOKS), "--out", str(folder)]) == 0
    return SimpleNamespace(
        folder=folder, archive=folder.with_suffix(".zip"), uri=lambda page: (folder / page).as_uri()
    )


def test_the_zip_holds_pages_decks_copies_wheel_and_reference(kit):
    with zipfile.ZipFile(kit.archive) as archive:
        packed = set(archive.namelist())
        assert archive.testzip() is None
    for name in NAMES:
        wanted = {f"kit/lessons/{name}.html", f"kit/slides/{name}.html", f"kit/live/{name}.ipynb"}
        assert wanted <= packed, name
    assert {"kit/index.html", "kit/api/specdec_lab/decoding/loop.html", "kit/static/reveal/LICENSE"} <= packed


def test_nothing_tells_where_it_was_built(kit):
    for path in kit.folder.rglob("*"):
        if path.suffix in {".html", ".js", ".ipynb", ".txt"}:
            assert str(ROOT) not in path.read_text("utf-8"), path.name


def test_the_wheel_holds_the_weights_and_the_kits_own_files(kit):
    (wheel,) = (kit.folder / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    there = {
        path.relative_to(ROOT).as_posix()
        for part in ("assets", "teach/kit")
        for path in (ROOT / "specdec_lab" / part).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there <= packed and any(name.endswith(".safetensors") for name in there)
    assert not any("tests/" in name or name.endswith(".ipynb") for name in packed)


def test_index_and_pages_open_without_a_network(kit, offline):
    with offline() as seen:
        for page in ["index.html", *(f"lessons/{name}.html" for name in NAMES)]:
            seen.page.goto(kit.uri(page))
            broken = seen.page.locator("img").evaluate_all(
                "all => all.filter((one) => !one.naturalWidth).length"
            )
            wide = seen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert (broken, wide) == (0, 0), page
        assert (seen.fetched, seen.errors) == ([], [])


def test_one_can_walk_from_the_index_through_all_lessons(kit, offline):
    with offline() as seen:
        page = seen.page
        page.goto(kit.uri("index.html"))
        page.locator("h3 a").first.click()
        titles = [page.title()]
        while page.locator("header a[rel=next]").count():
            page.locator("header a[rel=next]").click()
            titles.append(page.title())
        assert [title[:2] for title in titles] == [name[:2] for name in LESSONS]
        assert (seen.fetched, seen.errors) == ([], [])


@pytest.mark.parametrize("place", ["lessons", "slides"])
def test_players_play(kit, offline, place):
    with offline() as seen:
        page = seen.page
        page.goto(kit.uri(f"{place}/03_draft_and_verify.html"))
        player = page.locator(".specdec-player").first
        if place == "slides":
            page.wait_for_function(READY)
            page.evaluate(
                "Reveal.slide(...Object.values(Reveal.getIndices(document.querySelector('section.stage'))))"
            )
        slider, say = player.get_by_role("slider"), player.locator(".specdec-say")
        slider.focus()
        before = say.inner_text()
        slider.press("ArrowRight")
        slider.press("ArrowRight")
        assert slider.input_value() == "2" and say.inner_text() != before
        if place == "slides":  # Escape gives the keys back to the deck
            was = page.evaluate("Reveal.getIndices().h")
            page.keyboard.press("Escape")
            page.keyboard.press("ArrowRight")
            assert page.evaluate("Reveal.getIndices().h") == was + 1 and not page.evaluate(
                "Reveal.isOverview()"
            )
        assert (seen.fetched, seen.errors) == ([], [])


def test_no_slide_of_any_deck_overflows(kit, offline):
    slides, wrong = 0, {}
    with offline() as seen:
        for name in NAMES:
            seen.page.goto(kit.uri(f"slides/{name}.html"))
            seen.page.wait_for_function(READY)
            count, found = seen.page.evaluate(WRONG, SMALLEST)
            slides += count
            if found:
                wrong[name] = found[:5]
        assert wrong == {}
        assert (seen.fetched, seen.errors) == ([], [])
    assert slides > 20 * len(NAMES)


def test_every_cell_is_the_address_of_its_slide(kit, offline):
    with offline() as seen:
        for lesson in read_lessons(kit.folder / "notebooks"):
            seen.page.goto(kit.uri(f"slides/{lesson.name}.html"))
            seen.page.wait_for_function(READY)
            names = seen.page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
            assert len(set(names)) == len(names), lesson.name
            assert {cell.id for cell in lesson.cells} <= set(names), lesson.name
        assert (seen.fetched, seen.errors) == ([], [])


def test_from_a_cut_in_the_notes_to_its_marked_slides(kit, offline):
    with offline() as seen:
        page = seen.page
        page.goto(kit.uri("instructor/01_one_token_at_a_time.html"))
        page.get_by_role("link", name="slide of ceiling-question").first.click()
        page.wait_for_function(READY)
        assert page.url.endswith("#/ceiling-question")
        marks = page.locator("section.present > section.present > .cuts")
        assert page.evaluate("Reveal.getCurrentSlide().id") == "ceiling-question"
        assert marks.inner_text().split() == ["15", "45", "min"]
        page.keyboard.press("ArrowDown")
        assert page.evaluate("Reveal.getCurrentSlide().id") == "" and marks.is_visible(), "still that cell"
        assert (seen.fetched, seen.errors) == ([], [])


def test_print_mode_gives_every_slide_a_page(kit, offline):
    with offline() as seen:
        page = seen.page
        page.goto(kit.uri("slides/01_one_token_at_a_time.html") + "?print-pdf")
        page.wait_for_function(READY)
        # before its pages are laid out there are none, and none of them are slides
        laid_out = "(pages) => pages > 0 && pages === Reveal.getTotalSlides()"
        page.wait_for_function(f"({laid_out})(document.querySelectorAll('.pdf-page').length)")
        slides = page.evaluate("Reveal.getTotalSlides()")
        pages = re.findall(rb"/Type\s*/Page[^s]", page.pdf(prefer_css_page_size=True))
        assert len(pages) == slides > 40


def test_the_kit_for_students_has_nothing_of_the_instructors(tmp_path):
    made = build(NOTEBOOKS, tmp_path / "kit", ROOT, package=False, students=True)
    files = [path.relative_to(made.folder).as_posix() for path in made.folder.rglob("*")]
    assert not [name for name in files if "solutions" in name or "instructor" in name]
    assert {f"notebooks/exercises/{name}.ipynb" for name in LESSONS} <= set(files)
    for path in made.folder.rglob("*"):
        if path.suffix in {".html", ".ipynb"}:
            linked = re.findall(
                r'(?:href="|\]\()[./]*(?:solutions|instructor)/[^")]*', path.read_text("utf-8")
            )
            assert linked == [], path.name


def test_nothing_is_lost_between_the_notebook_and_the_slides(kit, offline):
    """Cutting a slide in two keeps every word: the words of the file are those of the deck, in order."""
    words = "root => [...root.querySelectorAll('.slides .body')].map((one) => one.textContent).join(' ').replace(/\\s+/g, '')"
    with offline() as seen:
        for name in LESSONS:
            seen.page.goto(kit.uri(f"slides/{name}.html"))
            seen.page.wait_for_function(READY)
            shown = seen.page.evaluate(f"""() => {{
                document.querySelectorAll("section .body thead, .specdec-stage").forEach((one) => one.remove());
                return ({words})(document); }}""")
            written = seen.page.evaluate(
                f"""text => {{
                const parsed = new DOMParser().parseFromString(text, "text/html");
                parsed.querySelectorAll("section .body thead").forEach((one) => one.remove());
                return ({words})(parsed); }}""",
                (kit.folder / f"slides/{name}.html").read_text("utf-8"),
            )
            assert shown == written and len(shown) > 1000, name


def test_code_notes_and_the_speakers_window(kit, offline):
    with offline() as seen:
        page = seen.page
        page.goto(kit.uri("slides/03_draft_and_verify.html"))
        page.wait_for_function(READY)
        dialog = page.locator("dialog")
        page.evaluate("Reveal.slide(2)")
        page.keyboard.press("c")
        assert "load_pair" in dialog.inner_text()
        page.keyboard.press("c")
        assert not dialog.is_visible()
        page.get_by_role("button", name="code (C)").click()
        assert "load_pair" in dialog.inner_text()
        page.keyboard.press("Escape")
        assert not dialog.is_visible()
        page.evaluate("""() => Reveal.slide(...Object.values(Reveal.getIndices(
            [...document.querySelectorAll("section section")].find((one) => one.querySelector(".notes")))))""")
        said = page.evaluate("Reveal.getSlideNotes()")
        page.keyboard.press("t")
        assert len(dialog.inner_text().split()) > 3
        page.keyboard.press("t")
        assert not dialog.is_visible()
        with seen.context.expect_page() as opened:
            page.keyboard.press("s")
        speaker = opened.value
        speaker.locator(".speaker-controls-notes .value").get_by_text(
            speaker.evaluate(
                "html => new DOMParser().parseFromString(html, 'text/html').body.textContent.trim().slice(0, 20)",
                said,
            )
        ).first.wait_for()
        assert (seen.fetched, seen.errors) == ([], [])


def test_the_reference_opens_and_can_be_searched(kit, offline):
    with offline() as seen:
        page = seen.page
        page.goto(kit.uri("index.html"))
        page.get_by_role("link", name="API reference").click()
        page.get_by_role("link", name="decoding", exact=True).click()
        page.get_by_role("link", name="loop", exact=True).first.click()
        assert "The one loop" in page.locator("main").inner_text()
        page.goto(kit.uri("api/specdec_lab.html"))
        assert "speculative_decode" in page.locator("main").inner_text()
        page.get_by_role("searchbox").fill("residual_distribution")
        page.locator(".search-result", has_text="residual_distribution").first.wait_for()
        assert (seen.fetched, seen.errors) == ([], [])
