"""Without a browser the tests here are skipped in one line; where they are required, they fail with it."""

from __future__ import annotations

import sys

import pytest
import system_browser
from system_browser import browser_path

SKIPPED, FAILED = pytest.skip.Exception, pytest.fail.Exception


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path):
    """Playwright is there, and no browser."""
    monkeypatch.setattr(system_browser, "find_spec", lambda name: name)
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.delenv("SPECDEC_LAB_BROWSER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def program(folder, name):
    path = folder / (f"{name}.exe" if sys.platform == "win32" else name)
    path.write_text("")
    path.chmod(0o755)
    return str(path)


def test_the_first_name_on_the_path_is_taken_unless_another_is_set(tmp_path, monkeypatch):
    chrome = program(tmp_path, "google-chrome")
    assert browser_path() == chrome
    assert browser_path() != program(tmp_path, "chromium") == browser_path()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("CHROMIUM", program(tmp_path / "elsewhere", "mine"))
    assert browser_path().startswith(str(tmp_path / "elsewhere"))


@pytest.mark.parametrize(("required", "raised"), [("", SKIPPED), ("required", FAILED)])
@pytest.mark.parametrize("missing", ["browser", "named browser", "playwright"])
def test_what_is_missing_is_said_in_one_line(missing, required, raised, tmp_path, monkeypatch):
    expected = "apt-get install chromium"
    if missing == "playwright":
        program(tmp_path, "chromium")
        monkeypatch.setattr(system_browser, "find_spec", lambda name: None)
        expected = "pip install -r requirements.txt"
    elif missing == "named browser":
        program(tmp_path, "chromium")
        monkeypatch.setenv("CHROMIUM", str(tmp_path / "nowhere"))
        expected = "nowhere"
    monkeypatch.setenv("SPECDEC_LAB_BROWSER", required)
    with pytest.raises(raised) as told:
        browser_path()
    assert expected in str(told.value) and "\n" not in str(told.value)
    assert bool(required) == ("SPECDEC_LAB_BROWSER=required" in str(told.value))
