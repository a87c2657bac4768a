"""Token strips: every origin marked, every character visible, readable on any page and by ear."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from specdec_lab.decoding.rounds import Round, Trace
from specdec_lab.show import style, tokens
from specdec_lab.show.readable import readable
from specdec_lab.show.terminal import round_line, style_for, token_strip
from specdec_lab.show.tokens import show_tokens

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    0: "<|endoftext|>",
    1: " the",
    2: " king",
    3: " lord",
    4: "\n",
    5: "\t",
    6: "<script>alert(\"1\" & '2')</script>",
    7: "\ufffd",
    8: "",
    9: "the",
}


def decode(ids):
    return "".join(WORDS[token] for token in ids)


def one(drafted, accepted, own, outcome):
    """A round that accepts the first `accepted` drafts and adds `own`."""
    chain = tuple(range(-1, len(drafted) - 1))
    emitted = (*drafted[:accepted], *own)
    return Round(drafted, chain, tuple(range(accepted)), emitted, outcome, 3, 4, 3, 4, 0.0, 0.0)


CORRECTED = one((1, 2, 4, 1), 1, (3,), "correction")
ROUNDS = {
    "correction": CORRECTED,
    "bonus": one((1, 4), 2, (2,), "bonus"),
    "plain": one((), 0, (3,), "plain"),
    "end": one((1, 0), 2, (), "end"),
}


def strip(*rounds, **settings):
    return show_tokens(Trace((2, 1), rounds), decode, **settings)


KINDS = {name: kind for kind, name in tokens._CLASSES.items()}


class Reader(HTMLParser):
    """What a browser would make of it: (class of the chip, text) pairs, labels, and whether every tag is closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.chips, self.labels, self.struck, self.tags = [], [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag != "br":
            self.open.append((tag, attributes))
        if attributes.get("role") == "img":
            self.labels.append(attributes["aria-label"])
        if attributes.get("class", "").startswith("sd-") and tag == "span":
            self.chips.append([KINDS[attributes["class"]], ""])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, text):
        names = [tag for tag, _ in self.open]
        if any(a.get("class", "").startswith("sd-") for t, a in self.open if t == "span"):
            self.chips[-1][1] += text
        if {"del", "s"} & set(names):
            self.struck.append(text)

    def rows(self):
        """The chips behind the legend."""
        return [tuple(chip) for chip in self.chips[6:]]


def read(*rounds, **settings):
    return Reader(strip(*rounds, **settings)._repr_html_())


# ---------------------------------------------------------------- origins


@pytest.mark.parametrize(
    ("outcome", "chips"),
    [
        (
            "correction",
            [
                ("accepted", "✓␣the"),
                ("rejected", "✗␣king"),
                ("unjudged", "◦↵ ◦␣the"),
                ("correction", "→␣lord"),
            ],
        ),
        ("bonus", [("accepted", "✓␣the"), ("accepted", "✓↵"), ("bonus", "+␣king")]),
        ("plain", [("plain", "·␣lord")]),
        ("end", [("accepted", "✓␣the"), ("accepted", "✓<|endoftext|>")]),
    ],
)
@pytest.mark.parametrize("layout", tokens.LAYOUTS)
def test_every_origin_is_marked_and_coloured(layout, outcome, chips):
    page = read(ROUNDS[outcome], layout=layout)
    assert page.rows() == chips
    thrown_away = [kind in ("rejected", "unjudged") for kind, _ in chips]
    assert (len(page.struck) > 2) is any(thrown_away)  # two words of the legend are struck too


def test_only_refused_drafts_are_struck_out_and_their_marks_are_not():
    assert read(CORRECTED).struck[2:] == ["␣king", "␣the"], "↵ is one sign, and would be hidden"


def test_rows_agree_with_the_terminal():
    """Same verdicts, same marks, same order: the terminal's line is the truth."""
    for item in ROUNDS.values():
        html = "  ".join(text for _, text in read(item).rows()).split()
        assert html == round_line(item, decode, style_for("utf-8", False)).split()


def test_a_legend_in_every_strip():
    for rounds in ((), (CORRECTED,)):
        legend = [tuple(chip) for chip in read(*rounds).chips[:6]]
        assert ("accepted", "✓ accepted draft") in legend and ("unjudged", "◦ never judged") in legend
        assert len({kind for kind, _ in legend}) == 6


def test_one_numbered_row_a_round_or_running_text():
    rows = strip(*ROUNDS.values())._repr_html_()
    flow = strip(*ROUNDS.values(), layout="flow")._repr_html_()
    assert rows.count("<li>") == 4 and "<br>" not in rows and "<sup>" not in rows
    assert flow.count("<sup>") == 4 and "<li>" not in flow
    assert flow.count("<br>") == 1, "an accepted newline breaks the line, one that was thrown away does not"


def test_the_prompt_is_shown_unmarked_and_cut_from_the_left():
    trace = Trace((2, 3, 4, 1), ())
    html = show_tokens(trace, decode, prompt_tokens=2)._repr_html_()
    assert "prompt: (2 tokens before) … ↵ the" in html and "king" not in html
    assert "prompt:  king lord↵ the" in show_tokens(trace, decode)._repr_html_()
    assert "prompt:" not in show_tokens(trace, decode, prompt_tokens=0)._repr_html_()


def test_an_empty_trace():
    empty = strip(title="Nothing yet")
    assert empty.sentence == "No round was run, so nothing follows the prompt."
    assert "<ol" not in empty._repr_html_() and empty.sentence in str(empty)
    assert Reader(empty._repr_html_()).labels == []
    assert Reader(show_tokens(Trace((), ()), decode)._repr_html_()).rows() == []


def test_the_sentence_counts():
    assert strip(*ROUNDS.values()).sentence == (
        "4 rounds gave 8 tokens: 5 of 8 drafts accepted, 1 correction, 1 bonus, 1 plain token."
    )


# ---------------------------------------------------------------- characters


def test_markup_in_tokens_titles_and_prompts_is_only_text():
    run = Trace((6,), (one((6, 2), 1, (6,), "correction"),))
    page = show_tokens(run, decode, title='"><script>x</script>&')._repr_html_()
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(") == 5  # prompt, two tokens, and both again in the label
    reader = Reader(page)
    assert ("accepted", "✓<script>alert(\"1\"␣&␣'2')</script>") in reader.rows()
    script = "<script>alert(\"1\" & '2')</script>"
    assert reader.labels == [f"round 1: accepted '{script}', rejected 'king', correction '{script}'"]
    assert dict(reader.tags[0][1])["aria-label"] == '"><script>x</script>&'
    assert {tag for tag, _ in reader.tags} <= {
        "div",
        "style",
        "p",
        "b",
        "span",
        "small",
        "del",
        "s",
        "ol",
        "li",
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" a b", "␣a␣b"),
        ("\n\n", "↵↵"),
        ("\t", "⇥"),
        ("\r", "␍"),
        ("\x00\x7f", "␀␡"),
        ("\x85\xa0", "\\x85\\xa0"),
        ("a\u202eb", "a\\u202eb"),  # would turn the text behind it around
        ("\u200b", "\\u200b"),
        ("\udce2", "\\xe2"),  # a byte that is no UTF-8, as Python carries it
        ("\u0301", "◌\u0301"),
        ("", "⟨#42⟩"),
        ("\ufffd\ufffd", "⟨#42⟩"),
        (" \ufffd", "␣⟨#42⟩"),
        ("naïve 语", "naïve␣语"),
    ],
)
def test_whatever_a_token_holds_can_be_seen(text, shown):
    assert readable(text, 42) == shown
    shown.encode("utf-8")


def test_parts_of_characters_and_silent_tokens_show_their_id():
    assert read(one((7, 8), 2, (5,), "bonus")).rows() == [
        ("accepted", "✓⟨#7⟩"),
        ("accepted", "✓⟨#8⟩"),
        ("bonus", "+⇥"),
    ]


# ---------------------------------------------------------------- by ear, and as text


def test_what_a_screen_reader_says():
    assert read(*ROUNDS.values()).labels == [
        "round 1: accepted 'the', rejected 'king', never judged newline, 'the', correction 'lord'",
        "round 2: accepted 'the', newline, bonus 'king'",
        "round 3: plain 'lord'",
        "round 4: accepted 'the', '<|endoftext|>', which ends the text",
    ]
    (label,) = read(one((7, 5), 0, (8,), "correction")).labels
    assert label == (
        "round 1: rejected part of a character, token 7, never judged tab, correction part of a character, token 8"
    )


def test_words_that_differ_only_in_a_space_sound_different():
    (label,) = read(one((1,), 0, (9,), "correction")).labels
    assert label == "round 1: rejected space and 'the', correction 'the'"


def test_the_strip_and_its_rows_have_names():
    page = read(CORRECTED, title="A round")
    _, root = page.tags[0]
    assert (root["role"], root["aria-label"], root["dir"]) == ("figure", "A round", "ltr")


def test_the_plain_twin_is_the_terminals_text():
    run = strip(*ROUNDS.values(), title="Four rounds")
    assert token_strip(run.trace, decode, style_for("utf-8", False)) in str(run)
    assert str(run).startswith("Four rounds\n✓ accepted draft") and str(run).endswith(run.sentence)
    assert repr(run) == str(run), "a notebook stores the text beside the HTML; an address would change"
    assert "⟨#7⟩" in str(strip(one((), 0, (7,), "plain")))


# ---------------------------------------------------------------- pages


def channels(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def over(colour, page, share):
    """`share` of `colour` laid over `page`, as a browser does it."""
    mixed = [
        round(a * share + b * (1 - share)) for a, b in zip(channels(colour), channels(page), strict=True)
    ]
    return "#" + "".join(f"{c:02x}" for c in mixed)


def luminance(colour):
    parts = [c / 255 for c in channels(colour)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_formula_itself():
    assert contrast("#000000", "#ffffff") == pytest.approx(21) and contrast("#777777", "#ffffff") < 4.5


# text and page: plain, JupyterLab, GitHub, nbviewer, VS Code; light and dark
PAGES = [
    ("#000000", "#ffffff"),
    ("#212121", "#ffffff"),
    ("#1f2328", "#ffffff"),
    ("#333333", "#ffffff"),
    ("#ffffff", "#111111"),
    ("#e6edf3", "#0d1117"),
    ("#cccccc", "#1e1e1e"),
]


def looks():
    """What the strip sets itself: class → its inline style, read from the HTML."""
    page = read(*ROUNDS.values())
    return {KINDS[a["class"]]: a.get("style", "") for tag, a in page.tags if tag == "span" and "class" in a}


@pytest.mark.parametrize(("text", "page"), PAGES)
def test_contrast_on_light_and_dark_pages(text, page):
    found = looks()
    assert set(found) == {"accepted", "rejected", "unjudged", "correction", "bonus", "plain"}
    for kind, css in found.items():
        assert not re.search(r"(^|;)color:", css), "ink is the page's own"
        veil = re.search(r"background:(#[0-9a-f]{6})([0-9a-f]{2})", css)
        opacity = re.search(r"opacity:([0-9.]+)", css)
        paper = over(veil[1], page, int(veil[2], 16) / 255) if veil else page
        ink = over(text, page, float(opacity[1])) if opacity else text
        assert contrast(ink, paper) >= 4.5, (kind, text, page, contrast(ink, paper))
    pale = over(text, page, tokens.PALE)
    assert contrast(pale, page) < 0.8 * contrast(text, page), "never judged must look paler than judged"


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_the_lines_under_the_tokens_are_seen(page):
    for kind in ("accepted", "correction", "bonus"):
        (colour,) = re.findall("#[0-9A-Fa-f]{6}", tokens._LINES[kind])
        assert contrast(colour, page) >= 3, (kind, page)
    assert len(set(line.split(" #")[0] for line in tokens._LINES.values())) == len(tokens._LINES)


def test_colours_are_the_houses_and_rejected_drafts_have_none():
    assert tokens.PAPER == {
        "accepted": style.GREEN,
        "correction": style.VERMILION,
        "bonus": style.BLUE,
    }
    assert "background" not in looks()["rejected"]


def test_readable_without_any_style():
    """GitHub drops style sheets and style attributes: marks, order and struck words must be enough."""
    html = strip(*ROUNDS.values())._repr_html_()
    bare = re.sub(r'<style>.*?</style>| style="[^"]*"| class="[^"]*"', "", html)
    assert "<small>✗</small><del>␣king</del>" in bare
    assert "◦↵" in bare, "a line would hide a token that is one sign"
    assert "<small>→</small>␣lord" in bare and bare.count("<li>") == 4


def test_nothing_is_fetched_run_or_named_anew():
    html = strip(*ROUNDS.values())._repr_html_()
    assert html == strip(*ROUNDS.values())._repr_html_()
    for word in ("http", "url(", "@import", "javascript", " onclick", ' id="', "0x"):
        assert word not in html


def test_two_strips_of_96_tokens_are_small():
    """One that half agrees, and the longest a chain of 4 can make: not one draft accepted."""
    half = [CORRECTED, one((1, 2), 2, (3,), "bonus")] * 20
    none = [one((1, 2, 3, 1), 0, (2,), "correction")] * 96
    for rounds, most in ((half[:39], 25_000), (none, 40_000)):
        run = strip(*rounds)
        assert len(run.trace.new_tokens) >= 96
        assert len(run._repr_html_().encode()) < most


# ---------------------------------------------------------------- refusals


def test_refusals_name_what_is_wrong():
    with pytest.raises(ValueError, match="layout must be one of 'rounds', 'flow', got 'tree'"):
        strip(layout="tree")
    with pytest.raises(ValueError, match="prompt_tokens must be 0 or more, got -1"):
        strip(prompt_tokens=-1)
    tree = Round((1, 2), (-1, -1), (1,), (2, 3), "bonus", 3, 4, 3, 4, 0.0, 0.0)
    with pytest.raises(ValueError, match="round 2 drafted a tree"):
        strip(CORRECTED, tree)
