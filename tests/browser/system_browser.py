"""Which Chromium the browser tests drive, and what happens where there is none.

The browser comes from the system's packages, never from a download: `CHROMIUM` names one, or it is found on the PATH.
Without one the tests are skipped with the reason in one line; with SPECDEC_LAB_BROWSER=required, as in `.ci/run`,
they fail with that line.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import NoReturn

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def browser_path() -> str:
    """The path of the browser; skips or fails where one of the two things needed is missing."""
    if find_spec("playwright") is None:
        without("the Python package playwright is missing: pip install -r requirements.txt")
    named = os.environ.get("CHROMIUM")
    found = next(filter(None, map(shutil.which, [named] if named else NAMES)), None)
    if found is None and named:
        without(f"CHROMIUM is {named!r}, and no such program can be run: correct it, or unset it")
    if found is None:
        without(
            "no Chromium on the PATH: install it (Debian: apt-get install chromium), or let CHROMIUM name it"
        )
    return found


def without(reason: str) -> NoReturn:
    """Skip, or fail where the browser tests must run."""
    if os.environ.get("SPECDEC_LAB_BROWSER") == "required":
        pytest.fail(f"SPECDEC_LAB_BROWSER=required, but {reason}", pytrace=False)
    pytest.skip(f"browser tests: {reason}")
