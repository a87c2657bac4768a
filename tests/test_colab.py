"""Colab without Colab: the install cell of the notebooks moves no torch, and a kernel goes on with what it installed.

Nothing is downloaded. A fresh environment has links to the packages of this one, except specdec_lab, and where a test
says so it pretends that other versions are installed, as Colab's are. The project is handed over as an upload.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
LESSON = ROOT / "notebooks" / "00_start_here.ipynb"
KEPT = ("torch", "numpy", "ipywidgets")
# What Colab's GPU machines had: googlecolab/backend-info, pip-freeze.gpu.txt of June 2026 and of January 2026
COMMON = {"numpy": "2.0.2", "ipywidgets": "7.7.1", "pandas": "2.2.2", "matplotlib": "3.10.0"}
COMMON |= {"tokenizers": "0.22.2", "safetensors": "0.7.0"}
JUNE = {**COMMON, "torch": "2.11.0+cu128", "transformers": "5.9.0", "tqdm": "4.67.3"}
JANUARY = {**COMMON, "torch": "2.9.0+cu126", "transformers": "4.57.6", "tqdm": "4.67.1"}

pytestmark = [
    pytest.mark.skipif(find_spec("pip") is None, reason="there is no pip in this environment"),
    pytest.mark.skipif(os.name != "posix", reason="links to packages need a POSIX system"),
]


def calm(**more: str) -> dict[str, str]:
    """For a process: no settings of pip or Python that are this machine's, no virtual environment, no network."""
    ours = ("PIP_", "PYTHON", "VIRTUAL_ENV")  # IPython adds the packages of a VIRTUAL_ENV to its own
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "HF_HUB_OFFLINE": "1", **more}


def run(*command: object, cwd: Path, **more: str) -> SimpleNamespace:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=calm(**more),
        capture_output=True,
        text=True,
        timeout=240,
    )
    return SimpleNamespace(code=done.returncode, text=done.stdout + done.stderr)


def installs(report: Path) -> dict[str, str]:
    """Name → version of all that pip would have installed."""
    found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {canonicalize_name(item["metadata"]["name"]): item["metadata"]["version"] for item in found}


@pytest.fixture(scope="module")
def upload(tmp_path_factory) -> Path:
    """The checkout as a zip in a folder of its own, as a host of repositories packs it."""
    folder = tmp_path_factory.mktemp("upload")
    path = folder / "specdec_lab-main.zip"
    files = [ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-prose")]
    files += [file for file in (ROOT / "specdec_lab").rglob("*") if file.is_file() and file.suffix != ".pyc"]
    with zipfile.ZipFile(path, "w") as archive:
        for file in files:
            archive.write(file, Path("specdec_lab-main") / file.relative_to(ROOT))
    return path


@pytest.fixture(scope="module")
def wheel(upload, tmp_path_factory) -> Path:
    """Made from the upload, with the setuptools that is here."""
    need = re.search(r"setuptools>=(\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))[1]
    if find_spec("setuptools") is None or Version(version("setuptools")) < Version(need):
        pytest.skip(f"building without a network needs setuptools {need} here")
    folder = tmp_path_factory.mktemp("wheel")
    done = run(
        *(
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
            upload,
        ),
        cwd=folder,
    )
    assert done.code == 0, done.text
    return next(folder.glob("specdec_lab-*.whl"))


def fresh(folder: Path, pretend: dict[str, str] | None = None) -> SimpleNamespace:
    """An environment without specdec_lab; of `pretend` it has the names and versions, and nothing else."""
    pretend = pretend or {}
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    for item in (item for folder in PACKAGES for item in folder.iterdir()):
        name = canonicalize_name(item.name.split("-")[0])
        ours = name.startswith("specdec-lab") or "specdec_lab" in item.name
        if ours or name in pretend or item.suffix in (".pth", ".egg-link") or item.name == "__pycache__":
            continue
        (packages / item.name).symlink_to(item)
    for name, number in pretend.items():
        (packages / name).mkdir()
        (packages / name / "__init__.py").touch()
        write_metadata(packages / f"{name}-{number}.dist-info", name, number)
    return SimpleNamespace(python=python, packages=packages)


def write_metadata(folder: Path, name: str, number: str, needs: str | None = None) -> None:
    folder.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {number}"]
    (folder / "METADATA").write_text("\n".join([*lines, *([f"Requires-Dist: {needs}"] if needs else []), ""]))
    (folder / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    (folder / "RECORD").touch()
    (folder / "INSTALLER").write_text("pip\n")


def newer(folder: Path, *more: tuple[str, str]) -> Path:
    """A folder of empty wheels: version 99 of everything that Colab has; `more` are (name, what it needs)."""
    folder.mkdir()
    for name, needs in {**dict.fromkeys(JUNE), **dict(more)}.items():
        inside = folder / f"{name}-99.dist-info"
        write_metadata(inside, name, "99", needs)
        with zipfile.ZipFile(folder / f"{name}-99-py3-none-any.whl", "w") as archive:
            for file in inside.iterdir():
                archive.write(file, file.relative_to(folder))
        shutil.rmtree(inside)
    return folder


def install_cell(source: str = "") -> str:
    """The install cell of the first lesson, with `source` filled in."""
    cells = nbformat.read(LESSON, as_version=4).cells
    code = next(cell.source for cell in cells if cell.id == "install")
    found, count = re.subn(r'^source = ".*?"', f'source = "{source}"', code, flags=re.M)
    assert count == 1
    return found


def run_cell(there: SimpleNamespace, code: str, folder: Path, **more: str) -> SimpleNamespace:
    """Run a cell in IPython in that environment, from `folder`."""
    (folder / "cell.ipy").write_text(code, encoding="utf-8")
    return run(
        *(there.python, "-m", "IPython", "--no-banner", "--colors=NoColor", "cell.ipy"), cwd=folder,
        IPYTHONDIR=str(folder / ".ipython"), **more,
    )  # fmt: skip


# ---------------------------------------------------------------- what would move


def test_beside_an_installed_torch_nothing_else_would_be_installed(wheel, tmp_path):
    """As the packages here are, whatever their versions."""
    report = tmp_path / "report.json"
    done = run(
        *(sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--report", report, wheel), cwd=tmp_path
    )
    assert done.code == 0, done.text
    try:
        version("specdec_lab")
        expected = set()  # this very version is here already
    except PackageNotFoundError:
        expected = {"specdec-lab"}
    assert installs(report).keys() == expected


@pytest.fixture(scope="module")
def june(tmp_path_factory):
    return fresh(tmp_path_factory.mktemp("june") / "env", JUNE)


def would_install(there, wheel, folder, offered: Path) -> tuple[dict[str, str], str]:
    """What the cell would install, were these wheels offered; and what it printed."""
    content = folder / "content"
    content.mkdir()
    shutil.copy(wheel, content)
    report = folder / "report.json"
    more = {"PIP_DRY_RUN": "1", "PIP_REPORT": str(report), "PIP_FIND_LINKS": str(offered)}
    done = run_cell(there, install_cell(), content, **more)
    return installs(report) if report.exists() else {}, done.text


def test_on_colab_nothing_but_specdec_lab_is_installed(june, wheel, tmp_path):
    """Newer versions of everything are on offer, and none is taken (F40)."""
    found, text = would_install(june, wheel, tmp_path, newer(tmp_path / "offered"))
    assert found.keys() == {"specdec-lab"}, text


def test_on_an_older_colab_only_what_is_too_old_moves(wheel, tmp_path):
    there = fresh(tmp_path / "env", JANUARY)
    found, text = would_install(there, wheel, tmp_path, newer(tmp_path / "offered"))
    assert found.keys() == {"specdec-lab", "transformers"}, text


@pytest.mark.parametrize("wanted", KEPT)
def test_a_package_that_wants_another_torch_is_refused_and_nothing_moves(wheel, tmp_path, wanted):
    there = fresh(tmp_path / "env", JANUARY)
    offered = newer(tmp_path / "offered", ("transformers", f"{wanted}>=99"))
    found, text = would_install(there, wheel, tmp_path, offered)
    assert not found and f"{wanted}=={JANUARY[wanted]}" in text and "conflict" in text.lower()


# ---------------------------------------------------------------- what the cell says


def test_where_it_is_installed_the_cell_does_nothing(june, tmp_path):
    """Not even with something to install at hand; and it is over at once."""
    ours = tmp_path / "site"
    (ours / "specdec_lab").mkdir(parents=True)
    (ours / "specdec_lab" / "__init__.py").touch()
    (tmp_path / "specdec_lab-0.0-py3-none-any.whl").touch()
    code = (
        f"import sys\nsys.path.append({str(ours)!r})\n{install_cell('no such file')}\nprint('kept' in dir())"
    )
    done = run_cell(june, code, tmp_path)
    assert (done.code, done.text) == (0, "False\n")


def test_without_anything_to_install_it_says_what_to_do(june, tmp_path):
    (tmp_path / "specdec_lab").mkdir()  # a clone, not installed: Python would take the folder for a package
    done = run_cell(june, install_cell(), tmp_path)
    assert "ImportError: write into `source` where specdec_lab is" in done.text


@pytest.mark.parametrize("source", ["git+https://github.com/YOU/specdec_lab", "my upload (1).zip"])
def test_what_is_written_into_source_is_what_pip_is_asked_for(june, tmp_path, source):
    (tmp_path / "specdec_lab-0.0-py3-none-any.whl").touch()
    kept = " ".join(f"{name}=={JUNE[name]}" for name in KEPT)
    code = f"""\
from IPython.core.magic import register_line_magic
@register_line_magic
def pip(line):
    print("asked:", line)
{install_cell(source)}"""
    assert run_cell(june, code, tmp_path).text == f'asked: install -q "{source}" {kept}\n'


# ---------------------------------------------------------------- the order of events


def test_the_order_of_events(wheel, tmp_path):
    """A fresh kernel, an upload, the cells from the top, and the bundled pair decodes. Torch was not touched."""
    there = fresh(tmp_path / "env")
    before = trace_of("torch", there)
    content = tmp_path / "content"
    content.mkdir()
    shutil.copy(wheel, content)
    kernel = tmp_path / "jupyter" / "kernels" / "fresh"
    kernel.mkdir(parents=True)
    kernel.joinpath("kernel.json").write_text(
        json.dumps(
            {
                "argv": [str(there.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": "fresh",
                "language": "python",
                "env": {"OMP_NUM_THREADS": "1"},
            }
        )
    )
    lesson = nbformat.read(LESSON, as_version=4)
    sources = ["from importlib.util import find_spec\nassert find_spec('specdec_lab') is None"]
    sources += [cell.source for cell in lesson.cells if cell.id in ("install", "setup")]
    sources.append(
        """
from specdec_lab import speculative_decode

pair = load_pair("tiny")
ids = pair.prompt_ids[0]
tokens, rate = speculative_decode(pair.target, pair.draft, ids, 24, 4, pair.eos_token_id)
assert tokens == autoregressive_decode(pair.target, ids, 24, pair.eos_token_id) and 0 < rate < 1
import specdec_lab
print(specdec_lab.__file__)"""
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.metadata.kernelspec = {"name": "fresh", "display_name": "fresh"}
    nbformat.write(notebook, content / "lesson.ipynb")
    done = run(
        *(sys.executable, "-m", "nbconvert", "--execute", "--to=notebook", "--output=done", "lesson.ipynb"),
        cwd=content,
        JUPYTER_PATH=str(tmp_path / "jupyter"),
        IPYTHONDIR=str(tmp_path / ".ipython"),
    )
    assert done.code == 0, done.text
    cells = nbformat.read(content / "done.ipynb", as_version=4).cells
    assert not cells[2].outputs, "the setup cell prints nothing"
    assert Path(cells[-1].outputs[0].text.strip()).is_relative_to(there.packages)
    assert trace_of("torch", there) == before


def trace_of(name: str, there: SimpleNamespace) -> list:
    """Every dist-info of a package, the links to it and when its files were written."""
    return [
        (
            folder.name,
            folder.is_symlink(),
            sorted((file.name, file.stat().st_mtime_ns) for file in folder.iterdir()),
        )
        for folder in sorted(there.packages.glob(f"{name}-*.dist-info"))
    ]


# ---------------------------------------------------------------- ipywidgets 7


def test_ipywidgets_7_is_not_asked_for_what_it_does_not_know(monkeypatch):
    """It has no tooltips but for buttons; traitlets warns of an unknown argument, and will refuse it."""
    import ipywidgets

    from specdec_lab.show.control import Control

    asked: list[dict] = []
    for kind in ("IntSlider", "FloatSlider", "Checkbox", "Dropdown", "SelectionSlider"):
        monkeypatch.setattr(ipywidgets, kind, lambda **more: asked.append(more))
    controls = [Control((1, 4, 1)), Control((0, 1, 0.5)), Control(True), Control(["a", "b"]), Control([1, 3])]
    for knows in (True, False):
        if not knows:
            monkeypatch.setattr(ipywidgets, "DOMWidget", object)
        asked.clear()
        for control in controls:
            control.widget("name", 4)
        assert ["tooltip" in more for more in asked] == [knows] * len(controls)
