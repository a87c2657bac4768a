"""Who guesses: the drafter interface and the draft model as a drafter.

A drafter proposes tokens; it never decides what is accepted, and it may be wrong in any way it likes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch

from specdec_lab.models.protocol import context_length, vocabulary_size

from .chance import Chance
from .checks import check_end_tokens
from .session import Session
from .token_tree import TreeShape

if TYPE_CHECKING:
    from .sampling import Sampling


@dataclass(frozen=True)
class Proposal:
    """What a drafter offers in one round.

    Attributes:
        tokens: drafted ids, at most as many as were asked for; in a tree, no path longer than that.
        parents: index of the token before each, -1 for the confirmed sequence, in level order (`TreeShape`);
            None is a chain.
        probabilities: q for each token, (tokens, vocab), the very distributions that were sampled from;
            None is a point mass (a deterministic guess). Siblings are drawn one after another without replacement,
            each row without the siblings before.
        ends: which tokens, by index, are end tokens: nothing follows them. Set by the loop.
        refused: a token that was drawn behind the last one and that the target does not have: it is refused unseen,
            and replaced from the residual. Its row is the last of `probabilities`. Set by the loop.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] | None = None
    probabilities: Any = None
    ends: frozenset[int] = frozenset()
    refused: int | None = None

    @property
    def drafted(self) -> tuple[int, ...]:
        """Everything that was drafted, a token refused unseen included."""
        return self.tokens if self.refused is None else (*self.tokens, self.refused)

    @property
    def above(self) -> tuple[int, ...]:
        """For everything drafted the index of the token before it: `parents`, spelled out for a chain too."""
        return tuple(range(-1, len(self.drafted) - 1)) if self.parents is None else self.parents

    @cached_property
    def _shape(self) -> TreeShape:
        return TreeShape(self.above)

    def children(self, node: int) -> tuple[int, ...]:
        """The guesses behind a node in the order in which they are tried; -1 is the confirmed sequence. A token
        refused unseen is nobody's child.

        >>> (
        ...     Proposal((5, 7)).children(-1),
        ...     Proposal((5, 7)).children(1),
        ...     Proposal((5, 7), (-1, -1)).children(-1),
        ... )
        ((0,), (), (0, 1))
        """
        if self.parents is None:
            return (node + 1,) if node + 1 < len(self.tokens) else ()
        return self._shape.children[node]

    def child(self, node: int, token: int) -> int | None:
        """The first child of `node` that is this token, or None.

        >>> Proposal((5, 7)).child(-1, 5), Proposal((5, 7)).child(0, 5)
        (0, None)
        """
        return next((i for i in self.children(node) if self.tokens[i] == token), None)

    def depth(self, node: int) -> int:
        """How many tokens lie on the path down to a node; 0 for -1."""
        return node + 1 if self.parents is None or node < 0 else self._shape.depths[node]

    def cut(self, count: int) -> Proposal:
        """The first `count` tokens of a chain."""
        if count >= len(self.tokens):
            return self
        kept = None if self.probabilities is None else self.probabilities[:count]
        return Proposal(self.tokens[:count], None, kept)


class Drafter(Protocol):
    """Anything that can guess. Optional: an attribute `cache_length`, confirmed positions in its own cache; a method
    `prepare(prompt, max_new_tokens)` that a benchmark calls before any clock runs; an attribute `rider`,
    something that rides on the target's passes (`models/rider.py`): `commit` is then given its rows for the tokens that
    were pending and accepted in this pass, (1 + accepted, …), the last confirmed one last; a method `use_tree(shape)`
    where it can draft trees, and their `depth` once it has one."""

    def start(self, prompt: list[int]) -> None:
        """A new run begins; forget the last one."""

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """Up to `limit` guesses (1 or more are asked for) of what follows `sequence`."""

    def commit(self, sequence: list[int], carried: Any = None) -> None:
        """`sequence` is now confirmed; roll back whatever assumed otherwise."""


class NoDrafter:
    """Proposes nothing: plain decoding is speculative decoding without a draft."""

    def start(self, prompt: list[int]) -> None:
        pass

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        return Proposal()

    def commit(self, sequence: list[int], carried: Any = None) -> None:
        pass


class ModelDrafter:
    """A draft model: one pass a token, its own cache. Taught in notebook 03, and in 07 where it draws.

    Committed tokens stay pending and ride on the next pass: after a full acceptance that pass is fed
    `[last draft, bonus]`, so catching up costs nothing.

    Args:
        draft_model: anything that `as_model` takes.
        eos_token_id: an id, a sequence of ids, or None: drafting stops behind one of these.
        vocabulary: ids from here on are never proposed: the target does not have them.
        sampling: how tokens are drawn; None takes the argmax, a point mass.

    Example:
        >>> drafter = ModelDrafter(pair.draft)  # doctest: +SKIP
        >>> for round in speculative_rounds(
        ...     pair.target, drafter, ids, max_new_tokens=32, gamma=4, eos_token_id=None
        ... ):
        ...     ...  # doctest: +SKIP
    """

    def __init__(
        self,
        draft_model: Any,
        *,
        eos_token_id: Any = None,
        vocabulary: int | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self._session = Session(draft_model, "draft_model")
        self._end_tokens = check_end_tokens(eos_token_id)
        self._vocabulary = vocabulary
        self._sampling = None if sampling is None or sampling.greedy else sampling
        self._context = context_length(self._session.model)
        self._readable = vocabulary_size(self._session.model)
        self._blind = False

    @property
    def model(self) -> Any:
        """The draft model, adapted."""
        return self._session.model

    @property
    def cache_length(self) -> int:
        """Positions in the draft's cache."""
        return self._session.length

    def start(self, prompt: list[int]) -> None:
        """Begin a run with an empty cache."""
        self._session = Session(self._session.model)
        self._blind = False

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """The draft's continuation: fewer than `limit` tokens at an end token, at the end of its context or where a
        draw meets a row that is not finite; none once the sequence holds an id that the draft cannot read."""
        pending = sequence[self._session.length :]
        if self._readable is not None:
            self._blind = self._blind or max(pending) >= self._readable
        if self._context is not None:
            limit = min(limit, self._context - len(sequence) + 1)
        tokens: list[int] = []
        rows: list[Any] = []
        while not self._blind and len(tokens) < limit:
            row = self._session.feed(pending, rows=1)[0, : self._vocabulary]
            if self._sampling is None:
                token = self._choose(row)
            else:
                q = self._sampling.distribution(row)
                if not math.isfinite(q[0]):
                    break  # the target decides alone here
                token = chance.draw(q)
                rows.append(q)
            tokens.append(token)
            if token in self._end_tokens:
                break
            pending = [token]
        return Proposal(tuple(tokens), probabilities=torch.stack(rows) if rows else None)

    def _choose(self, row: Any) -> int:
        return int(row.argmax())

    def commit(self, sequence: list[int], carried: Any = None) -> None:
        """Drop the rejected drafts from the cache; the last token of `sequence` is pending."""
        self._session.roll_back(len(sequence) - 1)


def is_drafter(thing: Any) -> bool:
    """Whether it can propose; everything else is taken for a draft model."""
    return callable(getattr(thing, "propose", None))


def as_drafter(
    drafter: Any, eos_token_id: Any, vocabulary: int | None, sampling: Sampling | None = None
) -> Drafter:
    """`drafter` itself if it can propose, else a `ModelDrafter` around it."""
    if is_drafter(drafter):
        return drafter
    return ModelDrafter(drafter, eos_token_id=eos_token_id, vocabulary=vocabulary, sampling=sampling)
