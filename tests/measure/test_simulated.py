"""The machine on paper: its clock, its paces, and a pair whose times can be worked out by hand."""

from __future__ import annotations

import time

import pytest
import torch
from helpers import follow

from specdec_lab import autoregressive_decode, benchmark_decoding, speculative_decode
from specdec_lab.measure.simulated import (
    END_TOKEN,
    SimulatedMachine,
    SimulatedModel,
    cold_until,
    counting_pair,
    counting_prompt,
    disturbed,
    drifting,
    steady,
)
from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix

EASY, HARD = counting_prompt(100, last=47), counting_prompt(100, last=1)


def test_the_clock_is_put_back_whatever_happens():
    real, machine = time.perf_counter, SimulatedMachine()
    with pytest.raises(RuntimeError, match="in the middle"), machine.clock():
        machine.work(2.0)
        assert time.perf_counter() == 2.0
        raise RuntimeError("in the middle")
    assert time.perf_counter is real


def test_clocks_can_be_nested():
    outer, inner = SimulatedMachine(), SimulatedMachine()
    outer.work(1.0)
    with outer.clock():
        with inner.clock():
            assert time.perf_counter() == 0.0
        assert time.perf_counter() == 1.0


@pytest.mark.parametrize(
    "pace, expected",
    [
        (steady, [1, 2, 3, 4]),
        (cold_until(2.0, 3.0), [3, 4, 5, 6]),
        (disturbed(1.0, 4.0, 2.0), [1, 3, 5, 6]),
        (drifting(1.0), [1, 3, 7, 15]),
    ],
)
def test_a_pace_stretches_the_work_that_begins_then(pace, expected):
    machine, found = SimulatedMachine(pace), []
    for _ in expected:
        machine.work(1.0)
        found.append(machine.now)
    assert found == expected


def test_an_accelerator_works_behind_the_back_and_is_waited_for():
    machine = SimulatedMachine()
    for _ in range(3):
        machine.launch(5.0, call=1.0)
    assert machine.now == 3.0
    machine.synchronise()
    assert machine.now == 1.0 + 3 * 5.0
    machine.synchronise()  # nothing left to wait for
    assert machine.now == 16.0
    machine.launch(1.0)  # begins now, not when the last one ended
    machine.synchronise()
    assert machine.now == 17.0


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_a_pass_is_that_of_a_scripted_model_and_takes_time(keep):
    machine, rule = SimulatedMachine(), hash_of_prefix(30)
    model, plain = SimulatedModel(rule, 30, machine, first=2.0, further=0.5), ScriptedModel(rule, 30)
    ids, more = torch.tensor([[3, 1, 4]]), torch.tensor([[1, 5, 9]])
    mine, other = model.forward(ids), plain.forward(ids)
    assert torch.equal(mine.logits, other.logits) and machine.now == 3.0
    mine = model.forward(more, past_key_values=mine.past_key_values, logits_to_keep=keep)
    other = plain.forward(more, past_key_values=other.past_key_values)
    assert torch.equal(mine.logits, other.logits[:, -keep:]) and machine.now == 6.0
    assert mine.past_key_values == other.past_key_values == [3, 1, 4, 1, 5, 9]
    assert model.calls == plain.calls


def test_the_counting_pair_writes_what_it_says():
    target, draft = counting_pair(SimulatedMachine())
    assert autoregressive_decode(target, [60], 9, END_TOKEN) == [60, 61, 62, 63, 0]
    assert follow(draft.rule, [36], 5) == [36, 37, 39, 40, 41, 42]  # 38 is missed
    assert follow(draft.rule, [50], 4) == [50, 51, 52, 53, 54]
    sequence, rate = speculative_decode(target, draft, EASY, 32, 4, END_TOKEN)
    assert sequence[100:] == [*range(48, 64), 0] and rate == 1.0


def test_the_times_are_those_worked_out_by_hand():
    machine = SimulatedMachine()
    with machine.clock():
        result = benchmark_decoding(
            *counting_pair(machine), [EASY, HARD], 32, 4, END_TOKEN, warmup_runs=0, num_runs=2
        )
    easy = 0.0119 + 3 * 0.002 + 0.123 + 2 * (0.0021 + 3 * 0.002 + 0.024) + (0.0021 + 0.002 + 0.022)
    # a correction; then a guess and a correction, 14 times with 4 drafts and once with the 2 that can still save a pass
    hard = 0.0119 + 3 * 0.002 + 0.123 + 14 * (4 * 0.002 + 0.024) + (2 * 0.002 + 0.022) + 0.020
    assert result["run_times_autoregressive"] == pytest.approx([0.119 + 16 * 0.02 + 0.119 + 31 * 0.02] * 2)
    assert result["run_times_speculative"] == pytest.approx([easy + hard] * 2)
    assert result["outputs_match"] and result["new_tokens_speculative"] == 17 + 32
