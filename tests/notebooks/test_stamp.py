"""Badges, install cells and the one place that they come from agree; with an address, without, and back."""

from __future__ import annotations

import re

import nbformat
import pytest
import stamp
from reading import NOTEBOOKS, PRACTICE, ROOT, code_cells, name_of, read
from stamp import Place, main, place, stamped

EVERY = pytest.mark.parametrize("path", [*NOTEBOOKS, *PRACTICE], ids=name_of)
PUBLIC = Place("someone/specdec_lab", "7.8.9")
NOWHERE = Place("", "7.8.9")


def put(path, where):
    return stamped(read(path), path.relative_to(ROOT).as_posix(), where)


def cell(notebook, name):
    return next(cell for cell in notebook.cells if cell.id == name)


def test_notebooks_say_what_the_one_place_says(capsys):
    assert main(["--check"]) == 0, (
        f"run python tests/notebooks/stamp.py; it changes {capsys.readouterr().out}"
    )


@EVERY
def test_the_cells_stand_behind_the_title_and_before_any_import(path):
    notebook = read(path)
    assert [c.id for c in notebook.cells[1:3]] == ["colab", "install"]
    assert cell(notebook, "colab").cell_type == "markdown"
    first = code_cells(notebook)[0]
    assert first.id == "install" and not first.outputs and not first.metadata


@EVERY
def test_without_an_address_there_is_one_line_and_no_badge(path):
    notebook = put(path, NOWHERE)
    line = cell(notebook, "colab").source
    assert "\n" not in line and "fork" in line and "zip" in line and "../README.md" in line
    assert 'source = ""' in cell(notebook, "install").source
    text = nbformat.writes(notebook)
    assert "colab.research.google.com" not in text and "7.8.9" not in text


@EVERY
def test_with_an_address_the_badge_opens_this_notebook_and_the_cell_installs_the_same_version(path):
    notebook = put(path, PUBLIC)
    line, code = cell(notebook, "colab").source, cell(notebook, "install").source
    page = f"https://colab.research.google.com/github/someone/specdec_lab/blob/v7.8.9/{path.relative_to(ROOT).as_posix()}"
    assert re.match(r"\[!\[Open in Colab\]\(https://[^)]+\.svg\)\]\((.*)\)\n", line)[1] == page
    assert 'source = "git+https://github.com/someone/specdec_lab@v7.8.9"' in code
    assert "fork" not in line


@EVERY
def test_nothing_else_is_touched_twice_is_once_and_it_comes_off_again(path):
    before, public = read(path), put(path, PUBLIC)
    assert [a == b for a, b in zip(before.cells, public.cells, strict=True)].count(False) == 2
    assert stamped(public, path.relative_to(ROOT).as_posix(), PUBLIC) == public
    back = stamped(public, path.relative_to(ROOT).as_posix(), place())
    assert nbformat.writes(back).rstrip("\n") == path.read_text(encoding="utf-8").rstrip("\n")


def test_a_new_notebook_gets_the_cells_and_counts_go_on_from_one():
    cells = [
        nbformat.v4.new_markdown_cell("# 99 New", id="title"),
        nbformat.v4.new_code_cell("1", id="setup", execution_count=1),
        nbformat.v4.new_code_cell("2", id="two", execution_count=2),
    ]
    cells[2].outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "2"}, execution_count=2)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    found = stamped(notebook, "notebooks/exercises/99_new.ipynb", NOWHERE)
    assert [c.id for c in found.cells] == ["title", "colab", "install", "setup", "two"]
    assert [c.execution_count for c in code_cells(found)] == [1, 2, 3]
    assert found.cells[4].outputs[0].execution_count == 3
    assert "(../../README.md)" in found.cells[1].source
    assert len(notebook.cells) == 3, "the one given is left alone"
    for c in cells[1:]:
        c.execution_count = None
    fresh = stamped(notebook, "notebooks/99_new.ipynb", NOWHERE)
    assert [c.execution_count for c in code_cells(fresh)] == [None] * 3, "nothing was run"


def test_the_script_writes_what_changed_and_check_writes_nothing(tmp_path, monkeypatch, capsys):
    (tmp_path / "notebooks").mkdir()
    copy = tmp_path / "notebooks" / NOTEBOOKS[0].name
    copy.write_bytes(NOTEBOOKS[0].read_bytes())
    monkeypatch.setattr(stamp, "ROOT", tmp_path)
    monkeypatch.setattr(stamp, "place", lambda: PUBLIC)
    before = copy.read_bytes()
    assert main(["--check", str(copy)]) == 1 and copy.read_bytes() == before
    assert main([str(copy)]) == 0 and read(copy) == put(NOTEBOOKS[0], PUBLIC)
    assert capsys.readouterr().out.splitlines() == [copy.name] * 2
    written = copy.read_bytes()
    assert main([str(copy)]) == 0 and copy.read_bytes() == written and not capsys.readouterr().out
    monkeypatch.setattr(stamp, "place", place)
    main([str(copy)])
    assert copy.read_bytes() == before


@pytest.mark.parametrize(
    "address",
    ["someone/specdec_lab", "http://github.com/a/b", "https://example.org/a/b", "https://github.com/a"],
)
def test_an_address_that_colab_cannot_open_is_refused(tmp_path, address):
    with pytest.raises(ValueError, match=r"repository must be https://github\.com/OWNER/NAME or empty"):
        place(project(tmp_path, address))


def test_the_one_place_is_pyproject(tmp_path):
    assert place(project(tmp_path, "")) == ("", "3.2.1")
    for address in ("https://github.com/a/b.c", "https://github.com/a/b.c/", "https://github.com/a/b.c.git"):
        assert place(project(tmp_path, address)) == ("a/b.c", "3.2.1")


def project(folder, address):
    path = folder / "pyproject.toml"
    path.write_text(f'[project]\nversion = "3.2.1"\n[tool.specdec_lab]\nrepository = "{address}"\n')
    return path
