"""The accept rule of speculative sampling, for guesses that were drawn and for guesses that were not.

Chains and trees alike: a node's children are its guesses, and a chain has one each. It knows neither temperature nor
filters: p and q are what `Sampling` made of the logits. Greedy decoding's rule is in `greedy_rule.py`.
"""

from __future__ import annotations

import math

import torch

from .chance import Chance
from .distributions import finest, fit, overlap, residual
from .drafters import Proposal
from .loop import NotFinite, Verdict
from .token_tree import ROOT


def follow_guesses(proposal: Proposal, p: torch.Tensor, chance: Chance) -> Verdict:
    """Guesses that were not drawn: draw from p, and go on behind the guess that is the token drawn, if there is one.

    A guess x is so accepted with p(x), and replaced from p without x: point masses under the rule.
    """
    k = len(proposal.tokens)
    rows, tokens = _rows_above(proposal, p.device)
    # p of every guess; whether every row is finite
    facts = torch.cat([_of_tokens(p, rows, tokens), p[:, 0]]).tolist()
    path, overlaps, node = (), (), ROOT
    while True:
        if not math.isfinite(facts[k + node + 1]):
            raise NotFinite(node + 1)
        token, children = chance.draw(p[node + 1]), proposal.children(node)
        if children:
            guessed = {proposal.tokens[child]: facts[child] for child in children}
            overlaps = (*overlaps, sum(guessed.values()))
        child = proposal.child(node, token)
        if child is None:
            return Verdict(path, token, overlaps)
        path, node = (*path, child), child
        if node in proposal.ends:
            return Verdict(path, None, overlaps)


def judge_guesses(proposal: Proposal, p: torch.Tensor, chance: Chance) -> Verdict:
    """Guesses that were drawn: a coin for each, and the residual where it falls the wrong way.

    Siblings are tried in turn, each against what is left of p once the ones before it were refused (Sequoia, Chen et
    al. 2024, algorithm 2); a chain has no second sibling.
    """
    tokens, k = proposal.drafted, len(proposal.tokens)
    p, q = _together(proposal, p)
    rows, ids = _rows_above(proposal, p.device)
    drawn, total, least = _of_tokens(q, torch.arange(len(q), device=q.device), ids), q.sum(-1), q.amin(-1)
    q = fit(q, p)
    # the one read from the device in a round, before a second sibling or the draw
    facts = torch.cat([_of_tokens(p, rows, ids), drawn, overlap(p[rows], q), total, least, p[:, 0]]).tolist()
    p_x, q_x, overlaps_x, totals, leasts = (facts[i * len(q) : (i + 1) * len(q)] for i in range(5))
    finite = [math.isfinite(value) for value in facts[5 * len(q) :]]
    path, overlaps, node = (), (), ROOT
    while True:
        if not finite[node + 1]:
            raise NotFinite(node + 1)
        left, children = p[node + 1], proposal.children(node)
        if node == k - 1 and proposal.refused is not None:
            children = (k,)
        for child in children:
            x = tokens[child]
            if not (leasts[child] >= 0 and abs(totals[child] - 1) <= 1e-2 and q_x[child] > 0):
                raise ValueError(
                    f"the drafter's probabilities for token {child + 1} of its proposal must be a distribution that "
                    f"{x} can have been drawn from; they sum to {totals[child]:.4g}, the least is "
                    f"{leasts[child]:.4g}, and {x} has {q_x[child]:.4g}"
                )
            if child == children[0]:
                p_here, overlaps = p_x[child], (*overlaps, overlaps_x[child])
            else:
                p_here = left[x].item() if x < len(left) else 0.0
            if chance.accept(min(1.0, p_here / q_x[child])):
                path, node = (*path, child), child
                break
            left = residual(left, q[child])
        else:
            return Verdict(path, chance.draw(left), overlaps)
        if node in proposal.ends:
            return Verdict(path, None, overlaps)


def _rows_above(proposal: Proposal, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """For everything drafted the row of p that judges it, and its token."""
    above, tokens = torch.tensor([proposal.above, proposal.drafted], dtype=torch.long, device=device)
    return above + 1, tokens


def _of_tokens(p: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """p of each token in its row; 0 for an id that p does not have."""
    there = tokens < p.shape[-1]
    return torch.where(there, p[rows, tokens.where(there, 0)], 0)


def _together(proposal: Proposal, p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """p, and the drafter's q, (drafted, its own vocabulary), on one device and in the wider dtype of the two."""
    tokens, q = proposal.drafted, torch.as_tensor(proposal.probabilities)
    if q.dim() != 2 or len(q) != len(tokens):
        raise ValueError(
            f"the drafter's probabilities must have one row of the vocabulary for each of its {len(tokens)} tokens, "
            f"got shape {tuple(q.shape)}"
        )
    wide = torch.float64 in (p.dtype, q.dtype) and finest(p.device) == torch.float64
    p, q = (values.to(p.device, torch.float64 if wide else torch.float32) for values in (p, q))
    return p, q
