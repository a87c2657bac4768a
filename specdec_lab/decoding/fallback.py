"""Two drafters in one: the second is asked where the first has nothing to say."""

from __future__ import annotations

from typing import Any

from .chance import Chance
from .checks import check_count
from .drafters import Drafter, Proposal, is_drafter


class FallbackDrafter:
    """Asks `first`, and `second` in the rounds in which it proposes nothing. Taught in notebook 11.

    Made for prompt lookup in front of a draft that costs something: where the text repeats itself the copy is longer,
    and elsewhere nothing is lost. Each round's proposal is one drafter's alone, so verification is exact as ever.

    Args:
        first, second: drafters; `ModelDrafter` makes one of a draft model. One of them may ride on the target's passes,
            not both.
        second_limit: the second drafts at most so many tokens in a row; None leaves it at γ, which a copy makes better
            use of.

    Raises:
        ValueError, TypeError: one that is no drafter; both ride; a limit below 1.

    Example:
        >>> drafter = FallbackDrafter(
        ...     PromptLookupDrafter(shortest=2), EagleDrafter(pair.target, draft)
        ... )  # doctest: +SKIP
    """

    def __init__(self, first: Drafter, second: Drafter, *, second_limit: int | None = None) -> None:
        for argument, drafter in (("first", first), ("second", second)):
            if not is_drafter(drafter):
                raise TypeError(
                    f"{argument} must be a drafter, got {type(drafter).__name__}; ModelDrafter makes one of a draft model"
                )
        self.first, self.second = first, second
        self._most = None if second_limit is None else check_count(second_limit, "second_limit")
        riders = [drafter.rider for drafter in (first, second) if getattr(drafter, "rider", None) is not None]
        if len(riders) == 2:
            raise ValueError("first and second both ride on the target's passes, one of them at most can")
        if riders:
            self.rider = riders[0]

    @property
    def model(self) -> Any:
        """The model of the one that has one."""
        return next((x.model for x in (self.second, self.first) if hasattr(x, "model")), None)

    @property
    def cache_length(self) -> int | None:
        """Positions in the cache of the one that has one."""
        lengths = (getattr(drafter, "cache_length", None) for drafter in (self.second, self.first))
        return next((length for length in lengths if length is not None), None)

    def start(self, prompt: list[int]) -> None:
        """Begin a run with both."""
        self.first.start(prompt)
        self.second.start(prompt)

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """The first one's guess, or the second one's."""
        found = self.first.propose(sequence, limit, chance)
        if found.tokens:
            return found
        return self.second.propose(sequence, limit if self._most is None else min(limit, self._most), chance)

    def commit(self, sequence: list[int], carried: Any = None) -> None:
        """Tell both; what was carried is for the one that rides."""
        for drafter in (self.first, self.second):
            if carried is not None and getattr(drafter, "rider", None) is not None:
                drafter.commit(sequence, carried)
            else:
                drafter.commit(sequence)
