"""Decoding with trees of drafts, greedy or sampled, through the same loop as chains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specdec_lab.models.protocol import model_name, vocabulary_size, why_no_trees

from .chance import Chance
from .checks import check_input_ids, check_tree_fits
from .drafters import is_drafter
from .entry import speculative_rounds
from .rounds import Round, Trace
from .sampling import Sampling
from .session import Session
from .token_tree import as_shape
from .tree_drafters import ModelTreeDrafter


def tree_rounds(
    target_model: Any,
    drafter: Any,
    input_ids: Any,
    *,
    max_new_tokens: int,
    tree: Any,
    eos_token_id: Any,
    sampling: Sampling | None = None,
    chance: Chance | None = None,
) -> Iterator[Round]:
    """As `speculative_rounds`, with trees. Taught in notebook 09.

    Args:
        target_model: as in `speculative_decode`; one that does not honour a tree mask is refused.
        drafter: a draft model, or a drafter of trees (`ModelTreeDrafter`, `ConfidenceTreeDrafter`, Medusa, …).
        tree: a `TreeShape`, branching factors such as (3, 2, 1), or paths of ranks. A drafter that was made with a
            shape is given this one by `use_tree`, and keeps it after the run; None leaves the drafter its own.
        input_ids, max_new_tokens, eos_token_id, sampling, chance: as in `speculative_rounds`.

    Raises:
        ValueError, TypeError: bad input, at the call and before any pass of the decoding.

    Example:
        >>> for round in tree_rounds(
        ...     pair.target, pair.draft, ids, max_new_tokens=64, tree=(3, 2, 1), eos_token_id=None
        ... ):  # doctest: +SKIP
        ...     print(round.accepted)
    """
    target = Session(target_model, "target_model").model
    prompt = check_input_ids(input_ids)
    shape = None if tree is None else as_shape(tree)
    if shape is None and not is_drafter(drafter):
        raise ValueError(
            "tree must be given with a draft model: a shape, branching factors or paths of ranks"
        )
    if shape is None or not shape.is_chain:
        reason = why_no_trees(target)
        if reason:
            raise ValueError(
                f"target_model cannot verify a tree of drafts, only chains: {model_name(target)} {reason}"
            )
        check_tree_fits(target, prompt, max_new_tokens)
    if not is_drafter(drafter):
        drafter = ModelTreeDrafter(drafter, shape, vocabulary=vocabulary_size(target), sampling=sampling)
    elif shape is not None or not hasattr(drafter, "depth"):
        if not callable(getattr(drafter, "use_tree", None)):
            raise TypeError(
                f"drafter must be able to draft a given tree (use_tree); {type(drafter).__name__} is not: "
                "speculative_rounds runs it"
            )
        if shape is None:
            raise TypeError(f"tree must be given: {type(drafter).__name__} has none of its own (depth)")
        drafter.use_tree(shape)
    return speculative_rounds(
        target_model,
        drafter,
        prompt,
        max_new_tokens=max_new_tokens,
        gamma=shape.depth if shape is not None else drafter.depth,
        eos_token_id=eos_token_id,
        sampling=sampling,
        chance=chance,
    )


def tree_decode(
    target_model: Any, drafter: Any, input_ids: Any, max_new_tokens: int, tree: Any, eos_token_id: Any
) -> tuple[list[int], float]:
    """Return the prompt followed by the new tokens, and the acceptance rate. Taught in notebook 09.

    The new tokens are the target's own greedy output, token for token, as in `speculative_decode`. One target pass
    checks every node of the tree; the longest agreeing path is kept, and the target's own token behind it.

    Args, errors: as in `tree_rounds`.

    Returns:
        (sequence, acceptance_rate): the rate is accepted ÷ nodes verified, so it is small for a wide tree; compare
        trees and chains by tokens per round.

    Example:
        >>> tokens, rate = tree_decode(pair.target, pair.draft, ids, 64, (3, 2, 1), None)  # doctest: +SKIP
    """
    rounds = tree_rounds(
        target_model,
        drafter,
        input_ids,
        max_new_tokens=max_new_tokens,
        tree=tree,
        eos_token_id=eos_token_id,
    )
    trace = Trace.of(check_input_ids(input_ids), rounds)
    return trace.sequence, trace.acceptance_rate
