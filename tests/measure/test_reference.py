"""The shipped reference run: whole, untouched, and what its card says."""

from __future__ import annotations

import json
import shutil

import pytest

from specdec_lab.measure.reference import FOLDER, load_reference, save_reference
from specdec_lab.measure.trees import load_tree_reference

GAMMAS, ALPHAS = range(1, 17), [i / 10 for i in range(11)]


def test_the_surface_is_complete():
    surface = load_reference().surface
    assert surface.loc[0, "decoder"] == "plain" and surface.loc[0, "speedup"] == 1
    grid = surface[surface["gamma"] > 0]
    assert sorted(zip(grid["dial"], grid["gamma"], strict=True)) == [(a, g) for a in ALPHAS for g in GAMMAS]
    assert grid["same_as_plain"].all()
    assert (grid["speedup_low"] <= grid["speedup_high"]).all() and (grid["speedup"] > 0).all()
    ends = grid.groupby("dial")["acceptance_rate"]
    assert ends.max()[0.0] == 0 and ends.min()[1.0] == 1


def test_the_card_says_where_it_comes_from():
    card = load_reference().card
    assert {"date", "command", "pair", "settings", "environment", "licence", "sha256"} <= set(card)
    assert card["environment"]["versions"]["torch"]
    assert set(card["sha256"]) == {"costs.json", "dial.csv"}


def test_every_other_stored_run_has_its_card_inside():
    index = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))["runs"]
    others = {entry["name"] for entry in index if entry["read_with"] == "load_tree_reference"}
    assert others == {"trees", "streams"}
    for name in others:
        found = load_tree_reference(name)
        for card in (found["card"], *(part["card"] for part in found.values() if "card" in part)):
            assert {"date", "command", "settings", "environment", "licence"} <= set(card)
            assert card["command"].startswith("python benchmarks/") and "/tmp" not in card["command"]


def test_stored_trees_predict_what_was_measured():
    """The best shape of a budget: within 5 % of what was counted on other prompts, and no hand-made one was better."""
    rows = load_tree_reference("trees")["prediction"]
    for method in ("draft tree", "Medusa", "streaming"):
        for budget in (4, 8, 16):
            its = [row for row in rows if (row["method"], row["budget"]) == (method, budget)]
            (best,) = (row for row in its if row["shape"] == "best")
            assert abs(best["predicted"] / best["measured"] - 1) < 0.05
            assert best["measured"] >= max(row["measured"] for row in its if row is not best)


def test_the_profile_covers_every_gamma():
    profile = load_reference().profile
    assert profile.largest_gamma == 16 and 0 < profile.cost_ratio() < 1
    assert all(profile.verify_cost(n) > 0.9 for n in range(1, 18))


def test_it_survives_saving(tmp_path):
    reference = load_reference()
    save_reference(reference.surface, reference.profile, {"name": "again"}, tmp_path)
    again = load_reference(tmp_path)
    assert again.surface.equals(reference.surface) and again.profile == reference.profile
    assert again.card["name"] == "again" and again.card["sha256"] == reference.card["sha256"]


def test_a_changed_file_is_noticed(tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(FOLDER, folder)
    table = folder / "dial.csv"
    table.write_text(table.read_text().replace("plain", "plane", 1))
    with pytest.raises(ValueError, match=r"dial.csv has sha256 .*, its card says"):
        load_reference(folder)
    assert json.loads((folder / "card.json").read_text())["name"]
