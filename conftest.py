"""Strict runs of the notebooks: where the sanitising rules lie, and how many cells were really compared.

Options that hold for every notebook run live here, because a path in `addopts` would depend on where pytest was
started. Fixtures of the unit tests are in `tests/conftest.py`.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # kernels inherit it
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # each core has a worker: kernels of two threads would wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")

RULES = Path(__file__).parent / "tests" / "notebooks" / "sanitize.cfg"
# The one notebook that takes weights which do not come with the package.
WITH_SMOLLM2 = Path(__file__).parent / "notebooks" / "11_real_models.ipynb"


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
    """Mark each notebook cell with what happens to its output; skip those of a model that is not on this machine."""
    options = getattr(item, "options", None)
    if options is None or not hasattr(item, "cell"):
        return
    if item.path == WITH_SMOLLM2 and (reason := no_smollm2()):
        if os.environ.get("SPECDEC_LAB_SMOLLM2") == "required":
            pytest.fail(f"SPECDEC_LAB_SMOLLM2=required, but {reason}", pytrace=False)
        pytest.skip(f"cells of SmolLM2: {reason}")
    compared = options["check"] and item.cell.execution_count is not None
    kind = ("compared" if item.cell.outputs else "silent") if compared else "only run"
    item.user_properties.append(("notebook cell", kind))


@functools.cache
def no_smollm2() -> str:
    """Why the cells of SmolLM2 cannot be compared here, "" if they can.

    The notebook is made with the package's weights, and other weights write other texts. They are converted now, once, so
    that no cell prints of it; no kernel has been started yet.
    """
    from specdec_lab.models.smollm2 import INSTALL, find_smollm2, look_for_smollm2

    place = look_for_smollm2()
    if place is None:
        return f"the package is not installed: {INSTALL}"
    if place != "package":
        return f"its weights are those of the {place}, which write other texts than the package's"
    try:
        find_smollm2()
    except ValueError as error:  # gguf is missing, or the cache folder is read-only
        return str(error)
    return ""
