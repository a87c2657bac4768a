"""Graders for the parts of a solution: residual, accepted prefix, truncation, tree mask.

Each says in its docstring exactly what it calls. Examples are tried from the smallest on, so the first that fails is the
smallest. `speculative_decode` has `grader.py`, a sampler `sampling_grader.py`, `benchmark_decoding` `benchmark_grader.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from .examples import Example, call, fresh, plain, unchanged
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

# ---------------------------------------------------------------- truncation


def check_truncation(function: Callable[..., Any]) -> Report:
    """Grade `function(past_key_values, valid_length)`: cut a cache. Taught in notebook 02.

    A cache is a list with one [keys, values] for each layer, tensors of shape (1, heads, length, size). The first
    `valid_length` positions stay. It returns the cut cache, new or the same, or None if it has cut in place;
    `ValueError` for a length below 0 or beyond what the cache holds.

    >>> check_truncation(
    ...     lambda cache, n: [[part[:, :, :n] for part in layer] for layer in cache]
    ... ).broken.keys()
    dict_keys(['refuses_the_impossible'])
    """
    return grade(getattr(function, "__name__", "truncate_cache"), function, TRUNCATION)


def _cache(layers: int, heads: int, length: int, size: int) -> list[list[torch.Tensor]]:
    numbers = torch.arange(layers * 2 * heads * length * size, dtype=torch.float32)
    return [list(layer) for layer in numbers.view(layers, 2, 1, heads, length, size)]


def _cuts(*cases: tuple[int, int, int, int, int]) -> tuple[Example, ...]:
    return tuple(
        Example(
            (_cache(layers, heads, length, size), valid),
            f"{layers} layer{'s' * (layers > 1)} of keys and values (1, {heads}, {valid}, {size})",
            f"truncate_cache(cache, {valid}), the cache of {layers} layer{'s' * (layers > 1)}, {heads} "
            f"head{'s' * (heads > 1)}, {length} position{'s' * (length > 1)} of size {size}",
        )
        for layers, heads, length, size, valid in cases
    )


def _cut(function: Callable[..., Any], example: Example) -> str | None:
    given, valid = fresh(example.arguments)
    before = example.arguments[0]
    answer = call(function, given, valid)
    after = given if answer is None else answer
    if not isinstance(after, (list, tuple)) or any(
        not isinstance(x, (list, tuple)) or len(x) != 2 for x in after
    ):
        raise NoAnswer(
            "it should return a list with [keys, values] for each layer, or None after a cut in place."
        )
    if len(after) != len(before):
        return f"the cache should still have {len(before)} layers, got {len(after)}."
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        for name, a, b in zip(("keys", "values"), old, new, strict=True):
            due, got = a[:, :, :valid], torch.as_tensor(b)
            if due.shape != got.shape:
                return f"the {name} of layer {number} should have shape {tuple(due.shape)}, got {tuple(got.shape)}."
            if not torch.equal(due, got):
                return f"the {name} of layer {number} should hold the first {valid} positions, got others."
    return None


def _refused(function: Callable[..., Any], example: Example) -> str | None:
    try:
        answer = function(*fresh(example.arguments))
    except ValueError:
        return None
    except Exception as error:
        return f"expected a ValueError, got {type(error).__name__}: {error}."
    return f"expected a ValueError, got {'no error' if answer is None else 'an answer'}."


_CUT_HINTS = (
    "Which of the four dimensions is the position?",
    "The third: (1, heads, length, size). The first `valid_length` positions stay, in keys and in values.",
    "layer[0][:, :, :valid_length], and the same for layer[1], in every layer.",
)
TRUNCATION = (
    Behaviour("keeps_the_first", "the first positions stay, in keys and in values", _cuts((1, 1, 2, 3, 1), (1, 2, 5, 3, 3)), _cut, _CUT_HINTS),
    Behaviour("every_layer", "every layer is cut", _cuts((2, 1, 2, 3, 1), (3, 2, 6, 4, 2)), _cut, _CUT_HINTS),
    Behaviour(
        "nothing_to_cut",
        "all stays where the valid length is the length",
        _cuts((1, 1, 1, 2, 1), (2, 2, 4, 3, 4)),
        _cut,
        (
            "How many positions are to be removed when all are valid?",
            "None. And [:-0] is [:0], which is empty.",
            "Cut by what stays, [:valid_length], not by what goes.",
        ),
    ),
    Behaviour(
        "empties",
        "nothing stays where the valid length is 0",
        _cuts((1, 1, 1, 2, 0), (2, 2, 4, 3, 0)),
        _cut,
        (
            "Is 0 a length like any other?",
            "if valid_length: … takes 0 for nothing to do. Some libraries did so, too.",
            "[:, :, :0] is right: a tensor of no positions.",
        ),
    ),
    Behaviour(
        "refuses_the_impossible",
        "ValueError for a length below 0 or beyond what is there",
        tuple(Example(e.arguments, "ValueError", e.call) for e in _cuts((1, 1, 1, 2, -1), (1, 1, 1, 2, 2), (2, 2, 4, 3, 9))),
        _refused,
        (
            "What does [:, :, :-1] keep, and what [:, :, :99]?",
            "All but the last, and everything: both without a word, and the caller believes in a cut.",
            "if not 0 <= valid_length <= length: raise ValueError(…).",
        ),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- tree mask


def check_tree_mask(function: Callable[..., Any]) -> Report:
    """Grade `function(parents, prefix_length)`: who sees whom in a tree of drafts. Taught in notebook 09.

    `parents` is a list with the index of each node's parent, -1 for the confirmed sequence; parents stand before their
    children. It returns n rows of prefix_length + n truth values, a tensor or lists: row i says what node i may look at,
    first the confirmed tokens, then the nodes.

    >>> check_tree_mask(
    ...     lambda parents, length: torch.ones(len(parents), length + len(parents)).tril(length)
    ... ).verdict
    'wrong'
    """
    return grade(getattr(function, "__name__", "tree_mask"), function, TREE_MASK)


def _masks(*cases: tuple[list[int], int]) -> tuple[Example, ...]:
    examples = []
    for parents, length in cases:
        rows = []
        for node in range(len(parents)):
            seen, above = {node}, parents[node]
            while above >= 0:
                seen.add(above)
                above = parents[above]
            rows.append([1] * length + [int(other in seen) for other in range(len(parents))])
        examples.append(Example((parents, length), rows, f"tree_mask({parents}, {length})"))
    return tuple(examples)


def _mask(of_prefix: bool, seen: bool) -> Callable[[Any, Example], str | None]:
    """Looks at the columns of the prefix or of the nodes, and at what should be seen or at what should not."""

    def judge(function: Callable[..., Any], example: Example) -> str | None:
        parents, length = example.arguments
        answer = call(function, *fresh(example.arguments))
        try:
            rows = torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError):
            raise NoAnswer(f"it returned a {type(answer).__name__}, not rows of truth values.") from None
        shape = (len(parents), length + len(parents))
        if tuple(rows.shape) != shape:
            raise NoAnswer(
                f"the mask should have shape {shape}, nodes × (prefix + nodes), got {tuple(rows.shape)}."
            )
        for node, (got, due) in enumerate(zip(rows.bool().int().tolist(), example.right, strict=True)):
            for column, (a, b) in enumerate(zip(got, due, strict=True)):
                if a != b and b == seen and (column < length) == of_prefix:
                    what = f"confirmed token {column}" if column < length else f"node {column - length}"
                    verb = "should see" if seen else "should not see"
                    return f"node {node} {verb} {what}; its row should be {due}, got {got}."
        return None

    return judge


_MASK_HINTS = (
    "What text would a node see if its path were decoded alone?",
    "The confirmed tokens, its ancestors up to the root, and itself; nobody else.",
    "Climb: seen = {i}; while parents[j] >= 0: j = parents[j]; seen.add(j).",
)
TREE_MASK = tuple(
    Behaviour(name, expected, _masks(*cases), judge, _MASK_HINTS)
    for name, expected, judge, cases in (
        ("sees_itself", "a node sees itself", _mask(False, True), [([-1], 0)]),
        ("sees_the_prefix", "every node sees all confirmed tokens", _mask(True, True), [([-1], 1), ([-1, -1], 3)]),
        ("a_chain_is_causal", "in a chain nobody looks ahead", _mask(False, False), [([-1, 0], 0), ([-1, 0, 1, 2], 2)]),
        ("sees_its_ancestors", "a node sees its parent, and its parent's parent", _mask(False, True), [([-1, 0], 0), ([-1, 0, 1], 0), ([-1, -1, 0, 2, 3], 1)]),
        ("siblings_are_apart", "siblings do not see each other", _mask(False, False), [([-1, -1], 0), ([-1, -1, -1], 1)]),
        ("no_cousins", "a node sees nothing of another branch", _mask(False, False), [([-1, 0, 0], 0), ([-1, -1, 0, 1], 0), ([-1, -1, 0, 0, 1, 2], 2)]),
    )
)  # fmt: skip
