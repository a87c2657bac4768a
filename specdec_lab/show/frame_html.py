"""One frame as an HTML table: the sequence, the draft's guesses, the target's answers, and both caches beneath them.

Real text in real cells, so that it can be read where styles are stripped: marks tell the states apart, and colour,
hatching and borders only repeat them. Text takes the page's own colour and fills are translucent, so dark themes
need no second palette. It knows nothing of sliders or pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from specdec_lab.decoding.rounds import ACCEPTED, BONUS, CORRECTION, PLAIN

from .cells import (
    COMMIT,
    CONFIRMED,
    CUT,
    DRAFT,
    GUESS,
    REJECTED,
    SPECULATIVE,
    STALE,
    START,
    UNFED,
    UNJUDGED,
    VERIFY,
    Frame,
    Span,
    count,
    fresh,
    held,
)
from .style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

Write = Callable[[int], str]
# a token of the sequence from before the round; what one pass reads, for the cache above or below
TEXT, PASS_ABOVE, PASS_BELOW = "text", "pass above", "pass below"
LONGEST = 9  # letters of a token that a cell shows


@dataclass(frozen=True)
class Look:
    """How one kind of cell looks: its mark, its CSS class with the declarations behind it, its words in the legend."""

    mark: str
    name: str
    css: str
    words: str


@dataclass(frozen=True)
class Window:
    """The positions start, …, start + columns - 1 are shown; `hidden` keeps a column for what lies before them."""

    start: int
    columns: int
    hidden: bool


def _fill(colour: str, alpha: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"background:rgba({red},{green},{blue},{alpha:g})"


def _hatch(colour: str, angle: int) -> str:
    stripe = _fill(colour, 0.4).removeprefix("background:")
    return f"background:repeating-linear-gradient({angle}deg,{stripe} 0 4px,transparent 4px 9px)"


_FAINT = "rgba(128,128,128,.7)"
LOOKS = {
    TEXT: Look("", "t", "border:2px solid transparent", ""),
    GUESS: Look("?", "g", f"{_hatch(ORANGE, 45)};border:2px dashed {ORANGE}", "guess"),
    ACCEPTED: Look("✓", "a", f"{_fill(GREEN, 0.25)};border:2px solid {GREEN}", "accepted"),
    REJECTED: Look("✗", "r", f"border:2px dotted {VERMILION}", "rejected"),
    UNJUDGED: Look("◦", "j", f"border:2px dotted {_FAINT}", "never judged"),
    CORRECTION: Look("→", "x", f"{_fill(VERMILION, 0.25)};border:2px solid {VERMILION}", "correction"),
    BONUS: Look("+", "b", f"{_fill(BLUE, 0.35)};border:3px double {BLUE};padding:2px", "bonus"),
    PLAIN: Look("·", "p", f"border:2px solid {_FAINT}", "chosen without a draft"),
    CONFIRMED: Look("■", "k", f"{_fill(SKY, 0.3)};border:2px solid {SKY}", "confirmed"),
    SPECULATIVE: Look(
        "▨", "s", f"{_hatch(ORANGE, 45)};border:2px dashed {ORANGE}", "speculative: not judged yet"
    ),
    STALE: Look("!", "o", f"{_hatch(PURPLE, 135)};border:2px solid {PURPLE}", "stale: must be cut"),
    CUT: Look("✂", "c", f"border:2px dotted {PURPLE}", "rolled back: just cut"),
    PASS_ABOVE: Look("", "q", "border:solid currentColor;border-width:2px 0 0;padding:0", ""),
    PASS_BELOW: Look("", "w", "border:solid currentColor;border-width:0 0 2px;padding:0", ""),
    UNFED: Look("□", "u", f"border:2px dotted {_FAINT}", "chosen, not fed yet"),
}
_TOKENS = (GUESS, ACCEPTED, REJECTED, UNJUDGED, CORRECTION, BONUS, PLAIN)
_STATES = (CONFIRMED, SPECULATIVE, STALE, CUT, UNFED)
_STRUCK = (REJECTED, UNJUDGED, CUT)
_FRESH = "box-shadow:0 0 0 2px currentColor"
_CELL = "padding:3px;text-align:center!important;white-space:nowrap;font-family:monospace;font-size:15px;line-height:1.3"
_TABLE = "border-collapse:separate;border-spacing:5px 4px;table-layout:auto;margin:0"
_ENTRY = "display:inline-block;margin:4px 14px 4px 0"
_HEAD = "padding:3px 8px 3px 0;text-align:left!important;white-space:nowrap;font-size:15px;font-weight:normal"


@dataclass(frozen=True)
class Dress:
    """How attributes are written: `cell` for a look, fresh or not; `head` and `row` for row heads and rows; `number`
    for the cells of the first row, which set the columns' width."""

    cell: Callable[[Look | None, bool], str]
    head: str = ""
    row: str = ""
    number: str = ""


def _classes(look: Look | None, fresh: bool) -> str:
    return "" if look is None else f" class={look.name}{'f' if fresh else ''}"


def _styles(look: Look | None, fresh: bool) -> str:
    return ' style="' + ";".join(filter(None, [_CELL, look and look.css, fresh and _FRESH])) + '"'


BY_CLASS = Dress(_classes)
BY_STYLE = Dress(_styles, f' style="{_HEAD}"', ' style="background:none"', f' style="{_CELL};min-width:56px"')


def rules(scope: str) -> str:
    """The CSS that tables in `BY_CLASS` need, for those inside `scope`."""
    lines = [f"{scope} td,{scope} p span[class]{{{_CELL}}}", f"{scope} th{{{_HEAD}}}"]
    for look in LOOKS.values():
        lines.append(f"{scope} .{look.name},{scope} .{look.name}f{{{look.css}}}")
    fresh = ",".join(f"{scope} .{look.name}f" for look in LOOKS.values())
    return "\n".join([*lines, f"{fresh}{{{_FRESH}}}"])


def legend(frames: Iterable[Frame], dress: Dress) -> str:
    """What the marks mean, for the kinds of cells that occur in `frames`."""
    kinds: set[str | None] = set()
    for frame in frames:
        kinds |= {*frame.verdicts, frame.origin}
        kinds |= {span.state for span in (*frame.target_cache, *(frame.draft_cache or ()))}

    def entry(look: Look, new: bool, mark: str, words: str) -> str:
        return f'<span style="{_ENTRY}"><span{dress.cell(look, new)}>{mark}</span> {words}</span>'

    lines = []
    for name, group in (("Tokens:", _TOKENS), ("Cache entries:", _STATES)):
        known = [
            entry(LOOKS[kind], False, LOOKS[kind].mark, LOOKS[kind].words) for kind in group if kind in kinds
        ]
        lines.append(f"<b>{name}</b> &ensp;" + " ".join(known))
    lines[-1] += " " + entry(LOOKS[TEXT], True, "<b>new</b>", "in this step")
    return "<br>".join(lines)


def table(rows: Iterable[str]) -> str:
    """The table of `table_rows`."""
    return f'<table style="{_TABLE}"><tbody>{"".join(rows)}</tbody></table>'


def table_rows(frame: Frame, window: Window, write: Write, dress: Dress) -> list[str]:
    """The frame as table rows. Tokens are numbered from 1, so a cache that holds n ends under token n."""
    shown = range(window.start, window.start + window.columns)
    agreed = frame.verdicts.count(ACCEPTED)

    def empty(text: object = "", columns: int = 1) -> str:
        return f"<td{dress.cell(None, False)}{f' colspan={columns}' if columns > 1 else ''}>{text}</td>"

    def cell(kind: str, token: int, new: bool) -> str:
        look, text = LOOKS[kind], write(token)
        text = escape(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")
        text = f"<s>{text}</s>" if kind in _STRUCK else text
        text = f"<b>{look.mark}{text}</b>" if new else look.mark + text
        return f"<td{dress.cell(look, new)}>{text}</td>"

    def row(name: str, length: object, before: str, cells: Iterable[str]) -> str:
        before = empty(before) if window.hidden else ""
        return f"<tr{dress.row}><th{dress.head}>{name}</th>{empty(length)}{before}{''.join(cells)}</tr>"

    def line_up(tokens: Sequence[int], first: int, kinds: Sequence[str], new: bool) -> Iterable[str]:
        """Cells for `tokens`, which stand at the positions from `first` on."""
        for position in shown:
            place = position - first
            yield cell(kinds[place], tokens[place], new) if 0 <= place < len(tokens) else empty()

    def sequence() -> Iterable[str]:
        kinds = [ACCEPTED] * agreed + [frame.origin]
        before, after = range(window.start, frame.base), range(frame.base, len(frame.sequence))
        for position in shown:
            if position in before:
                yield cell(TEXT, frame.sequence[position], False)
            elif position in after:
                yield cell(kinds[position - frame.base], frame.sequence[position], frame.phase == COMMIT)
            else:
                yield empty()

    def cache_row(name: str, cache: tuple[Span, ...] | None) -> str:
        if cache is None:
            return row(name, "", "", [empty("no cache", window.columns)])
        earlier, cells = [], []
        for span in cache:
            mark, within = LOOKS[span.state].mark, min(span.stop, window.start) - span.start
            if within > 0:
                earlier.append(f"<b>{mark}&nbsp;{within}</b>" if span.fresh else f"{mark}&nbsp;{within}")
            text = frame.sequence if span.state == UNFED else frame.text
            visible = range(max(span.start, window.start), min(span.stop, shown.stop))
            cells += [cell(span.state, text[position], span.fresh) for position in visible]
        cells += [empty()] * (window.columns - len(cells))
        before = held(cache) - sum(map(len, fresh(cache))) + count(cache, CUT)
        return row(name, _change(before, held(cache)), " ".join(earlier), cells)

    def passes() -> str:
        target = frame.phase == VERIFY
        cells = []
        for number, (start, stop) in enumerate(frame.passes, 1):
            start = max(start, window.start)
            cells += [empty()] * (start - window.start) if number == 1 else []
            text = f"one pass over {stop - frame.passes[0][0]}" if target else f"pass {number}"
            look = LOOKS[PASS_ABOVE if target else PASS_BELOW]
            cells.append(f"<td{dress.cell(look, False)} colspan={stop - start}>{text}</td>")
        used = frame.passes[-1][1] - window.start if cells else 0
        name = ("target reads" if target else "draft reads") if cells else "&nbsp;"
        return row(name, "", "", [*cells, *[empty()] * (window.columns - used)])

    def answers() -> Iterable[str]:
        known = frame.phase not in (START, DRAFT)
        tokens = [*frame.drafted[:agreed], *([] if frame.own is None else [frame.own])] if known else []
        return line_up(tokens, frame.base, [*[ACCEPTED] * agreed, frame.origin], frame.phase == VERIFY)

    before = frame.base if frame.phase == COMMIT else len(frame.sequence)
    dots = ("prompt…" if window.start <= frame.prompt else "…") if window.start else ""
    numbers = (f"<td{dress.number}>{position + 1}</td>" for position in shown)
    return [
        row("token number", "length", ["", "1", f"1–{window.start}"][min(window.start, 2)], numbers),
        row("sequence", _change(before, len(frame.sequence)), dots, sequence()),
        row(
            "draft guesses", "", "", line_up(frame.drafted, frame.base, frame.verdicts, frame.phase == DRAFT)
        ),
        row("target answers", "", "", answers()),
        f'<tr{dress.row}><td style="height:8px;padding:0"></td></tr>',
        cache_row("target’s cache", frame.target_cache),
        passes(),
        cache_row("draft’s cache", frame.draft_cache),
    ]


def _change(before: int, after: int) -> str:
    return str(after) if before == after else f"{before}&nbsp;→&nbsp;<b>{after}</b>"
