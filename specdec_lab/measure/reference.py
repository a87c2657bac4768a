"""The measured surface that ships with the package: speed-up over α and γ, with the costs measured beside it.

One run on one machine, dated and stamped, made by `benchmarks/dial_surface.py`; lessons plot it, so that every reader
sees the same points, and measure their own beside it. It is data, not a promise: the card says where it comes from.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cost_profile import CostProfile
from .runs import FOLDER, text_hash

if TYPE_CHECKING:
    import pandas as pd

TABLE, COSTS, CARD = "dial.csv", "costs.json", "card.json"


@dataclass(frozen=True)
class Reference:
    """A stamped run. Taught in notebook 06.

    Attributes:
        surface: what `sweep.summarise` returned, one row for plain decoding and one for each α and γ.
        profile: the pair's costs, measured in the same process before the surface.
        card: date, machine, versions, command, settings, sha256 of both files.
    """

    surface: pd.DataFrame
    profile: CostProfile
    card: dict[str, Any]


def load_reference(folder: str | Path = FOLDER) -> Reference:
    """The reference run that is shipped, or one that `save_reference` wrote. Taught in notebook 06.

    Raises:
        ValueError: a file is not the one that the card was written for.

    Example:
        >>> reference = load_reference()  # doctest: +SKIP
        >>> reference.card["date"], len(reference.surface)  # doctest: +SKIP
    """
    import pandas as pd

    folder = Path(folder)
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    for name, expected in card["sha256"].items():
        found = text_hash(folder / name)
        if found != expected:
            raise ValueError(
                f"{name} has sha256 {found}, its card says {expected}: measure again or restore it"
            )
    surface = pd.read_csv(io.StringIO((folder / TABLE).read_text(encoding="utf-8")))
    return Reference(surface, CostProfile.load(folder / COSTS), card)


def save_reference(
    surface: pd.DataFrame, profile: CostProfile, card: dict[str, Any], folder: str | Path
) -> None:
    """Write the three files; the card gets the hashes of the other two."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TABLE).write_text(
        surface.to_csv(index=False, float_format="%.6g", lineterminator="\n"), encoding="utf-8"
    )
    profile.save(folder / COSTS)
    hashes = {name: text_hash(folder / name) for name in (TABLE, COSTS)}
    (folder / CARD).write_text(json.dumps(card | {"sha256": hashes}, indent=1) + "\n", encoding="utf-8")
