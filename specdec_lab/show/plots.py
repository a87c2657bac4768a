"""Pictures as pure functions: each returns a matplotlib Figure and one sentence that says what it shows.

The sentence carries the figure's numbers; it is the alt text, and the text that is compared in tests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .style import FONT_SIZE, GREY, SERIES, label, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def speedup_by_gamma(summary: pd.DataFrame) -> tuple[Figure, str]:
    """Measured speed-up over plain decoding against γ, one line for each dial setting. Taught in notebook 06.

    Args:
        summary: what `specdec_lab.measure.sweep.summarise` returns.

    Returns:
        The figure, and a sentence with the best γ of each line.
    """
    figure, (ax,) = new_figure()
    drafted = summary[summary["gamma"] > 0]
    said = []
    dials = list(dict.fromkeys(None if math.isnan(dial) else dial for dial in drafted["dial"]))
    for number, dial in enumerate(dials):
        rows = drafted[drafted["dial"].isna() if dial is None else drafted["dial"] == dial].sort_values(
            "gamma"
        )
        colour, marker, dash = SERIES[number % len(SERIES)]
        name = "measured" if dial is None else f"α = {dial:g}"
        spread = [rows["speedup"] - rows["speedup_low"], rows["speedup_high"] - rows["speedup"]]
        ax.errorbar(
            rows["gamma"],
            rows["speedup"],
            yerr=[low.clip(lower=0) for low in spread],
            color=colour,
            marker=marker,
            linestyle=dash,
            linewidth=2.2,
            markersize=8,
            capsize=4,
            label=name,
        )
        best = rows.loc[rows["speedup"].idxmax()]
        where = f"at γ = {int(best['gamma'])}"
        said.append(
            f"{best['speedup']:.2f} {where}" if dial is None else f"{best['speedup']:.2f} {where} for {name}"
        )
    ax.axhline(1.0, color=GREY, linewidth=1.5, linestyle="--")
    ax.annotate("plain decoding", (1.0, 1.0), xycoords=("axes fraction", "data"), color=GREY)
    ax.texts[-1].set(ha="right", va="bottom", fontsize=FONT_SIZE - 2)
    ax.set_xticks(sorted(drafted["gamma"].unique()))
    label(
        ax,
        "Speed-up over plain decoding",
        "γ (most tokens drafted in a round)",
        "plain time ÷ speculative time",
    )
    if len(dials) > 1:
        ax.legend(fontsize=FONT_SIZE - 1, frameon=False)
    runs_low, runs_high = drafted["speedup_low"].min(), drafted["speedup_high"].max()
    sentence = (
        f"Speed-up over plain decoding for γ from {drafted['gamma'].min()} to {drafted['gamma'].max()}: the best is "
        f"{', '.join(said)}; single runs lie between {runs_low:.2f} and {runs_high:.2f}."
    )
    return figure, sentence
