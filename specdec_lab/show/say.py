"""Taught numbers: printed in one form, written down, and refused where another machine might print another digit.

It only prints and remembers. Nothing is measured here, and no timing should ever go through it: timings differ from
run to run, and what `say` prints is compared letter by letter.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

TOLERANCE = 1e-6  # how far another machine's arithmetic may be off, relative to max(1, |value|)

_said: dict[str, str] = {}


def say(name: str, value: Any, digits: int = 2, unit: str = "", *, exact: bool = False) -> None:
    """Print `name = value unit`, and remember it for `said`. Taught in notebook 01.

    A float is printed with `digits` digits after the point, rounded as Python's own formatting does. Floats come out
    a little different on another machine (another BLAS adds in another order), so a float within
    `1e-6 * max(1, |value|)` of an edge between two printed numbers, (k + 0.5) / 10**digits, is refused. The bound
    grows with the value because rounding errors do. Ints, bools and texts are printed as they are. NaN and
    infinities are printed as nan, inf and -inf.

    Args:
        name: what the number is called in the lesson. Said again, as when a student changes a cell, the last one counts;
            that a stored notebook has one number for each name is checked by its tests.
        value: an int, float, bool, text, `Fraction` or `Decimal`, or a numpy or torch scalar.
        digits: digits after the point, for anything but ints, bools and texts.
        unit: printed behind the value; "" for none.
        exact: the value is the same on every machine (an int ÷ an int, a Fraction), so an edge is no danger; a tie
            goes to the even digit.

    Raises:
        ValueError: the printed digits might differ elsewhere; or `digits` is negative.
        TypeError: the value is not one number or text.

    >>> say("tau", 2.6667, unit="tokens a round")
    tau = 2.67 tokens a round
    >>> say("rounds", 12)
    rounds = 12
    >>> say("share", Fraction(5, 8), exact=True)
    share = 0.62
    """
    if not isinstance(name, str) or not name or "\n" in name or " = " in name:
        raise ValueError(f"a said number needs a name of one line, without ' = ' in it, got {name!r}")
    if isinstance(digits, bool) or not isinstance(digits, int) or digits < 0:
        raise ValueError(f"say({name!r}, ...): digits must be an int of 0 or more, got {digits!r}")
    text = " ".join(part for part in (_text(name, value, digits, exact), unit) if part)
    _said[name] = text
    print(f"{name} = {text}")


def said() -> dict[str, str]:
    """What was said in this process, in order: name → the text behind the equals sign, with its unit.

    >>> forget()
    >>> say("gamma", 4)
    gamma = 4
    >>> said()
    {'gamma': '4'}
    """
    return dict(_said)


def forget() -> None:
    """Start anew."""
    _said.clear()


def _text(name: str, value: Any, digits: int, exact: bool) -> str:
    value = _plain(name, value)
    if isinstance(value, bool | int | str):
        return str(value)
    if not math.isfinite(value):
        return str(float(value))
    number = Fraction(value)  # of a float, the very number it holds
    if not exact and _near_an_edge(number, digits):
        low = math.floor(number * 10**digits)
        safe = _safe_digits(number, digits)
        advice = f"Say it with digits={safe}" if safe is not None else "Choose a setting with another value"
        raise ValueError(
            f"say({name!r}, {float(number)!r}, digits={digits}): so near to the edge between {_fixed(low, digits)} "
            f"and {_fixed(low + 1, digits)} that another machine may print the other. {advice}; or pass exact=True "
            "if it is an int divided by an int, the same everywhere."
        )
    return _fixed(round(number * 10**digits), digits)  # ties to even, as in format()


def _plain(name: str, value: Any) -> bool | int | float | str | Fraction | Decimal:
    """A value of Python's own types; numpy and torch scalars are asked for theirs."""
    if isinstance(value, bool | int | str | float | Fraction | Decimal):
        return value
    kind = type(value).__name__
    if getattr(value, "ndim", 0):
        raise TypeError(f"say({name!r}, ...) takes one number, got {kind} of shape {tuple(value.shape)}")
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, bool | int | str | float):
        return item
    try:
        return float(item)
    except (TypeError, ValueError):
        raise TypeError(f"say({name!r}, ...) takes one number or a text, got {kind}") from None


def _near_an_edge(number: Fraction, digits: int) -> bool:
    steps = number * 10**digits
    distance = abs(steps - math.floor(steps) - Fraction(1, 2)) / 10**digits
    return distance < Fraction(TOLERANCE) * max(1, abs(number))


def _safe_digits(number: Fraction, digits: int) -> int | None:
    """The number of digits nearest to the wanted one, a finer one first, at which nothing can flip."""
    others = sorted({*range(6)} - {digits}, key=lambda other: (abs(other - digits), -other))
    return next((other for other in others if not _near_an_edge(number, other)), None)


def _fixed(steps: int, digits: int) -> str:
    """`steps` / 10**digits with that many digits; never -0, and a point whatever the locale."""
    whole, rest = divmod(abs(steps), 10**digits)
    return f"{'-' if steps < 0 else ''}{whole}" + (f".{rest:0{digits}d}" if digits else "")
