"""Token strips in plain text."""

from __future__ import annotations

from specdec_lab.decoding.rounds import Round, Trace
from specdec_lab.show.terminal import legend, round_line, style_for, token_strip


def one(drafted, accepted, emitted, outcome):
    return Round(
        drafted, tuple(range(-1, len(drafted) - 1)), accepted, emitted, outcome, 3, 4, 3, 4, 0.0, 0.0
    )


WORDS = {1: " to", 2: " be", 3: "\n", 4: "or"}


def decode(tokens):
    return "".join(WORDS[token] for token in tokens)


def test_every_origin_has_its_own_mark():
    style = style_for("utf-8", colour=False)
    assert round_line(one((1, 2), (0,), (1, 4), "correction"), decode, style) == "✓␣to  ✗␣be  →or"
    assert round_line(one((1, 2, 1), (), (4,), "correction"), decode, style) == "✗␣to  ◦␣be  ◦␣to  →or"
    assert round_line(one((1,), (0,), (1, 3), "bonus"), decode, style) == "✓␣to  +↵"
    assert round_line(one((), (), (2,), "plain"), decode, style) == "·␣be"
    assert round_line(one((1, 2), (0, 1), (1, 2), "end"), decode, style) == "✓␣to  ✓␣be"
    marks = list(style.marks.values())
    assert len(set(marks)) == len(marks) and all(mark in legend(style) for mark in marks)


def test_ascii_where_the_terminal_knows_no_better():
    for encoding in ("ascii", "latin-1", "no-such-encoding", None):
        style = style_for(encoding, colour=False)
        assert (legend(style) + round_line(one((1, 2), (0,), (1, 3), "correction"), decode, style)).isascii()


def test_colour_only_repeats_the_marks():
    plain, coloured = style_for("utf-8", colour=False), style_for("utf-8", colour=True)
    item = one((1, 2), (0,), (1, 4), "correction")
    assert "\x1b" not in round_line(item, decode, plain)
    stripped = round_line(item, decode, coloured)
    for code in coloured.colours.values():
        stripped = stripped.replace(f"\x1b[{code}m", "")
    assert stripped.replace("\x1b[0m", "") == round_line(item, decode, plain)


def test_one_numbered_line_a_round():
    trace = Trace.of([9], [one((1,), (0,), (1, 2), "bonus"), one((), (), (4,), "plain")])
    assert token_strip(trace, decode, style_for("utf-8", False)).split("\n") == ["1  ✓␣to  +␣be", "2  ·or"]


def test_a_token_cannot_steer_the_terminal():
    texts = {1: "\x1b[2J", 2: "\u202e", 3: "\ufffd"}
    line = round_line(
        one((1, 2), (0, 1), (1, 2, 3), "bonus"), lambda tokens: texts[tokens[0]], style_for("utf-8", False)
    )
    assert line == "✓␛[2J  ✓\\u202e  +⟨#3⟩"
