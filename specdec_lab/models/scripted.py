"""Models whose next token is a plain function of everything before it. For tests, lessons and experiments.

The cache *is* the list of tokens seen, so a hole, a stale or a repeated entry changes the answer at once,
and every call is written down. Nothing here is trained and nothing is random.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import torch

# A rule maps the prefix to the next token, or to a full row of logits.
NextToken = Callable[[Sequence[int]], int | Sequence[float]]


@dataclass(frozen=True)
class Call:
    """One audited call: `kind` is "forward", "truncate" or "select"; cache lengths before and after; tokens fed."""

    kind: str
    before: int
    after: int
    tokens: tuple[int, ...] = ()


class ScriptedModel:
    """A model that follows a rule. The cache is the plain list of tokens it holds, changed in place.

    Args:
        rule: prefix → next token, or → a row of `vocab_size` logits.
        vocab_size: ids are 0…vocab_size - 1; other ids raise `IndexError`, as an embedding would.
        max_position_embeddings: how many positions the model has, or None.
        logits_dtype: float32 unless a test needs more.

    Attributes:
        calls: every `forward` and `truncate_cache`, in order.

    Example:
        >>> model = ScriptedModel(last_token(step=1, vocab_size=10), vocab_size=10)
        >>> out = model.forward(torch.tensor([[3, 4]]))
        >>> out.logits.argmax(-1).tolist(), out.past_key_values
        ([[4, 5]], [3, 4])
    """

    def __init__(
        self,
        rule: NextToken,
        vocab_size: int,
        max_position_embeddings: int | None = None,
        logits_dtype: torch.dtype = torch.float32,
    ) -> None:
        self.rule = rule
        self.vocab_size = vocab_size
        self.max_position_embeddings = max_position_embeddings
        self.logits_dtype = logits_dtype
        self.calls: list[Call] = []

    @property
    def passes(self) -> int:
        """How often `forward` ran."""
        return sum(call.kind == "forward" for call in self.calls)

    @property
    def fed_tokens(self) -> int:
        """Over how many tokens in all."""
        return sum(len(call.tokens) for call in self.calls if call.kind == "forward")

    def forward(
        self,
        input_ids: torch.Tensor,
        use_cache: bool = True,
        past_key_values: list[int] | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ):
        """(1, n) ids → logits (1, n, vocab) and the cache, grown by n.

        With a mask, (1, 1, n, cache + n), a token's prefix is what it may look at: a tree of drafts.
        """
        if input_ids.dim() != 2 or input_ids.shape[0] != 1 or input_ids.shape[1] == 0:
            raise ValueError(f"input_ids must have shape (1, n) with n ≥ 1, got {tuple(input_ids.shape)}")
        cache = [] if past_key_values is None else past_key_values
        tokens, before = input_ids[0].tolist(), len(cache)
        last = before + len(tokens) - 1 if position_ids is None else int(position_ids.max())
        if self.max_position_embeddings is not None and last >= self.max_position_embeddings:
            raise IndexError(f"position {last} of {self.max_position_embeddings}")
        rows = []
        for i, token in enumerate(tokens):
            if not 0 <= token < self.vocab_size:
                raise IndexError(f"token {token} is not in the vocabulary of {self.vocab_size}")
            cache.append(token)
            if attention_mask is None:
                rows.append(self._logits(self.rule(cache)))
            else:
                seen = attention_mask[0, 0, i].nonzero().flatten().tolist()
                if position_ids is not None and int(position_ids[0, i]) != len(seen) - 1:
                    raise ValueError(f"position {int(position_ids[0, i])} for a token that sees {len(seen)}")
                rows.append(self._logits(self.rule([cache[j] for j in seen])))
        self.calls.append(Call("forward", before, len(cache), tuple(tokens)))
        logits = torch.tensor([rows], dtype=self.logits_dtype)
        return SimpleNamespace(logits=logits, past_key_values=cache if use_cache else None)

    def truncate_cache(self, past_key_values: list[int], valid_length: int) -> None:
        """Forget every entry from `valid_length` on, in place; `ValueError` outside 0…length."""
        before = len(past_key_values)
        if not 0 <= valid_length <= before:
            raise ValueError(f"valid_length must be between 0 and {before}, got {valid_length}")
        del past_key_values[valid_length:]
        self.calls.append(Call("truncate", before, valid_length))

    def select_cache(self, past_key_values: list[int], first: int, rows: list[int]) -> None:
        """Keep the first `first` entries and then those at `rows`, in place; `ValueError` outside the cache."""
        before = len(past_key_values)
        if not 0 <= first <= before or any(not first <= row < before for row in rows):
            raise ValueError(f"rows must lie between first={first} and {before}, got {rows}")
        past_key_values[first:] = [past_key_values[row] for row in rows]
        self.calls.append(Call("select", before, len(past_key_values)))

    def _logits(self, answer: int | Sequence[float]) -> list[float]:
        if isinstance(answer, int):
            row = [0.0] * self.vocab_size
            row[answer] = 10.0
            return row
        if len(answer) != self.vocab_size:
            raise ValueError(f"the rule must return {self.vocab_size} logits, got {len(answer)}")
        return list(answer)


def hash_of_prefix(vocab_size: int, seed: int = 0) -> NextToken:
    """A next token that depends on every token before it, so that any wrong cache entry shows.

    >>> rule = hash_of_prefix(100)
    >>> rule([1, 2, 3]) == rule([1, 2, 3]), rule([1, 2, 3]) == rule([1, 3, 2])
    (True, False)
    """

    def rule(prefix: Sequence[int]) -> int:
        state = 2166136261 + seed
        for token in prefix:
            state = ((state ^ (token + 1)) * 16777619 + 97) % 2**64
        return (state >> 16) % vocab_size

    return rule


def last_token(step: int, vocab_size: int) -> NextToken:
    """Counts up by `step` from the last token: a model that needs no context at all.

    >>> last_token(step=2, vocab_size=10)([7, 9])
    1
    """
    return lambda prefix: (prefix[-1] + step) % vocab_size


def wrong_when(rule: NextToken, vocab_size: int, wrong: Callable[[int], bool]) -> NextToken:
    """`rule`, but one off wherever `wrong(position of the predicted token)` says so: a draft that errs on cue.

    >>> draft = wrong_when(last_token(1, 10), 10, wrong=lambda position: position == 2)
    >>> draft([4]), draft([4, 5])  # predicts position 1 rightly and position 2 wrongly
    (5, 7)
    """

    def altered(prefix: Sequence[int]) -> int:
        answer = rule(prefix)
        return (answer + 1) % vocab_size if wrong(len(prefix)) else answer

    return altered


def scattered(vocab_size: int, seed: int = 0, spread: float = 1.0) -> NextToken:
    """Logits that are normal with deviation `spread` and depend on every token before them: a model to draw from.

    >>> rule = scattered(3, seed=1)
    >>> rule([1, 2]) == rule([1, 2]), rule([1, 2]) == rule([2, 1]), len(rule([0]))
    (True, False, 3)
    """

    def rule(prefix: Sequence[int]) -> list[float]:
        normal = random.Random(f"{seed} {list(prefix)}").gauss
        return [normal(0.0, spread) for _ in range(vocab_size)]

    return rule


def fixed(probabilities: Sequence[float]) -> NextToken:
    """The same distribution at every position: its logarithms as logits, -inf for 0.

    >>> fixed([1.0, 0.0])([5])
    [0.0, -inf]
    """
    logits = [math.log(value) if value else -math.inf for value in probabilities]
    return lambda prefix: logits
