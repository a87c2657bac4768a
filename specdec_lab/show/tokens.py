"""A speculative run as HTML: every token marked and coloured by where it came from, one row a round.

It decides nothing: which token is what is asked of `terminal.py`, whose text is also the plain twin of the strip.
It draws no trees. Marks carry the meaning and colours repeat it, so the strip still reads right where a page drops
all styles, as GitHub does. No JavaScript, nothing fetched, no ids, and the same run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from specdec_lab.decoding.rounds import ACCEPTED, BONUS, CORRECTION, END, PLAIN, Round, Trace

from .readable import readable
from .style import BLUE, GREEN, VERMILION
from .terminal import REJECTED, UNJUDGED, WORDS, legend, style_for, token_strip, verdicts
from .words import many

Decode = Callable[[list[int]], str]

LAYOUTS = ("rounds", "flow")
MARKS = style_for("utf-8", colour=False)
SPOKEN = {
    ACCEPTED: "accepted",
    REJECTED: "rejected",
    UNJUDGED: "never judged",
    CORRECTION: "correction",
    BONUS: "bonus",
    PLAIN: "plain",
}

# ---------------------------------------------------------------- colours

# The paper of a token is a veil of the house colour, and its ink is the page's own: so it stays readable on any page,
# light or dark, whatever the page does with style sheets. (No fixed ink has a contrast of 4.5 both on white and on
# #111; and a style sheet that asks for the reader's preference is wrong on a white page in a dark desktop.)
# Rejected drafts have no veil: red-green blind readers could not tell a grey one from the green. Tests compute the contrasts.
PAPER = {ACCEPTED: GREEN, CORRECTION: VERMILION, BONUS: BLUE}
VEIL = 0.33  # how much of the colour; the rest is the page
PALE = 0.72  # how much of the text's colour is left of what was never judged

# a second sign beside the mark: the line under the token
_LINES = {
    ACCEPTED: f"2px solid {GREEN}",
    CORRECTION: f"4px double {VERMILION}",
    BONUS: f"2px dashed {BLUE}",
    PLAIN: "2px dotted",
}

_CLASSES = {kind: f"sd-{kind[0]}" for kind in MARKS.marks}  # short: a strip has hundreds of them
_CSS = (
    ".sd-strip ol{font-variant-numeric:tabular-nums}.sd-strip li::marker{font-size:.85em}"
    ".sd-strip [class^=sd-]{padding:1px 4px;border-radius:3px;overflow-wrap:anywhere;unicode-bidi:isolate;"
    "print-color-adjust:exact;-webkit-print-color-adjust:exact;"
    "box-decoration-break:clone;-webkit-box-decoration-break:clone}"
    ".sd-strip small{font-size:.8em;margin-right:3px}"
    ".sd-strip sup{font-size:.75em;line-height:0;margin-left:.5em}"
    ".sd-strip del,.sd-strip s{text-decoration-thickness:1px}"
    f".sd-strip .{_CLASSES[REJECTED]}{{box-shadow:inset 0 0 0 1px #888}}"
    + "".join(f".sd-strip .{_CLASSES[kind]}{{border-bottom:{line}}}" for kind, line in _LINES.items())
)
_STYLES = {
    kind: f"background:{colour.lower()}{round(VEIL * 255):02x};padding:1px 4px"
    for kind, colour in PAPER.items()
}
_STYLES[UNJUDGED] = f"opacity:{PALE}"
_ROOT = (
    "text-align:left;line-height:1.9;max-width:60em;"
    "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
)

# ---------------------------------------------------------------- tokens that are spoken

_NAMES = {" ": "space", "\n": "newline", "\t": "tab"}


def _spoken(text: str, token: int, whole: bool) -> str:
    """A token as a screen reader should say it; `whole` names its spaces too."""
    if not text or "\ufffd" in text:
        return f"part of a character, token {token}"
    if text.isspace():
        return " ".join(_NAMES.get(character, readable(character)) for character in text)
    if whole and text[0] == " ":
        return f"space and '{readable(text[1:]).replace('␣', ' ')}'"
    return f"'{readable(text.strip()).replace('␣', ' ')}'"


# ---------------------------------------------------------------- the strip


def show_tokens(
    trace: Trace, decode: Decode, *, title: str = "", layout: str = "rounds", prompt_tokens: int = 24
) -> TokenStrip:
    """Every token of a run, marked by where it came from. Taught in notebook 03.

    Args:
        trace: the run; a chain in every round (no trees).
        decode: a list of token ids → text; `pair.decode` does it.
        title: the heading, and the strip's name for screen readers; "" for the standard one.
        layout: "rounds", one row a round, or "flow", the rounds one after another like running text.
        prompt_tokens: how many of the prompt's last tokens to show, 0 for none.

    Returns:
        What a notebook shows as a token strip when it is the last line of a cell; `print` gives the same as text.

    Raises:
        ValueError: `layout` is neither word, `prompt_tokens` is negative, or a round drafted a tree.

    Example:
        `show_tokens(Trace.of(ids, speculative_rounds(...)), pair.decode)`
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUTS))}, got {layout!r}")
    if prompt_tokens < 0:
        raise ValueError(f"prompt_tokens must be 0 or more, got {prompt_tokens}")
    for number, item in enumerate(trace.rounds, 1):
        if item.parents != tuple(range(-1, len(item.drafted) - 1)):
            raise ValueError(f"round {number} drafted a tree; a token strip shows chains only")
    return TokenStrip(trace, decode, title or "Every token by origin", layout, prompt_tokens)


@dataclass(frozen=True, repr=False)
class TokenStrip:
    """A run to look at: `_repr_html_` for notebooks, `str()` for everything else. Made by `show_tokens`."""

    trace: Trace
    decode: Decode
    title: str
    layout: str
    prompt_tokens: int

    @property
    def sentence(self) -> str:
        """The run in one sentence: rounds, tokens, and where they came from."""
        counts = self.trace.summary()
        if not counts["rounds"]:
            return "No round was run, so nothing follows the prompt."
        own = [
            many(counts[key], *words)
            for key, words in (
                ("corrections", ("correction", "corrections")),
                ("bonuses", ("bonus", "bonuses")),
                ("plain", ("plain token", "plain tokens")),
            )
            if counts[key]
        ]
        parts = [f"{counts['accepted']} of {many(counts['drafted'], 'draft', 'drafts')} accepted", *own]
        return (
            f"{many(counts['rounds'], 'round', 'rounds')} gave "
            f"{many(counts['new_tokens'], 'token', 'tokens')}: {', '.join(parts)}."
        )

    def __str__(self) -> str:
        """The same as text, one line a round, by `terminal.py`."""
        prompt = self._prompt()
        lines = token_strip(self.trace, self.decode, MARKS)
        parts = [self.title, legend(MARKS), *([f"prompt: {prompt}"] if prompt else []), lines, self.sentence]
        return "\n".join(part for part in parts if part)

    __repr__ = __str__  # a notebook stores it beside the HTML

    def _repr_html_(self) -> str:
        prompt = self._prompt()
        rows = list(enumerate(self.trace.rounds, 1))
        if self.layout == "rounds":
            body = "".join(f"<li>{self._round(number, item)}</li>\n" for number, item in rows)
            body = f'<ol style="margin:.4em 0;padding-left:3em">\n{body}</ol>\n' if rows else ""
        else:
            body = " ".join(f"<sup>{number}</sup> {self._round(number, item)}\n" for number, item in rows)
            body = f'<p style="margin:.4em 0">{body}</p>\n' if rows else ""
        text = 'style="margin:.4em 0"'
        return (
            f'<div class="sd-strip" role="figure" aria-label="{escape(self.title)}" dir="ltr" style="{_ROOT}">\n'
            f"<style>{_CSS}</style>\n"
            f"<p {text}><b>{escape(self.title)}</b></p>\n"
            f"<p {text}>{'&ensp;'.join(_chip(kind, [word], ' ') for kind, word in WORDS.items())}</p>\n"
            + (f"<p {text}>prompt: {escape(prompt)}</p>\n" if prompt else "")
            + body
            + f"<p {text}>{escape(self.sentence)}</p>\n</div>"
        )

    # ------------------------------------------------------------ parts

    def _readable(self, token: int) -> str:
        return readable(self.decode([token]), token)

    def _prompt(self) -> str:
        """The end of the prompt as running text; empty when none is wanted."""
        prompt = self.trace.prompt
        shown = prompt[max(0, len(prompt) - self.prompt_tokens) :]
        if not shown:
            return ""
        text = readable(self.decode(list(shown))).replace("␣", " ")
        hidden = len(prompt) - len(shown)
        return f"({many(hidden, 'token', 'tokens')} before) … {text}" if hidden else text

    def _round(self, number: int, item: Round) -> str:
        chips = []
        for kind, group in groupby(verdicts(item), key=lambda verdict: verdict[0]):
            tokens = [token for _, token in group]
            # what was never judged was thrown away together, and is shown together
            for some in [tokens] if kind == UNJUDGED else [[token] for token in tokens]:
                chips.append(_chip(kind, [self._readable(token) for token in some]))
                broken = self.layout == "flow" and self.decode(some).endswith("\n")
                chips += ["<br>"] if broken and kind in item.origins else []
        label = escape(self._label(number, item), quote=False).replace('"', "&quot;")
        return f'<span role="img" aria-label="{label}">{" ".join(chips)}</span>'

    def _label(self, number: int, item: Round) -> str:
        """What a screen reader says for a round."""
        judged = verdicts(item)
        texts = [self.decode([token]) for _, token in judged]
        bare = [text.strip() for text in texts]
        parts: list[str] = []
        for i, (kind, token) in enumerate(judged):
            # "rejected 'the', correction 'the'" would sound like a fault: say what differs
            alike = any(bare[i] == bare[j] and texts[i] != texts[j] for j in range(len(texts)))
            said = _spoken(texts[i], token, whole=alike)
            parts.append(said if i and judged[i - 1][0] == kind else f"{SPOKEN[kind]} {said}")
        end = ", which ends the text" if item.outcome == END else ""
        return f"round {number}: {', '.join(parts)}{end}"


def _chip(kind: str, texts: Sequence[str], gap: str = "") -> str:
    """One or more tokens of one kind; the mark stays outside the line that strikes a token out."""
    strike = {REJECTED: "del", UNJUDGED: "s"}.get(kind)
    mark = MARKS.marks[kind] if kind == UNJUDGED else f"<small>{MARKS.marks[kind]}</small>"
    inside = " ".join(f"{mark}{gap}{_struck(text, strike)}" for text in texts)
    style = f' style="{_STYLES[kind]}"' if kind in _STYLES else ""
    return f'<span class="{_CLASSES[kind]}"{style}>{inside}</span>'


def _struck(text: str, element: str | None) -> str:
    """A line through what has letters or digits; a full stop would disappear under it, and the mark says it already."""
    shown = escape(text)
    return f"<{element}>{shown}</{element}>" if element and any(map(str.isalnum, text)) else shown
