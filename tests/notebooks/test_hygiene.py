"""Every notebook as a file: valid, executed in order, small, readable everywhere, and free of this machine."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise

import nbformat
import pytest
from reading import (
    NOTEBOOKS,
    PRACTICE,
    ROOT,
    UNCOMPARED_TAGS,
    code_cells,
    name_of,
    printed,
    read,
    sayings,
    tags,
)

LIMIT = 2_000_000  # bytes; GitHub gives up on large notebooks
EVERY = pytest.mark.parametrize("path", [*NOTEBOOKS, *PRACTICE], ids=name_of)
LESSONS = pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)  # the form of the others: test_exercises.py


def test_there_are_notebooks_and_they_are_numbered_without_a_gap():
    numbers = [int(path.stem[:2]) for path in NOTEBOOKS]
    assert numbers == list(range(len(numbers))) and numbers, numbers
    assert all(re.fullmatch(r"\d\d_[a-z0-9_]+", path.stem) for path in NOTEBOOKS)
    assert not list((ROOT / "notebooks").rglob(".ipynb_checkpoints/*"))


@EVERY
def test_f36_the_format_is_valid_and_every_cell_has_an_id(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notebook = read(path)
        nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor >= 5) == (4, True)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)


@EVERY
def test_f34_the_kernel_is_the_one_that_everybody_has(path):
    notebook = read(path)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.kernelspec.display_name == "Python 3"


@EVERY
def test_f35_no_widget_state_is_stored(path):
    assert "widgets" not in read(path).metadata


@EVERY
def test_cells_were_run_from_top_to_bottom(path):
    counts = [cell.execution_count for cell in code_cells(read(path))]
    assert counts == list(range(1, len(counts) + 1))


@EVERY
def test_no_error_and_no_stderr_is_stored(path):
    for cell in code_cells(read(path)):
        for output in cell.outputs:
            if output.output_type == "error":
                assert "raises-exception" in tags(cell), output.evalue
            assert output.get("name") != "stderr", output.get("text")


@EVERY
def test_few_cells_escape_comparison(path):
    cells = code_cells(read(path))
    loose = [cell for cell in cells if tags(cell) & UNCOMPARED_TAGS or "NBVAL_" in cell.source]
    assert len(loose) <= 0.15 * len(cells), [cell.source[:60] for cell in loose]


@EVERY
def test_pages_are_small_and_hold_nothing_of_this_machine(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < LIMIT
    for trace in (r"/home/\w", r"/Users/\w", r"[A-Z]:\\\\Users", r"/tmp/", r"/root/", r"site-packages"):
        assert not re.search(trace, text), trace


@EVERY
def test_f37_f38_no_network_and_no_path_games(path):
    for cell in code_cells(read(path)):
        for trick in ("sys.path", "os.chdir", "wget ", "curl ", "urllib", "requests.", "__file__", "../"):
            assert trick not in cell.source, trick
        assert "torch==" not in cell.source, "the setup cell must not move torch (F40)"


@EVERY
def test_headings_are_a_ladder_with_one_title(path):
    levels = []
    for cell in read(path).cells:
        if cell.cell_type == "markdown":
            source = re.sub(r"```.*?```", "", cell.source, flags=re.S)
            levels += [len(match[1]) for match in re.finditer(r"^(#+) ", source, re.M)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


@EVERY
def test_every_picture_has_words(path):
    """An image without a text twin says nothing to a screen reader, and nothing that nbval could compare."""
    notebook = read(path)
    for cell in code_cells(notebook):
        for output in cell.outputs:
            for kind in {"image/png", "image/jpeg", "image/svg+xml"} & set(output.get("data", {})):
                words = output.metadata.get(kind, {}).get("alt") or output.data.get("text/plain", "")
                assert len(words) > 40 and "<Figure" not in words, words
                assert words in printed(cell), "the alt text is compared only if it is printed too"
        for image in re.findall(r"<img\b[^>]*>", printed(cell)):
            assert re.search(r'alt="[^"]{20,}"', image), image[:200]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert not re.search(r"!\[\]\(", cell.source)


@EVERY
def test_no_widget_view_is_stored_without_its_state(path):
    """Such a view shows an error where there is no kernel; the picture beside it shows everywhere."""
    for cell in code_cells(read(path)):
        for output in cell.outputs:
            assert not [kind for kind in output.get("data", {}) if "widget" in kind]


@EVERY
def test_what_was_said_has_one_value(path):
    """An anchor in prose names what was said; two values under one name would leave it open which is meant."""
    values: dict[str, set[str]] = {}
    for name, value in sayings(read(path)):
        values.setdefault(name, set()).add(value)
    assert not {name: found for name, found in values.items() if len(found) > 1}


@EVERY
def test_every_control_is_followed_by_a_question(path):
    """Between a cell that shows sliders and the next code cell there is a question, with its answer folded."""
    cells = read(path).cells
    for place, cell in enumerate(cells):
        if cell.cell_type == "code" and re.search(r"\b(explore|play)\(", cell.source):
            after = []
            for later in cells[place + 1 :]:
                if later.cell_type == "code":
                    break
                after.append(later.source)
            text = "\n".join(after)
            assert "**Question" in text and "<details>" in text, cell.source[:80]


@LESSONS
def test_the_anatomy_is_kept(path):
    """Title, goals with minutes and prerequisites, setup, sections, recap, your turn, next."""
    notebook = read(path)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    first = notebook.cells[0].source
    assert re.search(r"minutes", first), "minutes"
    assert re.search(r"You will be able to", first) and re.search(r"You need", first)
    for heading in ("Recap", "Your turn", "Next"):
        assert re.search(rf"^## {heading}", text, re.M), heading
    goals = re.findall(r"^- ", first.split("You will be able to")[1].split("You need")[0], re.M)
    recap = text.split("## Recap")[1].split("\n## ")[0]
    assert len(re.findall(r"^- ", recap, re.M)) == len(goals), "the recap mirrors the goals"
