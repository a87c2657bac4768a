"""Exhibits of the bug museum on the record: what a wrong loop did, round by round, as a `Trace`.

It runs the exhibits as they are and writes down; it changes nothing and judges nothing.
"""

from __future__ import annotations

from typing import Any

from specdec_lab.decoding.rounds import BONUS, CORRECTION, END, PLAIN, Round, Trace
from specdec_lab.decoding.session import exposed_length

from .museum import get_exhibit


def record(
    name: str,
    target_model: Any,
    draft_model: Any,
    input_ids: list[int],
    max_new_tokens: int,
    gamma: int,
    eos_token_id: Any,
) -> Trace:
    """The rounds of an exhibit. Taught in notebook 04.

    Cache lengths are those of the caches themselves, not what the exhibit takes them for: a cache that was not rolled
    back shows as too long. Seconds are 0. In a round whose tokens an exhibit cuts or drops, `emitted` is what it kept.

    Args:
        name: of the exhibit; "correct" is the correct loop.
        target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id: as for `speculative_decode`.

    Raises:
        ValueError: no such exhibit. Other errors are whatever the exhibit or the models raise.

    Example:
        >>> record("stale_target_cache", pair.target, pair.draft, ids, 32, 4, None)  # doctest: +SKIP
    """
    rounds: list[Round] = []

    class Recorded(get_exhibit(name).loop):
        def propose(self, sequence, room):
            self.before = _held(self.target), _held(self.draft)
            return super().propose(sequence, room)

        def stop_at_end(self, emitted):
            self.kept, ended = super().stop_at_end(emitted)
            return self.kept, ended

        def count(self, drafted, agreed):
            super().count(drafted, agreed)
            self.judged = tuple(drafted), agreed

        def roll_back_draft(self, sequence):  # the last step of a round
            super().roll_back_draft(sequence)
            drafted, agreed = self.judged
            outcome = PLAIN if not drafted else BONUS if agreed == len(drafted) else CORRECTION
            if 0 < len(self.kept) <= agreed:
                outcome = END  # the target's own token was not kept
            rounds.append(
                Round(
                    drafted=drafted,
                    parents=tuple(range(-1, len(drafted) - 1)),
                    accepted=tuple(range(min(agreed, len(self.kept)))),
                    emitted=tuple(self.kept),
                    outcome=outcome,
                    target_cache_before=self.before[0],
                    target_cache_after=_held(self.target),
                    draft_cache_before=self.before[1],
                    draft_cache_after=_held(self.draft),
                    seconds_drafting=0.0,
                    seconds_verifying=0.0,
                )
            )

    Recorded().decode(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id)
    return Trace.of(input_ids, rounds)


def _held(reader: Any) -> int:
    """What a cache says that it holds; what its reader takes it for where it says nothing."""
    length = exposed_length(reader.cache) if reader.cache is not None else 0
    return reader.read if length is None else length
