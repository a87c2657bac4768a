"""Pictures of streams: sentences held against counts made by hand, marks against sentences."""

from __future__ import annotations

import pytest

from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.show.control import Control
from specdec_lab.show.explorer import explore
from specdec_lab.show.method_plots import accuracy_ahead, parameters, runs_by_kept, runs_by_streams
from specdec_lab.show.picture import to_png
from specdec_lab.show.stream_plots import mask_of_streams, network, pruned_nodes, rows_of_a_pass
from specdec_lab.show.style import BLUE, GREEN

SHAPE = TreeShape((-1, -1, 0))
TEXT, WORDS = ["r", "s", "t", "u"], ["a", "b", "c"]


def words(ax):
    return [text.get_text() for text in ax.texts]


def colour(patch):
    from matplotlib.colors import to_hex

    return to_hex(patch.get_facecolor()).upper()


# ---------------------------------------------------------------- where streams run


def test_the_network_says_what_each_stream_guesses():
    figure, sentence = network(6, 2, 3)
    assert sentence == (
        "The main stream runs through all 6 layers and chooses token t + 1. From layer 5 on, 3 streams beside it guess "
        "tokens t + 2 to t + 4, through 2 layers; they read the main stream, and it reads nothing of them."
    )
    (ax,) = figure.axes
    assert words(ax).count("+ adapters") == 2 * 3
    assert {"layers 1 to 4", "layer 5", "layer 6", "next, t + 1", "guess of t + 4"} <= set(words(ax))
    assert len(ax.patches) == 1 + 2 + 2 * 3
    assert [tick.get_text() for tick in ax.get_xticklabels()][-1] == "stream 3\nposition t + 3"


def test_a_network_may_have_streams_everywhere_and_one_only():
    figure, sentence = network(3, 3, 1)
    assert "From layer 1 on, 1 stream beside it guess token t + 2, through 3 layers" in sentence
    assert not any(text.startswith("layers 1 to") for text in words(figure.axes[0]))
    assert "through 1 layer;" in network(3, 1, 2)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((4, 5, 1), "between 1 and the 4 layers, got 5"), ((4, 0, 1), "got 0"), ((4, 2, 0), "1 or more, got 0")],
)
def test_no_such_network(arguments, message):
    with pytest.raises(ValueError, match=message):
        network(*arguments)


# ---------------------------------------------------------------- who sees whom


def test_a_stream_sees_its_own_row_of_the_main_stream_and_earlier_streams():
    figure, sentence = mask_of_streams(TEXT, WORDS, SHAPE, 2, 11, shown=2)
    assert sentence == (
        "Stream 2 of node 2 ‘c’ sees all 4 confirmed tokens, node 0, node 2, stream 1 beside it and itself, and no "
        "other stream. It stands at position 7 and guesses the token of position 8."
    )
    (ax,) = figure.axes
    columns = 2 + 3 + 4 * 2
    assert len(ax.patches) == 12 * columns
    rows = [[colour(patch) for patch in ax.patches[i * columns : (i + 1) * columns]] for i in range(12)]
    blank = "#FFFFFF"
    assert rows[11] == [BLUE] * 3 + [blank, BLUE] + [blank] * 6 + [GREEN] * 2
    assert rows[4] == [BLUE] * 3 + [blank] * 2 + [blank] * 2 + [GREEN] + [blank] * 5
    for main in (0, 3, 6, 9):
        assert GREEN not in rows[main], "the main stream sees no stream"
    strong = [patch.get_alpha() for patch in ax.patches]
    assert [i for i, alpha in enumerate(strong) if alpha == 1.0] == list(range(11 * columns, 12 * columns))
    positions = [text for text in words(ax) if text.startswith("position")]
    assert positions == [f"position {p}" for p in (3, 4, 5, 4, 5, 6, 4, 5, 6, 5, 6, 7)]
    assert [tick.get_text() for tick in ax.get_yticklabels()][9:] == ["main, 2: c", "stream 1", "stream 2"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (0, "The main stream's row of the last confirmed token ‘u’ sees all 4 confirmed tokens, and no stream. It "
            "stands at position 3 and chooses the token of position 4."),
        (1, "Stream 1 of the last confirmed token ‘u’ sees all 4 confirmed tokens and itself, and no other stream. It "
            "stands at position 4 and guesses the token of position 5."),
        (9, "The main stream's row of node 2 ‘c’ sees all 4 confirmed tokens, node 0 and itself, and no stream. It "
            "stands at position 5 and chooses the token of position 6."),
    ],
)  # fmt: skip
def test_other_rows_of_the_mask(row, told):
    assert mask_of_streams(TEXT, WORDS, SHAPE, 2, row)[1] == told


def test_every_row_of_the_mask_has_its_own_sentence():
    explorer = explore(
        lambda row: mask_of_streams(TEXT, WORDS, SHAPE, 2, row), row=Control((0, 11, 1), default=5)
    )
    assert len(set(explorer.check(every=True))) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TEXT, WORDS, SHAPE, 2, 12), "row must be between 0 and 11, got 12"),
        ((TEXT, WORDS[:2], SHAPE, 2, 0), "got 2 for 3"),
        ((TEXT, WORDS, SHAPE, 0, 0), "needs a stream"),
        (([], WORDS, SHAPE, 2, 0), "at least one confirmed token"),
    ],
)
def test_no_such_mask(arguments, message):
    with pytest.raises(ValueError, match=message):
        mask_of_streams(*arguments)


def test_signs_in_tokens_are_drawn_as_they_are():
    strange = ["$x$", "\\frac", "␣a-very-long-token"]
    to_png(mask_of_streams(["$", "$y$"], strange, SHAPE, 1, 3)[0])
    to_png(pruned_nodes(strange, SHAPE, [0.5, 0.1, 0.2], 1, (0,))[0])


# ---------------------------------------------------------------- how good, how much


def test_accuracies_stand_side_by_side():
    entries = [{"top1": 0.5, "top2": 0.6, "top8": 0.9}, {"top1": 0.25, "top2": 0.3, "top8": 0.625}]
    figure, sentence = accuracy_ahead({"streams": entries, "Medusa": entries[:1]})
    assert sentence == (
        "For 1 to 2 places ahead: streams 50 %, 25 % at first, 90 %, 62 % among the 8 likeliest; Medusa 50 % at first, "
        "90 % among the 8 likeliest."
    )
    lines = figure.axes[0].lines
    assert [list(line.get_ydata()) for line in lines] == [[50, 25], [90, 62.5], [50], [90]]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 4
    for wrong in ({}, {"streams": []}):
        with pytest.raises(ValueError, match="at least one"):
            accuracy_ahead(wrong)


def test_rows_are_counted_by_layer():
    figure, sentence = rows_of_a_pass(16, 4, 8, 4)
    assert sentence == (
        "8 nodes and the last token are 9 rows through 16 layers; with 4 streams behind each, 36 more through the top "
        "4. Rows × layers: 144 become 288, 2.00 times as many."
    )
    main, more = figure.axes[0].containers
    assert [bar.get_width() for bar in main] == [9] * 16
    assert [(round(bar.get_y() + bar.get_height() / 2), bar.get_width()) for bar in more] == [
        (layer, 36) for layer in (13, 14, 15, 16)
    ]
    assert "1 node and the last token are 2 rows" in rows_of_a_pass(2, 2, 1, 1)[1]
    assert "0 nodes and the last token are 1 row through" in rows_of_a_pass(2, 1, 0, 1)[1]
    for arguments in ((2, 3, 1, 1), (2, 1, -1, 1), (2, 1, 1, 0)):
        with pytest.raises(ValueError, match="must be"):
            rows_of_a_pass(*arguments)


@pytest.mark.parametrize(
    ("keep", "accepted", "told"),
    [
        (1, (0, 2), "Of 3 nodes, those with streams: 0; the accepted path ends at node 2, which has none: the next "
                    "round drafts nothing."),
        (2, (0, 2), "Of 3 nodes, those with streams: 0, 2; the accepted path ends at node 2, which has them."),
        (0, (), "Of 3 nodes, those with streams: none; nothing was accepted, and the row before the drafts always has "
                "streams."),
    ],
)  # fmt: skip
def test_the_likeliest_paths_get_streams(keep, accepted, told):
    figure, sentence = pruned_nodes(WORDS, SHAPE, [0.6, 0.0004, 0.3], keep, accepted)
    assert sentence == told
    (ax,) = figure.axes
    bars = [bar for bars in ax.containers for bar in bars]
    assert [bar.get_width() for bar in bars] == pytest.approx([60, 0.04, 30])
    assert sum(colour(bar) == GREEN for bar in bars) == keep
    assert "below 0.1 %" in words(ax)[1]
    assert sum("ends here" in text for text in words(ax)) == bool(accepted)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0: a", "1: b", "2: a c"]


def test_no_such_pruning():
    with pytest.raises(ValueError, match="got 3 and 2 for 3"):
        pruned_nodes(WORDS, SHAPE, [0.5, 0.5], 1, ())
    with pytest.raises(ValueError, match="one for each node"):
        pruned_nodes([], TreeShape(()), [], 1, ())


def test_parameters_are_compared_with_the_target():
    figure, sentence = parameters(5_000_000, {"draft model": 1_250_000, "streaming": 440_000})
    assert sentence == (
        "Beside the target's 5.00 million parameters: draft model 1.25 million, 25 % of the target; streaming 0.44 "
        "million, 9 % of the target."
    )
    bars = [bar for bars in figure.axes[0].containers for bar in bars]
    assert [bar.get_width() for bar in bars] == [1.25, 0.44]
    for arguments in ((0, {"a": 1}), (1, {})):
        with pytest.raises(ValueError, match="at least one method"):
            parameters(*arguments)


# ---------------------------------------------------------------- stored runs


def row(layers=4, streams=3, keep=None, tokens=2.0, rows=27.0, speedup=1.2):
    return {
        "layers": layers, "streams": streams, "keep": keep, "tokens_per_round": tokens, "stream_rows_per_round": rows,
        "speedup": speedup, "speedup_low": speedup - 0.1, "speedup_high": speedup + 0.2,
    }  # fmt: skip


REFERENCE = {
    "rows": [
        *(
            row(layers, streams, tokens=1 + 0.1 * streams + 0.01 * layers)
            for layers in (1, 4)
            for streams in (1, 2, 3)
        ),
        row(keep=2, tokens=9.0),
    ],
    "accuracy": {"1": [{"top1": 0.25}], "4": [{"top1": 0.5}]},
    "parameters": {"1": 150_000, "4": 440_000},
}


def test_a_stored_run_is_pointed_out():
    figure, sentence = runs_by_streams(REFERENCE, 4, 3)
    assert sentence == (
        "N_s = 4, γ = 3: 1.34 tokens per round with 27.0 stream rows through 4 layers in a round; speed-up 1.20 (1.10 "
        "to 1.40). 0.44 million parameters, stream 1 right at first in 50 %."
    )
    tokens, speedups = figure.axes
    assert list(tokens.lines[0].get_ydata()) == pytest.approx([1.11, 1.21, 1.31])
    assert list(tokens.lines[1].get_ydata()) == pytest.approx([1.14, 1.24, 1.34]), "pruned runs are no part"
    assert [list(line.get_ydata()) for line in tokens.lines if line.get_markersize() == 16] == [
        [pytest.approx(1.34)]
    ]
    assert list(speedups.lines[1].get_ydata()) == [1.2] * 3
    assert "through 1 layer in a round" in runs_by_streams(REFERENCE, 1, 2)[1]
    with pytest.raises(ValueError, match="no run with N_s = 2 and γ = 3"):
        runs_by_streams(REFERENCE, 2, 3)


def test_every_stored_run_has_its_own_sentence():
    explorer = explore(
        lambda n_s, gamma: runs_by_streams(REFERENCE, n_s, gamma),
        n_s=Control([1, 4]),
        gamma=Control((1, 3, 1), default=2),
    )
    assert len(set(explorer.check(every=True))) == 5


def test_pruned_runs_stand_in_order():
    rows = [
        row(rows=27.0),
        row(keep=2, tokens=1.75, rows=8.5, speedup=1.3),
        row(keep=0, tokens=1.5, rows=3.0),
    ]
    figure, sentence = runs_by_kept(rows)
    assert sentence == (
        "Nodes with streams 0: 1.50 tokens and 3.0 stream rows per round, speed-up 1.20; 2: 1.75 tokens and 8.5 stream "
        "rows per round, speed-up 1.30; all: 2.00 tokens and 27.0 stream rows per round, speed-up 1.20."
    )
    assert [list(ax.lines[0].get_ydata()) for ax in figure.axes] == [
        [1.5, 1.75, 2.0],
        [3.0, 8.5, 27.0],
        [1.2, 1.3, 1.2],
    ]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0", "2", "all"]
    for wrong in ([], [row(), row(streams=2)]):
        with pytest.raises(ValueError, match="all of one N_s and one γ"):
            runs_by_kept(wrong)
