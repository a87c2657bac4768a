"""One control of a picture: which settings it has, where it starts, and the widget that stands for it.

ipywidgets are imported when a widget is made, not before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any


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
            numbers = [value for value in self.values if is_number(value)]
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
            if is_number(setting) and is_number(value):
                if same(setting, value):
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
        if all(map(is_number, self.settings)):
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
            numbers = all(map(is_number, self.settings))
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


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def _decimal(value: float) -> Decimal:
    return Decimal(str(value))
