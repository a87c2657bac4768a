"""Which tree to draft: acceptance by depth and rank, what a shape is worth, and the best shape of a budget.

Arithmetic over counts; works without torch. The tree itself is `decoding/token_tree.py`. It assumes what Sequoia
assumes: how likely a rank is accepted depends on its depth, not on the ranks above it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec_lab.decoding.checks import check_count
from specdec_lab.decoding.rounds import Round
from specdec_lab.decoding.token_tree import ROOT, TreeShape
from specdec_lab.files import ASSETS


@dataclass(frozen=True)
class RankAcceptance:
    """How often the guess of a rank at a depth was the right one, once its parent had been. Taught in notebook 09.

    Attributes:
        chances: `chances[d][r]` for depth d + 1 and rank r; the ranks of a depth exclude one another, so they sum to
            at most 1.
        visits: how often a node of that depth was asked for, behind each figure: `visits[d][r]`.
    """

    chances: tuple[tuple[float, ...], ...]
    visits: tuple[tuple[int, ...], ...]

    @property
    def depth(self) -> int:
        """Levels that were measured."""
        return len(self.chances)

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> RankAcceptance:
        """Count over rounds that drafted trees, best wide ones, on text that the tree is not to be judged on.

        >>> item = Round((5, 6, 7), (-1, -1, 0), (1,), (6, 9), "bonus", 3, 5, None, None, 0.0, 0.0)
        >>> RankAcceptance.of([item, item]).chances
        ((0.0, 1.0),)
        """
        accepted: dict[tuple[int, int], int] = {}
        asked: dict[tuple[int, int], int] = {}
        for item in rounds:
            shape = TreeShape(item.parents)
            node = ROOT
            for depth, child in enumerate((*item.accepted, None)):
                children = shape.children[node]
                for rank, candidate in enumerate(children):
                    asked[depth, rank] = asked.get((depth, rank), 0) + 1
                    accepted[depth, rank] = accepted.get((depth, rank), 0) + (candidate == child)
                node = child
        depths = range(1 + max((depth for depth, _ in asked), default=-1))
        table = [sorted(rank for d, rank in asked if d == depth) for depth in depths]
        return cls(
            tuple(
                tuple(accepted[depth, rank] / asked[depth, rank] for rank in ranks)
                for depth, ranks in zip(depths, table, strict=True)
            ),
            tuple(
                tuple(asked[depth, rank] for rank in ranks)
                for depth, ranks in zip(depths, table, strict=True)
            ),
        )


def expected_tokens(shape: TreeShape, acceptance: RankAcceptance) -> float:
    """Tokens per round to expect of a shape: 1 for the target's own, and the chance of every node.

    Args:
        shape: no deeper than was measured; a rank beyond what was measured counts 0.
        acceptance: measured on other text.

    Raises:
        ValueError: a deeper shape.

    >>> expected_tokens(TreeShape.by_branching(2, 1), RankAcceptance(((0.5, 0.25), (0.5,)), ((9, 9), (9,))))
    2.125
    """
    if shape.depth > acceptance.depth:
        raise ValueError(f"shape has {shape.depth} levels, acceptance was measured on {acceptance.depth}")
    reached: list[float] = []
    for parent, depth, rank in zip(shape.parents, shape.depths, shape.ranks, strict=True):
        chances = acceptance.chances[depth - 1]
        chance = chances[rank] if rank < len(chances) else 0.0
        reached.append(chance * (1.0 if parent == ROOT else reached[parent]))
    return 1.0 + sum(reached)


def best_shape(acceptance: RankAcceptance, budget: int, depth: int | None = None) -> TreeShape:
    """The shape of at most `budget` nodes with the most expected tokens, by dynamic programming.

    The best set of trees under a node is built from the best smaller ones: give the first rank a subtree of some
    size, the later ranks the rest. Taught in notebook 09.

    Args:
        budget: nodes, 1 or more.
        depth: most levels, which is the number of draft passes of a draft model; what was measured unless given.

    Raises:
        ValueError, TypeError: `budget` or `depth` below 1, or more levels than were measured.

    Source: Sequoia, Chen et al. 2024 (arXiv 2402.12374), section 3.1.

    >>> best_shape(RankAcceptance(((0.6, 0.3), (0.5, 0.1)), ((9, 9), (9, 9))), 3).parents
    (-1, -1, 0)
    """
    budget = check_count(budget, "budget")
    depth = acceptance.depth if depth is None else check_count(depth, "depth")
    if depth > acceptance.depth:
        raise ValueError(
            f"depth must be at most the {acceptance.depth} levels that were measured, got {depth}"
        )
    # forests[d][r][b] = (value, nodes of the first tree): siblings of rank r and later at depth d, with b nodes
    forests: list[list[list[tuple[float, int]]]] = []
    below = [(0.0, 0)] * (budget + 1)
    for chances in reversed(acceptance.chances[:depth]):
        later = [(0.0, 0)] * (budget + 1)
        ranks = [later]
        for chance in reversed(chances):
            now = []
            for size in range(budget + 1):
                options = [(0.0, 0)]
                options += [
                    (chance * (1.0 + below[first - 1][0]) + later[size - first][0], first)
                    for first in range(1, size + 1)
                ]
                now.append(max(options))
            later = now
            ranks.append(later)
        forests.append(list(reversed(ranks)))
        below = later
    forests.reverse()

    paths: list[tuple[int, ...]] = []

    def unfold(path: tuple[int, ...], level: int, size: int) -> None:
        for rank in range(len(acceptance.chances[level]) if level < depth else 0):
            first = forests[level][rank][size][1]
            if first == 0:
                return
            paths.append((*path, rank))
            unfold((*path, rank), level + 1, first - 1)
            size -= first

    unfold((), 0, budget)
    return TreeShape.of_paths(paths)


def best_budget(
    acceptance: RankAcceptance,
    verify_cost: Callable[[int], float],
    *,
    draft_cost: Callable[[int], float] = lambda depth: 0.0,
    budgets: Sequence[int] = tuple(range(1, 33)),
    depth: int | None = None,
) -> tuple[TreeShape, float]:
    """The shape that is worth most once its costs are counted, and its speed-up over plain decoding.

    Args:
        verify_cost: v(n), a target pass over n tokens ÷ over one, measured; asked for 1 + nodes.
        draft_cost: what drafting so many levels costs, in target passes over one token.
        budgets: node counts to try.
        depth: most levels.

    Raises:
        ValueError: no budgets.

    >>> flat, steep = (lambda n: 1.0), (lambda n: 1 + 0.5 * (n - 1))
    >>> acceptance = RankAcceptance(((0.6, 0.3), (0.5, 0.1)), ((9, 9), (9, 9)))
    >>> [len(best_budget(acceptance, cost)[0]) for cost in (flat, steep)]
    [6, 1]
    """
    if not budgets:
        raise ValueError("budgets must hold at least one number of nodes, got none")
    depths = range(1, (acceptance.depth if depth is None else depth) + 1)
    options = []
    for levels in depths:
        for budget in budgets:
            shape = best_shape(acceptance, budget, levels)
            cost = draft_cost(shape.depth) + verify_cost(1 + len(shape))
            options.append((expected_tokens(shape, acceptance) / cost, -len(shape), shape))
    best = max(options, key=lambda option: option[:2])
    return best[2], best[0]


def load_tree_reference(path: str | Path = "trees") -> dict[str, Any]:
    """The comparison of methods that `benchmarks/tree_speed.py --save` wrote. Taught in notebooks 09 and 10.

    Args:
        path: such a file; "trees" is the one that is shipped, "streams" that of `benchmarks/stream_ablation.py`.

    Returns:
        "card": date, command, settings, machine and versions; "verify_cost": n → v(n); "acceptance": method → chances by
        depth and rank; "prediction": tokens per round predicted and measured; "rows": one for each method and budget,
        with tokens_per_round, speedup, speedup_low, speedup_high, nodes, depth, extra_parameters.

    Example:
        >>> {row["method"] for row in load_tree_reference()["rows"]} >= {"plain", "chain", "Medusa"}
        True
    """
    path = ASSETS / "reference" / f"{path}.json" if path in ("trees", "streams") else Path(path)
    return json.loads(path.read_text(encoding="utf-8"))
