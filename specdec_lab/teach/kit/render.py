"""From notebook cells to HTML that asks for nothing: nbconvert does the work, and is told four things.

Formulas become MathML, links between notebooks become links between pages, pictures become files with the text that a screen
reader reads out, and whatever nbconvert would only warn of is an error. It knows neither pages nor slides.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import Callable
from html import escape, unescape
from pathlib import Path
from typing import Any

import nbformat
from latex2mathml.converter import convert as mathml
from nbconvert import HTMLExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.formatters import HtmlFormatter

from .lessons import KitError, Links, relative

PNG = re.compile(r'src="data:image/png;base64,([^"]+)"')
PICTURE_OF = re.compile(r"^picture(?: at .+? = [^:]*)?: ", flags=re.S)


class Renderer:
    """Renders cells for one file of the kit after another.

    Args:
        folder: of the kit; pictures go into its folder `pictures`.
        links: where links lead.
    """

    def __init__(self, folder: Path, links: Links) -> None:
        self._folder, self._links = folder, links
        self._exporter = _Exporter(template_name="basic")
        self._exporter.exclude_anchor_links = True
        self._exporter.exclude_input_prompt = self._exporter.exclude_output_prompt = True
        self._exporter.log = logging.getLogger(__name__)
        self._complaints = _Complaints()
        self._exporter.log.addHandler(self._complaints)
        self._exporter.log.propagate = False
        self._highlight = Highlight2HTML(pygments_lexer="python")
        self._pictures: dict[str, str] = {}

    def place(self, name: str, page: str) -> None:
        """From now on, render what stands in `name` (a lesson, say) for the file `page` of the kit."""
        self._name, self._page = name, page
        self._exporter.link = lambda url: self._links.rewritten(url, name, page)

    def cells(self, cells: list[Any], *, code: bool = True) -> str:
        """Cells as HTML, in order; without their code if `code` is False."""
        self._exporter.exclude_input = not code
        notebook = nbformat.v4.new_notebook(cells=[described(cell, self._name) for cell in cells])
        notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
        self._complaints.texts.clear()
        html, _ = self._exporter.from_notebook_node(notebook)
        if self._complaints.texts:
            raise KitError(f"{self._name}: nbconvert warns: {'; '.join(self._complaints.texts)}")
        return PNG.sub(self._picture, html).strip()

    def output(self, cell: Any, output: Any) -> str:
        """One output of a cell."""
        alone = nbformat.v4.new_code_cell(outputs=[output], metadata=cell.metadata)
        return re.sub(r' id="cell-id=[^"]*"', "", self.cells([alone], code=False), count=1)

    def markdown(self, text: str) -> str:
        """A Markdown text as HTML."""
        return self._exporter.rendered(text)

    def code(self, text: str) -> str:
        """Python with colours."""
        return self._highlight(text)

    def _picture(self, match: re.Match) -> str:
        """The picture as a file, the same for every page that shows it."""
        data = base64.b64decode(match[1])
        name = f"pictures/{hashlib.sha256(data).hexdigest()[:16]}.png"
        path = self._folder / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        return f'src="{relative(name, self._page)}"'


def described(cell: Any, name: str) -> Any:
    """A copy of the cell whose pictures are `<img alt="…">`, with the sentence that they were stored with."""
    cell = nbformat.from_dict(cell)
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "image/png" not in data or "text/html" in data:
            continue
        sentence = PICTURE_OF.sub("", data.get("text/plain", ""))
        if not sentence.strip() or sentence.startswith("<"):
            raise KitError(
                f"{name}: the picture of cell {cell.id!r} has no sentence for those who cannot see it; "
                "show it with specdec_lab.show.picture.show_picture or explore"
            )
        png = "".join(data["image/png"].split())
        output.data = {
            "text/html": f'<img src="data:image/png;base64,{png}" alt="{escape(sentence, quote=True)}">'
        }
    return cell


def code_colours() -> str:
    """The style sheet for coloured code."""
    return HtmlFormatter(style="default").get_style_defs(".highlight")


class _Markdown(IPythonRenderer):
    """nbconvert's, with formulas as MathML and links that are looked up."""

    look_up: Callable[[str], str | None]

    def link(self, text: str, url: str, title: str | None = None) -> str:
        place = self.look_up(url)
        return text if place is None else super().link(text, place, title)

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        """With the name that JupyterLab gives it, for links to it: its words, joined by dashes."""
        name = unescape(re.sub(r"<[^>]+>", "", text)).strip().replace(" ", "-")
        return f'<h{level} id="{escape(name)}">{text}</h{level}>\n'

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def block_math(self, body: str) -> str:
        return f"<p>{mathml(body, display='block')}</p>"

    def latex_environment(self, name: str, body: str) -> str:
        return self.block_math(rf"\begin{{{name}}}{body}\end{{{name}}}")


class _Exporter(HTMLExporter):
    """nbconvert's, with our Markdown."""

    link: Callable[[str], str | None]

    def rendered(self, source: str) -> str:
        renderer = _Markdown(escape=False, exclude_anchor_links=self.exclude_anchor_links)
        renderer.look_up = self.link
        return MarkdownWithMath(renderer=renderer).render(source)

    def default_filters(self):
        yield from super().default_filters()
        yield ("markdown2html", self.rendered)
        yield ("clean_html", lambda html: html)  # slow, and there are no scripts in coloured code


class _Complaints(logging.Handler):
    """Collects what nbconvert warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
