"""The exact law of a sampling decoder: every path of draws and coin tosses, each with its probability.

No histogram: on a tiny vocabulary all paths are walked, in float64, so that a bias of 1e-10 shows. It is no proof
for large vocabularies; the code that draws is the same there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from specdec_lab.decoding.chance import Chance
from specdec_lab.decoding.checks import check_count, check_end_tokens, check_input_ids
from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.decoding.sampling import Sampling
from specdec_lab.decoding.session import Session

# (target, draft, prompt, n, chance) → the new tokens, or whatever of them is to be counted
Decoder = Callable[[Any, Any, list[int], int, Chance], Sequence[Hashable]]


class Law(dict):
    """Outcome (a tuple, mostly of new tokens) → probability. Taught in notebook 07.

    Attributes:
        paths: how many paths of draws and tosses were walked; several may lead to one outcome.
    """

    paths: int = 0

    def difference(self, other: dict) -> float:
        """The largest difference of a probability."""
        return max(abs(self.get(o, 0.0) - other.get(o, 0.0)) for o in {**self, **other})

    def total_variation(self, other: dict) -> float:
        """Half the sum of all differences: the largest bias that any event can have."""
        return sum(abs(self.get(o, 0.0) - other.get(o, 0.0)) for o in {**self, **other}) / 2

    def of_token(self, index: int) -> Law:
        """The law of the token at `index` alone, as a law of one-tuples; shorter outcomes count as ()."""
        marginal = Law()
        for outcome, probability in self.items():
            token = outcome[index : index + 1]
            marginal[token] = marginal.get(token, 0.0) + probability
        return marginal


class EnumeratingChance:
    """A chance that walks a tree of choices, one path per run: `advance` moves on to the next path.

    >>> walk, seen = EnumeratingChance(), []
    >>> while True:
    ...     tosses = walk.accept(0.25), walk.accept(0.5)
    ...     seen.append((tosses, walk.probability))
    ...     if not walk.advance():
    ...         break
    >>> seen[0], len(seen), sum(probability for _, probability in seen)
    (((True, True), 0.125), 4, 1.0)
    """

    def __init__(self) -> None:
        self._path: list[
            list[tuple[int, float]]
        ] = []  # for each choice the options left, the present one first
        self._depth = 0

    @property
    def probability(self) -> float:
        """Of the path walked since the last `advance`."""
        product = 1.0
        for options in self._path[: self._depth]:
            product *= options[0][1]
        return product

    def draw(self, probabilities: Any) -> int:
        """One of the ids of positive probability."""
        values = probabilities.tolist() if hasattr(probabilities, "tolist") else list(probabilities)
        return self._choose([(i, value) for i, value in enumerate(values) if value > 0])

    def accept(self, probability: float) -> bool:
        """True and False, each if it is possible at all."""
        options = [(1, probability), (0, 1.0 - probability)]
        return bool(self._choose([option for option in options if option[1] > 0]))

    def advance(self) -> bool:
        """Turn to the next path; False when all have been walked. The next run must make the same choices so far."""
        del self._path[self._depth :]
        while self._path and len(self._path[-1]) == 1:
            self._path.pop()
        if not self._path:
            return False
        self._path[-1].pop(0)
        self._depth = 0
        return True

    def _choose(self, options: list[tuple[int, float]]) -> int:
        if not options:
            raise ValueError("a draw was asked for, and no id has a positive probability")
        if self._depth == len(self._path):
            self._path.append(options)
        self._depth += 1
        return self._path[self._depth - 1][0][0]


def law(decoder: Decoder, target: Any, draft: Any, prompt: Any, n: int, *, most_paths: int = 200_000) -> Law:
    """The exact law of what `decoder` produces: it is run once for every path of draws and tosses.

    The number of paths grows as the vocabulary to the power of everything drawn: vocabulary 3, n 4, γ 3 gives
    thousands, vocabulary 2, n 6, γ 4 more than ten thousand. Taught in notebook 07.

    Args:
        decoder: called as `decoder(target, draft, prompt, n, chance)`; returns the new tokens, or any sequence
            of hashable things that is to be counted instead. See `speculative_sampler`. It must take all its randomness from `chance`.
        target, draft, prompt: handed to it. The models' logits should be float64.
        n: most new tokens.
        most_paths: `ValueError` beyond.

    Returns:
        a `Law`: outcome → probability.

    Raises:
        ValueError, TypeError: bad `prompt` or `n`; too many paths.

    Example:
        >>> from specdec_lab.models.scripted import ScriptedModel, fixed
        >>> target, draft = (
        ...     ScriptedModel(fixed(p), 3) for p in ([0.1, 0.6, 0.3], [0.6, 0.3, 0.1])
        ... )  # float32
        >>> found = law(speculative_sampler(gamma=1), target, draft, [0], 2)
        >>> {token: round(p, 6) for token, p in sorted(found.of_token(0).items())}, found.paths
        ({(0,): 0.1, (1,): 0.6, (2,): 0.3}, 15)
    """
    prompt, n = check_input_ids(prompt, "prompt"), check_count(n, "n")
    chance, found = EnumeratingChance(), Law()
    for walked in itertools.count(1):
        if walked > most_paths:
            raise ValueError(
                f"more than most_paths = {most_paths} paths; take a smaller vocabulary, n or gamma"
            )
        outcome = tuple(decoder(target, draft, list(prompt), n, chance))
        found[outcome] = found.get(outcome, 0.0) + chance.probability
        if not chance.advance():
            found.paths = walked
            return found


def target_law(
    target: Any, prompt: Any, n: int, sampling: Sampling | None = None, eos_token_id: Any = None
) -> Law:
    """The target's own law, multiplied out token by token with no decoder involved: the outside truth.

    One uncached pass for every beginning of an output. Taught in notebook 07.

    Args:
        target, prompt, n, eos_token_id: as in `autoregressive_sample`.
        sampling: temperature and filters; None is `Sampling()`.

    Example:
        >>> from specdec_lab.models.scripted import ScriptedModel, fixed
        >>> round(target_law(ScriptedModel(fixed([0.25, 0.75]), 2), [0], 1)[(1,)], 6)
        0.75
    """
    prompt, n = check_input_ids(prompt, "prompt"), check_count(n, "n")
    end_tokens, sampling = check_end_tokens(eos_token_id), sampling or Sampling()
    found, open_ = Law(), {(): 1.0}
    for _ in range(n):
        longer: dict[tuple[int, ...], float] = {}
        for tokens, probability in open_.items():
            row = Session(target, "target").feed([*prompt, *tokens], rows=1)[0]
            for token, chance in enumerate(sampling.distribution(row).tolist()):
                if chance > 0:
                    place = found if token in end_tokens else longer
                    place[(*tokens, token)] = probability * chance
        open_ = longer
    found.update(open_)
    found.paths = len(found)
    return found


def speculative_sampler(gamma: int, sampling: Sampling | None = None, eos_token_id: Any = None) -> Decoder:
    """`speculative_sample` as a decoder for `law`; `draft` may be a draft model, a drafter, or
    `NoDrafter()` for plain sampling."""

    def decoder(target: Any, draft: Any, prompt: list[int], n: int, chance: Chance) -> list[int]:
        rounds = speculative_rounds(
            target,
            draft,
            prompt,
            max_new_tokens=n,
            gamma=gamma,
            eos_token_id=eos_token_id,
            sampling=sampling or Sampling(),
            chance=chance,
        )
        return [token for item in rounds for token in item.emitted]

    return decoder
