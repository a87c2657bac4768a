"""Strict runs of the notebooks: where the sanitising rules lie, and how many cells were really compared.

Options that hold for every notebook run live here, because a path in `addopts` would depend on where pytest was
started. Fixtures of the unit tests are in `tests/conftest.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # kernels inherit it
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # each core has a worker: kernels of two threads would wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")

RULES = Path(__file__).parent / "tests" / "notebooks" / "sanitize.cfg"


def pytest_configure(config):
    """Give nbval its rules, wherever pytest was started."""
    if getattr(config.option, "nbval", False) and config.option.nbval_sanitize_with is None:
        config.option.nbval_sanitize_with = str(RULES)


def pytest_terminal_summary(terminalreporter, config):
    """Say how many cells were compared with a stored output, and how many only ran."""
    counts = {"compared": 0, "silent": 0, "only run": 0}
    for report in terminalreporter.getreports("passed"):
        kind = dict(report.user_properties).get("notebook cell")
        if kind is not None and report.when == "call":
            counts[kind] += 1
    if any(counts.values()):
        terminalreporter.write_line(
            f"notebooks: {counts['compared']} cells compared with stored output, {counts['silent']} compared with "
            f"none (they print nothing), {counts['only run']} only run (tagged)"
        )


def pytest_runtest_setup(item):
    """Mark each notebook cell with what happens to its output."""
    options = getattr(item, "options", None)
    if options is None or not hasattr(item, "cell"):
        return
    compared = options["check"] and item.cell.execution_count is not None
    kind = ("compared" if item.cell.outputs else "silent") if compared else "only run"
    item.user_properties.append(("notebook cell", kind))
