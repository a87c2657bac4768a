"""Checked numbers for the formulas: a number or an array in, a numpy array out, and back again.

Each check takes the argument by its name, so that the error can say it. numpy is loaded at the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def numbers(**argument: Any) -> np.ndarray:
    """`name=value` as floats. Raises `TypeError` for anything that is no number, bools and texts too.

    >>> numbers(alpha=[0.5, 1]).tolist()
    [0.5, 1.0]
    """
    import numpy as np

    [(name, value)] = argument.items()
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iuf":  # bools, texts, objects
            array = _from_objects(array)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or an array of numbers, got {value!r}") from None
    return array.astype(float)


def _from_objects(array: np.ndarray) -> np.ndarray:
    """Floats from an array of fractions, decimals and the like."""
    import numpy as np

    if array.dtype.kind != "O" or any(not hasattr(item, "__float__") for item in array.flat):
        raise TypeError
    if any(isinstance(item, bool | str) for item in array.flat):
        raise TypeError
    return np.array([float(item) for item in array.flat]).reshape(array.shape)


def chances(**argument: Any) -> np.ndarray:
    """The same, each within 0…1; else `ValueError`."""
    [name] = argument
    array = numbers(**argument)
    return _bounded(array, (array >= 0) & (array <= 1), f"{name} must be between 0 and 1")


def least_zero(**argument: Any) -> np.ndarray:
    """The same, each 0 or more and finite; else `ValueError`."""
    import numpy as np

    [name] = argument
    array = numbers(**argument)
    return _bounded(array, (array >= 0) & np.isfinite(array), f"{name} must be 0 or more")


def above_zero(**argument: Any) -> np.ndarray:
    """The same, each above 0 and finite; else `ValueError`."""
    import numpy as np

    [name] = argument
    array = numbers(**argument)
    return _bounded(array, (array > 0) & np.isfinite(array), f"{name} must be above 0")


def counts(least: int = 1, **argument: Any) -> np.ndarray:
    """`name=value` as integers of `least` or more. Raises `TypeError` for other types, `ValueError` for less."""
    import numpy as np

    [(name, value)] = argument.items()
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be an integer or an array of integers, got {value!r}")
    return _bounded(array.astype(int), array >= least, f"{name} must be {least} or more")


def plain(value: Any) -> Any:
    """A Python number for an array without axes, other arrays as they are."""
    return value.item() if value.ndim == 0 else value


def _bounded(array: np.ndarray, good: np.ndarray, bound: str) -> np.ndarray:
    if not good.all():
        raise ValueError(f"{bound}, got {array[~good].flat[0] if array.ndim else array.item()}")
    return array
