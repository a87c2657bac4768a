"""What the tests of the lecture kit need: the libraries that build it, and a browser without a network."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "browser"))
NEEDED = ("nbconvert", "pdoc", "latex2mathml", "PIL")
collect_ignore = (
    [] if all(map(find_spec, NEEDED)) else ["test_kit_builder.py", "test_kit_slides.py", "test_whole_kit.py"]
)

HANG = 60_000  # ms; a guard against hanging, not a measurement


@pytest.fixture(scope="module")
def offline():
    """`with offline() as seen`: a page of 1280 x 720 that opens files only; `seen.fetched` and `seen.errors` tell the rest."""
    from system_browser import browser_path

    path = browser_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=HANG)

        @contextmanager
        def opened():
            context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
            context.set_default_timeout(HANG)
            seen = SimpleNamespace(page=context.new_page(), context=context, fetched=[], errors=[])

            def request(one) -> None:
                if not one.url.startswith(("file:", "data:", "blob:", "about:")):
                    seen.fetched.append(one.url)

            context.on("request", request)
            context.on("weberror", lambda error: seen.errors.append(str(error.error)))
            context.on(
                "console", lambda one: one.type in ("error", "warning") and seen.errors.append(one.text)
            )
            try:
                yield seen
            finally:
                context.close()

        yield opened
        browser.close()
