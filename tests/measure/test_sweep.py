"""The sweep: a row for every decode, counts that fit, contenders that take turns, differences that show."""

from __future__ import annotations

import itertools
import time

import pandas as pd
import pytest
from helpers import PlainModel, crc_rule, erring, every_other

from specdec_lab import PromptLookupDrafter, bench_command, benchmark_decoding, speculative_rounds, sweep
from specdec_lab.decoding.drafters import NoDrafter
from specdec_lab.measure.interleave import take_turns
from specdec_lab.measure.sweep import summarise
from specdec_lab.models.scripted import ScriptedModel

WIDTH = 29
RULE = crc_rule(WIDTH)
PROMPTS = [[1, 2, 3], [4], [5, 6]]


def models(wrong=every_other):
    return ScriptedModel(RULE, WIDTH), ScriptedModel(erring(RULE, WIDTH, wrong), WIDTH)


def measured(gammas=(1, 4), alphas=None, runs=2, **settings):
    target, draft = models()
    return sweep(
        target, draft, PROMPTS, 12, gammas, None, alphas=alphas, num_runs=runs, warmup_runs=0, **settings
    )


def test_one_row_for_each_decoder_run_and_prompt():
    frame = measured()
    keys = set(zip(frame["decoder"], frame["run"], frame["prompt"], strict=True))
    assert keys == set(itertools.product(["plain", "gamma=1", "gamma=4"], range(2), range(3)))
    assert len(frame) == len(keys)


def test_counts_fit_together():
    frame = measured(alphas=[0.0, 0.5, 1.0])
    assert (frame["new_tokens"] == 12).all()
    assert frame["same_as_plain"].all() and not frame["near_tie"].any()
    assert (frame["divergence"] == "").all()
    assert (frame["prompt_tokens"] == frame["prompt"].map(lambda i: len(PROMPTS[i]))).all()
    plain = frame[frame["decoder"] == "plain"]
    assert (plain["rounds"] == 12).all() and (plain["drafted"] == 0).all() and (plain["gamma"] == 0).all()
    rate = frame["accepted"] / frame["drafted"]
    drafted = frame["drafted"] > 0
    assert (frame.loc[drafted, "acceptance_rate"] == rate[drafted]).all()
    set_to_one = frame[frame["dial"] == 1.0]
    assert (set_to_one["alpha"] == 1).all() and len(set_to_one) == 2 * 2 * 3
    assert (frame[frame["dial"] == 0.0]["accepted"] == 0).all()


def test_the_environment_is_on_every_row():
    frame = measured()
    for column in ("device", "dtype", "threads", "machine", "python", "specdec_lab", "torch", "transformers"):
        assert frame[column].notna().all()
    assert "not installed" not in set(frame["specdec_lab"])


def test_csv_keeps_every_number(tmp_path):
    frame = measured(alphas=[0.5])
    frame.to_csv(tmp_path / "a.csv", index=False)
    again = pd.read_csv(tmp_path / "a.csv", keep_default_na=False, na_values=[""])
    for column in ("seconds", "drafted", "accepted", "dial", "gamma"):
        pd.testing.assert_series_equal(again[column], frame[column], check_dtype=False)


def test_summary_pools_counts_and_takes_medians_of_runs(monkeypatch):
    frame = measured(runs=3)
    frame["seconds"] = [1.0 + i % 7 for i in range(len(frame))]
    summary = summarise(frame)
    assert list(summary["decoder"]) == ["plain", "gamma=1", "gamma=4"]
    for row in summary.itertuples():
        mine = frame[frame["decoder"] == row.decoder]
        once = mine[mine["run"] == 0]
        assert row.accepted == once["accepted"].sum() and row.drafted == once["drafted"].sum()
        totals = mine.groupby("run")["seconds"].sum()
        plain = frame[frame["decoder"] == "plain"].groupby("run")["seconds"].sum()
        assert row.speedup == pytest.approx(plain.median() / totals.median())
        assert row.speedup_low == pytest.approx((plain / totals).min())
        assert row.speedup_high == pytest.approx((plain / totals).max())
        assert row.tokens_per_round == once["new_tokens"].sum() / once["rounds"].sum()
    assert summary.loc[0, "speedup"] == 1 and pd.isna(summary.loc[0, "alpha"])
    assert summary.loc[0, "acceptance_rate"] == 0


def test_contenders_take_turns_and_the_first_one_rotates():
    order = []

    def noting(name):
        rounds = speculative_rounds(
            ScriptedModel(RULE, WIDTH), NoDrafter(), [1], max_new_tokens=1, gamma=1, eos_token_id=None
        )
        kept = list(rounds)
        return lambda prompt: (order.append((name, prompt[0])), iter(kept))[1]

    contenders = {name: noting(name) for name in "abc"}
    take_turns(contenders, [[1], [2]], warmup_runs=1, num_runs=1, devices=set())
    turns = ["".join(name for name, _ in order[i : i + 3]) for i in range(0, 12, 3)]
    assert turns == ["abc", "bca", "bca", "cab"]
    assert [prompt for _, prompt in order] == [1, 1, 1, 2, 2, 2] * 2


def test_two_alphas_that_print_alike_are_two_decoders():
    frame = measured(gammas=[2], alphas=[0.5, 0.5000001], runs=1)
    assert frame["decoder"].nunique() == 3 and set(frame["dial"].dropna()) == {0.5, 0.5000001}


def test_a_difference_is_reported_and_not_excused(capsys):
    class Moody(ScriptedModel):
        """Says something else once it is fed more than one token behind the prompt."""

        def forward(self, input_ids, use_cache=True, past_key_values=None):
            started = past_key_values is not None
            out = super().forward(input_ids, use_cache, past_key_values)
            if started and input_ids.shape[1] > 2:
                out.logits = out.logits.roll(1, dims=-1)
            return out

    draft = ScriptedModel(RULE, WIDTH)
    frame = sweep(Moody(RULE, WIDTH), draft, PROMPTS, 12, [4], None, num_runs=1, warmup_runs=0)
    wrong = frame[frame["decoder"] == "gamma=4"]
    assert not wrong["same_as_plain"].any() and not wrong["near_tie"].any()
    assert wrong["divergence"].str.contains("too far apart for rounding").all()
    assert not summarise(frame).loc[1, "same_as_plain"]
    result = benchmark_decoding(Moody(RULE, WIDTH), draft, PROMPTS, 12, 4, None, 0, 1)
    assert not result["outputs_match"] and len(result["divergences"]) == 3
    assert all("too far apart for rounding" in sentence for sentence in result["divergences"])
    assert bench_command._verdict(frame) == 1 and "prompt 0, gamma=4: new token" in capsys.readouterr().err
    assert bench_command._verdict(frame[frame["same_as_plain"]]) == 0


def test_the_dial_is_asked_before_any_clock_runs(monkeypatch):
    target, draft = models()
    events = []
    real = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: (events.append("clock"), real())[1])
    forward = target.forward
    monkeypatch.setattr(target, "forward", lambda *a, **k: (events.append("target"), forward(*a, **k))[1])
    sweep(target, draft, PROMPTS, 12, [2], None, alphas=[0.5], num_runs=1, warmup_runs=0)
    assert events.index("clock") == 3 * 12


def test_progress_ends_at_its_total():
    said = []
    measured(progress=lambda *counts: said.append(counts))
    assert said[-1] == (18, 18) and [done for done, _ in said] == sorted(done for done, _ in said)


def test_prompts_and_models_are_left_as_they_were():
    target, draft = models()
    given = [list(prompt) for prompt in PROMPTS]
    sweep(target, draft, given, 6, [2], None, num_runs=1)
    assert given == PROMPTS


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"gammas": []}, ValueError, "gammas must hold at least one value"),
        ({"gammas": [2, 2]}, ValueError, "must not repeat"),
        ({"gammas": [0]}, ValueError, "gammas must be at least 1, got 0"),
        ({"gammas": [1.5]}, TypeError, "gammas must be an integer"),
        ({"alphas": [1.5]}, ValueError, "alphas must be between 0 and 1, got 1.5"),
        ({"alphas": []}, ValueError, "alphas must hold at least one value"),
        ({"num_runs": 0}, ValueError, "num_runs"),
        ({"warmup_runs": -1}, ValueError, "warmup_runs"),
        ({"prompts": []}, ValueError, "prompts must hold at least one prompt"),
        ({"prompts": [[1], [WIDTH]]}, ValueError, r"prompts\[1\]"),
        ({"draft_model": None}, TypeError, "draft_model"),
        ({"draft_model": PromptLookupDrafter(), "alphas": [0.5]}, TypeError, "draft_model"),
        ({"draft_model": 7}, TypeError, "draft_model"),
        ({"max_new_tokens": 0}, ValueError, "max_new_tokens"),
    ],
)
def test_bad_input_is_refused_before_any_pass(change, error, words):
    target, draft = models()
    settings = {
        "target_model": target,
        "draft_model": draft,
        "prompts": PROMPTS,
        "max_new_tokens": 5,
        "gammas": [2],
        "eos_token_id": None,
    }
    with pytest.raises(error, match=words):
        sweep(**(settings | change))
    assert target.passes == draft.passes == 0


def test_plain_objects_with_two_methods_can_be_swept():
    frame = sweep(PlainModel(RULE, WIDTH), PlainModel(RULE, WIDTH), PROMPTS, 8, [3], None, num_runs=1)
    assert frame["same_as_plain"].all() and (frame["new_tokens"] == 8).all()
