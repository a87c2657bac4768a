"""A draft model that guesses a tree: several tokens at every place instead of one.

It costs as many draft passes as a chain of the same depth, each over all nodes of a level. What the tree looks like
is decided before (`ModelTreeDrafter`) or by the draft's own confidence (`ConfidenceTreeDrafter`); never by the tokens
that were drawn, which would bias sampling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from specdec_lab.models.protocol import context_length, model_name, vocabulary_size, why_no_trees

from .chance import Chance
from .checks import check_count
from .drafters import Proposal
from .session import Session
from .token_tree import ROOT, TokenTree, TreeShape, as_shape

if TYPE_CHECKING:
    from .sampling import Sampling


class _TreeDrafter:
    """A draft model, its cache, and the tree that it has just proposed."""

    def __init__(self, draft_model: Any, vocabulary: int | None) -> None:
        self._session = Session(draft_model, "draft_model")
        reason = why_no_trees(self._session.model)
        if reason:
            raise ValueError(f"draft_model cannot draft trees: {model_name(self._session.model)} {reason}")
        self._vocabulary = vocabulary
        self._context = context_length(self._session.model)
        self._readable = vocabulary_size(self._session.model)
        self._proposed: TokenTree | None = None
        self._fed: dict[int, int] = {}  # node → its index among the nodes in the cache
        self._first = 0  # positions in the cache before them

    @property
    def model(self) -> Any:
        """The draft model, adapted."""
        return self._session.model

    @property
    def cache_length(self) -> int:
        """Positions in the draft's cache."""
        return self._session.length

    def start(self, prompt: list[int]) -> None:
        """Begin a run with an empty cache."""
        self._session = Session(self._session.model)
        self._proposed, self._fed, self._first = None, {}, 0

    def commit(self, sequence: list[int], carried: Any = None) -> None:
        """Keep the accepted path in the cache, as far as it was fed; the last token of `sequence` is pending."""
        rows, node, first = [], ROOT, self._first
        for token in sequence[first:-1]:
            node = self._proposed.child(node, token) if self._proposed else None
            if node is None or node not in self._fed:
                break
            rows.append(first + self._fed[node])
        self._session.keep(first, rows)
        self._proposed, self._fed, self._first = None, {}, self._session.length

    def _root(self, sequence: list[int]) -> torch.Tensor | None:
        """The row behind the sequence; None once it holds an id that the draft cannot read."""
        self._proposed, self._fed = None, {}
        if self._readable is not None and max(sequence) >= self._readable:
            return None
        row = self._session.feed(sequence[self._session.length :], rows=1)[0, : self._vocabulary]
        self._first = self._session.length
        return row

    def _grow(self, nodes: list[int], tokens: list[int], parents: list[int]) -> torch.Tensor:
        """One pass over some nodes of a level; `tokens` and `parents` are those of the whole tree so far."""
        for node in nodes:
            self._fed[node] = len(self._fed)
        above = [ROOT if parents[node] == ROOT else self._fed[parents[node]] for node in nodes]
        fed = [tokens[node] for node in nodes]
        return self._session.feed(fed, rows=len(nodes), parents=above)[:, : self._vocabulary]

    def _room(self, sequence: list[int], limit: int) -> int:
        return limit if self._context is None else min(limit, self._context - len(sequence) + 1)


class ModelTreeDrafter(_TreeDrafter):
    """A draft model that fills a tree of fixed shape, level by level. Taught in notebook 09.

    Greedily, the children of a node are the draft's likeliest tokens there, point masses. With `sampling` they are
    drawn without replacement, the first from q, the next from what is left of it.

    Args:
        draft_model: a model that honours a tree mask; others are refused.
        tree: a `TreeShape`, branching factors such as (3, 2, 1), or paths of ranks.
        vocabulary: ids from here on are never proposed: the target does not have them.
        sampling: how children are drawn; None takes the likeliest.

    Raises:
        ValueError, TypeError: no such tree; a model that cannot draft one.

    Source: SpecInfer (Miao et al. 2024, arXiv 2305.09781); sampling without replacement: Sequoia (Chen et al. 2024,
    arXiv 2402.12374).

    Example:
        >>> drafter = ModelTreeDrafter(pair.draft, (3, 2, 1))  # doctest: +SKIP
        >>> tokens, rate = tree_decode(pair.target, drafter, ids, 64, None, None)  # doctest: +SKIP
    """

    def __init__(
        self, draft_model: Any, tree: Any, *, vocabulary: int | None = None, sampling: Sampling | None = None
    ) -> None:
        super().__init__(draft_model, vocabulary)
        self._sampling = None if sampling is None or sampling.greedy else sampling
        self.use_tree(tree)

    def use_tree(self, tree: Any) -> None:
        """Draft this shape from now on."""
        self._shape = as_shape(tree)

    @property
    def depth(self) -> int:
        """Levels of the tree."""
        return self._shape.depth

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """A tree of at most `limit` levels."""
        shape = self._shape.cut(self._room(sequence, limit))
        row = self._root(sequence) if len(shape) else None
        if row is None:
            return Proposal()
        tokens: list[int] = []
        parents: list[int] = []
        rows: list[torch.Tensor] = []
        above, kept = {ROOT: row}, {ROOT: ROOT}  # rows to choose from; node of the shape → node of the tree
        for depth in range(1, shape.depth + 1):
            open_ = [node for node in above if node in kept]
            chosen = self._choose(
                [above[node] for node in open_], [len(shape.children[node]) for node in open_], chance
            )
            for parent, guesses in zip(open_, chosen, strict=True):
                for child, (token, q) in zip(shape.children[parent], guesses, strict=False):
                    kept[child] = len(tokens)
                    tokens.append(token)
                    parents.append(kept[parent])
                    if q is not None:
                        rows.append(q)
            inner = [node for node in shape.level(depth) if node in kept and shape.children[node]]
            if not inner:
                break
            found = self._grow([kept[node] for node in inner], tokens, parents)
            above = dict(zip(inner, found, strict=True))
        if not tokens:
            return Proposal()
        self._proposed = TokenTree(TreeShape(tuple(parents)), tuple(tokens))
        return Proposal(tuple(tokens), tuple(parents), torch.stack(rows) if rows else None)

    def _choose(
        self, rows: list[torch.Tensor], counts: list[int], chance: Chance
    ) -> list[list[tuple[int, Any]]]:
        """So many children for each row of a level, with what each was drawn from (None: the likeliest are taken,
        and that is one read from the device for the whole level)."""
        if self._sampling is not None:
            return [self._draw(row, count, chance) for row, count in zip(rows, counts, strict=True)]
        best = torch.stack(rows).topk(min(max(counts), len(rows[0]))).indices.tolist()
        return [[(token, None) for token in row[:count]] for row, count in zip(best, counts, strict=True)]

    def _draw(self, row: torch.Tensor, count: int, chance: Chance) -> list[tuple[int, Any]]:
        q, drawn = self._sampling.distribution(row), []
        while len(drawn) < count and q.sum() > 0:  # nothing is left of q, or the row is not finite
            token = chance.draw(q)
            drawn.append((token, q))
            q = q.clone()
            q[token] = 0
            q = q / q.sum().clamp(min=torch.finfo(q.dtype).tiny)
        return drawn


class ConfidenceTreeDrafter(_TreeDrafter):
    """A draft model that grows a tree where it is confident. Taught in notebook 09.

    Level by level the `width` likeliest nodes are grown, each offering its `width` likeliest children; of everything
    offered, the `budget` likeliest nodes are proposed. A node's confidence is the product of the draft's
    probabilities down to it. Greedy or not, the nodes are point masses, and the shape depends on the confirmed text
    alone.

    Args:
        draft_model: a model that honours a tree mask; others are refused.
        budget: most nodes, which is what the target's pass has to carry.
        depth: most levels, which is the number of draft passes.
        width: nodes grown on a level.
        vocabulary: ids from here on are never proposed: the target does not have them.

    Raises:
        ValueError, TypeError: a count below 1; a model that cannot draft a tree.

    Source: EAGLE-2 (Li et al. 2024, arXiv 2406.16858).

    Example:
        >>> drafter = ConfidenceTreeDrafter(pair.draft, budget=12, depth=4)  # doctest: +SKIP
        >>> tokens, rate = tree_decode(pair.target, drafter, ids, 64, None, None)  # doctest: +SKIP
    """

    def __init__(
        self, draft_model: Any, budget: int, depth: int, width: int = 4, *, vocabulary: int | None = None
    ) -> None:
        super().__init__(draft_model, vocabulary)
        self._budget = check_count(budget, "budget")
        self.depth = check_count(depth, "depth")
        self._width = check_count(width, "width")

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """A tree of at most `limit` levels."""
        limit = min(self._room(sequence, limit), self.depth)
        row = self._root(sequence) if limit > 0 else None
        if row is None:
            return Proposal()
        tokens: list[int] = []
        parents: list[int] = []
        scores: list[float] = []  # logarithm of the confidence
        grown, rows = [ROOT], row[None]
        for depth in range(1, limit + 1):
            first = len(tokens)
            best = torch.log_softmax(rows.float(), dim=-1).topk(min(self._width, rows.shape[-1]))
            for parent, values, ids in zip(grown, best.values.tolist(), best.indices.tolist(), strict=True):
                tokens += ids
                parents += [parent] * len(ids)
                scores += [value + (scores[parent] if parent != ROOT else 0.0) for value in values]
            if depth == limit:
                break
            # a level is grown in order, so that parents never fall
            level = sorted(range(first, len(tokens)), key=lambda node: -scores[node])[: self._width]
            grown = sorted(level)
            rows = self._grow(grown, tokens, parents)
        return self._best(tokens, parents, scores)

    def _best(self, tokens: list[int], parents: list[int], scores: list[float]) -> Proposal:
        """The likeliest nodes. A parent is never less likely than its child, and at a tie it stands before it."""
        kept = sorted(sorted(range(len(tokens)), key=lambda node: -scores[node])[: self._budget])
        index = {ROOT: ROOT} | {node: i for i, node in enumerate(kept)}
        self._fed = {index[node]: place for node, place in self._fed.items() if node in index}
        chosen = tuple(tokens[node] for node in kept)
        shape = TreeShape(tuple(index[parents[node]] for node in kept))
        self._proposed = TokenTree(shape, chosen)
        return Proposal(chosen, shape.parents)
