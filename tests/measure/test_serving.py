"""vLLM's configuration and counters: checked values, and the same figures as our own trace gives."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys

import pytest

from specdec_lab.decoding.rounds import Round, Trace
from specdec_lab.measure.serving import (
    METHODS,
    ServedRounds,
    as_vllm_metrics,
    read_vllm_metrics,
    vllm_command,
    vllm_speculative_config,
)


def round_of(drafted: int, accepted: int, outcome: str | None = None) -> Round:
    """A chain of `drafted` tokens of which the first `accepted` were accepted."""
    outcome = outcome or ("plain" if not drafted else "bonus" if accepted == drafted else "correction")
    own = () if outcome == "end" else (99,)
    chain = tuple(range(drafted))
    return Round(
        chain, tuple(i - 1 for i in chain), chain[:accepted], (*chain[:accepted], *own), outcome, 9, 9, None, None, 0, 0
    )  # fmt: skip


def trace_of(*counts) -> Trace:
    return Trace((1, 2), tuple(round_of(*count) for count in counts))


FULL = trace_of((3, 3), (3, 0), (3, 1), (3, 2), (3, 3), (3, 1))


# ---- the configuration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draft, method",
    [
        ("Qwen/Qwen3-0.6B", "draft_model"),
        ("./my-draft", "draft_model"),
        ("yuhuili/EAGLE-LLaMA3-Instruct-8B", "eagle"),
        ("RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3", "eagle3"),
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "eagle3"),
        ("FasterDecoding/medusa-vicuna-7b-v1.3", "medusa"),
    ],
)
def test_a_drafter_with_weights_gets_its_method(draft, method):
    assert vllm_speculative_config(draft, 5) == {
        "method": method,
        "model": draft,
        "num_speculative_tokens": 5,
    }


def test_a_method_that_is_given_wins():
    assert vllm_speculative_config("me/own-heads", 3, method="medusa")["method"] == "medusa"
    assert set(METHODS) == {"draft_model", "ngram", "eagle", "eagle3", "medusa"}
    spread = vllm_speculative_config("me/own", 3, draft_tensor_parallel=2)
    assert spread["draft_tensor_parallel_size"] == 2


def test_prompt_lookup_is_their_ngram_with_our_lengths():
    assert vllm_speculative_config("prompt-lookup", 8) == {
        "method": "ngram",
        "num_speculative_tokens": 8,
        "prompt_lookup_max": 3,
        "prompt_lookup_min": 1,
    }
    own = vllm_speculative_config("prompt-lookup", 8, longest=5, shortest=2)
    assert (own["prompt_lookup_max"], own["prompt_lookup_min"]) == (5, 2)


def test_lengths_are_those_of_our_drafter():
    import inspect

    from specdec_lab import PromptLookupDrafter

    ours = inspect.signature(PromptLookupDrafter.__init__).parameters["longest"].default
    assert vllm_speculative_config("prompt-lookup", 1)["prompt_lookup_max"] == ours


@pytest.mark.parametrize(
    "call, error, message",
    [
        (dict(draft="early-exit:8", gamma=4), ValueError, r"no early exit \(as of [\d.]+\), so 'early-exit:8'"),
        (dict(draft="a/b", gamma=0), ValueError, "gamma must be at least 1, got 0"),
        (dict(draft="a/b", gamma=2.0), TypeError, "gamma"),
        (dict(draft=None, gamma=2), TypeError, "draft must be a Hub id"),
        (dict(draft="a/b", gamma=2, method="lookahead"), ValueError, "method must be one of draft_model"),
        (dict(draft="a/b", gamma=2, method="ngram"), ValueError, '"ngram" and draft "prompt-lookup" go together'),
        (dict(draft="prompt-lookup", gamma=2, method="eagle"), ValueError, "go together, got 'eagle'"),
        (dict(draft="prompt-lookup", gamma=2, longest=2, shortest=3), ValueError, "shortest must be at most longest"),
        (dict(draft="prompt-lookup", gamma=2, shortest=0), ValueError, "shortest must be at least 1"),
        (dict(draft="prompt-lookup", gamma=2, draft_tensor_parallel=2), ValueError, "prompt lookup has none"),
        (dict(draft="a/b", gamma=2, draft_tensor_parallel=0), ValueError, "draft_tensor_parallel must be"),
    ],
)  # fmt: skip
def test_what_vllm_does_not_take_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        vllm_speculative_config(**call)


def test_the_command_survives_a_shell():
    config = vllm_speculative_config("prompt-lookup", 8)
    *words, text = shlex.split(vllm_command("org/model name", config))
    assert words == ["vllm", "serve", "org/model name", "--speculative-config"] and json.loads(text) == config


# ---- the counters ----------------------------------------------------------------------------------------------------


def test_full_drafts_give_the_figures_of_the_trace():
    """Every draft γ long, no round cut short: the server's counters and our record agree in everything."""
    (served,) = read_vllm_metrics(as_vllm_metrics(FULL))
    assert served == ServedRounds("specdec_lab", "0", 6, 18, 10, (5, 3, 2)) and served.all_as_long
    assert served.acceptance_rate == FULL.acceptance_rate == 10 / 18
    assert served.tokens_per_round == FULL.tokens_per_round == 16 / 6
    assert served.alpha == FULL.alpha == 10 / 14
    assert served.acceptance_by_position() == FULL.acceptance_by_position()


def test_a_real_run_comes_back():
    from specdec_lab import load_pair, speculative_rounds

    pair = load_pair("tiny")
    prompt = pair.prompt_ids[0]
    rounds = speculative_rounds(
        pair.target, pair.draft, prompt, max_new_tokens=41, gamma=4, eos_token_id=None
    )
    trace = Trace.of(prompt, rounds)
    (served,) = read_vllm_metrics(as_vllm_metrics(trace, gamma=4, model="tiny"))
    drafting = [item for item in trace.rounds if item.drafted]
    assert served.model == "tiny" and served.rounds == len(drafting) > 5
    assert (served.drafted, served.accepted) == (trace.drafted, trace.accepted)
    assert served.acceptance_rate == trace.acceptance_rate and served.alpha <= trace.alpha
    assert served.tokens_per_round == sum(len(item.emitted) for item in drafting) / len(drafting)


def test_rounds_without_a_draft_are_counted_nowhere():
    """As with prompt lookup: the server's mean acceptance length is above our tokens per round."""
    trace = trace_of((2, 2), (0, 0), (0, 0), (2, 1))
    (served,) = read_vllm_metrics(as_vllm_metrics(trace))
    assert served.rounds == 2 and served.tokens_per_round == 2.5 > trace.tokens_per_round == 7 / 4


def test_short_drafts_make_alpha_a_lower_bound():
    trace = trace_of((3, 3), (1, 1), (3, 1))
    (served,) = read_vllm_metrics(as_vllm_metrics(trace))
    assert not served.all_as_long and trace.alpha == 5 / 6 and served.alpha == 5 / 7
    chances = [place["chance"] for place in served.acceptance_by_position()]
    ours = [place["chance"] for place in trace.acceptance_by_position()]
    assert chances == [1.0, 1 / 3, 1.0] and ours == [1.0, 1 / 2, 1.0]


def test_nothing_drafted_is_no_division_by_zero():
    (served,) = read_vllm_metrics(as_vllm_metrics(trace_of((0, 0)), gamma=2))
    assert served.acceptance_rate == 0.0 and math.isnan(served.tokens_per_round) and math.isnan(served.alpha)
    assert [math.isnan(place["share"]) for place in served.acceptance_by_position()] == [True, True]


def test_counters_of_the_client_library_are_read():
    """Made with prometheus_client, as the server makes its own: label order, _total, _created, other metrics beside."""
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    labels = ["model_name", "engine"]

    def counter(name, *extra):
        return client.Counter(f"vllm:{name}", "a counter", [*labels, *extra], registry=registry)

    client.Gauge("vllm:num_requests_running", "another", labels, registry=registry).labels("m", "0").set(2)
    drafts, drafted = counter("spec_decode_num_drafts"), counter("spec_decode_num_draft_tokens")
    accepted = counter("spec_decode_num_accepted_tokens")
    by_place = counter("spec_decode_num_accepted_tokens_per_pos", "position")
    for engine, path in (("0", (2, 1, 0)), ("1", (3,))):
        for length in path:  # a round of three drafted tokens, `length` of them accepted
            drafts.labels("m", engine).inc(1)
            drafted.labels("m", engine).inc(3)
            accepted.labels("m", engine).inc(length)
            for place in range(3):
                by_place.labels("m", engine, str(place)).inc(place < length)
    text = client.generate_latest(registry).decode()
    assert "spec_decode_num_drafts_created" in text and "vllm:num_requests_running" in text
    assert read_vllm_metrics(text) == [
        ServedRounds("m", "0", 3, 9, 3, (2, 1, 0)),
        ServedRounds("m", "1", 1, 3, 3, (1, 1, 1)),
    ]


def test_two_scrapes_are_subtracted():
    earlier, later = trace_of((3, 3), (3, 0)), FULL
    assert FULL.rounds[:2] == earlier.rounds
    (served,) = read_vllm_metrics(as_vllm_metrics(later), since=as_vllm_metrics(earlier))
    (rest,) = read_vllm_metrics(as_vllm_metrics(Trace((1,), FULL.rounds[2:]), gamma=3))
    assert served == rest and served.rounds == 4


def test_a_server_that_was_started_anew_is_noticed():
    with pytest.raises(ValueError, match=r"num_drafts fell from 6 to 1 between the scrapes: .* started anew"):
        read_vllm_metrics(as_vllm_metrics(trace_of((3, 3))), since=as_vllm_metrics(FULL))


def test_engines_and_models_stay_apart():
    one, other = as_vllm_metrics(FULL, model="m", engine="1"), as_vllm_metrics(trace_of((3, 0)), model="m")
    both = other + "".join(line + "\n" for line in one.splitlines() if not line.startswith("#"))
    served = read_vllm_metrics(both)
    assert [(item.model, item.engine, item.rounds) for item in served] == [("m", "0", 1), ("m", "1", 6)]
    grown = read_vllm_metrics(both, since=other)  # engine 1 came later: it counts from 0
    assert [item.rounds for item in grown] == [0, 6]
    with pytest.raises(ValueError, match="text lacks model 'm', engine '1', which since has"):
        read_vllm_metrics(other, since=both)
    late = served[1]
    assert (late.drafted, late.accepted, late.acceptance_rate) == (18, 10, 10 / 18)
    assert late.tokens_per_round == 16 / 6 and late.all_as_long


def test_processes_of_one_engine_are_added_up():
    text = as_vllm_metrics(FULL)
    copy = text.replace("{engine", '{pid="7",engine')
    served = read_vllm_metrics(
        text + "".join(li + "\n" for li in copy.splitlines() if not li.startswith("#"))
    )
    assert [(item.rounds, item.accepted_by_place) for item in served] == [(12, (10, 6, 4))]


def test_names_without_total_are_read_too():
    """As older expositions have them."""
    assert read_vllm_metrics(as_vllm_metrics(FULL).replace("_total", "")) == read_vllm_metrics(
        as_vllm_metrics(FULL)
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "text has no counters vllm:spec_decode_num_…: does the server speculate"),
        ("vllm:num_requests_running 2.0\n", "has no counters"),
        ("vllm:spec_decode_draft_acceptance_rate 0.5\n", "gauges of the engine before 2025"),
        ("<html>not metrics</html>\n", "text is not in Prometheus' text format"),
        (
            'vllm:spec_decode_num_drafts_total{model_name="m"} 3\n',
            "lacks the counter vllm:.*_draft_tokens_total of 'm'",
        ),
    ],
)
def test_text_without_the_counters_says_what_is_wrong(text, message):
    with pytest.raises(ValueError, match=message):
        read_vllm_metrics(text)


def test_trees_and_drafts_that_are_too_long_are_refused():
    tree = Round((5, 6), (-1, -1), (1,), (6, 9), "bonus", 3, 5, None, None, 0.0, 0.0)
    with pytest.raises(ValueError, match=r"vLLM's counters have no trees; got parents \(-1, -1\)"):
        as_vllm_metrics(Trace((1,), (tree,)))
    with pytest.raises(ValueError, match="gamma must be at least the longest draft, 3, got 2"):
        as_vllm_metrics(FULL, gamma=2)


def test_without_the_client_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client.parser", None)
    with pytest.raises(ImportError, match="pip install prometheus-client"):
        read_vllm_metrics(as_vllm_metrics(FULL))


def test_it_loads_without_torch_and_without_the_client_library():
    code = "import sys, json, specdec_lab.measure.serving; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert {"torch", "pandas", "prometheus_client"}.isdisjoint(json.loads(done.stdout))
