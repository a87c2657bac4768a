"""Pictures of draft trees: sentences held against counts made by hand, marks against sentences."""

from __future__ import annotations

import pytest

from specdec_lab.decoding.rounds import Round, Trace
from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.measure.trees import RankAcceptance, best_shape, expected_tokens
from specdec_lab.show.control import Control
from specdec_lab.show.explorer import explore
from specdec_lab.show.picture import to_png
from specdec_lab.show.tree_plots import (
    fates_by_place,
    mask_of_tree,
    tokens_by_budget,
    tree_of_round,
)

SHAPE = TreeShape((-1, -1, 0, 1, 1))
WORDS = ["a", "b", "c", "d", "e"]
ACCEPTANCE = RankAcceptance(((0.6, 0.25), (0.5, 0.1)), ((100, 100), (100, 100)))
COSTS = {"free": lambda n: 1.0, "steep": lambda n: 0.5 + 0.5 * n}


def words(ax):
    return [text.get_text() for text in ax.texts]


# ---------------------------------------------------------------- a chain's tail


def test_the_fates_of_a_chain_add_up():
    rejected = Round((5, 6, 7), (-1, 0, 1), (0,), (5, 9), "correction", 3, 5, None, None, 0.0, 0.0)
    accepted = Round((5, 6), (-1, 0), (0, 1), (5, 6, 9), "bonus", 3, 6, None, None, 0.0, 0.0)
    figure, sentence = fates_by_place([Trace((1,), (rejected, accepted)), Trace((1,), (rejected,))])
    assert sentence == (
        "Of 8 drafted tokens 4 were accepted, 2 rejected and 2 never judged; never judged at place 1: 0 %, at place "
        "3: 100 %."
    )
    heights = [[bar.get_height() for bar in bars] for bars in figure.axes[0].containers]
    assert heights == [[3, 1, 0], [0, 2, 0], [0, 0, 2]]
    assert [bar.get_y() for bar in figure.axes[0].containers[2]] == [3, 3, 0], "one part stands on the other"
    with pytest.raises(ValueError, match="drafted nothing"):
        fates_by_place([])


# ---------------------------------------------------------------- a tree


def test_a_tree_shows_its_path_and_the_targets_own_token():
    figure, sentence = tree_of_round(WORDS, SHAPE, (1, 4), "own", "root")
    assert sentence == (
        "A tree of 5 nodes behind ‘root’, 2 levels deep; accepted: ‘b’ ‘e’ (nodes 1, 4); the target adds ‘own’. "
        "3 tokens for one target pass."
    )
    (ax,) = figure.axes
    assert {"root", "0: a", "4: e", "+ own"} <= set(words(ax))
    thick = [line for line in ax.lines if line.get_linewidth() == 4]
    assert len(thick) == 2
    boxes = {text.get_text(): text.get_position() for text in ax.texts}
    assert boxes["0: a"][1] == boxes["root"][1] == boxes["2: c"][1], "first children stand in one row"
    assert len(set(boxes.values())) == len(boxes), "no box hides another"
    assert boxes["3: d"][0] == boxes["4: e"][0] == 2


@pytest.mark.parametrize(
    ("accepted", "own", "told"),
    [
        ((), "x", "nothing accepted; the target adds ‘x’. 1 token for"),
        ((0,), "x", "accepted: ‘a’ (node 0); the target adds ‘x’. 2 tokens"),
        ((0, 2), None, "(nodes 0, 2); it ends the text. 2 tokens"),
    ],
)
def test_other_outcomes_of_a_tree(accepted, own, told):
    assert told in tree_of_round(WORDS, SHAPE, accepted, own)[1]


def test_no_such_tree():
    with pytest.raises(ValueError, match="must be a path from the root"):
        tree_of_round(WORDS, SHAPE, (0, 3), "x")
    with pytest.raises(ValueError, match="got 4 for 5"):
        tree_of_round(WORDS[:4], SHAPE, (), "x")
    with pytest.raises(ValueError, match="one for each node"):
        tree_of_round([], TreeShape(()), (), "x")


def test_signs_in_tokens_are_drawn_as_they_are():
    to_png(tree_of_round(["$x$", "$", "\\frac", "…", "␣a-very-long-token"], SHAPE, (0,), "$y$", "$z$")[0])
    to_png(mask_of_tree(["$x$"], ["$x$", "$", "\\frac", "…", "␣a-very-long-token"], SHAPE, 1)[0])


# ---------------------------------------------------------------- a mask


def test_a_mask_shows_ancestors_and_positions():
    figure, sentence = mask_of_tree(["r", "s", "t", "u"], WORDS, SHAPE, 4, shown=2)
    assert sentence == (
        "Node 4 ‘e’ sees all 4 confirmed tokens, node 1 ‘b’ and itself, but not nodes 0, 2, 3. It stands at position "
        "5: 4 + depth 2 - 1."
    )
    (ax,) = figure.axes
    hidden = sum(not seen for row in SHAPE.mask() for seen in row)
    assert words(ax).count("×") == hidden
    assert [text for text in words(ax) if text != "×"] == [f"position {p}" for p in (4, 4, 5, 5, 5)]
    assert len(ax.patches) == 5 * (2 + 5)
    assert [tick.get_text() for tick in ax.get_xticklabels()][:3] == ["t", "u", "0: a"]


def test_a_node_that_sees_everybody_hides_nobody():
    assert "but not nodes (none)." in mask_of_tree(["r"], ["a"], TreeShape((-1,)), 0)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["r"], WORDS, SHAPE, 5), "node must be between 0 and 4, got 5"),
        ((["r"], WORDS[:2], SHAPE, 0), "got 2 for 5"),
        (([], WORDS, SHAPE, 0), "at least one confirmed token"),
    ],
)
def test_no_such_mask(arguments, message):
    with pytest.raises(ValueError, match=message):
        mask_of_tree(*arguments)


# ---------------------------------------------------------------- a budget


def test_a_budget_shows_the_worth_and_the_optimum():
    figure, sentence = tokens_by_budget(ACCEPTANCE, 3, COSTS, "steep", lambda levels: 0.1 * levels, most=6)
    shape = best_shape(ACCEPTANCE, 3)
    assert sentence == (
        "3 nodes, 2 levels: 2.1 tokens per round are expected, for a speed-up of 0.8 where the verify cost is steep; "
        "the most is 1.0, with 1 node."
    )
    ax, tree = figure.axes
    tokens, speedups = ax.lines[0].get_ydata(), ax.lines[2].get_ydata()
    assert tokens[2] == pytest.approx(expected_tokens(shape, ACCEPTANCE))
    assert speedups[2] == pytest.approx(tokens[2] / (0.2 + 2.5))
    assert speedups[0] == pytest.approx(1.6 / (0.1 + 1.5))
    assert sorted(words(tree)) == sorted(["text", "60 %", "25 %", "30 %"])


def test_free_verification_asks_for_all_nodes():
    assert "with 6 nodes" in tokens_by_budget(ACCEPTANCE, 1, COSTS, "free", lambda levels: 0.0, most=6)[1]


def test_every_control_of_the_budget_changes_the_sentence():
    explorer = explore(
        lambda budget, cost: tokens_by_budget(ACCEPTANCE, budget, COSTS, cost, lambda levels: 0.0, most=6),
        budget=Control((1, 6, 1), default=2),
        cost=Control(list(COSTS)),
    )
    assert len(set(explorer.check(every=True))) >= 6


@pytest.mark.parametrize(
    ("budget", "cost", "message"), [(0, "free", "between 1 and 6, got 0"), (2, "none", "one of free, steep")]
)
def test_no_such_budget(budget, cost, message):
    with pytest.raises(ValueError, match=message):
        tokens_by_budget(ACCEPTANCE, budget, COSTS, cost, lambda levels: 0.0, most=6)
