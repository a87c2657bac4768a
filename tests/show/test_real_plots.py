"""Pictures of a real model: sentences held against numbers made by hand, bars and lines against sentences."""

from __future__ import annotations

import pytest

from specdec_lab.show.control import Control
from specdec_lab.show.explorer import explore
from specdec_lab.show.real_plots import agreement_by_exit, memory_by_context, verify_costs, why_it_pays

PARTS = {"big": (8e9, 100_000.0), "small": (2e9, 25_000.0)}


def words(ax):
    return [text.get_text() for text in ax.texts]


# ---------------------------------------------------------------- memory


def test_weights_stay_and_caches_grow():
    figure, sentence = memory_by_context(PARTS, 32768, 16)
    assert sentence == (
        "32,768 tokens: weights, big 8.00 GB, weights, small 2.00 GB, KV cache, big 3.28 GB, KV cache, small 0.82 GB; "
        "14.1 GB in all, which fits into 16 GB. The caches outgrow the weights from 80,000 tokens on."
    )
    (ax,) = figure.axes
    heights = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert heights[0] == [8.0] * 6 and heights[1] == [2.0] * 6
    assert heights[2] == pytest.approx([n * 1e-4 for n in (1024, 4096, 16384, 32768, 65536, 131072)])
    assert [bar.get_y() for bar in ax.containers[3]] == pytest.approx([10 + h for h in heights[2]])
    assert words(ax) == ["16 GB", "14.1 GB"]
    assert "does not fit into 14 GB" in memory_by_context(PARTS, 32768, 14)[1]


def test_a_target_alone_and_a_model_without_a_cache():
    figure, sentence = memory_by_context({"big": (8e9, 1e5)}, 10, 9, lengths=(10, 80_001))
    assert sentence.endswith(
        "8.00 GB in all, which fits into 9 GB. The caches outgrow the weights from 80,000 tokens on."
    )
    assert len(figure.axes[0].containers) == 2
    assert memory_by_context({"copy": (1e9, 0)}, 10, 9, lengths=(10,))[1].endswith("fits into 9 GB.")


def test_every_control_of_the_memory_changes_the_sentence():
    lengths = [1024, 4096, 16384, 32768, 65536, 131072]
    explorer = explore(
        lambda tokens, memory: memory_by_context(PARTS, tokens, memory),
        tokens=Control(lengths),
        memory=Control([8, 16, 80]),
    )
    assert len(set(explorer.check(every=True))) >= len(lengths) + 2


@pytest.mark.parametrize(
    ("parts", "tokens", "message"),
    [
        (PARTS, 1000, "one of 1024, .*, got 1000"),
        ({}, 1024, "got 0"),
        (PARTS | {"third": (1, 1)}, 1024, "got 3"),
    ],
)
def test_no_such_memory(parts, tokens, message):
    with pytest.raises(ValueError, match=message):
        memory_by_context(parts, tokens, 16)


# ---------------------------------------------------------------- early exits


def test_exits_stand_against_what_they_cost():
    figure, sentence = agreement_by_exit([0.0, 0.125, 0.75, 0.9], [0.4, 0.55, 0.7, 0.85])
    assert sentence == (
        "An exit after 2 of 5 layers agrees in 12 % and costs 0.55 of a pass, after 4 in 90 % for 0.85; half of the tokens "
        "are reached after 3. Exits above the line: 3, 4."
    )
    agrees, costs = figure.axes[0].lines
    assert list(agrees.get_xdata()) == [1, 2, 3, 4] and list(agrees.get_ydata()) == pytest.approx(
        [0, 12.5, 75, 90]
    )
    assert list(costs.get_ydata()) == pytest.approx([40, 55, 70, 85])


def test_exits_that_never_agree():
    sentence = agreement_by_exit([0.1, 0.2], [0.5, 0.75])[1]
    assert sentence.endswith("none reaches half of the tokens. Exits above the line: none.")


@pytest.mark.parametrize(("shares", "costs"), [([], []), ([0.1], [0.5, 0.7])])
def test_no_such_exits(shares, costs):
    with pytest.raises(ValueError, match="one for each"):
        agreement_by_exit(shares, costs)


# ---------------------------------------------------------------- costs


def test_verify_costs_of_two_formats():
    figure, sentence = verify_costs(
        {"bfloat16": {1: 1.0, 2: 1.0, 9: 1.35}, "float32": {1: 1.0, 2: 1.6, 9: 1.8}}
    )
    assert sentence == ("Verify cost: bfloat16 v(2) = 1.00, v(9) = 1.35; float32 v(2) = 1.60, v(9) = 1.80.")
    lines = figure.axes[0].lines
    assert list(lines[0].get_ydata()) == [1.0, 1.0, 1.35] and list(lines[1].get_xdata()) == [1, 2, 9]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["bfloat16", "float32"]


@pytest.mark.parametrize("costs", [{}, {"float32": {2: 1.6, 9: 1.8}}, {"float32": {1: 1.0}}])
def test_no_verify_costs(costs):
    with pytest.raises(ValueError, match=r"v\(1\)"):
        verify_costs(costs)


def test_a_round_is_held_against_its_price():
    figure, sentence = why_it_pays(
        {"copy: lookup": (4.5, 0.0, 1.5, 2.9), "chat: exit": (1.0, 1.0, 1.25, 0.5)}
    )
    assert sentence == (
        "copy: lookup 4.50 tokens for 1.50 target passes, so 3.00 was to be expected, and 2.90 was measured; chat: exit "
        "1.00 tokens for 2.25 target passes, so 0.44 was to be expected, and 0.50 was measured."
    )
    (ax,) = figure.axes
    assert words(ax) == ["÷ gives 3.00; measured 2.90", "÷ gives 0.44; measured 0.50"]
    widths = [bar.get_width() for bars in ax.containers for bar in bars]
    assert widths == [4.5, 1.5, 0.0, 1.0, 1.25, 1.0]
    drafting = ax.containers[-1][0]
    assert drafting.get_x() == 1.25, "drafting stands behind verifying"
    with pytest.raises(ValueError, match="at least one contender"):
        why_it_pays({})
