"""A still picture and under it the sentence that says what it shows: for a notebook, for a page, for a comparison.

The picture comes first, then its sentence, which is its alternative text as well. GitHub and nbviewer show both; a
comparison of outputs looks at the sentence. matplotlib is imported when a picture is made, not before.
"""

from __future__ import annotations

import io
import sys
from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 100


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


def show_picture(figure: Figure, sentence: str) -> None:
    """Show a figure, and under it the sentence that says what it shows. Taught in notebook 01.

    The two outputs of an explorer, without controls. Outside IPython the sentence is printed. `TypeError` for what is
    no matplotlib figure, or no sentence of one line. Example: `show_picture(*by_length(lengths, curves, …))`.
    """
    from IPython import get_ipython
    from IPython.display import publish_display_data

    figure, sentence = checked((figure, sentence), "show_picture takes")
    if get_ipython() is None:
        return print(sentence)
    for data, metadata in still(to_png(figure), sentence):
        publish_display_data(data, metadata)


def checked(result: Any, rule: str) -> tuple[Figure, str]:
    """A figure and one line of text, or `TypeError`; `rule` begins its message."""
    from matplotlib.figure import Figure

    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Figure)):
        raise TypeError(f"{rule} (matplotlib Figure, sentence)")
    figure, sentence = result
    if not isinstance(sentence, str) or not sentence.strip() or "\n" in sentence:
        raise TypeError(f"{rule} a sentence of one line beside the figure, got {sentence!r}")
    return figure, sentence


def still(png: bytes, sentence: str, where: str = "") -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(data, metadata) of a picture and of its sentence, which is the picture's alt text and plain text as well."""
    picture = {"image/png": b64encode(png).decode()}
    picture["text/plain"] = f"picture at {where}: {sentence}" if where else f"picture: {sentence}"
    words = {"text/html": f"<p>{escape(sentence)}</p>", "text/plain": sentence}
    return [(picture, {"image/png": {"alt": sentence}}), (words, {})]
