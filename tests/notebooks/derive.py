"""`python tests/notebooks/derive.py [NN ...]`: writes notebooks/exercises from notebooks/solutions.

A solution is written by hand. In its cells tagged "exercise" the lines between the two comments that nbgrader uses,

    ### BEGIN SOLUTION
    ### END SOLUTION

are the answer; the exercise has a line that raises `NotImplementedError` in their place, and the tag
"raises-exception" beside the other. Nothing else differs. Exercises are then stamped, run and stored as lessons are.
"""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).parent))
from reading import EXERCISES, ROOT, SOLUTIONS, tags
from stamp import place, stamped
from store import chosen, store

ANSWER = re.compile(r"^(?P<indent> *)### BEGIN SOLUTION *\n(?P<lines>.*?)^ *### END SOLUTION *$", re.M | re.S)


def derived(notebook):
    """The exercise of a solution, without outputs. `ValueError` for a tagged cell without an answer, or the reverse."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        has_answer = cell.cell_type == "code" and ANSWER.search(cell.source) is not None
        if has_answer != ("exercise" in tags(cell)):
            raise ValueError(
                f"cell {cell.id!r} must have both the tag and an answer between the comments, or neither"
            )
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if has_answer:
            cell.source = ANSWER.sub(stub, cell.source)
            cell.metadata["tags"] = [*cell.metadata["tags"], "raises-exception"]
    return notebook


def stub(match: re.Match) -> str:
    """What stands in place of an answer; it names the function that it stands in."""
    above = re.findall(r"^ *def (\w+)", match.string[: match.start()], re.M)
    return f'{match["indent"]}raise NotImplementedError("write {above[-1] if above else "this"}")'


def main(wanted: list[str]) -> None:
    """Derive, run and store those whose names begin with one of `wanted`; all of them if it is empty."""
    EXERCISES.mkdir(exist_ok=True)
    for path in chosen(sorted(SOLUTIONS.glob("*.ipynb")), SOLUTIONS, wanted):
        print(path.name, flush=True)
        exercise = EXERCISES / path.name
        notebook = derived(nbformat.read(path, as_version=4))
        nbformat.write(stamped(notebook, exercise.relative_to(ROOT).as_posix(), place()), exercise)
        store(exercise)


if __name__ == "__main__":
    main(sys.argv[1:])
