"""Exercises: a function to write, compared with its specification on every case, the smallest first.

A specification is slow and obvious; the function to write is what one would use. Where they differ, the first case
that shows it is named, and because cases come from the smallest on, it is the smallest. It knows no exercise; those
are in notebooks/exercises.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

LONGEST = 200  # characters of a value in a sentence


class NotRightYet(AssertionError):
    """An answer that differs from the specification's. A notebook shows its sentence, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"✗ {self}"]


def practise(
    function: Callable[..., Any],
    specification: Callable[..., Any],
    cases: Iterable[tuple[Any, ...]],
    *,
    tolerance: float = 0.0,
    properties: Mapping[str, Callable[..., bool]] | None = None,
    in_place: bool = False,
) -> None:
    """Compare a function with its specification; say how many cases agree, or where the first does not.

    Both get copies of the arguments. An error that the function raises goes on to the reader, with a note on the case.

    Args:
        function: what the reader wrote; its name stands in every sentence.
        specification: returns what is right for the same arguments.
        cases: tuples of arguments, from the smallest on.
        tolerance: largest allowed difference of a float; 0.0 compares exactly.
        properties: half a sentence → (answer, *arguments) → whether it holds; tried where the answer agrees.
        in_place: whether the function may change its arguments. Unless it may, a change is a mistake.

    Raises:
        NotRightYet: an `AssertionError` that names the smallest case, what is right, and what came; or says that the
            function calls its specification by name.
        NotImplementedError: from a function that has not been written yet.
        ValueError: no cases.

    Taught in the exercises of every notebook.

    Example:
        >>> practise(lambda n: n + n, lambda n: 2 * n, [(n,) for n in range(9)])
        ✓ <lambda> agrees with its specification in all 9 cases.
    """
    name, count = getattr(function, "__name__", "the function"), 0
    if (given_away := getattr(specification, "__name__", "")) in _global_names(function) and hasattr(
        specification, "__code__"
    ):
        raise NotRightYet(f"{name} should find its answer itself, and not call {given_away}.")
    for arguments in cases:
        count += 1
        call = f"{name}({', '.join(map(words, arguments))})"
        right = specification(*copy.deepcopy(arguments))
        given = copy.deepcopy(arguments)
        try:
            answer = function(*given)
        except NotImplementedError:
            raise
        except Exception as error:
            error.add_note(f"in {call}, where {words(right)} is right")
            raise
        if not same(answer, right, tolerance):
            raise NotRightYet(f"{call} should be {words(right)}, got {words(answer)}.")
        if not in_place and not same(given, arguments, 0.0):
            raise NotRightYet(f"{call} should leave its arguments as they are, now they are {words(given)}.")
        for told, holds in (properties or {}).items():
            if not holds(answer, *copy.deepcopy(arguments)):
                raise NotRightYet(f"{call}: {told} should hold, got {words(answer)}.")
    if not count:
        raise ValueError("cases must not be empty, got none")
    print(f"✓ {name} agrees with its specification in all {count} cases.")


def _global_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names that a function looks up outside itself."""
    code = getattr(function, "__code__", None)
    return () if code is None else (*code.co_names, *code.co_freevars)


def same(got: Any, right: Any, tolerance: float) -> bool:
    """Whether two answers are equal: numbers within `tolerance`, tensors by shape too, containers item by item."""
    if isinstance(got, torch.Tensor) and not isinstance(right, torch.Tensor) and got.ndim == 0:
        got = got.item()
    if isinstance(right, torch.Tensor):
        if not isinstance(got, torch.Tensor) or got.shape != right.shape:
            return False
        if right.dtype.is_floating_point or got.dtype.is_floating_point:
            return torch.allclose(got.double(), right.double(), rtol=0.0, atol=tolerance, equal_nan=True)
        return torch.equal(got.to(right.dtype), right)
    if isinstance(got, torch.Tensor):
        return False
    if isinstance(right, Mapping):
        return (
            isinstance(got, Mapping)
            and got.keys() == right.keys()
            and all(same(got[key], value, tolerance) for key, value in right.items())
        )
    if isinstance(right, (list, tuple)):
        return (
            isinstance(got, (list, tuple))
            and len(got) == len(right)
            and all(same(a, b, tolerance) for a, b in zip(got, right, strict=True))
        )
    if isinstance(right, float) and isinstance(got, (int, float)):
        return got == right or abs(got - right) <= tolerance or (math.isnan(got) and math.isnan(right))
    return got is right if got is None or right is None else bool(got == right)


def words(value: Any) -> str:
    """A value as a reader would write it, cut where it is long."""
    told = f"tensor({value.tolist()})" if isinstance(value, torch.Tensor) else repr(value)
    return told if len(told) <= LONGEST else told[: LONGEST - 3] + "..."
