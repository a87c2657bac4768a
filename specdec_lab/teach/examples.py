"""What the small graders share: an example with its right answer, and a call that ends in time and in words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .audit import SECONDS, call_within, error_in_words, last_line
from .grading import NoAnswer, NoReturn


@dataclass(frozen=True)
class Example:
    """Arguments of a function, what it should return, and the call as a reader would write it."""

    arguments: tuple[Any, ...]
    right: Any
    call: str

    def __str__(self) -> str:
        shown = self.right if isinstance(self.right, str) else repr(self.right)
        return f"{self.call}\nRight: {shown if len(shown) <= 160 else shown[:157] + '...'}"


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """The answer. `NoAnswer` with a sentence where there is none, `NoReturn` where it takes for ever."""
    answer, error = call_within(SECONDS, lambda: function(*arguments))
    if error is None:
        return answer
    where = last_line(error)
    error.with_traceback(None)
    said = error_in_words(error, SECONDS)
    if isinstance(error, TimeoutError):
        raise NoReturn(said)
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        raise NoReturn("it used up the memory that it may have.")
    raise NoAnswer(f"{said[:-1]} ({where})." if where else said)


def fresh(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies, so that a function that changes its arguments spoils nothing for the next."""
    return copy.deepcopy(arguments)


def unchanged(function: Callable[..., Any], example: Example) -> str | None:
    """A sentence if the call changes an argument."""
    given = fresh(example.arguments)
    call(function, *given)
    for number, (before, after) in enumerate(zip(example.arguments, given, strict=True), start=1):
        same = torch.equal(before, after) if isinstance(before, torch.Tensor) else before == after
        if not same:
            return f"argument {number} should stay as it is, got {plain(after)}."
    return None


def plain(value: Any) -> Any:
    """Tensors as lists, for a sentence."""
    return value.tolist() if hasattr(value, "tolist") else value
