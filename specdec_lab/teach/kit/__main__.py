"""`python -m specdec_lab.teach.kit`: the command line of the lecture kit. What it does is in `build`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Build a kit and say how large it is. Exit code 0, or 2 with a sentence on what was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m specdec_lab.teach.kit",
        description="Build a lecture kit from notebooks that have been run: a folder and a zip that need no network.",
    )
    parser.add_argument(
        "--notebooks",
        type=Path,
        default=Path("notebooks"),
        help="folder of the lessons, with exercises/ and solutions/ (default: notebooks)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("kit"),
        help="folder to write, replaced if it is an earlier kit; its zip stands beside it (default: kit)",
    )
    parser.add_argument(
        "--source",
        type=Path,
        help="folder with pyproject.toml, which the wheel is built from (default: the one above the notebooks)",
    )
    parser.add_argument(
        "--students",
        action="store_true",
        help="leave out all solutions and the instructor's notes: a kit to hand out",
    )
    options = parser.parse_args(arguments)
    try:
        from .build import build
    except ImportError as error:
        print(f"{error.name} is missing: pip install 'specdec_lab[kit]'", file=sys.stderr)
        return 2
    from .lessons import KitError

    start = time.perf_counter()
    try:
        source = options.source or options.notebooks.resolve().parent
        made = build(options.notebooks, options.out, source, students=options.students)
    except KitError as error:
        print(f"no kit: {error}", file=sys.stderr)
        return 2
    sizes = [path.stat().st_size for path in made.folder.rglob("*") if path.is_file()]
    print(
        f"{made.folder}: {made.pages} pages, {made.decks} decks, {made.copies} live-coding copies, "
        f"{len(sizes)} files, {sum(sizes) / 1e6:.0f} MB; {made.archive}: {made.archive.stat().st_size / 1e6:.0f} MB; "
        f"{time.perf_counter() - start:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
