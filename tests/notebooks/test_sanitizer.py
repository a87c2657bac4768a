"""The rules that forgive a difference between runs: all of them loaded, none of them forgiving a taught number."""

from __future__ import annotations

import re

import pytest
from nbval.plugin import get_sanitize_patterns
from reading import NOTEBOOKS, ROOT, code_cells, name_of, read, said

FILE = ROOT / "tests" / "notebooks" / "sanitize.cfg"
RULES = get_sanitize_patterns(FILE.read_text(encoding="ascii"))


def sanitised(text: str) -> str:
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return text


def test_the_rules_loaded_are_the_rules_written():
    lines = FILE.read_text(encoding="ascii").splitlines()
    written = [line.removeprefix("regex: ") for line in lines if line.startswith("regex:")]
    replacements = [line.removeprefix("replace: ") for line in lines if line.startswith("replace:")]
    assert [list(rule) for rule in RULES] == [list(pair) for pair in zip(written, replacements, strict=True)]
    assert len(RULES) == 3 and all(replacement.strip() for _, replacement in RULES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("took 1.25 s and 3 ms", "took WALLCLOCK and WALLCLOCK"),
        ("at 1234.5 tokens/s", "at WALLCLOCK"),
        ("<object at 0x7f1c2a3b4c5d>", "<object at OBJECTID>"),
        ('<img src="data:image/png;base64,iVBORw0KGgo=" alt="x">', '<img src="IMAGE" alt="x">'),
    ],
)
def test_what_may_differ_is_forgiven(text, expected):
    assert sanitised(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0.795",
        "alpha = 0.62",
        "3.7 tokens per round",
        "speed-up 1.5",
        "12 tokens",
        "5 steps",
        "1.0 x",
        "s = 4",
    ],
)
def test_other_numbers_are_not(text):
    assert sanitised(text) == text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_no_rule_touches_a_taught_number(path):
    notebook = read(path)
    assert said(notebook) or path.stem.startswith("00"), "a lesson without a taught number"
    for cell in code_cells(notebook):
        for output in cell.outputs:
            for line in output.get("text", "").splitlines():
                if re.fullmatch(r".+? = \S+(?: .*)?", line):
                    assert sanitised(line) == line
