"""The one loop: draft, verify, commit, roll back. Every decoder of `decoding/` runs through it.

It knows no acceptance rule (it is given one) and no way to guess (it is given a drafter). Plain decoding
is the same loop with a drafter that never guesses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from specdec_lab.models.protocol import model_name, why_no_trees

from .chance import Chance
from .checks import check_count
from .drafters import Drafter, Proposal
from .rounds import BONUS, CORRECTION, END, PLAIN, Round
from .session import Session
from .token_tree import ROOT, TokenTree, TreeShape


class Verdict(NamedTuple):
    """What an acceptance rule says about a proposal.

    Attributes:
        path: indices of the accepted tokens, in order.
        own: the target's own token behind them; None behind an end token.
        overlaps: under sampling, Σ min(p, q) at every judged place: the chance of acceptance there, before the
            token was drawn. None under greedy decoding.
    """

    path: Sequence[int]
    own: int | None
    overlaps: tuple[float, ...] | None = None


class NotFinite(ValueError):
    """A row of the target's logits holds NaN or +inf, or nothing but -inf; `row` says which."""

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row} of the target's logits is not finite: no token can be chosen from it")
        self.row = row


# A rule looks at a proposal of k tokens and the k + 1 rows of the target's logits (row i scores the token
# after node i - 1).
Rule = Callable[[Proposal, torch.Tensor, Chance], Verdict]
# Gamma may change from round to round: it is then asked with the rounds so far.
Gamma = int | Callable[[Sequence[Round]], int]


def run_rounds(
    target: Session,
    drafter: Drafter,
    prompt: list[int],
    *,
    max_new_tokens: int,
    gamma: Gamma,
    end_tokens: frozenset[int],
    rule: Rule,
    chance: Chance,
    vocabulary: int | None,
) -> Iterator[Round]:
    """Yield one `Round` after another until an end token or `max_new_tokens`. Input is checked by callers.

    Invariant at every yield: the target's cache holds `len(sequence) - 1` positions. The last token has been
    chosen but not fed; it is *pending* and rides on the next pass, as the whole prompt rides on the first.
    """
    sequence, wanted = list(prompt), max_new_tokens
    rounds: list[Round] = []
    drafter.start(list(prompt))
    while wanted:
        target_before, draft_before = target.length, getattr(drafter, "cache_length", None)

        # draft: a guess whose acceptance could not save a target pass is never made
        started = time.perf_counter()
        most = check_count(gamma(rounds), "gamma", least=0) if callable(gamma) else gamma
        limit = min(most, wanted - 1)
        proposal = drafter.propose(sequence, limit, chance) if limit > 0 else Proposal()
        proposal = _usable(proposal, limit, end_tokens, vocabulary, drafter, target)
        drafted_at = time.perf_counter()

        # verify: one pass over everything pending and all guesses, one row more than there are guesses
        confirmed = len(sequence)
        logits = target.feed(
            [*sequence[target.length :], *proposal.tokens],
            rows=len(proposal.tokens) + 1,
            parents=proposal.parents or (),
        )
        vocabulary = min(vocabulary or logits.shape[-1], logits.shape[-1])
        try:
            path, own, overlaps = rule(proposal, logits, chance)
        except NotFinite as error:
            raise ValueError(
                f"the target's logits for position {confirmed + proposal.depth(error.row - 1)} are not finite: "
                "no token can be chosen from them"
            ) from None
        verified_at = time.perf_counter()

        # commit: the accepted path, then the target's own token; nothing follows an end token
        emitted = [proposal.tokens[i] for i in path]
        if emitted and emitted[-1] in end_tokens:
            outcome = END
        else:
            last = path[-1] if path else ROOT
            full = not proposal.children(last) and proposal.refused is None
            outcome = PLAIN if not proposal.drafted else BONUS if full else CORRECTION
            emitted.append(own)
        sequence += emitted
        wanted = 0 if emitted[-1] in end_tokens else wanted - len(emitted)

        # roll back: both caches keep what is confirmed, short of the token that is still pending. What the target
        # has seen of it is the accepted path, which in a tree is not the first rows
        target.keep(confirmed, [confirmed + i for i in path][: len(emitted) - 1])
        if target.carried is None:
            drafter.commit(sequence)
        else:
            drafter.commit(sequence, target.carried[[0, *(i + 1 for i in path)]])

        rounds.append(
            Round(
                drafted=proposal.drafted,
                parents=proposal.above,
                accepted=tuple(path),
                emitted=tuple(emitted),
                outcome=outcome,
                target_cache_before=target_before,
                target_cache_after=target.length,
                draft_cache_before=draft_before,
                draft_cache_after=getattr(drafter, "cache_length", None),
                seconds_drafting=drafted_at - started,
                seconds_verifying=verified_at - drafted_at,
                overlaps=overlaps,
            )
        )
        yield rounds[-1]


def _usable(
    proposal: Proposal,
    limit: int,
    end_tokens: frozenset[int],
    vocabulary: int | None,
    drafter: Drafter,
    target: Session,
) -> Proposal:
    """The part of a proposal that can count: ids that the target has, nothing behind an end token."""
    tokens = proposal.tokens
    if proposal.parents is not None:
        if tuple(proposal.parents) != tuple(range(-1, len(tokens) - 1)):
            return _usable_tree(proposal, limit, end_tokens, vocabulary, drafter, target)
        proposal = replace(proposal, parents=None)
    if len(tokens) > max(limit, 0):
        raise ValueError(
            f"{type(drafter).__name__}.propose returned {len(tokens)} tokens, at most {limit} were asked for"
        )
    for i, token in enumerate(tokens):
        if token < 0 or (vocabulary is not None and token >= vocabulary):
            return _refused_unseen(proposal, i)
        if token in end_tokens:
            return replace(proposal.cut(i + 1), ends=frozenset({i}))
    return proposal


def _usable_tree(
    proposal: Proposal,
    limit: int,
    end_tokens: frozenset[int],
    vocabulary: int | None,
    drafter: Drafter,
    target: Session,
) -> Proposal:
    name, tokens = type(drafter).__name__, proposal.tokens
    try:
        tree = TokenTree(TreeShape(proposal.parents), tokens)
    except ValueError as error:
        raise ValueError(f"{name}.propose returned no tree: {error}") from None
    reason = why_no_trees(target.model)
    if reason:
        raise ValueError(
            f"{name}.propose returned a tree, and only chains can be verified: {model_name(target.model)} {reason}"
        )
    if tree.shape.depth > max(limit, 0):
        raise ValueError(
            f"{name}.propose returned a path of {tree.shape.depth} tokens, at most {limit} were asked for"
        )
    kept: dict[int, int] = {ROOT: ROOT}  # node → its index among those that stay
    ends = set()
    for node, (token, parent) in enumerate(zip(tokens, tree.parents, strict=True)):
        if parent not in kept or kept[parent] in ends:
            continue
        if token < 0 or (vocabulary is not None and token >= vocabulary):
            if proposal.probabilities is not None:
                raise ValueError(f"{name} drew {token}, an id that the target does not have")
            continue
        kept[node] = len(kept) - 1
        if token in end_tokens:
            ends.add(kept[node])
    if len(kept) == len(tokens) + 1:
        return replace(proposal, ends=frozenset(ends))
    nodes = list(kept)[1:]
    rows = None if proposal.probabilities is None else proposal.probabilities[nodes]
    return Proposal(
        tuple(tokens[node] for node in nodes),
        tuple(kept[tree.parents[node]] for node in nodes),
        rows,
        frozenset(ends),
    )


def _refused_unseen(proposal: Proposal, place: int) -> Proposal:
    """The tokens before `place`, where one stands that the target does not have. Under sampling it counts as
    drawn and rejected: forgetting it would favour the draft's other tokens."""
    cut = proposal.cut(place)
    if proposal.probabilities is None:
        return cut
    return replace(cut, probabilities=proposal.probabilities[: place + 1], refused=proposal.tokens[place])
