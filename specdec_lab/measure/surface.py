"""Speed-up over α and γ, measured with the dial, beside what the cost model and the textbook say of it.

The dial drafts the target's own text and errs with chance 1 - α while the real draft's passes are paid for, so α is
known and everything else is real. The costs are measured first, in the same process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .cost_profile import CostProfile
from .predict import predict
from .profile import measure_costs
from .sweep import summarise, sweep
from .theory import speedup

if TYPE_CHECKING:
    import pandas as pd


def measure_surface(
    target_model: Any,
    draft_model: Any,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    *,
    alphas: Iterable[float],
    gammas: Iterable[int],
    runs: int = 2,
    cost_runs: int = 15,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[pd.DataFrame, CostProfile]:
    """Measure the surface and the costs that should explain it. Taught in notebook 06.

    Args:
        target_model, draft_model, prompts: as in `sweep`; the draft is a model.
        new_tokens: of each run.
        alphas, gammas: the settings; every pair of them is one contender.
        runs, cost_runs: timed runs of the surface, and turns of the costs; one more of each warms up.
        progress: called with (decodes done, decodes in all).

    Returns:
        What `summarise` returns, with two more columns, and the profile. `predicted` is the cost model's speed-up and
        `textbook` the formula's with v = 1; both take α as it turned out in the very run, so they test costs alone.

    Raises:
        ValueError, TypeError: bad input.

    Example:
        >>> surface, profile = measure_surface(  # doctest: +SKIP
        ...     pair.target, pair.draft, pair.prompt_ids[:1], 32, alphas=[0.3, 0.9], gammas=[1, 4]
        ... )
    """
    gammas, prompts = list(gammas), [list(prompt) for prompt in prompts]
    lengths = [len(prompt) for prompt in prompts]
    profile = measure_costs(
        target_model,
        draft_model,
        largest_gamma=max(gammas),
        contexts=sorted({max(2, min(lengths)), min(lengths) + new_tokens // 2, max(lengths) + new_tokens}),
        runs=cost_runs,
    )
    frame = sweep(
        target_model,
        draft_model,
        prompts,
        new_tokens,
        gammas,
        None,
        alphas=alphas,
        warmup_runs=1,
        num_runs=runs,
        progress=progress,
    )
    surface = summarise(frame)
    mean = round(sum(lengths) / len(lengths))
    c = profile.cost_ratio(mean + new_tokens / 2)
    predicted, textbook = [], []
    for row in surface.itertuples():
        alpha = row.alpha if row.gamma else 0.0
        said = predict(profile, alpha, row.gamma, new_tokens=new_tokens, prompt_tokens=mean)
        predicted.append(said.speedup)
        textbook.append(speedup(alpha, row.gamma, c))
    return surface.assign(predicted=predicted, textbook=textbook), profile
