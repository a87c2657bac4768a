"""Pictures about the KV cache: their sentences against counts, and what they draw."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest

from specdec_lab.show.cache_plots import AGAIN, KEPT, NEW, PAST, by_length, cache_step
from specdec_lab.show.picture import to_png

WORDS = ["our", "cat", "lies", "down", "on", "the", "mat"]


def marks(ax):
    """How often each mark is drawn."""
    drawn = [text.get_text() for text in ax.texts]
    return {mark: drawn.count(mark) for _, mark, _ in (NEW, AGAIN, KEPT, PAST)}


@pytest.mark.parametrize("t", range(1, len(WORDS) + 1))
def test_a_step_is_drawn_as_it_is_counted(t):
    """Counted pair by pair, without the closed forms: a query meets the keys up to its own."""
    figure, sentence = cache_step(t, WORDS)
    without, with_cache = figure.axes
    pairs = [(query, key) for query in range(t) for key in range(t) if key <= query]
    new = sum(query == t - 1 for query, _ in pairs)
    again = len(pairs) - new
    assert marks(without) == {"+": new + 2, "↻": again + 2 * (t - 1), "■": 0, "·": 0}
    assert marks(with_cache) == {"+": new + 2, "↻": 0, "■": 2 * (t - 1), "·": again}
    assert sentence == (
        f"Step {t}. Computed without a cache: keys {t}, values {t}, scores {len(pairs)}; of these once more: "
        f"keys {t - 1}, values {t - 1}, scores {again}. Computed with a cache: keys 1, values 1, scores {new}; "
        f"read from it: keys {t - 1}, values {t - 1}."
    )


def test_the_word_that_is_fed_stands_out_and_later_ones_are_pale():
    figure, _ = cache_step(3, WORDS)
    labels = figure.axes[0].get_xticklabels()
    assert [text.get_text() for text in labels] == WORDS
    assert [text.get_weight() == "bold" for text in labels] == [word == "lies" for word in WORDS]
    assert len({text.get_color() for text in labels[:3]}) == 1
    assert {text.get_color() for text in labels[3:]}.isdisjoint({labels[0].get_color()})


@pytest.mark.parametrize("t", [0, len(WORDS) + 1])
def test_a_step_outside_the_text_is_refused(t):
    with pytest.raises(ValueError, match=f"t must lie between 1 and the 7 words there are, got {t}"):
        cache_step(t, WORDS)


def test_lines_by_length_and_their_ends():
    curves = {"cat": [1, 6, 2_098_176.0], "slab": [1, 2, 3.26]}
    figure, sentence = by_length([1, 3, 2048], curves, "What appending copies", "copied", "rows")
    assert sentence == "What appending copies: copied in rows at 2,048 tokens: cat = 2,098,176; slab = 3.3."
    (ax,) = figure.axes
    assert [list(line.get_ydata()) for line in ax.lines] == list(curves.values())
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("tokens", "copied (rows)")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [
        "1",
        "4",
        "16",
        "64",
        "256",
        "1,024",
        "2,048",
    ]
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in ax.lines}
    assert len(looks) == 2


def test_linear_axes_begin_at_zero_and_end_at_the_last_length():
    figure, _ = by_length(range(1, 2049), {"all": range(1, 2049)}, "Cache", "memory", "MB", log=False)
    (ax,) = figure.axes
    assert ax.get_ylim()[0] == 0 and list(ax.get_xticks()) == [0, 512, 1024, 1536, 2048]


@pytest.mark.parametrize(
    ("lengths", "curves", "words"),
    [
        ([4], {"a": [1]}, "two or more rising numbers, got \\[4\\]"),
        ([1, 3, 3], {"a": [1, 2, 3]}, "rising"),
        ([1, 2], {}, "curves must be 1 to 6, got 0"),
        ([1, 2], {str(i): [1, 2] for i in range(7)}, "curves must be 1 to 6, got 7"),
        ([1, 2], {"a": [1, 2, 3]}, r"curves\['a'\] has 3 values for 2 lengths"),
    ],
)
def test_lines_that_cannot_be_drawn_are_refused(lengths, curves, words):
    with pytest.raises(ValueError, match=words):
        by_length(lengths, curves, "title", "what", "unit")


def test_nothing_of_pyplot_is_touched_and_type_is_large():
    before = plt.get_fignums()
    for figure, _ in (cache_step(4, WORDS), by_length([1, 2, 9], {"a": [1, 2, 3]}, "t", "w", "u")):
        to_png(figure)
        for ax in figure.axes:
            texts = [ax.xaxis.label, ax.yaxis.label, ax.title, *ax.get_xticklabels(), *ax.get_yticklabels()]
            assert min(text.get_fontsize() for text in texts if text.get_text()) >= 12
    assert plt.get_fignums() == before
