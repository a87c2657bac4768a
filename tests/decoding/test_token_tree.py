"""Trees as data: shapes, flattening, mask, positions, paths."""

from __future__ import annotations

import itertools
import random

import pytest

from specdec_lab.decoding.token_tree import TokenTree, TreeShape, as_shape

pytestmark = pytest.mark.scripted


def random_shape(seed: int, most: int = 14) -> TreeShape:
    dice = random.Random(seed)
    parents = [-1]
    for _ in range(dice.randint(0, most - 1)):
        parents.append(dice.randint(parents[-1], len(parents) - 1))
    return TreeShape(tuple(parents))


def test_a_node_sees_its_ancestors_and_itself():
    """F23: no siblings, no cousins, and the flattened order is not the position (FasterDecoding/Medusa 64)."""
    shape = TreeShape((-1, -1, 0))  # a, b, and c behind a
    assert shape.mask() == [[True, False, False], [False, True, False], [True, False, True]]
    assert shape.positions(10) == [10, 10, 11]


@pytest.mark.parametrize("seed", range(20))
def test_paths_depths_ranks_and_masks_agree(seed):
    shape = random_shape(seed)
    for node, row in enumerate(shape.mask()):
        path = shape.path(node)
        assert [i for i, seen in enumerate(row) if seen] == sorted(path) and path[-1] == node
        assert len(path) == shape.depths[node] and shape.parents[path[0]] == -1
        assert all(shape.parents[b] == a for a, b in itertools.pairwise(path))
        assert shape.children[shape.parents[node]][shape.ranks[node]] == node
    assert sum(len(shape.level(depth)) for depth in range(1, shape.depth + 1)) == len(shape)
    assert set(shape.leaves()) == set(range(len(shape))) - set(shape.parents)
    ranks = [tuple(shape.ranks[i] for i in shape.path(node)) for node in range(len(shape))]
    assert TreeShape.of_paths(random.Random(seed).sample(ranks, len(ranks))) == shape


@pytest.mark.parametrize("seed", range(5))
def test_cutting_keeps_the_upper_levels_with_their_indices(seed):
    shape = random_shape(seed)
    for depth in range(shape.depth + 2):
        cut = shape.cut(depth)
        assert cut.depth == min(depth, shape.depth) and cut.parents == shape.parents[: len(cut)]


def test_named_shapes():
    assert TreeShape.chain(3) == TreeShape.by_branching(1, 1, 1) and TreeShape.chain(3).is_chain
    assert len(TreeShape.by_branching(3, 2, 1)) == 3 + 6 + 6
    assert not TreeShape.by_branching(2).is_chain and len(TreeShape(())) == TreeShape(()).depth == 0


@pytest.mark.parametrize("parents", [(0,), (-2,), (-1, 1), (-1, 0, -1), (-1, -1, 1, 0)])
def test_parents_out_of_order_are_refused(parents):
    with pytest.raises(ValueError, match="parents must"):
        TreeShape(parents)


@pytest.mark.parametrize("branching", [(), (0,), (2, -1), (1.5,)])
def test_bad_branching_is_refused(branching):
    with pytest.raises(ValueError, match="branching must"):
        TreeShape.by_branching(*branching)


def test_bad_trees_are_refused():
    with pytest.raises(ValueError, match="lower ranks first"):
        TreeShape.of_paths([(1,)])
    for tree in ("ab", 3, (), None):
        with pytest.raises(TypeError, match="tree must be"):
            as_shape(tree)
    with pytest.raises(ValueError, match="one for each of 2 nodes, got 1"):
        TokenTree(TreeShape((-1, 0)), (5,))
