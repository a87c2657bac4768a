"""How acceptance and speed depend on γ, and on α where the dial sets it: one tidy table, measured in one go.

It measures; `show/plots.py` draws, and `python -m specdec_lab bench` is the same from the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from specdec_lab.decoding.checks import check_count, check_end_tokens, check_probability
from specdec_lab.decoding.dial import DialDrafter
from specdec_lab.decoding.drafters import NoDrafter, is_drafter
from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.models.protocol import as_model, model_device

from .environment import stamp
from .exactness import first_divergence
from .interleave import Timing, check_prompts, prepare, take_turns

if TYPE_CHECKING:
    import pandas as pd

PLAIN = "plain"


def sweep(
    target_model: Any,
    draft_model: Any,
    prompts: Sequence[Any],
    max_new_tokens: int,
    gammas: Iterable[int],
    eos_token_id: Any,
    *,
    alphas: Iterable[float] | None = None,
    seed: int = 0,
    warmup_runs: int = 1,
    num_runs: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Decode every prompt plainly and at every γ, taking turns, and keep every count and every time.

    With `alphas` the draft is replaced by the dial, once for each α: it errs as often as it is told, and pays
    the passes of `draft_model` while doing so (or nothing, if that is None). Taught in notebook 06.

    Args:
        target_model, max_new_tokens, eos_token_id: as in `speculative_decode`.
        draft_model: a model, a `Drafter`, or None with `alphas`.
        prompts: as in `benchmark_decoding`.
        gammas: most tokens drafted in one round, each 1 or more.
        alphas: chances of acceptance for the dial, each in 0…1.
        seed: of the dial's errors.
        warmup_runs, num_runs, progress: as in `benchmark_decoding`.

    Returns:
        A pandas DataFrame, one row for each decode of a prompt (decoder × run × prompt):

        decoder              "plain", "gamma=4" or "gamma=4 alpha=0.8"
        gamma, dial          γ (0 for plain); the α that the dial was set to, missing where there was none
        run, prompt          numbers, from 0
        seconds, seconds_to_first_token     wall time, prompt processing included
        prompt_tokens, new_tokens, rounds, drafted, accepted, rejected      counts
        acceptance_rate, alpha, tokens_per_round                            as `Trace` has them
        same_as_plain        whether the tokens equal those of plain decoding in the same run
        near_tie, divergence where they do not: whether rounding explains it, and a sentence with the place and
                             the gap (`exactness.first_divergence`)
        device, dtype, threads, machine, python, specdec_lab, torch, transformers   the environment

    Raises:
        ValueError, TypeError: bad input, before any pass. ImportError: pandas is not installed.

    Example:
        >>> frame = sweep(
        ...     pair.target, pair.draft, pair.prompt_ids[:4], 64, [1, 2, 4, 8], None
        ... )  # doctest: +SKIP
        >>> summarise(frame)[["decoder", "speedup", "alpha"]]  # doctest: +SKIP
    """
    import pandas as pd

    gammas = _once("gammas", [check_count(gamma, "gammas") for gamma in gammas])
    settings = None if alphas is None else _once("alphas", [check_probability(a, "alphas") for a in alphas])
    warmup_runs = check_count(warmup_runs, "warmup_runs", least=0)
    num_runs = check_count(num_runs, "num_runs")
    max_new_tokens = check_count(max_new_tokens, "max_new_tokens")
    end_tokens = check_end_tokens(eos_token_id)
    target = as_model(target_model, "target_model")
    prompts = check_prompts(prompts, target, max_new_tokens)
    draft = _draft(draft_model, settings)

    dials = {None: draft}
    if settings is not None:
        dials = {
            alpha: DialDrafter(target, alpha, seed=seed, draft_model=draft, eos_token_id=end_tokens)
            for alpha in settings
        }
    for drafter in dials.values():
        prepare(drafter, prompts, max_new_tokens)

    def decoder(drafter: Any, gamma: int):
        return lambda prompt: speculative_rounds(
            target, drafter, prompt, max_new_tokens=max_new_tokens, gamma=gamma, eos_token_id=end_tokens
        )

    labels: dict[str, tuple[int, float | None]] = {PLAIN: (0, None)}
    contenders = {PLAIN: decoder(NoDrafter(), 1)}
    for alpha, drafter in dials.items():
        for gamma in gammas:
            name = f"gamma={gamma}" + ("" if alpha is None else f" alpha={alpha:.12g}")
            labels[name], contenders[name] = (gamma, alpha), decoder(drafter, gamma)

    devices = {model_device(target)} | ({model_device(draft)} if draft is not None else set())
    timings = take_turns(
        contenders,
        prompts,
        warmup_runs=warmup_runs,
        num_runs=num_runs,
        devices=devices,
        progress=progress,
    )
    environment = stamp(target)
    environment |= environment.pop("versions")
    rows = []
    for name, runs in timings.items():
        for run, decodes in enumerate(runs):
            for number, timing in enumerate(decodes):
                plain = timings[PLAIN][run][number].trace.new_tokens
                gamma, dial = labels[name]
                parted = first_divergence(
                    target, prompts[number], timing.trace.new_tokens, plain, gamma=max(gamma, 1)
                )
                rows.append(
                    {"decoder": name, "gamma": gamma, "dial": dial, "run": run, "prompt": number}
                    | _row(timing)
                    | {
                        "same_as_plain": parted is None,
                        "near_tie": parted is not None and parted.near_tie,
                        "divergence": "" if parted is None else str(parted),
                    }
                    | environment
                )
    frame = pd.DataFrame(rows)
    return frame.astype({"dial": float})


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each decoder of a `sweep`, in its order: speed-up with its spread, and pooled counts.

    `speedup` is plain ÷ speculative time, each the median over runs of the total over prompts;
    `speedup_low` and `speedup_high` are the smallest and largest ratio of a single run. `acceptance_rate`,
    `alpha` and `tokens_per_round` pool the prompts of one run, which all runs repeat.
    """
    import pandas as pd

    totals = frame.groupby(["decoder", "run"], sort=False)["seconds"].sum().unstack("run")
    ratios = totals.loc[PLAIN] / totals
    first = frame[frame["run"] == 0]
    counts = first.groupby("decoder", sort=False)[
        ["new_tokens", "rounds", "drafted", "accepted", "rejected"]
    ].sum()
    judged = counts["accepted"] + counts["rejected"]
    labels = first.groupby("decoder", sort=False)[["gamma", "dial"]].first()
    summary = pd.DataFrame(
        {
            "gamma": labels["gamma"],
            "dial": labels["dial"],
            "speedup": totals.loc[PLAIN].median() / totals.median(axis=1),
            "speedup_low": ratios.min(axis=1),
            "speedup_high": ratios.max(axis=1),
            "seconds": totals.median(axis=1),
            **counts,
            "acceptance_rate": (counts["accepted"] / counts["drafted"]).where(counts["drafted"] > 0, 0.0),
            "alpha": counts["accepted"] / judged.where(judged > 0),
            "tokens_per_round": counts["new_tokens"] / counts["rounds"],
            "same_as_plain": frame.groupby("decoder", sort=False)["same_as_plain"].all(),
        }
    )
    return summary.loc[list(frame["decoder"].unique())].reset_index(names="decoder")


def _row(timing: Timing) -> dict[str, Any]:
    trace = timing.trace
    return {
        "seconds": timing.seconds,
        "seconds_to_first_token": timing.seconds_to_first_token,
        "prompt_tokens": len(trace.prompt),
        "new_tokens": len(trace.new_tokens),
        "rounds": len(trace.rounds),
        "drafted": trace.drafted,
        "accepted": trace.accepted,
        "rejected": trace.rejected,
        "acceptance_rate": trace.acceptance_rate,
        "alpha": trace.alpha,
        "tokens_per_round": trace.tokens_per_round,
    }


def _draft(draft_model: Any, alphas: list[float] | None) -> Any:
    if draft_model is None:
        if alphas is None:
            raise TypeError("draft_model must be a model or a Drafter; None is only for the dial (alphas)")
        return None
    if is_drafter(draft_model):
        if alphas is not None:
            raise TypeError(
                f"draft_model must be a model or None where the dial drafts (alphas), got {type(draft_model).__name__}"
            )
        return draft_model
    return as_model(draft_model, "draft_model")


def _once(argument: str, values: list) -> list:
    if not values:
        raise ValueError(f"{argument} must hold at least one value, got none")
    if len(set(values)) < len(values):
        raise ValueError(f"{argument} must not repeat a value, got {values}")
    return values
