"""`python -m specdec_lab bench`: files that hold what the table says, and refusals before anything is measured."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from specdec_lab.__main__ import main
from specdec_lab.pair_options import read_prompts

QUICK = [
    "bench",
    "--gammas",
    "1,3",
    "--max-prompts",
    "2",
    "--max-new-tokens",
    "8",
    "--runs",
    "1",
    "--warmup",
    "0",
]


def test_table_csv_json_and_picture(tmp_path, capsys):
    files = [tmp_path / "a.csv", tmp_path / "a.json", tmp_path / "a.png"]
    assert main([*QUICK, "--out", str(files[0]), "--picture", str(files[2])]) == 0
    output = capsys.readouterr().out
    assert main([*QUICK, "--alphas", "0.5,1", "--out", str(files[1])]) == 0
    dialled = capsys.readouterr().out

    frame = pd.read_csv(files[0])
    assert sorted(set(frame["decoder"])) == ["gamma=1", "gamma=3", "plain"] and len(frame) == 6
    row = re.search(r"^gamma=3 +([\d.]+) +[\d.]+ to [\d.]+ +([\d.]+) +([\d.]+)", output, re.M)
    mine = frame[frame["decoder"] == "gamma=3"]
    plain = frame[frame["decoder"] == "plain"]
    assert float(row[1]) == pytest.approx(plain["seconds"].sum() / mine["seconds"].sum(), abs=6e-4)
    assert float(row[2]) == pytest.approx(mine["new_tokens"].sum() / mine["rounds"].sum(), abs=6e-4)
    assert float(row[3]) == pytest.approx(mine["accepted"].sum() / mine["drafted"].sum(), abs=6e-4)
    assert "Speed-up over plain decoding for γ from 1 to 3" in output
    assert files[2].read_bytes()[:4] == b"\x89PNG"

    rows = json.loads(files[1].read_text(encoding="utf-8"))
    assert {row["dial"] for row in rows} == {None, 0.5, 1.0}
    assert all(row["alpha"] == 1 for row in rows if row["dial"] == 1.0 and row["drafted"])
    assert "gamma=3 alpha=0.5" in dialled


def test_prompt_lookup_and_prompts_of_ones_own(tmp_path, capsys):
    (tmp_path / "p.txt").write_text("O Romeo, Romeo, O Romeo\n\nTo be, or not to be\n", encoding="utf-8")
    (tmp_path / "p.json").write_text(json.dumps(["To be,\nor not"]), encoding="utf-8")
    assert main([*QUICK, "--draft", "prompt-lookup", "--prompts", str(tmp_path / "p.txt")]) == 0
    output = capsys.readouterr().out
    assert "tiny + prompt-lookup; 2 prompts" in output
    assert read_prompts(tmp_path / "p.txt") == ["O Romeo, Romeo, O Romeo", "To be, or not to be"]
    assert read_prompts(tmp_path / "p.json") == ["To be,\nor not"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gammas", "x"], "--gammas must be numbers separated by commas, got 'x'"),
        (["--gammas", "0"], "gammas must be at least 1, got 0"),
        (["--gammas", ""], "gammas must hold at least one value"),
        (["--alphas", "2"], "alphas must be between 0 and 1, got 2.0"),
        (["--out", "a.xls"], "--out must end in one of .csv, .json"),
        (["--picture", "a.jpg"], "--picture must end in one of"),
        (["--out", "nowhere/a.csv"], "does not exist"),
        (["--prompts", "none.txt"], "--prompts none.txt cannot be read"),
        (["--draft", "prompt-lookup", "--alphas", "0.5"], "the draft of tiny + prompt-lookup is no model"),
        (["--max-prompts", "0"], "--max-prompts must be at least 1"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--pair", "huge"], "name must be one of"),
        (["--target", "./none", "--draft", "./none"], "there is no folder './none'"),
        (["--target", "./none"], "draft is missing"),
        (["--runs", "0"], "num_runs must be at least 1"),
    ],
)
def test_mistakes_end_in_a_sentence_before_anything_is_measured(
    arguments, words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specdec_lab.measure.sweep.take_turns", lambda *a, **k: pytest.fail("measured"))
    assert main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "[1]", '[""]', "{"])
def test_a_bad_prompts_file_is_refused(text, tmp_path):
    for name in ("p.json", "p.txt") if text == "" else ("p.json",):
        (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match="--prompts"):
            read_prompts(tmp_path / name)


def test_files_are_never_overwritten_unasked(tmp_path, capsys):
    file = tmp_path / "a.csv"
    file.write_text("precious", encoding="utf-8")
    assert main([*QUICK, "--out", str(file)]) == 2
    assert "--force" in capsys.readouterr().err and file.read_text(encoding="utf-8") == "precious"
    assert main([*QUICK, "--out", str(file), "--force"]) == 0
    assert len(pd.read_csv(file)) == 6
