"""A speculative run as plain text: one line a round, every token marked by where it came from.

Marks carry the meaning and colours only repeat it. Works without torch and without colour; where the terminal
cannot print the marks, ASCII ones stand in. It prints nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specdec_lab.decoding.rounds import ACCEPTED, BONUS, CORRECTION, PLAIN, Round, Trace

from .readable import readable


@dataclass(frozen=True)
class Style:
    """Marks and, for each kind of token, an ANSI colour code ("" for none). Colours are from a
    colour-blind safe set (Okabe-Ito: green, vermilion, blue)."""

    marks: dict[str, str]
    space: str
    newline: str
    colours: dict[str, str]

    def paint(self, kind: str, text: str) -> str:
        """`text` in the colour of `kind`."""
        code = self.colours.get(kind, "")
        return f"\x1b[{code}m{text}\x1b[0m" if code else text


REJECTED, UNJUDGED = "rejected", "unjudged"
_COLOURS = {
    ACCEPTED: "38;5;36",
    CORRECTION: "38;5;166",
    BONUS: "38;5;32",
    REJECTED: "9;38;5;245",
    UNJUDGED: "9;38;5;245",
}


def style_for(encoding: str | None, colour: bool) -> Style:
    """Unicode marks where `encoding` has them, ASCII ones elsewhere."""
    unicode_marks = {ACCEPTED: "✓", CORRECTION: "→", BONUS: "+", PLAIN: "·", REJECTED: "✗", UNJUDGED: "◦"}
    ascii_marks = {ACCEPTED: "=", CORRECTION: ">", BONUS: "+", PLAIN: ".", REJECTED: "x", UNJUDGED: "~"}
    try:
        "".join([*unicode_marks.values(), "␣↵"]).encode(encoding or "ascii")
        return Style(unicode_marks, "␣", "↵", _COLOURS if colour else {})
    except (UnicodeEncodeError, LookupError):
        return Style(ascii_marks, "_", "\\n", _COLOURS if colour else {})


WORDS = {
    ACCEPTED: "accepted draft",
    REJECTED: "rejected draft",
    UNJUDGED: "never judged",
    CORRECTION: "correction",
    BONUS: "bonus",
    PLAIN: "nothing drafted",
}


def legend(style: Style) -> str:
    """One line that explains the marks."""
    return "   ".join(style.paint(kind, style.marks[kind] + " " + word) for kind, word in WORDS.items())


def verdicts(item: Round) -> list[tuple[str, int]]:
    """(kind, token) of every drafted token, then of the target's own.

    Only the first rejected draft was judged; what a chain drafted behind it never was.
    """
    agreed = len(item.accepted)
    refused = item.drafted[agreed:]
    return [
        *((ACCEPTED, item.drafted[i]) for i in item.accepted),
        *((UNJUDGED if i else REJECTED, token) for i, token in enumerate(refused)),
        *((item.outcome, token) for token in item.emitted[agreed:]),
    ]


def round_line(item: Round, decode: Callable[[list[int]], str], style: Style) -> str:
    """The drafted tokens with their verdict, then the target's own token."""

    def show(kind: str, token: int) -> str:
        text = readable(decode([token]), token).replace("␣", style.space).replace("↵", style.newline)
        return style.paint(kind, style.marks[kind] + text)

    return "  ".join(show(kind, token) for kind, token in verdicts(item))


def token_strip(trace: Trace, decode: Callable[[list[int]], str], style: Style) -> str:
    """One numbered line for each round."""
    width = len(str(len(trace.rounds)))
    lines = (f"{i:>{width}}  {round_line(item, decode, style)}" for i, item in enumerate(trace.rounds, 1))
    return "\n".join(lines)
