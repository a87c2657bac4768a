"""Which tree to draft: counts by hand, worth by simulation, the best shape by trying all of them."""

from __future__ import annotations

import random

import pytest

from specdec_lab.decoding.rounds import Round
from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.measure.trees import RankAcceptance, best_budget, best_shape, expected_tokens


def acceptance(*chances):
    return RankAcceptance(chances, tuple((9,) * len(level) for level in chances))


def all_shapes(most: int):
    """Every shape of 1 to `most` nodes: parents in level order."""
    waiting = [(-1,)]
    while waiting:
        parents = waiting.pop()
        yield TreeShape(parents)
        if len(parents) < most:
            waiting += [(*parents, parent) for parent in range(parents[-1], len(parents))]


def random_acceptance(seed: int) -> RankAcceptance:
    """Ranks of a depth exclude one another and fall, as those of a draft do."""
    dice = random.Random(seed)
    levels = []
    for _ in range(3):
        chances = sorted((dice.random() for _ in range(3)), reverse=True)
        levels.append(tuple(chance / (sum(chances) + dice.random()) for chance in chances))
    return acceptance(*levels)


def tree_round(parents, accepted):
    tokens = tuple(range(len(parents)))
    return Round(tokens, parents, accepted, (*accepted, 99), "correction", 0, 0, None, None, 0.0, 0.0)


def test_ranks_are_counted_where_their_parent_was_reached():
    """Under node 1 hang 3 and 4; only rounds that come to 1 ask for them."""
    shape = (-1, -1, 0, 1, 1)
    found = RankAcceptance.of([tree_round(shape, path) for path in ((1, 4), (1,), (0,), ())])
    assert found.visits == ((4, 4), (3, 2)) and found.depth == 2
    assert found.chances == ((1 / 4, 2 / 4), (0 / 3, 1 / 2))


def test_no_rounds_no_depth():
    assert RankAcceptance.of([]).depth == RankAcceptance.of([tree_round((), ())]).depth == 0


@pytest.mark.parametrize("seed", range(4))
def test_expected_tokens_are_what_a_simulation_gives(seed):
    shape, chances = TreeShape.by_branching(3, 2, 1), random_acceptance(seed)
    dice, total, runs = random.Random(seed), 0, 20_000
    for _ in range(runs):
        node, depth = -1, 0
        while True:
            total += 1
            children = shape.children[node]
            weights = chances.chances[depth][: len(children)] if children else ()
            node = dice.choices([*children, None], [*weights, 1 - sum(weights)])[0]
            depth += 1
            if node is None:
                break
    assert total / runs == pytest.approx(expected_tokens(shape, chances), abs=0.03)


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_shape_is_the_best_of_all(seed, budget):
    chances = random_acceptance(seed)
    for depth in (1, 2, 3):
        best = best_shape(chances, budget, depth)
        assert len(best) <= budget and best.depth <= depth
        tried = [shape for shape in all_shapes(budget) if shape.depth <= depth]
        right = max(expected_tokens(shape, chances) for shape in tried)
        assert expected_tokens(best, chances) == pytest.approx(right, abs=1e-12)


def test_a_rank_that_was_not_measured_is_worth_nothing():
    chances = acceptance((0.5,))
    assert expected_tokens(TreeShape((-1, -1)), chances) == 1.5
    assert best_shape(chances, 5).parents == (-1,)


def test_costs_decide_the_budget():
    chances = random_acceptance(1)
    shape, worth = best_budget(chances, lambda n: 1.0, budgets=range(1, 13))
    assert len(shape) > 6 and worth == expected_tokens(shape, chances)
    narrow, less = best_budget(chances, lambda n: 1 + 0.3 * (n - 1), budgets=range(1, 13))
    assert len(narrow) < len(shape) and less < worth
    shallow, _ = best_budget(
        chances, lambda n: 1.0, draft_cost=lambda depth: 5.0 * depth, budgets=range(1, 13)
    )
    assert shallow.depth == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: best_shape(a, 0), "budget must be at least 1"),
        (lambda a: best_shape(a, 3, 0), "depth must be at least 1"),
        (lambda a: best_shape(a, 3, 9), "at most the 3 levels"),
        (lambda a: expected_tokens(TreeShape.chain(4), a), "4 levels, acceptance was measured on 3"),
        (lambda a: best_budget(a, lambda n: 1.0, budgets=()), "budgets must hold"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(random_acceptance(0))
