"""`python tests/notebooks/store.py [NN ...] [solutions/NN ...]`: runs notebooks from top to bottom and stores them as the
tests want them. Exercises are made from solutions by `derive.py`, which stores them too.

Run it after a change to a notebook, to the bundled weights, or to anything that a notebook prints. It formats the
code cells, executes in a fresh kernel without a network, writes the number that `say` printed in front of each anchor
`<!-- say: name -->` in the prose, and leaves out what differs from run to run and is no result: widget states and
views, execution metadata, and how a stream was cut into pieces. A cell that fails, or an anchor whose name was never
said, stops it; the file is then unchanged.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

sys.path.insert(0, str(Path(__file__).parent))
from reading import ANCHOR, FOLDER, NOTEBOOKS, PRACTICE, ROOT, said

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def main(wanted: list[str]) -> None:
    """Store the notebooks whose names begin with one of `wanted`; all of them if it is empty."""
    for path in chosen([*NOTEBOOKS, *PRACTICE], FOLDER, wanted):
        print(path.relative_to(FOLDER), flush=True)
        store(path)


def chosen(paths: list[Path], folder: Path, wanted: list[str]) -> list[Path]:
    """Those whose names below `folder` begin with one of `wanted`; all of them if it is empty."""
    names = {path: path.relative_to(folder).as_posix() for path in paths}
    found = [path for path in paths if names[path].startswith(tuple(wanted) or "")]
    if not found:
        raise SystemExit(f"no notebook begins with {' or '.join(wanted)}; there are {list(names.values())}")
    return found


def store(path: Path) -> None:
    """Format, execute, fill in and normalise one notebook, in place."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    notebook = nbformat.read(path, as_version=4)
    notebook = formatted(notebook, path.name)
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    normalise(notebook)
    fill_in(notebook)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def formatted(notebook, name: str):
    """The notebook with its code cells as ruff writes them."""
    with tempfile.TemporaryDirectory(
        dir=ROOT / "notebooks"
    ) as folder:  # inside, so that ruff finds its settings
        copy = Path(folder) / name
        nbformat.write(notebook, copy)
        for step in (["check", "--fix"], ["format"]):
            subprocess.run([sys.executable, "-m", "ruff", *step, "--quiet", str(copy)], check=True)
        return nbformat.read(copy, as_version=4)


def normalise(notebook) -> None:
    """Keep sources, tags and results only."""
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    count = 0
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = {"tags": tags} if tags else {}
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        count += 1
        cell.execution_count = count
        cell.outputs = joined(cell.outputs)
        for output in cell.outputs:
            output.get("data", {}).pop(WIDGET_VIEW, None)
            if "execution_count" in output:
                output.execution_count = count
            if output.output_type == "error":  # the rest holds paths of this machine
                output.traceback = [f"{output.ename}: {output.evalue}"]


def joined(outputs: list) -> list:
    """Neighbouring pieces of one stream as one output; how they were cut is chance."""
    kept: list = []
    for output in outputs:
        if kept and output.output_type == "stream" and kept[-1].get("name") == output.name:
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def fill_in(notebook) -> None:
    """Numbers in prose become what was said; an anchor whose name was never said is an error."""
    spoken = said(notebook)

    def number(match) -> str:
        if match[2] not in spoken:
            raise SystemExit(f"{match[0]!r}: {match[2]!r} was never said; said: {sorted(spoken)}")
        return match[0].replace(match[1], spoken[match[2]], 1)

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = ANCHOR.sub(number, cell.source)


if __name__ == "__main__":
    main(sys.argv[1:])
