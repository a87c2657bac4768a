"""A button that measures: a picture and a sentence that only a live notebook can make, and only when asked.

What is measured takes time and differs from machine to machine, so nothing of it is stored. Core ipywidgets only, made
on first display.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from html import escape
from types import SimpleNamespace
from typing import TYPE_CHECKING

from .explorer import WIDGET_VIEW, has_widgets, live
from .picture import to_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class MeasureButton:
    """A button over an empty place; pressed, it measures and shows picture and sentence there. Taught in notebook 06.

    Args:
        label: what is written on it; say how long it takes.
        measure: called without arguments when it is pressed; returns a matplotlib figure and one sentence.

    Where there is no kernel or no ipywidgets, it is a sentence that says so.

    Example:
        `MeasureButton("Measure mine (1 minute)", lambda: measured_over_theory(my_surface(), 0.6))`
    """

    def __init__(self, label: str, measure: Callable[[], tuple[Figure, str]]) -> None:
        self.label, self._measure = label, measure
        self.sentence = f"[ {label} ] This button needs a running notebook."

    def press(self) -> str:
        """Measure now, show the result where the button is displayed, and return the sentence."""
        shown = self.widgets
        shown.button.disabled, shown.sentence.value = True, live("Measuring. Let nothing else run.")
        try:
            figure, sentence = self._measure()
            shown.image.value, shown.image.layout.display = to_png(figure), None
        except Exception as error:  # a dead button would say nothing
            shown.image.layout.display = "none"
            sentence = f"Nothing was measured. {type(error).__name__}: {error}"
        finally:
            shown.button.disabled = False
        shown.sentence.value = live(sentence)
        return sentence

    @cached_property
    def widgets(self) -> SimpleNamespace:
        """The ipywidgets, made once: `button`, `image`, `sentence` (HTML), `panel`."""
        import ipywidgets

        button = ipywidgets.Button(
            description=self.label, tooltip=self.label, layout={"width": "auto", "align_self": "flex-start"}
        )
        image = ipywidgets.Image(
            format="png",
            layout={
                "max_width": "100%",
                "width": "auto",
                "display": "none",
                "align_self": "flex-start",
            },
        )
        sentence = ipywidgets.HTML(value=live(""))
        button.on_click(lambda _: self.press())
        panel = ipywidgets.VBox([button, image, sentence])
        return SimpleNamespace(button=button, image=image, sentence=sentence, panel=panel)

    def __repr__(self) -> str:
        return self.sentence

    def _ipython_display_(self) -> None:
        from IPython.display import publish_display_data

        data: dict = {"text/plain": self.sentence, "text/html": f"<p>{escape(self.sentence)}</p>"}
        if has_widgets():
            data[WIDGET_VIEW] = {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self.widgets.panel.model_id,
            }
        publish_display_data(data)
