"""The notebook that the browser tests open: a token strip, an explorer and a player, made without a model."""

from __future__ import annotations

from types import SimpleNamespace

import nbformat

SETUP = """
from matplotlib.figure import Figure

from specdec_lab.decoding.rounds import Round, Trace
from specdec_lab.show.control import Control
from specdec_lab.show.explorer import explore
from specdec_lab.show.player import play
from specdec_lab.show.tokens import show_tokens

trace = Trace(
    (1, 2),
    (
        Round((3, 4, 9, 8), (-1, 0, 1, 2), (0, 1), (3, 4, 5), "correction", 0, 4, 0, 4, 0.0, 0.0),
        Round((6, 7), (-1, 0), (0, 1), (6, 7, 8), "bonus", 4, 7, 4, 6, 0.0, 0.0),
    ),
)


def decode(ids):
    return " ".join(f"word{token}" for token in ids)


def draw(gamma, alpha):
    if gamma == 16:
        raise ValueError("16 is too many")
    figure = Figure(figsize=(3, 2))
    figure.add_subplot().bar([0, 1], [gamma, alpha])
    return figure, f"γ = {gamma} and α = {alpha:.2f}: the bars are {gamma} and {alpha:.2f} high."
"""
EXPLORE = 'explore(draw, gamma=Control((1, 16, 1), default=4, label="γ"), alpha=(0, 1, 0.05))'
STRIP = "show_tokens(trace, decode)"
PLAY = 'play(trace, decode, title="Two rounds")'


def notebook():
    """The notebook, not yet run."""
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in (SETUP, EXPLORE, STRIP, PLAY)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def contents() -> SimpleNamespace:
    """What its cells show, as the objects themselves: `explorer`, `strip`, `player`."""
    names: dict = {}
    exec(SETUP, names)
    return SimpleNamespace(explorer=eval(EXPLORE, names), strip=eval(STRIP, names), player=eval(PLAY, names))
