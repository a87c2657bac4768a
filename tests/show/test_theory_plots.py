"""Pictures of the formulas: their sentences against numbers worked out by hand, their marks against their sentences."""

from __future__ import annotations

import itertools

import pytest

from specdec_lab.measure.machines import MACHINES
from specdec_lab.measure.roofline import textbook_verify_cost
from specdec_lab.measure.theory import break_even_alpha, speedup
from specdec_lab.show.control import Control
from specdec_lab.show.explorer import explore
from specdec_lab.show.picture import to_png
from specdec_lab.show.theory_plots import (
    break_even_by_gamma,
    finite_generation,
    round_against_plain,
    speedup_by_users,
    speedup_explorer,
    tokens_of_round,
)

SHAPES = {
    "roofline": lambda tokens, users: textbook_verify_cost(tokens, 300, users),
    "sloped": lambda tokens, users: 1 + 0.05 * (tokens - 1),
}
DEFAULT = {"alpha": 0.6, "gamma": 4, "cost_ratio": 0.1, "shape": "roofline", "users": 1, "axis": "α"}


def explorer(**changes):
    return speedup_explorer(**DEFAULT | changes, shapes=SHAPES)


def point(ax, marker):
    """(x, y) of the only line drawn with this marker and one point."""
    (line,) = [line for line in ax.lines if line.get_marker() == marker and len(line.get_xdata()) == 1]
    return line.get_xdata()[0], line.get_ydata()[0]


# ---------------------------------------------------------------- a round


def test_the_bars_of_a_round_add_up_to_its_tokens():
    figure, sentence = tokens_of_round(0.5, 3)
    own, kept, missing = figure.axes[0].containers
    assert [bar.get_height() for bar in [*own, *kept]] == [1, 0.5, 0.25, 0.125] and len(missing) == 13
    assert sentence == (
        "α = 0.5, γ = 3: the bars add up to 1.88 tokens in a round (with endless drafts: 2.00); of 3 drafted tokens 0.88 "
        "are kept, an acceptance rate of 0.29."
    )


def test_perfect_and_hopeless_drafts_can_be_drawn():
    assert "17.00 tokens in a round (with endless drafts: no limit)" in tokens_of_round(1.0, 16)[1]
    assert "1.00 tokens in a round (with endless drafts: 1.00)" in tokens_of_round(0.0, 1)[1]


@pytest.mark.parametrize(
    ("arguments", "ends"),
    [
        ((0.5, 1, 0.25, 1.0), "in 1.50 passes: speculation wins, 1.50 ÷ 1.25 = 1.20."),
        ((0.5, 1, 0.5, 1.0), "speculation neither wins nor loses, 1.50 ÷ 1.50 = 1.00."),
        ((0.0, 4, 0.1, 1.2), "speculation loses, 1.00 ÷ 1.60 = 0.62."),
    ],
)
def test_a_round_against_plain_passes(arguments, ends):
    figure, sentence = round_against_plain(*arguments)
    assert sentence.endswith(ends)
    lengths = {0: 0.0, 1: 0.0}
    for bar in figure.axes[0].patches:
        lengths[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
    plain, spent = ends.split(", ")[-1].split(" = ")[0].split(" ÷ ")
    assert lengths[0] == pytest.approx(float(spent)) and lengths[1] == pytest.approx(float(plain))


# ---------------------------------------------------------------- the explorer


def test_the_explorer_marks_the_best_gamma_and_the_pair():
    figure, sentence = explorer()
    left, right = figure.axes[:2]
    gains = {gamma: speedup(0.6, gamma, 0.1) for gamma in range(1, 17)}
    best = max(gains, key=gains.get)
    assert point(left, "*") == (best, pytest.approx(gains[best]))
    assert point(left, "o") == (4, pytest.approx(gains[4]))
    assert point(right, "o") == (0.6, 0.1)
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["your pair", "break-even"]
    assert sentence == (
        f"α = 0.6, γ = 4, c = 0.1, 1 user, roofline, v(5) = 1.00: speed-up {gains[4]:.2f}; the best γ is {best} with "
        f"{gains[best]:.2f}; γ = 4 breaks even at α = {break_even_alpha(4, 0.1):.2f}."
    )


def test_the_axis_moves_the_point_and_not_the_pair():
    figure, sentence = explorer(axis="acceptance rate")
    x, y = point(figure.axes[1], "o")
    assert (x, y) == (pytest.approx((0.6 + 0.36 + 0.216 + 0.1296) / 4), 0.1)
    assert "breaks even at an acceptance rate of 0.10." in sentence, "1 + γ·rate = 1 + γ·c there"
    assert "acceptance rate at γ = 4" in figure.axes[1].get_xlabel()


def test_the_break_even_line_of_the_map_is_where_the_formula_has_it():
    figure, _ = explorer(shape="sloped")
    lines = [collection for collection in figure.axes[1].collections if hasattr(collection, "levels")]
    (contours,) = lines
    number = list(contours.levels).index(1)
    assert contours.get_linewidths()[number] == max(contours.get_linewidths())
    for alpha, c in contours.allsegs[number][0]:
        assert speedup(alpha, 4, c, 1.2) == pytest.approx(1, abs=0.01)


def test_many_users_and_costly_drafts_leave_no_gamma_that_pays():
    assert "512 users, roofline, v(5) = 5.00" in explorer(users=512)[1]
    assert "no γ from 1 to 16 pays" in explorer(cost_ratio=1.0)[1]
    assert "at γ = 4 no α breaks even" in explorer(users=512, cost_ratio=0.5)[1]


def test_every_corner_of_the_explorer_can_be_drawn():
    for alpha, gamma, c, users in itertools.product((0, 1), (1, 16), (0, 1), (1, 512)):
        for axis in ("α", "acceptance rate"):
            figure, _ = explorer(alpha=alpha, gamma=gamma, cost_ratio=c, users=users, axis=axis)
            to_png(figure)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shape": "flat"}, "shape must be one of roofline, sloped, got 'flat'"),
        ({"axis": "alpha"}, "axis must be one of α, acceptance rate, got 'alpha'"),
        ({"alpha": 1.2}, "alpha must be between 0 and 1"),
    ],
)
def test_what_cannot_be_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        explorer(**changes)


# ---------------------------------------------------------------- where it is lost


def test_with_v_1_the_first_gamma_decides_and_with_a_jump_it_does_not():
    _, sentence = break_even_by_gamma(0.1, 0.6, 0.0)
    assert "with v = 1 the least α that breaks even is 0.10, at γ = 1" in sentence
    needed = {gamma: break_even_alpha(gamma, 0.1, lambda n: 1.6) for gamma in range(1, 17)}
    least = min(needed, key=needed.get)
    assert least > 1 and f"the least α that breaks even is {needed[least]:.2f}, at γ = {least}." in sentence
    assert needed[1] == pytest.approx(0.7), "c + v(2) - 1"


def test_a_draft_as_slow_as_the_target_never_breaks_even():
    assert "at no γ does any α break even" in break_even_by_gamma(1.0, 0.5, 0.1)[1]
    assert (
        "with v = 1 the least α that breaks even is 0.00, at γ = 1" in break_even_by_gamma(0.0, 0.0, 0.0)[1]
    )


def test_users_eat_the_gain():
    figure, sentence = speedup_by_users(0.6, 4, 0.1, "H100 SXM")
    bend_at = 989 / 3.35
    first = next(u for u in range(1, 1025) if speedup(0.6, 4, 0.1, textbook_verify_cost(5, bend_at, u)) < 1)
    assert (
        f"loses from {first} users on" in sentence and f"{speedup(0.6, 4, 0.1):.2f} for one user" in sentence
    )
    assert sentence.endswith("the best γ gives 1.67 and 1.00."), sentence
    (ax,) = figure.axes
    best, chosen = (line.get_ydata() for line in ax.lines[:2])
    assert (best >= chosen - 1e-12).all() and best.min() == 1.0
    assert "it loses from the first user on" in speedup_by_users(0.1, 16, 1.0, "RTX 4090")[1]
    with pytest.raises(ValueError, match=r"machine must be one of RTX 4090, .*got 'Apple M4'"):
        speedup_by_users(0.6, 4, 0.1, "Apple M4")
    assert MACHINES["Apple M4"].flops is None


@pytest.mark.parametrize(
    "figure",
    [
        speedup_by_users(0.6, 4, 0.1, "H100 SXM")[0],  # its vertical line
        break_even_by_gamma(0.0, 0.6, 0.02)[0],  # a curve along the lower edge
        finite_generation(16, 0.0, 0.1, lambda n: 1.5)[0],  # curves that fall to the lower left
    ],
    ids=["users", "break-even", "finite"],
)
def test_no_line_runs_through_the_legend(figure):
    (ax,), (legend,) = figure.axes, figure.legends
    figure.draw_without_rendering()
    assert not legend.get_window_extent().overlaps(ax.get_window_extent())


def test_a_short_generation_gains_less_and_wants_shorter_drafts():
    _, sentence = finite_generation(8, 0.9, 0.05, lambda n: 1.0)
    assert (
        sentence.startswith("α = 0.9, 8 new tokens: at best ")
        and "the formula for endless text has " in sentence
    )
    _, long = finite_generation(4096, 0.6, 0.1, lambda n: 1.0)
    assert f"γ = 16 gives {speedup(0.6, 16, 0.1):.2f} instead of {speedup(0.6, 16, 0.1):.2f}." in long
    assert "at best no gain at any γ" in finite_generation(8, 0.1, 1.0, lambda n: 1.2)[1]


# ---------------------------------------------------------------- all of them


def test_every_setting_of_a_slider_can_be_drawn():
    gammas = Control((1, 16, 1), default=4)
    assert len(set(explore(tokens_of_round, alpha=(0, 1, 0.25), gamma=gammas).check(every=True))) > 16
    explore(
        lambda **chosen: speedup_explorer(**chosen, shapes=SHAPES),
        alpha=(0, 1, 0.25), gamma=gammas, cost_ratio=[0.1, 0, 1], shape=list(SHAPES), users=[1, 512],
        axis=["α", "acceptance rate"],
    ).check(every=True)  # fmt: skip
