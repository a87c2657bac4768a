"""A picture with controls: sliders in a live notebook, a still picture and its sentence everywhere else.

It draws nothing itself: `draw(**parameters)` returns a matplotlib figure and the sentence that says what it shows.
Core ipywidgets only, made on first display; importing this module loads neither them nor matplotlib.

A cell leaves two outputs, the picture and under it the sentence, each with the widget of the same content beside
it. A live notebook shows the widgets; GitHub and nbviewer, which have none, show the still ones; a comparison of
outputs looks at the sentence. The widget views hold random ids: leave them out of notebooks that are stored.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable
from functools import cached_property, partial
from html import escape
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .control import Control, is_number, same
from .picture import checked, still, to_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Draw = Callable[..., tuple[Figure, str]]

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def explore(draw: Draw, /, **controls: Control | tuple | list | bool) -> Explorer:
    """A picture with a control for each parameter of `draw`. Taught in notebook 06.

    Args:
        draw: called with one keyword argument for each control; returns a matplotlib figure (best from
            `style.new_figure`) and one sentence that holds the figure's numbers.
        controls: a `Control` for each parameter, or just its values: (min, max, step), a list, True or False.

    Returns:
        The explorer, which a notebook shows when it is the last line of a cell. The first picture is drawn at once.

    Raises:
        ValueError: a control that cannot be.
        TypeError: `draw` does not return a figure and a sentence. What `draw` itself raises is not caught here.

    Example:
        `explore(draw, gamma=Control((1, 16, 1), default=4, label="γ"), alpha=(0, 1, 0.05))`
    """
    return Explorer(draw, controls)


class Explorer:
    """What `explore` returns: shown in a notebook, or asked with `at` and `check` where there is none."""

    def __init__(self, draw: Draw, controls: dict[str, Control | tuple | list | bool]) -> None:
        self.controls: dict[str, Control] = {}
        for name, values in controls.items():
            try:
                self.controls[name] = values if isinstance(values, Control) else Control(values)
            except ValueError as error:
                raise ValueError(f"control {name!r}: {error}") from None
        self._draw = draw
        self.png, self.sentence = self.at()

    def at(self, **parameters: Any) -> tuple[bytes, str]:
        """The picture (PNG bytes) and the sentence at a setting; what is not named stands at its default.

        Raises:
            TypeError: no such control.
            ValueError: a value that the control cannot take.
        """
        return self._frame(self._settings(parameters))

    def check(self, every: bool = False) -> list[str]:
        """Draw at the least, the starting and the greatest setting of each control, once each; for tests.

        Args:
            every: at every setting of each control instead. Choices that are no numbers are always all drawn.

        Returns:
            The sentences: the starting one, those of each control alone, all at the least, all at the greatest.

        Raises:
            RuntimeError: `draw` left pyplot figures open. What `draw` raises is not caught.
        """
        pyplot = sys.modules.get("matplotlib.pyplot")
        before = pyplot.get_fignums() if pyplot else []
        stops: list[dict[str, Any]] = [{}]
        for name, control in self.controls.items():
            stops += [{name: value} for value in (control.settings if every else control.extremes())]
        for end in (0, -1):
            stops.append({name: control.settings[end] for name, control in self.controls.items()})
        drawn = {repr(settings): settings for settings in map(self._settings, stops)}
        sentences = {key: self._frame(settings)[1] for key, settings in drawn.items()}
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot and pyplot.get_fignums() != before:
            raise RuntimeError("draw leaves pyplot figures open; make the figure with style.new_figure")
        return [sentences[repr(self._settings(stop))] for stop in stops]

    # ------------------------------------------------------------ live

    @cached_property
    def widgets(self) -> SimpleNamespace:
        """The ipywidgets, made once: `controls` by name, `image`, `sentence` (HTML), `panel` (controls over image)."""
        import ipywidgets
        from traitlets import Unicode

        class Picture(ipywidgets.Image):
            # An Image has no alt text. Its tooltip becomes the name that screen readers use, but the front end
            # looks for a description before it sets one, and fails where there is none. ipywidgets 7 has neither.
            description = Unicode("").tag(sync=True)
            tooltip = Unicode("").tag(sync=True)

        width = max((len(control.label or name) for name, control in self.controls.items()), default=0)
        handles = {name: control.widget(name, width) for name, control in self.controls.items()}
        image = Picture(
            value=self.png,
            format="png",
            tooltip=self.sentence,
            # its own width: a panel stretches what says nothing else, and a blown-up picture is a blurred one
            layout={"max_width": "100%", "width": "auto", "align_self": "flex-start"},
        )
        sentence = ipywidgets.HTML(value=live(self.sentence))
        panel = ipywidgets.VBox([*handles.values(), image])

        def redraw(control: Control, change: Any) -> None:
            nearest = control.nearest(change.new)
            if is_number(nearest) and not same(nearest, change.new):
                change.owner.value = nearest  # which calls this again
                return
            try:
                png, words = self.at(**{name: handle.value for name, handle in handles.items()})
            except Exception as error:  # a dead slider would say nothing
                # no picture is better than the picture of another setting
                image.layout.display = "none"
                sentence.value = live(f"No picture at this setting. {type(error).__name__}: {error}")
                return
            image.value, image.tooltip, image.layout.display = png, words, None
            sentence.value = live(words)

        for name, handle in handles.items():
            handle.observe(partial(redraw, self.controls[name]), names="value")
        return SimpleNamespace(controls=handles, image=image, sentence=sentence, panel=panel)

    def _ipython_display_(self) -> None:
        from IPython.display import publish_display_data

        for data, metadata in self._outputs(live=has_widgets()):
            publish_display_data(data, metadata)

    def _outputs(self, live: bool) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """(data, metadata) of the picture and of the sentence, each with its widget if `live`."""
        outputs = still(self.png, self.sentence, self._where())
        if live:
            for (data, _), widget in zip(outputs, (self.widgets.panel, self.widgets.sentence), strict=True):
                data[WIDGET_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
        return outputs

    # ------------------------------------------------------------ still

    def __repr__(self) -> str:
        return self.sentence

    def _repr_png_(self) -> bytes:
        return self.png

    def _repr_html_(self) -> str:
        return (
            f'<figure style="margin:0"><img alt="{escape(self.sentence)}" style="max-width:100%" '
            f'src="data:image/png;base64,{b64encode(self.png).decode()}">'
            f"<figcaption>{escape(self.sentence)}</figcaption></figure>"
        )

    # ------------------------------------------------------------ parts

    def _settings(self, parameters: dict[str, Any]) -> dict[str, Any]:
        unknown = parameters.keys() - self.controls.keys()
        if unknown:
            raise TypeError(f"no control {', '.join(sorted(unknown))}; there are {', '.join(self.controls)}")
        settings = {}
        for name, control in self.controls.items():
            try:
                settings[name] = control.setting(parameters[name]) if name in parameters else control.start
            except ValueError as error:
                raise ValueError(f"{name} {error}") from None
        return settings

    def _frame(self, settings: dict[str, Any]) -> tuple[bytes, str]:
        figure, sentence = checked(self._draw(**settings), "draw must return")
        return to_png(figure), sentence

    def _where(self) -> str:
        named = [f"{control.label or name} = {control.start}" for name, control in self.controls.items()]
        return ", ".join(named) or "its only setting"


def live(sentence: str) -> str:
    return f'<p role="status" aria-live="polite" style="margin:0;line-height:1.5">{escape(sentence)}</p>'


def has_widgets() -> bool:
    """ipywidgets can be imported, and this is not IPython in a terminal."""
    from importlib.util import find_spec

    from IPython import get_ipython

    shell = get_ipython()
    return (
        find_spec("ipywidgets") is not None
        and shell is not None
        and (type(shell).__name__ != "TerminalInteractiveShell")
    )
