"""The accept rule of greedy decoding: a drafted token counts if and only if it is the target's argmax.

Chains and trees alike: a node's children are its guesses, and a chain has one each. It draws nothing; sampling's rule
is in `sampling_rule.py`.
"""

from __future__ import annotations

import torch

from .chance import Chance
from .drafters import Proposal
from .loop import NotFinite, Verdict
from .token_tree import ROOT


def accept_greedy(proposal: Proposal, logits: torch.Tensor, chance: Chance) -> Verdict:
    """The longest agreeing path, and the target's own token behind it: the correction or, if all agreed, the bonus.

    Row i of `logits`, (k + 1, vocab), scores the token *after* draft i - 1, so draft i is judged by the row of the
    draft before it, and the row behind the last accepted draft holds the target's own token.

    Raises:
        NotFinite: the largest logit of a row that it has to read is NaN or infinite: no token can be chosen there.

    >>> rows = torch.tensor([[0.0, 9.0, 1.0], [9.0, 0.0, 1.0], [1.0, 0.0, 9.0]])
    >>> accept_greedy(Proposal((1, 2)), rows, None)[:2]  # 1 agrees, 2 does not: 0 corrects it
    ((0,), 0)
    """
    largest, where = logits.max(dim=-1)
    choices = where.where(largest.isfinite(), -1).tolist()  # the one read from the device in a round
    path: tuple[int, ...] = ()
    node = ROOT
    while True:
        if choices[node + 1] < 0:
            raise NotFinite(node + 1)
        child = proposal.child(node, choices[node + 1])
        if child is None:
            return Verdict(path, choices[node + 1])
        path, node = (*path, child), child
        if node in proposal.ends:
            return Verdict(path, None)
