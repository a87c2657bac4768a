"""Prompt lookup: guess that what followed these words before follows them again. No model, no pass.

It reads only the confirmed sequence. Which ids and end tokens count is checked by the loop, for every drafter.
"""

from __future__ import annotations

from typing import Any

from .chance import Chance
from .checks import check_count, check_end_tokens
from .drafters import Proposal


class PromptLookupDrafter:
    """Copies what followed the latest earlier occurrence of the sequence's last tokens.

    The longest n-gram is tried first, then shorter ones down to the shortest. A copy may run into the tokens that
    it has just proposed, so text of a short period is continued for the whole round.

    Args:
        longest, shortest: tokens in the longest and in the shortest n-gram that is looked for (1 or more). A short one is
            found more often and right less often.
        eos_token_id: an id, a sequence of ids, or None: a copy stops behind one of these. The loop cuts there too; this
            saves the copying.

    Raises:
        ValueError, TypeError: one that is not an integer of 1 or more; `shortest` above `longest`.

    Source: the idea is that of prompt lookup decoding (apoorvumang/prompt-lookup-decoding), which takes the
    earliest occurrence; each occurrence is indexed once, so a round costs O(new tokens × longest).

    Example:
        >>> drafter = PromptLookupDrafter()
        >>> drafter.start([5, 6, 7, 8, 5, 6])
        >>> drafter.propose([5, 6, 7, 8, 5, 6], 3, None).tokens
        (7, 8, 5)
    """

    def __init__(self, longest: int = 3, *, shortest: int = 1, eos_token_id: Any = None) -> None:
        self._longest, self._shortest = check_count(longest, "longest"), check_count(shortest, "shortest")
        if shortest > longest:
            raise ValueError(f"shortest must be at most longest, {longest}, got {shortest}")
        self._end_tokens = check_end_tokens(eos_token_id)
        self._followers: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def start(self, prompt: list[int]) -> None:
        """Forget the last run."""
        self._followers, self._indexed = {}, 1

    def propose(self, sequence: list[int], limit: int, chance: Chance | None) -> Proposal:
        """Up to `limit` copied tokens; none where no n-gram that ends the text occurred before."""
        self._index(sequence)
        for size in range(min(self._longest, len(sequence) - 1), self._shortest - 1, -1):
            start = self._followers.get(tuple(sequence[-size:]))
            if start is not None:
                return Proposal(self._copy(sequence, start, limit))
        return Proposal()

    def commit(self, sequence: list[int], carried: Any = None) -> None:
        """Nothing to roll back: only confirmed tokens are indexed."""

    def _index(self, sequence: list[int]) -> None:
        """Note every position that has a token behind it under the n-grams that end before it."""
        for position in range(self._indexed, len(sequence)):
            for size in range(self._shortest, min(self._longest, position) + 1):
                self._followers[tuple(sequence[position - size : position])] = position
        self._indexed = len(sequence)

    def _copy(self, sequence: list[int], start: int, limit: int) -> tuple[int, ...]:
        copied: list[int] = []
        for position in range(start, start + limit):
            behind = position - len(sequence)
            copied.append(sequence[position] if behind < 0 else copied[behind])
            if copied[-1] in self._end_tokens:
                break
        return tuple(copied)
