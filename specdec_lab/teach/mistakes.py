"""Mistakes of public benchmarks, each as a function from recorded decodes to the headline that it would print.

The decodes are recorded once, with their times; a mistake only counts them in another way, or looks at a leg that should
not have been compared. What is right is in `HEADLINES`, and in full in `specdec_lab.measure.benchmark`.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specdec_lab.decoding.checks import check_count, check_end_tokens
from specdec_lab.decoding.drafters import NoDrafter
from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.decoding.rounds import PLAIN, Round
from specdec_lab.decoding.session import Session
from specdec_lab.measure.interleave import Decoder, Timing, check_prompts, take_turns, timed
from specdec_lab.measure.pass_times import ratio
from specdec_lab.models.protocol import as_model, keeps_logits, model_device

SPECULATIVE, AUTOREGRESSIVE = "speculative", "autoregressive"
UNCACHED, REMEMBERED = "uncached", "remembered"

# ---------------------------------------------------------------- what is recorded


@dataclass(frozen=True)
class Recorded:
    """Every decode of a benchmark that took turns. Made by `record_legs`.

    Attributes:
        legs: name → runs → one `Timing` for each prompt. The first run is the warm-up.
        gamma, max_new_tokens: as they were asked for.
    """

    legs: Mapping[str, list[list[Timing]]]
    gamma: int
    max_new_tokens: int

    def decodes(self, leg: str) -> list[Timing]:
        """All decodes of a leg behind the warm-up."""
        return [timing for run in self.legs[leg][1:] for timing in run]

    def seconds(self, leg: str) -> float:
        """Their time."""
        return sum(timing.seconds for timing in self.decodes(leg))

    def new_tokens(self, leg: str) -> int:
        """The tokens that they produced."""
        return sum(len(timing.trace.new_tokens) for timing in self.decodes(leg))


def record_legs(
    target_model: Any,
    draft_model: Any,
    prompts: Sequence[Any],
    max_new_tokens: int,
    gamma: int,
    eos_token_id: Any,
    *,
    num_runs: int = 2,
) -> Recorded:
    """Decode every prompt in four ways that take turns, plain decoding first. Taught in notebook 05.

    The legs are "autoregressive" and "speculative" as `benchmark_decoding` has them; "uncached", plain decoding that
    reads the whole text for every token; and "remembered", speculative decoding on models that keep what they have
    read from run to run (`Remembering`).

    Args:
        target_model, draft_model, prompts, max_new_tokens, gamma, eos_token_id: as in `benchmark_decoding`.
        num_runs: timed runs, 1 or more; one more comes before them.

    Raises:
        ValueError, TypeError: bad input, before any pass.
    """
    num_runs, gamma = check_count(num_runs, "num_runs"), check_count(gamma, "gamma")
    max_new_tokens = check_count(max_new_tokens, "max_new_tokens")
    end_tokens = check_end_tokens(eos_token_id)
    target, draft = as_model(target_model, "target_model"), as_model(draft_model, "draft_model")
    prompts = check_prompts(prompts, target, max_new_tokens)

    def decoder(target: Any, drafter: Any) -> Decoder:
        return lambda prompt: speculative_rounds(
            target, drafter, prompt, max_new_tokens=max_new_tokens, gamma=gamma, eos_token_id=end_tokens
        )

    legs = take_turns(
        {
            AUTOREGRESSIVE: decoder(target, NoDrafter()),
            SPECULATIVE: decoder(target, draft),
            UNCACHED: lambda prompt: uncached_rounds(target, prompt, max_new_tokens, end_tokens),
            REMEMBERED: decoder(Remembering(target), Remembering(draft)),
        },
        prompts,
        warmup_runs=0,
        num_runs=1 + num_runs,
        devices={model_device(target), model_device(draft)},
    )
    return Recorded(legs, gamma, max_new_tokens)


def uncached_rounds(
    target_model: Any, prompt: list[int], max_new_tokens: int, end_tokens: frozenset[int]
) -> Iterator[Round]:
    """Plain decoding as it should not be compared with: every pass reads the whole text again."""
    sequence = list(prompt)
    for _ in range(max_new_tokens):
        token = int(Session(target_model).feed(sequence, rows=1)[0].argmax())
        yield Round((), (), (), (token,), PLAIN, 0, len(sequence), None, None, 0.0, 0.0)
        sequence.append(token)
        if token in end_tokens:
            return


class Remembering:
    """A model with a prefix cache, as servers have: of a text that begins as an earlier one, only the rest is read.

    Args:
        model: anything that `as_model` takes. What it has read stays in memory as long as this object.
    """

    def __init__(self, model: Any) -> None:
        self.model = as_model(model)
        self._read: list[tuple[list[int], Any]] = []

    def forward(
        self,
        input_ids: torch.Tensor,
        use_cache: bool = True,
        past_key_values: Any = None,
        logits_to_keep: int = 0,
    ):
        """As the model's own. Rows of logits that are asked for are always computed."""
        rows = logits_to_keep or input_ids.shape[1]
        more = {"logits_to_keep": rows} if keeps_logits(self.model) else {}
        if past_key_values is not None:
            return self.model.forward(input_ids, use_cache=True, past_key_values=past_key_values, **more)
        tokens = input_ids[0].tolist()
        known, cache = max(
            ((_common(tokens, read), cache) for read, cache in self._read),
            key=lambda found: found[0],
            default=(0, None),
        )
        keep = min(known, len(tokens) - rows)
        if keep > 0:
            cache = copy.deepcopy(cache)
            cut = self.model.truncate_cache(cache, keep)
            cache = cache if cut is None else cut
        else:
            keep, cache = 0, None
        output = self.model.forward(input_ids[:, keep:], use_cache=True, past_key_values=cache, **more)
        if known < len(tokens):
            self._read.append((tokens, copy.deepcopy(output.past_key_values)))
        return output

    def truncate_cache(self, past_key_values: Any, valid_length: int) -> Any:
        """The model's own."""
        return self.model.truncate_cache(past_key_values, valid_length)


def _common(one: list[int], other: list[int]) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def in_order(
    contenders: Mapping[str, Decoder], prompt: list[int], order: Sequence[str]
) -> list[tuple[str, Timing]]:
    """One decode of `prompt` after another, in the order of the names. On the CPU. Taught in notebook 05."""
    return [(name, timed(prompt, contenders[name], set())) for name in order]


# ---------------------------------------------------------------- headlines as they should be


def speedup(recorded: Recorded) -> float:
    """Total plain time ÷ total speculative time."""
    return ratio(recorded.seconds(AUTOREGRESSIVE), recorded.seconds(SPECULATIVE))


def tokens_per_second(recorded: Recorded) -> float:
    """New tokens ÷ time from before the prompt to the last token, speculative decoding."""
    return ratio(recorded.new_tokens(SPECULATIVE), recorded.seconds(SPECULATIVE))


def decoded_per_second(recorded: Recorded) -> float:
    """Tokens behind the first round ÷ time behind it, speculative decoding: free of prefill."""
    decodes = recorded.decodes(SPECULATIVE)
    tokens = sum(len(t.trace.new_tokens) - len(t.trace.rounds[0].emitted) for t in decodes)
    return ratio(tokens, sum(t.seconds - t.seconds_to_first_token for t in decodes))


def acceptance_rate(recorded: Recorded) -> float:
    """Accepted ÷ drafted tokens, all prompts together."""
    traces = [timing.trace for timing in recorded.decodes(SPECULATIVE)]
    return ratio(sum(t.accepted for t in traces), sum(t.drafted for t in traces))


HEADLINES: dict[str, Callable[[Recorded], float]] = {
    "speed-up": speedup,
    "tokens per second": tokens_per_second,
    "decoded tokens per second": decoded_per_second,
    "acceptance rate": acceptance_rate,
}

# ---------------------------------------------------------------- and as they are told


def first_run(recorded: Recorded) -> float:
    """Speed-up of the run that should have been the warm-up. Whoever comes first pays for both."""
    plain, fast = (
        sum(timing.seconds for timing in recorded.legs[leg][0]) for leg in (AUTOREGRESSIVE, SPECULATIVE)
    )
    return ratio(plain, fast)


def prefill_in_the_decode_rate(recorded: Recorded) -> float:
    """All new tokens ÷ all time, prompt included, and called the speed of decoding."""
    return tokens_per_second(recorded)


def tokens_past_the_end(recorded: Recorded) -> float:
    """`max_new_tokens` ÷ time, though the text ended earlier."""
    decodes = recorded.decodes(SPECULATIVE)
    return ratio(recorded.max_new_tokens * len(decodes), recorded.seconds(SPECULATIVE))


def uncached_baseline(recorded: Recorded) -> float:
    """Speed-up over plain decoding without a cache."""
    return ratio(recorded.seconds(UNCACHED), recorded.seconds(SPECULATIVE))


def mean_of_ratios(recorded: Recorded) -> float:
    """Mean over prompts of plain ÷ speculative time: a short prompt counts as much as a long one."""
    pairs = zip(recorded.decodes(AUTOREGRESSIVE), recorded.decodes(SPECULATIVE), strict=True)
    return statistics.fmean(ratio(plain.seconds, fast.seconds) for plain, fast in pairs)


def ratio_of_mean_rates(recorded: Recorded) -> float:
    """Mean over prompts of tokens per second, speculative ÷ plain: another weighting, another number."""
    fast, plain = (
        statistics.fmean(ratio(len(t.trace.new_tokens), t.seconds) for t in recorded.decodes(leg))
        for leg in (SPECULATIVE, AUTOREGRESSIVE)
    )
    return ratio(fast, plain)


def same_prompt_twice(recorded: Recorded) -> float:
    """Speed-up where speculative decoding finds the prompt already read, because plain decoding read it before."""
    return ratio(recorded.seconds(AUTOREGRESSIVE), recorded.seconds(REMEMBERED))


def gamma_times_rounds(recorded: Recorded) -> float:
    """Accepted ÷ (γ × rounds), as if every round had drafted γ tokens."""
    traces = [timing.trace for timing in recorded.decodes(SPECULATIVE)]
    return ratio(sum(t.accepted for t in traces), recorded.gamma * sum(len(t.rounds) for t in traces))


@dataclass(frozen=True)
class Mistake:
    """One mistake.

    Attributes:
        name: what it is called in the lesson.
        headline: the key of `HEADLINES` that it gets wrong.
        told: the headline with the mistake in it.
        reports: public places where it was made, asked about, found or mended, as owner/name number.
    """

    name: str
    headline: str
    told: Callable[[Recorded], float]
    reports: tuple[str, ...]

    def honest(self, recorded: Recorded) -> float:
        """The same headline without the mistake."""
        return HEADLINES[self.headline](recorded)


MISTAKES: dict[str, Mistake] = {
    mistake.name: mistake
    for mistake in (
        Mistake("cold first run", "speed-up", first_run, ("samyama-ai/samyama-graph 752",)),
        Mistake(
            "prefill inside a decode rate",
            "decoded tokens per second",
            prefill_in_the_decode_rate,
            ("raullenchai/Rapid-MLX PR 1979", "lablup/mlxcel PR 1460"),
        ),
        Mistake(
            "tokens past the end token",
            "tokens per second",
            tokens_past_the_end,
            ("mlcommons/inference 1545", "huggingface/optimum-habana PR 1070"),
        ),
        Mistake(
            "uncached baseline",
            "speed-up",
            uncached_baseline,
            ("romsto/Speculative-Decoding 4", "SafeAILab/EAGLE 59"),
        ),
        Mistake("mean of ratios", "speed-up", mean_of_ratios, ()),
        Mistake(
            "same prompt twice",
            "speed-up",
            same_prompt_twice,
            ("vllm-project/vllm PR 10753", "vllm-project/vllm 54227"),
        ),
        Mistake(
            "accepted ÷ (γ × rounds)",
            "acceptance rate",
            gamma_times_rounds,
            ("NVIDIA/TensorRT-LLM PR 14724", "vllm-project/vllm PR 44054"),
        ),
    )
}


def headlines(recorded: Recorded) -> dict[str, tuple[float, float]]:
    """Name of each mistake → (honest headline, as told). Taught in notebook 05."""
    return {name: (m.honest(recorded), m.told(recorded)) for name, m in MISTAKES.items()}
