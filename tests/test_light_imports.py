"""Looking at results, reading records and asking for facts loads none of the heavy libraries, and warns about nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FACTS = "decoding.token_tree measure.trees measure.machines models.public_pairs teach.reports"
SHOW = sorted(path.stem for path in (ROOT / "specdec_lab" / "show").glob("[a-z]*.py"))

IMPORTS = """
import importlib, sys
for name in sys.argv[2:]:
    importlib.import_module(f"specdec_lab.{name}")
    loaded = sorted(set(sys.argv[1].split()) & set(sys.modules))
    assert not loaded, f"specdec_lab.{name} loads {', '.join(loaded)}"
"""

DRAWS = """
import sys
from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.show.real_plots import verify_costs
from specdec_lab.show.run_plots import tokens_per_round_by_task
from specdec_lab.show.stream_plots import network
from specdec_lab.show.tree_plots import tree_of_round
verify_costs({"a": {1: 1.0, 2: 2.0}})
tokens_per_round_by_task([{"task": "t", "contender": "c", "tokens_per_round": 1.5}])
network(4, 2, 2)
tree_of_round(["a"], TreeShape((-1,)), (), "x")
assert not {"torch", "transformers", "pandas", "matplotlib.pyplot"} & set(sys.modules)
"""


def run(code: str, *arguments: str, folder) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stderr


@pytest.mark.parametrize(
    ("heavy", "modules"),
    [
        ("torch transformers pandas numpy matplotlib ipywidgets IPython", [f"show.{name}" for name in SHOW]),
        ("torch transformers pandas numpy matplotlib", FACTS.split()),
    ],
    ids=["show", "facts"],
)
def test_importing_them_loads_nothing_heavy(heavy, modules, tmp_path):
    assert not run(IMPORTS, heavy, *modules, folder=tmp_path)


def test_drawing_needs_neither_torch_nor_pyplot(tmp_path):
    assert not run(DRAWS, folder=tmp_path)


def test_a_heavy_import_would_be_named(tmp_path):
    assert "specdec_lab.decoding.loop loads torch" in run(IMPORTS, "torch", "decoding.loop", folder=tmp_path)
