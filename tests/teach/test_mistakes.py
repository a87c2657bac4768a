"""Each mistake moves its headline by what can be worked out by hand, and the honest headlines are the benchmark's own."""

from __future__ import annotations

import statistics

import pytest
import torch

from specdec_lab import autoregressive_decode, benchmark_decoding, speculative_decode
from specdec_lab.decoding.drafters import NoDrafter
from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.measure.interleave import timed
from specdec_lab.measure.simulated import (
    END_TOKEN,
    SimulatedMachine,
    cold_until,
    counting_pair,
    counting_prompt,
    steady,
)
from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix, wrong_when
from specdec_lab.teach.mistakes import (
    HEADLINES,
    MISTAKES,
    Remembering,
    headlines,
    in_order,
    ratio_of_mean_rates,
    record_legs,
    uncached_rounds,
)

PROMPTS = [counting_prompt(100, last=47), counting_prompt(100, last=1)]
PLAIN = [0.119 + 16 * 0.02, 0.119 + 31 * 0.02]
EASY = 0.0119 + 3 * 0.002 + 0.123 + 2 * (0.0021 + 3 * 0.002 + 0.024) + (0.0021 + 0.002 + 0.022)
HARD = 0.0119 + 3 * 0.002 + 0.123 + 14 * (4 * 0.002 + 0.024) + (2 * 0.002 + 0.022) + 0.020
FAST = [EASY, HARD]
READ = (
    0.0119 + 0.123 - 0.002 - 0.024
)  # what a first round saves that finds all but one token of the prompt read


def recorded(pace=steady, gamma=4, **more):
    machine = SimulatedMachine(pace)
    with machine.clock():
        return record_legs(*counting_pair(machine), PROMPTS, 32, gamma, END_TOKEN, **more)


RECORDED = recorded()


def told(name):
    return MISTAKES[name].told(RECORDED)


def close(value):
    return pytest.approx(value, rel=1e-9)


def test_honest_headlines_are_those_of_the_benchmark():
    machine = SimulatedMachine()
    with machine.clock():
        result = benchmark_decoding(*counting_pair(machine), PROMPTS, 32, 4, END_TOKEN, num_runs=2)
    found = {name: headline(RECORDED) for name, headline in HEADLINES.items()}
    assert found == {
        "speed-up": close(result["speedup"]),
        "tokens per second": close(result["tokens_per_second_speculative"]),
        "decoded tokens per second": close(result["decode_tokens_per_second_speculative"]),
        "acceptance rate": close(result["acceptance_rate_pooled"]),
    }
    assert found["speed-up"] == close(sum(PLAIN) / sum(FAST))


def test_a_cold_first_run_helps_the_one_who_comes_second():
    cold = recorded(cold_until(1.5, 4))
    honest, first = headlines(cold)["cold first run"]
    assert honest == close(sum(PLAIN) / sum(FAST)) and first > 1.5 * honest
    plain = sum(timing.seconds for timing in cold.legs["autoregressive"][0])
    assert first == close(plain / sum(FAST))
    assert told("cold first run") == close(sum(PLAIN) / sum(FAST))  # a machine that is never cold


def test_prefill_inside_a_decode_rate():
    assert told("prefill inside a decode rate") == close(49 / sum(FAST))
    assert MISTAKES["prefill inside a decode rate"].honest(RECORDED) == close(
        (49 - 5 - 1) / (sum(FAST) - 2 * (0.0119 + 3 * 0.002 + 0.123))
    )


def test_tokens_past_the_end_token():
    assert told("tokens past the end token") == close(2 * 32 / sum(FAST))


def test_an_uncached_baseline_reads_everything_again():
    again = [sum(0.020 + 0.001 * (99 + n) for n in range(new)) for new in (17, 32)]
    assert told("uncached baseline") == close(sum(again) / sum(FAST))


def test_means_of_ratios_and_of_rates():
    ratios = [plain / fast for plain, fast in zip(PLAIN, FAST, strict=True)]
    assert told("mean of ratios") == close(statistics.fmean(ratios))
    rates = [(17 / seconds[0] + 32 / seconds[1]) / 2 for seconds in (FAST, PLAIN)]
    assert ratio_of_mean_rates(RECORDED) == close(rates[0] / rates[1])


def test_the_same_prompt_twice_is_read_once():
    assert told("same prompt twice") == close(sum(PLAIN) / (sum(FAST) - 2 * READ))


def test_gamma_times_rounds():
    accepted, drafted = 14 + 15, 14 + 62
    assert told("accepted ÷ (γ × rounds)") == close(accepted / (4 * (4 + 17)))
    assert MISTAKES["accepted ÷ (γ × rounds)"].honest(RECORDED) == close(accepted / drafted)


def test_every_mistake_moves_its_headline_and_has_a_place_where_it_was_made():
    cold = headlines(recorded(cold_until(1.5, 4)))
    assert list(cold) == list(MISTAKES) and len(cold) == 7
    assert all(abs(told / honest - 1) > 0.05 for honest, told in cold.values())
    assert [name for name, mistake in MISTAKES.items() if not mistake.reports] == ["mean of ratios"]


def test_all_legs_write_the_same_text_in_the_runs_that_were_asked_for():
    runs = recorded(num_runs=3)
    for leg in runs.legs.values():
        assert len(leg) == 4
        for run in leg:
            assert [timing.trace.new_tokens for timing in run] == [[*range(48, 64), 0], list(range(2, 34))]
    assert runs.new_tokens("uncached") == 3 * 49 and (runs.gamma, runs.max_new_tokens) == (4, 32)


@pytest.mark.parametrize("argument", ["num_runs", "gamma", "max_new_tokens"])
def test_bad_counts_are_refused_before_any_pass(argument):
    target, draft = counting_pair(SimulatedMachine())
    given = {"max_new_tokens": 4, "gamma": 2, "eos_token_id": None, "num_runs": 1} | {argument: 0}
    with pytest.raises(ValueError, match=argument):
        record_legs(target, draft, PROMPTS, **given)
    assert not target.calls and not draft.calls


def test_decodes_in_the_order_of_the_names():
    machine = SimulatedMachine()
    target, draft = counting_pair(machine)

    def decoder(drafter):
        return lambda prompt: speculative_rounds(
            target, drafter, prompt, max_new_tokens=32, gamma=4, eos_token_id=END_TOKEN
        )

    contenders = {"plain": decoder(NoDrafter()), "speculative": decoder(draft)}
    with machine.clock():
        done = in_order(contenders, PROMPTS[0], ["speculative", "plain", "plain"])
    assert [name for name, _ in done] == ["speculative", "plain", "plain"]
    assert [timing.seconds for _, timing in done] == close([EASY, PLAIN[0], PLAIN[0]])


# ---------------------------------------------------------------- the legs, apart from time

RULE = hash_of_prefix(50)


def scripted_pair():
    wrong = wrong_when(RULE, 50, lambda position: position % 3 == 0)
    return ScriptedModel(RULE, 50), ScriptedModel(wrong, 50)


@pytest.mark.parametrize("prompt", [[7], [3, 1, 4, 1, 5]])
def test_a_model_with_a_memory_writes_the_same_text_and_reads_less(prompt):
    target, draft = scripted_pair()
    plain = autoregressive_decode(target, prompt, 20, None)
    remembering = Remembering(target), Remembering(draft)
    fed = []
    for _ in range(3):
        target.calls.clear()
        assert speculative_decode(*remembering, prompt, 20, 4, None)[0] == plain
        fed.append(target.fed_tokens)
    assert fed[1] == fed[2] == fed[0] - (len(prompt) - 1)
    other = [9, *prompt]  # begins differently
    assert speculative_decode(*remembering, other, 20, 4, None)[0] == autoregressive_decode(
        target, other, 20, None
    )
    longer = [*prompt, 9]  # begins as one that is known
    assert speculative_decode(*remembering, longer, 20, 4, None)[0] == autoregressive_decode(
        target, longer, 20, None
    )


def test_plain_decoding_without_a_cache_writes_the_same_text(tiny_llama):
    for prompt in tiny_llama.prompts:
        plain = autoregressive_decode(tiny_llama.target, prompt, 12, None)
        timing = timed(prompt, lambda p: uncached_rounds(tiny_llama.target, p, 12, frozenset()), set())
        assert timing.trace.sequence == plain
        end = plain[len(prompt) + 3]
        stopped = timed(
            prompt, lambda p, end=end: uncached_rounds(tiny_llama.target, p, 12, frozenset({end})), set()
        )
        assert stopped.trace.sequence == autoregressive_decode(tiny_llama.target, prompt, 12, end)


def test_real_models_can_be_recorded(tiny):
    runs = record_legs(tiny.target, tiny.drafts["half"], tiny.prompts, 12, 3, None, num_runs=1)
    truths = [list(reference.tokens[:12]) for reference in tiny.references]
    for leg in runs.legs.values():
        for run in leg:
            assert [timing.trace.new_tokens for timing in run] == truths
    assert all(told > 0 and honest > 0 for honest, told in headlines(runs).values())
    assert not torch.is_inference_mode_enabled()
