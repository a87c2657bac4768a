"""Speculative sampling: the accept rule of Leviathan et al. and the entry points. Read together with `loop.py`.

The draft *draws* its tokens from q; the target draws nothing until it must:

1. a drafted token x, drawn from q, is accepted with probability min(1, p(x) / q(x))
2. the first rejected one is replaced by a draw from the positive part of p - q, normalised
3. if all are accepted, one more is drawn from p at the place behind them: the bonus

What comes out is distributed as if every token had been drawn from p. p and q are what is really sampled from:
the same temperature and filters apply to both. The rule's code is in `sampling_rule.py`, the
functions behind it in `distributions.py`; the draws go through a `Chance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .chance import Chance, GeneratorChance
from .checks import check_count, check_input_ids, check_probability, check_temperature
from .distributions import GREEDY_BELOW, distribution
from .drafters import NoDrafter, Proposal
from .entry import speculative_rounds
from .greedy_rule import accept_greedy
from .loop import Verdict
from .rounds import Trace
from .sampling_rule import follow_guesses, judge_guesses


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn, from the target and the draft alike. Taught in notebook 07.

    Attributes:
        temperature: logits are divided by it; below 1e-5 decoding is greedy, exactly, and draws nothing.
        top_k: keep the so many largest probabilities; None or 0 keeps all.
        top_p: keep the fewest largest that sum to this much, the one that crosses it included; None keeps all,
            0 keeps the argmax.

    Raises:
        ValueError, TypeError: a temperature that is negative or not finite, a `top_k` that is negative or no
            integer, a `top_p` outside 0…1.

    Example:
        >>> Sampling(temperature=0.8, top_p=0.9).distribution(torch.tensor([2.0, 1.0, -4.0])).count_nonzero()
        tensor(2)
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the dataclass is frozen; settings are normalised once, here
        set_(self, "temperature", check_temperature(self.temperature))
        if self.top_k is not None:
            set_(self, "top_k", check_count(self.top_k, "top_k", least=0) or None)
        if self.top_p is not None:
            top_p = check_probability(self.top_p, "top_p")
            set_(self, "top_p", None if top_p == 1 else top_p)

    @property
    def greedy(self) -> bool:
        """Whether nothing is left to chance."""
        return self.temperature < GREEDY_BELOW

    def distribution(self, logits: torch.Tensor) -> torch.Tensor:
        """(..., vocab) logits → the probabilities that are drawn from; NaN for a row that is not finite."""
        return distribution(logits, self.temperature, self.top_k, self.top_p)

    def accept(self, proposal: Proposal, logits: torch.Tensor, chance: Chance) -> Verdict:
        """The rule. Row i of `logits`, (k + 1, vocab), scores the token *after* draft i - 1.

        A proposal without probabilities was not drawn: each guess x is a point mass, accepted with p(x) and
        replaced from p without x. The siblings of a tree are tried one after another.

        Raises:
            ValueError: probabilities of another length than the tokens or not finite, or a token of probability 0.

        Source: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.

        >>> certain = torch.tensor([[0.0, 99.0], [99.0, 0.0]])  # the target says 1, then 0
        >>> chance = GeneratorChance(torch.Generator().manual_seed(0))
        >>> Sampling().accept(Proposal((1,)), certain, chance)
        Verdict(path=(0,), own=0, overlaps=(1.0,))
        """
        if self.greedy:
            return accept_greedy(proposal, logits, chance)
        p = self.distribution(logits)  # (k + 1, vocab)
        if proposal.probabilities is None or not proposal.drafted:
            return follow_guesses(proposal, p, chance)
        return judge_guesses(proposal, p, chance)


def speculative_sample(
    target_model: Any,
    draft_model: Any,
    input_ids: Any,
    max_new_tokens: int,
    gamma: int,
    eos_token_id: Any,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> tuple[list[int], float]:
    """Return the prompt followed by the new tokens, and the acceptance rate. Taught in notebook 07.

    The new tokens are distributed exactly as if each had been drawn from the target alone with this temperature
    and these filters; the draft decides only how many target passes that takes. Below a temperature of 1e-5 it
    is `speculative_decode`, token for token.

    Args:
        target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id: as in `speculative_decode`;
            instead of a draft model a `Drafter` may be given. One that does not draw (prompt lookup, the dial)
            is a point mass: its guess x is accepted with p(x).
        temperature, top_k, top_p: as in `Sampling`, for both models.
        generator: where all draws come from, on any device; torch's global random state is then left alone.
            None draws from torch's default generator. The same seed gives the same tokens.

    Returns:
        (sequence, acceptance_rate): the rate is accepted ÷ drafted tokens, 0.0 when nothing was drafted.

    Raises:
        ValueError, TypeError: bad input or a model that cannot be rolled back exactly, before the first pass.
        ValueError: later, where the target's logits are not finite, with the position. Where the draft's are
            not, the target goes on alone for that round.

    Source: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding" (arXiv 2211.17192);
    Chen et al. 2023 (arXiv 2302.01318).

    Example:
        >>> tokens, rate = speculative_sample(
        ...     pair.target,
        ...     pair.draft,
        ...     ids,
        ...     64,
        ...     4,
        ...     None,
        ...     temperature=0.8,
        ...     generator=torch.Generator().manual_seed(7),
        ... )  # doctest: +SKIP
    """
    return _sample(
        target_model,
        draft_model,
        input_ids,
        max_new_tokens,
        check_count(gamma, "gamma"),
        eos_token_id,
        Sampling(temperature, top_k, top_p),
        generator,
    )


def autoregressive_sample(
    target_model: Any,
    input_ids: Any,
    max_new_tokens: int,
    eos_token_id: Any,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> list[int]:
    """Return the prompt followed by the new tokens: plain sampling, one target pass a token.

    The same loop with nobody guessing; arguments and errors are those of `speculative_sample`. The two agree in
    distribution, not token by token: they use up their random numbers differently. Taught in notebook 07.

    Example:
        >>> tokens = autoregressive_sample(pair.target, ids, 64, None, temperature=0.8)  # doctest: +SKIP
    """
    sampling = Sampling(temperature, top_k, top_p)
    return _sample(
        target_model, NoDrafter(), input_ids, max_new_tokens, 1, eos_token_id, sampling, generator
    )[0]


def _sample(
    target_model: Any,
    drafter: Any,
    input_ids: Any,
    max_new_tokens: int,
    gamma: int,
    eos_token_id: Any,
    sampling: Sampling,
    generator: torch.Generator | None,
) -> tuple[list[int], float]:
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator or None, got {type(generator).__name__}")
    rounds = speculative_rounds(
        target_model,
        drafter,
        input_ids,
        max_new_tokens=max_new_tokens,
        gamma=gamma,
        eos_token_id=eos_token_id,
        sampling=sampling,
        chance=None if generator is None else GeneratorChance(generator),
    )
    trace = Trace.of(check_input_ids(input_ids), rounds)
    return trace.sequence, trace.acceptance_rate
