"""JupyterLab in a browser: notebooks run, and their pictures and sentences follow the keyboard."""

from __future__ import annotations

import re
from types import SimpleNamespace

import lesson
import nbformat
import pytest
from lab_server import ROOT, TOKEN, jupyterlab

START = ROOT / "notebooks" / "00_start_here.ipynb"
SMALL = "small.ipynb"
NOTEBOOKS = [SMALL, *([START.name] if START.exists() else [])]

ERROR = '[data-mime-type="application/vnd.jupyter.error"]'
DONE = f"""count => document.querySelector('{ERROR}') || count ===
    [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")]
        .filter(prompt => /^\\[\\d+\\]:/.test(prompt.textContent.trim())).length"""
PICTURE = """async image => {
    await image.decode();
    const bytes = new Uint8Array(await (await fetch(image.src)).arrayBuffer());
    return [image.naturalWidth, image.getBoundingClientRect().width, bytes.join()];
}"""


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """A folder that JupyterLab serves, and its address."""
    folder, home = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("home")
    nbformat.write(lesson.notebook(), folder / SMALL)
    if START.exists():
        stored = nbformat.read(START, as_version=4)
        for cell in stored.cells:
            if cell.cell_type == "code":  # what shows later was made here
                cell.outputs, cell.execution_count = [], None
        nbformat.write(stored, folder / START.name)
    with jupyterlab(folder, home) as address:
        yield SimpleNamespace(folder=folder, address=address)


@pytest.fixture(scope="module", params=NOTEBOOKS)
def notebook(request, watch, lab):
    """A notebook in JupyterLab after "Run All Cells"."""
    with watch(f"{lab.address}/") as watched:
        page = watched.page
        page.goto(f"{lab.address}/lab/tree/{request.param}?reset&token={TOKEN}")
        # the sign beside the kernel's name says "idle" before there is a kernel, too
        page.locator("#jp-main-statusbar").get_by_text(re.compile(r"Python 3.* \| Idle")).wait_for()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name=re.compile("^Run All Cells")).click()
        cells = nbformat.read(lab.folder / request.param, as_version=4).cells
        count = sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in cells)
        page.wait_for_function(DONE, arg=count, polling=100)
        assert page.locator(ERROR).all_inner_texts() == []
        yield watched


only_small = pytest.mark.parametrize("notebook", [SMALL], indirect=True)


class Explorer:
    """The first explorer on a page."""

    def __init__(self, page) -> None:
        self.page = page
        cell = page.locator(".jp-CodeCell:has(.noUi-handle)").first
        self.handle = cell.get_by_role("slider").first
        self.image = cell.locator("img.widget-image")
        self.live = cell.get_by_role("status")
        self.labels = cell.locator(".widget-label")

    def press(self, key: str) -> str:
        """Press a key on the slider; the new sentence."""
        before = self.sentence
        self.handle.focus()
        self.handle.press(key)
        self.page.wait_for_function(
            "([live, before]) => !live.isConnected || live.textContent !== before",
            arg=[self.live.element_handle(), before],
            polling=50,
        )
        return self.sentence

    @property
    def sentence(self) -> str:
        return self.live.inner_text()

    def named(self, sentence: str):
        """The picture, once a screen reader would read out `sentence` for it."""
        found = self.page.get_by_role("img", name=sentence, exact=True)
        found.wait_for()
        return found

    def picture(self) -> tuple[int, float, str]:
        """Its own width, the width on the screen, and its bytes."""
        return tuple(self.image.evaluate(PICTURE))


def test_the_keyboard_changes_picture_and_sentence(notebook):
    explorer = Explorer(notebook.page)
    sentence, (_, _, picture) = explorer.sentence, explorer.picture()
    explorer.named(sentence)
    moved = explorer.press("ArrowRight")
    assert moved != sentence
    explorer.named(moved)
    width, _, bytes_moved = explorer.picture()
    assert width > 100 and bytes_moved != picture
    assert explorer.press("ArrowLeft") == sentence
    explorer.named(sentence)
    assert explorer.picture()[2] == picture, "the same setting gives the same picture"


def test_what_the_slider_changes_is_said_aloud(notebook):
    explorer = Explorer(notebook.page)
    assert explorer.live.get_attribute("aria-live") == "polite"
    assert explorer.live.count() == explorer.image.count() == 1, (
        "the still twins are for pages without widgets"
    )


def test_the_picture_has_its_own_size_and_labels_have_no_strange_hints(notebook):
    explorer = Explorer(notebook.page)
    own, shown, _ = explorer.picture()
    assert 0 < shown <= own + 1, (
        "a picture that is blown up is blurred, and pushes its sentence off the screen"
    )
    titles = explorer.labels.evaluate_all("labels => labels.map(label => [label.title, label.textContent])")
    assert all(title == text for title, text in titles if text), titles


@only_small
def test_the_sentence_is_that_of_the_setting(notebook):
    explorer = Explorer(notebook.page)
    assert explorer.sentence == lesson.contents().explorer.sentence
    assert explorer.press("ArrowRight") == "γ = 5 and α = 0.50: the bars are 5 and 0.50 high."
    assert explorer.press("Home") == "γ = 1 and α = 0.50: the bars are 1 and 0.50 high."


@only_small
def test_a_setting_that_cannot_be_drawn_says_so(notebook):
    explorer = Explorer(notebook.page)
    assert explorer.press("End") == "No picture at this setting. ValueError: 16 is too many"
    explorer.image.wait_for(state="hidden")
    assert explorer.press("ArrowLeft").startswith("γ = 15 ")
    explorer.image.wait_for(state="visible")


@only_small
def test_the_player_keeps_its_keys(notebook):
    """JupyterLab takes arrow keys for moving between cells; on the player's slider they are the player's."""
    page, sentences = notebook.page, lesson.contents().player.sentences
    player = page.locator(".specdec-player")
    slider, say = player.get_by_role("slider"), player.locator(".specdec-say")
    assert say.inner_text() == sentences[0]
    slider.focus()
    for sentence in sentences[1:4]:
        slider.press("ArrowRight")
        assert say.inner_text() == sentence
    slider.press("ArrowUp")
    assert say.inner_text() == sentences[4]
    assert slider.evaluate("slider => slider === document.activeElement")
    assert page.locator(".jp-Cell.jp-mod-active .specdec-player").count() == 1


def test_nothing_else_was_asked_for_and_nothing_went_wrong(notebook):
    assert notebook.outside == []
    assert notebook.errors == []
