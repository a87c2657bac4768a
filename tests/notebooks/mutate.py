"""`python tests/notebooks/mutate.py [PART OF A NAME ...]`: does the strict run of the notebooks notice a broken package?

For each mutant (see `mutants.py`) the package is copied, broken in one place, and the notebooks run against the copy.
Prints a table: which notebook went red first, at which cell. Ends with an error if a mutant stayed green. Takes about
half a minute a mutant; the test suite checks only that every mutant still fits its file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mutants import MUTANTS, Mutant
from reading import ROOT

FIRST = (
    "03",
    "07",
    "04",
    "06",
    "05",
    "00",
    "02",
    "01",
    "09",
    "10",
    "11",
    "12",
)  # those that see most come first; the run stops at the first red cell


def main(parts: list[str]) -> None:
    """Run the mutants whose names hold one of `parts`; all of them if it is empty."""
    chosen = [mutant for mutant in MUTANTS if not parts or any(part in mutant.name for part in parts)]
    green = []
    print("| fault | noticed in | cell |\n|---|---|---|")
    for mutant in chosen:
        found = noticed(mutant)
        green += [mutant.name] if found is None else []
        notebook, cell = found or ("NOT NOTICED", "")
        print(f"| {mutant.name} | {notebook} | {cell} |", flush=True)
    if green or not chosen:
        raise SystemExit(f"{len(green)} of {len(chosen)} were not noticed: {', '.join(green)}")


def noticed(mutant: Mutant) -> tuple[str, str] | None:
    """(notebook, cell) that went red first, or None."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            ROOT / "specdec_lab", Path(folder) / "specdec_lab", ignore=shutil.ignore_patterns("__pycache__")
        )
        broken(Path(folder) / "specdec_lab", mutant)
        for number in FIRST:
            found = red_cell(next((ROOT / "notebooks").glob(f"{number}_*.ipynb")), Path(folder))
            if found:
                return found
    return None


def broken(package: Path, mutant: Mutant) -> None:
    """Put the mutant into the copy of the package."""
    file = package / mutant.file
    source = file.read_text(encoding="utf-8")
    if source.count(mutant.text) != 1:
        raise SystemExit(f"{mutant.name}: its text occurs {source.count(mutant.text)} times in {mutant.file}")
    file.write_text(source.replace(mutant.text, mutant.instead), encoding="utf-8")


def red_cell(notebook: Path, package: Path) -> tuple[str, str] | None:
    """Run one notebook strictly, with `package` before everything else on the path."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--nbval",
        "--nbval-current-env",
    ]
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    run = subprocess.run(
        [*command, str(notebook)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if run.returncode == 0:
        return None
    cell = re.search(r"^FAILED .*::Cell (\d+)", run.stdout, re.M)
    if run.returncode != 1 or cell is None:
        raise SystemExit(f"the run of {notebook.name} broke down:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return notebook.stem, cell[1]


if __name__ == "__main__":
    main(sys.argv[1:])
