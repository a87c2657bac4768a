"""A picture that is taller than wide is two pictures on slides, an upper and a lower one, each of which can be read.

It is cut where nothing is drawn, or next to nothing, between two bars for instance.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import nbformat
from PIL import Image

TALL = 0.9  # height ÷ width; more has two slides


def halves(output: Any) -> list[Any]:
    """The output itself, or one output each for the upper and the lower part of its picture."""
    picture = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"])))
    width, height = picture.size
    if height <= TALL * width or height < 100:
        return [output]
    place = emptiest_row(picture)
    parts = []
    for words, top, bottom in (("upper", 0, place), ("lower", place, height)):
        buffer = io.BytesIO()
        picture.crop((0, top, width, bottom)).save(buffer, "PNG")
        part = nbformat.from_dict(output)
        part.data["image/png"] = base64.b64encode(buffer.getvalue()).decode()
        part.data["text/plain"] = f"{output.data.get('text/plain', '')} (The {words} part of the picture.)"
        parts.append(part)
    return parts


def emptiest_row(picture: Image.Image) -> int:
    """The row to cut at: the brightest one of the middle fifth, and of equal ones the one nearest to the middle."""
    height = picture.height
    rows = picture.convert("RGBA")
    paper = Image.new("RGBA", rows.size, "white")
    paper.alpha_composite(rows)
    light = paper.convert("L").resize((1, height), Image.Resampling.BOX).tobytes()
    middle = range(height * 2 // 5, height * 3 // 5)
    return min(middle, key=lambda row: (-light[row], abs(row - height // 2)))
