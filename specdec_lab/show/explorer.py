"""A picture with controls: sliders in a live notebook, a still picture and its sentence everywhere else.

It draws nothing itself: `draw(**parameters)` returns a matplotlib figure and the sentence that says what it shows.
Core ipywidgets only, made on first display; importing this module loads neither them nor matplotlib.

A cell leaves two outputs, the picture and under it the sentence, each with the widget of the same content beside
it. A live notebook shows the widgets; GitHub and nbviewer, which have none, show the still ones; a comparison of
outputs looks at the sentence. The widget views hold random ids: leave them out of notebooks that are stored.
"""

from __future__ import annotations

import io
import math
import sys
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from html import escape
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Draw = Callable[..., tuple[Figure, str]]

DPI = 100
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

# ---------------------------------------------------------------- controls


@dataclass(frozen=True)
class Control:
    """One thing a student can change. Taught in notebook 06.

    Args:
        values: a tuple (min, max, step) for a slider, a list of choices, or True/False for a check box.
        default: the setting to start with; None for the middle of a slider, the first choice, or the bool itself.
        label: what is written beside it, with its unit; "" for the name of the parameter.

    Raises:
        ValueError: nothing to choose from, steps that do not end at max, or a default that cannot be set.

    >>> Control((0, 1, 0.25)).settings
    (0.0, 0.25, 0.5, 0.75, 1.0)
    >>> Control(["chain", "tree"]).start
    'chain'
    """

    values: tuple | list | bool
    default: Any = None
    label: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.values, bool | list | tuple):
            raise ValueError(
                f"a control is (min, max, step), a list of choices, True or False; got {self.values!r}"
            )
        if isinstance(self.values, tuple):
            numbers = [value for value in self.values if _is_number(value)]
            if len(self.values) != 3 or len(numbers) != 3:
                raise ValueError(f"a slider is (min, max, step), three numbers; got {self.values!r}")
            low, high, step = map(_decimal, self.values)
            if step <= 0 or high <= low or (high - low) % step:
                raise ValueError(
                    f"a slider goes from min to a larger max in whole steps; got {self.values!r}"
                )
        elif not self.settings:
            raise ValueError("a list of choices needs at least one")
        if self.default is not None:
            self.setting(self.default)

    @cached_property
    def settings(self) -> tuple:
        """Every value it can take, in order."""
        if isinstance(self.values, bool):
            return (False, True)
        if isinstance(self.values, list):
            return tuple(self.values)
        low, high, step = map(_decimal, self.values)
        kind = int if all(isinstance(value, int) for value in self.values) else float
        return tuple(kind(low + k * step) for k in range(int((high - low) / step) + 1))

    @property
    def start(self) -> Any:
        """The value it starts with."""
        if self.default is not None:
            return self.setting(self.default)
        if isinstance(self.values, bool):
            return self.values
        return self.settings[(len(self.settings) - 1) // 2 if isinstance(self.values, tuple) else 0]

    def setting(self, value: Any) -> Any:
        """The setting that `value` stands for: a slider may send 0.30000000000000004 for 0.3.

        Raises:
            ValueError: there is none.
        """
        for setting in self.settings:
            if _is_number(setting) and _is_number(value):
                if _same(setting, value):
                    return setting
            elif type(setting) is type(value) and setting == value:  # True is not 1 here
                return setting
        if isinstance(self.values, tuple):
            low, high, step = self.values
            raise ValueError(f"must lie between {low} and {high} in steps of {step}, got {value!r}")
        raise ValueError(f"must be one of {', '.join(map(repr, self.settings))}, got {value!r}")

    def nearest(self, value: Any) -> Any:
        """The setting of a slider nearest to `value`, which may have been typed; other values as they are."""
        if not isinstance(self.values, tuple):
            return value
        return min(self.settings, key=lambda setting: abs(setting - value))

    def extremes(self) -> list:
        """First, starting and last setting of a slider (a list of numbers is one too); every choice otherwise."""
        if all(map(_is_number, self.settings)):
            return list(dict.fromkeys([self.settings[0], self.start, self.settings[-1]]))
        return list(self.settings)

    def widget(self, name: str, width: int) -> Any:
        """The ipywidget, its description `width` letters wide. Sliders report when they are let go."""
        import ipywidgets

        common = {
            "description": self.label or name,
            "style": {"description_width": f"{width + 1}ch"},
            "layout": {"width": "min(100%, 44em)"},
        }
        if hasattr(ipywidgets.DOMWidget, "tooltip"):  # not in ipywidgets 7, which Colab has
            common["tooltip"] = self.label or name  # without one, ipywidgets 8 puts "null" on the label
        if isinstance(self.values, bool):
            return ipywidgets.Checkbox(value=self.start, **common)
        if isinstance(self.values, list):
            numbers = all(map(_is_number, self.settings))
            kind = ipywidgets.SelectionSlider if numbers else ipywidgets.Dropdown
            more = {"continuous_update": False} if numbers else {}
            return kind(options=list(self.settings), value=self.start, **more, **common)
        low, high, step = self.settings[0], self.settings[-1], self.settings[1] - self.settings[0]
        slider: dict[str, Any] = {"min": low, "max": high, "value": self.start, "continuous_update": False}
        if isinstance(low, int):
            return ipywidgets.IntSlider(step=step, **slider, **common)
        places = max(0, *(-_decimal(value).normalize().as_tuple().exponent for value in self.values))
        return ipywidgets.FloatSlider(
            step=float(self.values[2]), readout_format=f".{places}f", **slider, **common
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def _decimal(value: float) -> Decimal:
    return Decimal(str(value))


# ---------------------------------------------------------------- pictures


def to_png(figure: Figure, dpi: int = DPI) -> bytes:
    """The figure as a PNG, the same bytes for the same figure: no date, no version, no tight box. Nothing stays open.

    A figure that was made with pyplot after all is closed.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
    return buffer.getvalue()


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


def show_picture(figure: Figure, sentence: str) -> None:
    """Show a figure, and under it the sentence that says what it shows. Taught in notebook 01.

    The two outputs of an explorer, without controls. Outside IPython the sentence is printed. `TypeError` for what is
    no matplotlib figure, or no sentence of one line. Example: `show_picture(*by_length(lengths, curves, …))`.
    """
    from IPython import get_ipython
    from IPython.display import publish_display_data

    figure, sentence = _checked((figure, sentence), "show_picture takes")
    if get_ipython() is None:
        return print(sentence)
    for data, metadata in _still(to_png(figure), sentence):
        publish_display_data(data, metadata)


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
            if _is_number(nearest) and not _same(nearest, change.new):
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
        outputs = _still(self.png, self.sentence, self._where())
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
        figure, sentence = _checked(self._draw(**settings), "draw must return")
        return to_png(figure), sentence

    def _where(self) -> str:
        named = [f"{control.label or name} = {control.start}" for name, control in self.controls.items()]
        return ", ".join(named) or "its only setting"


def _checked(result: Any, rule: str) -> tuple[Figure, str]:
    """A figure and one line of text, or `TypeError`; `rule` begins its message."""
    from matplotlib.figure import Figure

    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Figure)):
        raise TypeError(f"{rule} (matplotlib Figure, sentence)")
    figure, sentence = result
    if not isinstance(sentence, str) or not sentence.strip() or "\n" in sentence:
        raise TypeError(f"{rule} a sentence of one line beside the figure, got {sentence!r}")
    return figure, sentence


def _still(png: bytes, sentence: str, where: str = "") -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(data, metadata) of a picture and of its sentence, which is the picture's alt text and plain text as well."""
    picture = {"image/png": b64encode(png).decode()}
    picture["text/plain"] = f"picture at {where}: {sentence}" if where else f"picture: {sentence}"
    words = {"text/html": f"<p>{escape(sentence)}</p>", "text/plain": sentence}
    return [(picture, {"image/png": {"alt": sentence}}), (words, {})]


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
