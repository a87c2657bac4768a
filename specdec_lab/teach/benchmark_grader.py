"""Grade a `benchmark_decoding` of one's own, on a clock that only scripted models move.

A pass of the target takes one second of it and a pass of the draft none, so what should be reported is known exactly. It
judges the figures, not whether an accelerator was waited for: these models have none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

from specdec_lab.models.scripted import NextToken

from .audit import AGREES, HALF, HASH, VOCABULARY, AuditedModel, Case, allowed_counts
from .checks import LONG_PROMPT
from .examples import call
from .grading import Behaviour, NoAnswer, Report, grade
from .small_cases import NO_END

KEYS = (
    "mean_latency_speculative",
    "mean_latency_autoregressive",
    "speedup",
    "mean_acceptance_rate",
    "tokens_per_second_speculative",
    "tokens_per_second_autoregressive",
)
CLOCKS = ("perf_counter", "time", "monotonic", "process_time")
SLOW = 10.0  # so many times slower a pass is until the machine is warm
CLOSE = 1e-6


def check_benchmark_decoding(function: Callable[..., Any]) -> Report:
    """Grade a function with the signature of `benchmark_decoding`. Taught in notebook 05.

    It is called as `function(target_model, draft_model, prompts, max_new_tokens, gamma, eos_token_id, warmup_runs=…,
    num_runs=…)`, with a list of lists of ids and models as in `check_speculative_decode`, and returns a dict with at least
    `KEYS`. Latencies are seconds for one prompt in one run. It decodes every prompt in every run with both decoders, and
    reads a clock of the module `time` (`time.perf_counter`, also where it was imported by name).

    >>> from specdec_lab import benchmark_decoding
    >>> check_benchmark_decoding(benchmark_decoding).verdict
    'right'
    """
    return grade(getattr(function, "__name__", "benchmark_decoding"), Benchmarks(function), BENCHMARK)


# ---------------------------------------------------------------- a run on the clock


@dataclass(frozen=True)
class Setting:
    """What is measured: one case for each prompt, alike but for the prompt."""

    cases: tuple[Case, ...]
    warmup_runs: int = 0
    num_runs: int = 1
    slow: bool = False

    def __str__(self) -> str:
        first = self.cases[0]
        prompts = str([list(case.prompt) for case in self.cases])
        prompts = (
            prompts if len(prompts) <= 40 else f"{len(self.cases)} prompts, the longest of {len(LONG_PROMPT)}"
        )
        slow = (
            f"Passes are {SLOW:g} times slower until {self.warmup_runs} runs are over; then "
            if self.slow
            else ""
        )
        return (
            f"benchmark_decoding(target, draft, {prompts}, {first.new_tokens}, gamma={first.gamma}, "
            f"eos_token_id={first.ends}, warmup_runs={self.warmup_runs}, num_runs={self.num_runs})\n"
            f"{slow}a target pass takes 1 second and a draft pass none; {self.new_tokens()} new tokens in a run; the draft "
            f"{first.draft}."
        )

    def new_tokens(self) -> int:
        """Those really produced in a run, by one decoder."""
        return sum(len(case.truth()) - len(case.prompt) for case in self.cases)


class Clock:
    """Seconds that only models move."""

    def __init__(self) -> None:
        self.now, self.readings = 1000.0, 0

    def read(self) -> float:
        self.readings += 1
        return self.now

    def read_ns(self) -> int:
        return round(self.read() * 1e9)

    @contextmanager
    def instead_of_time(self, function: Callable[..., Any]) -> Iterator[None]:
        """Every clock of the module `time` is this one, and every one that the function's file has imported by name. It
        takes milliseconds; whatever else runs in this process meanwhile sees a clock that hardly moves."""
        real = [(getattr(time, name), self.read) for name in CLOCKS]
        real += [(getattr(time, f"{name}_ns"), self.read_ns) for name in CLOCKS]
        replaced = []
        for place in (vars(time), getattr(function, "__globals__", {})):
            for name, value in list(place.items()):
                mine = next((mine for clock, mine in real if value is clock), None)
                if mine is not None:
                    replaced.append((place, name, value))
                    place[name] = mine
        try:
            yield
        finally:
            for place, name, value in replaced:
                place[name] = value


class TimedTarget(AuditedModel):
    """An audited target whose passes move a clock. `decodes` counts the passes that began with an empty cache."""

    def __init__(self, clock: Clock, slow_decodes: int) -> None:
        super().__init__("target", HASH, VOCABULARY, 20_000)
        self.clock, self.slow_decodes, self.decodes = clock, slow_decodes, 0

    def forward(
        self, input_ids: Any, use_cache: bool = True, past_key_values: list[int] | None = None
    ) -> Any:
        self.decodes += not past_key_values
        self.clock.now += SLOW if self.decodes <= self.slow_decodes else 1.0
        return super().forward(input_ids, use_cache, past_key_values)


@dataclass(frozen=True)
class Measured:
    """What a function reported, and what its target saw."""

    result: dict[str, Any]
    target: TimedTarget
    readings: int
    prompts: list[list[int]]

    def __getitem__(self, key: str) -> float:
        return float(self.result[key])


class Benchmarks:
    """The reports of one function, each setting measured once."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self._known = function, {}

    def __call__(self, setting: Setting) -> Measured:
        """`NoAnswer` where there is no dict with the six keys."""
        key = str(setting)
        if key not in self._known:
            self._known[key] = self._measure(setting)
        return self._known[key]

    def _measure(self, setting: Setting) -> Measured:
        clock, first = Clock(), setting.cases[0]
        target = TimedTarget(clock, 2 * setting.warmup_runs * len(setting.cases) if setting.slow else 0)
        draft = AuditedModel("draft", first.draft_rule, VOCABULARY, 20_000)
        prompts = [list(case.prompt) for case in setting.cases]
        runs = {"warmup_runs": setting.warmup_runs, "num_runs": setting.num_runs}
        with clock.instead_of_time(self.function):
            result = call(
                lambda: self.function(
                    target, draft, prompts, first.new_tokens, first.gamma, first.ends, **runs
                )
            )
        if not isinstance(result, dict):
            raise NoAnswer(f"it returned a {type(result).__name__}, not a dict.")
        missing = [name for name in KEYS if name not in result]
        if missing:
            raise NoAnswer(f"the dict should have {', '.join(KEYS)}; {', '.join(missing)} is missing.")
        for name in KEYS:
            if not isinstance(result[name], (int, float)) and not hasattr(result[name], "__float__"):
                raise NoAnswer(f"{name} should be a number, got {result[name]!r:.40}.")
        return Measured(result, target, clock.readings, prompts)


# ---------------------------------------------------------------- how a report is judged


def _on(judge: Callable[[Measured, Setting], str | None]) -> Callable[[Benchmarks, Setting], str | None]:
    return lambda benchmarks, setting: judge(benchmarks(setting), setting)


def _six_keys(measured: Measured, setting: Setting) -> str | None:
    if not measured.readings:
        return "no clock of the module time was read, so nothing can have been measured."
    return next(
        (f"{key} should be finite, got {measured[key]}." for key in KEYS if not math.isfinite(measured[key])),
        None,
    )


def _latency(measured: Measured, setting: Setting) -> str | None:
    """Per prompt and run, with one more pass allowed to each decoder: a prefill of its own, or a last token fed."""
    plain = setting.new_tokens() / len(setting.cases)
    rounds = [[count.rounds for count in allowed_counts(case)] for case in setting.cases]
    least, most = (sum(pick(r) for r in rounds) / len(rounds) for pick in (min, max))
    for key, low, high in ((KEYS[1], plain, plain + 1), (KEYS[0], least, most + 1)):
        if not low - CLOSE <= measured[key] <= high + CLOSE:
            return f"{key} should be {low:g} to {high:g} seconds, got {measured[key]:g}."
    return None


def _speedup(measured: Measured, setting: Setting) -> str | None:
    due = measured[KEYS[1]] / measured[KEYS[0]] if measured[KEYS[0]] else math.nan
    if abs(measured["speedup"] - due) <= CLOSE * due:
        return None
    return f"speedup should be {due:.4g}, the total autoregressive ÷ the total speculative time, got {measured['speedup']:.4g}."


def _throughput(measured: Measured, setting: Setting) -> str | None:
    each = setting.new_tokens() / len(setting.cases)
    for speed, latency in ((KEYS[4], KEYS[0]), (KEYS[5], KEYS[1])):
        due = each / measured[latency] if measured[latency] else math.nan
        if not abs(measured[speed] - due) <= CLOSE * due:
            return (
                f"{speed} should be {due:.4g}: {each:g} new tokens in {measured[latency]:g} seconds, got "
                f"{measured[speed]:.4g}."
            )
    return None


def _acceptance(measured: Measured, setting: Setting) -> str | None:
    rates = [[count.rate for count in allowed_counts(case)] for case in setting.cases]
    means = [sum(choice) / len(choice) for choice in product(*rates)]
    if any(abs(measured["mean_acceptance_rate"] - mean) <= CLOSE for mean in means):
        return None
    return f"mean_acceptance_rate should be {means[0]:.4g}, the mean over prompts, got {measured['mean_acceptance_rate']:.4g}."


def _run_count(measured: Measured, setting: Setting) -> str | None:
    due = 2 * (setting.warmup_runs + setting.num_runs) * len(setting.cases)
    if measured.target.decodes == due:
        return None
    return (
        f"the target should begin {due} decodes with an empty cache, two decoders × {len(setting.cases)} prompts × "
        f"({setting.warmup_runs} + {setting.num_runs}) runs, got {measured.target.decodes}."
    )


def _prompts_alone(measured: Measured, setting: Setting) -> str | None:
    right = [list(case.prompt) for case in setting.cases]
    return (
        None
        if measured.prompts == right
        else f"the caller's prompts should stay as they are, got {measured.prompts}."
    )


_ONE = Case(6, 2, AGREES, prompt=(1,), ends=NO_END)


def _half_right(case: Case) -> NextToken:
    """Agrees on texts that begin with 10 and on no others, so that two prompts differ in rate and rounds."""
    return lambda prefix: (case.rule(prefix) + (prefix[0] != 10)) % VOCABULARY


_TWO = tuple(
    Case(12, 4, "agrees on the first prompt only", prompt, NO_END, special_draft=_half_right)
    for prompt in ((10, 3), (3, 1, 4))
)
_LONG = Case(12, 4, HALF, prompt=LONG_PROMPT, ends=NO_END)
_ENDING = tuple(Case(32, 4, draft, end_at=6) for draft in (AGREES, HALF))
_PLAIN = (Setting((_ONE,)), Setting((_ONE,), num_runs=3), Setting((_LONG,), 1, 2), Setting(_TWO, 1, 2))
BENCHMARK = (
    Behaviour(
        "six_keys",
        "a dict with the six figures comes back, all finite",
        _PLAIN,
        _on(_six_keys),
        (
            "Which figures does the problem ask for?",
            "Two latencies, the speed-up, the acceptance rate, two throughputs; the names are part of the problem.",
            f"return dict({', '.join(f'{key}=…' for key in KEYS)}).",
        ),
    ),
    Behaviour(
        "latency",
        "latencies are seconds for one prompt in one run, from before the prompt to behind the last token",
        _PLAIN,
        _on(_latency),
        (
            "What lies between your two readings of the clock?",
            "One decode and nothing else, for either decoder; then the mean over prompts and runs. Plain decoding makes one "
            "cached pass a token.",
            "start = time.perf_counter(); decode(prompt); seconds.append(time.perf_counter() - start).",
        ),
    ),
    Behaviour(
        "warm_up_left_out",
        "warm-up runs are not in the figures, and both decoders are warmed up alike",
        (Setting((_ONE,), 1, 1, slow=True), Setting((_ONE,), 2, 3, slow=True)),
        _on(_latency),
        (
            "When does the first reading of the clock count?",
            "After `warmup_runs` whole runs, of both decoders, whose times are thrown away.",
            "for run in range(warmup_runs + num_runs): … if run >= warmup_runs: seconds.append(…).",
        ),
    ),
    Behaviour(
        "runs_made",
        "every run decodes every prompt with both decoders, from empty caches",
        (Setting((_ONE,)), Setting((_ONE,), 1, 1), Setting((_ONE,), 2, 3), Setting(_TWO, 1, 2)),
        _on(_run_count),
        (
            "How many decodes are there in all?",
            "2 decoders × prompts × (warmup_runs + num_runs). A cache that survives a decode makes the next one too fast; "
            "plain decoding without a cache begins anew with every token.",
            "past_key_values=None at the start of every decode, and the cache handed on in between.",
        ),
    ),
    Behaviour(
        "speedup",
        "the speed-up is total autoregressive time ÷ total speculative time",
        _PLAIN,
        _on(_speedup),
        (
            "Which way round is a speed-up above 1 good news?",
            "Plain time ÷ speculative time. A mean of ratios is another number than a ratio of sums.",
            "speedup = sum(plain_seconds) / sum(speculative_seconds).",
        ),
    ),
    Behaviour(
        "tokens_per_second",
        "new tokens ÷ time: the prompt does not count",
        _PLAIN,
        _on(_throughput),
        (
            "Which tokens were produced?",
            "len(sequence) - len(prompt) of them; the prompt was given.",
            "tokens += len(sequence) - len(prompt), over the same runs as the time.",
        ),
    ),
    Behaviour(
        "tokens_really_produced",
        "a text that ends early counts with its own length, not with max_new_tokens",
        tuple(Setting((case,)) for case in _ENDING),
        _on(_throughput),
        (
            "How many tokens come where the end token comes first?",
            "Fewer than max_new_tokens. Both decoders stop by the same rule.",
            "Count len(sequence) - len(prompt) in every decode.",
        ),
    ),
    Behaviour(
        "acceptance",
        "the acceptance rate is the mean over prompts",
        (Setting((_ONE,)), Setting(_TWO, 0, 2)),
        _on(_acceptance),
        (
            "Does `speculative_decode` return a rate that you drop?",
            "Each decode returns the rate of its prompt; take the mean over prompts.",
            "mean_acceptance_rate = sum(rates) / len(rates).",
        ),
    ),
    Behaviour(
        "prompts_left_alone",
        "the caller's prompts are as they were",
        (Setting((_ONE,)), Setting(_TWO)),
        _on(_prompts_alone),
        (
            "Is the second run given the same prompt as the first?",
            "A decoder that grows the caller's list makes each run longer.",
            "Hand over list(prompt).",
        ),
    ),
)  # fmt: skip
