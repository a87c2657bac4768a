"""`benchmark_decoding` under a clock that the tests move: each pass costs what they say, so figures are exact.

Nothing here looks at a real clock. Rows of the list of faults (F08, F19 to F22, F41) give their tests the name.
"""

from __future__ import annotations

import math
import statistics
import time
from itertools import pairwise

import pytest
import torch
from helpers import PlainModel, always, counting_rule, crc_rule, erring, every_other, follow, never

from specdec_lab import (
    Trace,
    autoregressive_decode,
    benchmark_decoding,
    speculative_decode,
    speculative_rounds,
)
from specdec_lab.measure import benchmark as benchmark_module

WIDTH = 97
RULE = crc_rule(WIDTH)
PROMPTS = [[3, 1, 4, 1, 5], [9, 2, 6], [7]]
TARGET_COST, DRAFT_COST = 0.1, 0.01


class Clock:
    """Stands still until a model moves it; notes what happened in order."""

    def __init__(self):
        self.now = 100.0
        self.events: list = []

    def __call__(self):
        self.events.append("read")
        return self.now


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(time, "perf_counter", fake)
    return fake


class Timed(PlainModel):
    """Each pass moves the clock by `cost(number of the pass, tokens fed)`."""

    def __init__(self, rule, clock, cost, name):
        super().__init__(rule, WIDTH)
        self.clock, self.cost, self.label = clock, cost, name

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        output = super().forward(input_ids, use_cache, past_key_values)
        cost = self.cost(self.passes, self.fed[-1]) if callable(self.cost) else self.cost
        self.clock.now += cost
        self.clock.events.append(self.label)
        return output


def timed_pair(clock, wrong=every_other, rule=RULE, target=TARGET_COST, draft=DRAFT_COST):
    return Timed(rule, clock, target, "target"), Timed(erring(rule, WIDTH, wrong), clock, draft, "draft")


def bench(pair, prompts=PROMPTS, n=16, gamma=4, ends=None, **more):
    more = {"warmup_runs": 0, "num_runs": 1, **more}
    return benchmark_decoding(*pair, prompts, n, gamma, ends, **more)


def traces(rule=RULE, wrong=every_other, n=16, gamma=4, ends=None, prompts=PROMPTS):
    """What the speculative leg does, from the decoder itself."""
    pair = PlainModel(rule, WIDTH), PlainModel(erring(rule, WIDTH, wrong), WIDTH)
    return [
        Trace.of(
            prompt,
            speculative_rounds(*pair, prompt, max_new_tokens=n, gamma=gamma, eos_token_id=ends),
        )
        for prompt in prompts
    ]


# ---------------------------------------------------------------- every figure, from passes and costs


@pytest.mark.parametrize("wrong", [never, every_other, always])
def test_every_figure_from_its_definition(clock, wrong):
    result = bench(timed_pair(clock, wrong), num_runs=3, warmup_runs=1)
    runs = traces(wrong=wrong)
    fast = [TARGET_COST * len(t.rounds) + DRAFT_COST * t.drafted for t in runs]
    plain = [TARGET_COST * 16] * 3
    close = lambda value: pytest.approx(value, rel=1e-9)  # noqa: E731

    assert result["mean_latency_speculative"] == close(sum(fast) / 3)
    assert result["mean_latency_autoregressive"] == close(1.6)
    assert result["speedup"] == close(sum(plain) / sum(fast))
    assert result["mean_acceptance_rate"] == close(sum(t.acceptance_rate for t in runs) / 3)
    assert result["tokens_per_second_speculative"] == close(48 / sum(fast))
    assert result["tokens_per_second_autoregressive"] == close(10)

    drafted, accepted = sum(t.drafted for t in runs), sum(t.accepted for t in runs)
    assert result["acceptance_rate_pooled"] == close(accepted / drafted)
    assert (result["drafted_tokens"], result["accepted_tokens"]) == (drafted, accepted)
    assert result["rejected_tokens"] == sum(t.rejected for t in runs)
    assert result["alpha"] == close(accepted / (accepted + result["rejected_tokens"]))
    assert result["rounds"] == sum(len(t.rounds) for t in runs)
    assert result["tokens_per_round"] == close(48 / result["rounds"])
    assert result["run_times_speculative"] == close([sum(fast)] * 3)
    assert result["run_times_autoregressive"] == close([sum(plain)] * 3)
    assert result["speedup_per_run"] == close([sum(plain) / sum(fast)] * 3)
    assert result["median_latency_speculative"] == close(sorted(fast)[1])
    assert result["median_latency_autoregressive"] == close(1.6)
    for key in ("speedup_of_medians", "speedup_per_token"):  # every run alike, and both legs equally long
        assert result[key] == close(sum(plain) / sum(fast))
    first = [TARGET_COST + DRAFT_COST * len(t.rounds[0].drafted) for t in runs]
    assert result["mean_time_to_first_token_speculative"] == close(sum(first) / 3)
    assert result["mean_time_to_first_token_autoregressive"] == close(TARGET_COST)
    later = sum(16 - len(t.rounds[0].emitted) for t in runs)
    assert result["decode_tokens_per_second_speculative"] == close(later / (sum(fast) - sum(first)))
    assert result["decode_tokens_per_second_autoregressive"] == close(10)
    assert result["new_tokens_speculative"] == result["new_tokens_autoregressive"] == 48
    assert result["outputs_match"] is True and result["first_divergence"] == [None] * 3


def test_the_six_keys_and_the_setting(clock):
    result = bench(timed_pair(clock), warmup_runs=2, num_runs=4)
    for key in (
        "mean_latency_speculative",
        "mean_latency_autoregressive",
        "speedup",
        "mean_acceptance_rate",
        "tokens_per_second_speculative",
        "tokens_per_second_autoregressive",
    ):
        assert type(result[key]) is float
    expected = {"gamma": 4, "max_new_tokens": 16, "prompts": 3, "warmup_runs": 2, "num_runs": 4}
    assert {key: result[key] for key in expected} == expected
    assert result["device"] == "cpu"
    assert result["versions"]["torch"] == torch.__version__
    assert {"python", "transformers", "specdec_lab"} <= set(result["versions"])
    assert result["machine"]


def test_mean_acceptance_is_over_prompts_and_the_pooled_rate_is_not(clock):
    """A long prompt-run and a short one weigh the same in the first, by their drafts in the second."""
    ends = [follow(RULE, PROMPTS[0], 16)[len(PROMPTS[0])]]  # prompt 0 ends with its first token
    runs = traces(ends=ends)
    result = bench(timed_pair(clock), ends=ends)
    assert result["mean_acceptance_rate"] == pytest.approx(sum(t.acceptance_rate for t in runs) / 3)
    assert result["mean_acceptance_rate"] != pytest.approx(result["acceptance_rate_pooled"])


def test_defaults_are_two_and_five(clock):
    result = benchmark_decoding(*timed_pair(clock), PROMPTS[:1], 3, 2, None)
    assert (result["warmup_runs"], result["num_runs"]) == (2, 5)
    assert len(result["run_times_speculative"]) == len(result["speedup_per_run"]) == 5


@pytest.mark.parametrize("costs", [{"target": 0.0, "draft": 0.0}])
def test_a_clock_that_stands_still_gives_nan(clock, costs):
    result = bench(timed_pair(clock, **costs), num_runs=2)
    for key in (
        "speedup",
        "speedup_of_medians",
        "speedup_per_token",
        "tokens_per_second_speculative",
        "tokens_per_second_autoregressive",
        "decode_tokens_per_second_speculative",
        "decode_tokens_per_second_autoregressive",
    ):
        assert math.isnan(result[key]), key
    assert all(map(math.isnan, result["speedup_per_run"]))
    assert result["mean_latency_speculative"] == result["mean_latency_autoregressive"] == 0.0
    assert 0 < result["mean_acceptance_rate"] < 1


# ---------------------------------------------------------------- F08


@pytest.mark.parametrize("n", [32, 64])
@pytest.mark.parametrize("wrong", [never, every_other, always])
def test_f08_tokens_really_produced(clock, n, wrong):
    """Throughput assumes that max_new_tokens were produced (mlcommons/inference 1545)."""
    rule, prompt = counting_rule(WIDTH), [10, 11, 12]
    pair = timed_pair(clock, wrong, rule, draft=0.0)
    result = bench(pair, [prompt], n=n, ends=18, num_runs=3)  # 13 … 18
    assert result["new_tokens_speculative"] == result["new_tokens_autoregressive"] == 6
    passes = len(traces(rule, wrong, n, ends=18, prompts=[prompt])[0].rounds)
    assert result["tokens_per_second_autoregressive"] == pytest.approx(6 / 0.6)
    assert result["tokens_per_second_speculative"] == pytest.approx(6 / (passes * 0.1))
    assert result["run_times_autoregressive"] == pytest.approx([0.6] * 3)


# ---------------------------------------------------------------- F19


def slow_start(decodes):
    """The first so many decodes of one prompt cost ten times as much; a decode starts with the prompt."""
    seen = {"decodes": 0}

    def cost(number, fed):
        seen["decodes"] += fed[: len(PROMPTS[0])] == PROMPTS[0]
        return TARGET_COST * (10 if seen["decodes"] <= decodes else 1)

    return cost


def test_f19_warm_up_hides_the_slow_start(clock):
    """The first timed run is the slowest (samyama-ai/samyama-graph 752)."""
    # a run decodes the prompt twice, once per leg: two slow runs are four slow decodes
    pair = timed_pair(clock, target=slow_start(4), draft=0.0)
    result = bench(pair, PROMPTS[:1], warmup_runs=2, num_runs=5)
    assert result["run_times_autoregressive"] == pytest.approx([1.6] * 5)
    steady = len(traces(prompts=PROMPTS[:1])[0].rounds) * TARGET_COST
    assert result["run_times_speculative"] == pytest.approx([steady] * 5)


def test_f19_without_warm_up_it_shows_in_order(clock):
    """Per-run times come in the order of the runs (samyama-ai/samyama-graph PR 755)."""
    pair = timed_pair(clock, target=slow_start(4), draft=0.0)
    result = bench(pair, PROMPTS[:1], warmup_runs=0, num_runs=5)
    assert result["run_times_autoregressive"] == pytest.approx([16, 16, 1.6, 1.6, 1.6])
    assert result["median_latency_autoregressive"] == pytest.approx(1.6)
    assert result["mean_latency_autoregressive"] == pytest.approx((32 + 4.8) / 5)
    fast = result["run_times_speculative"]
    assert fast[0] == fast[1] == pytest.approx(10 * fast[4]) and fast[2] == pytest.approx(fast[4])
    assert len(set(map(lambda value: round(value, 6), result["speedup_per_run"]))) == 1


def test_f19_the_median_of_an_even_count_is_the_midpoint(clock):
    """A median that picks one of the two middle runs (sharkdp/hyperfine 451)."""
    pair = timed_pair(clock, target=slow_start(4), draft=0.0)
    result = bench(pair, PROMPTS[:1], warmup_runs=0, num_runs=4)
    assert result["median_latency_autoregressive"] == pytest.approx((16 + 1.6) / 2)


def test_f19_both_legs_warm_up_equally(clock):
    target, draft = timed_pair(clock)
    bench((target, draft), warmup_runs=3, num_runs=2)
    starts = [fed for fed in target.fed if fed[: len(PROMPTS[0])] == PROMPTS[0]]
    plain = [fed for fed in starts if fed == PROMPTS[0]]
    assert len(starts) == 10 and len(plain) == 5


# ---------------------------------------------------------------- F20


def test_f20_prefill_is_in_the_latency_and_out_of_the_decode_rate(clock):
    """Prompt processing inside a number called decode speed (Pushkinist/rMLX PR 480)."""
    prompt = list(range(40))

    def cost(number, fed):
        return 5.0 if fed[:40] == prompt else TARGET_COST

    pair = timed_pair(clock, never, target=cost, draft=0.0)
    result = bench(pair, [prompt], n=20)
    passes = 4  # rounds of five
    assert result["mean_latency_autoregressive"] == pytest.approx(5 + 19 * TARGET_COST)
    assert result["mean_latency_speculative"] == pytest.approx(5 + (passes - 1) * TARGET_COST)
    assert result["tokens_per_second_autoregressive"] == pytest.approx(20 / 6.9)
    assert result["mean_time_to_first_token_autoregressive"] == pytest.approx(5)
    assert result["mean_time_to_first_token_speculative"] == pytest.approx(5)
    assert result["decode_tokens_per_second_autoregressive"] == pytest.approx(1 / TARGET_COST)
    assert result["decode_tokens_per_second_speculative"] == pytest.approx(5 / TARGET_COST)


def test_tokens_of_a_round_come_together_and_the_gaps_say_so(clock):
    """Four rounds of five: three waits and sixteen times none. Plain tokens trickle."""
    pair = timed_pair(clock, never, target=TARGET_COST, draft=0.0)
    result = bench(pair, [[1, 2, 3]], n=20)
    gaps = [0.0] * 16 + [TARGET_COST] * 3
    assert result["largest_gap_autoregressive"] == pytest.approx(TARGET_COST)
    assert result["gap_variation_autoregressive"] == pytest.approx(0, abs=1e-6)
    assert result["largest_gap_speculative"] == pytest.approx(TARGET_COST)
    expected = statistics.pstdev(gaps) / statistics.fmean(gaps)
    assert result["gap_variation_speculative"] == pytest.approx(expected) and expected > 1


# ---------------------------------------------------------------- F21


def on_device(monkeypatch, clock, target, draft):
    """Pretend that the models live there; note calls of that backend's `synchronize` and the waiting they do."""
    devices = {"target": torch.device(target), "draft": torch.device(draft)}
    monkeypatch.setattr(benchmark_module, "model_device", lambda model: devices[model.label])
    clock.debt, clock.waited_for = 0.0, []

    def synchronize(device=None):
        clock.events.append("sync")
        clock.waited_for.append(device)
        clock.now += clock.debt
        clock.debt = 0.0

    for backend in (torch.cuda, torch.mps):
        monkeypatch.setattr(backend, "synchronize", synchronize)


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_f21_one_wait_before_each_reading_and_none_between(monkeypatch, clock, device):
    """The clock is read before the device has finished, or a wait per token slows it (1ytic/warp-rnnt 9)."""
    on_device(monkeypatch, clock, device, device)
    bench(timed_pair(clock), warmup_runs=1, num_runs=2)
    decodes = 3 * 3 * 2
    waits = [i for i, event in enumerate(clock.events) if event == "sync"]
    assert len(waits) == 2 * decodes
    assert all(clock.events[i + 1] == "read" for i in waits)
    for start, stop in zip(waits[::2], waits[1::2], strict=True):
        assert "target" in clock.events[start:stop], "the pair of waits is around one decode"
    for stop, start in pairwise(waits[1:]):
        if waits.index(stop) % 2 == 1:
            assert "target" not in clock.events[stop:start]


def test_f21_work_still_running_is_waited_for(monkeypatch, clock):
    """1.8 ms reported for 15.8 ms of work (bigscience-workshop/petals PR 456)."""
    on_device(monkeypatch, clock, "cuda", "cuda")

    def deferred(number, fed):
        clock.debt += TARGET_COST
        return 0.0

    result = bench(timed_pair(clock, target=deferred, draft=0.0))
    assert result["mean_latency_autoregressive"] == pytest.approx(1.6)


def test_f21_nothing_to_wait_for_on_the_cpu(monkeypatch, clock):
    on_device(monkeypatch, clock, "cpu", "cpu")
    bench(timed_pair(clock))
    assert "sync" not in clock.events


def test_f21_every_device_that_is_used_is_waited_for(monkeypatch, clock):
    """Waiting without a device waits for the current one only (mmcdermott/MEDS_EIC_AR 132)."""
    on_device(monkeypatch, clock, "cuda:0", "cuda:1")
    bench(timed_pair(clock), PROMPTS[:1])
    waited = {torch.device(device) if device is not None else None for device in clock.waited_for}
    assert waited == {torch.device("cuda:0"), torch.device("cuda:1")}


# ---------------------------------------------------------------- F22


def test_f22_both_legs_do_the_same_job(clock):
    """Other stop rules or cache paths in the two legs (SafeAILab/EAGLE 75)."""
    ends = [follow(RULE, PROMPTS[1], 16)[len(PROMPTS[1]) + 6]]
    target, draft = timed_pair(clock, never)
    result = bench((target, draft), ends=ends)
    lengths = [len(follow(RULE, prompt, 16, ends)) - len(prompt) for prompt in PROMPTS]
    assert min(lengths) < 16, "no prompt stops early"
    assert result["new_tokens_speculative"] == result["new_tokens_autoregressive"] == sum(lengths)
    assert result["outputs_match"] is True
    # the plain leg feeds prompt + n - 1 tokens to the target, using its cache; the other what it does alone
    plain, fast = PlainModel(RULE, WIDTH), PlainModel(RULE, WIDTH)
    for prompt in PROMPTS:
        autoregressive_decode(plain, prompt, 16, ends)
        speculative_decode(fast, PlainModel(RULE, WIDTH), prompt, 16, 4, ends)
    assert plain.fed_tokens == sum(map(len, PROMPTS)) + sum(lengths) - len(PROMPTS)
    assert target.fed_tokens == plain.fed_tokens + fast.fed_tokens


def test_f22_a_mismatch_is_reported_with_its_place(clock, monkeypatch):
    """A speed-up is shown for other tokens (skyzh/tiny-llm PR 299)."""

    class Unfaithful(Timed):
        """Answers otherwise in passes over several tokens once 8 positions are in its cache."""

        def forward(self, input_ids, use_cache=True, past_key_values=None):
            output = super().forward(input_ids, use_cache, past_key_values)
            if len(output.past_key_values.secret) > 8 and 1 < input_ids.shape[1] < 6:
                output.logits = output.logits.roll(1, dims=-1)
            return output

    target = Unfaithful(RULE, clock, TARGET_COST, "target")
    draft = Timed(RULE, clock, DRAFT_COST, "draft")
    gammas, find = [], benchmark_module.first_divergence

    def recorded(*arguments, gamma):
        gammas.append(gamma)
        return find(*arguments, gamma=gamma)

    monkeypatch.setattr(benchmark_module, "first_divergence", recorded)
    result = bench((target, draft), [[3, 1, 4, 1]], n=16)
    assert gammas == [4]
    plain = autoregressive_decode(target, [3, 1, 4, 1], 16, None)
    ours, _ = speculative_decode(target, draft, [3, 1, 4, 1], 16, 4, None)
    first = next(i for i in range(16) if plain[4 + i] != ours[4 + i])
    assert result["outputs_match"] is False and result["first_divergence"] == [first]


def test_legs_alternate_and_take_turns_to_be_first(clock):
    """One decode after the other on each prompt; which comes first changes from prompt to prompt and run to run."""
    target, draft = timed_pair(clock, never)
    bench((target, draft), PROMPTS[:2], n=6, warmup_runs=0, num_runs=2)
    order = []
    for fed in target.fed:
        for number, prompt in enumerate(PROMPTS[:2]):
            if fed[: len(prompt)] == prompt:
                order.append((number, "plain" if fed == prompt else "fast"))
    assert order == [
        *((0, "fast"), (0, "plain"), (1, "plain"), (1, "fast")),
        *((0, "plain"), (0, "fast"), (1, "fast"), (1, "plain")),
    ]


def test_no_state_survives_a_decode(clock):
    """Each decode starts from an empty cache, feeds its prompt, and does what it would do alone."""
    target, draft = timed_pair(clock)
    bench((target, draft), warmup_runs=1, num_runs=3)
    for model in (target, draft):
        starts = [entry for entry in model.log if entry[0] == "forward" and entry[1] == 0]
        assert len(starts) == 4 * 3 * (2 if model is target else 1)
    once = PlainModel(RULE, WIDTH), PlainModel(erring(RULE, WIDTH, every_other), WIDTH)
    for prompt in PROMPTS:
        speculative_decode(*once, prompt, 16, 4, None)
        autoregressive_decode(once[0], prompt, 16, None)
    assert target.fed_tokens == 4 * once[0].fed_tokens
    assert draft.fed_tokens == 4 * once[1].fed_tokens


def test_prompts_are_left_as_they_were(clock):
    given = [list(PROMPTS[0]), tuple(PROMPTS[1]), torch.tensor(PROMPTS[2])]
    result = bench(timed_pair(clock), given)
    assert given[0] == PROMPTS[0] and given[1] == tuple(PROMPTS[1]) and given[2].tolist() == PROMPTS[2]
    assert result["new_tokens_speculative"] == 48


def test_progress_counts_decodes(clock):
    said = []
    bench(timed_pair(clock), warmup_runs=1, num_runs=2, progress=lambda *counts: said.append(counts))
    total = 3 * len(PROMPTS) * 2
    assert said == [(done, total) for done in range(2, total + 1, 2)]


# ---------------------------------------------------------------- F41


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_f41_threads_are_recorded_and_left_alone(clock, two_threads):
    """The thread count is changed and stays so (edbeeching/godot_rl_agents PR 266)."""
    seen = set()

    def cost(number, fed):
        seen.add(torch.get_num_threads())
        return TARGET_COST

    result = bench(timed_pair(clock, target=cost))
    assert result["threads"] == torch.get_num_threads() == 2
    assert seen == {2}, "both legs run with what was set"


def test_f41_threads_are_left_alone_after_an_error(clock, two_threads):
    """The same when a pass fails (pytorch/pytorch 93247)."""

    def cost(number, fed):
        if number == 5:
            raise RuntimeError("out of memory")
        return TARGET_COST

    with pytest.raises(RuntimeError, match="out of memory"):
        bench(timed_pair(clock, target=cost))
    assert torch.get_num_threads() == 2


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("changes", "error", "word"),
    [
        ({"prompts": []}, ValueError, "prompts"),
        ({"prompts": "text"}, TypeError, "prompts"),
        ({"prompts": 3}, TypeError, "prompts"),
        ({"prompts": [1, 2, 3]}, TypeError, r"prompts\[0\]"),
        ({"prompts": [[1], []]}, ValueError, r"prompts\[1\]"),
        ({"prompts": [[1], [-2]]}, ValueError, r"prompts\[1\]"),
        ({"prompts": [[1], [0.5]]}, TypeError, r"prompts\[1\]"),
        ({"prompts": [[1], [WIDTH]]}, ValueError, rf"prompts\[1\].*{WIDTH}"),
        ({"prompts": [[1], [1] * 60]}, ValueError, r"prompts\[1\].*60.*64"),
        ({"max_new_tokens": 0}, ValueError, "max_new_tokens"),
        ({"max_new_tokens": 1.5}, TypeError, "max_new_tokens"),
        ({"gamma": 0}, ValueError, "gamma"),
        ({"gamma": lambda rounds: 1}, TypeError, "gamma"),
        ({"eos_token_id": "x"}, TypeError, "eos_token_id"),
        ({"warmup_runs": -1}, ValueError, "warmup_runs"),
        ({"warmup_runs": 1.0}, TypeError, "warmup_runs"),
        ({"num_runs": 0}, ValueError, "num_runs"),
        ({"num_runs": -1}, ValueError, "num_runs"),
        ({"num_runs": True}, TypeError, "num_runs"),
        ({"target_model": object()}, TypeError, "target_model"),
        ({"draft_model": object()}, TypeError, "draft_model"),
    ],
    ids=lambda part: next(iter(part)) if isinstance(part, dict) else None,
)
def test_bad_input_is_refused_before_a_pass(clock, changes, error, word):
    target, draft = timed_pair(clock)
    target.vocab_size, target.max_position_embeddings = WIDTH, 64
    arguments = {
        "target_model": target,
        "draft_model": draft,
        "prompts": PROMPTS,
        "max_new_tokens": 8,
        "gamma": 4,
        "eos_token_id": None,
        "warmup_runs": 0,
        "num_runs": 1,
    }
    with pytest.raises(error, match=word):
        benchmark_decoding(**{**arguments, **changes})
    assert target.passes == draft.passes == 0
