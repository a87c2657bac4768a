"""The bug museum: wrong decoders beside the correct one, and a table of which check notices which.

    python -m specdec_lab.teach.museum                        the table
    python -m specdec_lab.teach.museum stale_draft_cache      one exhibit: label, difference, what the checks say

It shows and runs the exhibits; they are in `wrong_caches.py` and `wrong_tokens.py`, the correct loop in
`plain_loop.py`, the checks in `checks.py`.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import sys
import textwrap
from collections.abc import Iterable, Sequence

from . import wrong_caches, wrong_tokens
from .checks import CHECKS, run_checks
from .exhibit import Exhibit
from .plain_loop import PlainLoop

CORRECT = Exhibit("correct", "Nothing is wrong.", "There is none.", (), (), frozenset(), PlainLoop)
EXHIBITS: dict[str, Exhibit] = {"correct": CORRECT} | {
    part.exhibit.name: part.exhibit
    for room in (wrong_caches, wrong_tokens)
    for part in vars(room).values()
    if hasattr(part, "exhibit")
}


def get_exhibit(name: str) -> Exhibit:
    """The exhibit of that name. `ValueError`, with the names there are, for any other.

    >>> get_exhibit("bonus_lost").wrong_step
    "After a full acceptance the target's extra token is thrown away."
    """
    if name not in EXHIBITS:
        raise ValueError(f"there is no exhibit {name!r}; there are {', '.join(EXHIBITS)}")
    return EXHIBITS[name]


def diff(name: str) -> str:
    """The correct method and the exhibit's as a unified difference; "" for the correct loop.
    `ValueError` for an unknown name. Taught in notebook 04.

    >>> print(diff("draft_cache_reset"))
    --- correct.roll_back_draft
    +++ draft_cache_reset.roll_back_draft
    @@ -1,2 +1,2 @@
     def roll_back_draft(self, sequence):
    -    self.draft.cut(len(sequence) - 1)
    +    self.draft.cut(0)
    """
    shown = get_exhibit(name)
    method = shown.replaced
    if method is None:
        return ""
    right, wrong = (
        textwrap.dedent(inspect.getsource(getattr(loop, method))).splitlines()
        for loop in (PlainLoop, shown.loop)
    )
    lines = difflib.unified_diff(right, wrong, f"correct.{method}", f"{name}.{method}", n=9, lineterm="")
    return "\n".join(lines)


def label(name: str) -> str:
    """What hangs beside an exhibit: the wrong step, the symptom, where it was reported, and the difference.
    `ValueError` for an unknown name."""
    shown = get_exhibit(name)
    parts = [f"{name}: {shown.wrong_step}", shown.symptom]
    if shown.references:
        parts.append(f"{' '.join(shown.faults)}; reported in {', '.join(shown.references)}")
    return "\n".join([*parts, "", diff(name)]).rstrip()


def survey(names: Iterable[str] = EXHIBITS) -> dict[str, dict[str, str | None]]:
    """Run every check on every named exhibit: name → check → None or a sentence. All of them take seconds.
    `ValueError` for an unknown name.

    >>> {check for check, sentence in survey(["draft_cache_reset"])["draft_cache_reset"].items() if sentence}
    {'fed_tokens'}
    """
    return {name: run_checks(get_exhibit(name).decode) for name in names}


def table(findings: dict[str, dict[str, str | None]]) -> str:
    """Exhibits by checks as plain text: "x" where the check notices something, "." where it passes.

    Args:
        findings: name → check → None or a sentence, as `survey` collects it.
    """
    width = max(map(len, findings))
    lines = [" " * width + "".join(f"{number:>3}" for number in range(1, len(CHECKS) + 1))]
    for name, found in findings.items():
        lines.append(f"{name:<{width}}" + "".join("  x" if found[check] else "  ." for check in CHECKS))
    legend = [f"{number:>3} {check}" for number, check in enumerate(CHECKS, start=1)]
    return "\n".join([*lines, "", "x: the check notices the fault; .: the exhibit passes", "", *legend])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or the exhibits that are named. Returns the exit code: 0, or 2 for an unknown name."""
    parser = argparse.ArgumentParser(
        prog="python -m specdec_lab.teach.museum",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="exhibit", help="show these instead of the table")
    options = parser.parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        labels = [label(name) for name in options.names]
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not labels:
        print(table(survey()))
    for name, text in zip(options.names, labels, strict=True):
        print(text + "\n")
        for check, sentence in survey([name])[name].items():
            if sentence:
                print(textwrap.fill(f"{check}: {sentence}", 110, subsequent_indent="    "))
    return 0


if __name__ == "__main__":
    sys.exit(main())
