"""A course of two lessons, one with exercises: what the kit's tests build from. Its notebooks look as if they had been run."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

# the smallest PNG there is: one pixel
PNG = b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8ffffff"
        "7f0009fb03fd052fd26b0000000049454e44ae426082"
    )
).decode()
LONG = "This paragraph is for the one who speaks. " * 8
FIRST = """\
# 00 One thing

A short text about one thing.

**You will be able to**

- do the thing, and say
  why it works
- leave it alone

20 minutes; nothing is timed.

**You need** nothing."""
SECOND = """\
# 01 Another thing

It follows [the first](00_one.ipynb).

**You will be able to**

- go on

25 minutes."""
PRACTICE = """\
# 00 Practice: One thing

Do it yourself.

**Time:** 15 minutes in all. **You need:** [00 One thing](../00_one.ipynb)."""
BODY = f"""\
## A section

- It is $\\alpha^2$ long.
- The code costs `$5`, which is no formula, and [01](01_two.ipynb#More) says more.

{LONG}

**Question:** Why?

<details><summary>Answer</summary>

Because of that.

</details>"""
NOTES = "# Notes on one\n\n## Exam questions?\n\nAsk at `cell: body`, see [it](../00_one.ipynb).\n"
PLAYER = """<div class="toy"><button onclick="this.nextSibling.textContent='played'">play</button><output>still</output></div>
<script>document.querySelector(".toy").dataset.ready = "yes";</script>"""


def picture(sentence: str = "picture at n = 1: One bar, one high.") -> list:
    """The outputs of an explorer: the picture, and its sentence."""
    data = {"image/png": PNG, "text/plain": sentence}
    return [
        new_output("display_data", data=data),
        new_output("display_data", data={"text/html": "<p>One bar, one high.</p>", "text/plain": "One bar"}),
    ]


def text(source: str, name: str):
    return new_markdown_cell(source, id=name)


def code(source: str, name: str, outputs=(), tags=()):
    metadata = {"tags": list(tags)} if tags else {}
    return new_code_cell(source, id=name, outputs=list(outputs), execution_count=1, metadata=metadata)


def printed(words: str):
    return new_output("stream", text=words)


def course() -> dict[str, list]:
    """Name → cells."""
    stub = new_output("error", ename="NotImplementedError", evalue="write it", traceback=["write it"])
    return {
        "00_one": [
            text(FIRST, "title"),
            text("*See [the README](../README.md).*", "colab"),
            code("install()", "install"),
            code("import this", "setup", [printed("version 1\n")]),
            text(BODY, "body"),
            code("draw(1)", "drawn", picture()),
            code("count()", "counted", [printed("things = 3\n\n")]),
            text("## More\n\n### Deeper\n\nSee [above](../README.md).", "more"),
            code(
                "play()",
                "played",
                [new_output("execute_result", data={"text/html": PLAYER}, execution_count=1)],
            ),
        ],
        "01_two": [
            text(SECOND, "title"),
            text("## More\n\n" + "".join(f"- Line {n}\n" for n in range(40)), "long"),
        ],
        "exercises/00_one": [
            text(PRACTICE, "title"),
            text("## 1. Do it", "task"),
            code(
                "def it():\n    raise NotImplementedError",
                "exercise-1",
                [stub],
                ["exercise", "raises-exception"],
            ),
        ],
        "solutions/00_one": [
            text(PRACTICE, "title"),
            text("## 1. Do it", "task"),
            code("def it():\n    return 1", "exercise-1", [printed("right\n")], ["exercise"]),
        ],
    }


def write(folder: Path, changed: dict[str, list] | None = None) -> Path:
    """Write a project: notebooks, some of them changed, and the files around them. The folder of the notebooks."""
    for name, cells in (course() | (changed or {})).items():
        path = folder / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(new_notebook(cells=cells), path)
    notes = folder / "notebooks" / "instructor"
    notes.mkdir()
    (notes / "00_one.md").write_text(NOTES, encoding="utf-8")
    (notes / "README.md").write_text(
        "# All notes\n\n[One](00_one.md#exam-questions), [tasks](../exercises)\n", "utf-8"
    )
    (folder / "pyproject.toml").write_text('[project]\nname = "toy"\nversion = "1.2.3"\n', encoding="utf-8")
    for name in ("LICENSE", "LICENSE-prose"):
        (folder / name).write_text("a licence\n", encoding="utf-8")
    return folder / "notebooks"
