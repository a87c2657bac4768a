"""Traces as tables and files: counts that add up, place by place, and what a reader gets back from disk."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest
from helpers import crc_rule, erring, every_other

from specdec_lab import Trace, speculative_rounds
from specdec_lab.models.scripted import ScriptedModel

pytestmark = pytest.mark.scripted

WIDTH = 31
RULE = crc_rule(WIDTH)


def trace(gamma=4, n=60, wrong=every_other, ends=None):
    target, draft = ScriptedModel(RULE, WIDTH), ScriptedModel(erring(RULE, WIDTH, wrong), WIDTH)
    rounds = speculative_rounds(target, draft, [1, 2], max_new_tokens=n, gamma=gamma, eos_token_id=ends)
    return Trace.of([1, 2], rounds)


@pytest.mark.parametrize("gamma", [1, 3, 6])
def test_summary_adds_up(gamma):
    words = trace(gamma).summary()
    assert words["drafted"] == words["accepted"] + words["rejected"] + words["unjudged"]
    assert words["new_tokens"] == 60
    assert words["new_tokens"] == sum(words[k] for k in ("accepted", "corrections", "bonuses", "plain"))
    assert words["rejected"] == words["corrections"]
    assert words["acceptance_rate"] == words["accepted"] / words["drafted"]
    assert words["alpha"] == words["accepted"] / (words["accepted"] + words["rejected"])
    assert words["tokens_per_round"] == 60 / words["rounds"]
    assert words["seconds_drafting"] > 0 and words["seconds_verifying"] > 0


def test_places_are_counted_by_hand():
    run = trace(5)
    places = run.acceptance_by_position()
    assert [place["place"] for place in places] == [1, 2, 3, 4, 5]
    for place in places:
        i = place["place"] - 1
        there = [item for item in run.rounds if len(item.drafted) > i]
        judged = [item for item in there if len(item.accepted) >= i]
        accepted = [item for item in there if len(item.accepted) > i]
        assert (place["drafted"], place["judged"], place["accepted"]) == tuple(
            map(len, (there, judged, accepted))
        )
        assert place["share"] == len(accepted) / len(there)
    assert sum(place["accepted"] for place in places) == run.accepted
    assert sum(place["judged"] for place in places) == run.accepted + run.rejected
    shares = [place["share"] for place in places]
    assert shares[0] > shares[-1]


def test_a_place_that_nobody_judged_has_no_chance():
    places = trace(3, wrong=lambda position: True).acceptance_by_position()
    assert places[0]["chance"] == 0 and math.isnan(places[1]["chance"]) and places[1]["share"] == 0


def test_an_accepted_end_token_is_judged():
    run = trace(4, wrong=lambda position: False, ends=RULE([1, 2]))
    assert run.rounds[0].outcome == "end"
    assert run.acceptance_by_position()[0] == {
        "place": 1, "drafted": 1, "judged": 1, "accepted": 1, "chance": 1.0, "share": 1.0
    }  # fmt: skip


def test_frame_has_a_row_for_each_round():
    run = trace()
    frame = run.to_frame()
    assert len(frame) == len(run.rounds) and list(frame["round"]) == list(range(1, len(run.rounds) + 1))
    assert frame["accepted"].sum() == run.accepted and frame["drafted"].sum() == run.drafted
    assert frame["emitted"].sum() == 60 and frame["sequence_length"].iloc[-1] == 62
    assert (frame["target_cache_after"] == frame["sequence_length"] - 1).all()
    assert [t for row in frame["emitted_tokens"] for t in row] == run.new_tokens
    assert set(frame["outcome"]) <= {"correction", "bonus", "plain", "end"}


def test_a_drafter_without_a_cache_and_a_run_without_rounds_have_frames_too():
    from specdec_lab import PromptLookupDrafter

    rounds = speculative_rounds(
        ScriptedModel(RULE, WIDTH),
        PromptLookupDrafter(),
        [1, 2],
        max_new_tokens=9,
        gamma=2,
        eos_token_id=None,
    )
    frame = Trace.of([1, 2], rounds).to_frame()
    assert frame["draft_cache_after"].isna().all() and str(frame["draft_cache_after"].dtype) == "Int64"
    empty = Trace((1,), ()).to_frame()
    assert len(empty) == 0 and list(empty.columns) == list(frame.columns)
    assert math.isnan(Trace((1,), ()).summary()["tokens_per_round"])


def test_saved_and_loaded_it_is_the_same(tmp_path):
    run = trace()
    run.save(tmp_path / "run.json")
    assert Trace.load(tmp_path / "run.json") == run
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["schema_version"] == 1
    pd.testing.assert_frame_equal(Trace.load(tmp_path / "run.json").to_frame(), run.to_frame())


def test_a_file_that_is_no_trace_is_a_value_error(tmp_path):
    (tmp_path / "no.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="no JSON"):
        Trace.load(tmp_path / "no.json")
