"""`python reference.py MODULE FOLDER`: the reference of a package, by pdoc, from its docstrings. A warning is an error.

A script in a process of its own, because it imports every module of the package and changes two things about pdoc.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from pathlib import Path

import pdoc

LONGEST = 160  # characters of a value that is shown; a table of stories is not worth a megabyte
# pdoc looks for the types of a NamedTuple in the wrong module; it shows them all the same.
OF_NAMED_TUPLES = "Error parsing type annotation ForwardRef("


def write_reference(module: str, folder: Path) -> list[str]:
    """Write the pages; what pdoc warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        top = importlib.import_module(module)
        shorten_values()
        pdoc.render.configure(docformat="google", footer_text=module, show_source=False)
        pdoc.pdoc(*specifications(top), output_directory=folder)
    leave_out(f"{Path.cwd()}/", folder)
    told = [str(one.message) for one in caught if "pdoc" in one.filename or module in one.filename]
    return [text for text in told if not text.startswith(OF_NAMED_TUPLES)]


def specifications(top) -> list[str]:
    """What pdoc has to be told so that it shows every module once: it does not look below one that has `__all__`."""
    specs, covered = [top.__name__], set(pdoc.extract.walk_specs([top.__name__]))
    for part in pkgutil.walk_packages(top.__path__, top.__name__ + "."):
        if part.name in covered or part.name.endswith("__main__"):  # importing those runs something
            continue
        specs.append(part.name)
        covered |= set(pdoc.extract.walk_specs([part.name]))
    return specs


def shorten_values() -> None:
    """Values are shown, and found by the search, up to `LONGEST` characters."""
    whole = pdoc.doc.Variable.default_value_str.func

    def short(variable) -> str:
        text = whole(variable)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"

    pdoc.doc.Variable.default_value_str = property(short)


def leave_out(place: str, folder: Path) -> None:
    """Values that are paths shall not tell where on whose machine the reference was made."""
    for path in [*folder.rglob("*.html"), *folder.rglob("*.js")]:
        text = path.read_text(encoding="utf-8")
        if place in text:
            path.write_text(text.replace(place, ""), encoding="utf-8")


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # the package to be read, and not the folder of this script
    if problems := write_reference(sys.argv[1], Path(sys.argv[2])):
        raise SystemExit("pdoc warns: " + "; ".join(problems))
