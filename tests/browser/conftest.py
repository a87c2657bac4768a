"""A headless browser that reaches nothing but what a test allows, and tells what it tried.

Everything is module-scoped: while playwright runs, an event loop runs in the main thread, and later tests that start
kernels could not have their own.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from system_browser import browser_path

HANG = 120_000  # ms; a guard against hanging, not a measurement


@dataclass
class Watched:
    """A page, and what it tried.

    Attributes:
        page: playwright's page.
        outside: addresses asked for that were not allowed; none of them was reached.
        errors: exceptions that no script caught, and what the console called an error.
    """

    page: Any
    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser():
    path = browser_path()
    from playwright.sync_api import sync_playwright

    # no sandbox: it refuses to start for root, which containers are. Names outside the loopback do not resolve.
    flags = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=path, args=flags, timeout=HANG)
        yield program
        program.close()


@pytest.fixture(scope="module")
def watch(browser):
    """`with watch(allowed, **options) as watched`: a page in a context of its own that gets nothing from any address
    that does not start with `allowed`."""

    @contextmanager
    def watching(allowed: str, **options):
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        context.set_default_timeout(HANG)
        watched = Watched(context.new_page())

        def refused(url: str) -> bool:
            return not url.startswith((allowed, allowed.replace("http:", "ws:"), "data:", "blob:", "about:"))

        def note(url: str) -> None:
            if refused(url):
                watched.outside.append(url)

        context.route(refused, lambda route: route.abort())
        context.on("request", lambda request: note(request.url))
        watched.page.on("websocket", lambda socket: note(socket.url))
        watched.page.on("pageerror", lambda error: watched.errors.append(f"uncaught: {error}"))
        watched.page.on(
            "console",
            lambda message: message.type == "error" and watched.errors.append(f"console: {message.text}"),
        )
        try:
            yield watched
        finally:
            context.close()

    return watching
