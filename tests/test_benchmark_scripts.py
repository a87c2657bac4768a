"""The benchmark scripts run and measure equal work; their timings are nobody's business here."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_decoding_speed_prints_its_table_over_equal_outputs(capsys, monkeypatch):
    arguments = [
        "decoding_speed.py",
        "--prompts",
        "1",
        "--new-tokens",
        "6",
        "--runs",
        "1",
        "--gammas",
        "1",
        "4",
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(BENCHMARKS / "decoding_speed.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "all outputs equal: True" in output
    for row in ("transformers assisted", "transformers generate", "model forwards", "per round"):
        assert re.search(rf"{row} +[\d.]+", output), row
    assert len(re.findall(r"^ +\d+  [\d.]+  \(", output, re.M)) == 2


def test_context_costs_prints_its_table(capsys, monkeypatch):
    sizes = ["--lengths", "16", "40", "--repeats", "2", "--prompts", "1", "--new-tokens", "12", "--runs", "1"]
    monkeypatch.setattr(sys, "argv", ["context_costs.py", *sizes])
    runpy.run_path(str(BENCHMARKS / "context_costs.py"), run_name="__main__")
    output = capsys.readouterr().out
    for row in ("slab cache", "dynamic cache", "dynamic cache ÷ slab cache"):
        assert re.search(rf"{row} +[\d.]+", output), row
    assert re.search(r"target, draft +[\d,]+, [\d,]+", output)
    assert re.search(r"head on one row / on all +\d+ MB / \d+ MB", output)
    assert re.search(r"speculative: .* [\d.]+ ms, [\d.]+ ms, [\d.]+", output)


def test_dial_surface_prints_and_saves_what_can_be_loaded(capsys, monkeypatch, tmp_path):
    from specdec_lab.measure.reference import load_reference

    sizes = {"--prompts": "1", "--new-tokens": "6", "--runs": "1", "--cost-runs": "1"}
    arguments = ["dial_surface.py", *[word for pair in sizes.items() for word in pair], "--alphas", "0", "1"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--gammas", "1", "3", "--save", str(tmp_path / "run")])
    runpy.run_path(str(BENCHMARKS / "dial_surface.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert len(re.findall(r"^ [01]\.0 +[\d.]+ \([\d.]+\) +[\d.]+ \([\d.]+\)$", output, re.M)) == 2
    assert re.search(r"predicted: median error [\d.]+ %, largest [\d.]+ %", output)
    reference = load_reference(tmp_path / "run")
    assert len(reference.surface) == 5 and reference.card["settings"]["new_tokens"] == 6
    assert reference.card["command"].startswith("python benchmarks/dial_surface.py --prompts 1")


def test_prediction_prints_its_table(capsys, monkeypatch):
    sizes = ["--prompts", "1", "--new-tokens", "6", "--runs", "1", "--cost-runs", "1", "--gammas", "1", "2"]
    monkeypatch.setattr(sys, "argv", ["prediction.py", *sizes])
    runpy.run_path(str(BENCHMARKS / "prediction.py"), run_name="__main__")
    output = capsys.readouterr().out
    for name in ("the bundled draft", "the weak draft", "the target itself"):
        assert len(re.findall(rf"^{name} +[12] ", output, re.M)) == 2
    assert len(re.findall(r"median error [\d.]+ %", output)) == 3 and "A draft pass costs" in output


def test_sampling_speed_prints_its_table(capsys, monkeypatch):
    arguments = ["sampling_speed.py", "--prompts", "1", "--new-tokens", "6", "--runs", "1"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    runpy.run_path(str(BENCHMARKS / "sampling_speed.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert len(re.findall(r"^temperature [\d.]+.*( +[\d.]+  \([\d.]+ to [\d.]+\)){3}", output, re.M)) == 4
    assert re.search(r"[\d.]+, [\d.]+$", output.strip())


def test_tree_speed_prints_and_saves_what_can_be_loaded(capsys, monkeypatch, tmp_path):
    import torch

    from specdec_lab import load_pair
    from specdec_lab.measure.trees import load_tree_reference
    from specdec_lab.models.medusa import MedusaHeads
    from specdec_lab.models.streams import Streams

    torch.manual_seed(0)
    target = load_pair("tiny").target
    MedusaHeads(target.config.hidden_size, target.config.vocab_size, 2).save(tmp_path / "heads")
    Streams.beside(target, streams=2, layers=1, rank=2).save(tmp_path / "streams")
    sizes = {"--prompts": "1", "--new-tokens": "8", "--runs": "1", "--passes": "4", "--depth": "2"}
    arguments = ["tree_speed.py", *[word for pair in sizes.items() for word in pair], "--budgets", "4"]
    where = ["--heads", str(tmp_path / "heads"), "--streams", str(tmp_path / "streams")]
    monkeypatch.setattr(sys, "argv", [*arguments, *where, "--save", str(tmp_path / "trees.json")])
    runpy.run_path(str(BENCHMARKS / "tree_speed.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "all outputs equal: True" in output
    found = load_tree_reference(tmp_path / "trees.json")
    assert {row["method"] for row in found["rows"]} == {
        "plain", "chain", "prompt lookup", "draft tree", "confidence tree", "Medusa", "streaming"
    }  # fmt: skip
    for row in found["rows"]:
        assert row["nodes"] <= 4 and (row["stream_rows"] > 0) == (row["method"] == "streaming")
    assert found["verify_cost"]["1"] == 1
    assert {row["shape"] for row in found["prediction"]} > {"best"}
    assert found["card"]["command"].startswith("python benchmarks/tree_speed.py --prompts 1")


def test_stream_ablation_prints_and_saves_what_can_be_loaded(capsys, monkeypatch, tmp_path):
    import torch

    from specdec_lab import load_pair
    from specdec_lab.measure.trees import load_tree_reference
    from specdec_lab.models.streams import Streams

    torch.manual_seed(0)
    target, folders = load_pair("tiny").target, []
    for layers in (1, 2):
        folders.append(str(tmp_path / str(layers)))
        streams = Streams.beside(target, streams=2, layers=layers, rank=2)
        streams.save(folders[-1])
        figures = {"held_out_accuracy": [{"top1": 0.1 * layers}] * 2, "parameters": 7}
        card = json.dumps({"recipe": {"layers": layers}, "figures": figures})
        (tmp_path / str(layers) / "card.json").write_text(card, encoding="utf-8")
    sizes = {"--prompts": "1", "--new-tokens": "8", "--runs": "1", "--budget": "3", "--prune-layers": "2"}
    words = [word for pair in sizes.items() for word in pair]
    where = ["--prune-streams", "2", "--keep", "0", "1", "--save", str(tmp_path / "streams.json")]
    monkeypatch.setattr(sys, "argv", ["stream_ablation.py", *folders, *words, *where])
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    runpy.run_path(str(BENCHMARKS / "stream_ablation.py"), run_name="__main__")
    assert "all outputs equal: True" in capsys.readouterr().out
    found = load_tree_reference(tmp_path / "streams.json")
    settings = [(row["layers"], row["streams"], row["keep"]) for row in found["rows"]]
    assert settings == [(1, 1, None), (1, 2, None), (2, 1, None), (2, 2, None), (2, 2, 0), (2, 2, 1)]
    rows = dict(zip(settings, found["rows"], strict=True))
    alone, everywhere = rows[2, 2, 0], rows[2, 2, None]
    assert alone["stream_rows_per_round"] < everywhere["stream_rows_per_round"]
    assert (
        alone["stream_rows_per_round"] == alone["depth"]
    )  # the row before the drafts, a stream for each level
    assert found["accuracy"]["2"][0]["top1"] == 0.2 and found["parameters"] == {"1": 7, "2": 7}


def test_real_speed_prints_its_table_and_saves_a_run(capsys, monkeypatch, tmp_path):
    """With the bundled pair in SmolLM2's place: the script is the same."""
    from dataclasses import replace

    import torch

    import specdec_lab
    from specdec_lab.measure.runs import list_runs, load_run
    from specdec_lab.training.eagle import new_draft

    pair = specdec_lab.load_pair("tiny", draft="prompt-lookup")
    pair.tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    new_draft(pair.target, (2, 8, 16), torch.arange(300, dtype=torch.int32)).save(tmp_path / "draft")
    pair = replace(pair, name="a pair that chats")
    monkeypatch.setattr(specdec_lab, "load_pair", lambda name, dtype=None: pair)
    sizes = {
        "--questions": "1",
        "--new-tokens": "8",
        "--runs": "1",
        "--lookup-gammas": "4",
        "--eagle-gammas": "2",
    }
    words = [word for part in sizes.items() for word in part]
    where = ["--tasks", "copy", "chat", "--eagle", str(tmp_path / "draft"), "--save", str(tmp_path / "runs")]
    monkeypatch.setattr(sys, "argv", ["real_speed.py", *words, *where])
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    runpy.run_path(str(BENCHMARKS / "real_speed.py"), run_name="__main__")
    assert "v(n): v(1) = 1.00" in capsys.readouterr().out
    name = list_runs(tmp_path / "runs")["name"][0]
    run = load_run(name, tmp_path / "runs")
    assert run.card["command"].endswith("--eagle FOLDER --save FOLDER")
    assert str(tmp_path) not in json.dumps(run.card) and run.card["verify_cost"]["1"] == 1
    rows = run.rows.set_index(["task", "contender"])
    assert set(run.rows["task"]) == {"copy", "chat"} and (run.rows["equal"] == 1).all()
    for task in ("copy", "chat"):
        assert rows.loc[(task, "plain"), "speedup"] == 1
        for ours in ("plain", "prompt lookup, γ 4", "early exit 10, γ 2"):
            assert rows.loc[(task, ours), "over_transformers"] > 0
        assert (rows.loc[task, "new_tokens"] == 8).all()
