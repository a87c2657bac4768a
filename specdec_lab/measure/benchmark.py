"""Speculative against plain decoding on the same prompts, timed so that the ratio can be believed.

Both legs run the same loop with the same stop rule and the same kind of cache, one after the other on each
prompt, in an order that alternates. It measures; it does not explain (`theory`, and later `predict`, do).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from specdec_lab.decoding.checks import check_count, check_end_tokens
from specdec_lab.decoding.drafters import NoDrafter, is_drafter
from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.models.protocol import as_model, model_device

from .environment import stamp
from .exactness import first_difference, first_divergence
from .interleave import Timing, check_prompts, prepare, take_turns
from .pass_times import ratio
from .theory import estimate_alpha


def benchmark_decoding(
    target_model: Any,
    draft_model: Any,
    prompts: Sequence[Any],
    max_new_tokens: int,
    gamma: int,
    eos_token_id: Any,
    warmup_runs: int = 2,
    num_runs: int = 5,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Time `speculative_decode` against `autoregressive_decode`. Taught in notebook 05.

    A run decodes every prompt with both decoders, one straight after the other, the order alternating, so
    that a drifting machine hurts both alike. The accelerator is synchronised just before each start and
    stop reading and never in between. No cache outlives a decode.

    Args:
        target_model, max_new_tokens, gamma, eos_token_id: as in `speculative_decode`.
        draft_model: a model, or any `Drafter`.
        prompts: a non-empty sequence of prompts, each a list, tuple or 1-D tensor of ids.
        warmup_runs: untimed runs first, of both decoders (0 or more).
        num_runs: timed runs (1 or more).
        progress: called with (decodes done, decodes in all) after each prompt, warm-up included.

    Returns a dict. Times are in seconds. "Latency" is for one prompt in one run, from before the prompt is
    processed to after the last token. New tokens are those really produced, the prompt excluded.

        mean_latency_speculative, mean_latency_autoregressive   mean over prompts and runs
        speedup                     total autoregressive ÷ total speculative time
        mean_acceptance_rate        mean over prompts of accepted ÷ drafted
        tokens_per_second_speculative, tokens_per_second_autoregressive   new tokens ÷ time, prefill included

        acceptance_rate_pooled      accepted ÷ drafted over all prompts together
        alpha                       accepted ÷ judged (`estimate_alpha`); the one to feed to formulas
        tokens_per_round            τ, new tokens ÷ rounds
        run_times_speculative, run_times_autoregressive   total of each run, in order
        speedup_per_run             their ratio run by run: the spread
        median_latency_speculative, median_latency_autoregressive   median over prompts and runs
        speedup_of_medians          median run ÷ median run
        speedup_per_token           ratio of seconds per new token; the honest one if lengths differ
        mean_time_to_first_token_*  from the start until the first round is done (prefill + one verification)
        largest_gap_*               longest wait between one new token and the next
        gap_variation_*             standard deviation ÷ mean of those waits: near 0 when tokens trickle, above 1
                                    when they come in bursts, as whole rounds do
        decode_tokens_per_second_*  prefill-free: tokens after the first round ÷ time after it
        new_tokens_*, rounds, drafted_tokens, accepted_tokens, rejected_tokens   of one run over all prompts
        outputs_match               whether both decoders gave the same tokens on every prompt and run
        first_divergence            for each prompt the index of the first differing new token, or None
        divergences                 a sentence for each prompt that differs: where, the gap of the logits, and whether
                                    rounding explains it (`exactness.first_divergence`)
        gamma, max_new_tokens, prompts, warmup_runs, num_runs, device, dtype, threads, versions, machine

    A clock that did not move gives NaN.

    Raises:
        ValueError, TypeError: bad input, before any pass.

    Example:
        >>> result = benchmark_decoding(
        ...     pair.target, pair.draft, pair.prompt_ids[:4], 64, 4, None
        ... )  # doctest: +SKIP
        >>> result["outputs_match"], result["speedup"]  # doctest: +SKIP
    """
    warmup_runs = check_count(warmup_runs, "warmup_runs", least=0)
    num_runs = check_count(num_runs, "num_runs")
    gamma = check_count(gamma, "gamma")
    max_new_tokens = check_count(max_new_tokens, "max_new_tokens")
    end_tokens = check_end_tokens(eos_token_id)
    target = as_model(target_model, "target_model")
    draft = draft_model if is_drafter(draft_model) else as_model(draft_model, "draft_model")
    prompts = check_prompts(prompts, target, max_new_tokens)

    prepare(draft, prompts, max_new_tokens)

    def decoder(drafter: Any):
        return lambda prompt: speculative_rounds(
            target, drafter, prompt, max_new_tokens=max_new_tokens, gamma=gamma, eos_token_id=end_tokens
        )

    timings = take_turns(
        {"speculative": decoder(draft), "autoregressive": decoder(NoDrafter())},
        prompts,
        warmup_runs=warmup_runs,
        num_runs=num_runs,
        devices={model_device(target), model_device(draft)},
        progress=progress,
    )
    result = _summary(timings["speculative"], timings["autoregressive"])
    result["divergences"] = [
        f"prompts[{i}], "
        f"{first_divergence(target, prompt, ours.trace.new_tokens, plain.trace.new_tokens, gamma=gamma)}"
        for i, (prompt, ours, plain) in enumerate(
            zip(prompts, timings["speculative"][0], timings["autoregressive"][0], strict=True)
        )
        if result["first_divergence"][i] is not None
    ]
    result.update(
        gamma=gamma,
        max_new_tokens=max_new_tokens,
        prompts=len(prompts),
        warmup_runs=warmup_runs,
        num_runs=num_runs,
        **stamp(target),
    )
    return result


def _summary(speculative: list[list[Timing]], autoregressive: list[list[Timing]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    totals = {}
    for leg, runs in (("speculative", speculative), ("autoregressive", autoregressive)):
        every = [timing for run in runs for timing in run]
        seconds = sum(t.seconds for t in every)
        tokens = sum(len(t.trace.new_tokens) for t in every)
        later_tokens = sum(len(t.trace.new_tokens) - len(t.trace.rounds[0].emitted) for t in every)
        later_seconds = sum(t.seconds - t.seconds_to_first_token for t in every)
        totals[leg] = seconds, tokens
        result[f"mean_latency_{leg}"] = seconds / len(every)
        result[f"median_latency_{leg}"] = statistics.median(t.seconds for t in every)
        result[f"tokens_per_second_{leg}"] = ratio(tokens, seconds)
        result[f"decode_tokens_per_second_{leg}"] = ratio(later_tokens, later_seconds)
        result[f"mean_time_to_first_token_{leg}"] = statistics.fmean(t.seconds_to_first_token for t in every)
        gaps = [gap for t in every for gap in t.gaps]
        result[f"largest_gap_{leg}"] = max(gaps, default=float("nan"))
        result[f"gap_variation_{leg}"] = (
            ratio(statistics.pstdev(gaps), statistics.fmean(gaps)) if gaps else float("nan")
        )
        result[f"run_times_{leg}"] = [sum(t.seconds for t in run) for run in runs]
        result[f"new_tokens_{leg}"] = sum(len(t.trace.new_tokens) for t in runs[0])

    (fast, fast_tokens), (plain, plain_tokens) = totals["speculative"], totals["autoregressive"]
    run_pairs = list(zip(result["run_times_autoregressive"], result["run_times_speculative"], strict=True))
    traces = [timing.trace for timing in speculative[0]]
    drafted, accepted = sum(t.drafted for t in traces), sum(t.accepted for t in traces)
    rejected, rounds = sum(t.rejected for t in traces), sum(len(t.rounds) for t in traces)
    divergences = [
        first_difference(ours.trace.new_tokens, plainly.trace.new_tokens)
        for ours, plainly in zip(speculative[0], autoregressive[0], strict=True)
    ]
    result.update(
        speedup=ratio(plain, fast),
        speedup_per_run=[ratio(a, b) for a, b in run_pairs],
        speedup_of_medians=ratio(
            statistics.median(result["run_times_autoregressive"]),
            statistics.median(result["run_times_speculative"]),
        ),
        speedup_per_token=ratio(ratio(plain, plain_tokens), ratio(fast, fast_tokens)),
        mean_acceptance_rate=statistics.fmean(t.acceptance_rate for t in traces),
        acceptance_rate_pooled=accepted / drafted if drafted else 0.0,
        alpha=estimate_alpha(accepted, rejected),
        tokens_per_round=ratio(result["new_tokens_speculative"], rounds),
        rounds=rounds,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        rejected_tokens=rejected,
        outputs_match=all(
            ours.trace.new_tokens == plainly.trace.new_tokens
            for a, b in zip(speculative, autoregressive, strict=True)
            for ours, plainly in zip(a, b, strict=True)
        ),
        first_divergence=divergences,
    )
    return result
