"""Profiles, predictions and their differences under a clock that the tests move: every figure is known beforehand."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from helpers import crc_rule, erring, every_other

from specdec_lab import speculative_rounds
from specdec_lab.decoding.dial import DialDrafter
from specdec_lab.measure import profile as profiles
from specdec_lab.measure.cost_profile import CostProfile, middle
from specdec_lab.measure.interleave import timed
from specdec_lab.measure.predict import difference, explain, predict
from specdec_lab.measure.profile import measure_costs
from specdec_lab.measure.reference import load_reference
from specdec_lab.models.scripted import ScriptedModel

WIDTH = 50


class Slow(ScriptedModel):
    """A pass over n tokens behind `before` others moves the clock by `cost(n, before)`."""

    def __init__(self, clock, cost, rule=None):
        super().__init__(rule or crc_rule(WIDTH), WIDTH)
        self.clock, self.cost = clock, cost

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        self.clock[0] += self.cost(input_ids.shape[1], len(past_key_values or []))
        return super().forward(input_ids, use_cache, past_key_values)


def v(n):
    return 1 + (n - 1) / 8


def pair(clock, wrong=every_other):
    """Target: v(n) and a little for what lies before; the draft a tenth of it."""
    target = Slow(clock, lambda n, before: v(n) + before / 1000)
    draft = Slow(clock, lambda n, before: (v(n) + before / 1000) / 10, erring(crc_rule(WIDTH), WIDTH, wrong))
    return target, draft


def test_what_is_measured_is_what_passes_cost(clock):
    profile = measure_costs(*pair(clock), largest_gamma=5, contexts=(40, 10), runs=3)
    assert [costs.context for costs in profile.at] == [10, 40] and profile.largest_gamma == 5
    for costs in profile.at:
        behind = (costs.context - 1) / 1000
        for n in range(1, 7):
            assert costs.target.seconds[n] == pytest.approx([v(n) + behind] * 3)
        for k in range(1, 6):
            passes = [(1 + behind + i / 1000) / 10 for i in range(k)]
            assert costs.draft[k] == pytest.approx([sum(passes)] * 3)
        assert costs.read_target == pytest.approx([v(costs.context)] * 3)
        assert costs.read_draft == pytest.approx([v(costs.context) / 10] * 3)
    assert profile.overhead == pytest.approx([0.0] * 3, abs=1e-9)


def test_answers_lie_on_straight_lines_between_lengths(clock):
    profile = measure_costs(*pair(clock), largest_gamma=2, contexts=(10, 40), runs=1)
    assert profile.target_seconds(3, 25) == pytest.approx(v(3) + 0.024)
    assert profile.target_seconds(3) == pytest.approx(v(3) + 0.024)  # the middle is the default
    assert profile.target_seconds(1, 5) == pytest.approx(1.009) == profile.target_seconds(1, 10)
    assert profile.target_seconds(1, 1e6) == pytest.approx(1.039)
    assert profile.verify_cost(3, 10) == pytest.approx((v(3) + 0.009) / 1.009)
    assert profile.cost_ratio(10) == pytest.approx((1.009 + 1.010) / 2 / 10 / 1.009)
    assert profile.draft_seconds(0) == 0
    with pytest.raises(ValueError, match="tokens must lie between 0 and 2, got 3"):
        profile.draft_seconds(3)
    with pytest.raises(ValueError, match="tokens must lie between 1 and 3, got 4"):
        profile.verify_cost(4)


def test_the_first_turn_warms_up(clock):
    target, draft = pair(clock)
    usual, started = target.cost, []

    def slow_at_first(n, before):
        started.append(n)
        return usual(n, before) + (1000 if len(started) < 12 else 0)

    target.cost = slow_at_first
    profile = measure_costs(target, draft, largest_gamma=3, contexts=(10,), runs=2)
    assert len(started) > 12 and max(profile.at[0].target.seconds[1]) < 2


def test_overhead_is_what_is_left(clock, monkeypatch):
    """Everything that moves the clock and is neither drafting nor verifying: here, cutting the target's cache."""

    class Cutting(Slow):
        def truncate_cache(self, past_key_values, valid_length):
            self.clock[0] += 0.25
            return super().truncate_cache(past_key_values, valid_length)

    target, draft = pair(
        clock, wrong=lambda position: True
    )  # every speculative round cuts, no plain one does
    target = Cutting(clock, target.cost)
    profile = measure_costs(target, draft, largest_gamma=4, contexts=(12,), runs=2)
    rounds = list(speculative_rounds(target, draft, [1] * 12, max_new_tokens=24, gamma=4, eos_token_id=None))
    cutting = sum(bool(item.rejected) for item in rounds) / len(rounds)
    assert 0.9 < cutting < 1
    assert profile.overhead == pytest.approx([0.25 * cutting / 2] * 2)


def test_a_profile_survives_saving(clock, tmp_path):
    profile = measure_costs(*pair(clock), largest_gamma=2, contexts=(5, 9), runs=2)
    profile.save(tmp_path / "costs.json")
    again = CostProfile.load(tmp_path / "costs.json")
    assert again.to_dict() == profile.to_dict() and again.verify_cost(3) == profile.verify_cost(3)
    assert json.loads((tmp_path / "costs.json").read_text())["schema_version"] == 1
    (tmp_path / "old.json").write_text(json.dumps(profile.to_dict() | {"schema_version": 9}))
    with pytest.raises(ValueError, match="cost profile has schema_version 9"):
        CostProfile.load(tmp_path / "old.json")


def test_a_disturbed_turn_does_not_count():
    assert (
        middle((5.0, 1.0, 2.0, 3.0, 900.0, 0.0, 2.0, 3.0)) == 2.5
    )  # of 0 1 2 2 3 3 5 900 the four in the middle
    assert middle((7.0,)) == 7.0 and middle((1.0, 4.0)) == 2.5


def test_a_plain_pass_is_timed_behind_plain_passes(clock):
    """The first pass after the draft ran finds its data gone; plain decoding pays that once, not at every token."""
    target, draft = pair(clock)
    last = []

    def cost(name, seconds):
        def of_pass(n, before):
            slow = 10.0 if {*last[-2:]} - {name} else 0.0
            last.append(name)
            return seconds + slow

        return of_pass

    target.cost, draft.cost = cost("target", 1.0), cost("draft", 0.1)
    profile = measure_costs(target, draft, largest_gamma=2, contexts=(10,), runs=2)
    assert profile.target_seconds(1) == pytest.approx(1.0)
    assert profile.target_seconds(2) == pytest.approx(11.0) == profile.target_seconds(3)
    assert profile.draft_seconds(2) == pytest.approx(20.2)


def test_the_table_has_every_pass(clock):
    frame = measure_costs(*pair(clock), largest_gamma=2, contexts=(5, 9), runs=3).to_frame()
    assert frame[["context", "tokens", "gamma"]].values.tolist() == [
        [c, n, n - 1] for c in (5, 9) for n in (1, 2, 3)
    ]
    assert frame["verify_cost"].tolist()[:2] == pytest.approx([1.0, (v(2) + 0.004) / 1.004])
    assert (frame["draft_seconds"] > 0).tolist() == [False, True, True] * 2


def test_the_table_says_what_the_profile_says():
    """In a measured profile mean of the middle half and median differ."""
    profile = load_reference().profile
    for row in profile.to_frame().itertuples():
        assert row.verify_cost == profile.verify_cost(row.tokens, row.context)
        assert row.target_seconds == profile.target_seconds(row.tokens, row.context)
        assert row.draft_seconds == profile.draft_seconds(row.gamma, row.context)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"largest_gamma": 0}, ValueError, "largest_gamma must be at least 1, got 0"),
        ({"runs": 0}, ValueError, "runs must be at least 1"),
        ({"contexts": ()}, ValueError, "contexts must hold at least one length"),
        ({"contexts": (1,)}, ValueError, r"contexts\[0\] must be at least 2, got 1"),
        ({"contexts": (2.5,)}, TypeError, r"contexts\[0\]"),
    ],
)
def test_bad_input_is_refused_before_any_pass(clock, arguments, error, words):
    target, draft = pair(clock)
    with pytest.raises(error, match=words):
        measure_costs(target, draft, **arguments)
    assert not target.calls and not draft.calls


def test_a_context_beyond_a_model_is_refused(clock):
    target, _ = pair(clock)
    short = ScriptedModel(crc_rule(WIDTH), WIDTH, max_position_embeddings=50)
    for models in ((target, short), (short, target)):
        with pytest.raises(ValueError, match="more than the target's context of 50"):
            measure_costs(*models, contexts=(40,))
        assert not short.calls


# ---------------------------------------------------------------- prediction


def runs_of(clock, alpha, gamma, seeds, new_tokens=40):
    target, draft = pair(clock)
    for seed in seeds:
        drafter = DialDrafter(target, alpha, seed=seed, draft_model=draft)
        drafter.prepare([1] * 12, new_tokens)
        yield timed(
            [1] * 12,
            lambda ids, drafter=drafter: speculative_rounds(
                target, drafter, ids, max_new_tokens=new_tokens, gamma=gamma, eos_token_id=None
            ),
            set(),
        )


@pytest.mark.parametrize(("alpha", "gamma"), [(0.0, 3), (0.6, 1), (0.8, 4), (1.0, 5), (0.5, 8)])
def test_the_prediction_is_the_mean_of_many_runs(clock, alpha, gamma):
    profile = measure_costs(*pair(clock), largest_gamma=8, contexts=(12, 32, 52), runs=1)
    runs = list(runs_of(clock, alpha, gamma, range(60)))
    expected = predict(profile, alpha, gamma, new_tokens=40, prompt_tokens=12)
    assert sum(run.seconds for run in runs) / 60 == pytest.approx(expected.speculative_seconds, rel=0.03)
    assert expected.plain_seconds == pytest.approx(
        sum(v(1) + (12 + i) / 1000 for i in range(1, 40)) + v(12), rel=0.01
    )
    assert expected.speedup == expected.plain_seconds / expected.speculative_seconds
    assert expected.tokens_per_round == pytest.approx(
        40 / sum(len(r.trace.rounds) for r in runs) * 60, rel=0.05
    )


def test_reading_the_prompt_is_in_the_first_round(clock):
    """One round that drafts four and is accepted whole: both parts are those of the run, to the last digit."""
    profile = measure_costs(*pair(clock), largest_gamma=4, contexts=(12,), runs=1)
    [run] = runs_of(clock, 1.0, 4, [0], new_tokens=5)
    [item] = run.trace.rounds
    expected = predict(profile, 1.0, 4, new_tokens=5, prompt_tokens=12).seconds
    assert expected["draft"] == pytest.approx(item.seconds_drafting)
    # the target reads prompt and drafts in one pass; here v is a straight line, so the parts add up
    assert expected["verify"] == pytest.approx(
        item.seconds_verifying, abs=0.012
    )  # a little for what lies before
    plain = predict(profile, 0.0, 0, new_tokens=5, prompt_tokens=12)
    assert plain.seconds["draft"] == 0 and plain.speedup == 1


def test_parts_of_the_difference_add_up_and_name_the_culprit(clock):
    profile = measure_costs(*pair(clock), largest_gamma=4, contexts=(12, 32, 52), runs=1)
    runs = list(runs_of(clock, 0.7, 4, range(5)))
    found = difference(profile, 0.7, 4, runs)
    assert found.measured == pytest.approx(sum(run.seconds for run in runs))
    parts = (found.draft, found.verify, found.overhead, found.independence)
    assert sum(parts) == pytest.approx(found.measured - found.predicted, abs=1e-9)
    assert all(abs(found.parts()[name]) < 0.01 for name in ("draft", "verify", "overhead"))
    # another α than the runs had shows as independence, and nowhere else
    wrong = difference(profile, 0.2, 4, runs)
    assert wrong.parts()["independence"] < -0.2
    assert (wrong.draft, wrong.verify) == pytest.approx((found.draft, found.verify))

    # slower drafting than profiled shows as draft
    slower = replace(
        profile,
        at=tuple(
            replace(costs, draft={k: tuple(s / 2 for s in turns) for k, turns in costs.draft.items()})
            for costs in profile.at
        ),
    )
    shifted = difference(slower, 0.7, 4, runs)
    assert shifted.draft > found.draft + 1 and shifted.verify == pytest.approx(found.verify)


def test_a_difference_of_nothing_is_refused(clock):
    profile = measure_costs(*pair(clock), largest_gamma=1, contexts=(12,), runs=1)
    with pytest.raises(ValueError, match="runs must hold at least one"):
        difference(profile, 0.5, 1, [])


def test_the_diagnosis_says_what_pays(clock):
    target, _ = pair(clock)
    good = measure_costs(*pair(clock), largest_gamma=6, contexts=(12, 60), runs=1)
    words = explain(good, 0.8)
    best = max(range(7), key=lambda g: predict(good, 0.8, g).speedup)
    assert f"The best γ is {best}: {predict(good, 0.8, best).speedup:.2f} times as fast" in words
    assert "A draft pass costs 0.10 of a target pass" in words
    assert "γ = 6" in explain(good, 0.3, gamma=6) and "loses" in explain(good, 0.3, gamma=6)
    # what it says of a γ is about that γ, and all its speed-ups are of the same runs
    used, told = predict(good, 0.8, 1), explain(good, 0.8, gamma=1)
    share = 100 * used.seconds["draft"] / used.speculative_seconds
    assert best != 1 and f"Of the time of γ = 1, {share:.0f} % goes into drafting" in told
    words = re.search(r"free draft (\d\.\d\d) would.*free verification (\d\.\d\d) at γ = 1\.", told)
    assert predict(good, 0.8, best).speedup < float(words[1]) < predict(good, 0.8, best).tokens_per_round
    assert used.speedup < float(words[2]) < used.tokens_per_round

    costly = measure_costs(target, target, largest_gamma=4, contexts=(12, 60), runs=1)
    words = explain(costly, 0.6)
    assert "No γ from 1 to 4 pays" in words and "At this cost no α pays." in words
    assert "At this α a draft under 0." in words
    assert "even a free draft would bring next to nothing" in explain(costly, 0.05)


def test_every_turn_has_an_order_of_its_own(clock, monkeypatch):
    seen = []
    usual = profiles._Station.turn
    monkeypatch.setattr(
        profiles._Station, "turn", lambda self, drafts: seen.append(list(drafts)) or usual(self, drafts)
    )
    measure_costs(*pair(clock), largest_gamma=6, contexts=(12,), runs=3, seed=1)
    assert all(sorted(order) == list(range(7)) for order in seen) and len({tuple(o) for o in seen}) == 4
