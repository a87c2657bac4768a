"""Prompt lookup: what it copies, and that the output stays the target's own."""

from __future__ import annotations

import random

import pytest
from helpers import PlainModel, counting_rule, crc_rule, follow

from specdec_lab import PromptLookupDrafter, Trace, speculative_rounds
from specdec_lab.models.scripted import ScriptedModel

pytestmark = pytest.mark.scripted


def propose(sequence, limit=4, **settings):
    drafter = PromptLookupDrafter(**settings)
    drafter.start(sequence)
    return drafter.propose(sequence, limit, None).tokens


def slow_lookup(sequence, limit, longest):
    """The same by scanning: longest n-gram first, latest occurrence, copying into what was just copied."""
    for size in range(min(longest, len(sequence) - 1), 0, -1):
        for start in range(len(sequence) - 1, size - 1, -1):
            if sequence[start - size : start] == sequence[-size:]:
                text = list(sequence)
                for i in range(limit):
                    text.append(text[start + i])
                return tuple(text[len(sequence) :])
    return ()


def test_the_longest_match_wins_over_a_later_shorter_one():
    assert propose([1, 2, 3, 9, 3, 8, 1, 2, 3], 1) == (9,)
    assert propose([1, 2, 3, 9, 3, 8, 1, 2, 3], 1, longest=1) == (8,)


def test_the_latest_of_equal_matches_wins():
    assert propose([5, 1, 5, 2, 5], 1) == (2,)


def test_nothing_is_copied_without_a_match_or_from_one_token():
    assert propose([1, 2, 3, 4]) == ()
    assert propose([7]) == ()


def test_a_short_period_fills_the_whole_draft():
    assert propose([1, 2, 1, 2], 6) == (1, 2, 1, 2, 1, 2)
    assert propose([4, 4], 3) == (4, 4, 4)


def test_a_copy_stops_behind_an_end_token():
    assert propose([1, 2, 9, 3, 1], 4, eos_token_id=9) == (2, 9)


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_the_index_finds_what_a_scan_finds_while_the_sequence_grows(longest):
    source = random.Random(longest)
    sequence = [source.randrange(4) for _ in range(3)]
    drafter = PromptLookupDrafter(longest)
    drafter.start(list(sequence))
    for _ in range(120):
        limit = source.randrange(1, 6)
        assert drafter.propose(sequence, limit, None).tokens == slow_lookup(sequence, limit, longest)
        sequence += [source.randrange(4) for _ in range(source.randrange(1, 4))]
        drafter.commit(sequence)


def test_a_new_run_forgets_the_last_one():
    drafter = PromptLookupDrafter()
    drafter.start([1, 2, 1])
    assert drafter.propose([1, 2, 1], 1, None).tokens == (2,)
    drafter.start([3, 4, 1])
    assert drafter.propose([3, 4, 1], 1, None).tokens == ()


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("rule", [counting_rule(5), crc_rule(6)], ids=["periodic", "hash"])
def test_output_is_the_targets_own(rule, gamma):
    target = PlainModel(rule, 6)
    prompt = [1, 2, 3, 1, 2]
    rounds = speculative_rounds(
        target, PromptLookupDrafter(), prompt, max_new_tokens=40, gamma=gamma, eos_token_id=None
    )
    trace = Trace.of(prompt, rounds)
    assert trace.sequence == follow(rule, prompt, 40)
    assert target.passes == len(trace.rounds)
    assert all(item.draft_cache_after is None for item in trace.rounds)


def test_periodic_text_is_accepted():
    prompt = [0, 1, 2, 3, 4, 0, 1]
    rounds = speculative_rounds(
        PlainModel(counting_rule(5), 5),
        PromptLookupDrafter(),
        prompt,
        max_new_tokens=36,
        gamma=5,
        eos_token_id=None,
    )
    trace = Trace.of(prompt, rounds)
    assert trace.acceptance_rate == 1.0
    assert len(trace.rounds) == 6


def test_ids_that_the_target_lacks_are_never_proposed():
    class Foreign(PromptLookupDrafter):
        def _copy(self, sequence, start, limit):
            return (99,) * limit

    rule = counting_rule(5)
    target = ScriptedModel(rule, 5)
    prompt = [0, 1, 2, 3, 4, 0]
    rounds = list(speculative_rounds(target, Foreign(), prompt, max_new_tokens=5, gamma=3, eos_token_id=None))
    assert all(item.drafted == () for item in rounds)


@pytest.mark.parametrize("longest", [0, -1, 2.0, True])
def test_a_bad_longest_is_refused(longest):
    with pytest.raises((ValueError, TypeError), match="longest"):
        PromptLookupDrafter(longest)
