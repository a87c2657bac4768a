"""Pictures of the formulas: tokens of a round, its cost, the speed-up, and where it is lost. No torch, nothing measured.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. The formulas are
those of `measure.theory`, `measure.generation` and `measure.roofline`; points beside them are in `evidence_plots.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from specdec_lab.measure.generation import generation_speedup
from specdec_lab.measure.machines import MACHINES
from specdec_lab.measure.roofline import bend, textbook_verify_cost
from specdec_lab.measure.theory import (
    acceptance_rate,
    alpha_from_acceptance_rate,
    break_even_alpha,
    expected_tokens_per_round,
    speedup,
)

from .style import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, SKY, VERMILION, label, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VerifyShape = Callable[[int, int], float]  # tokens of a sequence, sequences in the pass → v

LARGEST = 16  # γ
GAMMAS = range(1, LARGEST + 1)
AXES = ("α", "acceptance rate")
_TOKEN_AXIS = "k (0: the target's own token; from 1 on: draft k)"
_LEVELS = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 17)  # of speed-up on a map

# ---------------------------------------------------------------- a round


def tokens_of_round(alpha: float, gamma: int) -> tuple[Figure, str]:
    """How likely each token of a round is to join the text; the bars add up to E(α, γ). Taught in notebook 06.

    Args:
        alpha: in 0…1.
        gamma: 1…16.

    Returns:
        The figure, and a sentence with E(α, γ) and the acceptance rate.
    """
    tokens, rate = expected_tokens_per_round(alpha, gamma), acceptance_rate(alpha, gamma)
    figure, (ax,) = new_figure(width=9.0, height=4.6)
    chances = [alpha**k for k in range(LARGEST + 1)]
    ax.bar(0, 1, color=BLUE, edgecolor="white", label="the target's own token")
    look = {"color": GREEN, "edgecolor": "white"}
    ax.bar(range(1, gamma + 1), chances[1 : gamma + 1], label="draft k is kept", **look)
    if gamma < LARGEST:
        empty = {"color": "white", "edgecolor": GREY, "linestyle": "--"}
        ax.bar(range(gamma + 1, LARGEST + 1), chances[gamma + 1 :], label="not drafted", **empty)
    for k in range(gamma + 1):
        ax.text(k, chances[k] + 0.015, f"{chances[k]:.2f}", ha="center", fontsize=FONT_SIZE - 3)
    ax.set(xlim=(-0.6, LARGEST + 0.6), ylim=(0, 1.12), xticks=range(LARGEST + 1))
    ax.grid(False, axis="x")
    label(
        ax,
        f"α = {alpha:g}, γ = {gamma}: {tokens:.2f} tokens in a round",
        _TOKEN_AXIS,
        "chance to join the text",
    )
    figure.legend(loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    endless = "no limit" if alpha == 1 else f"{1 / (1 - alpha):.2f}"
    return figure, (
        f"α = {alpha:g}, γ = {gamma}: the bars add up to {tokens:.2f} tokens in a round (with endless drafts: {endless}); "
        f"of {gamma} drafted tokens {tokens - 1:.2f} are kept, an acceptance rate of {rate:.2f}."
    )


def round_against_plain(alpha: float, gamma: int, cost_ratio: float, verify: float) -> tuple[Figure, str]:
    """Two bars of time: a round, and plain decoding of the tokens that a round brings. Taught in notebook 06.

    Args:
        alpha, gamma, cost_ratio: as in `theory.speedup`; γ of 1 or more.
        verify: v(γ + 1).

    Returns:
        The figure, and a sentence with both times and the speed-up.
    """
    tokens, factor = expected_tokens_per_round(alpha, gamma), speedup(alpha, gamma, cost_ratio, verify)
    figure, (ax,) = new_figure(width=9.0, height=3.4)
    edge = {"edgecolor": "white", "linewidth": 1.5, "height": 0.6}
    for k in range(gamma):
        name = f"draft pass, {cost_ratio:g} each" if k == 0 else None
        ax.barh(0, cost_ratio, left=k * cost_ratio, color=ORANGE, hatch="//", label=name, **edge)
    drafting = gamma * cost_ratio
    ax.barh(0, verify, left=drafting, color=BLUE, label=f"verification, v({gamma + 1}) = {verify:g}", **edge)
    done = 0.0
    while done < tokens - 1e-9:
        name = None if done else "target pass over one token"
        ax.barh(1, min(1.0, tokens - done), left=done, color=SKY, label=name, **edge)
        done += 1
    spent = drafting + verify
    for y, end, words in ((0, spent, f"{spent:.2f}"), (1, tokens, f"{tokens:.2f}")):
        ax.text(end, y, f" {words}", va="center", fontsize=FONT_SIZE)
    ax.set_yticks([0, 1], ["a round", f"the same\n{tokens:.2f} tokens, plainly"])
    ax.set(ylim=(-0.5, 1.5), xlim=(0, 1.12 * max(tokens, spent, 3)))
    ax.grid(False, axis="y")
    label(ax, f"Speed-up {factor:.2f}", "time, in target passes over one token", "")
    figure.legend(loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    even = abs(factor - 1) < 1e-9
    verdict = "neither wins nor loses" if even else "wins" if factor > 1 else "loses"
    return figure, (
        f"α = {alpha:g}, γ = {gamma}: a round takes {gamma} × {cost_ratio:g} + {verify:g} = {spent:.2f} target passes and "
        f"brings {tokens:.2f} tokens, which plain decoding would write in {tokens:.2f} passes: speculation {verdict}, "
        f"{tokens:.2f} ÷ {spent:.2f} = {factor:.2f}."
    )


# ---------------------------------------------------------------- the explorer


def speedup_explorer(
    alpha: float,
    gamma: int,
    cost_ratio: float,
    shape: str,
    users: int,
    axis: str,
    shapes: Mapping[str, VerifyShape],
) -> tuple[Figure, str]:
    """Speed-up over γ with the best one marked, beside the map over α and c with its break-even line. Notebook 06.

    Args:
        alpha, gamma, cost_ratio: the pair, and the γ in use (1…16).
        shape: a key of `shapes`.
        users: sequences in one pass, 1 or more.
        axis: "α" or "acceptance rate": what the map's horizontal axis shows; at a given γ one follows from the other.
        shapes: name → v(tokens of a sequence, users).

    Returns:
        The figure, and a sentence with the speed-up at γ, the best γ and the break-even.

    Raises:
        ValueError: an unknown shape or axis, or a value outside the bounds of the formulas.
    """
    if shape not in shapes:
        raise ValueError(f"shape must be one of {', '.join(shapes)}, got {shape!r}")
    if axis not in AXES:
        raise ValueError(f"axis must be one of {', '.join(AXES)}, got {axis!r}")

    def v(tokens: int) -> float:
        return shapes[shape](tokens, users)

    near = [[max(0.0, alpha - 0.1)], [alpha], [min(1.0, alpha + 0.1)]]
    below, middle, above = speedup(near, list(GAMMAS), cost_ratio, v)
    gains = dict(zip(GAMMAS, middle.tolist(), strict=True))
    best = max(gains, key=lambda g: (gains[g], -g))
    figure, (left, right) = new_figure(panels=2, width=5.9, height=4.9)
    left.fill_between(GAMMAS, below, above, color=SKY, alpha=0.35, label="α ± 0.1")
    textbook = speedup(alpha, list(GAMMAS), cost_ratio)
    left.plot(GAMMAS, textbook, ":", color=GREY, linewidth=2.2, label="v = 1")
    left.plot(
        GAMMAS, list(gains.values()), "o-", color=BLUE, linewidth=2.6, markersize=6, label=f"α = {alpha:g}"
    )
    _break_even_line(left)
    star = {"color": VERMILION, "markersize": 20, "markeredgecolor": "white", "zorder": 5}
    if gains[best] > 1:
        left.plot(best, gains[best], "*", label="best γ", **star)
    left.plot(gamma, gains[gamma], "o", color="black", markersize=11, zorder=6, label="your γ")
    left.set(xticks=range(1, LARGEST + 1, 3), ylim=(0, 1.4 * max(1.4, *middle, *textbook)))
    label(left, "Speed-up over γ", "γ (most tokens drafted in a round)", "plain ÷ speculative time")
    left.legend(fontsize=FONT_SIZE - 2, frameon=False, ncols=3, loc="upper center", columnspacing=1)

    x = speedup_map(right, gamma, v(gamma + 1), axis, alpha)
    point = {"color": "black", "markersize": 12, "markeredgecolor": "white", "clip_on": False, "zorder": 6}
    right.plot(x, cost_ratio, "o", label="your pair", **point)
    right.plot([], [], color="black", linewidth=3.5, label="break-even")
    right.legend(fontsize=FONT_SIZE - 2, loc="upper left", framealpha=0.9)
    label(
        right, f"Speed-up at γ = {gamma}, v({gamma + 1}) = {v(gamma + 1):.2f}", _axis_name(axis, gamma), "c"
    )

    crowd = "1 user" if users == 1 else f"{users} users"
    advice = f"the best γ is {best} with {gains[best]:.2f}" if gains[best] > 1 else "no γ from 1 to 16 pays"
    return figure, (
        f"α = {alpha:g}, γ = {gamma}, c = {cost_ratio:g}, {crowd}, {shape}, v({gamma + 1}) = {v(gamma + 1):.2f}: speed-up "
        f"{gains[gamma]:.2f}; {advice}; {_break_even_words(gamma, cost_ratio, v(gamma + 1), axis)}."
    )


def speedup_map(ax: Axes, gamma: int, verify: float, axis: str, alpha: float | None = None) -> float | None:
    """Draw speed-up over α (or the acceptance rate at γ) and c, both 0…1; returns where `alpha` lies on x. Notebook 06.

    The thick line is break-even. Above 1 the colours grow green, below 1 they grow orange; numbers stand on the lines.
    """
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    across, up = np.linspace(0, 1, 41), np.linspace(0, 1, 26)
    alphas = across if axis == AXES[0] else alpha_from_acceptance_rate(across, gamma)
    gains = speedup(alphas[None, :], gamma, up[:, None], verify)
    tints = LinearSegmentedColormap.from_list("gain", ["#D9882B", "#FFFFFF", "#1B8F6C"])
    look = {"origin": "lower", "extent": (0, 1, 0, 1), "aspect": "auto", "interpolation": "bilinear"}
    ax.imshow(gains, cmap=tints, norm=LogNorm(1 / 4, 4), **look)
    ax.grid(False)
    levels = [level for level in _LEVELS if gains.min() < level < gains.max()]
    if levels:
        widths = [3.5 if level == 1 else 1.2 for level in levels]
        lines = ax.contour(across, up, gains, levels=levels, colors="black", linewidths=widths)
        ax.clabel(lines, fmt="%g", fontsize=FONT_SIZE - 2)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    if alpha is None:
        return None
    return alpha if axis == AXES[0] else acceptance_rate(alpha, gamma)


def _axis_name(axis: str, gamma: int) -> str:
    return AXES[0] if axis == AXES[0] else f"acceptance rate at γ = {gamma}"


def _break_even_words(gamma: int, cost_ratio: float, verify: float, axis: str) -> str:
    needed = break_even_alpha(gamma, cost_ratio, verify)
    if needed is None:
        return f"at γ = {gamma} no {axis} breaks even"
    if axis == AXES[0]:
        return f"γ = {gamma} breaks even at α = {needed:.2f}"
    return f"γ = {gamma} breaks even at an acceptance rate of {acceptance_rate(needed, gamma):.2f}"


def _break_even_line(ax: Axes) -> None:
    ax.axhline(1.0, color="black", linewidth=1.5, linestyle="--")


# ---------------------------------------------------------------- where it is lost


def break_even_by_gamma(cost_ratio: float, jump: float, slope: float) -> tuple[Figure, str]:
    """The α that each γ needs to break even: with v = 1, and with v(n) = 1 + jump + slope · (n - 1). Notebook 06.

    Args:
        cost_ratio: c, 0 or more.
        jump: what the second token of a pass costs once, 0 or more.
        slope: what each further token costs, 0 or more.

    Returns:
        The figure, and a sentence with the least α and its γ, both ways.
    """

    def v(tokens: int) -> float:
        return 1 + jump + slope * (tokens - 1)

    figure, (ax,) = new_figure(width=8.6, height=4.8)
    said = []
    lines = (
        ("v = 1", 1.0, GREY, "s", ":"),
        (f"v(n) = 1 + {jump:g} + {slope:g} × (n − 1)", v, BLUE, "o", "-"),
    )
    for name, cost, colour, marker, dash in lines:
        needed = break_even_alpha(list(GAMMAS), cost_ratio, cost)  # NaN where none does
        known = {g: alpha for g, alpha in zip(GAMMAS, needed.tolist(), strict=True) if alpha == alpha}
        look = {"color": colour, "linewidth": 2.4, "markersize": 8}
        ax.plot(list(known), list(known.values()), dash, marker=marker, label=name, **look)
        if not known:
            said.append("at no γ does any α break even")
            continue
        # the bisection ends a rounding error beside the true value: equal ones are equal
        least = min(known, key=lambda g: (round(known[g], 9), g))
        star = {"color": VERMILION, "markersize": 18, "markeredgecolor": "white", "zorder": 5}
        ax.plot(least, known[least], "*", **star)
        said.append(f"the least α that breaks even is {known[least]:.2f}, at γ = {least}")
    ax.plot([], [], "*", color=VERMILION, markersize=14, label="least α that pays")
    ax.set(xticks=range(1, LARGEST + 1), xlim=(0.5, LARGEST + 0.5), ylim=(0, 1.05))
    label(ax, f"Break-even at c = {cost_ratio:g}", "γ (most tokens drafted in a round)", "α needed")
    figure.legend(loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, (
        f"c = {cost_ratio:g}: with v = 1 {said[0]}; with a jump of {jump:g} and {slope:g} for each further token {said[1]}."
    )


def speedup_by_users(alpha: float, gamma: int, cost_ratio: float, machine: str) -> tuple[Figure, str]:
    """Speed-up against the sequences that share a pass, by the roofline, at γ and at the best γ. Taught in notebook 06.

    c stays what it is for one sequence: the draft's own roofline and the KV cache are left out.

    Args:
        alpha, gamma, cost_ratio: as in `theory.speedup`; γ in 1…16.
        machine: a key of `measure.machines.MACHINES` whose FLOP/s are known; weights in bfloat16.

    Returns:
        The figure, and a sentence with the number of users at which γ begins to lose.

    Raises:
        ValueError: an unknown machine.
    """
    import numpy as np

    bends = {name: bend(2, item.bandwidth, item.flops) for name, item in MACHINES.items() if item.flops}
    if machine not in bends:
        raise ValueError(f"machine must be one of {', '.join(bends)}, got {machine!r}")
    users = np.arange(1, 1025)

    def gain(g: int) -> Any:
        return speedup(alpha, g, cost_ratio, textbook_verify_cost(g + 1, bends[machine], users))

    chosen = gain(gamma)
    best = np.max([np.ones(len(users)), *(gain(g) for g in GAMMAS)], axis=0)
    figure, (ax,) = new_figure(width=9.0, height=4.8)
    ax.plot(users, best, "--", color=GREEN, linewidth=3, label="best γ for so many users (0 counts)")
    ax.plot(users, chosen, "-", color=BLUE, linewidth=2.6, label=f"γ = {gamma}")
    _break_even_line(ax)
    losing = users[chosen < 1]
    if len(losing):
        first = int(losing[0])
        ax.axvline(first, color=VERMILION, linewidth=2, linestyle=":", label=f"loses from {first} users on")
    ax.set_xscale("log", base=2)
    ax.set(xlim=(1, 1024), xticks=[4**k for k in range(6)], ylim=(0, 1.1 * float(best.max())))
    ax.xaxis.set_major_formatter("{x:g}")
    label(ax, f"{machine}, bfloat16", "users: sequences in one pass", "plain ÷ speculative time")
    figure.legend(loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    if not len(losing):
        verdict = "it never loses up to 1024"
    else:
        verdict = (
            f"it loses from {int(losing[0])} users on" if losing[0] > 1 else "it loses from the first user on"
        )
    return figure, (
        f"{machine}, α = {alpha:g}, c = {cost_ratio:g}: γ = {gamma} gives {chosen[0]:.2f} for one user and {chosen[-1]:.2f} "
        f"for 1024, and {verdict}; the best γ gives {best[0]:.2f} and {best[-1]:.2f}."
    )


def finite_generation(
    new_tokens: int, alpha: float, cost_ratio: float, verify: Callable[[int], float]
) -> tuple[Figure, str]:
    """Speed-up over γ of a generation of `new_tokens`, its short last rounds counted, beside the endless one. Notebook 06.

    Args:
        new_tokens, alpha, cost_ratio: as in `generation.generation_speedup`.
        verify: v, for 1…17 tokens.

    Returns:
        The figure, and a sentence with the best γ of both and what γ = 16 gives.
    """
    short = {g: generation_speedup(new_tokens, alpha, g, cost_ratio, verify) for g in GAMMAS}
    endless = {g: speedup(alpha, g, cost_ratio, verify) for g in GAMMAS}
    figure, (ax,) = new_figure(width=8.6, height=4.6)
    ax.plot(GAMMAS, list(endless.values()), "s--", color=GREY, linewidth=2.2, markersize=7, label="endless")
    name = f"{new_tokens} new tokens"
    ax.plot(GAMMAS, list(short.values()), "o-", color=BLUE, linewidth=2.6, markersize=8, label=name)
    _break_even_line(ax)
    said = []
    for gains in (short, endless):
        best = max(gains, key=lambda g: (gains[g], -g))
        ax.plot(best, gains[best], "*", color=VERMILION, markersize=18, markeredgecolor="white", zorder=5)
        said.append(f"{gains[best]:.2f} at γ = {best}" if gains[best] > 1 else "no gain at any γ")
    ax.plot([], [], "*", color=VERMILION, markersize=14, label="best γ")
    ax.set(xticks=range(1, LARGEST + 1), ylim=(0, 1.15 * max(1.2, *endless.values(), *short.values())))
    label(ax, f"α = {alpha:g}", "γ (most tokens drafted in a round)", "plain ÷ speculative time")
    figure.legend(loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, (
        f"α = {alpha:g}, {new_tokens} new tokens: at best {said[0]}, where the formula for endless text has {said[1]}; "
        f"γ = 16 gives {short[LARGEST]:.2f} instead of {endless[LARGEST]:.2f}."
    )
