"""How a grader's report looks: as text for a terminal and a screen reader, as a table for a notebook.

Marks carry the meaning and colours repeat it, so both read right where styles are stripped. It judges nothing.
"""

from __future__ import annotations

import textwrap
from html import escape
from typing import TYPE_CHECKING

from specdec_lab.show.style import GREEN, GREY, ORANGE, VERMILION

if TYPE_CHECKING:
    from .grading import Finding, Report

WIDTH = 110
HINTS = 3  # of every behaviour
MARKS = {"right": "✓", "wasteful": "~", "wrong": "✗", "not judged": "?"}
ASCII_MARKS = {"right": "+", "wasteful": "~", "wrong": "x", "not judged": "?"}
_COLOURS = {"right": GREEN, "wasteful": ORANGE, "wrong": VERMILION, "not judged": GREY}
_ASCII = {"γ": "gamma", "÷": "/", "×": "x", "→": "->", "…": "...", "≤": "<=", "≥": ">=", "α": "alpha", "·": "*"}  # fmt: skip
_CSS = (  # the class stands twice, or Jupyter's own rules for tables and code win
    ".sd-grade table{border-collapse:collapse;margin:.5em 0}"
    ".sd-grade.sd-grade table td,.sd-grade.sd-grade table th{text-align:left;"
    "vertical-align:top;padding:4px 10px;border-bottom:1px solid rgba(128,128,128,.4)}"
    ".sd-grade details{margin:.2em 0 .2em .8em}.sd-grade summary{cursor:pointer}"
    ".sd-grade code{overflow-wrap:anywhere}.sd-grade.sd-grade td:nth-child(2) code{white-space:nowrap}"
    ".sd-grade small{opacity:.85}"
)

# ---------------------------------------------------------------- words for both


def sentence(report: Report) -> str:
    """The report in one sentence.

    >>> from .grading import Report
    >>> sentence(Report("f", []))
    'f: nothing was looked at.'
    """
    counts = [f"{number} {status}" for status, number in report.counts.items() if number]
    return f"{report.title}: {', '.join(counts) or 'nothing was looked at'}."


def _advice(report: Report) -> str:
    first = _first(report)
    if not first:
        return ""
    return f"Begin with {first}" + ("; what follows may come from it." if len(report.broken) > 1 else ".")


def _first(report: Report) -> str:
    """With what to begin: the first that is wrong, or wasteful if none is; "" where there is neither."""
    return next(
        (n for s in ("wrong", "wasteful") for n, item in report.broken.items() if item.status == s), ""
    )


def _how_to_ask(report: Report, in_terminal: bool) -> str:
    """How to come by a hint where the text is read; "" where all have been shown."""
    if not in_terminal:
        return f'For a hint about it: report.hint("{_first(report)}"), up to three times.'
    shown = max(report.revealed.values(), default=0)
    return f"For {'a further' if shown else 'a'} hint: --hints {shown + 1}." if shown < HINTS else ""


def _unjudged(report: Report) -> dict[str, list[str]]:
    """Why → the behaviours that were not judged for this reason."""
    why: dict[str, list[str]] = {}
    for item in report.findings:
        if item.status == "not judged":
            why.setdefault(item.found, []).append(item.name)
    return why


def _in_one_line(names: list[str]) -> tuple[str, str]:
    """How many, and which of them a line has room for."""
    count = f"{len(names)} more line{'s' * (len(names) > 1)}"
    return count, textwrap.shorten(", ".join(names), WIDTH - len(count) - 8, placeholder=" …")


def _repeats(report: Report) -> dict[str, str]:
    """Behaviour → the earlier one about which the very same was found."""
    seen: dict[tuple[str, str], str] = {}
    again = {}
    for item in report.findings:
        if item.found and item.case:
            first = seen.setdefault((item.found, item.case), item.name)
            if first != item.name:
                again[item.name] = first
    return again


# ---------------------------------------------------------------- text


def as_text(report: Report, encoding: str | None, in_terminal: bool = False) -> str:
    """One line a behaviour, and what was found beneath it where it is not right; those that were not judged together."""
    width = max((len(item.name) for item in report.findings), default=0)
    again = _repeats(report)
    lines = [sentence(report), *report.notes, ""]
    for item in (item for item in report.findings if item.status != "not judged"):
        lines += _wrapped(f"{MARKS[item.status]} {item.name:<{width}}  ", item.expected, width + 4)
        if item.name in again:
            lines.append(f"      found  the same as in {again[item.name]}")
        elif item.status != "right":
            lines += _wrapped("      found  ", item.found, 13)
            for first, part in zip(("      case   ", " " * 13), item.case.split("\n"), strict=False):
                lines += _wrapped(first, part, 13)
        for number in range(report.revealed.get(item.name, 0)):
            lines += _wrapped(f"      hint {number + 1} ", item.hints[number], 13)
    for why, names in _unjudged(report).items():
        lines += [
            f"{MARKS['not judged']} {': '.join(_in_one_line(names))}",
            *_wrapped("      found  ", why, 13),
        ]
    advice = _advice(report)
    if advice:
        lines += ["", *_wrapped("", f"{advice} {_how_to_ask(report, in_terminal)}", 0)]
    text = "\n".join(lines)
    return text if _can_print(encoding) else _to_ascii(text)


def _wrapped(first: str, text: str, indent: int) -> list[str]:
    return textwrap.wrap(
        first + text, WIDTH, subsequent_indent=" " * indent, drop_whitespace=True, break_long_words=False
    ) or [first.rstrip()]


def _can_print(encoding: str | None) -> bool:
    try:
        "".join([*MARKS.values(), *_ASCII]).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _to_ascii(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        for status, mark in MARKS.items():
            if line.startswith(mark):
                line = ASCII_MARKS[status] + line[1:]
        lines.append(line)
    text = "\n".join(lines)
    for sign, stand_in in _ASCII.items():
        text = text.replace(sign, stand_in)
    return text.encode("ascii", errors="replace").decode("ascii")


# ---------------------------------------------------------------- HTML


def as_html(report: Report) -> str:
    """A table without scripts and ids; hints are nested details, closed until asked for."""
    again = _repeats(report)
    rows = "".join(
        _row(item, again.get(item.name)) for item in report.findings if item.status != "not judged"
    )
    for why, names in _unjudged(report).items():
        count, which = _in_one_line(names)
        rows += _cells("not judged", escape(count), escape(which), escape(why))
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in report.notes)
    advice = _advice(report)
    return (
        f'<div class="sd-grade" role="region" aria-label="{escape(sentence(report))}" dir="ltr">\n'
        f"<style>{_CSS}</style>\n<p><b>{escape(sentence(report))}</b></p>\n{notes}"
        "<table>\n<thead><tr><th></th><th>behaviour</th><th>expected</th><th>found, and the smallest failing case</th>"
        f"</tr></thead>\n<tbody>\n{rows}</tbody></table>\n"
        + (f"<p>{escape(advice)}</p>\n" if advice else "")
        + "</div>"
    )


def _row(item: Finding, same_as: str | None) -> str:
    if same_as:
        last = f"the same as in <code>{escape(same_as)}</code>"
    elif item.case:
        call, _, rest = item.case.partition("\n")
        last = (
            f"{escape(item.found)}<br><code>{escape(call)}</code>"
            + (f"<br><small>{escape(rest)}</small>" if rest else "")
            + _nested(item.hints)
        )
    else:
        last = escape(item.found)
    return _cells(item.status, f"<code>{escape(item.name)}</code>", escape(item.expected), last)


def _cells(status: str, *rest: str) -> str:
    mark = (
        f'<span role="img" aria-label="{status}" title="{status}" '
        f'style="background:{_COLOURS[status].lower()}55;padding:1px 6px;border-radius:3px">{MARKS[status]}</span>'
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in (mark, *rest))}</tr>\n"


def _nested(hints: tuple[str, ...]) -> str:
    """Each hint inside the one before, so that they open one by one."""
    inner = ""
    for number in range(len(hints), 0, -1):
        inner = (
            f"<details><summary>Hint {number} of {len(hints)}</summary>"
            f"{escape(hints[number - 1])}{inner}</details>"
        )
    return inner
