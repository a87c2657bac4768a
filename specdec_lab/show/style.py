"""How every picture looks: colours that a colour-blind reader can tell apart, type that the back row can read.

Figures are made without pyplot, so nothing is kept open and no global state is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's set, with the marker and the dash that go with each, so that no colour is alone in telling
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)
SERIES = (
    (BLUE, "o", "-"),
    (VERMILION, "s", "--"),
    (GREEN, "^", "-."),
    (PURPLE, "D", ":"),
    (ORANGE, "v", "-"),
    (SKY, "P", "--"),
)
HATCHES = ("", "//", "..", "\\\\", "xx", "--")
GREY = "#6B6B6B"
FONT_SIZE = 14


def new_figure(panels: int = 1, width: float = 8.0, height: float = 4.6) -> tuple[Figure, list[Axes]]:
    """A figure of `panels` axes side by side, each `width` × `height` inches, in the house style."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * panels, height), layout="constrained", facecolor="white")
    axes = [figure.add_subplot(1, panels, i + 1) for i in range(panels)]
    for ax in axes:
        ax.grid(True, alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=FONT_SIZE - 1)
    return figure, axes


def bar_look(number: int) -> dict[str, str]:
    """Colour and hatch of a bar in a row of up to 36 that all look different."""
    turn, place = divmod(number, len(SERIES))
    return {"facecolor": SERIES[place][0], "hatch": HATCHES[(place + turn) % len(HATCHES)]}


def label(ax: Axes, title: str, x: str, y: str) -> None:
    """Title and axes, with units in the texts given."""
    ax.set_title(title, fontsize=FONT_SIZE + 1, loc="left")
    ax.set_xlabel(x, fontsize=FONT_SIZE)
    ax.set_ylabel(y, fontsize=FONT_SIZE)
