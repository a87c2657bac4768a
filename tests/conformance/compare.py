"""One configuration: drawn from its number, decoded, and held against the uncached text and the exact work.

It does not choose families (`families.py`) and does not decide what is enough (`test_families.py`).
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from families import NEW_TOKENS, PROMPTS, ZOO, Family, family
from helpers import Reference, assert_rounds_hold, assert_same_text

from specdec_lab import Trace, speculative_decode, speculative_rounds
from specdec_lab.decoding.rounds import CORRECTION

SEED = 41
TOTAL = 1250  # fifty a family
FORMS = {"list": list, "tuple": tuple, "tensor": torch.tensor}
ENDS = ("none", "none", "one id", "ids", "no ids", "unknown id", "held", "held", "held, among others")


@dataclass(frozen=True)
class Configuration:
    """What is run; the prompt is the family's, by number."""

    index: int
    family: str
    target: str
    draft: str
    prompt: int
    form: str
    gamma: int
    new_tokens: int
    ends: Any


@dataclass(frozen=True)
class Compared:
    """What came out of a configuration that held.

    `tied`: the reference has a near tie; `cut_short`: the text left it there, and was compared up to there only.
    """

    configuration: Configuration
    drafted: int
    accepted: int
    unreadable: int  # corrections to an id that the draft does not have
    outcomes: Counter
    stopped: bool
    tied: bool
    cut_short: bool


results: dict[int, Compared] = {}


def family_of(index: int) -> str:
    """Families take turns, so each has its share of the total."""
    return list(ZOO)[index % len(ZOO)]


def draw(index: int) -> Configuration:
    """The configuration of this number, whatever ran before."""
    rng = random.Random(f"{SEED} {index}")
    zoo = family(family_of(index))
    prompt, new_tokens = rng.randrange(PROMPTS), rng.randint(1, NEW_TOKENS)
    text, width = zoo.references[prompt].tokens[:new_tokens], zoo.recipe.vocabulary
    held = text[rng.randint(new_tokens // 4, new_tokens * 3 // 4) % new_tokens]
    some = [rng.randrange(width) for _ in range(3)]
    ends = {
        "none": None,
        "one id": some[0],
        "ids": some,
        "no ids": [],
        "unknown id": 10 * width,
        "held": held,
        "held, among others": (some[0], held),
    }[rng.choice(ENDS)]
    return Configuration(
        index=index,
        family=zoo.name,
        target=rng.choice(["built", "loaded"]),
        draft=rng.choice(["agree", "half", "half", "disagree"]),
        prompt=prompt,
        form=rng.choice(list(FORMS)),
        gamma=rng.randint(1, 8),
        new_tokens=new_tokens,
        ends=ends,
    )


@functools.cache
def compare(index: int) -> Compared:
    """Run one configuration; an `AssertionError` that says which, and how to run it alone, if it does not hold."""
    configuration = draw(index)
    try:
        results[index] = run(configuration, family(configuration.family))
    except Exception as error:
        raise AssertionError(
            f"{configuration} of seed {SEED}, transformers {transformers.__version__}: {error!r}\n"
            f"alone: CONFORMANCE_ONLY={index} python -m pytest tests/conformance -k test_exact"
        ) from error
    return results[index]


class Watched:
    """Each pass of a transformers model, as (positions in its cache before, ids fed), seen at the model itself."""

    def __init__(self, model):
        self.fed: list[tuple[int, list[int]]] = []
        self.cache = None
        self._hook = model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module, args, kwargs):
        self.cache = kwargs["cache"] if "cache" in kwargs else kwargs["past_key_values"]
        self.fed.append((self.cache.get_seq_length(), kwargs["input_ids"][0].tolist()))

    @property
    def held(self) -> set[int]:
        """Positions in its cache now: one number, unless layers differ."""
        return {0} if self.cache is None else {layer.get_seq_length() for layer in self.cache.layers}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._hook.remove()


def run(configuration: Configuration, zoo: Family) -> Compared:
    """Decode it and check text, rounds, passes, fed ids and caches."""
    n, gamma = configuration.new_tokens, configuration.gamma
    target = zoo.targets[configuration.target]
    draft = zoo.drafts[configuration.draft, configuration.target]
    prompt, full = zoo.prompts[configuration.prompt], zoo.references[configuration.prompt]
    given = FORMS[configuration.form](prompt)
    reference = Reference(full.tokens[:n], full.gaps[:n], full.near[:n])
    ends = end_tokens(configuration.ends)

    rounds, sequence = [], list(prompt)
    with Watched(target) as seen, Watched(draft) as guessed:
        for item in speculative_rounds(
            target, draft, given, max_new_tokens=n, gamma=gamma, eos_token_id=configuration.ends
        ):
            rounds.append(item)
            sequence += item.emitted
            assert len(seen.fed) == len(rounds)
            assert seen.held == {len(sequence) - 1} == {item.target_cache_after}
            assert guessed.held == {item.draft_cache_after}

    new = assert_rounds_hold(prompt, rounds, ends, n)
    assert_same_text(new, reference, ends)
    trace = Trace.of(prompt, rounds)
    assert sum(len(ids) for _, ids in seen.fed) == len(prompt) + len(rounds) - 1 + trace.drafted
    assert len(guessed.fed) == trace.drafted
    assert (seen.fed, guessed.fed) == feeds(prompt, rounds)
    check_drafts(configuration, zoo.recipe, prompt, rounds, reference)
    if configuration.index % 4 == 0:
        answer = speculative_decode(target, draft, given, n, gamma, configuration.ends)
        assert answer == (trace.sequence, trace.acceptance_rate)
    assert list(given) == prompt
    return Compared(
        configuration=configuration,
        drafted=trace.drafted,
        accepted=trace.accepted,
        unreadable=sum(to_unreadable(item, zoo.recipe) for item in rounds),
        outcomes=Counter(item.outcome for item in rounds),
        stopped=new[-1] in ends,
        tied=any(reference.near),
        cut_short=new != reference.until(ends),
    )


def end_tokens(ends: Any) -> tuple[int, ...]:
    if ends is None:
        return ()
    return (ends,) if isinstance(ends, int) else tuple(ends)


def feeds(prompt: Sequence[int], rounds: Sequence) -> tuple[list, list]:
    """What the target and the draft must have been fed in these rounds: nothing twice, nothing left out."""
    target, draft, sequence = [], [], list(prompt)
    for item in rounds:
        held = item.target_cache_before
        target.append((held, [*sequence[held:], *item.drafted]))
        held = item.draft_cache_before
        pending = sequence[held:]
        for token in item.drafted:
            draft.append((held, pending))
            held, pending = held + len(pending), [token]
        sequence += item.emitted
    return target, draft


def to_unreadable(item, recipe) -> bool:
    return item.outcome == CORRECTION and item.emitted[-1] >= recipe.draft_vocabulary


def check_drafts(configuration, recipe, prompt, rounds, reference) -> None:
    """No drafted id that the target lacks, no draft that read an id it lacks, and an equal draft is right."""
    readable, equal = recipe.draft_vocabulary, recipe.draft_vocabulary >= recipe.vocabulary
    highest = max(prompt)
    for item in rounds:
        assert all(token < recipe.vocabulary for token in item.drafted)
        assert highest < readable or not item.drafted
        highest = max(highest, *item.emitted)
    if configuration.draft == "agree" and not any(reference.near):
        assert all(to_unreadable(item, recipe) for item in rounds if item.outcome == CORRECTION)
        if equal and not end_tokens(configuration.ends):
            assert len(rounds) == -(-configuration.new_tokens // (configuration.gamma + 1))


# ---------------------------------------------------------------- all of them together


def pooled_rate(name: str, draft: str) -> float:
    """Accepted ÷ drafted over a family's results with this draft, near ties and unreadable ids left out."""
    chosen = [
        result
        for result in results.values()
        if (result.configuration.family, result.configuration.draft) == (name, draft) and not result.tied
    ]
    if draft == "agree":
        chosen = [result for result in chosen if not result.unreadable]
    drafted = sum(result.drafted for result in chosen)
    return sum(result.accepted for result in chosen) / drafted if drafted else float("nan")


def summary() -> list[str]:
    """A table of what was compared; empty if nothing was."""
    if not results:
        return []
    short = sum(result.cut_short for result in results.values())
    lines = [f"{len(results)} configurations held, {short} cut short by a near tie (seed {SEED})"]
    for name in ZOO:
        count = sum(result.configuration.family == name for result in results.values())
        if not count:
            continue
        rates = ", ".join(f"{kind} {pooled_rate(name, kind):.2f}" for kind in ("agree", "half", "disagree"))
        lines.append(f"{name:24}{count:4}   acceptance: {rates}")
    return lines
