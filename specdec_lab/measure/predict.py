"""How fast a run will be, said before it runs; and afterwards, where the difference came from.

The cost model is the loop itself: rounds × (drafting + verifying + overhead), reading the prompt on top. How many rounds
of which kind there will be is `generation.rounds_by_drafts`; what each costs is the profile's. Nothing is fitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .cost_profile import CostProfile
from .generation import rounds_by_drafts
from .theory import break_even_alpha, break_even_cost_ratio, expected_tokens_per_round

if TYPE_CHECKING:
    from .interleave import Timing

PARTS = ("draft", "verify", "overhead")


@dataclass(frozen=True)
class Prediction:
    """What a run will take. Made by `predict`.

    Attributes:
        gamma, new_tokens, prompt_tokens: of the run.
        plain_seconds: plain decoding of the same tokens.
        rounds: expected number of rounds that draft 0, 1, …, γ tokens.
        seconds: "draft", "verify", "overhead" → seconds of the speculative run; reading the prompt is in the first two.
    """

    gamma: int
    new_tokens: int
    prompt_tokens: int
    plain_seconds: float
    rounds: tuple[float, ...]
    seconds: Mapping[str, float]

    @property
    def speculative_seconds(self) -> float:
        """All parts together."""
        return sum(self.seconds.values())

    @property
    def speedup(self) -> float:
        """Plain ÷ speculative seconds."""
        return self.plain_seconds / self.speculative_seconds

    @property
    def tokens_per_round(self) -> float:
        """τ."""
        return self.new_tokens / sum(self.rounds)


def predict(
    profile: CostProfile,
    alpha: float | Sequence[float],
    gamma: int,
    *,
    new_tokens: int = 96,
    prompt_tokens: int = 32,
) -> Prediction:
    """Predict a run from what passes cost and how often drafts are accepted. Taught in notebook 06.

    Args:
        profile: of the pair on the machine in question.
        alpha: chance that a drafted token is accepted once all before it were; or one for each position of a round
            (`Trace.acceptance_by_position`). An α from the predicted run itself makes this a test of the cost model;
            one from *other* prompts makes it a prediction. Say which.
        gamma: 0…`profile.largest_gamma`.
        new_tokens, prompt_tokens: 1 or more.

    Raises:
        ValueError, TypeError: outside these bounds.

    Example:
        >>> predict(profile, alpha=0.6, gamma=4).speedup  # doctest: +SKIP
    """
    rounds = rounds_by_drafts(new_tokens, alpha, gamma)
    seconds = _seconds(profile, dict(enumerate(rounds)), prompt_tokens, new_tokens)
    return Prediction(
        gamma,
        new_tokens,
        prompt_tokens,
        sum(_seconds(profile, {0: new_tokens}, prompt_tokens, new_tokens).values()),
        tuple(rounds),
        seconds,
    )


@dataclass(frozen=True)
class Difference:
    """Measured - predicted seconds of speculative runs, in parts that add up to it exactly. Made by `difference`.

    Attributes:
        measured, predicted: seconds of all runs together.
        draft, verify, overhead: what passes and the rest took beyond the profile, for the rounds that really happened.
        independence: what the rounds that happened cost beyond those expected from α: departure from independent
            verdicts, and chance.
    """

    measured: float
    predicted: float
    draft: float
    verify: float
    overhead: float
    independence: float

    def parts(self) -> dict[str, float]:
        """Name → share of the predicted seconds."""
        names = (*PARTS, "independence")
        return {name: getattr(self, name) / self.predicted for name in names}


def difference(
    profile: CostProfile, alpha: float | Sequence[float], gamma: int, runs: Iterable[Timing]
) -> Difference:
    """Split measured - predicted time of speculative runs into draft, verify, overhead and independence.

    Args:
        profile, alpha, gamma: as in `predict`.
        runs: timed speculative runs at this γ, none of which met an end token.

    Raises:
        ValueError: no runs. Taught in notebook 06.
    """
    measured = predicted = independence = 0.0
    beyond = dict.fromkeys(PARTS, 0.0)
    count = 0
    for run in runs:
        count += 1
        trace = run.trace
        lengths = (len(trace.prompt), len(trace.new_tokens))
        expected = predict(profile, alpha, gamma, new_tokens=lengths[1], prompt_tokens=lengths[0])
        happened = _seconds(profile, Counter(len(item.drafted) for item in trace.rounds), *lengths)
        drafting = sum(item.seconds_drafting for item in trace.rounds)
        verifying = sum(item.seconds_verifying for item in trace.rounds)
        real = {"draft": drafting, "verify": verifying, "overhead": run.seconds - drafting - verifying}
        for part in PARTS:
            beyond[part] += real[part] - happened[part]
        measured += run.seconds
        predicted += expected.speculative_seconds
        independence += sum(happened.values()) - expected.speculative_seconds
    if not count:
        raise ValueError("runs must hold at least one timed run, got none")
    return Difference(measured, predicted, **beyond, independence=independence)


def _seconds(
    profile: CostProfile, rounds: Mapping[int, float], prompt_tokens: int, new_tokens: int
) -> dict[str, float]:
    """Seconds of each part for so many rounds of each kind; the first of them reads the prompt as well."""
    middle = prompt_tokens + new_tokens / 2
    read_target, read_draft = profile.read_seconds(prompt_tokens)
    drafts = any(count and k for k, count in rounds.items())
    draft = sum(count * profile.draft_seconds(k, middle) for k, count in rounds.items() if count)
    verify = sum(count * profile.target_seconds(k + 1, middle) for k, count in rounds.items() if count)
    return {
        # the pass that reads the prompt takes the place of one that reads the pending token
        "draft": draft + (read_draft - profile.draft_seconds(1, prompt_tokens) if drafts else 0.0),
        "verify": verify + read_target - profile.target_seconds(1, prompt_tokens),
        "overhead": sum(rounds.values()) * profile.overhead_seconds(),
    }


def explain(
    profile: CostProfile,
    alpha: float,
    gamma: int | None = None,
    *,
    new_tokens: int = 96,
    prompt_tokens: int = 32,
) -> str:
    """The diagnosis in sentences: what the draft and the verification cost, which γ pays, what would have to change.

    Args:
        profile: of the pair.
        alpha: one chance.
        gamma: the γ in use, or None: the best.
        new_tokens, prompt_tokens: of the runs in question.

    Returns:
        A few sentences. Taught in notebook 06.
    """
    middle = prompt_tokens + new_tokens / 2
    c, largest = profile.cost_ratio(middle), profile.largest_gamma

    def v(tokens: int) -> float:
        return profile.verify_cost(tokens, middle)

    def run(gamma: int, costs: CostProfile = profile) -> Prediction:
        return predict(costs, alpha, gamma, new_tokens=new_tokens, prompt_tokens=prompt_tokens)

    def gain(gamma: int, costs: CostProfile = profile) -> float:
        return run(gamma, costs).speedup

    best = max(range(largest + 1), key=lambda g: (gain(g), -g))
    shown = gamma or best or min(4, largest)
    sentences = [
        f"A draft pass costs {c:.2f} of a target pass, and verifying {shown + 1} tokens {v(shown + 1):.2f} of one.",
        f"At α = {alpha:.2f} and γ = {shown} a round brings {expected_tokens_per_round(alpha, shown):.2f} tokens and "
        f"takes {shown * c + v(shown + 1):.2f} target passes.",
    ]
    if best:
        sentences.append(f"The best γ is {best}: {gain(best):.2f} times as fast as plain decoding.")
        if gamma and gamma != best:
            verb = "gains" if gain(gamma) > 1 else "loses"
            sentences.append(f"γ = {gamma} {verb}: {gain(gamma):.2f}.")
        sentences.append(f"Of the time of γ = {shown}, {_share(run(shown))}.")
    else:
        sentences.append(
            f"No γ from 1 to {largest} pays: γ = {shown} would run at {gain(shown):.2f} of plain speed."
        )
    needed, cheaper = break_even_alpha(None, c, v, largest), break_even_cost_ratio(alpha, None, v, largest)
    if not best:
        sentences.append(
            f"At this cost some γ pays from α = {needed:.2f} on."
            if needed is not None
            else "At this cost no α pays."
        )
        sentences.append(
            f"At this α a draft under {cheaper:.2f} of a target pass would pay."
            if cheaper and cheaper >= 0.01
            else "At this α even a free draft would bring next to nothing: verification alone costs as much as it saves, or more."
        )
    else:
        without_draft, without_verifying = _free_draft(profile), _free_verification(profile)
        sentences.append(
            f"With a free draft {max(gain(g, without_draft) for g in range(largest + 1)):.2f} would be possible, at the γ "
            f"that is best then, and with free verification {gain(shown, without_verifying):.2f} at γ = {shown}."
        )
    return " ".join(sentences)


def _free_draft(profile: CostProfile) -> CostProfile:
    """The same pair, if drafting took no time."""
    at = (
        replace(costs, draft={k: (0.0,) * len(turns) for k, turns in costs.draft.items()}, read_draft=(0.0,))
        for costs in profile.at
    )
    return replace(profile, at=tuple(at))


def _free_verification(profile: CostProfile) -> CostProfile:
    """The same pair, if a target pass over several tokens took as long as one over one."""
    at = (
        replace(
            costs,
            target=replace(costs.target, seconds=dict.fromkeys(costs.target, costs.target.seconds[1])),
        )
        for costs in profile.at
    )
    return replace(profile, at=tuple(at))


def _share(prediction: Prediction) -> str:
    total = prediction.speculative_seconds
    words = {"draft": "goes into drafting", "verify": "into verifying", "overhead": "into the loop itself"}
    parts = [f"{100 * prediction.seconds[part] / total:.0f} % {words[part]}" for part in PARTS]
    return f"{parts[0]}, {parts[1]} and {parts[2]}"
