"""Graders for what a model may look at: a cache that is cut, and the mask of a tree of drafts.

Each says in its docstring exactly what it calls. Examples are tried from the smallest on, so the first that fails is the
smallest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .examples import Example, call, fresh
from .grading import Behaviour, NoAnswer, Report, grade

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
        raise NoAnswer(f"expected a ValueError, got {type(error).__name__}: {error}.") from None
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
