"""Pictures about timing: in which order decodes took turns, how far a mistake moves a headline, when tokens arrive.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. Nothing is timed here.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from .style import BLUE, FONT_SIZE, GREY, SERIES, VERMILION, label, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    class Arriving(Protocol):
        """What is drawn of a `measure.interleave.Timing`."""

        seconds: float
        arrivals: tuple[float, ...]
        gaps: list[float]


HATCHES = ("", "//", "..", "xx")

# ---------------------------------------------------------------- order


def turns_in_order(turns: Sequence[tuple[str, float]], truth: float) -> tuple[Figure, str]:
    """One bar for each decode, in the order in which they ran. Taught in notebook 05.

    Args:
        turns: (contender, seconds), in order; two contenders. The ratio is a mean ÷ a mean, names in alphabetical
            order: plain ÷ speculative.
        truth: that ratio on a machine whose speed does not change.

    Returns:
        The figure, and a sentence with the ratio and how far it is from the truth.

    Raises:
        ValueError: another number of contenders than two.
    """
    names = list(dict.fromkeys(name for name, _ in turns))
    if len(names) != 2:
        raise ValueError(f"turns must name two contenders, got {len(names)}: {', '.join(names)}")
    slow, fast = sorted(names)  # the same colour whoever begins
    mean = {name: statistics.fmean(seconds for who, seconds in turns if who == name) for name in names}
    figure, (ax,) = new_figure(width=9.0, height=4.4)
    for number, (name, hatch) in enumerate(zip((slow, fast), HATCHES, strict=False)):
        at = [place for place, (who, _) in enumerate(turns, 1) if who == name]
        heights = [1e3 * seconds for who, seconds in turns if who == name]
        colour = SERIES[number][0]
        ax.bar(at, heights, color=colour, hatch=hatch, edgecolor="white", label=name)
    found = mean[slow] / mean[fast]
    ax.set_axisbelow(True)
    ax.set_xticks(range(1, len(turns) + 1))
    ax.set_ylim(0, 1.02e3 * max(seconds for _, seconds in turns))
    label(
        ax,
        f"{slow} ÷ {fast}: {found:.2f} measured, {truth:.2f} true",
        "turn",
        "time of the decode (ms)",
    )
    figure.legend(loc="outside lower center", ncols=2, fontsize=FONT_SIZE - 1, frameon=False)
    initials = "".join(name[0].upper() for name, _ in turns)
    error = 100 * (found / truth - 1)
    verdict = (
        "as it should" if abs(error) < 0.05 else f"{abs(error):.1f} % too {'high' if error > 0 else 'low'}"
    )
    return figure, (
        f"In the order {initials}: {slow} takes {1e3 * mean[slow]:.0f} milliseconds on average and {fast} "
        f"{1e3 * mean[fast]:.0f}, a ratio of {found:.2f} where {truth:.2f} is true: {verdict}."
    )


# ---------------------------------------------------------------- mistakes


def headlines_moved(headlines: Mapping[str, tuple[float, float]]) -> tuple[Figure, str]:
    """One bar for each mistake: the headline as told ÷ the honest one, on a log axis. Taught in notebook 05.

    Args:
        headlines: name of the mistake → (honest, as told), both above 0; as `teach.mistakes.headlines` gives them.

    Returns:
        The figure, and a sentence with every factor.

    Raises:
        ValueError: no mistake.
    """
    if not headlines:
        raise ValueError("headlines must hold at least one mistake, got none")
    figure, (ax,) = new_figure(width=10.0, height=1.6 + 0.55 * len(headlines))
    factors = {name: told / honest for name, (honest, told) in headlines.items()}
    for place, (name, factor) in enumerate(factors.items()):
        honest, told = headlines[name]
        up = factor >= 1
        ax.barh(
            place,
            factor - 1,
            left=1,
            height=0.62,
            color=VERMILION if up else BLUE,
            hatch="" if up else "//",
            edgecolor="white",
        )
        ax.annotate(
            f"×{factor:.2f}   {_short(honest)} → {_short(told)}",
            (max(factor, 1.0), place),
            (8, 0),
            textcoords="offset points",
            va="center",
            fontsize=FONT_SIZE - 1,
        )
    least, most = min(0.6, *factors.values()), max(1.5, *factors.values())
    ax.set_xscale("log")
    ax.set_xlim(least * 0.92, most * (most / least) ** 0.62)  # room for the words behind the longest bar
    ax.set_ylim(len(factors) - 0.4, -0.6)
    ax.axvline(1, color="black", linewidth=1.2)
    ax.set_yticks(range(len(factors)), list(factors))
    ticks = [
        tick for tick in (0.25, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50) if least * 0.9 <= tick <= most * 1.1
    ]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.grid(False, axis="y")
    label(ax, "How far each mistake moves its headline", "told ÷ honest (1: not at all)", "")
    moved = "; ".join(f"{name} {factor:.2f}" for name, factor in factors.items())
    return figure, f"Told ÷ honest: {moved}."


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 20 else f"{number:.2f}"


# ---------------------------------------------------------------- arrivals


def tokens_over_time(timings: Mapping[str, Arriving]) -> tuple[Figure, str]:
    """When tokens are there: on the left as stairs over time, on the right the wait before each. Taught in notebook 05.

    Args:
        timings: name → one decode as `measure.interleave.timed` returns it; one or more, at most six.

    Returns:
        The figure, and for each decode a clause with the time to the first token, the mean and the longest wait.

    Raises:
        ValueError: no decode, or more than six.
    """
    if not 1 <= len(timings) <= len(SERIES):
        raise ValueError(f"timings must hold 1 to {len(SERIES)} decodes, got {len(timings)}")
    from matplotlib.lines import Line2D

    figure, (stairs, waits) = new_figure(panels=2, width=5.4, height=4.6)
    said, handles = [], []
    for (name, timing), (colour, marker, dash) in zip(timings.items(), SERIES, strict=False):
        gaps = [1e3 * gap for gap in timing.gaps]
        first = 1e3 * timing.arrivals[0]
        there = [first]
        for gap in gaps:
            there.append(there[-1] + gap)
        numbers = list(range(1, len(there) + 1))
        stairs.step([0, *there], [0, *numbers], dash, where="post", color=colour, linewidth=2.4, label=name)
        waits.plot(numbers[1:], gaps, marker, color=colour, markersize=6, label=name)
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle=dash, linewidth=2.4, label=name))
        if gaps:
            at_once = sum(gap == 0 for gap in gaps)
            said.append(
                f"{name}: first token after {first:.0f} milliseconds, then {statistics.fmean(gaps):.1f} between two "
                f"tokens on average, {max(gaps):.0f} at most, and {at_once} of {len(gaps)} with no wait at all"
            )
        else:
            said.append(f"{name}: one token, after {first:.0f} milliseconds")
    stairs.axhline(0, color=GREY, linewidth=1)
    label(stairs, "Tokens on the screen", "time since the request (ms)", "tokens")
    label(waits, "Wait before each token", "number of the token", "wait (ms)")
    waits.set_ylim(bottom=-0.04 * max(waits.get_ylim()[1], 1e-9))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, "; ".join(said) + "."
