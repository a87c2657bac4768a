"""What a finished kit must not have: a link to nothing, anything that is fetched from elsewhere, a picture without words.

It reads files and runs no browser; tests do that.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from .lessons import KitError

ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", flags=re.I)
STYLE_FETCHES = re.compile(r"(?:@import\s+|url\()\s*['\"]?(?!data:|#)([^'\")\s]+)", flags=re.I)
MAY_LEAVE = {"a"}  # a reader may click on these; nothing else may name another host


class _Page(HTMLParser):
    """Collects what a page links to and shows."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []  # tag, address
        self.ids: set[str] = set()
        self.wordless = 0
        self._style = False

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        for name in ("src", "href", "data", "poster", "action"):
            if values.get(name):
                self.links.append((tag, values[name]))
        if tag == "img" and not values.get("alt", "").strip():
            self.wordless += 1
        self._style = tag == "style"

    def handle_data(self, data):
        if self._style:
            self.links += [("style", address) for address in STYLE_FETCHES.findall(data)]


def check(folder: Path) -> int:
    """How many pages were looked at. `KitError` that lists everything wrong with the kit in `folder`."""
    pages = {path.resolve(): read(path) for path in sorted(folder.rglob("*.html"))}
    wrong: list[str] = []
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        if page.wordless:
            wrong.append(f"{name}: {page.wordless} pictures without alt text")
        wrong += [
            f"{name}: {problem}" for tag, link in page.links if (problem := fault(path, tag, link, pages))
        ]
    for path in folder.rglob("*.css"):
        found = STYLE_FETCHES.findall(path.read_text(encoding="utf-8"))
        wrong += [
            f"{path.name} fetches {address!r}" for address in found if not (path.parent / address).exists()
        ]
    if wrong:
        raise KitError(f"{len(wrong)} faults in what was built:\n" + "\n".join(wrong[:30]))
    return len(pages)


def read(path: Path) -> _Page:
    """A page, parsed."""
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def fault(path: Path, tag: str, link: str, pages: dict[Path, _Page]) -> str:
    """What is wrong with a link of a page, or ""."""
    if link.startswith("data:"):
        return ""
    if ELSEWHERE.match(link) or link.startswith(("mailto:", "javascript:")):
        return "" if tag in MAY_LEAVE else f"<{tag}> fetches {link[:80]!r}"
    file, _, anchor = link.partition("#")
    target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
    if not target.exists() or target.is_dir():
        return f"the link {link!r} leads to nothing"
    anchor = anchor.removeprefix("/")  # reveal.js writes so where a slide is meant
    # pdoc links to the names of private classes, which have no place in the reference
    if anchor and not anchor.startswith("_") and target in pages and unquote(anchor) not in pages[target].ids:
        return f"the link {link!r} leads to a page that has no such place"
    return ""
