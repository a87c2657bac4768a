"""Pictures of speculative sampling: where the output's mass comes from, p and q laid over each other, rules that bias
it, acceptance expected and observed, and acceptance over the temperature.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. They draw what
they are given; nothing is sampled here. The module loads without torch; only the mixing picture asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specdec_lab.decoding.rounds import Trace
from specdec_lab.measure.theory import alpha_interval

from .style import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, SERIES, SKY, VERMILION, label, new_figure
from .words import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 11  # letters of a token that a picture shows
EXACT = 1e-9  # pictures show doubles: what is nearer than this is equal

# ---------------------------------------------------------------- one token


def where_the_output_comes_from(p: Any, q: Any, names: Sequence[str], title: str = "") -> tuple[Figure, str]:
    """Three bar charts: p; q, split into what is accepted and what is rejected; the output. Taught in notebook 07.

    Args:
        p, q: the target's and the draft's distribution, (vocab,), tensors or lists.
        names: what to call each token.
        title: the setting, for the sentence.

    Returns:
        The figure, and a sentence with α, the output, and how far it is from p.

    Raises:
        ValueError: p, q and names of different lengths, or no distributions.
    """
    import torch

    from specdec_lab.decoding.distributions import residual_distribution

    p, q = _numbers(p), _numbers(q)
    _same_length(p, q, names)
    replacement = residual_distribution(*(torch.tensor(one, dtype=torch.float64) for one in (p, q))).tolist()
    accepted = [min(a, b) for a, b in zip(p, q, strict=True)]
    rejected = [b - a for a, b in zip(accepted, q, strict=True)]
    replaced = [sum(rejected) * share for share in replacement]
    output = [a + b for a, b in zip(accepted, replaced, strict=True)]

    figure, (left, middle, right) = new_figure(panels=3, width=3.9, height=4.3)
    places = range(len(names))
    edge = {"edgecolor": "black", "linewidth": 1.0, "width": 0.7}
    left.bar(places, p, color=SKY, label="p, the target", **edge)
    middle.bar(places, accepted, color=GREEN, label="accepted, min(p, q)", **edge)
    middle.bar(places, rejected, bottom=accepted, color="white", hatch="//", label="rejected", **edge)
    right.bar(places, accepted, color=GREEN, **edge)
    right.bar(places, replaced, bottom=accepted, color=BLUE, hatch="..", label="replaced", **edge)
    level = {"color": VERMILION, "linewidth": 3, "zorder": 4, "label": "height of p"}
    right.hlines(p, [x - 0.45 for x in places], [x + 0.45 for x in places], **level)
    for ax, heights, words in (
        (left, p, "p: what is wanted"),
        (middle, q, "q: what is drafted"),
        (right, output, "what comes out"),
    ):
        ax.set(ylim=(0, 1.1), xlim=(-0.6, len(names) - 0.4))
        ax.set_xticks(places, [shortened(name, LONGEST) for name in names])
        ax.grid(False, axis="x")
        for x, height in zip(places, heights, strict=True):
            ax.text(x, height + 0.03, f"{height:.2f}", ha="center", fontsize=FONT_SIZE - 1)
        label(ax, words, "token", "probability" if ax is left else "")
    figure.legend(loc="outside lower center", ncols=5, fontsize=FONT_SIZE - 1, frameon=False)
    off = max(abs(a - b) for a, b in zip(output, p, strict=True))
    verdict = "which is p" if off < EXACT else f"which is off p by up to {off:.2f}"
    return figure, (
        f"{title + ': ' if title else ''}p is {_listed(p, names)}; q is {_listed(q, names)}; a draft is accepted with "
        f"chance {sum(accepted):.2f} and replaced with {sum(rejected):.2f}; what comes out is {_listed(output, names)}, "
        f"{verdict}."
    )


# ---------------------------------------------------------------- the overlap


def overlap_of(p: Any, q: Any, names: Sequence[str], title: str, shown: int = 9) -> tuple[Figure, str]:
    """p and q laid over each other: what they share, what is drafted too often and what too rarely. Notebook 07.

    Args:
        p, q: (vocab,), tensors or lists.
        names: what to call each token, one for each.
        title: where this is.
        shown: so many tokens, the likeliest under p or q, have a bar; the others are added up in one.

    Returns:
        The figure, and a sentence with Σ min(p, q), the total variation distance and the favourites.

    Raises:
        ValueError: p, q and names of different lengths.
    """
    p, q = _numbers(p), _numbers(q)
    _same_length(p, q, names)
    order = sorted(range(len(p)), key=lambda i: (-max(p[i], q[i]), i))
    columns = [[i] for i in order[:shown]] + ([order[shown:]] if len(order) > shown else [])
    parts = {
        "accepted: min(p, q)": [sum(min(p[i], q[i]) for i in column) for column in columns],
        "residual: p − q": [sum(max(p[i] - q[i], 0.0) for i in column) for column in columns],
        "rejected: q − p": [sum(max(q[i] - p[i], 0.0) for i in column) for column in columns],
    }
    figure, (ax,) = new_figure(width=9.6, height=4.8)
    bottom = [0.0] * len(columns)
    looks = ((GREEN, ""), (BLUE, ".."), ("white", "//"))
    for (name, heights), (colour, hatch) in zip(parts.items(), looks, strict=True):
        look = {"color": colour, "hatch": hatch, "edgecolor": "black", "linewidth": 1.0}
        ax.bar(range(len(columns)), heights, 0.74, bottom, label=f"{name}, {sum(heights):.2f}", **look)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    words = [shortened(names[column[0]], LONGEST) for column in columns[:shown]]
    words += [f"{len(column)} others" for column in columns[shown:]]
    ax.set_xticks(range(len(columns)), words, rotation=30, ha="right", parse_math=False)
    ax.grid(False, axis="x")
    ax.set(xlim=(-0.6, len(columns) - 0.4), ylim=(0, 1.08 * max(bottom)))
    label(ax, title, "", "probability")
    ax.title.set_parse_math(False)
    figure.legend(loc="outside lower center", ncols=3, fontsize=FONT_SIZE - 1, frameon=False)
    shared, apart = (sum(heights) for heights in list(parts.values())[:2])
    best_p, best_q = (max(range(len(one)), key=one.__getitem__) for one in (p, q))
    favourites = (
        f"both like ‘{names[best_p]}’ best, p with {p[best_p]:.2f} and q with {q[best_p]:.2f}"
        if best_p == best_q
        else f"p likes ‘{names[best_p]}’ best ({p[best_p]:.2f}), q ‘{names[best_q]}’ ({q[best_q]:.2f})"
    )
    return figure, (
        f"{title}: the overlap Σ min(p, q) is {shared:.2f}, so the total variation distance is {apart:.2f}; {favourites}."
    )


# ---------------------------------------------------------------- wrong rules


def bias_of_rules(
    p: Any,
    outputs: Mapping[str, Any],
    distances: Mapping[str, float],
    rule: str,
    names: Sequence[str],
    title: str,
) -> tuple[Figure, str]:
    """The first token that one rule gives beside the one that is wanted, and how far each rule is off. Notebook 07.

    Args:
        p: what is wanted of the first token, (vocab,).
        outputs: rule → what comes out, (vocab,).
        distances: rule → total variation distance of its texts from the target's.
        rule: the one to show.
        names: what to call each token.
        title: the setting.

    Returns:
        The figure, and a sentence with the rule's first token and its distance.

    Raises:
        ValueError: an unknown rule, or lengths that differ.
    """
    if rule not in outputs or rule not in distances:
        raise ValueError(f"rule must be one of {', '.join(outputs)}, got {rule!r}")
    p, output = _numbers(p), _numbers(outputs[rule])
    _same_length(p, output, names)
    figure, (left, right) = new_figure(panels=2, width=5.9, height=max(4.4, 0.29 * len(distances) + 1.4))
    left.get_gridspec().set_width_ratios([2, 3])
    places = range(len(names))
    edge = {"edgecolor": "black", "linewidth": 1.0, "width": 0.4}
    left.bar([x - 0.2 for x in places], p, color=SKY, label="wanted", **edge)
    left.bar([x + 0.2 for x in places], output, color=ORANGE, hatch="//", label="comes out", **edge)
    for at, heights in ((-0.2, p), (0.2, output)):
        for x, height in zip(places, heights, strict=True):
            left.text(x + at, height + 0.015, f"{height:.2f}", ha="center", fontsize=FONT_SIZE - 3)
    left.set_xticks(places, [shortened(name, LONGEST) for name in names])
    left.grid(False, axis="x")
    left.set(ylim=(0, 1.2), yticks=[0, 0.2, 0.4, 0.6, 0.8, 1])
    label(left, title, "first token", "probability")
    left.legend(fontsize=FONT_SIZE - 1, frameon=False, ncols=2, loc="upper center", columnspacing=1)

    order = sorted(distances, key=lambda name: (round(distances[name], 9), name))
    colours = [VERMILION if name == rule else GREY for name in order]
    right.barh(range(len(order)), [distances[name] for name in order], color=colours, height=0.65)
    for y, name in enumerate(order):
        words = right.text(distances[name], y, f" {_distance(distances[name])}", va="center")
        words.set(fontsize=FONT_SIZE - 2, in_layout=False)  # measuring each for the layout takes long
    right.set_yticks(range(len(order)), order)
    right.locator_params(axis="x", nbins=5)
    right.get_yticklabels()[order.index(rule)].set_fontweight("bold")
    right.tick_params(axis="y", labelsize=FONT_SIZE - 2, length=0)
    right.grid(False, axis="y")
    right.set(xlim=(0, 1.3 * max(0.05, *distances.values())), ylim=(-0.6, len(order) - 0.4))
    label(right, "How far texts are off", "total variation distance from the target", "")
    return figure, (
        f"{title}, {rule}: the first token is {_listed(output, names)}, wanted is {_listed(p, names)}; "
        f"total variation distance of whole texts: {_distance(distances[rule])}."
    )


def _distance(value: float) -> str:
    return "0, exact" if value < EXACT else f"{value:.4f}"


# ---------------------------------------------------------------- acceptance


def observed_and_expected(trace: Trace) -> tuple[Figure, str]:
    """Acceptance per place in the draft: Σ min(p, q) as bars, what was counted as points with their 95 % intervals.

    Taught in notebook 07. A sampled run only: a greedy one has nothing expected. `ValueError` without any judged draft.
    """
    places = [place for place in trace.acceptance_by_position() if "expected" in place]
    if not places:
        raise ValueError("the run has no judged place with an expected acceptance; was it sampled?")
    figure, (ax,) = new_figure(width=8.6, height=4.6)
    at = [place["place"] for place in places]
    hollow = {"color": "white", "edgecolor": GREEN, "linewidth": 2.5, "hatch": "..", "width": 0.7}
    ax.bar(at, [place["expected"] for place in places], label="expected: mean of Σ min(p, q)", **hollow)
    counted = [place["chance"] for place in places]
    low, high = zip(
        *[alpha_interval(place["accepted"], place["judged"] - place["accepted"]) for place in places],
        strict=True,
    )
    spread = [
        [c - a for c, a in zip(counted, low, strict=True)],
        [b - c for c, b in zip(counted, high, strict=True)],
    ]
    look = {"color": VERMILION, "markersize": 10, "capsize": 7, "linewidth": 2.4, "zorder": 4}
    ax.errorbar(at, counted, yerr=spread, fmt="o", label="observed: accepted ÷ judged", **look)
    for place in places:
        ax.text(place["place"], 0.03, f"{place['judged']}\njudged", ha="center", fontsize=FONT_SIZE - 2)
        ax.texts[-1].set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    ax.set(xticks=at, ylim=(0, 1.02))
    ax.grid(False, axis="x")
    label(ax, f"{len(trace.new_tokens)} sampled tokens", "place in the draft", "chance of acceptance")
    figure.legend(loc="outside lower center", ncols=2, fontsize=FONT_SIZE - 1, frameon=False)
    each = "; ".join(
        f"place {place['place']}: {place['expected']:.2f} expected, {place['accepted']} ÷ {place['judged']} = "
        f"{place['chance']:.2f} observed"
        for place in places
    )
    return figure, (
        f"{len(trace.new_tokens)} sampled tokens: α is {trace.expected_alpha:.3f} expected and {trace.alpha:.3f} observed; "
        f"{each}."
    )


def acceptance_by_temperature(
    curves: Mapping[str, Mapping[float, float]], temperature: float, title: str
) -> tuple[Figure, str]:
    """α against the temperature, one line for each way to draft, with one temperature pointed out. Taught in notebook 07.

    Args:
        curves: how is drafted, in words that go behind "if" → temperature → α; the same temperatures in each.
        temperature: one of them.
        title: on which text, with which filters.

    Returns:
        The figure, and a sentence with α of each line there.

    Raises:
        ValueError: no such temperature, or no curve.
    """
    if not curves:
        raise ValueError("acceptance_by_temperature needs at least one curve")
    known = sorted(set.intersection(*[set(curve) for curve in curves.values()]))
    if temperature not in known:
        raise ValueError(f"temperature must be one of {', '.join(map(str, known))}, got {temperature}")
    figure, (ax,) = new_figure(width=9.0, height=4.8)
    for (name, curve), (colour, marker, dash) in zip(curves.items(), SERIES, strict=False):
        look = {"color": colour, "linewidth": 2.6, "markersize": 6, "marker": marker, "linestyle": dash}
        ax.plot(known, [curve[t] for t in known], label=name, **look)
        ax.plot(temperature, curve[temperature], marker, color=colour, markersize=13, zorder=5)
    ax.axvline(temperature, color=GREY, linewidth=1.5, linestyle="--")
    ax.set(xlim=(known[0] - 0.03, known[-1] + 0.03), ylim=(0, 1))
    label(ax, title, "temperature T (0: greedy)", "α, expected")
    figure.legend(loc="outside lower center", ncols=2, fontsize=FONT_SIZE - 1, frameon=False)
    values = ", ".join(f"{curve[temperature]:.2f} if {name}" for name, curve in curves.items())
    return figure, f"{title}, T = {temperature:g}: α is expected to be {values}."


# ---------------------------------------------------------------- parts


def _numbers(values: Any) -> list[float]:
    """A tensor or a sequence as Python floats."""
    return [float(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]


def _same_length(p: Sequence[float], q: Sequence[float], names: Sequence[str]) -> None:
    if not len(p) == len(q) == len(names):
        raise ValueError(f"p, q and names must have one length, got {len(p)}, {len(q)} and {len(names)}")


def _listed(values: Sequence[float], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in zip(names, values, strict=True))
