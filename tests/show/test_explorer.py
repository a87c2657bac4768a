"""Explorers: a still picture with its sentence everywhere, and sliders that never die where they are live."""

from __future__ import annotations

import gc
import io
import json
import math
import os
import subprocess
import sys
import time
import weakref
from base64 import b64decode
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from PIL import Image

from specdec_lab.show.control import Control
from specdec_lab.show.explorer import WIDGET_VIEW, Explorer, explore
from specdec_lab.show.picture import show_picture, to_png
from specdec_lab.show.style import label, new_figure

ROOT = Path(__file__).resolve().parents[2]


def draw(gamma, alpha=0.5, kind="chain", log=False):
    if gamma == 13:
        raise ValueError("<13> brings bad luck")
    figure = Figure(figsize=(1.6, 0.9))
    ax = figure.add_subplot()
    ax.plot([a / 20 for a in range(21)], [(a / 20) ** gamma for a in range(21)])
    ax.set_axis_off()
    if log:
        ax.set_yscale("symlog")
    return (
        figure,
        f"At α = {alpha:g} all {gamma} drafts of a {kind} are accepted with {alpha**gamma:.3f}, log = {log}.",
    )


def explorer(**controls) -> Explorer:
    return explore(
        draw, **({"gamma": Control((1, 16, 1), default=4, label="γ"), "alpha": (0, 1, 0.1)} | controls)
    )


def everything() -> Explorer:
    return explorer(kind=["chain", "tree"], log=False)


# ---------------------------------------------------------------- controls


def test_settings_of_every_kind():
    assert Control((1, 4, 1)).settings == (1, 2, 3, 4)
    assert Control((0, 1, 0.1)).settings == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert all(type(setting) is float for setting in Control((0, 2, 0.5)).settings)
    assert Control([1, "two", None]).settings == (1, "two", None)
    assert Control(True).settings == (False, True)


def test_where_a_control_starts():
    assert (
        Control((1, 5, 1)).start == 3 and Control((0, 1, 0.1)).start == 0.5 and Control((1, 4, 1)).start == 2
    )
    assert Control(["a", "b"]).start == "a" and Control(["a", "b"], default="b").start == "b"
    assert Control(True).start is True and Control(False).start is False
    assert Control(True, default=False).start is False and Control((0, 1, 0.1), default=0).start == 0.0


@pytest.mark.parametrize(
    ("values", "default", "match"),
    [
        ((1, 2), None, "three numbers"),
        ((1, 2, "x"), None, "three numbers"),
        ((1, math.inf, 1), None, "three numbers"),
        ((True, 2, 1), None, "three numbers"),
        ((3, 1, 1), None, "larger max"),
        ((1, 3, 0), None, "whole steps"),
        ((0, 1, 0.3), None, "whole steps"),
        ([], None, "at least one"),
        ("abc", None, "list of choices"),
        ((1, 3, 1), 4, "between 1 and 3"),
        ((1, 3, 1), 1.5, "steps of 1"),
        (["a"], "b", "one of 'a'"),
        (True, 1, "one of False, True"),
    ],
)
def test_controls_that_cannot_be(values, default, match):
    with pytest.raises(ValueError, match=match):
        Control(values, default)


def test_the_name_of_a_faulty_control_is_told():
    with pytest.raises(ValueError, match="control 'alpha': a slider goes"):
        explorer(alpha=(1, 0, 1))


# ---------------------------------------------------------------- asked without a notebook


def test_at_gives_a_picture_and_its_sentence():
    run = explorer()
    png, sentence = run.at(gamma=2, alpha=0.3)
    assert sentence == "At α = 0.3 all 2 drafts of a chain are accepted with 0.090, log = False."
    picture = Image.open(io.BytesIO(png))
    assert picture.format == "PNG" and picture.size == (160, 90)
    assert run.at() == (run.png, run.sentence) and "α = 0.5 all 4" in run.sentence
    assert run.at(alpha=0.1 + 0.2)[1] == run.at(alpha=0.3)[1], "a slider sends 0.30000000000000004"
    assert run.at(gamma=2)[0] != run.at(gamma=3)[0]


def test_at_refuses_what_no_slider_could_send():
    run = explorer()
    with pytest.raises(TypeError, match="no control beta; there are gamma, alpha"):
        run.at(beta=1)
    with pytest.raises(ValueError, match="gamma must lie between 1 and 16 in steps of 1, got 17"):
        run.at(gamma=17)
    with pytest.raises(ValueError, match="bad luck"):
        run.at(gamma=13)  # draw's own errors are not hidden here


def test_check_visits_both_ends_and_the_start_of_every_control():
    seen = []

    def noted(**settings):
        seen.append(settings)
        return draw(**settings)

    run = explore(noted, gamma=Control((1, 9, 1), default=4), kind=["chain", "tree", "lookup"], log=True)
    seen.clear()
    sentences = run.check()
    assert len(sentences) == 1 + 3 + 3 + 2 + 2
    assert len(seen) == len({str(settings) for settings in seen}) == 1 + 2 + 2 + 1 + 2, "each drawn once"
    assert {s["gamma"] for s in seen} == {1, 4, 9}
    assert {s["kind"] for s in seen} == {"chain", "tree", "lookup"} and {s["log"] for s in seen} == {
        False,
        True,
    }
    assert {"gamma": 1, "kind": "chain", "log": False} in seen
    assert {"gamma": 9, "kind": "lookup", "log": True} in seen
    assert sentences[0] == run.sentence
    seen.clear()
    run.check(every=True)
    assert {s["gamma"] for s in seen} == set(range(1, 10))


def test_a_list_of_numbers_is_a_slider_for_check_too():
    seen = []
    run = explore(
        lambda n: (seen.append(n), draw(n))[1],
        n=Control([1, 2, 5, 7, 9], default=5, label="n of the picture"),
    )
    seen.clear()
    assert len(run.check()) == 1 + 3 + 2 and seen == [5, 1, 9]
    seen.clear()
    run.check(every=True)
    assert set(seen) == {1, 2, 5, 7, 9}


def test_check_finds_a_setting_that_cannot_be_drawn():
    with pytest.raises(ValueError, match="bad luck"):
        explorer(gamma=(3, 13, 1)).check()
    with pytest.raises(ValueError, match="bad luck"):
        explorer().check(every=True)


def test_figures_are_not_kept():
    made = []

    def watched(gamma):
        figure, sentence = draw(gamma)
        made.append(weakref.ref(figure))
        return figure, sentence

    before = plt.get_fignums()
    run = explore(watched, gamma=(1, 3, 1))
    for _ in range(8):
        run.at(gamma=2)
    assert plt.get_fignums() == before
    gc.collect()
    assert len(made) == 9 and not any(figure() for figure in made)


def test_a_figure_of_pyplot_is_closed_and_one_left_open_is_told():
    def with_pyplot(gamma):
        figure, ax = plt.subplots()
        ax.plot([0, gamma])
        return figure, f"A line to {gamma}."

    before = plt.get_fignums()
    explore(with_pyplot, gamma=(1, 3, 1)).check()
    assert plt.get_fignums() == before

    def leaky(gamma):
        plt.figure()
        return draw(gamma)

    run = explore(leaky, gamma=(1, 3, 1))
    try:
        with pytest.raises(RuntimeError, match="open"):
            run.check()
    finally:
        plt.close("all")


@pytest.mark.parametrize(
    "result", [None, "text", ("no figure", "text"), (Figure(), ""), (Figure(), "two\nlines"), (Figure(), 3)]
)
def test_draw_must_return_a_figure_and_a_sentence(result):
    with pytest.raises(TypeError, match="draw must return"):
        explore(lambda gamma: result, gamma=(1, 3, 1))


def test_same_setting_same_bytes_whatever_the_defaults():
    png = explorer().png
    with matplotlib.rc_context(
        {"figure.figsize": (3, 3), "figure.dpi": 55, "savefig.bbox": "tight", "savefig.dpi": 30}
    ):
        assert explorer().png == png
    assert b"Software" not in png and b"matplotlib" not in png


def test_drawing_does_not_hang():
    figure, (ax,) = new_figure()
    ax.plot([1, 2, 3], label="τ")
    ax.legend()
    label(ax, "Tokens per round", "α", "τ")
    start = time.perf_counter()
    png = to_png(figure)
    assert time.perf_counter() - start < 1
    assert Image.open(io.BytesIO(png)).size == (800, 460)


# ---------------------------------------------------------------- live


def test_sliders_write_into_the_picture_and_the_sentence():
    run = everything()
    live = run.widgets
    assert bytes(live.image.value) == run.png and run.sentence in live.sentence.value
    for name, value in {"gamma": 7, "alpha": 0.8, "kind": "tree", "log": True}.items():
        live.controls[name].value = value
    png, sentence = run.at(gamma=7, alpha=0.8, kind="tree", log=True)
    assert bytes(live.image.value) == png
    assert live.image.tooltip == sentence and sentence in live.sentence.value
    assert 'aria-live="polite"' in live.sentence.value
    assert live.panel.children == (*live.controls.values(), live.image)


def test_the_pictures_name_reaches_the_front_end():
    """The front end reads the length of `description` before it sets the tooltip; an Image has none of its own."""
    state = everything().widgets.image.get_state()
    assert state["description"] == "" and state["tooltip"].startswith("At α")
    assert state["_view_name"] == "ImageView" and state["_model_module"] == "@jupyter-widgets/controls"


def test_core_widgets_that_report_when_let_go():
    live = explorer(kind=["chain", "tree"], log=False, alpha=[0.1, 0.5]).widgets
    kinds = {name: type(handle).__name__ for name, handle in live.controls.items()}
    assert kinds == {"gamma": "IntSlider", "alpha": "SelectionSlider", "kind": "Dropdown", "log": "Checkbox"}
    assert not any(getattr(handle, "continuous_update", False) for handle in live.controls.values())
    assert [handle.description for handle in live.controls.values()] == ["γ", "alpha", "kind", "log"]
    slider = explorer(alpha=(0, 1, 0.05)).widgets.controls["alpha"]
    assert (slider.min, slider.max, slider.step, slider.readout_format) == (0, 1, 0.05, ".2f")


def test_an_error_is_a_sentence_and_the_next_setting_draws_again():
    live = explorer().widgets
    live.controls["gamma"].value = 13
    assert "No picture at this setting. ValueError: &lt;13&gt; brings bad luck" in live.sentence.value
    assert live.image.layout.display == "none", "the old picture would belong to another setting"
    live.controls["gamma"].value = 14
    assert live.image.layout.display is None and "all 14 drafts" in live.sentence.value


def test_a_number_typed_between_two_steps_goes_to_the_nearest():
    live = explorer().widgets
    live.controls["alpha"].value = 0.33
    assert live.controls["alpha"].value == 0.3 and "α = 0.3 " in live.sentence.value


def test_25_moves_leave_no_figure_and_no_warning(recwarn):
    live, before = explorer().widgets, plt.get_fignums()
    for i in range(25):
        live.controls["gamma"].value = 1 + i % 12
    assert plt.get_fignums() == before and not recwarn.list


# ---------------------------------------------------------------- stored


def test_outputs_are_a_picture_and_a_sentence_with_or_without_widgets():
    run = everything()
    (picture, metadata), (words, _) = run._outputs(live=False)
    assert b64decode(picture["image/png"]) == run.png and metadata["image/png"]["alt"] == run.sentence
    where = "picture at γ = 4, alpha = 0.5, kind = chain, log = False"
    assert picture["text/plain"] == f"{where}: {run.sentence}"
    assert words == {"text/html": f"<p>{run.sentence}</p>", "text/plain": run.sentence}
    assert "text/html" not in picture, "GitHub would show it in place of the picture"
    live = [data for data, _ in run._outputs(live=True)]
    assert [data.pop(WIDGET_VIEW)["model_id"] for data in live] == [
        run.widgets.panel.model_id,
        run.widgets.sentence.model_id,
    ]
    assert live == [picture, words], "a stored notebook without widget views compares equal"


def test_text_and_html_for_everything_else():
    run = explore(lambda gamma: (draw(gamma)[0], "a < b & 'c'"), gamma=(1, 3, 1))
    assert repr(run) == "a < b & 'c'" and run._repr_png_() == run.png
    html = run._repr_html_()
    assert 'alt="a &lt; b &amp; &#x27;c&#x27;"' in html and 'src="data:image/png;base64,' in html
    assert "http" not in html.split("base64,")[0]


CELL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
if "without" in sys.argv:
    sys.modules["ipywidgets"] = None  # as if it were not installed
shell = InteractiveShell.instance()
with capture_output() as captured:
    shell.run_cell('''
from specdec_lab.show.explorer import explore
from specdec_lab.show.style import new_figure
explore(lambda n: (new_figure()[0], f"n is {n}."), n=(1, 3, 1))
''').raise_error()
print(json.dumps([{kind: output.data[kind][:9] if kind[0] != "a" else "" for kind in sorted(output.data)}
                  for output in captured.outputs]))
"""


@pytest.mark.parametrize("present", ["with", "without"])
def test_the_last_line_of_a_cell_with_and_without_ipywidgets(present, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CELL, present],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    still = [
        {"image/png": "iVBORw0KG", "text/plain": "picture a"},
        {"text/html": "<p>n is 2", "text/plain": "n is 2."},
    ]
    live = [{WIDGET_VIEW: ""} | output for output in still]
    assert json.loads(done.stdout) == (live if present == "with" else still)


def test_a_picture_without_controls_leaves_the_same_two_outputs(tmp_path):
    code = """
import json
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
with capture_output() as captured:
    shell.run_cell('''
from specdec_lab.show.picture import show_picture
from specdec_lab.show.style import new_figure
show_picture(new_figure()[0], "1 < 2 in this picture.")
''').raise_error()
print(json.dumps([[output.data, output.metadata] for output in captured.outputs]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (picture, metadata), words = json.loads(done.stdout)
    assert b64decode(picture.pop("image/png")) == to_png(new_figure()[0])
    assert picture == {"text/plain": "picture: 1 < 2 in this picture."}
    assert metadata == {"image/png": {"alt": "1 < 2 in this picture."}}
    assert words == [
        {"text/html": "<p>1 &lt; 2 in this picture.</p>", "text/plain": "1 < 2 in this picture."},
        {},
    ]


def test_outside_ipython_a_picture_is_its_sentence(capsys, monkeypatch):
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    show_picture(new_figure()[0], "A line.")
    assert capsys.readouterr().out == "A line.\n"


@pytest.mark.parametrize("arguments", [("no figure", "text"), (Figure(), ""), (Figure(), "two\nlines")])
def test_show_picture_wants_a_figure_and_a_sentence(arguments):
    with pytest.raises(TypeError, match="show_picture takes"):
        show_picture(*arguments)
