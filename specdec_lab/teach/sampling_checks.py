"""Checks of a speculative sampler: each takes a function and returns None, or one sentence that says what is wrong.

No check counts anything. Each walks every path of draws and tosses on a tiny vocabulary, in float64, and compares
the exact law of what comes out with the target's own; so a bias of 1e-9 shows, and none can hide in luck. The sentence
names the input, what was expected and what came. A sampler that raises is one more sentence, never an error here;
one that never ends is only stopped where it calls a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from specdec_lab.decoding.chance import GeneratorChance
from specdec_lab.decoding.sampling import Sampling
from specdec_lab.models.scripted import scattered

from .sampling_audit import Case, P, Q, Sampler, Unlucky, answer, law_of

Check = Callable[[Sampler], str | None]

TOLERANCE = 1e-9
FILTERS = (Sampling(top_k=3), Sampling(top_p=0.6), Sampling(top_k=3, top_p=0.75))


def _unlike(seed: int, **more: Any) -> Case:
    """Two models of three tokens that depend on everything before, and differ."""
    return Case(
        scattered(3, seed), scattered(3, seed + 100), says="p and q that differ from place to place", **more
    )


# ---------------------------------------------------------------- the checks


def law_of_first_token(sampler: Sampler) -> str | None:
    """The first new token is drawn from p (F15, huggingface/transformers PR 28508)."""
    pairs = ((P, Q), (Q, P), ((0.5, 0.3, 0.2), (0.2, 0.3, 0.5)))
    return _wrong_law(sampler, (Case(p, q) for p, q in pairs), first=True)


def law_of_outputs(sampler: Sampler) -> str | None:
    """Whole outputs have the probability that the target gives them (F07, huggingface/transformers 32867)."""
    return _wrong_law(sampler, [_unlike(1), _unlike(2, gamma=2)])


def law_with_a_certain_draft(sampler: Sampler) -> str | None:
    """A draft that is sure of its guess is as good as any other (vllm-project/vllm PR 40651)."""
    return _wrong_law(sampler, [Case(q=(0.0, 1.0, 0.0)), Case(q=(1.0, 0.0, 0.0))])


def law_with_filters(sampler: Sampler) -> str | None:
    """Top-k and top-p apply to p, and to q in the accept test (F18, huggingface/transformers 47932)."""
    p, q = (0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.4, 0.3)
    return _wrong_law(sampler, (Case(p, q, 3, 1, sampling, vocabulary=4) for sampling in FILTERS))


def law_at_another_temperature(sampler: Sampler) -> str | None:
    """The temperature applies to p, and to q in the accept test (ohdearquant/lattice 388)."""
    return _wrong_law(sampler, (Case(sampling=Sampling(t)) for t in (0.5, 2.0)))


def law_with_end_tokens(sampler: Sampler) -> str | None:
    """Nothing follows an end token, whoever proposed it, and its probability is the target's (F01)."""
    return _wrong_law(sampler, [_unlike(3, ends=1), _unlike(4, gamma=2, ends=[0, 2])])


def bonus_law(sampler: Sampler) -> str | None:
    """The token behind a full acceptance is drawn from p in its own place (F26, openvinotoolkit/openvino.genai PR 379)."""
    rule = scattered(3, 5)
    case = Case(rule, rule, says="p and q that are equal, and differ from place to place", new_tokens=2)
    return _wrong_law(sampler, [case])


def acceptance_is_the_overlap(sampler: Sampler) -> str | None:
    """A guess is kept with probability Σ min(p, q), the most there is (F16, ml-explore/mlx-lm PR 1709)."""
    for p, q in (((0.5, 0.3, 0.2), (0.5, 0.3, 0.2)), (P, Q), (P, (0.2, 0.5, 0.3))):
        case, due = Case(p, q, new_tokens=2), sum(map(min, p, q))
        found, problem = law_of(sampler, case, of=lambda new, rate: (rate,))
        if problem:
            return problem
        got = sum(rate * probability for (rate,), probability in found.items())
        if abs(got - due) > TOLERANCE:
            return f"{case}: the first guess should be kept with probability {due:.4g}, got {got:.4g}."
    return None


def no_token_of_probability_0(sampler: Sampler) -> str | None:
    """What p or a filter excludes never comes out (F18)."""
    cases = [Case((0.0, 0.7, 0.3), Q), Case(sampling=Sampling(top_k=2)), Case(sampling=Sampling(top_p=0.6))]
    for case in cases:
        found, problem = law_of(sampler, case)
        if problem:
            return problem
        allowed = {token for new in case.truth() for token in new}
        for new in found:
            foreign = next((token for token in new if token not in allowed), None)
            if foreign is not None:
                return f"{case}: expected only {sorted(allowed)} to come out, got {foreign} in {list(new)}."
    return None


def greedy_at_temperature_0(sampler: Sampler) -> str | None:
    """Temperature 0, or nearly, is greedy decoding; nothing overflows (F13, vllm-project/vllm PR 27077)."""
    steep = ([80.0, -80.0, 79.0], [-80.0, 79.0, 80.0], [79.0, 80.0, 78.0])

    def rule(prefix: Sequence[int]) -> list[float]:
        return steep[(len(prefix) + prefix[-1]) % 3]

    def other(prefix: Sequence[int]) -> list[float]:
        return steep[len(prefix) % 3]

    says = "logits of up to ±80 that differ from place to place"
    cases = (Case(rule, other, 5, 2, Sampling(t), says=says) for t in (0.0, 1e-12, 1e-6))
    return _wrong_law(sampler, cases)


def equal_but_for_rounding(sampler: Sampler) -> str | None:
    """A rejection where nothing of p - q is positive still finds a token (F17, sgl-project/sglang 27618)."""
    uniform = tuple([1 / 25] * 25)  # rounded to float32 it is a little less
    says = "p and q that are uniform over 25 tokens, p in float32 and q in float64"
    case = Case(uniform, uniform, 3, 1, says=says, vocabulary=25, dtypes=(torch.float32, torch.float64))
    new, problem = answer(sampler, case, Unlucky())
    if problem:
        return problem
    if len(new) != 3 or not all(0 <= token < 25 for token in new):
        return f"{case}: expected 3 tokens, got {list(new)}."
    return None


def same_seed_same_tokens(sampler: Sampler) -> str | None:
    """A seed gives the same tokens again, another seed others; the global random state is left alone (F31)."""
    case, outputs = _unlike(6, new_tokens=24, gamma=2), []
    before = torch.random.get_rng_state()
    for seed in (7, 7, 8):
        new, problem = answer(sampler, case, GeneratorChance(torch.Generator().manual_seed(seed)))
        if problem:
            return problem
        outputs.append(list(new))
    if not torch.equal(before, torch.random.get_rng_state()):
        return f"{case}: the global random state should be left alone, got another one."
    if outputs[0] != outputs[1] or outputs[0] == outputs[2]:
        return (
            f"{case}: expected the same tokens for seeds 7 and 7 and others for 8, got "
            f"{' and '.join(str(new[:8]) for new in outputs)}."
        )
    return None


SAMPLING_CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        law_of_first_token,
        law_of_outputs,
        law_with_a_certain_draft,
        law_with_filters,
        law_at_another_temperature,
        law_with_end_tokens,
        bonus_law,
        acceptance_is_the_overlap,
        no_token_of_probability_0,
        greedy_at_temperature_0,
        equal_but_for_rounding,
        same_seed_same_tokens,
    )
}


def run_sampling_checks(sampler: Sampler) -> dict[str, str | None]:
    """Every check by name, with None or what it found. Taught in notebook 07.

    Args:
        sampler: called as `sampler(target, draft, prompt, max_new_tokens, gamma, eos_token_id, sampling, chance)`,
            by position; returns the new tokens and the acceptance rate. All its randomness comes from `chance`.

    >>> from specdec_lab.teach.sampling_audit import package_sampler
    >>> set(run_sampling_checks(package_sampler).values())
    {None}
    """
    return {name: check(sampler) for name, check in SAMPLING_CHECKS.items()}


# ---------------------------------------------------------------- helpers


def _wrong_law(sampler: Sampler, cases: Iterable[Case], first: bool = False) -> str | None:
    """A sentence about the first case whose law is not the target's."""
    for case in cases:
        found, problem = law_of(sampler, case)
        if problem:
            return problem
        right = case.truth()
        if first:
            found, right = found.of_token(0), right.of_token(0)
        if found.difference(right) > TOLERANCE:
            worst = max({**found, **right}, key=lambda o: abs(found.get(o, 0.0) - right.get(o, 0.0)))
            what = f"first token {worst[0]}" if first and worst else f"{list(worst)}"
            return (
                f"{case}: expected {what} with probability {right.get(worst, 0.0):.4g}, got "
                f"{found.get(worst, 0.0):.4g} (total variation {found.total_variation(right):.3g})."
            )
    return None
