"""Text of tokens with nothing in it that cannot be seen, and nothing that could steer a terminal."""

from __future__ import annotations

import re
import unicodedata

_SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}


def readable(text: str, token: int | None = None) -> str:
    """Text with nothing in it that cannot be seen; an ordinary text stays as it is. Taught in notebook 03.

    Args:
        text: what a token decodes to.
        token: its id, shown where the token is only a part of a character (bytes that are no UTF-8 by themselves)
            or decodes to nothing.

    Returns:
        The text with a sign for space (␣), newline (↵), tab (⇥) and control characters, and the code of whatever
        else leaves no trace or reorders its neighbours.

    >>> readable(" the\\n"), readable("\\ufffd", 180), readable("\\u202e")
    ('␣the↵', '⟨#180⟩', '\\\\u202e')
    """
    if token is not None:
        text = re.sub("\ufffd+", f"⟨#{token}⟩", text) or f"⟨#{token}⟩"
    return "".join(_sign(character) for character in text)


def _sign(character: str) -> str:
    code, category = ord(character), unicodedata.category(character)
    if character in _SIGNS:
        return _SIGNS[character]
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte that is no UTF-8 ("surrogateescape")
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return chr(0x2421 if code == 0x7F else 0x2400 + code)
    if category in _HIDDEN:
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return f"◌{character}" if category.startswith("M") else character  # an accent needs something to sit on
