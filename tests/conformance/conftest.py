"""What every conformance test gets: a check that nothing is logged or written to stderr, and the closing table.

The families are in `families.py`, the comparison in `compare.py`.
"""

from __future__ import annotations

import logging
import sys

import pytest
from transformers.utils import logging as transformers_logging

pytest.register_assert_rewrite("compare", "families")


class Kept(logging.Handler):
    """Keeps what is logged: transformers' own handler may hold a stderr that pytest does not see."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record):
        self.lines.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture(autouse=True)
def quiet(capfd):
    """Fail the test if building, loading or decoding wrote to stderr or logged a warning."""
    getattr(transformers_logging.warning_once, "cache_clear", lambda: None)()
    kept, loggers = Kept(), [logging.getLogger("transformers"), logging.getLogger()]
    for logger in loggers:
        logger.addHandler(kept)
    capfd.readouterr()
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(kept)
    assert kept.lines == []
    assert capfd.readouterr().err == ""


def pytest_terminal_summary(terminalreporter):
    """One line per family: how much was compared, and how often its drafts were right."""
    compare = sys.modules.get("compare")
    lines = compare.summary() if compare else []
    if lines:
        terminalreporter.section("conformance")
        for line in lines:
            terminalreporter.write_line(line)
