"""Greedy speculative decoding, and plain decoding beside it. Read together with `loop.py`.

The six steps of the problem, and where they happen:

1. the draft proposes k ≤ γ tokens one after another, stopping early at the end token  (`ModelDrafter.propose`)
2. the target evaluates all of them in one pass: k + 1 rows of logits                   (`loop.py`, verify)
3. accept up to the first difference and put the target's token there                   (`greedy_rule.py`)
4. if all k agree, add the target's next token too                                      (`greedy_rule.py`)
5. roll both caches back to what is confirmed                                           (`loop.py`, roll back)
6. stop at the end token or at max_new_tokens                                           (`loop.py`, commit)

It holds no sampling. The checks of the input, and the choice of the rule, are in `entry.py`.
"""

from __future__ import annotations

from typing import Any

from .checks import check_count, check_input_ids
from .drafters import NoDrafter
from .entry import speculative_rounds
from .rounds import Trace


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
        ValueError: later, where the target's logits are not finite, with the position.

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
