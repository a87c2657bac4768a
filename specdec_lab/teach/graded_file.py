"""Grade a function in a file of somebody else's, in this process, which may not survive it.

`specdec_lab/grade_command.py` starts it in a process of its own, watches it and tells what came of it. Here the file is
imported, the function found and graded, and the report written down as JSON. What the file prints is not kept.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """What can be graded: the function that is looked for, its arguments, what it returns, and who grades it."""

    function: str
    arguments: str
    returns: str
    grader: str


_LIKE_GREEDY = "target, draft, {}, max_new_tokens, gamma, eos_token_id"
KINDS = {
    "greedy": Kind(
        "speculative_decode",
        _LIKE_GREEDY.format("input_ids"),
        "(token ids, acceptance rate)",
        "grader.check_speculative_decode",
    ),
    "sampling": Kind(
        "speculative_sample",
        _LIKE_GREEDY.format("prompt") + ", sampling, chance",
        "(new token ids, acceptance rate)",
        "sampling_grader.check_speculative_sample",
    ),
    "benchmark": Kind(
        "benchmark_decoding",
        _LIKE_GREEDY.format("prompts") + ", warmup_runs=, num_runs=",
        "a dict of six figures",
        "benchmark_grader.check_benchmark_decoding",
    ),
    "residual": Kind(
        "residual_distribution", "p, q", "a distribution", "small_graders.check_residual_distribution"
    ),
    "accept": Kind(
        "accept_prefix", "drafted, choices", "how many are accepted", "small_graders.check_accept_prefix"
    ),
    "truncation": Kind(
        "truncate_cache", "past_key_values, valid_length", "the cut cache", "cache_graders.check_truncation"
    ),
    "tree-mask": Kind(
        "tree_mask", "parents, prefix_length", "rows of booleans", "cache_graders.check_tree_mask"
    ),
}
BY_SYSTEM, BY_WATCHING, UNLIMITED = "limited by the system", "watched", "not limited on this system"


class NoVerdict(Exception):
    """There is nothing to grade; the message is the sentence for the reader."""


def main(order: str) -> None:
    """Do what the JSON `order` says and end the process.

    It holds `file`, `function`, `kind`, `beyond`, `hints`, `seconds`, `memory` (MB) and `folder`, in which this writes
    "started" once its own imports are done and "result.json" at the end.
    """
    asked = json.loads(order)
    folder = Path(asked["folder"])
    module, name = KINDS[asked["kind"]].grader.split(".")
    check = getattr(import_module(f"specdec_lab.teach.{module}"), name)

    def finish(result: dict[str, Any]) -> None:
        (folder / "result.part").write_text(json.dumps(result), encoding="utf-8")
        os.replace(folder / "result.part", folder / "result.json")
        os._exit(0)  # whatever threads the file has left behind

    too_much = {"problem": f"it used up the {asked['memory']} MB of memory that it may have."}
    limited = limit_memory(asked["memory"], lambda: finish(too_much))
    (folder / "started").write_text(limited, encoding="utf-8")
    try:
        function = find(load(Path(asked["file"])), asked["function"])
        more = (
            {"seconds": min(10.0, asked["seconds"] / 3), "beyond": asked["beyond"]}
            if asked["kind"] == "greedy"
            else {}
        )
        report = check(function, **more).reveal(asked["hints"])
        finish(report.to_dict())
    except NoVerdict as error:
        finish({"problem": str(error)})
    except MemoryError:
        finish(too_much)


def load(file: Path) -> ModuleType:
    """Import a file by its path; `NoVerdict` with the line where that fails."""
    sys.path.insert(0, str(file.parent))
    name = f"graded_{file.stem}"  # a file called random.py must not take the place of another module
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None:
        raise NoVerdict(
            f"{file.name} is no Python file: its name must end in .py. Copy a function of a notebook into one, with "
            "everything that it needs."
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except MemoryError:
        raise
    except SyntaxError as error:
        raise NoVerdict(f"{file.name} cannot be read: {error.msg} in line {error.lineno}.") from None
    except BaseException as error:
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
        ]
        where = f"line {lines[-1]} of {file.name}" if lines else file.name
        said = f"{type(error).__name__}: {error}".rstrip(": .")
        raise NoVerdict(f"{where} raises {said} when it is imported.") from None
    return module


def find(module: ModuleType, name: str) -> Callable[..., Any]:
    """The function of that name; `NoVerdict` with those that there are, also where it is this package's own."""
    function, file = getattr(module, name, None), Path(module.__file__).name
    home = home_of(function)
    elsewhere = home.split(".")[0] == __package__.split(".")[0] and not written_in(module, function)
    if callable(function) and not elsewhere:
        return function
    own = [n for n, part in vars(module).items() if inspect.isfunction(part) and written_in(module, part)]
    there = (
        f"there {'is' if len(own) == 1 else 'are'} {', '.join(own)}" if own else "there is no function at all"
    )
    if not callable(function):
        raise NoVerdict(f"no function {name} in {file}; {there}. --function NAME takes another.")
    there = f"{there}, and --function NAME takes another" if own else "it has no function of its own"
    raise NoVerdict(f"{name} in {file} is not written there, but imported from {home}; {there}.")


def written_in(module: ModuleType, function: Any) -> bool:
    """Whether the code of a function, or of one that it wraps, is in the module's file. Its `__module__`, which
    `functools.wraps` overwrites, is asked only where that is not so: a library's decorator may hide what it decorates.
    """

    def here(part: Any) -> bool:
        code = getattr(part, "__code__", None) or getattr(type(part).__call__, "__code__", None)
        return getattr(code, "co_filename", None) == module.__file__

    function = without_partials(function)
    with suppress(ValueError):  # it wraps itself
        if here(inspect.unwrap(function, stop=here)):
            return True
    return home_of(function) == module.__name__


def home_of(function: Any) -> str:
    """The name of the module from which a function says it is; of a method, its object's class; of a partial, its function.

    >>> home_of(Path.exists), home_of(partial(json.dumps, indent=1)), home_of(None)
    ('pathlib', 'json', '')
    """
    function = without_partials(function)
    if inspect.ismethod(function):
        owner = function.__self__
        function = owner if isinstance(owner, type) else type(owner)
    return getattr(function, "__module__", None) or ""


def without_partials(function: Any) -> Any:
    """The function that a partial of a partial … calls in the end."""
    while isinstance(function, partial):
        function = function.func
    return function


def limit_memory(megabytes: int, too_much: Callable[[], None]) -> str:
    """Allow so much more than is in use now. Returns how: `BY_SYSTEM` where that raises `MemoryError`, `BY_WATCHING`
    where a thread looks every tenth of a second and calls `too_much`, `UNLIMITED` where there is neither."""
    try:
        import resource
    except ImportError:  # Windows
        return UNLIMITED
    more = megabytes * 2**20
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, most))
        return BY_SYSTEM

    def used() -> int:  # the most so far; macOS counts bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = used()

    def watch() -> None:
        while used() - before < more:
            time.sleep(0.1)
        too_much()

    threading.Thread(target=watch, daemon=True).start()
    return BY_WATCHING


if __name__ == "__main__":
    main(sys.argv[1])
