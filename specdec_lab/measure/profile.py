"""Measures what a pair's passes cost on this machine (`cost_profile.py`), so that any run can be predicted (`predict.py`).

It measures in *mock rounds*: everything a round does, the draft's passes before the target's, at a fixed length. Passes
timed alone are faster, because nothing else has used the processor's caches; and so are those of plain decoding, which
follow one another: the plain pass is timed behind two others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from specdec_lab.decoding.chance import NO_CHANCE
from specdec_lab.decoding.checks import check_count, check_fits
from specdec_lab.decoding.drafters import ModelDrafter, NoDrafter, Proposal
from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.decoding.greedy_rule import accept_greedy
from specdec_lab.decoding.session import Session
from specdec_lab.models.protocol import model_device, vocabulary_size

from .clock import read_clock
from .cost_profile import CostProfile, CostsAt
from .environment import stamp
from .interleave import timed
from .pass_times import PassTimes

_PLAIN_IN_A_ROW = 3  # a plain pass follows a plain pass; what the draft did before must not be in the way
_REAL_TOKENS = 24  # of the real runs that show the overhead


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
    most = max(largest + 1, _REAL_TOKENS)
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
            for _ in range(1 if k else _PLAIN_IN_A_ROW):
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
        return CostsAt(length, PassTimes(verified, length - 1), drafted, *map(tuple, self._read))


def _overhead(target: Any, draft: Any, prompt: list[int], gamma: int, devices: set) -> float:
    """Seconds of a round that are neither drafting nor verifying, in real rounds, speculative and plain ones."""
    per_round = []
    for drafter in (draft, NoDrafter()):
        run = timed(
            prompt,
            lambda ids, drafter=drafter: speculative_rounds(
                target, drafter, ids, max_new_tokens=_REAL_TOKENS, gamma=gamma, eos_token_id=None
            ),
            devices,
        )
        inside = sum(item.seconds_drafting + item.seconds_verifying for item in run.trace.rounds)
        per_round.append((run.seconds - inside) / len(run.trace.rounds))
    return sum(per_round) / 2
