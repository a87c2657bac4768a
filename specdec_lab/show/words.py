"""Small words for the sentences and labels of pictures."""

from __future__ import annotations


def many(number: float, one: str, more: str = "") -> str:
    """A count with its noun; `more` where the plural is not simply one with an s.

    >>> many(1, "pass", "passes"), many(3, "round")
    ('1 pass', '3 rounds')
    """
    return f"{number} {one if number == 1 else more or one + 's'}"


def shortened(text: str, longest: int) -> str:
    """The text, cut with … where it is longer than a picture has room for.

    >>> shortened("Shakespeare", 6)
    'Shake…'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"
