"""The bug museum: wrong decoders beside the correct one, and a table of which check notices which.

    python -m specdec_lab.teach.museum                        the tables
    python -m specdec_lab.teach.museum stale_draft_cache      one exhibit: label, difference, what the checks say

It has two wings. Greedy decoders are in `wrong_caches.py` and `wrong_tokens.py`, spoilt copies of `plain_loop.py`,
checked by `checks.py`. Samplers are in `wrong_sampling.py`, spoilt copies of `plain_sampler.py`, checked by
`sampling_checks.py`; what each does to the law of the text is in `biases`. How one gets there, and the smallest case that
shows it, is told in `stories.py` and `stories_of_sampling.py`. Here they are only shown and run.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import sys
import textwrap
from collections.abc import Iterable, Sequence

from specdec_lab.decoding.sampling import Sampling

from . import wrong_caches, wrong_sampling, wrong_tokens
from .biases import Bias, bias_of, bias_table
from .checks import CHECKS, run_checks
from .exhibit import Exhibit
from .plain_loop import PlainLoop
from .plain_sampler import PlainSampler
from .sampling_audit import P, Q
from .sampling_checks import SAMPLING_CHECKS, run_sampling_checks
from .stories import STORIES, Story
from .stories_of_sampling import SAMPLER_STORIES


def _exhibits(*rooms) -> dict[str, Exhibit]:
    found = [part.exhibit for room in rooms for part in vars(room).values() if hasattr(part, "exhibit")]
    return {item.name: item for item in found}


CORRECT, CORRECT_SAMPLER = (
    Exhibit(name, "Nothing is wrong.", "There is none.", (), (), frozenset(), loop)
    for name, loop in (("correct", PlainLoop), ("correct_sampler", PlainSampler))
)
# the greedy wing, the correct loop first; and the wrong samplers
EXHIBITS: dict[str, Exhibit] = {"correct": CORRECT} | _exhibits(wrong_caches, wrong_tokens)
SAMPLERS: dict[str, Exhibit] = _exhibits(wrong_sampling)
BOTH_SETTINGS = (Sampling(), Sampling(0.5, top_p=0.9))  # plain, and one where the other faults show
_ALL = EXHIBITS | {"correct_sampler": CORRECT_SAMPLER} | SAMPLERS
TOLD: dict[str, Story] = STORIES | SAMPLER_STORIES  # the stories of both wings


def get_exhibit(name: str) -> Exhibit:
    """The exhibit of that name, from either wing. `ValueError`, with the names there are, for any other.

    >>> get_exhibit("bonus_lost").wrong_step
    "After a full acceptance the target's extra token is thrown away."
    """
    if name not in _ALL:
        raise ValueError(f"there is no exhibit {name!r}; there are {', '.join(_ALL)}")
    return _ALL[name]


def diff(name: str) -> str:
    """The correct method and the exhibit's as a unified difference; "" for the correct loop and sampler.
    `ValueError` for an unknown name. Taught in notebooks 04 and 07.

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
        for loop in (shown.correct, shown.loop)
    )
    correct = "correct_sampler" if shown.draws else "correct"
    lines = difflib.unified_diff(right, wrong, f"{correct}.{method}", f"{name}.{method}", n=9, lineterm="")
    return "\n".join(lines)


def label(name: str) -> str:
    """What hangs beside an exhibit: the wrong step, the symptom, how one gets there, where to read of it, what the
    grader finds in which smallest case, and the difference. `ValueError` for an unknown name."""
    shown = get_exhibit(name)
    parts = [f"{name}: {shown.wrong_step}", shown.symptom]
    if name in TOLD:
        parts += textwrap.wrap(TOLD[name].text, 110, break_on_hyphens=False)
    if shown.references:
        parts.append(f"see {', '.join(shown.references)}")
    if name in TOLD:
        parts += textwrap.wrap(f"breaks {', '.join(TOLD[name].breaks)}", 110, subsequent_indent="    ")
        parts += ["shortest case:", textwrap.indent(TOLD[name].shortest, "    ")]
    return "\n".join([*parts, "", diff(name)]).rstrip()


def survey(names: Iterable[str] = EXHIBITS) -> dict[str, dict[str, str | None]]:
    """Run every check of its wing on every named exhibit: name → check → None or a sentence. All of them take
    seconds. `ValueError` for an unknown name.

    >>> {check for check, sentence in survey(["draft_cache_reset"])["draft_cache_reset"].items() if sentence}
    {'fed_tokens'}
    """
    shown = [get_exhibit(name) for name in names]
    return {
        item.name: run_sampling_checks(item.sample) if item.draws else run_checks(item.decode)
        for item in shown
    }


def table(findings: dict[str, dict[str, str | None]]) -> str:
    """Exhibits by checks as plain text: "x" where the check notices something, "." where it passes.

    Args:
        findings: name → check → None or a sentence, as `survey` collects it for exhibits of one wing.
    """
    width = max(map(len, findings))
    checks = SAMPLING_CHECKS if get_exhibit(next(iter(findings))).draws else CHECKS
    lines = [" " * width + "".join(f"{number:>3}" for number in range(1, len(checks) + 1))]
    for name, found in findings.items():
        lines.append(f"{name:<{width}}" + "".join("  x" if found[check] else "  ." for check in checks))
    legend = [f"{number:>3} {check}" for number, check in enumerate(checks, start=1)]
    return "\n".join([*lines, "", "x: the check notices the fault; .: the exhibit passes", "", *legend])


def biases(
    p: Sequence[float] = P,
    q: Sequence[float] = Q,
    gamma: int = 1,
    sampling: Sampling | None = None,
    names: Iterable[str] = ("correct_sampler", *SAMPLERS),
) -> list[Bias]:
    """What every sampler does to the law of the text, the correct one first. Exact; taught in notebook 07.

    Args:
        p, q, gamma, sampling: as for `bias_of`. With gamma 2 it takes some ten seconds, more with every token.
        names: of exhibits that draw.

    Raises:
        ValueError, TypeError: as `bias_of`; no such exhibit.

    Example:
        >>> for row in biases(names=["accept_if_equal", "resample_from_p"]):
        ...     print(row.name, *(f"{value:.4f}" for value in row[1:]))
        accept_if_equal 0.0000 0.0000 0.2700
        resample_from_p 0.0500 0.0675 0.5000
    """
    return [bias_of(get_exhibit(name), p, q, gamma, sampling) for name in names]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or the exhibits that are named. Returns the exit code: 0, or 2 for an unknown name."""
    parser = argparse.ArgumentParser(
        prog="python -m specdec_lab.teach.museum",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="exhibit", help="show these instead of the tables")
    options = parser.parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        labels = [label(name) for name in options.names]
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not labels:
        print(f"Greedy decoders\n\n{table(survey())}\n")
        print(f"Samplers\n\n{table(survey(['correct_sampler', *SAMPLERS]))}\n")
        for sampling in BOTH_SETTINGS:
            print(f"{bias_table(biases(sampling=sampling), sampling)}\n")
    for name, text in zip(options.names, labels, strict=True):
        print(text + "\n")
        for check, sentence in survey([name])[name].items():
            if sentence:
                print(textwrap.fill(f"{check}: {sentence}", 110, subsequent_indent="    "))
    return 0


if __name__ == "__main__":
    sys.exit(main())
