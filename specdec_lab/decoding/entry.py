"""Where every run begins: input is checked, the accept rule is chosen, and the loop is started.

Greedy and sampled, chains and trees come through here; `greedy.py`, `sampling.py` and `tree_decode.py` hold the
functions that return finished text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from specdec_lab.models.protocol import vocabulary_size

from .chance import NO_CHANCE, Chance, GeneratorChance
from .checks import check_count, check_end_tokens, check_fits, check_input_ids
from .drafters import as_drafter
from .greedy_rule import accept_greedy
from .loop import Gamma, run_rounds
from .rounds import Round
from .session import Session

if TYPE_CHECKING:
    from .sampling import Sampling


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
        ValueError: later, where the target's logits are not finite, with the position.

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
