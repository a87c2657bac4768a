"""A button that measures: what it shows before, after, and when measuring fails."""

from __future__ import annotations

import pytest

from specdec_lab.show.button import MeasureButton
from specdec_lab.show.style import new_figure


def picture():
    figure, (ax,) = new_figure()
    ax.plot([1, 2], [3, 4])
    return figure, "Two points, 3 and 4."


def test_nothing_is_measured_before_it_is_pressed():
    button = MeasureButton("Measure (1 minute)", lambda: pytest.fail("measured"))
    assert button.widgets.button.description == "Measure (1 minute)"
    assert button.widgets.image.layout.display == "none"
    assert "needs a running notebook" in repr(button)


def test_a_click_measures_and_shows():
    button = MeasureButton("Measure", picture)
    button.widgets.button.click()
    assert (
        bytes(button.widgets.image.value).startswith(b"\x89PNG")
        and button.widgets.image.layout.display is None
    )
    assert "Two points, 3 and 4." in button.widgets.sentence.value
    assert not button.widgets.button.disabled


def test_it_says_what_went_wrong_and_can_be_pressed_again():
    answers = iter([ValueError("no <draft>"), None])

    def measure():
        error = next(answers)
        if error:
            raise error
        return picture()

    button = MeasureButton("Measure", measure)
    assert button.press() == "Nothing was measured. ValueError: no <draft>"
    assert "no &lt;draft&gt;" in button.widgets.sentence.value and not button.widgets.button.disabled
    assert button.press() == "Two points, 3 and 4."


def test_it_cannot_be_pressed_while_it_measures():
    seen = []
    button = MeasureButton("Measure", lambda: seen.append(button.widgets.button.disabled) or picture())
    button.press()
    assert seen == [True]


def test_it_is_published_with_a_text_twin(monkeypatch):
    import IPython.display

    published = []
    monkeypatch.setattr(IPython.display, "publish_display_data", published.append)
    MeasureButton("Measure <mine>", picture)._ipython_display_()
    [data] = published
    assert data["text/plain"] == "[ Measure <mine> ] This button needs a running notebook."
    assert "&lt;mine&gt;" in data["text/html"]


def test_in_a_live_notebook_the_button_itself_is_published(monkeypatch):
    import IPython.display

    from specdec_lab.show import button as module

    published = []
    monkeypatch.setattr(IPython.display, "publish_display_data", published.append)
    monkeypatch.setattr(module, "has_widgets", lambda: True)
    button = MeasureButton("Measure", picture)
    button._ipython_display_()
    [data] = published
    assert data[module.WIDGET_VIEW]["model_id"] == button.widgets.panel.model_id
    assert data["text/plain"] == repr(button)
