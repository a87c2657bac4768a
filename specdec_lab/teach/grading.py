"""How a function is graded: behaviours, each tried on cases, become findings, and these a report.

It knows no function in particular; the graders say what is expected, which cases are tried and how they are judged.
How a report looks is in `report_views.py`. It hands out no marks: a course that wants some reads the JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import report_views

RIGHT, WASTEFUL, WRONG, UNJUDGED = "right", "wasteful", "wrong", "not judged"
SCHEMA_VERSION = 1
_SILENT, _GONE = "no answer", "no return"  # of one behaviour; both are wrong in the report
MOST_TRIES = 1000  # so many smaller cases are tried for one behaviour: the whole grid of the greedy grader


class NoAnswer(Exception):
    """The function gave no answer that could be looked at; the message says what it did instead."""


class NoReturn(NoAnswer):
    """It used up its time or memory, so nothing more is asked of it."""


class Undecided(Exception):
    """The case shows nothing, for good or ill. Where all cases of a behaviour do so it is not judged, and the last message
    says why."""


@dataclass(frozen=True)
class Behaviour:
    """One thing that a function has to do.

    Attributes:
        name, expected: what it is called, and what is right, in half a sentence.
        cases: tried in this order until one fails.
        judge: (function, case) → None, or a sentence about what is wrong, or that and words for the case, if it has
            chosen one itself. It may raise `NoAnswer` and `Undecided`.
        hints: three, from a question to the very line.
        broken: what a failing case means, `WRONG` or `WASTEFUL`.
        smaller: cases from the smallest on, searched for one that fails as well; () where `cases` have that order.
        words: a case → the call, and what to know about it.
    """

    name: str
    expected: str
    cases: Sequence[Any]
    judge: Callable[[Any, Any], str | tuple[str, str] | None]
    hints: tuple[str, str, str]
    broken: str = WRONG
    smaller: Iterable[Any] = ()
    words: Callable[[Any], str] = str


@dataclass(frozen=True)
class Finding:
    """What was found about one behaviour. `found` and `case` are "" where it is right; `case` is the smallest that
    fails, in words, and `shown` the thing itself."""

    name: str
    expected: str
    status: str
    found: str = ""
    case: str = ""
    hints: tuple[str, ...] = ()
    shown: Any = None


@dataclass
class Report:
    """All findings about one function: a table in a notebook, and on `print`. Taught in notebook 12.

    Attributes:
        title: what was graded.
        findings: one for each behaviour, in the order in which they are taught.
        notes: what else the reader should know, such as which form of answer was recognised.
        revealed: behaviour → how many of its hints have been asked for.

    Example:
        >>> from specdec_lab import speculative_decode
        >>> from specdec_lab.teach.grader import check_speculative_decode
        >>> report = check_speculative_decode(speculative_decode)
        >>> report.verdict, report["answers"].status
        ('right', 'right')
    """

    title: str
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)
    revealed: dict[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """`WRONG` if anything is, else `WASTEFUL` if anything is, else `RIGHT`."""
        found = {finding.status for finding in self.findings}
        return next((status for status in (WRONG, UNJUDGED, WASTEFUL) if status in found), RIGHT)

    @property
    def broken(self) -> dict[str, Finding]:
        """The findings that are wrong or wasteful, by name."""
        return {item.name: item for item in self.findings if item.status in (WRONG, WASTEFUL)}

    @property
    def counts(self) -> dict[str, int]:
        """Status → how many behaviours have it."""
        statuses = [finding.status for finding in self.findings]
        return {status: statuses.count(status) for status in (RIGHT, WASTEFUL, WRONG, UNJUDGED)}

    def __getitem__(self, name: str) -> Finding:
        """The finding of that name; `KeyError` with the names there are for any other."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(f"no behaviour {name!r}; there are {', '.join(f.name for f in self.findings)}")

    def hint(self, name: str) -> str:
        """The next hint about a behaviour; there are three, and none where nothing could be judged. `KeyError` for an
        unknown name."""
        finding = self[name]
        if finding.status == RIGHT:
            return f"{name} is right: there is nothing to hint at."
        if not finding.hints:
            return f"{name}: {finding.found}"
        self.revealed[name] = number = min(self.revealed.get(name, 0) + 1, len(finding.hints))
        return f"Hint {number} of {len(finding.hints)}: {finding.hints[number - 1]}"

    def reveal(self, count: int) -> Report:
        """Ask for `count` hints about everything that is not right; returns the report itself."""
        for name, finding in self.broken.items():
            self.revealed[name] = min(max(0, count), len(finding.hints))
        return self

    def to_dict(self) -> dict[str, Any]:
        """For course tools, as JSON: only the hints that have been asked for are in it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "title": self.title,
            "verdict": self.verdict,
            "counts": self.counts,
            "notes": list(self.notes),
            "behaviours": [
                {
                    "name": item.name,
                    "expected": item.expected,
                    "status": item.status,
                    "found": item.found,
                    "smallest_case": item.case,
                    "hints": list(item.hints[: self.revealed.get(item.name, 0)]),
                }
                for item in self.findings
            ],
        }

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> Report:
        """What `to_dict` wrote. `ValueError` for another schema version."""
        if written.get("schema_version") != SCHEMA_VERSION:
            version = written.get("schema_version")
            raise ValueError(f"schema_version must be {SCHEMA_VERSION}, got {version!r}")
        findings = [
            Finding(
                item["name"],
                item["expected"],
                item["status"],
                item["found"],
                item["smallest_case"],
                tuple(item["hints"]),
            )
            for item in written["behaviours"]
        ]
        revealed = {item.name: len(item.hints) for item in findings if item.hints}
        return cls(written["title"], findings, list(written["notes"]), revealed)

    def text(self, encoding: str | None = "utf-8", in_terminal: bool = False) -> str:
        """The table as text, in ASCII where `encoding` lacks the marks. Its last line says how to get a hint: in Python, or
        with `in_terminal` from `python -m specdec_lab grade`."""
        return report_views.as_text(self, encoding, in_terminal)

    def __str__(self) -> str:
        return self.text(getattr(sys.stdout, "encoding", None))

    def __repr__(self) -> str:
        return self.text()  # what a notebook stores beside the HTML

    def _repr_html_(self) -> str:
        return report_views.as_html(self)


def grade(title: str, function: Any, behaviours: Iterable[Behaviour]) -> Report:
    """Try every behaviour on its cases and report. Whatever the function does, a report comes back. Behind a
    behaviour that is wrong because the function did not come back, none is judged. Else, where no case of any behaviour
    gets an answer, only the first is wrong, and the others are not judged. A refusal that a case asks for is an answer.

    Args:
        title: what is graded.
        function: handed on to each `judge`.
        behaviours: in the order in which they are taught.
    """
    findings: list[Finding] = []
    answered, stopped = False, ""
    for item in behaviours:
        if stopped:
            because = f"not judged: in {stopped} the function did not come back."
            findings.append(Finding(item.name, item.expected, UNJUDGED, because))
            continue
        status, found, case, came = _first_failure(item, function, item.cases)
        answered = answered or came
        stopped = item.name if status == _GONE else ""
        if status in (item.broken, _SILENT):
            smaller = _first_failure(item, function, _at_most(MOST_TRIES, item.smaller))
            answered = answered or smaller[3]
            if smaller[0] in (item.broken, _SILENT):
                status, found, case = smaller[:3]
        if status in (RIGHT, UNJUDGED):
            findings.append(Finding(item.name, item.expected, status, found))
        else:
            status = WRONG if status in (_SILENT, _GONE) else status
            found, words = (found, item.words(case)) if isinstance(found, str) else found
            findings.append(Finding(item.name, item.expected, status, found, words, item.hints, case))
    if not answered and not stopped:
        first = findings[0].name if findings else ""
        because = f"not judged: no call gave an answer; see {first}."
        findings[1:] = [Finding(item.name, item.expected, UNJUDGED, because) for item in findings[1:]]
    return Report(title, findings)


def _first_failure(item: Behaviour, function: Any, cases: Iterable[Any]) -> tuple[str, Any, Any, bool]:
    """(status, what `judge` said, case) of the first case that fails: `item.broken`, `_SILENT` or `_GONE`. Where none does,
    `RIGHT`, or `UNJUDGED` if all were undecided. And whether any case got an answer, this one or one before it."""
    decided, why = False, ""
    for case in cases:
        try:
            sentence = item.judge(function, case)
        except NoReturn as error:
            return _GONE, str(error), case, decided or bool(why)
        except NoAnswer as error:
            return _SILENT, str(error), case, decided or bool(why)
        except Undecided as error:
            why = f"not judged: {error}."
            continue
        if sentence:
            return item.broken, sentence, case, True
        decided = True
    return (UNJUDGED, why, None, True) if why and not decided else (RIGHT, "", None, decided)


def _at_most(count: int, items: Iterable[Any]) -> Iterable[Any]:
    return (item for _, item in zip(range(count), items, strict=False))
