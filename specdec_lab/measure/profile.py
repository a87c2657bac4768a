"""What a pair's passes cost on this machine: measured once, saved, and used to predict any run (`predict.py`).

A profile holds seconds: of target passes over n tokens, of drafting k tokens, of reading a prompt, and of what a round
costs outside the models. It is measured in *mock rounds*: everything a round does, the draft's passes before the
target's, at a fixed length. Passes timed alone are faster, because nothing else has used the processor's caches.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from specdec_lab.decoding.chance import NO_CHANCE
from specdec_lab.decoding.checks import check_count, check_fits
from specdec_lab.decoding.drafters import ModelDrafter, NoDrafter, Proposal
from specdec_lab.decoding.greedy import accept_greedy, speculative_rounds
from specdec_lab.decoding.rounds import check_schema
from specdec_lab.decoding.session import Session
from specdec_lab.models.protocol import model_device, vocabulary_size

from .clock import read_clock
from .environment import stamp
from .interleave import timed
from .passes import PassTimes

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1
Turns = tuple[float, ...]


@dataclass(frozen=True)
class CostsAt:
    """Seconds at one context length, one for each turn.

    Attributes:
        context: tokens in the sequence, the pending one included.
        target: passes over n = 1, 2, … tokens with n rows read and judged; v(n) is `target.verify_cost(n)`.
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

    Questions take a length of the sequence (`context`, None for the middle of those measured); between two measured
    lengths the answer lies on a straight line, outside them it is that of the nearest.
    """

    at: tuple[CostsAt, ...]
    overhead: Turns
    environment: Mapping[str, Any]

    @property
    def largest_gamma(self) -> int:
        """Most drafted tokens that were measured."""
        return max(self.at[0].draft)

    def target_seconds(self, tokens: int = 1, context: float | None = None) -> float:
        """Median seconds of a target pass over `tokens`.

        Raises `ValueError` for more than were measured.
        """
        if not 1 <= tokens <= self.largest_gamma + 1:
            raise ValueError(f"tokens must lie between 1 and {self.largest_gamma + 1}, got {tokens}")
        return self._at(lambda costs: costs.target[tokens], context)

    def draft_seconds(self, tokens: int = 1, context: float | None = None) -> float:
        """Median seconds of drafting `tokens` tokens, one pass each; 0 for none.

        Raises `ValueError` for more than were measured.
        """
        if not tokens:
            return 0.0
        if not 1 <= tokens <= self.largest_gamma:
            raise ValueError(f"tokens must lie between 0 and {self.largest_gamma}, got {tokens}")
        return self._at(lambda costs: median(costs.draft[tokens]), context)

    def read_seconds(self, context: float | None = None) -> tuple[float, float]:
        """Median seconds of the target and of the draft reading a prompt of `context` tokens."""
        return (
            self._at(lambda costs: median(costs.read_target), context),
            self._at(lambda costs: median(costs.read_draft), context),
        )

    def overhead_seconds(self) -> float:
        """Median seconds of a round outside the models' passes."""
        return median(self.overhead)

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
                    low, middle, high = _quartiles(turns) if turns else (0.0, 0.0, 0.0)
                    row |= {f"{name}_seconds": middle, f"{name}_low": low, f"{name}_high": high}
                rows.append(row | {"verify_cost": costs.target.verify_cost(n)})
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
                    PassTimes({int(n): tuple(turns) for n, turns in item["target"].items()}, item["context"]),
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


def measure_costs(
    target_model: Any,
    draft_model: Any,
    *,
    largest_gamma: int = 16,
    contexts: Sequence[int] = (32, 160),
    runs: int = 11,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> CostProfile:
    """Measure what this pair's passes cost here: c, v(n), prompt reading and overhead. Taught in notebook 06.

    In every turn each γ of 0…`largest_gamma` plays one mock round at each context length, in an order drawn anew:
    the draft makes γ tokens, the target scores γ + 1, the rule judges, both are rolled back to where they were. Real
    rounds at γ = 4 and plain decoding then show what a round costs outside its passes. Sequences are random ids:
    time does not depend on the text. Let nothing else run meanwhile.

    Args:
        target_model, draft_model: as in `speculative_decode`; the draft is a model, because another drafter's cost
            depends on the text.
        largest_gamma: 1 or more.
        contexts: lengths of the sequence, each 2 or more; the middle of a run lies best between them.
        runs: turns that count, 1 or more; one more warms up.
        seed: of ids and order.
        progress: called with (turns done, turns in all).

    Raises:
        ValueError, TypeError: bad input, or a context that is too long for a model, before the first pass.

    Example:
        >>> profile = measure_costs(pair.target, pair.draft)  # doctest: +SKIP
        >>> profile.cost_ratio(), profile.verify_cost(5)  # doctest: +SKIP
        >>> profile.save("costs.json")  # doctest: +SKIP
    """
    largest, runs = check_count(largest_gamma, "largest_gamma"), check_count(runs, "runs")
    lengths = sorted({check_count(length, f"contexts[{i}]", least=2) for i, length in enumerate(contexts)})
    if not lengths:
        raise ValueError("contexts must hold at least one length, got none")
    order = random.Random(seed)
    target, drafter = Session(target_model, "target_model"), ModelDrafter(draft_model)
    draft = drafter.model
    words = min(vocabulary_size(target.model) or 2, vocabulary_size(draft) or 2)
    ids = [order.randrange(words) for _ in range(lengths[-1])]
    most = max(largest + 1, 24)
    for name, model in (("target_model", target.model), ("draft_model", draft)):
        check_fits(model, ids, most, f"contexts of {lengths[-1]} tokens, for {name},")
    devices = {model_device(target.model), model_device(draft)}

    stations = [_Station(target.model, draft, ids[:length], devices) for length in lengths]
    overhead: list[float] = []
    for turn in range(runs + 1):
        for station in stations:
            drafts = list(range(largest + 1))
            order.shuffle(drafts)
            station.turn(drafts)
        overhead.append(_overhead(target.model, draft, ids[: lengths[0]], min(4, largest), devices))
        if turn == 0:  # warmed up
            overhead.clear()
            for station in stations:
                station.forget()
        if progress is not None:
            progress(turn + 1, runs + 1)
    return CostProfile(tuple(station.costs() for station in stations), tuple(overhead), stamp(target.model))


class _Station:
    """Both models at one length, ready for mock rounds of any γ."""

    def __init__(self, target: Any, draft: Any, sequence: list[int], devices: set) -> None:
        self._target, self._draft, self._sequence, self._devices = target, draft, sequence, devices
        self.forget()

    def forget(self) -> None:
        self._verified: dict[int, list[float]] = {}
        self._drafted: dict[int, list[float]] = {}
        self._read: tuple[list[float], list[float]] = ([], [])

    def turn(self, drafts: Sequence[int]) -> None:
        """A fresh prompt, read by both, and then a mock round for each number of drafts."""
        sequence, drafter, target = self._sequence, ModelDrafter(self._draft), Session(self._target)
        start = read_clock(self._devices)
        drafter.propose(sequence, 1, NO_CHANCE)
        middle = read_clock(self._devices)
        accept_greedy(Proposal(), target.feed(sequence, rows=1), NO_CHANCE)
        end = read_clock(self._devices)
        self._read[0].append(end - middle)
        self._read[1].append(middle - start)
        for k in drafts:
            drafter.commit(sequence)
            target.roll_back(len(sequence) - 1)
            start = read_clock(self._devices)
            proposal = drafter.propose(sequence, k, NO_CHANCE) if k else Proposal()
            middle = read_clock(self._devices)
            logits = target.feed([sequence[-1], *proposal.tokens], rows=len(proposal.tokens) + 1)
            accept_greedy(proposal, logits, NO_CHANCE)
            end = read_clock(self._devices)
            self._verified.setdefault(k + 1, []).append(end - middle)
            if k:
                self._drafted.setdefault(k, []).append(middle - start)

    def costs(self) -> CostsAt:
        length = len(self._sequence)
        verified = {n: tuple(self._verified[n]) for n in sorted(self._verified)}
        drafted = {k: tuple(self._drafted[k]) for k in sorted(self._drafted)}
        return CostsAt(length, PassTimes(verified, length), drafted, *map(tuple, self._read))


def _overhead(target: Any, draft: Any, prompt: list[int], gamma: int, devices: set) -> float:
    """Seconds of a round that are neither drafting nor verifying, in real rounds, speculative and plain ones."""
    per_round = []
    for drafter in (draft, NoDrafter()):
        run = timed(
            prompt,
            lambda ids, drafter=drafter: speculative_rounds(
                target, drafter, ids, max_new_tokens=24, gamma=gamma, eos_token_id=None
            ),
            devices,
        )
        inside = sum(item.seconds_drafting + item.seconds_verifying for item in run.trace.rounds)
        per_round.append((run.seconds - inside) / len(run.trace.rounds))
    return sum(per_round) / 2


def _quartiles(turns: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(turns)
    last = len(ordered) - 1

    def at(share: float) -> float:
        low = int(share * last)
        high = min(low + 1, last)
        return ordered[low] + (share * last - low) * (ordered[high] - ordered[low])

    return at(0.25), median(ordered), at(0.75)
