"""Figures come with a sentence that holds their numbers, and leave nothing behind."""

from __future__ import annotations

import io
import re

import matplotlib.pyplot as plt
import pandas as pd

from specdec_lab.show.plots import speedup_by_gamma


def summary(dials=(None,)):
    rows = [{"decoder": "plain", "gamma": 0, "dial": None, "speedup": 1.0, "low": 1.0, "high": 1.0}]
    for n, dial in enumerate(dials):
        for gamma, speedup in ((1, 1.2), (4, 1.5 + n), (8, 0.9)):
            rows.append(
                {
                    "gamma": gamma,
                    "dial": dial,
                    "speedup": speedup,
                    "low": speedup - 0.1,
                    "high": speedup + 0.1,
                }
            )
    frame = pd.DataFrame(rows).rename(columns={"low": "speedup_low", "high": "speedup_high"})
    return frame.astype({"dial": float})


def test_the_sentence_names_the_best_gamma():
    figure, sentence = speedup_by_gamma(summary())
    assert "1.50 at γ = 4" in sentence and "between 0.80 and 1.60" in sentence
    (ax,) = figure.axes
    line = ax.containers[0].lines[0]
    assert list(line.get_xdata()) == [1, 4, 8] and list(line.get_ydata()) == [1.2, 1.5, 0.9]
    assert "γ" in ax.get_xlabel() and "÷" in ax.get_ylabel()


def test_one_line_for_each_dial_setting():
    figure, sentence = speedup_by_gamma(summary((0.3, 0.9)))
    assert "1.50 at γ = 4 for α = 0.3" in sentence and "2.50 at γ = 4 for α = 0.9" in sentence
    names = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert names == ["α = 0.3", "α = 0.9"]
    colours = {container.lines[0].get_color() for container in figure.axes[0].containers}
    markers = {container.lines[0].get_marker() for container in figure.axes[0].containers}
    assert len(colours) == len(markers) == 2, "colour alone must not tell lines apart"


def test_nothing_of_pyplot_is_touched():
    before = plt.get_fignums()
    figure, _ = speedup_by_gamma(summary())
    figure.savefig(io.BytesIO())
    assert plt.get_fignums() == before


def test_type_is_large_enough_for_the_back_row():
    figure, _ = speedup_by_gamma(summary((0.3, 0.9)))
    (ax,) = figure.axes
    texts = [ax.xaxis.label, ax.yaxis.label, ax.title, *ax.get_xticklabels(), *ax.get_legend().get_texts()]
    assert min(text.get_fontsize() for text in texts) >= 12
    assert re.fullmatch(r"#[0-9A-Fa-f]{6}", ax.containers[0].lines[0].get_color())
