"""Stored runs: what is saved is loaded, what was changed is noticed, and the shipped index tells the truth."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from helpers import random_model

from specdec_lab.measure import runs
from specdec_lab.measure.reference import load_reference
from specdec_lab.measure.runs import (
    FOLDER,
    file_name,
    list_runs,
    load_run,
    run_card,
    save_run,
    text_hash,
    weights_hash,
    with_mine,
    write_index,
)
from specdec_lab.measure.trees import load_tree_reference

ROWS = [
    {"task": "copy", "gamma": 8, "speedup": 4.123456789012345, "alpha": 0.75},
    {"task": "chat", "gamma": 4, "speedup": 1.2, "alpha": float("nan")},
]


def card(**changed):
    return {
        "machine": "2 cores, AVX-512",
        "pair": "smollm2 + prompt-lookup",
        "setting": "bfloat16, γ = 8",
        "versions": {"python": "3.11.7", "torch": "2.13.0+cpu", "transformers": "5.24.0"},
        "command": "python benchmarks/real.py",
        "hashes": {"model.safetensors": "ab" * 32},
        "licence": "MIT, as the code",
        "notes": "two tasks",
    } | changed


# ---- the shipped folder ----------------------------------------------------------------------------------------------


def test_the_shipped_index_is_what_the_files_say(tmp_path):
    """Failing after `benchmarks/… --save`: look at what changed, then `runs.write_index(runs.FOLDER)`."""
    folder = tmp_path / "copy"
    shutil.copytree(FOLDER, folder)
    before = (folder / "index.json").read_text(encoding="utf-8")
    write_index(folder)
    assert (folder / "index.json").read_text(encoding="utf-8") == before


def test_every_shipped_file_is_in_the_index_once_with_its_hash():
    entries = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))["runs"]
    files = [file for entry in entries for file in entry["sha256"]]
    assert sorted(files) == sorted(path.name for path in FOLDER.iterdir() if path.name != "index.json")
    for entry in entries:
        for file, digest in entry["sha256"].items():
            text = (FOLDER / file).read_text(encoding="utf-8")
            assert hashlib.sha256(text.encode()).hexdigest() == digest, file
        assert datetime.date.fromisoformat(entry["date"]) and entry["machine"] and entry["versions"]["torch"]


def test_index_and_cards_give_the_same_hashes_and_dates():
    entries = {
        entry["name"]: entry
        for entry in json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))["runs"]
    }
    dial = load_reference().card
    assert entries["dial"]["sha256"].items() >= dial["sha256"].items()
    assert entries["dial"]["date"] == dial["date"]
    for name in ("trees", "streams"):
        assert entries[name]["date"] == load_tree_reference(name)["card"]["date"]


def test_shipped_runs_are_listed_with_what_reads_them():
    listed = list_runs().set_index("name")
    assert listed.loc["dial", "read_with"] == "load_reference"
    assert listed.loc["dial", "files"] == "card.json, costs.json, dial.csv"
    assert set(listed.loc[["trees", "streams"], "read_with"]) == {"load_tree_reference"}
    assert "torch 2.13.0" in listed.loc["dial", "versions"]


@pytest.mark.parametrize("name", ["dial", "trees"])
def test_a_run_of_another_shape_says_who_reads_it(name):
    with pytest.raises(ValueError, match=rf"'{name}' is a run of another shape: load_\w*reference reads it"):
        load_run(name)


# ---- save and load ---------------------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded(tmp_path):
    path = save_run(ROWS, card(date="2026-11-30"), tmp_path)
    assert path.name == (
        "2-cores-avx-512--smollm2-prompt-lookup--bfloat16-gamma-8--torch-2.13.0-cpu-transformers-5.24.0.json"
    )
    run = load_run(path.stem, tmp_path)
    assert run.rows["speedup"].tolist() == [4.123456789012345, 1.2]  # every digit
    assert run.rows["alpha"].isna().tolist() == [False, True] and run.rows["gamma"].dtype.kind == "i"
    assert run.card == {"schema_version": 1, "name": path.stem} | card(date="2026-11-30")
    (row,) = list_runs(tmp_path).to_dict("records")
    assert row == {
        "name": path.stem,
        "date": "2026-11-30",
        "machine": "2 cores, AVX-512",
        "pair": "smollm2 + prompt-lookup",
        "setting": "bfloat16, γ = 8",
        "versions": "python 3.11.7, torch 2.13.0+cpu, transformers 5.24.0",
        "files": path.name,
        "read_with": "load_run",
    }


def test_a_frame_of_numpy_numbers_is_saved_like_rows(tmp_path):
    frame = pd.DataFrame(ROWS).assign(tokens=np.arange(2, dtype=np.int32), same=[np.True_, np.False_])
    rows = [row | {"tokens": i, "same": not i} for i, row in enumerate(ROWS)]
    one = save_run(frame, card(date="2026-11-30"), tmp_path / "frame")
    other = save_run(rows, card(date="2026-11-30"), tmp_path / "rows")
    assert one.read_bytes() == other.read_bytes() and b"NaN" not in one.read_bytes()


def test_measuring_again_replaces_the_run_and_leaves_the_others(tmp_path):
    save_run(ROWS, card(name="first"), tmp_path)
    save_run(ROWS, card(name="second", setting="float32"), tmp_path)
    save_run(ROWS[:1], card(name="first"), tmp_path)
    assert list_runs(tmp_path)["name"].tolist() == ["first", "second"]
    assert len(load_run("first", tmp_path).rows) == 1 and len(load_run("second", tmp_path).rows) == 2
    before = (tmp_path / "index.json").read_text(encoding="utf-8")
    write_index(tmp_path)
    assert (tmp_path / "index.json").read_text(encoding="utf-8") == before


def test_a_new_run_joins_the_shipped_ones(tmp_path):
    folder = tmp_path / "reference"
    shutil.copytree(FOLDER, folder)
    known = list_runs(folder)["name"].tolist()
    save_run(ROWS, card(name="mine"), folder)
    assert list_runs(folder)["name"].tolist() == sorted([*known, "mine"])
    assert load_reference(folder).card["pair"] == "tiny"


@pytest.mark.parametrize("missing", ["machine", "pair", "setting", "versions", "command"])
def test_a_card_that_lacks_something_is_refused(tmp_path, missing):
    with pytest.raises(ValueError, match=f"card lacks {missing}"):
        save_run(ROWS, {key: value for key, value in card().items() if key != missing}, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_date_is_a_date(tmp_path):
    with pytest.raises(ValueError, match=r"date must be YYYY-MM-DD, got '30\.11\.2026'"):
        save_run(ROWS, card(date="30.11.2026"), tmp_path)


def test_a_host_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "lab7")
    with pytest.raises(ValueError, match="without the host name 'lab7'"):
        save_run(ROWS, card(machine="LAB7, two cores"), tmp_path)
    assert save_run(ROWS, card(machine="the lab's two cores"), tmp_path).exists()


@pytest.mark.parametrize(
    "rows, message",
    [
        ([], "at least one row"),
        ([{"speedup": float("inf")}], r"rows\[0\]\['speedup'\] must be a finite number or NaN, got inf"),
        ([{"speedup": object()}], r"rows\[0\]\['speedup'\] must be a plain value, got object"),
        ([{"speedup": {"low": [1.0, {1, 2}]}}], r"\['low'\]\[1\] must be a plain value, got set"),
    ],
)
def test_rows_that_json_does_not_have_are_refused(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        save_run(rows, card(), tmp_path)


def test_two_runs_do_not_share_a_name_or_a_file(tmp_path):
    save_run(ROWS, card(name="taken"), tmp_path)
    with pytest.raises(ValueError, match="'taken' is that of another run"):
        save_run(ROWS, card(name="taken", setting="float32"), tmp_path)
    with pytest.raises(ValueError, match="holds another run; tell them apart"):
        save_run(ROWS, card(setting="bfloat16; γ: 8"), tmp_path)  # other words, same letters
    assert load_run("taken", tmp_path).card["setting"] == "bfloat16, γ = 8"


# ---- what goes wrong when loading ------------------------------------------------------------------------------------


def test_an_unknown_name_lists_those_that_are_there(tmp_path):
    with pytest.raises(ValueError, match=r"name must be one of \(no runs in this folder\), got 'x'"):
        load_run("x", tmp_path)
    save_run(ROWS, card(name="there"), tmp_path)
    with pytest.raises(ValueError, match="name must be one of there, got 'x'"):
        load_run("x", tmp_path)


def test_a_changed_file_is_noticed_and_other_line_ends_are_not(tmp_path):
    path = save_run(ROWS, card(name="run"), tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"\n", b"\r\n"))
    assert len(load_run("run", tmp_path).rows) == 2
    path.write_bytes(whole.replace(b"4.123456789012345", b"4.2"))
    with pytest.raises(ValueError, match=r"has sha256 \w{64}, the index says \w{64}: measure again"):
        load_run("run", tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match="is in the index and not in the folder"):
        load_run("run", tmp_path)


@pytest.mark.parametrize(
    "change, message",
    [({"schema_version": 9}, "run has schema_version 9"), ({"pair": None}, "lacks pair")],
)
def test_a_file_of_another_schema_says_so(tmp_path, change, message):
    path = save_run(ROWS, card(name="run"), tmp_path)
    data = json.loads(path.read_text(encoding="utf-8")) | change
    data = {key: value for key, value in data.items() if value is not None}
    path.write_text(json.dumps(data), encoding="utf-8")
    index = json.loads((tmp_path / "index.json").read_text(encoding="utf-8"))
    index["runs"][0]["sha256"][path.name] = text_hash(path)  # whoever changed it kept the index up to date
    (tmp_path / "index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_run("run", tmp_path)


def test_an_index_of_another_schema_says_so(tmp_path):
    (tmp_path / "index.json").write_text('{"schema_version": 2, "runs": []}', encoding="utf-8")
    with pytest.raises(ValueError, match="index of runs has schema_version 2"):
        list_runs(tmp_path)


def test_a_file_without_a_card_is_not_indexed(tmp_path):
    save_run(ROWS, card(), tmp_path)
    (tmp_path / "stray.csv").write_text("a,b\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"no card speaks for stray\.csv"):
        write_index(tmp_path)


# ---- names -----------------------------------------------------------------------------------------------------------


def test_file_names_are_plain_letters_on_every_system():
    odd = card(machine='Größe: 2 × "Kerne"', pair="org/Target + C:\\Draft", setting="α=0.5? <τ|*>")
    name = file_name(odd)
    assert name.startswith("groe-2-x-kerne--org-target-c-draft--alpha-0.5-tau--torch-2.13.0")
    assert name.isascii() and name == name.lower() and not set(name) & set('<>:"/\\|?*+ ')
    assert file_name(card(machine="核")).startswith("unnamed--")


def test_versions_without_torch_are_spelled_out_and_long_names_refused():
    assert file_name(card(versions={"vllm": "0.32.0"})).endswith("--vllm-0.32.0")
    with pytest.raises(ValueError, match="at most 180"):
        file_name(card(setting="word " * 40))


# ---- the card of a run made here -------------------------------------------------------------------------------------


def test_a_card_looks_up_what_the_run_depends_on(tmp_path):
    target = random_model("llama", 0)
    pair = SimpleNamespace(target=target, name="tiny", card={"sha256": {"model.safetensors": "ab" * 32}})
    found = run_card(pair, "float32", command="python benchmarks/x.py", tokens=48)
    assert found["machine"].endswith(f", {found['threads']} threads") and found["device"] == "cpu"
    assert found["dtype"] == "float32" and found["versions"]["torch"] and found["tokens"] == 48
    assert found["hashes"] == pair.card["sha256"]
    assert run_card(pair, "float32", command="…", machine="my laptop")["machine"] == "my laptop"
    path = save_run(ROWS, found, tmp_path)
    assert load_run(path.stem, tmp_path).card["date"] == runs._today()


def test_weights_without_a_card_are_hashed_as_they_are_loaded():
    one, same, other = (random_model("llama", seed) for seed in (1, 1, 2))
    pair = SimpleNamespace(name="made here", target=one, card={})
    assert run_card(pair, "x", command="y")["hashes"] == {"target": weights_hash(same)}
    assert len({weights_hash(one), weights_hash(other), weights_hash(one.bfloat16())}) == 3


def test_an_accelerator_gives_the_machine_its_name(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Big GPU ({device})")
    monkeypatch.setattr(
        runs,
        "stamp",
        lambda model: {
            "device": "cuda:0",
            "dtype": "bfloat16",
            "threads": 8,
            "versions": {},
            "machine": "Linux",
        },
    )
    pair = SimpleNamespace(target=None, name="tiny", card={"sha256": {"weights": "ab"}})
    assert run_card(pair, "bfloat16", command="…")["machine"] == "Big GPU (cuda:0)"


# ---- mine beside stored ----------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    save_run(ROWS, card(name="here"), tmp_path)
    save_run(ROWS, card(name="there", machine="one H200"), tmp_path)
    save_run(ROWS[:1], card(name="again", setting="float32"), tmp_path)
    return {name: load_run(name, tmp_path) for name in ("here", "there", "again")}


def test_mine_stands_beside_a_stored_run(stored):
    mine = [{"task": "copy", "gamma": 8, "speedup": 3.0, "seconds": 0.5}]
    frame = with_mine(stored["here"], mine)
    assert frame["whose"].tolist() == ["2 cores, AVX-512", "2 cores, AVX-512", "mine"]
    assert frame.columns[0] == "whose" and frame["speedup"].tolist() == [4.123456789012345, 1.2, 3.0]
    assert np.isnan(frame["alpha"].iloc[2]) and frame["seconds"].isna().tolist() == [True, True, False]
    assert with_mine(stored["here"], pd.DataFrame(mine), mine="me")["whose"].tolist()[-1] == "me"


def test_several_stored_runs_are_told_apart(stored):
    assert with_mine(stored.values()).groupby("whose").size().to_dict() == {
        "2 cores, AVX-512: bfloat16, γ = 8": 2,
        "2 cores, AVX-512: float32": 1,
        "one H200": 2,
    }
    assert list(stored["here"].rows.columns) == ["task", "gamma", "speedup", "alpha"]  # left as it was


def test_mine_without_a_common_column_or_under_a_stored_name_is_refused(stored):
    with pytest.raises(ValueError, match="rows have none of the stored columns alpha, gamma"):
        with_mine(stored["here"], [{"Speedup": 1.0}])
    with pytest.raises(ValueError, match="mine must differ from the stored 'one H200'"):
        with_mine(stored["there"], ROWS, mine="one H200")


def test_runs_load_without_torch():
    code = "import sys, json, specdec_lab.measure.runs; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert {"torch", "pandas", "transformers"}.isdisjoint(json.loads(done.stdout))
