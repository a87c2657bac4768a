"""Greedy speculative decoding: the accept rule and the entry points. Read together with `loop.py`.

The six steps of the problem, and where they happen:

1. the draft proposes k ≤ γ tokens one after another, stopping early at the end token  (`ModelDrafter.propose`)
2. the target evaluates all of them in one pass: k + 1 rows of logits                   (`loop.py`, verify)
3. accept up to the first difference and put the target's token there                   (`accept_greedy`)
4. if all k agree, add the target's next token too                                      (`accept_greedy`)
5. roll both caches back to what is confirmed                                           (`loop.py`, roll back)
6. stop at the end token or at max_new_tokens                                           (`loop.py`, commit)

It holds no sampling: a drafted token counts if and only if it is the target's argmax.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from specdec_lab.models.protocol import vocabulary_size

from .chance import NO_CHANCE, Chance, GeneratorChance
from .checks import check_count, check_end_tokens, check_fits, check_input_ids
from .drafters import NoDrafter, Proposal, as_drafter
from .loop import Gamma, Verdict, run_rounds
from .rounds import Round, Trace
from .session import Session
from .token_tree import ROOT

if TYPE_CHECKING:
    from .sampling import Sampling


def accept_greedy(proposal: Proposal, logits: torch.Tensor, chance: Chance) -> Verdict:
    """Steps 3 and 4: the longest agreeing path, and the target's own token behind it.

    Row i of `logits`, (k + 1, vocab), scores the token *after* draft i - 1, so draft i is judged by the row of the
    draft before it, and the row behind the last accepted draft holds the correction or, if all agreed, the bonus.

    >>> rows = torch.tensor([[0.0, 9.0, 1.0], [9.0, 0.0, 1.0], [1.0, 0.0, 9.0]])
    >>> accept_greedy(Proposal((1, 2)), rows, NO_CHANCE)[:2]  # 1 agrees, 2 does not: 0 corrects it
    ((0,), 0)
    """
    choices = logits.argmax(dim=-1).tolist()  # the one read from the device in a round
    path: tuple[int, ...] = ()
    node = ROOT
    while (child := proposal.child(node, choices[node + 1])) is not None:
        path, node = (*path, child), child
    return Verdict(path, choices[node + 1])


def speculative_rounds(
    target_model: Any,
    drafter: Any,
    input_ids: Any,
    *,
    max_new_tokens: int,
    gamma: Gamma,
    eos_token_id: Any,
    sampling: Sampling | None = None,
    chance: Chance | None = None,
) -> Iterator[Round]:
    """An iterator of rounds, each yielded as soon as its tokens are confirmed: streaming, and the full record.

    Args:
        target_model: a transformers decoder-only model, or an object with the two methods of `Model`.
        drafter: a draft model of the same kinds, or a `Drafter`.
        input_ids: the prompt, a list, tuple or 1-D tensor of ids.
        max_new_tokens: at most so many tokens are added (1 or more).
        gamma: most tokens drafted in one round (1 or more), or a callable that is given the list of rounds
            so far and returns it (0: draft nothing this time).
        eos_token_id: an id, a sequence of ids, or None.
        sampling: temperature and filters for both models (`decoding/sampling.py`); None decodes greedily.
        chance: where the draws come from; None is torch's default generator. Greedy decoding draws nothing.

    Raises:
        ValueError, TypeError: bad input, at the call and before any pass.

    Example:
        >>> for round in speculative_rounds(
        ...     pair.target, pair.draft, ids, max_new_tokens=64, gamma=4, eos_token_id=None
        ... ):  # doctest: +SKIP
        ...     print(pair.tokenizer.decode(round.emitted), end="")
    """
    target = Session(target_model, "target_model", rider=getattr(drafter, "rider", None))
    prompt = check_input_ids(input_ids)
    max_new_tokens = check_count(max_new_tokens, "max_new_tokens")
    gamma = gamma if callable(gamma) else check_count(gamma, "gamma")
    end_tokens = check_end_tokens(eos_token_id)
    check_fits(target.model, prompt, max_new_tokens)
    vocabulary = vocabulary_size(target.model)
    if sampling is None:
        rule, chance = accept_greedy, NO_CHANCE
    elif not callable(getattr(sampling, "accept", None)):
        raise TypeError(f"sampling must be a Sampling or None, got {sampling!r}")
    else:
        rule, chance = sampling.accept, GeneratorChance(torch.default_generator) if chance is None else chance
    return run_rounds(
        target,
        as_drafter(drafter, end_tokens, vocabulary, sampling),
        prompt,
        max_new_tokens=max_new_tokens,
        gamma=gamma,
        end_tokens=end_tokens,
        rule=rule,
        chance=chance,
        vocabulary=vocabulary,
    )


def speculative_decode(
    target_model: Any,
    draft_model: Any,
    input_ids: Any,
    max_new_tokens: int,
    gamma: int,
    eos_token_id: Any,
) -> tuple[list[int], float]:
    """Return the prompt followed by the new tokens, and the acceptance rate. Taught in notebooks 03 and 04.

    The new tokens are the target's own greedy output, token for token; the draft decides only how many
    target passes that takes. The end token is kept, once, and nothing follows it; otherwise exactly
    `max_new_tokens` come out. A round drafts at most min(γ, tokens still wanted - 1) tokens, because a
    draft whose acceptance cannot save a target pass would be wasted; counting min(γ, still wanted) gives
    the same tokens and a slightly different rate at the very end.

    Args:
        target_model, draft_model: transformers decoder-only models, or objects with `forward` and
            `truncate_cache` (see `specdec_lab.models.protocol.Model`). They run in eval mode and are left
            as found.
        input_ids: list, tuple or 1-D tensor of ids; never changed.
        max_new_tokens, gamma: 1 or more.
        eos_token_id: an id, a sequence of ids, or None.

    Returns:
        (sequence, acceptance_rate): the rate is accepted ÷ drafted tokens, 0.0 when nothing was drafted;
        neither corrections nor bonus tokens count.

    Raises:
        ValueError, TypeError: bad input or a model that cannot be rolled back exactly, before the first pass.

    Equality with plain decoding holds in float32 wherever the two largest logits are further apart than
    rounding (about 1e-4 × max(1, largest |logit|)); half precision breaks near ties differently in one
    pass over γ + 1 tokens and in γ + 1 passes (SafeAILab/EAGLE 212).

    Example:
        >>> tokens, rate = speculative_decode(pair.target, pair.draft, ids, 64, 4, None)  # doctest: +SKIP
    """
    gamma = check_count(gamma, "gamma")
    rounds = speculative_rounds(
        target_model,
        draft_model,
        input_ids,
        max_new_tokens=max_new_tokens,
        gamma=gamma,
        eos_token_id=eos_token_id,
    )
    trace = Trace.of(check_input_ids(input_ids), rounds)
    return trace.sequence, trace.acceptance_rate


def autoregressive_decode(
    target_model: Any, input_ids: Any, max_new_tokens: int, eos_token_id: Any
) -> list[int]:
    """Return the prompt followed by the new tokens: plain greedy decoding, one target pass a token.

    The same loop with nobody guessing, so both decoders share their cache, stop rule and checks.
    Arguments and errors are those of `speculative_decode`. Taught in notebook 01.

    Example:
        >>> tokens = autoregressive_decode(pair.target, ids, 64, None)  # doctest: +SKIP
    """
    rounds = speculative_rounds(
        target_model,
        NoDrafter(),
        input_ids,
        max_new_tokens=max_new_tokens,
        gamma=1,
        eos_token_id=eos_token_id,
    )
    return Trace.of(check_input_ids(input_ids), rounds).sequence
