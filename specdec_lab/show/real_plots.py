"""Pictures of a real model: its memory by length of text, its early exits, and what its passes and rounds cost.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. No model runs here
and nothing is timed. Stored runs by task are in `run_plots.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .style import BLUE, FONT_SIZE, GREY, ORANGE, SERIES, SKY, VERMILION, label, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GB = 1e9

# ---------------------------------------------------------------- memory


def memory_by_context(
    parts: Mapping[str, tuple[float, float]],
    tokens: int,
    memory_gb: float,
    lengths: Sequence[int] = (1024, 4096, 16384, 32768, 65536, 131072),
) -> tuple[Figure, str]:
    """Weights and KV caches against the length of the text, under the memory of a machine. Taught in notebook 11.

    Args:
        parts: name → (bytes of weights, bytes of cache a token), target first; one or two.
        tokens: the length to point out, one of `lengths`.
        memory_gb: what the machine has, in 10⁹ bytes.
        lengths: of the text, prompt and answer together, rising.

    Returns:
        The figure, one stacked bar for each length, and a sentence with the parts of the one pointed out and the length
        at which the caches outgrow the weights.

    Raises:
        ValueError: no such length, or not one or two parts.
    """
    if tokens not in lengths:
        raise ValueError(f"tokens must be one of {', '.join(map(str, lengths))}, got {tokens}")
    if not 1 <= len(parts) <= 2:
        raise ValueError(f"parts must hold a target, or a target and a draft, got {len(parts)}")
    figure, (ax,) = new_figure(width=10.0, height=5.0)
    looks = ((BLUE, ""), (SKY, "//"), (VERMILION, ".."), (ORANGE, "\\\\"))
    bottom, places = [0.0] * len(lengths), range(len(lengths))
    heights = {f"weights, {name}": [weights / GB] * len(lengths) for name, (weights, _) in parts.items()}
    heights |= {f"KV cache, {name}": [n * each / GB for n in lengths] for name, (_, each) in parts.items()}
    colours = looks if len(parts) == 2 else looks[::2]
    for (name, values), (colour, hatch) in zip(heights.items(), colours, strict=True):
        ax.bar(places, values, bottom=bottom, color=colour, hatch=hatch, edgecolor="white", label=name)
        bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    place = list(lengths).index(tokens)
    ax.axhline(memory_gb, color="black", linewidth=1.8, linestyle="--")
    ax.annotate(f"{memory_gb:g} GB", (0.0, memory_gb), xycoords=("axes fraction", "data"), fontsize=FONT_SIZE)
    ax.texts[-1].set(ha="left", va="bottom")
    words = {"textcoords": "offset points", "ha": "center", "fontsize": FONT_SIZE, "fontweight": "bold"}
    ax.annotate(_gb(bottom[place]), (place, bottom[place]), (0, 6), **words)
    ax.set_ylim(0, 1.18 * max(*bottom, memory_gb))
    ax.set_xticks(list(places), [f"{n:,}" for n in lengths])
    ax.get_xticklabels()[place].set_fontweight("bold")
    ax.grid(False, axis="x")
    label(ax, " + ".join(parts), "tokens of the text, prompt and answer", "GB")
    figure.legend(loc="outside lower center", ncols=2, fontsize=FONT_SIZE - 1, frameon=False)
    said = ", ".join(f"{name} {_gb(values[place])}" for name, values in heights.items())
    weights, each = (sum(part[i] for part in parts.values()) for i in (0, 1))
    fits = "fits" if bottom[place] <= memory_gb else "does not fit"
    more = f" The caches outgrow the weights from {math.ceil(weights / each):,} tokens on." if each else ""
    return figure, (
        f"{tokens:,} tokens: {said}; {_gb(bottom[place])} in all, which {fits} into {memory_gb:g} GB.{more}"
    )


# ---------------------------------------------------------------- early exits


def agreement_by_exit(shares: Sequence[float], costs: Sequence[float]) -> tuple[Figure, str]:
    """How often an exit after k layers says what the whole target says, against what it costs. Taught in notebook 11.

    Args:
        shares: of an exit after 1, 2, … layers, 0 to 1; one for each layer but the last.
        costs: c of each, in target passes.

    Returns:
        The figure with the line below which no exit can pay, even if verifying were free, and a sentence.

    Raises:
        ValueError: not one cost for each share.
    """
    if not shares or len(shares) != len(costs):
        raise ValueError(f"costs must hold one for each of {len(shares)} exits, got {len(costs)}")
    figure, (ax,) = new_figure(width=9.0, height=4.8)
    exits, percents = range(1, len(shares) + 1), [100 * share for share in shares]
    prices = [100 * cost for cost in costs]
    look = {"linewidth": 2.4, "markersize": 7}
    ax.plot(exits, percents, "-", marker="o", color=BLUE, label="the same token as the whole target", **look)
    ax.plot(exits, prices, "--", color=VERMILION, label="c: under this line no exit can pay", **look)
    ax.fill_between(exits, prices, color=VERMILION, alpha=0.08)
    ax.set(ylim=(0, 104), xlim=(0, len(shares) + 1))
    ax.legend(fontsize=FONT_SIZE - 1, frameon=False, loc="upper left")
    label(ax, "Exits after k layers", "k, layers before the exit", "per cent")
    half = next((k for k, share in zip(exits, shares, strict=True) if share >= 0.5), None)
    above = [k for k, share, cost in zip(exits, shares, costs, strict=True) if share > cost]
    middle = (len(shares) + 1) // 2
    return figure, (
        f"An exit after {middle} of {len(shares) + 1} layers agrees in {percents[middle - 1]:.0f} % and costs "
        f"{costs[middle - 1]:.2f} of a pass, after {len(shares)} in {percents[-1]:.0f} % for {costs[-1]:.2f}; "
        f"{f'half of the tokens are reached after {half}' if half else 'none reaches half of the tokens'}. "
        f"Exits above the line: {', '.join(map(str, above)) or 'none'}."
    )


# ---------------------------------------------------------------- what a pass costs


def verify_costs(costs: Mapping[str, Mapping[int, float]]) -> tuple[Figure, str]:
    """v(n) of one model in several number formats. Taught in notebook 11.

    Args:
        costs: name of the format → n → time of a pass over n tokens ÷ over one.

    Returns:
        The figure, and a sentence with the first and the last price of a guess in each.

    Raises:
        ValueError: no formats, or one without v(1).
    """
    if not costs or not all(1 in cost and len(cost) > 1 for cost in costs.values()):
        raise ValueError("costs must hold at least one format, and v(1) and another v(n) of each")
    figure, (ax,) = new_figure(width=8.6, height=4.6)
    said = []
    for (name, cost), (colour, marker, dash) in zip(costs.items(), SERIES, strict=False):
        counts = sorted(cost)
        ax.plot(
            counts,
            [cost[n] for n in counts],
            dash,
            marker=marker,
            color=colour,
            linewidth=2.4,
            markersize=8,
            label=name,
        )
        said.append(f"{name} " + ", ".join(f"v({n}) = {cost[n]:.2f}" for n in counts[1:]))
    ax.axhline(1, color=GREY, linewidth=1.6, linestyle="--")
    ticks = sorted({n for cost in costs.values() for n in cost})
    ax.set(ylim=(0, 1.15 * max(max(cost.values()) for cost in costs.values())), xticks=ticks)
    ax.legend(fontsize=FONT_SIZE, frameon=False, loc="lower right")
    label(ax, "A pass over n tokens ÷ a pass over one", "n, tokens in the pass", "v(n)")
    return figure, f"Verify cost: {'; '.join(said)}."


def why_it_pays(rounds: Mapping[str, tuple[float, float, float, float]]) -> tuple[Figure, str]:
    """Tokens of a round beside its price, for each contender: what it should gain, and what it gained. Notebook 11.

    Args:
        rounds: name → (tokens per round, price of drafting, price of verifying, measured speed-up); prices in target
            passes over one token.

    Returns:
        The figure with tokens and stacked prices, and a sentence with expected and measured speed-ups.

    Raises:
        ValueError: nothing to show.
    """
    if not rounds:
        raise ValueError("rounds must hold at least one contender, got none")
    figure, (ax,) = new_figure(width=10.0, height=2.2 + 0.95 * len(rounds))
    said = []
    for place, (name, (tau, drafting, verifying, measured)) in enumerate(rounds.items()):
        more = {"height": 0.36, "edgecolor": "white"}
        ax.barh(place - 0.2, tau, color=BLUE, label="tokens of a round" if not place else "", **more)
        ax.barh(
            place + 0.2,
            verifying,
            color=ORANGE,
            hatch="//",
            label="price: verifying" if not place else "",
            **more,
        )
        ax.barh(
            place + 0.2,
            drafting,
            left=verifying,
            color=VERMILION,
            hatch="..",
            label="price: drafting" if not place else "",
            **more,
        )
        expected = tau / (drafting + verifying)
        text = f"÷ gives {expected:.2f}; measured {measured:.2f}"
        ax.annotate(
            text, (max(tau, drafting + verifying), place), (9, 0), textcoords="offset points", va="center"
        )
        ax.texts[-1].set_fontsize(FONT_SIZE - 1)
        said.append(
            f"{name} {tau:.2f} tokens for {drafting + verifying:.2f} target passes, so {expected:.2f} was to be "
            f"expected, and {measured:.2f} was measured"
        )
    ax.set_yticks(range(len(rounds)), list(rounds))
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    ax.set_xlim(0, 1.75 * max(max(tau, d + v) for tau, d, v, _ in rounds.values()))
    label(ax, "", "tokens, and target passes that they cost", "")
    figure.legend(loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, f"{'; '.join(said)}."


# ---------------------------------------------------------------- parts


def _gb(value: float) -> str:
    return f"{value:.2f} GB" if value < 10 else f"{value:.1f} GB"
