"""Exercises: derived from solutions, unsolved in the right way, and of one form."""

from __future__ import annotations

import importlib.util
import re

import nbformat
import pytest
from derive import derived
from reading import EXERCISES, NOTEBOOKS, PRACTICE, ROOT, SOLUTIONS, code_cells, name_of, read, tags

SOLVED = sorted(SOLUTIONS.glob("*.ipynb"))
EVERY = pytest.mark.parametrize("path", SOLVED, ids=name_of)
STAMPED = ("colab", "install")  # a link of its own in each file


def exercises_of(notebook) -> list:
    return [cell for cell in notebook.cells if "exercise" in tags(cell)]


def unsolved(path):
    return read(EXERCISES / path.name)


def test_every_lesson_has_its_exercises_and_their_solutions():
    lessons = [path.name for path in NOTEBOOKS]
    assert [path.name for path in SOLVED] == lessons
    assert sorted(path.name for path in EXERCISES.glob("*.ipynb")) == lessons


@EVERY
def test_an_exercise_is_what_its_solution_derives(path):
    """So that nobody edits one of the two alone."""
    due, stored = derived(read(path)), unsolved(path)
    assert [(cell.id, cell.cell_type) for cell in due.cells] == [
        (cell.id, cell.cell_type) for cell in stored.cells
    ]
    for a, b in zip(due.cells, stored.cells, strict=True):
        if a.id not in STAMPED:
            assert a.source == b.source and tags(a) == tags(b), a.id


@EVERY
def test_the_two_differ_in_tagged_cells_only(path):
    solved, stored = read(path), unsolved(path)
    for a, b in zip(solved.cells, stored.cells, strict=True):
        if a.id in STAMPED:
            continue
        if "exercise" in tags(a):
            assert a.source != b.source and tags(b) == tags(a) | {"raises-exception"}
        else:
            assert (a.source, tags(a), a.get("outputs")) == (b.source, tags(b), b.get("outputs")), a.id


@EVERY
def test_unsolved_exercises_end_in_not_implemented_and_hold_no_answer(path):
    for cell in exercises_of(unsolved(path)):
        assert "SOLUTION" not in cell.source and "raise NotImplementedError(" in cell.source
        *before, last = cell.outputs
        assert last.output_type == "error" and last.ename == "NotImplementedError", cell.id
        assert re.fullmatch(r"write \w+", last.evalue)
        assert before, f"{cell.id}: the picture shows while the function is not there yet"


@EVERY
def test_solutions_pass(path):
    for cell in code_cells(read(path)):
        assert not [output for output in cell.outputs if output.output_type == "error"], cell.id
        if "exercise" in tags(cell):
            assert cell.outputs, cell.id


@EVERY
def test_the_form_is_kept(path):
    """Title, time, three to five exercises with difficulty, minutes and nested hints, and where to go on."""
    notebook = read(path)
    first, last = notebook.cells[0].source, notebook.cells[-1].source
    assert re.match(rf"# {path.name[:2]} Practice: \S", first)
    assert f"(../{path.name})" in first and last.startswith("## Next")
    tagged = exercises_of(notebook)
    assert 3 <= len(tagged) <= 5
    minutes = 0
    for number, cell in enumerate(tagged, 1):
        before = notebook.cells[notebook.cells.index(cell) - 1]
        assert before.cell_type == "markdown" and re.match(rf"## {number}\. \S", before.source), cell.id
        told = re.search(r"^Difficulty: (●○○|●●○|●●●) · (\d+) minutes$", before.source, re.M)
        assert told, f"{cell.id}: difficulty and minutes"
        minutes += int(told[2])
        hints = re.findall(r"<summary>Hint (\d)</summary>", before.source)
        assert hints == [str(n) for n in range(1, len(hints) + 1)] and len(hints) >= 2, cell.id
        assert re.search(r"(</details>\s*){2,}$", before.source.rstrip()), f"{cell.id}: hints are nested"
    assert re.search(rf"\*\*Time:\*\* {minutes} minutes", first), f"the exercises take {minutes} minutes"


def test_a_mask_of_numbers_is_not_taken_for_the_boolean_one_that_the_next_exercise_needs():
    cells = {cell.id: cell.source for cell in read(SOLUTIONS / "02_the_kv_cache.ipynb").cells}
    right, wrong = "torch.ones(queries, keys, dtype=torch.bool)", "torch.ones(queries, keys)"
    assert right in cells["exercise-3"]
    names: dict = {}
    exec(cells["setup"], names)
    with pytest.raises(AssertionError, match=r"torch\.bool"):
        exec(cells["exercise-3"].replace(right, wrong), names)


def test_only_the_lesson_of_the_real_model_is_skipped_without_it():
    """Its practice runs without the weights, under the same file name."""
    spec = importlib.util.spec_from_file_location("root_conftest", ROOT / "conftest.py")
    root = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(root)
    assert root.WITH_SMOLLM2 in NOTEBOOKS and (SOLUTIONS / root.WITH_SMOLLM2.name).exists()
    asking = [
        path
        for path in [*NOTEBOOKS, *PRACTICE]
        if any('load_pair("smollm2"' in cell.source for cell in code_cells(read(path)))
    ]
    assert asking == [root.WITH_SMOLLM2]


# ---------------------------------------------------------------- the tool


def notebook_with(source: str, *names: str):
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": list(names)})
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# 00 Practice: x"), cell])


SOLUTION = """\
def double(n):
    \"\"\"Twice n.\"\"\"
    ### BEGIN SOLUTION
    more = n
    return n + more
    ### END SOLUTION


assert double(2) == 4"""


def test_the_answer_goes_and_a_stub_names_the_function():
    found = derived(notebook_with(SOLUTION, "exercise")).cells[1]
    assert found.source == SOLUTION.split("    ###")[0] + (
        '    raise NotImplementedError("write double")\n\n\nassert double(2) == 4'
    )
    assert found.metadata.tags == ["exercise", "raises-exception"]


def test_two_answers_in_one_cell_get_two_stubs():
    other = SOLUTION.replace("double", "twice")
    found = derived(notebook_with(f"{SOLUTION}\n\n\n{other}", "exercise")).cells[1].source
    assert re.findall(r'NotImplementedError\("write (\w+)"\)', found) == ["double", "twice"]


@pytest.mark.parametrize(("source", "names"), [(SOLUTION, ()), ("x = 1", ("exercise",))])
def test_a_tag_without_an_answer_or_the_reverse_is_refused(source, names):
    with pytest.raises(ValueError, match="both the tag and an answer"):
        derived(notebook_with(source, *names))


def test_deriving_leaves_the_solution_alone():
    notebook = notebook_with(SOLUTION, "exercise")
    derived(notebook)
    assert notebook.cells[1].source == SOLUTION
