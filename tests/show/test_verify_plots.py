"""Pictures of rounds: their sentences are held against counts made by hand, their marks against their sentences."""

from __future__ import annotations

import pytest

from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.decoding.rounds import Round, Trace
from specdec_lab.measure.theory import estimate_alpha
from specdec_lab.models.scripted import ScriptedModel, last_token, wrong_when
from specdec_lab.show.control import Control
from specdec_lab.show.explorer import explore
from specdec_lab.show.picture import to_png
from specdec_lab.show.verify_plots import acceptance_by_gamma, rounds_of_run, rows_of_pass

WIDTH = 100


def run(gamma, wrong=lambda position: False, budget=12):
    rule = last_token(1, WIDTH)
    target, draft = ScriptedModel(rule, WIDTH), ScriptedModel(wrong_when(rule, WIDTH, wrong), WIDTH)
    rounds = speculative_rounds(target, draft, [0], max_new_tokens=budget, gamma=gamma, eos_token_id=None)
    return Trace.of([0], rounds)


def third(position):
    return position % 3 == 0


RUNS = {gamma: run(gamma, third) for gamma in (1, 2, 4, 8)}


def words(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


# ---------------------------------------------------------------- a run


def test_the_columns_of_a_run_add_up_to_its_tokens():
    figure, sentence = rounds_of_run(RUNS, 4)
    (ax,) = figure.axes
    heights = [bar.get_height() for bars in ax.containers for bar in bars]
    assert sum(h for h in heights if h > 0) == 12
    tops = {}
    for bar in (bar for bars in ax.containers for bar in bars if bar.get_height() > 0):
        number = round(bar.get_x() + bar.get_width() / 2)
        assert bar.get_y() == tops.get(number, 0), "one part stands on the other"
        tops[number] = bar.get_y() + bar.get_height()
    assert list(tops.values()) == [len(item.emitted) for item in RUNS[4].rounds]
    assert -sum(h for h in heights if h < 0) == RUNS[4].drafted - RUNS[4].accepted
    assert sentence == (
        "γ = 4: 12 new tokens in 4 rounds, which is 4 target passes; 14 drafted, 8 accepted, 6 thrown away; "
        "acceptance rate 8 ÷ 14 = 0.57, tokens per round 12 ÷ 4 = 3.00."
    )


def test_pictures_of_two_gammas_can_be_compared():
    limits = [
        (figure.axes[0].get_xlim(), figure.axes[0].get_ylim())
        for figure, _ in map(lambda g: rounds_of_run(RUNS, g), RUNS)
    ]
    assert len(set(limits)) == 1


def test_a_run_without_drafts_and_one_that_ends_early_can_be_drawn():
    plain = run(4, budget=1)
    figure, sentence = rounds_of_run({4: plain}, 4)
    assert (
        "1 new token in 1 round, which is 1 target pass; 0 drafted" in sentence and "0 ÷ 0 (none)" in sentence
    )
    assert "nothing drafted" in [text.get_text() for text in figure.legends[0].texts]
    ended = Trace((1,), (Round((5, 6), (-1, 0), (0, 1), (5, 6), "end", 0, 2, 0, 2, 0.0, 0.0),))
    assert "2 new tokens in 1 round" in rounds_of_run({2: ended}, 2)[1]
    with pytest.raises(ValueError, match="no run for gamma 3; there are 2"):
        rounds_of_run({2: ended}, 3)
    with pytest.raises(ValueError, match="has no round"):
        rounds_of_run({2: Trace((1,), ())}, 2)


# ---------------------------------------------------------------- a pass


@pytest.mark.parametrize(
    ("choices", "row", "ends"),
    [
        ("cdx", 0, "It sees 2 tokens and none behind them. The target chooses ‘c’ there; draft 1 is ‘c’: accepted."),
        ("cdx", 2, "The target chooses ‘x’ there; nothing was drafted there, so it is the bonus."),
        ("cxy", 1, "draft 2 is ‘d’: rejected, and the target's choice is the correction."),
        ("xyz", 1, "nobody asks, because draft 1 was rejected and this row has read it."),
        ("xyz", 2, "nobody asks, because draft 1 was rejected and this row has read it."),
    ],
)  # fmt: skip
def test_a_row_says_what_it_judges(choices, row, ends):
    _, sentence = rows_of_pass(["a", "b"], ["c", "d"], list(choices), row)
    assert sentence.startswith(f"Row {row} belongs to ") and sentence.endswith(ends)


@pytest.mark.parametrize("row", range(3))
def test_the_mask_hides_what_stands_behind_a_row(row):
    figure, sentence = rows_of_pass(list("abcdef"), ["g", "h"], ["g", "x", "y"], row, shown=4)
    (ax,) = figure.axes
    squares = [(round(p.get_x() + 0.46), round(p.get_y() + 0.42), p.get_facecolor()) for p in ax.patches]
    seen = {(x, y) for x, y, colour in squares if colour[:3] != (1, 1, 1)}
    assert seen == {(x, y) for x in range(6) for y in range(3) if x < 4 + y}
    assert words(figure).count("×") == 6 * 3 - len(seen)
    assert f"It sees {6 + row} tokens" in sentence and "(2 of them not drawn)" in sentence
    assert [t.get_text() for t in ax.get_yticklabels()] == ["row 0: f", "row 1: g", "row 2: h"]
    assert [w for w in words(figure) if w[0] in "✓✗◦+"] == ["✓ g", "✗ h", "◦ not used"]


def test_nothing_is_taken_for_a_formula_and_long_tokens_are_shortened():
    nasty = ["$x_1$", "$\\frac$", "a very long token"]
    figure, sentence = rows_of_pass(["$"], nasty, [*nasty, "$y$"], 3)
    to_png(figure)  # a formula that is none would raise here
    assert "✓ $x_1$" in words(figure) and "✓ a very l…" in words(figure) and "‘$y$’" in sentence


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([], ["b"], ["b", "c"], 0), "at least one confirmed"),
        ((["a"], ["b"], ["b"], 0), "1 drafts need 2 choices, got 1"),
        ((["a"], ["b"], ["b", "c"], 2), "between 0 and 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        rows_of_pass(*arguments)


# ---------------------------------------------------------------- acceptance


def test_the_parts_of_a_column_are_the_counts():
    runs = {gamma: [trace, trace] for gamma, trace in RUNS.items()}
    figure, sentence = acceptance_by_gamma(runs, 4)
    assert sentence.startswith(
        "γ = 4: 28 drafted = 16 accepted + 6 rejected + 6 never judged; acceptance rate 16 ÷ 28 = 0.57, "
        f"α 16 ÷ 22 = {16 / 22:.2f}; from α at γ = 1"
    )
    alpha = estimate_alpha(RUNS[1].accepted, RUNS[1].rejected)
    predicted = (alpha - alpha**5) / (4 * (1 - alpha))
    assert f"an acceptance rate of {predicted:.2f} was" in sentence
    assert words(figure) == ["16", "6", "6"]
    _, diamonds = figure.axes[0].lines
    assert list(diamonds.get_xdata()) == [1, 2, 3], "γ = 1 predicts all others"
    assert diamonds.get_ydata()[1] == pytest.approx(predicted)
    assert [round(sum(bars[i].get_height() for bars in figure.axes[0].containers), 9) for i in range(4)] == [
        1
    ] * 4
    assert "from α" not in acceptance_by_gamma({2: [RUNS[2]]}, 2)[1]


def test_acceptance_needs_drafts():
    with pytest.raises(ValueError, match="nothing was drafted in the runs for gamma 4"):
        acceptance_by_gamma({4: [run(4, budget=1)]}, 4)
    with pytest.raises(ValueError, match="no run for gamma 3"):
        acceptance_by_gamma({4: [RUNS[4]]}, 3)


# ---------------------------------------------------------------- all of them


def test_every_setting_of_a_slider_can_be_drawn():
    each = {gamma: [trace] for gamma, trace in RUNS.items()}
    gammas = Control(list(RUNS))
    for draw in (lambda gamma: rounds_of_run(RUNS, gamma), lambda gamma: acceptance_by_gamma(each, gamma)):
        assert len(set(explore(draw, gamma=gammas).check(every=True))) == 4
