"""Pictures that hold the formulas against points: a measured surface, pairs, papers, and rules that choose γ.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. The points are
given or stand in `measure.published`; nothing is run and nothing is timed here. No torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from specdec_lab.measure.published import PUBLISHED, implied_alpha
from specdec_lab.measure.theory import speedup

from .style import BLUE, FONT_SIZE, GREEN, GREY, SERIES, VERMILION, label, new_figure
from .theory_plots import AXES, GAMMAS, LARGEST, speedup_map

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_GAMMA_AXIS = "γ (most tokens drafted in a round)"
_GAIN_AXIS = "plain ÷ speculative time"


def measured_over_theory(surface: pd.DataFrame, dial: float) -> tuple[Figure, str]:
    """Measured speed-up over γ beside what was predicted, and all settings of the surface at once. Notebook 06.

    Args:
        surface: with columns gamma, dial, speedup, speedup_low, speedup_high, predicted, textbook: that of
            `measure.reference.load_reference`.
        dial: the α of the line that is drawn; one of the surface's.

    Returns:
        The figure, and a sentence with the best γ measured and predicted, and the errors over all settings.

    Raises:
        ValueError: there is no such α in the surface.
    """
    drafted = surface[surface["gamma"] > 0]
    rows = drafted[(drafted["dial"] - dial).abs() < 1e-9].sort_values("gamma")
    if rows.empty:
        known = ", ".join(f"{alpha:g}" for alpha in sorted(drafted["dial"].unique()))
        raise ValueError(f"dial must be one of {known}, got {dial}")
    figure, (left, right) = new_figure(panels=2, width=5.9, height=4.9)
    spread = [rows["speedup"] - rows["speedup_low"], rows["speedup_high"] - rows["speedup"]]
    bars = [side.clip(lower=0) for side in spread]
    dots = {"color": BLUE, "markersize": 9, "capsize": 4}
    left.errorbar(rows["gamma"], rows["speedup"], yerr=bars, fmt="o", label="measured", **dots)
    left.plot(rows["gamma"], rows["predicted"], "-", color="black", linewidth=2.2, label="cost model")
    left.plot(
        rows["gamma"], rows["textbook"], ":", color=VERMILION, linewidth=2.6, label="textbook: v = 1, endless"
    )
    left.axhline(1.0, color="black", linewidth=1.5, linestyle="--")
    top = max(rows["speedup_high"].max(), rows["predicted"].max(), rows["textbook"].max())
    left.set(xticks=range(1, int(drafted["gamma"].max()) + 1, 3), ylim=(0, 1.35 * max(1.4, float(top))))
    label(left, f"α set to {dial:g}", _GAMMA_AXIS, _GAIN_AXIS)
    left.legend(fontsize=FONT_SIZE - 2, frameon=False, loc="upper right" if dial < 0.75 else "upper left")

    ends = [float(drafted["speedup"].min()) * 0.8, float(drafted[["speedup", "textbook"]].max().max()) * 1.15]
    right.plot(ends, ends, "-", color=GREY, linewidth=1.5, label="measured = predicted")
    faint = {"linestyle": "", "markersize": 6}
    right.plot(
        drafted["textbook"], drafted["speedup"], "^", color=VERMILION, alpha=0.45, label="textbook", **faint
    )
    right.plot(
        drafted["predicted"], drafted["speedup"], "o", color=BLUE, alpha=0.7, label="cost model", **faint
    )
    ring = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 2, "linestyle": ""}
    right.plot(rows["predicted"], rows["speedup"], "o", color="black", label=f"α set to {dial:g}", **ring)
    right.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    for side in (right.xaxis, right.yaxis):
        side.set_major_formatter("{x:g}")
        side.set_ticks([tick for tick in (0.25, 0.5, 1, 2, 4, 8) if ends[0] < tick < ends[1]])
    right.minorticks_off()
    label(right, f"All {len(drafted)} settings", "predicted speed-up", "measured speed-up")
    right.legend(fontsize=FONT_SIZE - 2, frameon=False, loc="upper left")

    best, said = rows.loc[rows["speedup"].idxmax()], rows.loc[rows["predicted"].idxmax()]
    errors = {
        name: (drafted[name] / drafted["speedup"] - 1).abs() * 100 for name in ("predicted", "textbook")
    }
    return figure, (
        f"α set to {dial:g}: measured at best {best['speedup']:.2f} at γ = {int(best['gamma'])}, predicted "
        f"{said['predicted']:.2f} at γ = {int(said['gamma'])}. Over all {len(drafted)} settings the cost model is off by "
        f"{errors['predicted'].median():.1f} % in the middle and {errors['predicted'].max():.0f} % at most, the textbook "
        f"by {errors['textbook'].median():.0f} % and {errors['textbook'].max():.0f} %."
    )


def pairs_on_the_map(
    pairs: Mapping[str, tuple[float, float]], verify: Callable[[int], float], gamma: int
) -> tuple[Figure, str]:
    """Some pairs as curves over γ and as points on the map of α and c. Taught in notebook 06.

    Args:
        pairs: name → (α, c), one to six of them.
        verify: v, for 1…17 tokens.
        gamma: that of the map, 1…16.

    Returns:
        The figure, and a sentence with the speed-up of each pair at γ and its best γ.

    Raises:
        ValueError: no pairs, or more than six.
    """
    if not 1 <= len(pairs) <= len(SERIES):
        raise ValueError(f"pairs must be 1 to {len(SERIES)}, got {len(pairs)}")
    figure, (left, right) = new_figure(panels=2, width=5.9, height=4.9)
    speedup_map(right, gamma, verify(gamma + 1), AXES[0])
    said, top = [], 1.5
    for (name, (alpha, c)), (colour, marker, dash) in zip(pairs.items(), SERIES, strict=False):
        gains = dict(zip(GAMMAS, speedup(alpha, list(GAMMAS), c, verify).tolist(), strict=True))
        best = max(gains, key=lambda g: (gains[g], -g))
        top = max(top, *gains.values())
        look = {"color": colour, "linewidth": 2.4, "markersize": 7, "label": name}
        left.plot(GAMMAS, list(gains.values()), dash, marker=marker, **look)
        point = {"markersize": 15, "color": colour, "markeredgecolor": "black", "clip_on": False, "zorder": 6}
        right.plot(alpha, c, marker, **point)
        verdict = f"best at γ = {best} with {gains[best]:.2f}" if gains[best] > 1 else "no γ pays"
        said.append(f"{name} (α = {alpha:.2f}, c = {c:.2f}) {gains[gamma]:.2f}, {verdict}")
    left.axhline(1.0, color="black", linewidth=1.5, linestyle="--")
    left.axvline(gamma, color=GREY, linewidth=1.5)
    left.set(xticks=range(1, LARGEST + 1, 3), ylim=(0, 1.1 * top))
    label(left, "Speed-up over γ", _GAMMA_AXIS, _GAIN_AXIS)
    figure.legend(loc="outside lower center", ncols=6, fontsize=FONT_SIZE - 1, frameon=False)
    label(right, f"Speed-up at γ = {gamma}, v({gamma + 1}) = {verify(gamma + 1):.2f}", "α", "c")
    return figure, f"Speed-up at γ = {gamma}, by the formula: {'; '.join(said)}."


# ---------------------------------------------------------------- papers


def published_over_theory(draft: str) -> tuple[Figure, str]:
    """Printed speed-ups against α, those of one draft beside what theorem 3.8 gives for them. Taught in notebook 06.

    Where a paper prints no α, the point is hollow and stands at `published.implied_alpha`: on the formula, by
    construction.

    Args:
        draft: one of those in `measure.published.PUBLISHED`.

    Returns:
        The figure, and a sentence with the printed and the expected speed-ups of this draft.

    Raises:
        ValueError: no such draft.
    """
    drafts = list(dict.fromkeys(item.draft for item in PUBLISHED))
    if draft not in drafts:
        raise ValueError(f"draft must be one of {', '.join(drafts)}, got {draft!r}")
    figure, (ax,) = new_figure(width=9.0, height=6.2)
    said = []
    grid = [step / 100 for step in range(40, 96)]
    chosen = [item for item in PUBLISHED if item.draft == draft]
    for gamma, dash in zip(sorted({item.gamma for item in chosen}), ("-", "--", "-."), strict=False):
        c = chosen[0].cost_ratio
        name = f"formula, γ = {gamma}, c = {c:.2f}"
        ax.plot(grid, speedup(grid, gamma, c), dash, color="black", linewidth=2, label=name)
    for number, name in enumerate(drafts):
        colour, marker, _ = SERIES[number]
        items = [item for item in PUBLISHED if item.draft == name]
        at = [implied_alpha(item) if item.alpha is None else item.alpha for item in items]
        hollow = any(item.alpha is None for item in items)
        look = {"color": colour, "markersize": 13 if name == draft else 7, "linestyle": ""}
        look |= (
            {"markerfacecolor": "none", "markeredgewidth": 2.5} if hollow else {"markeredgecolor": "white"}
        )
        look["alpha"] = 1.0 if name == draft else 0.5
        extra = " (no α printed)" if hollow else ""
        ax.plot(at, [item.speedup for item in items], marker, label=f"{name}{extra}", **look)
        if name != draft:
            continue
        for item, x in zip(items, at, strict=True):
            formula = speedup(x, item.gamma, item.cost_ratio)
            ax.plot([x, x], [formula, item.speedup], color=colour, linewidth=2.5, alpha=0.7)
            expected = f"needs α = {x:.2f}" if item.alpha is None else f"expected {formula:.1f}"
            known = f"γ = {item.gamma}" + ("" if item.alpha is None else f", α = {item.alpha:.2f}")
            said.append(f"{item.setting} ({known}) printed {item.speedup:g}, {expected}")
    ax.axhline(1.0, color="black", linewidth=1.5, linestyle="--")
    ax.set(xlim=(0.45, 0.95), ylim=(0.8, 4.2))
    label(ax, f"Printed speed-ups; large: {draft}", "α", _GAIN_AXIS)
    figure.legend(loc="outside lower center", ncols=2, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, f"{draft}, {chosen[0].source.authors}, c = {chosen[0].cost_ratio:.2f}: {'; '.join(said)}."


# ---------------------------------------------------------------- rules that choose γ


def rules_against_fixed(
    fixed: Mapping[int, float], rules: Mapping[str, float], workload: str
) -> tuple[Figure, str]:
    """Speed-up of every fixed γ on one workload, and of rules that choose γ anew each round. Taught in notebook 06.

    Args:
        fixed: γ → speed-up; 0 is plain decoding.
        rules: name → speed-up, one to three of them.
        workload: its name.

    Returns:
        The figure, and a sentence with the best fixed γ and how far each rule is from it, in percent.

    Raises:
        ValueError: no fixed γ, or no rule or more than three.
    """
    if not fixed or not 1 <= len(rules) <= 3:
        raise ValueError(f"it needs a fixed γ and 1 to 3 rules, got {len(fixed)} and {len(rules)}")
    figure, (ax,) = new_figure(width=8.6, height=4.8)
    gammas = sorted(fixed)
    gains = [fixed[g] for g in gammas]
    ax.plot(gammas, gains, "o-", color=BLUE, linewidth=2.2, markersize=8, label="fixed γ")
    best = max(gammas, key=lambda g: (fixed[g], -g))
    ax.plot(
        best,
        fixed[best],
        "*",
        color=VERMILION,
        markersize=20,
        markeredgecolor="white",
        zorder=5,
        label="best fixed γ",
    )
    said = []
    for (name, gain), (colour, dash) in zip(
        rules.items(), ((GREEN, "-"), (VERMILION, "-."), (GREY, ":")), strict=False
    ):
        ax.axhline(gain, color=colour, linewidth=2.8, linestyle=dash, label=name)
        share = 100 * (gain / fixed[best] - 1)
        said.append(f"{name} reaches {gain:.2f}, {abs(share):.1f} % {'above' if share > 0 else 'below'} it")
    low, high = min(*gains, *rules.values()), max(*gains, *rules.values())
    ax.set(xticks=gammas, ylim=(min(0.9, low) - 0.1, high + 0.3 * (high - low) + 0.2))
    label(ax, f"Workload: {workload}", "fixed γ (0: plain decoding)", _GAIN_AXIS)
    ax.legend(fontsize=FONT_SIZE - 1, frameon=False, loc="upper right", ncols=2)
    return figure, f"{workload}: the best fixed γ is {best} with {fixed[best]:.2f}; {'; '.join(said)}."
