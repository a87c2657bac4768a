"""Graders for the two rules of acceptance: the accepted prefix of greedy decoding, and the residual of sampling.

Each says in its docstring exactly what it calls. Examples are tried from the smallest on, so the first that fails is the
smallest. Caches and masks are in `cache_graders.py`, samplers in `sampling_grader.py`, benchmarks in `benchmark_grader.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from .examples import Example, call, fresh, unchanged
from .grading import Behaviour, NoAnswer, Report, grade

TOLERANCE = 1e-5

# ---------------------------------------------------------------- residual distribution


def check_residual_distribution(function: Callable[..., Any]) -> Report:
    """Grade `function(p, q)`: what a rejected token is replaced from. Taught in notebook 07.

    p and q are float32 tensors, (vocab,), each summing to 1. It returns a distribution of the same shape, a tensor or a
    list: the positive part of p - q, normalised; p itself where nothing of it is positive.

    >>> check_residual_distribution(lambda p, q: torch.softmax((p - q).clamp(min=0), 0)).verdict
    'wrong'
    """
    return grade(getattr(function, "__name__", "residual_distribution"), function, RESIDUAL)


def _distributions(*pairs: tuple[list[float], list[float], list[float]]) -> tuple[Example, ...]:
    return tuple(
        Example((torch.tensor(p), torch.tensor(q)), right, f"residual_distribution(tensor({p}), tensor({q}))")
        for p, q, right in pairs
    )


def _values(function: Callable[..., Any], example: Example) -> list[float]:
    answer = call(function, *fresh(example.arguments))
    try:
        values = torch.as_tensor(answer, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise NoAnswer(f"it returned a {type(answer).__name__}, not a distribution.") from None
    shape = tuple(example.arguments[0].shape)
    if tuple(values.shape) != shape:
        raise NoAnswer(f"the answer should have shape {shape}, got {tuple(values.shape)}.")
    return values.tolist()


def _as_due(function: Callable[..., Any], example: Example) -> str | None:
    got = _values(function, example)
    if all(abs(a - b) <= TOLERANCE for a, b in zip(got, example.right, strict=True)):
        return None
    return f"expected {_rounded(example.right)}, got {_rounded(got)}."


def _a_distribution(function: Callable[..., Any], example: Example) -> str | None:
    got = _values(function, example)
    if min(got) >= 0 and abs(sum(got) - 1) <= TOLERANCE:
        return None
    return f"expected probabilities of 0 or more that sum to 1, got {_rounded(got)}, which sum to {sum(got):.4g}."


def _nothing_overrated(function: Callable[..., Any], example: Example) -> str | None:
    got = _values(function, example)
    for token, (value, due) in enumerate(zip(got, example.right, strict=True)):
        if due == 0 and value != 0:
            return f"token {token} should have probability 0, got {value:.4g}."
    return None


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 4) for value in values[:8]]


_PAIRS = _distributions(
    ([0.5, 0.5], [1.0, 0.0], [0.0, 1.0]),
    ([0.75, 0.25], [0.25, 0.75], [1.0, 0.0]),
    ([0.1, 0.6, 0.3], [0.6, 0.3, 0.1], [0.0, 0.6, 0.4]),
    ([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.75, 0.25, 0.0, 0.0]),
)
_THIRD = torch.full((3,), 1 / 3)
_ABOVE = torch.nextafter(_THIRD, torch.ones(3))
RESIDUAL = (
    Behaviour(
        "positive_part",
        "the positive part of p - q, divided by its sum",
        _PAIRS,
        _as_due,
        (
            "Which tokens does the target like more than the draft?",
            "Take p - q, set what is negative to 0, and make the rest sum to 1 by a division.",
            "positive = (p - q).clamp(min=0); return positive / positive.sum(). No softmax, and not p itself.",
        ),
    ),
    Behaviour(
        "a_distribution",
        "probabilities of 0 or more that sum to 1",
        _PAIRS,
        _a_distribution,
        (
            "What does the positive part of p - q sum to?",
            "To 1 - Σ min(p, q), which is less than 1: divide by it.",
            "return positive / positive.sum().",
        ),
    ),
    Behaviour(
        "nothing_overrated",
        "a token that the draft overrates has probability 0, and so has one that the target excludes",
        _PAIRS,
        _nothing_overrated,
        (
            "May a token be drawn that q already gives more than its share?",
            "No: it comes out often enough by acceptance. A softmax gives every token something.",
            "(p - q).clamp(min=0), and a division only.",
        ),
    ),
    Behaviour(
        "nothing_left",
        "p itself where p and q are equal: no division by 0",
        _distributions(([1.0], [1.0], [1.0]), ([0.5, 0.5], [0.5, 0.5], [0.5, 0.5]), ([0.0, 1.0], [0.0, 1.0], [0.0, 1.0])),
        _as_due,
        (
            "What is positive in p - q when p and q are equal?",
            "Nothing. A rejection has probability 0 then, but 0 ÷ 0 is NaN and spreads.",
            "total = positive.sum(); return positive / total if total > 0 else p.",
        ),
    ),
    Behaviour(
        "equal_but_for_rounding",
        "p itself where q is a rounding above p everywhere",
        (Example((_THIRD, _ABOVE), _THIRD.tolist(), "residual_distribution(p, q), p = 1/3 thrice, q the next larger float32"),),
        _as_due,
        (
            "May the sum of the positive part be 0 although p and q differ?",
            "Yes, by rounding. torch.equal(p, q) does not find that.",
            "Ask the sum: if not positive.sum() > 0: return p. (NaN is not > 0 either.)",
        ),
    ),
    Behaviour(
        "arguments_left_alone",
        "p and q are as they were",
        _PAIRS,
        unchanged,
        (
            "Does a method with a trailing underscore occur in your code?",
            "p -= q and clamp_() change the caller's tensor.",
            "positive = (p - q).clamp(min=0) makes a new one.",
        ),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- accepted prefix


def check_accept_prefix(function: Callable[..., Any]) -> Report:
    """Grade `function(drafted, choices)`: how many drafted tokens are accepted. Taught in notebook 03.

    Both are lists of ids: the K guesses, and the target's K + 1 choices, of which choices[i] judges drafted[i] and the
    last stands behind all guesses. It returns an int, the length of the longest agreeing prefix.

    >>> check_accept_prefix(lambda drafted, choices: sum(map(int.__eq__, drafted, choices))).broken.keys()
    dict_keys(['stops_at_the_first_difference'])
    """
    return grade(getattr(function, "__name__", "accept_prefix"), function, ACCEPT)


def _prefixes(*cases: tuple[list[int], list[int], int]) -> tuple[Example, ...]:
    return tuple(
        Example((drafted, choices), right, f"accept_prefix({drafted}, {choices})")
        for drafted, choices, right in cases
    )


def _length(function: Callable[..., Any], example: Example) -> str | None:
    answer = call(function, *fresh(example.arguments))
    try:
        got = operator.index(answer)
    except TypeError:
        raise NoAnswer(f"it returned {answer!r:.60}, not an int.") from None
    return None if got == example.right else f"expected {example.right}, got {got}."


ACCEPT = (
    Behaviour(
        "counts_agreement",
        "guesses that agree are accepted",
        _prefixes(([5], [5, 7], 1), ([5, 6], [5, 7, 8], 1), ([5, 6, 7], [5, 6, 9, 9], 2)),
        _length,
        (
            "Which choice judges which guess?",
            "choices[i] is what the target wants in the place of drafted[i].",
            "while n < len(drafted) and drafted[n] == choices[n]: n += 1.",
        ),
    ),
    Behaviour(
        "none_agree",
        "0 where the first guess differs",
        _prefixes(([5], [6, 7], 0), ([5, 6], [6, 7, 8], 0)),
        _length,
        (
            "Is the first guess looked at?",
            "It is compared like the others; nothing makes it certain.",
            "Start with n = 0, and compare drafted[0] with choices[0].",
        ),
    ),
    Behaviour(
        "all_agree",
        "K where all K agree: the choice behind them judges nothing",
        _prefixes(([5, 6], [5, 6, 7], 2), ([5, 5], [5, 5, 5], 2), ([1, 2, 3, 4], [1, 2, 3, 4, 5], 4)),
        _length,
        (
            "How many guesses are there, and how many choices?",
            "The last choice is the bonus. It is not an accepted guess, and there is no guess to compare it with.",
            "The loop ends at len(drafted), not at len(choices).",
        ),
    ),
    Behaviour(
        "stops_at_the_first_difference",
        "an agreement behind the first difference does not count",
        _prefixes(([5, 6], [7, 6, 8], 0), ([1, 2, 3], [1, 9, 3, 4], 1), ([1, 2, 3, 4], [1, 2, 9, 4, 5], 2)),
        _length,
        (
            "For which text were the guesses behind a difference made?",
            "For another one. That a later guess agrees is chance.",
            "A sum over a mask counts them too; a cumulative product in front of the sum does not.",
        ),
    ),
    Behaviour(
        "nothing_drafted",
        "0 where nothing was drafted",
        _prefixes(([], [4], 0)),
        _length,
        (
            "What is the answer for an empty list?",
            "A round without guesses is allowed: it brings one token of the target's own.",
            "No drafted[0] without asking whether there is one.",
        ),
    ),
    Behaviour(
        "arguments_left_alone",
        "both lists are as they were",
        _prefixes(([5], [5, 7], 1), ([1, 2, 3], [1, 9, 3, 4], 1)),
        unchanged,
        (
            "Are the lists yours?",
            "pop and append change the caller's list.",
            "Count with an index.",
        ),
    ),
)
