"""Contenders take turns, prompt by prompt, so that a drifting machine hurts all of them alike.

It times decoders and keeps their traces. What the numbers mean is `benchmark`'s and `sweep`'s business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specdec_lab.decoding.checks import check_fits, check_input_ids
from specdec_lab.decoding.rounds import Round, Trace

from .clock import read_clock

# What decodes a prompt: an iterator of rounds, nothing of which has run yet.
Decoder = Callable[[list[int]], Iterable[Round]]


@dataclass(frozen=True)
class Timing:
    """One decode of one prompt: what came out and how long it took, prompt processing included.

    Attributes:
        trace: prompt and rounds.
        seconds: from before the prompt is processed to after the last token.
        arrivals: for each round the seconds until its tokens were there; the first is the time to first token.
    """

    trace: Trace
    seconds: float
    arrivals: tuple[float, ...]

    @property
    def seconds_to_first_token(self) -> float:
        """Prefill and one verification."""
        return self.arrivals[0]

    @property
    def gaps(self) -> list[float]:
        """Seconds between each new token and the one before it; 0 inside a round, whose tokens come together."""
        gaps: list[float] = []
        before = self.arrivals[0]
        for arrival, item in zip(self.arrivals, self.trace.rounds, strict=True):
            gaps += [arrival - before, *([0.0] * (len(item.emitted) - 1))]
            before = arrival
        return gaps[1:]


def take_turns(
    contenders: Mapping[str, Decoder],
    prompts: Sequence[list[int]],
    *,
    warmup_runs: int,
    num_runs: int,
    devices: set[torch.device],
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[list[Timing]]]:
    """For each contender the timed runs, in order; each run is one `Timing` per prompt.

    Every contender decodes a prompt before the next prompt's turn; who begins rotates. `progress` is called
    with (decodes done, decodes in all) after each prompt.
    """
    names = list(contenders)
    kept: dict[str, list[list[Timing]]] = {name: [] for name in names}
    done, total = 0, (warmup_runs + num_runs) * len(prompts) * len(names)
    for run in range(warmup_runs + num_runs):
        this: dict[str, list[Timing]] = {name: [] for name in names}
        for number, prompt in enumerate(prompts):
            shift = (run + number) % len(names)
            for name in names[shift:] + names[:shift]:
                this[name].append(timed(prompt, contenders[name], devices))
            done += len(names)
            if progress is not None:
                progress(done, total)
        if run >= warmup_runs:
            for name in names:
                kept[name].append(this[name])
    return kept


def timed(prompt: list[int], decode: Decoder, devices: set[torch.device]) -> Timing:
    """Decode one prompt; the accelerator is waited for before the first and the last reading only.

    A round ends by reading the target's answer, so the device has caught up by itself in between.
    """
    kept: list[Round] = []
    arrivals: list[float] = []
    start = read_clock(devices)
    for item in decode(prompt):
        arrivals.append(time.perf_counter() - start)
        kept.append(item)
    seconds = read_clock(devices) - start
    return Timing(Trace.of(prompt, kept), seconds, tuple(arrivals))


def prepare(drafter: Any, prompts: Sequence[list[int]], max_new_tokens: int) -> None:
    """Let a drafter do what must not be timed (the dial's oracle run); most have nothing to do."""
    ahead = getattr(drafter, "prepare", None)
    if callable(ahead):
        for prompt in prompts:
            ahead(prompt, max_new_tokens)


def check_prompts(prompts: Any, target: Any, max_new_tokens: int) -> list[list[int]]:
    """The prompts as lists of ids; `TypeError` or `ValueError`, naming the prompt, where one cannot be decoded."""
    if isinstance(prompts, (str, bytes)) or not hasattr(prompts, "__len__"):
        raise TypeError(
            f"prompts must be a sequence of prompts, each a list of ids, got {type(prompts).__name__}"
        )
    if len(prompts) == 0:
        raise ValueError("prompts must hold at least one prompt, got none")
    checked = []
    for i, prompt in enumerate(prompts):
        if isinstance(prompt, int):
            raise TypeError(
                f"prompts[{i}] must be a list of ids, got {prompt!r}; wrap a single prompt in a list"
            )
        checked.append(check_input_ids(prompt, f"prompts[{i}]"))
        check_fits(target, checked[-1], max_new_tokens, f"prompts[{i}]")
    return checked
