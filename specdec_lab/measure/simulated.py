"""A machine on paper: models whose passes take the time that is written down, and a clock that only they move.

Whatever is timed on it gives the same figures everywhere, so that a lesson can say what a fault of measuring costs. It
measures nothing real.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import torch

from specdec_lab.models.scripted import Call, NextToken, ScriptedModel, last_token

# How many times as long work takes at a time on the clock: 1 is a machine at its usual speed.
Pace = Callable[[float], float]

# ---------------------------------------------------------------- how a machine behaves over time


def steady(now: float) -> float:
    """Always the same speed."""
    return 1.0


def cold_until(seconds: float, factor: float) -> Pace:
    """`factor` times as slow until the clock shows `seconds`: code is compiled, memory fetched, the clock rate raised.

    >>> pace = cold_until(2.0, 4.0)
    >>> pace(1.9), pace(2.0)
    (4.0, 1.0)
    """
    return disturbed(0.0, seconds, factor)


def disturbed(begin: float, end: float, factor: float) -> Pace:
    """`factor` times as slow from `begin` to `end`: another program wants the processor."""
    return lambda now: factor if begin <= now < end else 1.0


def drifting(per_second: float) -> Pace:
    """A little slower all the time: a machine that grows warm. 0.1 is a tenth of the first speed's time per second.

    >>> drifting(0.1)(2.0)
    1.2
    """
    return lambda now: 1.0 + per_second * now


# ---------------------------------------------------------------- the machine and its models


class SimulatedMachine:
    """A clock that stands still until work moves it. Taught in notebook 05.

    Args:
        pace: time on the clock → how many times as long work takes then.

    Attributes:
        now: what the clock shows, in seconds.

    Example:
        >>> machine = SimulatedMachine()
        >>> with machine.clock():
        ...     machine.work(0.25)
        ...     time.perf_counter()
        0.25
    """

    def __init__(self, pace: Pace = steady) -> None:
        self.pace = pace
        self.now = 0.0
        self._busy_until = 0.0

    def work(self, seconds: float) -> None:
        """Work that takes `seconds` at the usual speed, and is waited for."""
        self.now += seconds * self.pace(self.now)

    def launch(self, seconds: float, call: float = 0.0) -> None:
        """Hand work to an accelerator. The call takes `call` seconds and returns; the work is done behind its back."""
        self.now += call
        self._busy_until = max(self._busy_until, self.now) + seconds

    def synchronise(self) -> None:
        """Wait until the accelerator has finished."""
        self.now = max(self.now, self._busy_until)

    @contextmanager
    def clock(self) -> Iterator[SimulatedMachine]:
        """Make this the clock of the whole process, `time.perf_counter`, and put the real one back, whatever happens."""
        real = time.perf_counter
        time.perf_counter = lambda: self.now
        try:
            yield self
        finally:
            time.perf_counter = real


class SimulatedModel(ScriptedModel):
    """A scripted model whose passes take time on a simulated machine. Taught in notebook 05.

    Args:
        rule, vocab_size: as for `ScriptedModel`.
        machine: whose clock it moves.
        first, further: seconds of a pass over one token, and of each token more in it.
    """

    def __init__(
        self, rule: NextToken, vocab_size: int, machine: SimulatedMachine, first: float, further: float
    ) -> None:
        super().__init__(rule, vocab_size)
        self.machine, self.first, self.further = machine, first, further

    def forward(
        self,
        input_ids: torch.Tensor,
        use_cache: bool = True,
        past_key_values: list[int] | None = None,
        logits_to_keep: int = 0,
    ):
        """(1, n) ids → logits of the last `logits_to_keep` rows, of all with 0, and the cache, grown by n."""
        cache = [] if past_key_values is None else past_key_values
        tokens, before = input_ids[0].tolist(), len(cache)
        cache += tokens
        self.machine.work(self.first + self.further * (len(tokens) - 1))
        self.calls.append(Call("forward", before, len(cache), tuple(tokens)))
        rows = range(len(cache) - (logits_to_keep or len(tokens)), len(cache))
        logits = [self._logits(self.rule(cache[: row + 1])) for row in rows]
        return SimpleNamespace(logits=torch.tensor([logits]), past_key_values=cache)


# ---------------------------------------------------------------- a pair that can be worked out by hand

VOCABULARY, END_TOKEN, EASY_FROM = 64, 0, 40
TARGET_SECONDS, DRAFT_SECONDS = (0.020, 0.001), (0.002, 0.0001)


def counting_pair(machine: SimulatedMachine) -> tuple[SimulatedModel, SimulatedModel]:
    """A target and a draft that count up; after 63 comes 0, the end token. Taught in notebook 05.

    The draft misses every even number below 40 (`EASY_FROM`) and no other. A target pass takes 20 thousandths of a
    second for one token and 1 for each token more, a draft pass a tenth of both: c = 0.1, v(5) = 1.2.
    """
    count = last_token(step=1, vocab_size=VOCABULARY)

    def guess(prefix):
        right = count(prefix)
        return right + 1 if 0 < right < EASY_FROM and right % 2 == 0 else right

    return (
        SimulatedModel(count, VOCABULARY, machine, *TARGET_SECONDS),
        SimulatedModel(guess, VOCABULARY, machine, *DRAFT_SECONDS),
    )


def counting_prompt(tokens: int, last: int) -> list[int]:
    """A prompt of so many tokens; the counting goes on behind the last one.

    >>> counting_prompt(4, 47)
    [1, 1, 1, 47]
    """
    return [1] * (tokens - 1) + [last]
