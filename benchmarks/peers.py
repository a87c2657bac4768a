"""Is it exact and how fast is it, beside the packages one could install instead. One table.

Every contender decodes the same 50 cases (a held-out prompt, a number of new tokens, γ), greedily, in float32 and
without an end token, so that all do equal work. Each has a process of its own. They take turns case by case in an
order that rotates, and a contender is timed inside its process around the call alone. The peers are no dependencies
of this package: each pinned one is installed into an environment of its own, which sees the torch and transformers
that are here. Run it with nothing else running:

    python benchmarks/peers.py --environments ~/peers

"exact" counts the cases in which the new tokens are those of transformers' plain greedy `generate`. "timed" counts
those in which the contender gave the right number of tokens, and the speed is taken over these: total time of
`generate` ÷ total time of the contender (median over the runs, smallest and largest). A peer that does not run stays
in the table and says why. `peers_adapters/` shows how each one is called.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from peers_adapters.asking import SHARED, Answer, Case, Child, NotRunning, environment

import specdec_lab
from specdec_lab import load_pair
from specdec_lab.files import ASSETS
from specdec_lab.measure.environment import installed_version, versions
from specdec_lab.models.pairs import BUNDLED

ADAPTERS = Path(__file__).resolve().parent / "peers_adapters"
SEED = 20261129


@dataclass(frozen=True)
class Contender:
    """A row: an adapter in `peers_adapters/`, the mode it is started in, and the pinned peer that it needs."""

    name: str
    adapter: str
    mode: str
    requirement: str | None = None


SEQSPEC = "sequential-speculative-decoding==0.1.1"
CONTENDERS = (  # the first is the measure of all others
    Contender("transformers generate", "transformers", "generate"),
    Contender("specdec_lab speculative_decode", "specdec_lab", "draft"),
    Contender("transformers assisted", "transformers", "assisted"),
    Contender("flashspec, draft model", "flashspec", "draft", "flashspec==0.3.1"),
    Contender("flashspec, its default", "flashspec", "default", "flashspec==0.3.1"),
    Contender("economize, draft model", "economize", "draft", "economize==0.3.2"),
    Contender("seqspecdecod, standard", "seqspecdecod", "standard", SEQSPEC),
    Contender("seqspecdecod, capped_hsd", "seqspecdecod", "capped_hsd", SEQSPEC),
    Contender("specdec_lab prompt lookup", "specdec_lab", "lookup"),
    Contender("transformers prompt lookup", "transformers", "lookup"),
    Contender("economize, prompt lookup", "economize", "lookup", "economize==0.3.2"),
)


def draw_cases(texts: Sequence[Sequence[int]], count: int = 50, seed: int = SEED) -> list[Case]:
    """Prompts of 1 to 64 tokens that begin where a text does, running on into the next text where one is short;
    8 to 64 new tokens; γ of 1 to 6. The same for the same texts and seed."""
    dice = random.Random(seed)
    cases = []
    for _ in range(count):
        number, length = dice.randrange(len(texts)), dice.randint(1, 64)
        prompt: list[int] = []
        while len(prompt) < length:
            prompt.extend(texts[number % len(texts)])
            number += 1
        cases.append(Case(tuple(prompt[:length]), dice.randint(8, 64), dice.randint(1, 6)))
    return cases


def take_turns(
    children: dict[str, Child], cases: Sequence[Case], warmup: int, runs: int
) -> dict[str, list[list[Answer]]]:
    """For each contender its runs, each the answers to all cases; the first `warmup` cases are decoded before."""
    names = list(children)
    for case in cases[:warmup]:
        for name in names:
            children[name].ask(case)
    kept: dict[str, list[list[Answer]]] = {name: [] for name in names}
    for run in range(runs):
        for name in names:
            kept[name].append([])
        for number, case in enumerate(cases):
            shift = (run + number) % len(names)
            for name in names[shift:] + names[:shift]:
                kept[name][run].append(children[name].ask(case))
    return kept


def fault(answer: Answer, expected: Sequence[int]) -> str:
    """What is wrong with an answer; nothing if it is exact."""
    if answer.error:
        return "exception"
    if any(a != b for a, b in zip(answer.tokens, expected, strict=False)):
        return "wrong token"
    if len(answer.tokens) != len(expected):
        return "too many" if len(answer.tokens) > len(expected) else "too few"
    return ""


@dataclass(frozen=True)
class Row:
    """What the table says of a contender.

    Attributes:
        exact: cases that were exact in every run.
        faults: how many cases had which fault, the kind that came first in front.
        timed: cases that had the right number of tokens in every run; only these are compared.
        ratios: for each run, time of the reference ÷ time of the contender.
        error: the first exception.
    """

    exact: int
    faults: dict[str, int]
    timed: int
    ratios: tuple[float, ...]
    error: str = ""


def judge(runs: Sequence[Sequence[Answer]], reference: Sequence[Sequence[Answer]]) -> Row:
    """Compare a contender's answers with the reference's."""
    expected = [answer.tokens for answer in reference[0]]
    faults: Counter[str] = Counter()
    timed, errors = [], []
    for number, tokens in enumerate(expected):
        answers = [run[number] for run in runs]
        found = [kind for kind in (fault(answer, tokens) for answer in answers) if kind]
        faults.update(found[:1])
        errors += [answer.error for answer in answers if answer.error]
        if all(not answer.error and len(answer.tokens) == len(tokens) for answer in answers):
            timed.append(number)
    ratios = [
        sum(theirs[number].seconds for number in timed) / sum(ours[number].seconds for number in timed)
        for ours, theirs in zip(runs, reference, strict=True)
        if timed
    ]
    return Row(
        len(expected) - faults.total(), dict(faults), len(timed), tuple(ratios), errors[0] if errors else ""
    )


def line(name: str, row: Row | None, cases: int, remarks: Sequence[str] = ()) -> str:
    """One line of the table; `row` is None for a contender that did not start."""
    if row is None:
        return f"{name:<32} {'-':>7}  {'-':>5}  {'-':<24} does not run: {'; '.join(remarks)}"
    kinds = [f"{kind} {count}" for kind, count in row.faults.items()]
    said = [part for part in (", ".join(kinds), row.error, *remarks) if part]
    speed = "-"
    if row.ratios:
        low, high = min(row.ratios), max(row.ratios)
        speed = f"{statistics.median(row.ratios):.2f} ({low:.2f} to {high:.2f})"
    return f"{name:<32} {f'{row.exact}/{cases}':>7}  {row.timed:>5}  {speed:<24} {'; '.join(said)}".rstrip()


def start(contender: Contender, python: Path, pair: str, patience: float) -> Child:
    """The contender's process, ready to answer; `NotRunning` with the reason if it is not."""
    surroundings = dict(os.environ)
    if contender.adapter == "specdec_lab":
        root = str(Path(specdec_lab.__file__).resolve().parents[1])
        surroundings["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    folder, draft = BUNDLED[pair]
    command = [python, ADAPTERS / f"{contender.adapter}_adapter.py", ASSETS / folder / "target"]
    command += [ASSETS / folder / draft, contender.mode]
    child = Child([str(part) for part in command], patience, surroundings)
    if child.refusal:
        child.close()
        raise NotRunning(child.refusal)
    return child


def start_all(
    chosen: Sequence[Contender], environments: Path, pair: str, patience: float
) -> tuple[dict[str, Child], dict[str, list[str]]]:
    """By name: the contenders that run, and remarks about all (the reason, for one that does not run)."""
    pythons: dict[str | None, Path] = {None: Path(sys.executable)}
    about: dict[str | None, str] = {}
    for pin in sorted({contender.requirement for contender in chosen if contender.requirement}):
        try:
            pythons[pin], about[pin] = environment(environments, pin)
        except NotRunning as reason:
            about[pin] = str(reason)
    children: dict[str, Child] = {}
    remarks: dict[str, list[str]] = {}
    for contender in chosen:
        said = remarks[contender.name] = [text for text in (about.get(contender.requirement),) if text]
        if contender.requirement in pythons:
            try:
                child = start(contender, pythons[contender.requirement], pair, patience)
            except NotRunning as reason:
                said.append(str(reason))
            else:
                children[contender.name] = child
                said += other_versions(child)
    return children, remarks


def other_versions(child: Child) -> list[str]:
    """A remark if the child runs with another torch or transformers than this process."""
    other = [
        f"{name} {child.versions[name]}" for name in SHARED if child.versions[name] != installed_version(name)
    ]
    return [f"with {', '.join(other)}"] if other else []


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--environments",
        type=Path,
        help="folder of the peers' environments, kept; a temporary one unless given",
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=3, help="cases decoded before the first run")
    parser.add_argument("--pair", choices=sorted(BUNDLED), default="tiny")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds to wait for one answer")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="WORD", help="only contenders whose name has a WORD in it"
    )
    options = parser.parse_args(given)
    for name in ("runs", "cases"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more, got {getattr(options, name)}")
    return options


def main(given: Sequence[str] | None = None) -> None:
    """Start the contenders, measure and print."""
    options = arguments(given)
    cases = draw_cases(load_pair(options.pair).prompt_ids, options.cases)
    reference = CONTENDERS[0].name
    chosen = [
        contender
        for contender in CONTENDERS
        if contender.name == reference or not options.only or any(w in contender.name for w in options.only)
    ]
    pins = sorted({contender.requirement for contender in chosen if contender.requirement})
    with tempfile.TemporaryDirectory() as scratch:
        place = (options.environments or Path(scratch)).expanduser().resolve()
        children, remarks = start_all(chosen, place, options.pair, options.patience)
        try:
            if reference not in children:
                raise SystemExit(f"{reference}: {'; '.join(remarks[reference])}")
            answers = take_turns(children, cases, options.warmup, options.runs)
        finally:
            for child in children.values():
                child.close()
    failed = next((answer.error for run in answers[reference] for answer in run if answer.error), "")
    if failed:
        raise SystemExit(f"{reference}: {failed}")

    stamp = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(f"pair {options.pair}, float32, greedy, {len(cases)} held-out cases, {options.runs} runs")
    print(f"{stamp}; peers: {', '.join(pins) or 'none'}\n")
    print(f"{'contender':<32} {'exact':>7}  timed  {'speed ÷ generate':<24} faults and remarks")
    for contender in chosen:
        name = contender.name
        row = judge(answers[name], answers[reference]) if name in answers else None
        print(line(name, row, len(cases), remarks[name]))


if __name__ == "__main__":
    main()
