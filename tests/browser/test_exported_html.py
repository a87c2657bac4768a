"""Exported notebooks and pages, opened from disk in a browser that has no network."""

from __future__ import annotations

from base64 import b64encode
from contextlib import contextmanager
from types import SimpleNamespace

import lesson
import pytest
from lab_server import environment
from nbclient import NotebookClient
from nbconvert import HTMLExporter

# Every text that shows in an element, with the contrast to what lies behind it: backgrounds laid over each other,
# each colour of a hatch in turn, and groups with an opacity mixed with what is under them. The worst of each text.
CONTRASTS = """root => {
    const parse = (text) => {
        const numbers = text.match(/^rgba?\\((.*)\\)$/)[1].split(/[, /]+/).map(Number);
        return [numbers.slice(0, 3), numbers[3] ?? 1];
    };
    const mix = (front, back, share) => front.map((value, i) => value * share + back[i] * (1 - share));
    const luminance = (colour) => {
        const [r, g, b] = colour.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const sheet = document.body.appendChild(document.createElement("i"));
    sheet.style.background = "Canvas";
    const canvas = parse(getComputedStyle(sheet).backgroundColor)[0];
    sheet.remove();
    const paint = (chain, back) => {  // every [paper, ink] that the last element of the chain may have
        const style = getComputedStyle(chain[0]);
        const [colour, alpha] = parse(style.backgroundColor);
        const plain = mix(colour, back, alpha);
        const lines = (style.backgroundImage.match(/rgba?\\([^)]*\\)/g) ?? []).map(parse);
        const papers = [plain, ...lines.map(([line, share]) => mix(line, plain, share))];
        const [ink, solid] = parse(style.color);
        const inside = (paper) => chain.length > 1 ? paint(chain.slice(1), paper) : [[paper, mix(ink, paper, solid)]];
        return papers.flatMap(inside).map((pair) => pair.map((painted) => mix(painted, back, +style.opacity)));
    };
    const contrast = (pair) => {
        const [low, high] = pair.map(luminance).sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const found = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.textContent.trim(), chain = [];
        if (!text || !walker.currentNode.parentElement.checkVisibility()) continue;
        for (let node = walker.currentNode.parentElement; node; node = node.parentElement) chain.unshift(node);
        found.push([Math.min(...paint(chain, canvas).map(contrast)), text]);
    }
    return found;
}"""


@pytest.fixture(scope="module")
def pages(browser, tmp_path_factory):
    """Files: the notebook as JupyterLab would export it, light and dark, the same without outputs, and the player's
    own page."""
    folder, home = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("home")
    notebook = lesson.notebook()
    # like a notebook saved by JupyterLab: widget views, but no state of the widgets
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", store_widget_state=False)
    client.execute(cwd=str(folder), env=environment(home))
    for theme in ("light", "dark"):
        (folder / f"{theme}.html").write_text(
            HTMLExporter(theme=theme).from_notebook_node(notebook)[0], "utf-8"
        )
    for cell in notebook.cells:
        cell.outputs = []
    (folder / "bare.html").write_text(HTMLExporter().from_notebook_node(notebook)[0], "utf-8")
    lesson.contents().player.save(folder / "player.html")
    return SimpleNamespace(**{path.stem: path.as_uri() for path in folder.glob("*.html")})


@pytest.fixture
def opened(watch, pages):
    """`with opened(name, **options) as watched`: one of the pages, without a network."""

    @contextmanager
    def opening(name, **options):
        with watch("file://", offline=True, **options) as watched:
            watched.page.goto(getattr(pages, name))
            yield watched

    return opening


# ---------------------------------------------------------------- the player


@pytest.mark.parametrize("name", ["light", "player"])
def test_the_player_plays_without_a_network(opened, name):
    player = lesson.contents().player
    with opened(name) as watched:
        root = watched.page.locator(".specdec-player")
        slider, say, picture = (
            root.get_by_role("slider"),
            root.locator(".specdec-say"),
            root.get_by_role("img"),
        )
        assert say.get_attribute("aria-live") == "polite"
        seen = set()
        slider.focus()
        for number, sentence in enumerate(player.sentences):
            assert say.inner_text() == picture.get_attribute("aria-label") == sentence
            assert (
                slider.input_value() == str(number)
                and f"{number + 1} of {len(player.frames)}" in root.inner_text()
            )
            seen.add(picture.inner_html())
            slider.press("ArrowRight")
        assert say.inner_text() == player.sentences[-1], "it stays at the end"
        assert len(seen) == len(player.frames), "every step has a picture of its own"
        slider.press("Home")
        assert say.inner_text() == player.sentences[0]


def test_the_players_buttons_work_by_keyboard(opened):
    player = lesson.contents().player
    second = next(number for number, frame in enumerate(player.frames) if frame.round == 2)
    with opened("player") as watched:
        root, keyboard = watched.page.locator(".specdec-player"), watched.page.keyboard
        say = root.locator(".specdec-say")
        keyboard.press("Tab")
        keyboard.press("Tab")
        assert root.get_by_role("button", name="next ▸", exact=True).evaluate(
            "it => it === document.activeElement"
        )
        keyboard.press("Enter")
        assert say.inner_text() == player.sentences[1]
        keyboard.press("Space")
        assert say.inner_text() == player.sentences[2]
        root.get_by_role("button", name="1 draft").press("Enter")
        assert root.get_by_role("button", name="1 draft").get_attribute("aria-pressed") == "true"
        root.get_by_role("button", name="next round").press("Enter")
        assert say.inner_text() == player.sentences[second]


def test_our_outputs_ask_for_nothing(opened):
    """nbconvert's template asks for two scripts of others, with or without outputs; both are refused here."""
    with opened("bare") as bare, opened("light") as full, opened("player") as alone:
        for watched in (bare, full, alone):
            watched.page.wait_for_load_state()
        assert (alone.outside, alone.errors) == ([], [])
        assert sorted(full.outside) == sorted(bare.outside) != []
        assert sorted(full.errors) == sorted(bare.errors)


def test_before_scripts_run_a_round_stands_there_in_three_steps(opened):
    shown = lesson.contents().player
    with opened("light", java_script_enabled=False) as watched:
        player = watched.page.locator(".specdec-player")
        assert [table.is_visible() for table in player.get_by_role("table").all()] == [True] * 3
        steps = [
            text for text in shown.sentences if text.startswith("Round 1, ") and "commit" not in text[:20]
        ]
        assert len(steps) == 3
        for text in steps:
            assert player.get_by_text(text.partition(": ")[2]).first.is_visible()
        assert player.get_by_role("button").count() == player.get_by_role("slider").count() == 0
        watched.page.locator(".specdec-player summary").click()  # the browser's own, needs no script
        items = player.get_by_role("listitem")
        assert items.all_inner_texts() == list(shown.sentences) and items.last.is_visible()


# ---------------------------------------------------------------- the others


@pytest.mark.parametrize("scripts", [True, False])
def test_the_explorer_is_a_picture_and_its_sentence(opened, scripts):
    explorer = lesson.contents().explorer
    with opened("light", java_script_enabled=scripts) as watched:
        image = watched.page.locator('img[src^="data:image/png"]')
        assert image.get_attribute("src").endswith(b64encode(explorer.png).decode())
        assert image.is_visible() and image.evaluate("image => image.naturalWidth") == 300
        assert watched.page.get_by_text(explorer.sentence, exact=True).is_visible()
        assert watched.page.get_by_role("slider").count() == (1 if scripts else 0), (
            "the player's, and no dead one"
        )


@pytest.mark.parametrize("scripts", [True, False])
def test_the_token_strip_needs_no_script(opened, scripts):
    strip = lesson.contents().strip
    with opened("light", java_script_enabled=scripts) as watched:
        shown = watched.page.get_by_role("figure", name=strip.title)
        assert shown.is_visible() and strip.sentence in shown.inner_text()
        assert shown.get_by_role("listitem").count() == 2
        assert watched.page.get_by_role("img", name="round 1: accepted 'word3', 'word4', ").is_visible()


@pytest.mark.parametrize(
    ("name", "scheme"), [("light", "dark"), ("dark", "light"), ("player", "light"), ("player", "dark")]
)
def test_everything_can_be_read_in_light_and_dark(opened, name, scheme):
    with opened(name, color_scheme=scheme) as watched:
        page = watched.page
        found = [pair for strip in page.locator(".sd-strip").all() for pair in strip.evaluate(CONTRASTS)]
        player = page.locator(".specdec-player")
        for summary in player.locator("summary").all():
            summary.click()
        for _ in lesson.contents().player.frames:
            found += player.evaluate(CONTRASTS)
            player.get_by_role("slider").press("ArrowRight")
        texts = {text for _, text in found}
        assert {"word9", "✗", "Round 1 at a glance"} <= texts and len(texts) > 50
        assert min(found)[0] >= 4.5, sorted(set((round(ratio, 2), text) for ratio, text in found))[:5]
