"""Pictures of methods: sentences held against numbers made by hand, bars against sentences."""

from __future__ import annotations

import pytest

from specdec_lab.show.method_plots import (
    accuracy_of_heads,
    measured_speedups,
    speedup_by_verify_cost,
    training_curve,
)


def words(ax):
    return [text.get_text() for text in ax.texts]


# ---------------------------------------------------------------- heads


def test_the_table_of_heads():
    accuracy = [{"top1": 0.5, "top2": 0.625, "top8": 0.9}, {"top1": 0.25, "top2": 0.375, "top8": 0.6}]
    figure, sentence = accuracy_of_heads(accuracy)
    assert sentence == (
        "On text that it was not trained on, head 1 has the right token first in 50 %, among its 8 in 90 %; head 2 has "
        "the right token first in 25 %, among its 8 in 60 %."
    )
    assert words(figure.axes[0]) == ["50 %", "62 %", "90 %", "25 %", "38 %", "60 %"]
    assert sentence.count("head") == 2 and accuracy_of_heads(accuracy[:1])[1].count("head") == 1
    with pytest.raises(ValueError, match="at least one head"):
        accuracy_of_heads([])


def test_the_training_curve():
    curve = [{"step": s, "held_out": [{"top1": 0.1 * s}, {"top1": 0.05 * s}]} for s in (1, 2, 4)]
    figure, sentence = training_curve(curve)
    assert sentence == (
        "From step 1 to step 4 first guesses get better: head 1 from 10 % to 40 %, head 2 from 5 % to 20 %."
    )
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [
        pytest.approx([10, 20, 40]),
        pytest.approx([5, 10, 20]),
    ]
    with pytest.raises(ValueError, match="at least one entry"):
        training_curve([])


# ---------------------------------------------------------------- methods


def test_prices_decide_the_order():
    methods = {"plain": (1.0, 0, 0), "tree": (3.0, 8, 4), "heads": (2.0, 8, 0)}
    assert speedup_by_verify_cost(methods, 0.0, 0.0)[1] == (
        "With 0 of a pass for each further token and c = 0: tree 3.0, heads 2.0, plain 1.0."
    )
    assert "heads 2.0, tree 1.2, plain 1.0" in speedup_by_verify_cost(methods, 0.0, 0.4)[1]
    figure, sentence = speedup_by_verify_cost(methods, 0.5, 0.0)
    assert "plain 1.0, tree 0.6, heads 0.4" in sentence
    assert [bar.get_width() for bars in figure.axes[0].containers for bar in bars] == [1, 3 / 5, 2 / 5]
    with pytest.raises(ValueError, match="at least one"):
        speedup_by_verify_cost({}, 0.0, 0.0)


def test_measured_rows_come_with_their_spread():
    rows = [
        {"method": name, "tokens_per_round": 2.5, "speedup": 1.4, "speedup_low": 1.3, "speedup_high": 1.6, "extra_parameters": n}
        for name, n in (("chain", 1_200_000), ("lookup", 0))
    ]  # fmt: skip
    figure, sentence = measured_speedups(rows)
    assert sentence == (
        "Speed-up over plain decoding: chain 1.40 (1.30 to 1.60) at 2.50 tokens per round, 1.2 million parameters "
        "more; lookup 1.40 (1.30 to 1.60) at 2.50 tokens per round, no parameters more."
    )
    assert "τ 2.50, 1.2 million parameters more" in words(figure.axes[0])
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["chain", "lookup"]
    with pytest.raises(ValueError, match="at least one"):
        measured_speedups([])


def test_measured_rows_of_several_budgets_are_told_apart():
    rows = [
        {"method": name, "budget": nodes, "tokens_per_round": 2.5, "speedup": 1.4, "speedup_low": 1.3, "speedup_high": 1.6, "extra_parameters": 0}
        for name, nodes in (("plain", 0), ("chain", 4), ("chain", 8), ("tree", 8))
    ]  # fmt: skip
    figure, sentence = measured_speedups(rows)
    named = ["plain", "chain, 4 nodes", "chain, 8 nodes", "tree, 8 nodes"]
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == named
    assert all(f"{name} 1.40" in sentence for name in named)
    plain, four, eight, tree = (bar.get_facecolor() for bars in figure.axes[0].containers[:4] for bar in bars)
    assert four == eight
    assert len({plain, four, tree}) == 3

    _, sentence = measured_speedups([rows[0], *rows[2:]])
    assert "nodes" not in sentence


def test_seven_methods_look_different_and_no_text_lies_on_the_line_at_one():
    rows = [
        {"method": name, "tokens_per_round": 1.5, "speedup": gain, "speedup_low": gain, "speedup_high": gain, "extra_parameters": 0}
        for name, gain in zip("abcdefg", (1.0, 0.5, 0.9, 0.99, 1.2, 1.5, 0.8), strict=True)
    ]  # fmt: skip
    (ax,) = measured_speedups(rows)[0].axes
    bars = [bar for bars in ax.containers[:7] for bar in bars]
    assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in bars}) == 7
    ax.figure.draw_without_rendering()
    line = ax.transData.transform((1, 0))[0]
    assert all(text.get_window_extent().x0 > line for text in ax.texts)
