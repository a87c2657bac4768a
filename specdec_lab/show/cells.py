"""A recorded run as a list of frames: what sequence and caches hold at each step of each round. Data only.

Everything is derived from the record, and by counting alone; nothing is run again. It draws nothing, puts nothing
into words, and needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from specdec_lab.decoding.rounds import ACCEPTED, CORRECTION, Round, Trace

from .terminal import REJECTED, UNJUDGED

START, DRAFT, VERIFY, COMMIT, ROLL_BACK = "start", "draft", "verify", "commit", "roll back"
PHASES = (DRAFT, VERIFY, COMMIT, ROLL_BACK)

# What one position of a cache can be. The first three are held by the cache, the last two are not.
CONFIRMED, SPECULATIVE, STALE, CUT, UNFED = "confirmed", "speculative", "stale", "cut", "unfed"
HELD = (CONFIRMED, SPECULATIVE, STALE)
# What became of a drafted token.
GUESS = "guess"  # until it is judged; then as in terminal.py


@dataclass(frozen=True)
class Span:
    """Neighbouring positions of one cache that are in the same state.

    Attributes:
        state: "confirmed" (held, and its token is final), "speculative" (held, not judged yet), "stale" (held, but
            its token was refused or never judged), "cut" (thrown out in this step), "unfed" (the token is chosen,
            the model has not read it yet).
        start, stop: the positions start, …, stop - 1, counted from 0.
        fresh: whether the cache got them in this very step.
    """

    state: str
    start: int
    stop: int
    fresh: bool = False

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Frame:
    """One step of a run. Taught in notebooks 03 and 04.

    Attributes:
        round: 1, 2, …; 0 for the start.
        phase: "start", "draft", "verify", "commit" or "roll back".
        sequence: every token chosen so far. From the commit on, the round's own tokens are in it.
        base: length of the sequence before the round, which is the position of its first drafted token.
        drafted: the round's drafted tokens.
        verdicts: one for each of `drafted`: "guess" before verification; "accepted", "rejected" or "unjudged" after.
        own, origin: the target's own token and what it is ("correction", "bonus" or "plain"), from verification
            on; None before, and where an accepted end token leaves no room for one.
        target_cache, draft_cache: spans from position 0 on, without a gap; `draft_cache` is None for a drafter
            that has no cache.
        so_far: the rounds that were finished, and so counted, at this step.
        last: whether it is the last step of the run.
    """

    round: int
    phase: str
    sequence: tuple[int, ...]
    base: int
    drafted: tuple[int, ...]
    verdicts: tuple[str, ...]
    own: int | None
    origin: str | None
    target_cache: tuple[Span, ...]
    draft_cache: tuple[Span, ...] | None
    so_far: Trace
    last: bool

    @property
    def prompt(self) -> int:
        """Tokens in the prompt."""
        return len(self.so_far.prompt)

    @property
    def text(self) -> tuple[int, ...]:
        """The token whose keys and values stand at each position of a cache: the sequence as it was before the
        round, then the drafted tokens, whatever became of them."""
        return self.sequence[: self.base] + self.drafted

    @property
    def passes(self) -> tuple[tuple[int, int], ...]:
        """The model passes of this step, each as the positions start, …, stop - 1 that it reads.

        The target verifies in one. A draft with a cache takes one for each token it drafts: the first reads what was
        pending, each further one the guess before. Without a cache nothing is known, and nothing returned.
        """
        if self.phase == VERIFY:
            return tuple((read[0].start, read[-1].stop) for read in [fresh(self.target_cache)] if read)
        read = fresh(self.draft_cache)
        if self.phase != DRAFT or not self.drafted or not read:
            return ()
        guesses = range(self.base, self.base + len(self.drafted) - 1)
        return ((read[0].start, self.base), *((position, position + 1) for position in guesses))


def fresh(cache: tuple[Span, ...] | None) -> list[Span]:
    """The spans that a cache got in this step."""
    return [span for span in cache or () if span.fresh]


def held(cache: tuple[Span, ...] | None) -> int:
    """How many positions a cache holds.

    >>> held((Span("confirmed", 0, 5), Span("speculative", 5, 8), Span("unfed", 8, 9)))
    8
    """
    return count(cache, *HELD)


def count(cache: tuple[Span, ...] | None, *states: str) -> int:
    """How many positions of a cache are in one of `states`; 0 where there is no cache."""
    return sum(len(span) for span in cache or () if span.state in states)


def frames(trace: Trace) -> list[Frame]:
    """The start, then four frames a round: draft, verify, commit, roll back. Taught in notebooks 03 and 04.

    - After drafting, the draft's cache holds all that was pending and every draft but the last, which is never fed
      to the draft itself.
    - While it verifies, the target's cache holds the sequence and every draft.
    - After the roll-back both hold what the record says.

    Args:
        trace: a recorded run of chains; γ may change and drafters may have no cache.

    Raises:
        ValueError: a round drafted a tree; a position then has more than one token.

    Example:
        >>> item = Round((5, 6), (-1, 0), (0,), (5, 9), "correction", 3, 5, 3, 5, 0.0, 0.0)
        >>> shown = frames(Trace((1, 2, 3, 4), (item,)))
        >>> [(frame.phase, held(frame.target_cache), held(frame.draft_cache)) for frame in shown]
        [('start', 3, 3), ('draft', 3, 5), ('verify', 6, 5), ('commit', 6, 5), ('roll back', 5, 5)]
    """
    nothing = Trace(trace.prompt, ())
    first = trace.rounds[0] if trace.rounds else None
    length = len(trace.prompt)
    target = _cache(first.target_cache_before if first else 0, length, length)
    draft = None
    if first and _has_cache(first):
        draft = _cache(first.draft_cache_before, length, length)
    last = not trace.rounds
    shown = [Frame(0, START, trace.prompt, length, (), (), None, None, target, draft, nothing, last)]
    sequence = trace.prompt
    for number, item in enumerate(trace.rounds, 1):
        if item.parents != tuple(range(-1, len(item.drafted) - 1)):
            raise ValueError(
                f"round {number} drafted a tree, parents {item.parents}; frames show chains only"
            )
        shown += _four(trace, number, item, sequence)
        sequence += item.emitted
    return shown


def _four(trace: Trace, number: int, item: Round, before: tuple[int, ...]) -> list[Frame]:
    after = before + item.emitted
    base, drafted, agreed = len(before), len(item.drafted), len(item.accepted)
    guesses = (GUESS,) * drafted
    refused = (REJECTED if item.outcome == CORRECTION else UNJUDGED, *[UNJUDGED] * drafted)[
        : drafted - agreed
    ]
    verdicts = (ACCEPTED,) * agreed + refused
    own = (*item.emitted[agreed:], None)[0]
    origin = None if own is None else item.outcome
    finished, with_this = (Trace(trace.prompt, trace.rounds[:n]) for n in (number - 1, number))
    last = number == len(trace.rounds)

    def frame(phase, sequence, verdicts, own, origin, target, draft, so_far, last=False):
        draft = draft if _has_cache(item) else None
        return Frame(
            number, phase, sequence, base, item.drafted, verdicts, own, origin, target, draft, so_far, last
        )

    target_0, target_1, target_2 = item.target_cache_before, base + drafted, item.target_cache_after
    draft_0, draft_2 = item.draft_cache_before or 0, item.draft_cache_after or 0
    # without a draft it may still have read what was pending: then the record's end shows it
    draft_1 = base + drafted - 1 if drafted else max(draft_0, min(draft_2, base))
    sure = base + agreed
    return [
        frame(
            DRAFT,
            before,
            guesses,
            None,
            None,
            _cache(target_0, base, base),
            _cache(draft_1, base, base, fed_from=draft_0),
            finished,
        ),
        frame(
            VERIFY,
            before,
            verdicts,
            own,
            origin,
            _cache(target_1, base, base, fed_from=target_0),
            _cache(draft_1, base, base),
            finished,
        ),
        frame(
            COMMIT,
            after,
            verdicts,
            own,
            origin,
            _cache(target_1, sure, len(after), doubt=STALE),
            _cache(draft_1, sure, len(after), doubt=STALE),
            with_this,
        ),
        frame(
            ROLL_BACK,
            after,
            verdicts,
            own,
            origin,
            _cache(target_2, len(after), len(after), was=target_1),
            _cache(draft_2, len(after), len(after), was=draft_1, fed_from=draft_1),
            with_this,
            last,
        ),
    ]


def _has_cache(item: Round) -> bool:
    return item.draft_cache_before is not None and item.draft_cache_after is not None


def _cache(
    holds: int, sure: int, chosen: int, *, doubt: str = SPECULATIVE, was: int = 0, fed_from: int | None = None
) -> tuple[Span, ...]:
    """Spans of a cache of `holds` positions, of which the first `sure` are final, under a sequence of `chosen`.

    Held positions behind `sure` are in the state `doubt`; it held `was` before this step, and got what lies behind
    `fed_from` in it.
    """
    edge = holds if fed_from is None else fed_from
    pieces = [
        (CONFIRMED, 0, min(sure, edge, holds), False),
        (CONFIRMED, edge, min(sure, holds), True),
        (doubt, sure, min(edge, holds), False),
        (doubt, max(sure, edge), holds, True),
        (CUT, holds, was, False),
        (UNFED, max(holds, was), chosen, False),
    ]
    return tuple(Span(*piece) for piece in pieces if piece[1] < piece[2])
