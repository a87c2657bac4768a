"""Pictures of draft trees: what a chain wastes, a tree and its mask, and the budget of nodes.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. No model runs here
and nothing is timed; shapes and their worth come from `measure/trees.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from specdec_lab.decoding.rounds import Trace
from specdec_lab.decoding.token_tree import ROOT, TreeShape
from specdec_lab.measure.trees import RankAcceptance, best_shape, expected_tokens

from .style import BLUE, FONT_SIZE, GREEN, GREY, SERIES, SKY, VERMILION, label, new_figure
from .words import many, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST = 10  # letters of a token that a picture shows
OWN = -2  # the place of the target's own token in a drawing

# ---------------------------------------------------------------- why a tree


def fates_by_place(runs: Sequence[Trace]) -> tuple[Figure, str]:
    """What became of the tokens at each place of a chain: accepted, rejected, never judged. Taught in notebook 09.

    Args:
        runs: recorded with chains; their counts are added up.

    Returns:
        The figure, and a sentence with the share that was never judged, first and last place and in all.

    Raises:
        ValueError: nothing was drafted.
    """
    tables = [run.acceptance_by_position() for run in runs]
    depth = max(map(len, tables), default=0)
    if not depth:
        raise ValueError("the runs drafted nothing")
    places = [[table[place] for table in tables if len(table) > place] for place in range(depth)]
    drafted, judged, accepted = (
        [sum(row[key] for row in rows) for rows in places] for key in ("drafted", "judged", "accepted")
    )
    figure, (ax,) = new_figure(height=4.4)
    numbers, bottom = range(1, depth + 1), [0] * depth
    parts = (
        ("accepted", accepted, {"color": GREEN}),
        ("rejected", [j - a for j, a in zip(judged, accepted, strict=True)], {"color": VERMILION, "hatch": "//"}),
        ("never judged", [d - j for d, j in zip(drafted, judged, strict=True)], {"color": "white"}),
    )  # fmt: skip
    for name, heights, look in parts:
        ax.bar(numbers, heights, bottom=bottom, label=name, edgecolor=GREY, **look)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    ax.set_xticks(list(numbers))
    ax.grid(False, axis="x")
    label(ax, "What became of the drafted tokens", "place in the chain", "drafted tokens")
    figure.legend(loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    shares = [100 * (1 - j / d) for d, j in zip(drafted, judged, strict=True)]
    sentence = (
        f"Of {sum(drafted)} drafted tokens {sum(accepted)} were accepted, {sum(judged) - sum(accepted)} rejected and "
        f"{sum(drafted) - sum(judged)} never judged; never judged at place 1: {shares[0]:.0f} %, at place {depth}: "
        f"{shares[-1]:.0f} %."
    )
    return figure, sentence


# ---------------------------------------------------------------- a tree, and its mask


def tree_of_round(
    words: Sequence[str], shape: TreeShape, accepted: Sequence[int], own: str | None, before: str = "text"
) -> tuple[Figure, str]:
    """A tree of guesses with the accepted path and the target's own token behind it. Taught in notebook 09.

    Args:
        words: one for each node, readable.
        shape: where they hang; one node or more.
        accepted: nodes of the accepted path, in order; may be empty.
        own: the target's own token; None where the path ended with an end token.
        before: what stands at the root, such as the last confirmed token.

    Returns:
        The figure, and a sentence with the path.

    Raises:
        ValueError: no nodes, another number of words, or a path that is none.
    """
    if not len(shape) or len(words) != len(shape):
        raise ValueError(f"words must hold one for each node, got {len(words)} for {len(shape)}")
    if accepted and tuple(accepted) != shape.path(accepted[-1]):
        raise ValueError(f"accepted must be a path from the root, got {list(accepted)}")
    leaves = len(shape.leaves())
    figure, (ax,) = new_figure(width=10.0, height=1.3 + 0.52 * (leaves + 1))
    texts = {ROOT: shortened(before, LONGEST)} | {
        node: f"{node}: {shortened(word, LONGEST)}" for node, word in enumerate(words)
    }
    last = accepted[-1] if accepted else ROOT
    places = _draw_tree(ax, shape, texts, accepted, None if own is None else last)
    if own is not None:
        (x, y), (before_x, above) = places[OWN], places[last]
        ax.plot([before_x, x], [above, y], "--", color=BLUE, linewidth=2.4, zorder=1)
        ax.text(x, y, f"+ {shortened(own, LONGEST)}", **_box(BLUE, "white"))
    levels = int(max(x for x, _ in places.values()))
    ax.set(xlim=(-0.5, levels + 0.5), ylim=(max(y for _, y in places.values()) + 0.6, -0.8))
    _only_depths(ax, range(levels + 1))
    ax.set_title(f"{many(len(shape), 'node')}, {len(accepted)} accepted", fontsize=FONT_SIZE + 1, loc="left")
    path = " ".join(f"‘{words[node]}’" for node in accepted)
    kept = (
        f"accepted: {path} (node{'s' * (len(accepted) > 1)} {', '.join(map(str, accepted))})"
        if accepted
        else ""
    )
    tail = f"the target adds ‘{own}’" if own is not None else "it ends the text"
    sentence = (
        f"A tree of {many(len(shape), 'node')} behind ‘{before}’, {many(shape.depth, 'level')} deep; "
        f"{kept or 'nothing accepted'}; {tail}. {many(len(accepted) + (own is not None), 'token')} for one target pass."
    )
    return figure, sentence


def mask_of_tree(
    confirmed: Sequence[str], words: Sequence[str], shape: TreeShape, node: int, shown: int = 3
) -> tuple[Figure, str]:
    """The attention mask of a tree: rows are nodes, columns the text and the nodes. Taught in notebook 09.

    Args:
        confirmed: the confirmed tokens, readable; their number is the first node's position.
        words, shape: the tree; one node or more.
        node: the row to point out.
        shown: how many confirmed tokens are drawn.

    Returns:
        The figure, and a sentence with what the node sees and its position.

    Raises:
        ValueError: no nodes, another number of words, no such node, or no confirmed token.
    """
    if not len(shape) or len(words) != len(shape):
        raise ValueError(f"words must hold one for each node, got {len(words)} for {len(shape)}")
    if not 0 <= node < len(shape):
        raise ValueError(f"node must be between 0 and {len(shape) - 1}, got {node}")
    if not confirmed or shown < 1:
        raise ValueError("mask_of_tree needs at least one confirmed token, and to show one")
    from matplotlib.patches import Rectangle

    shown = min(shown, len(confirmed))
    names = [*confirmed[-shown:], *(f"{i}: {shortened(word, LONGEST)}" for i, word in enumerate(words))]
    positions = shape.positions(len(confirmed))
    figure, (ax,) = new_figure(width=9.6, height=2.4 + 0.5 * len(shape))
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    for row, sees in enumerate(shape.mask()):
        for column, seen in enumerate([True] * shown + sees):
            colour = (BLUE if row == node else SKY) if seen else "white"
            square = Rectangle((column - 0.46, row - 0.42), 0.92, 0.84, edgecolor=GREY, facecolor=colour)
            square.set(linewidth=0.8, alpha=1.0 if row == node else 0.55)
            ax.add_patch(square)
            if not seen:
                ax.text(column, row, "×", color=GREY, ha="center", va="center", fontsize=FONT_SIZE - 2)
        weight = "bold" if row == node else "normal"
        ax.text(
            len(names) - 0.2,
            row,
            f"position {positions[row]}",
            va="center",
            fontsize=FONT_SIZE,
            fontweight=weight,
        )
    ax.axvline(shown - 0.5, color="black", linewidth=1.5, linestyle="--")
    ax.set(xlim=(-0.5, len(names) + 1.9), ylim=(len(shape) - 0.4, -0.6))
    ax.set_xticks(range(len(names)), [shortened(name, LONGEST + 3) for name in names], rotation=35, ha="left")
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(shape)), names[shown:])
    for text in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
        text.set(parse_math=False, fontsize=FONT_SIZE - 1)
    ax.get_yticklabels()[node].set_fontweight("bold")
    above = [f"node {i} ‘{words[i]}’" for i in shape.path(node)[:-1]]
    hidden = [str(i) for i in range(len(shape)) if not shape.mask()[node][i]]
    sentence = (
        f"Node {node} ‘{words[node]}’ sees all {many(len(confirmed), 'confirmed token')}"
        f"{''.join(f', {one}' for one in above)} and itself, but not node{'s' * (len(hidden) != 1)} "
        f"{', '.join(hidden) or '(none)'}. It stands at position {positions[node]}: {len(confirmed)} + depth "
        f"{shape.depths[node]} - 1."
    )
    return figure, sentence


# ---------------------------------------------------------------- how many nodes


def tokens_by_budget(
    acceptance: RankAcceptance,
    budget: int,
    verify_costs: Mapping[str, Callable[[int], float]],
    verify_cost: str,
    draft_cost: Callable[[int], float],
    most: int = 16,
) -> tuple[Figure, str]:
    """Expected tokens per round and speed-up of the best shape against its nodes, and the shape. Taught in notebook 09.

    Args:
        acceptance: measured by depth and rank.
        budget: nodes of the shape that is drawn, 1…most.
        verify_costs: name → v(n), asked for 1 + nodes; `verify_cost` is the one that counts.
        draft_cost: levels → what drafting them costs, in target passes over one token.

    Returns:
        The figure, and a sentence with both values at the budget and with the optimum.

    Raises:
        ValueError: no such cost, or a budget outside 1…most.
    """
    if verify_cost not in verify_costs:
        raise ValueError(f"verify_cost must be one of {', '.join(verify_costs)}, got {verify_cost!r}")
    if not 1 <= budget <= most:
        raise ValueError(f"budget must be between 1 and {most}, got {budget}")
    v, budgets = verify_costs[verify_cost], range(1, most + 1)

    def worth(shape: TreeShape) -> float:
        return expected_tokens(shape, acceptance) / (draft_cost(shape.depth) + v(1 + len(shape)))

    levels = range(1, acceptance.depth + 1)
    shapes = {}
    for n in budgets:
        found = [best_shape(acceptance, n, depth) for depth in levels]
        most_nodes = max(
            map(len, found)
        )  # n, unless fewer were measured; a shallow tree may not have so many
        shapes[n] = max((shape for shape in found if len(shape) == most_nodes), key=worth)
    tokens = [expected_tokens(shapes[n], acceptance) for n in budgets]
    speedups = [worth(shapes[n]) for n in budgets]
    best = max(budgets, key=lambda n: speedups[n - 1])
    figure, (ax, beside) = new_figure(2, width=5.6, height=4.8)
    for values, (colour, marker, dash), name in (
        (tokens, SERIES[0], "tokens per round"),
        (speedups, SERIES[1], "speed-up"),
    ):
        ax.plot(budgets, values, dash, marker=marker, color=colour, linewidth=2.4, markersize=7, label=name)
        ax.plot(budget, values[budget - 1], marker, color=colour, markersize=15)
    ax.axvline(best, color="black", linewidth=1.5, linestyle=":")
    ax.axhline(1, color=GREY, linewidth=1.5, linestyle="--")
    ax.text(
        best, 0.02, "best ", transform=ax.get_xaxis_transform(), ha="right", va="bottom", fontsize=FONT_SIZE
    )
    ax.set(ylim=(0, 1.45 * max(tokens)), xticks=[1, *range(4, most + 1, 4)])
    ax.legend(fontsize=FONT_SIZE - 1, frameon=False, loc="upper left")
    label(ax, f"Verify cost: {verify_cost}", "nodes in the tree", "expected")
    shape = shapes[budget]
    reached = {ROOT: 1.0}
    for node, (parent, depth, rank) in enumerate(zip(shape.parents, shape.depths, shape.ranks, strict=True)):
        reached[node] = reached[parent] * acceptance.chances[depth - 1][rank]
    texts = {node: f"{100 * chance:.0f} %" for node, chance in reached.items()} | {ROOT: "text"}
    places = _draw_tree(beside, shape, texts, ())
    deepest = max(row for _, row in places.values())
    beside.set(xlim=(-0.5, acceptance.depth + 0.5), ylim=(max(deepest + 0.6, 3), -0.8))
    _only_depths(beside, range(acceptance.depth + 1))
    beside.set_title("Chance that a node is kept", fontsize=FONT_SIZE + 1, loc="left")
    return figure, (
        f"{many(budget, 'node')}, {many(shape.depth, 'level')}: {tokens[budget - 1]:.1f} tokens per round are expected, "
        f"for a speed-up of {speedups[budget - 1]:.1f} where the verify cost is {verify_cost}; "
        f"the most is {speedups[best - 1]:.1f}, with {many(best, 'node')}."
    )


# ---------------------------------------------------------------- parts


def _draw_tree(
    ax: Axes,
    shape: TreeShape,
    texts: Mapping[int, str],
    accepted: Sequence[int],
    own_behind: int | None = None,
) -> dict[int, tuple[float, float]]:
    """Boxes and lines; a node stands beside its first child. Returns node → (depth, row), and a place for a token
    behind the node `own_behind` under `OWN`."""
    rows: dict[int, float] = {}
    free = 0

    def place(node: int) -> None:
        nonlocal free
        below = [*shape.children[node], *([OWN] if node == own_behind else [])]
        for child in below:
            if child == OWN:
                rows[OWN], free = free, free + 1
            else:
                place(child)
        if below:
            rows[node] = rows[below[0]]
        else:
            rows[node], free = free, free + 1

    place(ROOT)
    depths = {ROOT: 0} | dict(enumerate(shape.depths))
    if own_behind is not None:
        depths[OWN] = depths[own_behind] + 1
    places = {node: (depths[node], row) for node, row in rows.items()}
    for node, parent in enumerate(shape.parents):
        (x, y), (before, above) = places[node], places[parent]
        good = node in accepted
        ax.plot(
            [before, x], [above, y], color=GREEN if good else GREY, linewidth=4 if good else 1.5, zorder=1
        )
    for node in range(ROOT, len(shape)):
        x, y = places[node]
        filled = GREEN if node in accepted else "#E8E8E8" if node == ROOT else "white"
        ax.text(x, y, texts[node], **_box(GREEN if node in accepted else GREY, filled, node in accepted))
    return places


def _box(edge: str, fill: str, strong: bool = False) -> dict:
    return {
        "ha": "center",
        "va": "center",
        "fontsize": FONT_SIZE - 1,
        "parse_math": False,
        "color": "white" if strong else "black",
        "fontweight": "bold" if strong else "normal",
        "bbox": {"boxstyle": "round,pad=0.3", "facecolor": fill, "edgecolor": edge, "linewidth": 1.6},
        "zorder": 3,
    }


def _only_depths(ax: Axes, depths: range) -> None:
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.set_yticks([])
    ax.tick_params(length=0)
    ax.set_xticks(list(depths), ["text", *(f"depth {depth}" for depth in depths[1:])])
