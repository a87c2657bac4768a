"""Rounds and traces as data: what holds of every run, the counts and rates recomputed, JSON there and back.

The runs are drawn at random (seeded): prompts, budgets, gammas, end tokens and drafts of every quality.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random

import pytest
from helpers import FAKES, assert_rounds_hold, crc_rule, erring, follow

from specdec_lab import Round, Trace, speculative_rounds
from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix, wrong_when

pytestmark = pytest.mark.scripted


def random_run(seed):
    """(prompt, end tokens, budget, gamma, target rule, rounds) of one run on fakes."""
    chance = random.Random(seed)
    width = chance.choice([5, 12, 50])
    prompt = [chance.randrange(width) for _ in range(chance.choice([1, 2, 9]))]
    ends = chance.sample(range(width), chance.choice([0, 0, 1, 2]))
    budget, gamma = chance.randint(1, 40), chance.randint(1, 9)
    error_rate = chance.choice([0, 0.1, 0.4, 1])
    errors = {i for i in range(60) if chance.random() < error_rate}
    if seed % 2:
        rule = hash_of_prefix(width, seed)
        target = ScriptedModel(rule, width)
        draft = ScriptedModel(wrong_when(rule, width, errors.__contains__), width)
    else:
        rule, kind = crc_rule(width, seed), FAKES[seed // 2 % 3]
        target, draft = kind(rule, width), kind(erring(rule, width, errors.__contains__), width)
    rounds = speculative_rounds(target, draft, prompt, max_new_tokens=budget, gamma=gamma, eos_token_id=ends)
    return prompt, ends, budget, gamma, rule, list(rounds)


RUNS = range(120)


@pytest.mark.parametrize("seed", RUNS)
def test_what_holds_of_every_run(seed):
    prompt, ends, budget, gamma, rule, rounds = random_run(seed)
    new = assert_rounds_hold(prompt, rounds, ends, budget)
    assert [*prompt, *new] == follow(rule, prompt, budget, ends)
    assert all(len(item.drafted) <= gamma for item in rounds)
    assert all(item.seconds_drafting >= 0 and item.seconds_verifying >= 0 for item in rounds)
    for item in rounds:
        own = item.emitted[len(item.accepted) :]
        assert item.origins == ("accepted",) * len(item.accepted) + (item.outcome,) * len(own)
        assert item.rejected == (item.outcome == "correction")


@pytest.mark.parametrize("seed", RUNS)
def test_counts_and_rates_of_every_run(seed):
    """Recomputed from the truth: which drafts were judged and which agreed."""
    prompt, _, _, _, rule, rounds = random_run(seed)
    trace = Trace.of(prompt, rounds)
    sequence, drafted, accepted, judged = list(prompt), 0, 0, 0
    for item in rounds:
        drafted += len(item.drafted)
        for i, token in enumerate(item.drafted):
            judged += 1
            if token != rule([*sequence, *item.drafted[:i]]):
                break
            accepted += 1
        sequence += item.emitted
    assert (trace.drafted, trace.accepted, trace.rejected) == (drafted, accepted, judged - accepted)
    assert trace.acceptance_rate == (accepted / drafted if drafted else 0.0)
    assert trace.alpha == (accepted / judged) if judged else math.isnan(trace.alpha)
    assert trace.tokens_per_round == (len(sequence) - len(prompt)) / len(rounds)
    assert trace.sequence == sequence and trace.new_tokens == sequence[len(prompt) :]
    assert len(trace.origins) == len(trace.new_tokens)
    assert trace.origins.count("accepted") == accepted


@pytest.mark.parametrize("seed", RUNS[:20])
def test_json_there_and_back(seed):
    prompt, *_, rounds = random_run(seed)
    trace = Trace.of(prompt, rounds)
    assert Trace.from_json(trace.to_json()) == trace
    for item in rounds:
        assert Round.from_dict(json.loads(json.dumps(item.to_dict()))) == item


def test_random_runs_show_every_outcome():
    """Otherwise the tests above would prove little."""
    outcomes = [item.outcome for seed in RUNS for item in random_run(seed)[-1]]
    assert all(outcomes.count(name) >= 10 for name in ("accepted", "correction", "bonus", "end", "plain")[1:])


ROUND = Round((5, 6, 7), (-1, 0, 1), (0,), (5, 9), "correction", 3, 5, 3, 5, 0.25, 0.5)


def test_the_rate_is_not_alpha():
    """One accepted of three drafted, but of two judged: the token behind a rejection counts on neither side."""
    trace = Trace((1, 2, 3, 4), (ROUND,))
    assert trace.acceptance_rate == pytest.approx(1 / 3)
    assert trace.alpha == 1 / 2
    assert trace.tokens_per_round == 2.0
    assert trace.origins == ["accepted", "correction"]


def test_nothing_drafted_and_nothing_done():
    empty = Trace((1,), ())
    assert empty.acceptance_rate == 0.0 and empty.new_tokens == [] and empty.sequence == [1]
    assert math.isnan(empty.alpha) and math.isnan(empty.tokens_per_round)
    plain = Round((), (), (), (4,), "plain", 0, 1, None, None, 0.0, 0.0)
    assert plain.origins == ("plain",) and plain.rejected == 0
    assert Round.from_dict(plain.to_dict()) == plain


def test_an_end_token_among_the_drafts_has_no_origin_of_its_own():
    item = Round((5, 6), (-1, 0), (0, 1), (5, 6), "end", 3, 5, 3, 5, 0.0, 0.0)
    assert item.origins == ("accepted", "accepted") and item.rejected == 0


def test_rounds_and_traces_are_frozen():
    for record, field in ((ROUND, "outcome"), (Trace((1,), (ROUND,)), "prompt")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field, None)


def test_the_schema_version_is_written_and_checked():
    record = ROUND.to_dict()
    assert record["schema_version"] == json.loads(Trace((1,), (ROUND,)).to_json())["schema_version"] == 1
    for version in (0, 2, "1", None):
        with pytest.raises(ValueError, match=r"schema_version.*reads 1"):
            Round.from_dict({**record, "schema_version": version})
    del record["schema_version"]
    with pytest.raises(ValueError, match="schema_version"):
        Round.from_dict(record)
    with pytest.raises(ValueError, match="schema_version"):
        Trace.from_json('{"prompt": [1], "rounds": []}')


@pytest.mark.parametrize(
    "field", [field.name for field in dataclasses.fields(Round) if field.default is dataclasses.MISSING]
)
def test_a_missing_field_is_named(field):
    record = ROUND.to_dict()
    del record[field]
    with pytest.raises(ValueError, match=field):
        Round.from_dict(record)
    whole = json.loads(Trace((1,), (ROUND,)).to_json())
    del whole["rounds"][0][field]
    with pytest.raises(ValueError, match=field):
        Trace.from_json(json.dumps(whole))


@pytest.mark.parametrize("field", ["prompt", "rounds"])
def test_a_trace_without_a_part_is_a_value_error(field):
    whole = json.loads(Trace((1,), (ROUND,)).to_json())
    del whole[field]
    with pytest.raises(ValueError, match=field):
        Trace.from_json(json.dumps(whole))


def test_json_that_is_no_trace_is_a_value_error():
    with pytest.raises(ValueError):
        Trace.from_json("[]")


def test_unknown_fields_are_ignored():
    """A later minor writer may add one."""
    assert Round.from_dict({**ROUND.to_dict(), "note": "x"}) == ROUND
