"""Decimal numbers in prose were printed by a cell of the notebook, and still are what prose says."""

from __future__ import annotations

import re

import pytest
from reading import ANCHOR, NOTEBOOKS, PRACTICE, name_of, prose, read, said

EVERY = pytest.mark.parametrize("path", [*NOTEBOOKS, *PRACTICE], ids=name_of)


@EVERY
def test_anchored_numbers_are_what_was_said(path):
    notebook = read(path)
    spoken = said(notebook)
    for text in prose(notebook):
        for number, name in ANCHOR.findall(text):
            assert name in spoken, f"{name!r} was never said; said: {sorted(spoken)}"
            assert number.replace("−", "-").rstrip(".,") == spoken[name], (name, number, spoken[name])


@EVERY
def test_no_decimal_number_stands_in_prose_without_an_anchor(path):
    for text in prose(read(path)):
        left = ANCHOR.sub("", text)
        left = re.sub(
            r"<!--.*?-->|https?://\S+|\b(?:section|equation|theorem|corollary|table|definition|version|python|torch|transformers) [\d.]+",
            "",
            left,
            flags=re.S | re.I,
        )
        assert not (found := re.findall(r"(?<![\w.])\d+\.\d+(?!\w|\.\d)", left)), found


def test_the_reader_of_anchors_reads():
    text = "The rate is 0.65<!-- say: rate -->, that is 65 %<!--say:percent-->; minus −0.5<!-- say: x -->."
    assert ANCHOR.findall(text) == [("0.65", "rate"), ("65", "percent"), ("−0.5", "x")]
