"""Exhibits on the record: the correct loop's trace is the package's, and faults show in the true cache lengths."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdec_lab import Trace, speculative_rounds
from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix, wrong_when
from specdec_lab.teach.museum import EXHIBITS, get_exhibit
from specdec_lab.teach.recorded import record

RULE = hash_of_prefix(60)
PROMPT = [3, 1, 4, 1, 5]


def pair():
    draft = wrong_when(RULE, 60, lambda position: position % 5 in (0, 3))
    return ScriptedModel(RULE, 60), ScriptedModel(draft, 60)


@pytest.mark.parametrize("gamma", [1, 2, 4])
@pytest.mark.parametrize("new_tokens", [1, 2, 21])
@pytest.mark.parametrize("end", [None, 9])
def test_the_correct_loop_leaves_the_record_of_the_package(gamma, new_tokens, end):
    text = Trace.of(
        PROMPT,
        speculative_rounds(*pair(), PROMPT, max_new_tokens=new_tokens, gamma=gamma, eos_token_id=None),
    ).new_tokens
    end = None if end is None else text[min(end, len(text) - 1)]
    rounds = speculative_rounds(*pair(), PROMPT, max_new_tokens=new_tokens, gamma=gamma, eos_token_id=end)
    timeless = [replace(item, seconds_drafting=0.0, seconds_verifying=0.0) for item in rounds]
    assert record("correct", *pair(), PROMPT, new_tokens, gamma, end) == Trace.of(PROMPT, timeless)


FINISHING = sorted(
    set(EXHIBITS) - {"correction_dropped", "caller_list_changed"}
)  # the one never ends, the other changes the prompt


@pytest.mark.parametrize("name", FINISHING)
def test_the_text_is_that_of_the_exhibit(name):
    sequence, rate = get_exhibit(name).decode(*pair(), PROMPT, 20, 4, None)
    trace = record(name, *pair(), PROMPT, 20, 4, None)
    assert trace.sequence == sequence
    if name not in ("bonus_counted", "rate_over_gamma_times_rounds"):
        assert trace.acceptance_rate == rate


def test_lengths_are_those_of_the_caches():
    def over(name):
        trace, length, found = record(name, *pair(), PROMPT, 20, 4, None), len(PROMPT), []
        for item in trace.rounds:
            length += len(item.emitted)
            found.append((item.target_cache_after - length, item.draft_cache_after - length))
        return found

    assert all(target == -1 and draft in (-1, -2, -3) for target, draft in over("correct"))
    assert max(target for target, _ in over("stale_target_cache")) > 5
    assert max(draft for _, draft in over("stale_draft_cache")) > 5
    assert max(target for target, _ in over("rolled_back_to_full_length")) >= 0
    assert {draft for _, draft in over("draft_cache_reset")} != {-1}


def test_an_unknown_exhibit_is_refused():
    with pytest.raises(ValueError, match="no exhibit"):
        record("nonsense", *pair(), PROMPT, 4, 2, None)
