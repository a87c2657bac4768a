"""Times of passes and rates of the machine: on a clock that the test moves, so every figure is known."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import crc_rule, random_model

from specdec_lab import speedup
from specdec_lab.measure import passes
from specdec_lab.measure.passes import (
    PassTimes,
    fastest,
    memory_bandwidth,
    multiply_rate,
    product_bandwidth,
    time_passes,
)
from specdec_lab.models.scripted import ScriptedModel

TIMES = PassTimes({1: (2.0, 4.0, 2.0), 3: (3.0, 3.0, 9.0), 9: (6.0, 4.0, 5.0)}, context=64)


class Slow(ScriptedModel):
    """Moves the clock by `cost(n, pass number)` in each pass over n tokens, and by much in each cut."""

    def __init__(self, clock, cost, **more):
        super().__init__(crc_rule(7), 7, **more)
        self.clock, self.cost = clock, cost

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        self.clock[0] += self.cost(input_ids.shape[1], self.passes)
        return super().forward(input_ids, use_cache, past_key_values)

    def truncate_cache(self, past_key_values, valid_length):
        self.clock[0] += 1000
        return super().truncate_cache(past_key_values, valid_length)


# ---------------------------------------------------------------- time_passes


def test_what_is_timed_is_the_pass_and_nothing_else(clock):
    times = time_passes(Slow(clock, lambda n, _: 1 + n / 4), (1, 2, 5), runs=3, budget=1e9)
    assert {n: times.seconds[n] for n in times} == {1: (1.25,) * 3, 2: (1.5,) * 3, 5: (2.25,) * 3}
    assert times.context == 64 and times.verify_cost(5) == 1.8
    assert speedup(0.8, 4, 0.0, times.verify_cost) == pytest.approx((1 - 0.8**5) / 0.2 / 1.8)


def test_every_n_takes_its_turn_behind_the_same_context(clock):
    model = Slow(clock, lambda n, _: 1.0)
    time_passes(model, (5, 1, 3), context=20, runs=2, budget=1e9)
    seen = [(call.before, call.after) for call in model.calls if call.kind == "forward"]
    assert seen == [(0, 20), *[(20, 25), (20, 21), (20, 23)] * 3]
    assert [call.after for call in model.calls if call.kind == "truncate"] == [20] * 9


def test_the_first_turn_warms_up_and_is_not_kept(clock):
    times = time_passes(Slow(clock, lambda n, k: 50.0 if k <= 2 else float(k)), (1, 4), runs=2, budget=1e9)
    assert times.seconds == {1: (3.0, 5.0), 4: (4.0, 6.0)}


def test_a_slow_machine_stops_after_the_turn_that_spent_the_budget(clock):
    model = Slow(clock, lambda n, _: 10.0)
    assert time_passes(model, (1, 2), runs=5, budget=0).seconds == {1: (10.0,), 2: (10.0,)}
    assert model.passes == 1 + 2, "one turn, kept because there is no other"
    model = Slow(clock, lambda n, _: 10.0)
    assert time_passes(model, (1,), runs=5, budget=1500).seconds == {1: (10.0,)}
    assert model.passes == 1 + 2, "the second turn went over"


def test_real_models_are_timed_and_left_as_they_were():
    model = random_model("llama", seed=3).train()
    times = time_passes(model, (1, 4), context=8, runs=2)
    assert all(len(times.seconds[n]) == 2 and min(times.seconds[n]) > 0 for n in (1, 4))
    assert model.training


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"tokens": (2, 3)}, ValueError, r"tokens must hold .* 1, .* got \[2, 3\]"),
        ({"tokens": (1, 3, 3)}, ValueError, r"each n once.*got \[1, 3, 3\]"),
        ({"tokens": (1, 0)}, ValueError, r"tokens\[1\] must be at least 1, got 0"),
        ({"tokens": (1, 2.0)}, TypeError, r"tokens\[1\] must be an integer"),
        ({"context": 0}, ValueError, "context must be at least 1, got 0"),
        ({"runs": 0}, ValueError, "runs must be at least 1, got 0"),
        ({"budget": -1}, ValueError, "budget must be 0 seconds or more, got -1"),
        ({"budget": float("nan")}, ValueError, "budget"),
        ({"budget": "8"}, TypeError, "budget must be a number of seconds"),
        ({"context": 84}, ValueError, "context is 84 .* 17 tokens: together 101, .* context of 100"),
    ],
)
def test_bad_input_is_refused_before_the_first_pass(clock, arguments, error, words):
    model = Slow(clock, lambda n, _: 1.0, max_position_embeddings=100)
    with pytest.raises(error, match=words):
        time_passes(model, **arguments)
    assert not model.calls
    assert time_passes(model, context=83, runs=1).context == 83, "the largest that fits"


# ---------------------------------------------------------------- PassTimes


def test_medians_ratios_and_spread_by_hand():
    assert list(TIMES) == [1, 3, 9] and [TIMES[n] for n in TIMES] == [2.0, 3.0, 5.0]
    assert [TIMES.verify_cost(n) for n in (1, 3, 9)] == [1.0, 1.5, 2.5]
    assert TIMES.verify_cost_range(3) == (0.75, 4.5) and TIMES.verify_cost_range(1) == (1.0, 1.0)


def test_straight_lines_between_the_n_that_were_timed():
    assert TIMES.verify_cost(2) == 1.25
    assert [TIMES.verify_cost(n) for n in (5, 6)] == pytest.approx([1.5 + 1 / 3, 2.0])


def test_what_was_not_timed_is_refused():
    for n in (0, 10):
        with pytest.raises(ValueError, match=f"tokens must lie between 1 and 9, got {n}"):
            TIMES.verify_cost(n)
    with pytest.raises(KeyError, match=r"no pass over 5 tokens was timed, only over \[1, 3, 9\]"):
        TIMES[5]
    with pytest.raises(KeyError, match="no pass over 5"):
        TIMES.verify_cost_range(5)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [({5: (1.0,)}, "n = 1"), ({1: ()}, "n = 1"), ({1: (1.0, 2.0), 5: (1.0,)}, "one time for each turn")],
)
def test_times_that_cannot_be_compared_are_refused(seconds, words):
    with pytest.raises(ValueError, match=words):
        PassTimes(seconds, 64)


def test_a_clock_that_did_not_move_gives_nan(clock):
    times = time_passes(Slow(clock, lambda n, _: 0.0), (1, 2), runs=1)
    assert math.isnan(times.verify_cost(2)) and math.isnan(times.verify_cost_range(2)[0])
    assert math.isnan(memory_bandwidth(1)) and math.isnan(multiply_rate(torch.float32, 8))


# ---------------------------------------------------------------- the machine


def test_the_fastest_run_counts_and_each_is_made(clock):
    durations = iter([5.0, 2.0, 3.0])

    def work():
        clock[0] += next(durations)

    assert fastest(work, runs=3) == 2.0 and next(durations, None) is None
    with pytest.raises(ValueError, match="runs must be at least 1, got 0"):
        fastest(work, runs=0)


@pytest.fixture
def two_seconds(monkeypatch):
    """Every piece of work takes two seconds; what it returned is kept."""
    results = []

    def slow(work, runs=7):
        results.append(work())
        return 2.0

    monkeypatch.setattr(passes, "fastest", slow)
    return results


def test_rates_are_what_was_read_or_computed_over_the_time(two_seconds):
    assert memory_bandwidth(3) == 3e6 / 2
    assert product_bandwidth(torch.float32, rows=10) == 10 * 1024 * 4 / 2
    assert product_bandwidth(torch.bfloat16, rows=10) == 10 * 1024 * 2 / 2
    assert multiply_rate(torch.bfloat16, size=16) == 2 * 16**3 / 2
    total, matrix_vector, _, product = two_seconds
    assert total == 750_000, "every number was read, and had been written"
    assert matrix_vector.shape == (1, 10) and (matrix_vector == 1024).all()
    assert product.dtype == torch.bfloat16 and (product == 16).all() and product.shape == (16, 16)


def test_defaults_are_larger_than_a_cache_and_the_rates_are_of_this_world():
    import inspect

    assert inspect.signature(memory_bandwidth).parameters["megabytes"].default >= 256
    assert inspect.signature(product_bandwidth).parameters["rows"].default * 1024 * 2 >= 64e6
    for rate in (
        memory_bandwidth(4),
        product_bandwidth(torch.float32, 512),
        multiply_rate(torch.float32, 64),
    ):
        assert 0 < rate < 1e16


@pytest.mark.parametrize("rate", [product_bandwidth, multiply_rate])
@pytest.mark.parametrize("dtype", [torch.int8, "float32", None])
def test_only_floating_dtypes(rate, dtype):
    with pytest.raises(TypeError, match="dtype must be a floating-point dtype"):
        rate(dtype)


@pytest.mark.parametrize(("call", "name"), [(memory_bandwidth, "megabytes"), (fastest, "runs")])
def test_counts_are_checked(call, name):
    with pytest.raises(TypeError, match=f"{name} must be an integer"):
        call(**{name: 1.5}, **({"work": list} if name == "runs" else {}))
