"""The dial: a drafter whose α is set by hand, so that any acceptance can be measured on any laptop.

It cheats: it asks the target in advance. That run is not part of the decoding and must not be timed; what it
measures is what decoding *would* cost with a draft of that α.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass
from typing import Any

from specdec_lab.models.protocol import context_length, vocabulary_size

from .chance import Chance
from .checks import check_end_tokens, check_probability
from .drafters import ModelDrafter, Proposal
from .session import Session


class DialDrafter:
    """Follows the target's own greedy continuation and errs with probability 1 - α. Taught in notebook 06.

    Every drafted token is the target's argmax with probability α, whatever came before: the independence that the
    formulas assume. The errors depend on the prompt, the position and `seed` only, so that runs with another γ, and
    every repetition, meet the same ones. A wrong token is never an end token.

    In greedy decoding a guess behind accepted ones is therefore accepted with probability α. Under sampling it is not:
    a guess x is a point mass, accepted with the target's p(x). Even α = 1 is then accepted only as often as p's largest
    value says, and an error as often as p allows it.

    Args:
        target_model: the model that will verify.
        alpha: in 0…1.
        seed: of the errors.
        draft_model: a model whose passes are paid for every drafted token, or None: drafting costs nothing.
            It is fed the dial's tokens, and what it answers is thrown away.
        eos_token_id: as given to the decoder; these tokens are never used as errors.

    Raises:
        ValueError, TypeError: α outside 0…1; a target that does not state its vocabulary, or has no wrong token
            left beside its end tokens.

    Example:
        >>> drafter = DialDrafter(pair.target, 0.8, draft_model=pair.draft)  # doctest: +SKIP
        >>> drafter.prepare(ids, max_new_tokens=64)  # before any clock runs  # doctest: +SKIP
        >>> speculative_rounds(
        ...     pair.target, drafter, ids, max_new_tokens=64, gamma=4, eos_token_id=None
        ... )  # doctest: +SKIP
    """

    def __init__(
        self,
        target_model: Any,
        alpha: float,
        *,
        seed: int = 0,
        draft_model: Any = None,
        eos_token_id: Any = None,
    ) -> None:
        self.alpha = check_probability(alpha, "alpha")
        self._target = Session(target_model, "target_model").model
        self._end_tokens = check_end_tokens(eos_token_id)
        vocabulary = vocabulary_size(self._target)
        if vocabulary is None:
            raise ValueError("the dial needs a target_model that states its vocab_size")
        self._wrong = [token for token in range(vocabulary) if token not in self._end_tokens]
        if len(self._wrong) < 2:
            raise ValueError(
                f"the dial needs two tokens that are not end tokens to err with; target_model has {vocabulary} "
                f"and eos_token_id names {len(self._end_tokens)}"
            )
        self._seed = seed
        self._paid = None if draft_model is None else _Paid(draft_model)
        self._plans: dict[tuple[int, ...], _Plan] = {}
        self._strayed: _Plan | None = None  # of a sampled run that left the greedy text
        self._prompt: tuple[int, ...] = ()
        self._oracle: Session | None = None

    @property
    def cache_length(self) -> int | None:
        """Positions in the cache of the draft model that is paid for; None without one."""
        return None if self._paid is None else self._paid.cache_length

    def prepare(self, prompt: list[int], max_new_tokens: int) -> None:
        """Run the oracle for this prompt now. Without it, `propose` asks the target when it needs to know."""
        self._plan(list(prompt), tuple(prompt), len(prompt) + max_new_tokens)
        self._oracle = None

    def start(self, prompt: list[int]) -> None:
        """Begin a run; what `prepare` found out stays known."""
        self._prompt, self._oracle, self._strayed = tuple(prompt), None, None
        if self._paid is not None:
            self._paid.start(prompt)

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """Up to `limit` tokens, fewer behind an end token or at the end of a context."""
        plan = self._plan(sequence, self._prompt, len(sequence) + limit)
        tokens = plan.drafts[len(sequence) : len(sequence) + limit]
        if self._paid is None:
            return Proposal(tuple(tokens))
        return self._paid.pay_for(tokens, sequence, chance)

    def commit(self, sequence: list[int], carried: Any = None) -> None:
        """Roll back the draft model that is paid for."""
        if self._paid is not None:
            self._paid.commit(sequence)

    def _plan(self, sequence: list[int], prompt: tuple[int, ...], length: int) -> _Plan:
        """What the target says and what the dial will draft, up to `length` tokens where the context allows."""
        start = list(prompt or sequence)
        plan = self._strayed or self._plans.setdefault(prompt, _Plan(start, list(start), len(start)))
        self._extend(plan, prompt, len(sequence))
        if plan.truth[: len(sequence)] != sequence:  # the run left the target's greedy text: a sampled one
            plan = self._strayed = _Plan(list(sequence), list(sequence), len(sequence))
            self._oracle = None
        self._extend(plan, prompt, length)
        return plan

    def _extend(self, plan: _Plan, prompt: tuple[int, ...], length: int) -> None:
        context = context_length(self._target)
        length = length if context is None else min(length, context + 1)
        truth = plan.truth
        while len(truth) < length and (len(truth) == plan.start or truth[-1] not in self._end_tokens):
            self._oracle = self._oracle or Session(self._target)
            row = self._oracle.feed(truth[self._oracle.length :], rows=1)[0]
            truth.append(int(row.argmax()))
            plan.drafts.append(self._right_or_wrong(truth[-1], prompt, len(plan.drafts)))

    def _right_or_wrong(self, right: int, prompt: tuple[int, ...], position: int) -> int:
        fate = random.Random(f"{self._seed} {position} {zlib.crc32(repr(prompt).encode())}")
        if fate.random() < self.alpha:
            return right
        wrong = fate.choice(self._wrong)
        return wrong if wrong != right else self._wrong[self._wrong.index(wrong) - 1]


@dataclass
class _Plan:
    """The target's own text, prompt first, and what will be drafted at each of its positions from `start` on."""

    truth: list[int]
    drafts: list[int]
    start: int


class _Paid(ModelDrafter):
    """A draft model that is fed, and timed, but not listened to."""

    def pay_for(self, tokens: list[int], sequence: list[int], chance: Chance) -> Proposal:
        """One pass for each of `tokens`, fed as if the model had chosen them itself."""
        self._script = iter(tokens)
        return self.propose(sequence, len(tokens), chance)

    def _choose(self, row: Any) -> int:
        super()._choose(row)  # a real draft reads its answer from the device
        return next(self._script)
