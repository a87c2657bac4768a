"""What a pair's passes cost on some machine: seconds, kept, saved and asked. No torch; `profile.py` measures them.

A profile holds the time of target passes over n tokens, of drafting k tokens, of reading a prompt, and of what a round
costs outside the models. `predict.py` makes runs of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from specdec_lab.decoding.rounds import SCHEMA_VERSION, check_schema

from .pass_times import PassTimes

if TYPE_CHECKING:
    import pandas as pd

Turns = tuple[float, ...]


@dataclass(frozen=True)
class CostsAt:
    """Seconds at one context length, one for each turn.

    Attributes:
        context: tokens in the sequence, the pending one included.
        target: passes over n = 1, 2, … tokens with n rows read and judged; v(n) is the profile's `verify_cost`.
        draft: k → drafting k tokens, k passes, each answer read.
        read_target, read_draft: reading a prompt of `context` tokens and scoring one row.
    """

    context: int
    target: PassTimes
    draft: Mapping[int, Turns]
    read_target: Turns
    read_draft: Turns


@dataclass(frozen=True)
class CostProfile:
    """Costs of one pair on one machine, at one or more context lengths. Made by `measure_costs`. Taught in notebook 06.

    Attributes:
        at: `CostsAt` for each context length, rising.
        overhead: seconds of a round outside drafting and verifying, one for each turn: roll-back, record, loop.
        environment: device, dtype, threads, versions, machine.

    Every answer is the mean of the middle half of the turns: a run is a sum of passes, so their mean is what counts, and
    a disturbed turn must not. Questions take a length of the sequence (`context`, None for the middle of those measured);
    between two measured lengths the answer lies on a straight line, outside them it is that of the nearest.
    """

    at: tuple[CostsAt, ...]
    overhead: Turns
    environment: Mapping[str, Any]

    @property
    def largest_gamma(self) -> int:
        """Most drafted tokens that were measured."""
        return max(self.at[0].draft)

    def target_seconds(self, tokens: int = 1, context: float | None = None) -> float:
        """Seconds of a target pass over `tokens`.

        Raises `ValueError` for more than were measured.
        """
        if not 1 <= tokens <= self.largest_gamma + 1:
            raise ValueError(f"tokens must lie between 1 and {self.largest_gamma + 1}, got {tokens}")
        return self._at(lambda costs: middle(costs.target.seconds[tokens]), context)

    def draft_seconds(self, tokens: int = 1, context: float | None = None) -> float:
        """Seconds of drafting `tokens` tokens, one pass each; 0 for none.

        Raises `ValueError` for more than were measured.
        """
        if not tokens:
            return 0.0
        if not 1 <= tokens <= self.largest_gamma:
            raise ValueError(f"tokens must lie between 0 and {self.largest_gamma}, got {tokens}")
        return self._at(lambda costs: middle(costs.draft[tokens]), context)

    def read_seconds(self, context: float | None = None) -> tuple[float, float]:
        """Seconds of the target and of the draft reading a prompt of `context` tokens."""
        return (
            self._at(lambda costs: middle(costs.read_target), context),
            self._at(lambda costs: middle(costs.read_draft), context),
        )

    def overhead_seconds(self) -> float:
        """Seconds of a round outside the models' passes."""
        return middle(self.overhead)

    def cost_ratio(self, context: float | None = None) -> float:
        """c: time of a draft pass, averaged over the longest draft, ÷ time of a target pass over one token."""
        most = self.largest_gamma
        return self.draft_seconds(most, context) / most / self.target_seconds(1, context)

    def verify_cost(self, tokens: int, context: float | None = None) -> float:
        """v(n); give this method itself to the formulas of `theory`."""
        return self.target_seconds(tokens, context) / self.target_seconds(1, context)

    def to_frame(self) -> pd.DataFrame:
        """One row for each context and n: seconds of drafting n - 1 tokens and of a pass over n, with their quartiles."""
        import pandas as pd

        rows = []
        for costs in self.at:
            for n in costs.target:
                row: dict[str, Any] = {"context": costs.context, "tokens": n, "gamma": n - 1}
                for name, turns in (("target", costs.target.seconds[n]), ("draft", costs.draft.get(n - 1))):
                    low, high = _quartiles(turns) if turns else (0.0, 0.0)
                    seconds = middle(turns) if turns else 0.0
                    row |= {f"{name}_seconds": seconds, f"{name}_low": low, f"{name}_high": high}
                rows.append(row | {"verify_cost": self.verify_cost(n, costs.context)})
        return pd.DataFrame(rows)

    def save(self, path: str | Path) -> None:
        """Write JSON with a schema version."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> CostProfile:
        """Read what `save` wrote; `ValueError` for another schema."""
        return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "environment": dict(self.environment),
            "overhead": list(self.overhead),
            "at": [
                {
                    "context": costs.context,
                    "target": {str(n): list(costs.target.seconds[n]) for n in costs.target},
                    "draft": {str(k): list(turns) for k, turns in costs.draft.items()},
                    "read_target": list(costs.read_target),
                    "read_draft": list(costs.read_draft),
                }
                for costs in self.at
            ],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CostProfile:
        """The way back; `ValueError` for another schema."""
        check_schema(data, "cost profile")
        return cls(
            tuple(
                CostsAt(
                    item["context"],
                    PassTimes(
                        {int(n): tuple(turns) for n, turns in item["target"].items()}, item["context"] - 1
                    ),
                    {int(k): tuple(turns) for k, turns in item["draft"].items()},
                    tuple(item["read_target"]),
                    tuple(item["read_draft"]),
                )
                for item in data["at"]
            ),
            tuple(data["overhead"]),
            data["environment"],
        )

    def _at(self, value: Callable[[CostsAt], float], context: float | None) -> float:
        lengths = [costs.context for costs in self.at]
        context = (lengths[0] + lengths[-1]) / 2 if context is None else context
        if context <= lengths[0]:
            return value(self.at[0])
        for low, high in pairwise(self.at):
            if context <= high.context:
                share = (context - low.context) / (high.context - low.context)
                return value(low) + share * (value(high) - value(low))
        return value(self.at[-1])


def middle(turns: Sequence[float]) -> float:
    """The mean of the middle half of `turns`.

    >>> middle((1.0, 2.0, 4.0, 100.0))
    3.0
    """
    ordered, cut = sorted(turns), len(turns) // 4
    return fmean(ordered[cut : len(ordered) - cut])


def _quartiles(turns: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(turns)
    last = len(ordered) - 1

    def at(share: float) -> float:
        low = int(share * last)
        high = min(low + 1, last)
        return ordered[low] + (share * last - low) * (ordered[high] - ordered[low])

    return at(0.25), at(0.75)
