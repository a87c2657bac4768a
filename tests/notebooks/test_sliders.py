"""Every slider of every notebook is moved: to its least, its starting and its greatest setting, and to each choice.

The strict comparison of outputs never moves a slider, so cells are run once more, in order, in this process and in one
namespace. Two things make it cheap: cells on which no picture with a control depends are left out, and `time_passes`
makes a single turn, for the figures that it finds are not looked at here.
"""

from __future__ import annotations

import ast
import dis
import functools
import re
import warnings

import matplotlib.pyplot as plt
import pytest
from nbformat.v4 import new_code_cell
from reading import NOTEBOOKS, code_cells, name_of, printed, read, tags

from specdec_lab.measure import passes
from specdec_lab.show.explorer import Explorer


@pytest.fixture
def made(monkeypatch) -> list[Explorer]:
    """Every explorer, in order, however it was made."""
    found: list[Explorer] = []
    begin = Explorer.__init__

    def recorded(self, *arguments, **more):
        begin(self, *arguments, **more)
        found.append(self)

    monkeypatch.setattr(Explorer, "__init__", recorded)
    return found


def run(cells) -> None:
    """Run cells as a kernel would."""
    namespace = {"__name__": "__main__", "display": lambda *shown, **more: None}
    for cell in cells:
        exec(compile(cell.source, f"<cell {cell.id}>", "exec"), namespace)


def needed(cells) -> list:
    """The cells that show an explorer, and those that make or change a name which these use, up to the last of them."""
    showing = [n for n, cell in enumerate(cells) if shows_explorer(cell)]
    before = range(max(showing, default=-1) + 1)
    made, used = zip(*[names(cell.source) for cell in cells], strict=True)
    kept, count = set(showing), -1
    while len(kept) > count:
        count, wanted = len(kept), set().union(*[used[n] for n in kept])
        kept |= {n for n in before if made[n] & wanted and "raises-exception" not in tags(cells[n])}
    return [cells[n] for n in sorted(kept)]


def shows_explorer(cell) -> bool:
    """By its code or by what it left."""
    return bool(re.search(r"\b(explore|Control|Explorer)\(", cell.source)) or "picture at " in printed(cell)


def names(source: str) -> tuple[set[str], set[str]]:
    """Names that a cell binds or changes in place, and names that it reads from cells before it."""
    body = compile(source, "<cell>", "exec")
    made, used = set(), set()
    for step in dis.get_instructions(body):
        if step.opname.startswith("STORE_NAME"):
            made.add(step.argval)
        elif step.opname == "LOAD_NAME":
            used |= {step.argval} - made
    inside = [part for part in body.co_consts if isinstance(part, type(body))]
    while inside:  # functions, lambdas and classes read when they are called
        part = inside.pop()
        inside += [deeper for deeper in part.co_consts if isinstance(deeper, type(body))]
        steps = dis.get_instructions(part)
        used |= {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")} - made
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            made |= root(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            made |= root(node.value.func)  # `numbers.append(…)` stands alone
    return made, used


def root(node) -> set[str]:
    """`a` of `a.b[c]`; a plain name changes nothing by being called."""
    inner = node
    while isinstance(inner, ast.Attribute | ast.Subscript | ast.Call):
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return {inner.id} if isinstance(inner, ast.Name) and inner is not node else set()


def faults(explorer: Explorer, where: str) -> list[str]:
    """What is wrong with the sliders of one picture. What drawing raises is not caught."""
    sentences = explorer.check()
    found = [f"{where}: not a sentence: {text!r}" for text in sentences if len(text) < 20]
    rest = sentences[1:]  # in front stands the starting one
    for name, control in explorer.controls.items():
        moved, rest = rest[: len(control.extremes())], rest[len(control.extremes()) :]
        if moved[0] == moved[-1]:
            found.append(
                f"{where}: {name} changes nothing between {control.settings[0]} and {control.settings[-1]}"
            )
    if not explorer.controls:
        found.append(f"{where}: a picture without controls is what `show_picture` is for")
    return found


def promises_a_slider(notebook) -> bool:
    """It has a control in its code, or tells the reader to move one."""
    code = "\n".join(cell.source for cell in code_cells(notebook))
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return bool(re.search(r"\bexplore\(|\bControl\(", code) or re.search(r"\bsliders?\b", prose))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_every_slider_moves_its_picture_and_its_sentence(path, made, monkeypatch, tmp_path):
    notebook, open_before = read(path), plt.get_fignums()
    monkeypatch.chdir(tmp_path)  # what a cell writes is not left in the repository
    monkeypatch.setattr(passes, "time_passes", functools.partial(one_turn, passes.time_passes))
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as in a kernel; what is printed is the strict run's business
        run(needed(code_cells(notebook)))
    assert [fault for n, item in enumerate(made) for fault in faults(item, f"picture {n}")] == []
    assert plt.get_fignums() == open_before
    assert bool(made) == promises_a_slider(notebook)


def one_turn(time_passes, *arguments, **more):
    """`time_passes`, ended after its first turn."""
    return time_passes(*arguments, **more | {"budget": 0})


# ---------------------------------------------------------------- would it notice?


def picture(gamma, kind):
    from specdec_lab.show.style import new_figure

    return new_figure()[0], f"A sentence about γ = {gamma}, and nothing about the other."


def test_a_dead_slider_is_told():
    dead = Explorer(picture, {"gamma": (1, 4, 1), "kind": ["chain", "tree"]})
    assert faults(dead, "picture 0") == ["picture 0: kind changes nothing between chain and tree"]


def test_a_picture_without_controls_is_told():
    still = Explorer(lambda: picture(1, "chain"), {})
    assert len(faults(still, "picture 0")) == 1


def test_explorers_are_found_however_they_are_made(made):
    namespace = (
        "from specdec_lab.show import explorer\nfrom test_sliders import picture\nhere = explorer.Explorer"
    )
    run([new_code_cell(namespace), new_code_cell("here(lambda n: picture(n, 1), {'n': (1, 3, 1)})")])
    assert len(made) == 1


def test_only_what_a_slider_depends_on_is_run():
    sources = {
        "imports": "import math, os.path as path",
        "list": "numbers = []",
        "other": "other = 3",
        "function": "def draw(n):\n    return other_name[n]",
        "changed": "numbers.append(math.pi)",
        "set": "other_name = {}; other_name['a'] = 1",
        "read": "print(numbers, path)\nfor n in numbers:\n    name = n",
        "own-loop": "for n in range(3):\n    name = n\n    print(name)",
        "failing": "numbers = 1 / 0",
        "slider": "explore(lambda n: (draw(n), numbers), n=(1, 3, 1))",
        "after": "numbers = 4",
    }
    cells = [new_code_cell(source, id=name) for name, source in sources.items()]
    cells[-3].metadata["tags"] = ["raises-exception"]
    assert [cell.id for cell in needed(cells)] == ["imports", "list", "function", "changed", "set", "slider"]
    assert needed(cells[:-2]) == []
