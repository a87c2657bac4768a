"""`python -m specdec_lab grade my_solution.py`: what is right and what is wrong with a function in a file.

The file runs in a process of its own, with a limit on time and memory, so an endless loop or a crash in it ends in a
sentence. That is a fence against mistakes, not against malice: grade strangers' files in a container. What is judged is
in `teach/`; here it is only started, watched and printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from specdec_lab.decoding.checks import check_count
from specdec_lab.teach.graded_file import BY_SYSTEM, KINDS

RIGHT, WRONG, NO_VERDICT = 0, 1, 2  # exit codes
TO_START = 120  # seconds; importing torch takes a few, and minutes on a network drive
FACTS = {
    "SIGSEGV": "it read or wrote memory that is not its own",
    "SIGKILL": "the system ended it, most likely for its use of memory",
    "SIGABRT": "something in it gave up",
}

MODELS = """\
input_ids is a list of ids. A model is never called as model(...), but
  output = model.forward(torch.tensor([ids]), use_cache=True, past_key_values=cache)
with cache=None at first. output.logits has the shape (1, n, vocabulary), one row for each
id that was fed; output.past_key_values is the cache. Then
  cache = model.truncate_cache(cache, length)
keeps its first `length` positions. Nothing else may look into a cache."""


def add_grade(commands: Any) -> None:
    """Add the command to an argparse subparsers object."""
    grade = commands.add_parser(
        "grade",
        help="say what is right and what is wrong with a solution of one's own",
        description="Exit codes: 0 all right (or only wasteful), 1 something is wrong, 2 no verdict.",
        epilog=_calls(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    grade.add_argument("file", help="a Python file")
    grade.add_argument(
        "--kind", choices=KINDS, default="greedy", help="what it is a solution of (default: greedy)"
    )
    grade.add_argument("--function", metavar="NAME", help="its name (default: by kind, see below)")
    grade.add_argument(
        "--beyond", action="store_true", help="greedy: also several end tokens and padded vocabularies"
    )
    grade.add_argument("--hints", type=int, default=0, metavar="N", help="show N of the 3 hints (default: 0)")
    grade.add_argument("--json", metavar="FILE", help="also write the findings to FILE, for course tools")
    grade.add_argument("--seconds", type=int, default=60, metavar="S", help="time limit (default: 60)")
    grade.add_argument("--memory", type=int, default=2048, metavar="MB", help="memory limit (default: 2048)")
    grade.set_defaults(run=run_grade)


def _calls() -> str:
    """How the functions are called, and how they call a model."""
    width = max(map(len, KINDS))
    lines = [
        f"  {name:<{width}}  {kind.function}({kind.arguments})\n  {'':<{width}}  -> {kind.returns}"
        for name, kind in KINDS.items()
    ]
    return "\n".join(["What is looked for, by kind. Arguments come by position:", *lines, "", MODELS])


def run_grade(options: argparse.Namespace) -> int:
    """Print the report of a file; returns 0, 1 or 2."""
    file = Path(options.file)
    if not file.is_file():
        raise ValueError(f"file must be a Python file, got {options.file!r}, which is not there")
    check_count(options.seconds, "--seconds")
    check_count(options.memory, "--memory")
    check_count(options.hints, "--hints", least=0)
    function = options.function or KINDS[options.kind].function
    result = grade_file(
        file,
        function,
        options.kind,
        beyond=options.beyond,
        hints=options.hints,
        seconds=options.seconds,
        memory=options.memory,
    )
    if options.json:
        Path(options.json).write_text(
            json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    if result["verdict"] == "none":
        print(f"No verdict: {result['problem']}", file=sys.stderr)
        return NO_VERDICT
    from specdec_lab.teach.grading import Report

    print(Report.from_dict(result).text(getattr(sys.stdout, "encoding", None), in_terminal=True))
    if result["verdict"] == "wasteful":
        print(
            "Nothing is wrong. What is marked ~ gives the right answer, and does more work than it needs to."
        )
    if result["memory_limit"] != BY_SYSTEM:
        print(f"Memory was {result['memory_limit']}.", file=sys.stderr)  # differs from system to system
    return RIGHT if result["verdict"] in ("right", "wasteful") else WRONG


def grade_file(
    file: Path,
    function: str,
    kind: str = "greedy",
    *,
    beyond: bool = False,
    hints: int = 0,
    seconds: float = 60,
    memory: int = 2048,
) -> dict[str, Any]:
    """Grade a function of a file in a process of its own; for course tools.

    Args:
        file, function, kind: what is graded, and as what (`KINDS`).
        beyond, hints: as on the command line.
        seconds, memory: limits, once Python and torch have started; memory in MB on top of theirs.

    Returns:
        The report as `Report.to_dict` gives it, with `file`, `function`, `kind` and `memory_limit`, how memory was
        limited. Where there is no verdict, `verdict` is "none" and `problem` a sentence.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        order = {
            "file": str(file.resolve()),
            "function": function,
            "kind": kind,
            "beyond": beyond,
            "hints": hints,
            "seconds": seconds,
            "memory": memory,
            "folder": folder,
        }
        problem = _run(order, Path(folder), seconds)
        result_file, started = Path(folder, "result.json"), Path(folder, "started")
        result = (
            json.loads(result_file.read_text(encoding="utf-8"))
            if result_file.exists()
            else {"problem": problem}
        )
        limited = started.read_text(encoding="utf-8") if started.exists() else ""
    common = {"file": file.name, "function": function, "kind": kind, "memory_limit": limited}
    if "problem" in result:
        return {"schema_version": 1, "verdict": "none", **result, "behaviours": [], **common}
    return {**result, **common}


def _run(order: dict[str, Any], folder: Path, seconds: float) -> str:
    """Run the child to its end or to the limit; a sentence about what went wrong, for when it left no result."""
    child = subprocess.Popen(
        [sys.executable, "-m", "specdec_lab.teach.graded_file", json.dumps(order)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=os.name == "posix",  # so that what it starts itself can be ended with it
        env={**os.environ, "PYTHONPATH": _path()},
    )
    try:
        begun = time.monotonic()
        while child.poll() is None and not (folder / "started").exists():
            if time.monotonic() - begun > TO_START:
                return f"Python and torch did not start within {TO_START} seconds."
            time.sleep(0.02)
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"it was not done after {seconds:g} seconds; is there a loop without an end?"
    finally:
        _end(child)
    if not (folder / "started").exists():
        return (
            f"Python did not start (exit code {code}); `python -m specdec_lab doctor` says what is missing."
        )
    if code > 2**31:  # how Windows numbers its exceptions
        return f"the process crashed with exception 0x{code:X}."
    if code < 0:
        name = signal.Signals(-code).name
        return f"the process crashed with {name}{': ' + FACTS[name] if name in FACTS else ''}."
    return f"the process ended by itself, with exit code {code}, before there was a verdict; is there an exit in it?"


def _path() -> str:
    """Where this package is, for a child that starts elsewhere."""
    home = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])


def _end(child: subprocess.Popen) -> None:
    """End the child and, where the system has sessions, whatever it has started."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is over
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()
