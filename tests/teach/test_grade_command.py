"""`python -m specdec_lab grade`: exit codes, and files that loop, crash, hog, exit or cannot be imported end in a sentence."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from importlib import import_module
from pathlib import Path

import pytest

from specdec_lab.__main__ import main
from specdec_lab.grade_command import grade_file
from specdec_lab.teach import graded_file
from specdec_lab.teach.behaviours import BEHAVIOURS

RIGHT_SOLUTIONS = Path(__file__).with_name("right_solutions.py")
CALL = "def speculative_decode(target, draft, ids, new, gamma, end):\n"


def written(folder, body, name="my_solution.py"):
    file = folder / name
    file.write_text(textwrap.dedent(body), encoding="utf-8")
    return file


def test_a_right_solution_exits_with_0_and_its_prints_spoil_nothing(tmp_path, capfd):
    (tmp_path / "pieces.py").write_text(RIGHT_SOLUTIONS.read_text(encoding="utf-8"), encoding="utf-8")
    file = written(
        tmp_path,
        """
        import sys
        from pieces import pending_tokens
        print("noise")
        def speculative_decode(*arguments):
            print("noise", file=sys.stderr)
            print("noise", file=sys.__stdout__)
            return pending_tokens(*arguments)
        """,
    )
    report = tmp_path / "report.json"
    assert main(["grade", str(file), "--json", str(report)]) == 0
    shown = capfd.readouterr()
    assert "noise" not in shown.out + shown.err
    assert shown.out.startswith(f"speculative_decode: {len(BEHAVIOURS)} right.\n")
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["schema_version"] == 1 and found["verdict"] == "right" and found["file"] == "my_solution.py"
    assert {item["status"] for item in found["behaviours"]} == {"right"} and found["kind"] == "greedy"


def test_a_wasteful_one_exits_with_0_and_a_note(capsys):
    assert main(["grade", str(RIGHT_SOLUTIONS), "--function", "rereading_draft", "--hints", "2"]) == 0
    shown = capsys.readouterr().out
    assert "1 wasteful" in shown and "~ draft_reads_once" in shown and "Nothing is wrong." in shown
    assert "hint 2" in shown and "hint 3" not in shown
    assert "Begin with draft_reads_once. For a further hint: --hints 3.\n" in shown and "report." not in shown


def test_other_kinds_look_for_other_functions(tmp_path, capsys):
    file = written(
        tmp_path, "def accept_prefix(drafted, choices):\n    return sum(map(int.__eq__, drafted, choices))\n"
    )
    assert main(["grade", str(file), "--kind", "accept"]) == 1
    shown = capsys.readouterr().out
    assert "✗ stops_at_the_first_difference" in shown and "accept_prefix([5, 6], [7, 6, 8])" in shown


def test_help_says_how_each_function_and_a_model_is_called(capsys):
    with pytest.raises(SystemExit):
        main(["grade", "--help"])
    shown = capsys.readouterr().out
    assert (
        "model.forward(torch.tensor([ids]), use_cache=True, past_key_values=cache)" in shown
        and shown.isascii()
    )
    for kind in graded_file.KINDS.values():
        assert f"{kind.function}({kind.arguments})\n" in shown
        module, name = kind.grader.split(".")
        asked = re.search(
            r"`function\(([^)]*)\)|$", getattr(import_module(f"specdec_lab.teach.{module}"), name).__doc__
        )
        told = [part.removesuffix("_model").strip("=…\n ") for part in (asked[1] or "").split(",")]
        given = [part.strip("= ") for part in kind.arguments.split(",")]
        assert told == given or kind.function == "speculative_decode"
    assert (
        graded_file.KINDS["greedy"].arguments
        == "target, draft, input_ids, max_new_tokens, gamma, eos_token_id"
    )


def test_a_wrong_one_exits_with_1(tmp_path, capsys):
    file = written(tmp_path, CALL + "    return [*ids, *range(new)], 0.5\n")
    assert main(["grade", str(file), "--seconds", "30"]) == 1
    shown = capsys.readouterr().out
    assert (
        re.search(r"\d+ wrong", shown)
        and "✗ agreeing_draft" in shown
        and "Begin with agreeing_draft" in shown
    )


NO_VERDICT = {
    "only imported": (
        "from specdec_lab import speculative_decode\n",
        r"speculative_decode in my_solution\.py is not written there, but imported from specdec_lab\.decoding\.\w+; it has",
    ),
    "imported beside another": (
        "from specdec_lab import speculative_decode\ndef by_hand():\n    pass\n",
        "is not written there, .*; there is by_hand, and --function NAME takes another",
    ),
    "a method of the package": (
        "from specdec_lab.teach.plain_loop import PlainLoop\nspeculative_decode = PlainLoop().decode\n",
        "imported from specdec_lab.teach.plain_loop",
    ),
    "a partial of the package": (
        "import functools, specdec_lab\nspeculative_decode = functools.partial(specdec_lab.speculative_decode)\n",
        "imported from specdec_lab.decoding",
    ),
    "no Python file": ("{}", r"its name must end in \.py\. Copy a function of a notebook"),
    "syntax error": ("x = 1\ndef f(:\n", r"my_solution\.py cannot be read: .* in line 2"),
    "missing module": (
        "import torch\nimport nowhere_to_be_found\n",
        "line 2 of my_solution.py raises ModuleNotFoundError",
    ),
    "exits when imported": ("import sys\nsys.exit(3)\n", "line 2 of my_solution.py raises SystemExit: 3"),
    "no such function": (
        "def decode():\n    pass\n",
        "no function speculative_decode in my_solution.py; there is decode",
    ),
    "empty": ("", "there is no function at all"),
    "os._exit": (f"import os\n{CALL}    os._exit(0)\n", "ended by itself, with exit code 0"),
    "crash": (f"import ctypes\n{CALL}    ctypes.string_at(0)\n", "crashed with SIGSEGV|ended by itself"),
    "endless when imported": ("while True:\n    pass\n", "not done after 2 seconds"),
    "hog when imported": ("x = [bytearray(2**24) for _ in range(10**4)]\n", "used up the 200 MB of memory"),
}


@pytest.mark.parametrize("name", NO_VERDICT)
def test_no_verdict_is_a_sentence_and_exit_code_2(tmp_path, capfd, name):
    body, says = NO_VERDICT[name]
    report = tmp_path / "report.json"
    limits = ["--seconds", "2" if "endless" in name else "60", "--memory", "200"]
    file = written(tmp_path, body, *["my_solution.ipynb"] * (name == "no Python file"))
    assert main(["grade", str(file), "--json", str(report), *limits]) == 2
    shown = capfd.readouterr()
    assert shown.out == "" and re.match(f"No verdict: .*({says})", shown.err) and shown.err.count("\n") == 1
    assert "Traceback" not in shown.err
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["verdict"] == "none" and re.search(says, found["problem"]) and found["behaviours"] == []


def test_a_loop_of_ones_own_from_the_package_s_pieces_is_graded(tmp_path, capsys):
    """Lesson 12 asks for a class that changes one method."""
    file = written(
        tmp_path,
        """
        from specdec_lab.teach.plain_loop import PlainLoop
        class Mine(PlainLoop):
            def room(self, wanted):
                return 0
        speculative_decode = Mine().decode
        """,
    )
    assert main(["grade", str(file)]) == 1
    assert "1 wrong" in capsys.readouterr().out


WRITTEN_THERE = {
    "wraps the package's": """
        @functools.wraps(specdec_lab.speculative_decode)
        def speculative_decode(*arguments):
            pass
        """,
    "that below a library's decorator": """
        @torch.no_grad()
        @functools.wraps(specdec_lab.speculative_decode)
        def speculative_decode(*arguments):
            pass
        """,
    "a partial of that": """
        @functools.wraps(specdec_lab.speculative_decode)
        def mine(*arguments):
            pass
        speculative_decode = functools.partial(mine)
        """,
    "an object that wraps the package's": """
        class Mine:
            def __init__(self):
                functools.update_wrapper(self, specdec_lab.speculative_decode)
            def __call__(self, *arguments):
                pass
        speculative_decode = Mine()
        """,
    "a function of its own below a library's decorator": """
        @torch.no_grad()
        def speculative_decode(*arguments):
            pass
        """,
    "a decorator that says nothing about what it wraps": """
        def loud(function):
            return lambda *arguments: function(*arguments)
        speculative_decode = loud(specdec_lab.speculative_decode)
        """,
}
IMPORTS = "import functools\nimport specdec_lab\nimport torch\n"


@pytest.mark.parametrize("name", WRITTEN_THERE)
def test_what_the_file_says_about_itself_does_not_hide_where_it_is_written(tmp_path, name):
    """`functools.wraps` copies the name of the module as well."""
    file = written(tmp_path, IMPORTS + textwrap.dedent(WRITTEN_THERE[name]))
    module = graded_file.load(file)
    assert graded_file.find(module, "speculative_decode") is module.speculative_decode


def test_the_functions_that_there_are_include_those_that_wrap_the_package_s(tmp_path):
    body = """
        from specdec_lab import residual_distribution
        @functools.wraps(specdec_lab.speculative_decode)
        def by_hand(*arguments):
            pass
        speculative_decode = torch.no_grad()(specdec_lab.speculative_decode)
        """
    module = graded_file.load(written(tmp_path, IMPORTS + textwrap.dedent(body)))
    with pytest.raises(
        graded_file.NoVerdict, match=r"not written there, .*; there is by_hand, and --function"
    ):
        graded_file.find(module, "speculative_decode")
    with pytest.raises(
        graded_file.NoVerdict, match=r"no function decode in my_solution\.py; there is by_hand"
    ):
        graded_file.find(module, "decode")


def test_a_function_that_wraps_itself_ends_in_a_sentence_too(tmp_path):
    body = """
        speculative_decode = torch.no_grad()(specdec_lab.speculative_decode)
        speculative_decode.__wrapped__ = speculative_decode
        """
    module = graded_file.load(written(tmp_path, IMPORTS + textwrap.dedent(body)))
    with pytest.raises(graded_file.NoVerdict, match="imported from specdec_lab"):
        graded_file.find(module, "speculative_decode")


def test_an_endless_loop_and_a_hog_in_the_function_are_findings(tmp_path):
    """Python gets them to stop, so there is a verdict: it is wrong."""
    loops = written(tmp_path, CALL + "    while True:\n        pass\n")
    found = grade_file(loops, "speculative_decode", seconds=3)
    assert found["verdict"] == "wrong" and "no answer after 1 seconds" in found["behaviours"][0]["found"]
    assert {item["status"] for item in found["behaviours"][1:]} == {"not judged"}
    if sys.platform == "linux":
        hogs = written(tmp_path, CALL + "    return [bytearray(2**24) for _ in range(10**4)]\n", "hog.py")
        found = grade_file(hogs, "speculative_decode", memory=300)
        assert found["memory_limit"] == graded_file.BY_SYSTEM and found["verdict"] == "wrong"
        assert "used up the memory" in found["behaviours"][0]["found"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "file must be a Python file, got 'nowhere.py', which is not there"),
        ([str(RIGHT_SOLUTIONS), "--seconds", "0"], "--seconds must be at least 1, got 0"),
        ([str(RIGHT_SOLUTIONS), "--memory", "0"], "--memory must be at least 1, got 0"),
        ([str(RIGHT_SOLUTIONS), "--hints", "-1"], "--hints must be at least 0, got -1"),
    ],
)
def test_bad_arguments_exit_with_2(capsys, arguments, message):
    assert main(["grade", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_where_the_system_limits_nothing_a_thread_watches(monkeypatch):
    """As on macOS; and Windows, which has no `resource`, is told that nothing is limited."""
    ended = []
    monkeypatch.setattr(sys, "platform", "darwin")
    assert graded_file.limit_memory(0, lambda: ended.append(True)) == graded_file.BY_WATCHING
    for _ in range(100):
        if ended:
            break
        time.sleep(0.05)
    assert ended
    monkeypatch.setitem(sys.modules, "resource", None)
    assert graded_file.limit_memory(10, lambda: None) == graded_file.UNLIMITED
