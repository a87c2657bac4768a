"""Where the files that come with the package lie, and their cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).resolve().parent / "assets"


def card_of(name: str) -> dict[str, Any]:
    """The card of bundled weights: origin, licence, seed, recipe, hashes, figures.

    Args:
        name: "tiny" (the pair of models), "tiny-medusa", "tiny-streams", "smollm2-eagle".

    Raises:
        ValueError: no such folder.

    >>> card_of("tiny-medusa")["licence"]
    'MIT, as the code'
    """
    path = ASSETS / name / "card.json"
    if not path.is_file():
        known = sorted(folder.parent.name for folder in ASSETS.glob("*/card.json"))
        raise ValueError(f"name must be one of {', '.join(known)}, got {name!r}")
    return json.loads(path.read_text(encoding="utf-8"))
