"""What happens in a frame, as one sentence with its numbers, and how a single token is written.

The sentence is the picture's alt text and its twin in plain text. It draws nothing and counts nothing itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from specdec_lab.decoding.rounds import ACCEPTED, BONUS, CORRECTION, Trace

from .cells import CUT, DRAFT, ROLL_BACK, STALE, START, UNJUDGED, VERIFY, Frame, count, fresh, held
from .readable import readable
from .words import many

_ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]


def token_writer(decode: Callable[[list[int]], str]) -> Callable[[int], str]:
    """token → its text as `readable` writes it, so that player and strips say a token the same way.

    >>> write = token_writer(lambda ids: {1: " king", 2: "\\n", 3: ""}[ids[0]])
    >>> write(1), write(2), write(3)
    ('␣king', '↵', '⟨#3⟩')
    """
    known: dict[int, str] = {}

    def write(token: int) -> str:
        if token not in known:
            known[token] = readable(decode([token]), token)
        return known[token]

    return write


def sentence(frame: Frame, write: Callable[[int], str]) -> str:
    """The frame in one or two sentences. `write` makes a token readable (`token_writer`)."""
    if frame.phase == START:
        caches = "both caches are empty" if frame.draft_cache is not None else "the target's cache is empty"
        if held(frame.target_cache) or held(frame.draft_cache):
            caches = "the caches hold " + _both(held(frame.target_cache), frame.draft_cache, held)
        return f"Start: the prompt has {many(len(frame.sequence), 'token')}, and {caches}."
    tell = {DRAFT: _draft, VERIFY: _verify, ROLL_BACK: _roll_back}.get(frame.phase, _commit)
    end = f" The run ends: {totals(frame.so_far)}." if frame.last else ""
    return f"Round {frame.round}, {frame.phase}: {tell(frame, write)}.{end}"


def totals(trace: Trace) -> str:
    """The counts of some rounds, each ratio with its two numbers."""
    parts = [f"{many(len(trace.new_tokens), 'new token')} in {many(len(trace.rounds), 'round')}"]
    parts += [f"{name} {ratio}" for name, ratio in ratios(trace) if ratio != "–"]
    return ", ".join(parts)


def ratios(trace: Trace) -> list[tuple[str, str]]:
    """The three words for acceptance, each with the division that it is; "–" where there is nothing to divide.

    >>> ratios(Trace((1,), ()))
    [('acceptance rate', '–'), ('α', '–'), ('tokens per round', '–')]
    """

    def over(part: int, whole: int, value: float) -> str:
        return f"{part} ÷ {whole} = {value:.2f}" if whole and not math.isnan(value) else "–"

    judged = trace.accepted + trace.rejected
    return [
        ("acceptance rate", over(trace.accepted, trace.drafted, trace.acceptance_rate)),
        ("α", over(trace.accepted, judged, trace.alpha)),
        ("tokens per round", over(len(trace.new_tokens), len(trace.rounds), trace.tokens_per_round)),
    ]


def _draft(frame: Frame, write: Callable[[int], str]) -> str:
    number = len(frame.drafted)
    now, grown = held(frame.draft_cache), sum(map(len, fresh(frame.draft_cache)))
    cache = f"cache grows from {now - grown} to {now}"
    if not number:
        return f"nothing is drafted; the draft's {cache}" if grown else "nothing is drafted"
    guesses = f"guesses {many(number, 'token')}"
    listed = _listed([_quote(write(token)) for token in frame.drafted])
    if frame.draft_cache is None:
        return f"the drafter, which has no cache, {guesses}, {listed}"
    read = _listed(_pending(frame, now - grown, write)) or "nothing new"
    last = "guess" if number == 1 else "last guess"
    return (
        f"the draft reads {read} and {guesses} in {many(number, 'pass', 'passes')}, {listed}; "
        f"its {cache}: the {last} is not fed to it"
    )


def _verify(frame: Frame, write: Callable[[int], str]) -> str:
    fed = sum(map(len, fresh(frame.target_cache)))
    number, agreed = len(frame.drafted), frame.verdicts.count(ACCEPTED)
    guesses = [] if not number else ["the guess" if number == 1 else f"the {number} guesses"]
    what = _listed(_pending(frame, held(frame.target_cache) - fed, write) + guesses)
    start = f"in one pass over {many(fed, 'token')} the target reads {what}"
    if not number:
        return f"{start} and chooses {_quote(write(frame.own))}"
    verdict = f"{agreed} of {number} accepted"
    if frame.origin == CORRECTION:
        place = _ordinal(agreed) + " guess" if number > 1 else "guess"
        wrong = _quote(write(frame.drafted[agreed]))
        verdict += f"; the {place}, {wrong}, is corrected to {_quote(write(frame.own))}"
    elif frame.origin == BONUS:
        verdict += f"; its next choice, {_quote(write(frame.own))}, comes as a bonus"
    else:
        verdict += "; the last of them is an end token, so nothing follows"
    skipped = frame.verdicts.count(UNJUDGED)
    if skipped:
        verdict += f"; {skipped} never judged"
    return f"{start}: {verdict}"


def _commit(frame: Frame, write: Callable[[int], str]) -> str:
    agreed = frame.verdicts.count(ACCEPTED)
    parts = [f"{agreed} accepted"] if agreed else []
    if frame.own is not None:
        name = {CORRECTION: "the correction", BONUS: "the bonus"}.get(frame.origin, "the target's choice")
        parts.append(f"{name} {_quote(write(frame.own))}")
    new = len(frame.sequence) - frame.base
    joins = "joins" if new == 1 else "join"
    text = (
        f"{many(new, 'token')} {joins} the sequence ({_listed(parts)}), which now has {len(frame.sequence)}"
    )
    stale = count(frame.target_cache, STALE) + count(frame.draft_cache, STALE)
    if not stale:
        return text + "; no cache holds anything stale"
    return f"{text}; stale entries: " + _both(
        count(frame.target_cache, STALE), frame.draft_cache, lambda cache: count(cache, STALE)
    )


def _roll_back(frame: Frame, write: Callable[[int], str]) -> str:
    parts, verb = [], ""
    for name, cache in (("the target's cache", frame.target_cache), ("the draft's", frame.draft_cache)):
        if cache is None:
            continue
        now, gone = held(cache), count(cache, CUT)
        what, span = ("is cut ", f"from {now + gone} to {now}") if gone else ("stays ", f"at {now}")
        parts.append(f"{name} {'' if what == verb else what}{span}")
        verb = what
    length, last = len(frame.sequence), _quote(write(frame.sequence[-1]))
    if length - held(frame.target_cache) != 1:
        return _listed(parts)
    if frame.own is None:
        why = f"so it is after every round, although {last} had been read"
    else:
        why = f"{last} is {'the last one and never fed' if frame.last else 'chosen but not fed yet'}"
    return f"{_listed(parts)}; the target's is one short of the sequence, which has {length}: {why}"


def _pending(frame: Frame, before: int, write: Callable[[int], str]) -> list[str]:
    """What a model whose cache held `before` had not read, token by token where there are few."""
    pending = frame.sequence[before : frame.base]
    if len(pending) > 3:
        return [f"the {len(pending)} {'tokens of the prompt' if frame.round == 1 else 'pending tokens'}"]
    return [_quote(write(token)) for token in pending]


def _both(target: int, draft_cache, number: Callable) -> str:
    if draft_cache is None:
        return f"{target} in the target's cache"
    return f"{target} in the target's cache and {number(draft_cache)} in the draft's"


def _ordinal(index: int) -> str:
    return _ORDINALS[index] if index < len(_ORDINALS) else f"{index + 1}th"


def _quote(text: str) -> str:
    return f"‘{text}’"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
