"""Two drafters in one: who is asked when, that both keep up with the text, and that the text is the target's own."""

from __future__ import annotations

import random

import pytest
from eagles import eagle_pair
from helpers import random_model, uncached_greedy

from specdec_lab import ModelDrafter, PromptLookupDrafter, Sampling, Trace, speculative_rounds
from specdec_lab.decoding.eagle import EagleDrafter, EagleTreeDrafter
from specdec_lab.decoding.early_exit import EarlyExitDrafter
from specdec_lab.decoding.fallback import FallbackDrafter
from specdec_lab.measure.law import law, speculative_sampler, target_law
from specdec_lab.models.scripted import ScriptedModel, last_token


def counting_pair():
    return ScriptedModel(last_token(step=1, vocab_size=7), 7), ScriptedModel(
        last_token(step=1, vocab_size=7), 7
    )


def test_the_second_is_asked_where_the_first_is_silent_and_both_keep_up():
    target, draft = counting_pair()
    asked = []

    class Noted(ModelDrafter):
        def propose(self, sequence, limit, chance):
            asked.append(len(sequence))
            return super().propose(sequence, limit, chance)

    drafter = FallbackDrafter(PromptLookupDrafter(shortest=2), Noted(draft))
    trace = Trace.of(
        [3], speculative_rounds(target, drafter, [3], max_new_tokens=24, gamma=3, eos_token_id=None)
    )
    assert trace.new_tokens == [(4 + i) % 7 for i in range(24)] and trace.rejected == 0
    # 3 4 5 6 | 0 1 2 3 | 4: from the second 3 4 on the text repeats, and nobody is asked any more
    assert asked == [1, 5]
    assert all(len(item.drafted) == 3 for item in trace.rounds[:-1])
    assert drafter.cache_length == 7 and drafter.model is drafter.second.model


def test_the_second_can_be_given_a_limit_of_its_own():
    target, draft = counting_pair()
    drafter = FallbackDrafter(PromptLookupDrafter(shortest=2), ModelDrafter(draft), second_limit=2)
    rounds = speculative_rounds(target, drafter, [3], max_new_tokens=40, gamma=5, eos_token_id=None)
    assert [len(item.drafted) for item in rounds][:5] == [2, 2, 2, 5, 5]
    with pytest.raises(ValueError, match="second_limit must be"):
        FallbackDrafter(PromptLookupDrafter(), ModelDrafter(draft), second_limit=0)


@pytest.mark.parametrize("shortest", [1, 2, 3])
def test_the_text_is_the_targets_own(shortest):
    rng, accepted = random.Random(shortest), [0, 0]
    target, network = eagle_pair("llama")
    for second in (
        EagleDrafter(target, network),
        EagleTreeDrafter(target, network, 6, 2),
        EarlyExitDrafter(target, 3),
        ModelDrafter(random_model("llama", 9)),
    ):
        for _ in range(6):
            prompt = [rng.randrange(60) for _ in range(rng.randint(1, 8))] * rng.randint(1, 3)
            reference = uncached_greedy(target, prompt, 24)
            if reference.first_near_tie is not None:
                continue
            drafter = FallbackDrafter(PromptLookupDrafter(shortest=shortest), second)
            rounds = speculative_rounds(
                target, drafter, prompt, max_new_tokens=24, gamma=rng.randint(1, 6), eos_token_id=None
            )
            trace = Trace.of(prompt, rounds)
            assert trace.new_tokens == reference.tokens
            accepted[0] += trace.accepted
    assert accepted[0]


def test_the_law_is_the_targets():
    target, draft = (random_model("llama", seed, vocab_size=3).double() for seed in (1, 2))
    sampling = Sampling()
    drafter = FallbackDrafter(PromptLookupDrafter(shortest=2), ModelDrafter(draft, sampling=sampling))
    found = law(speculative_sampler(2, sampling), target, drafter, [0, 1], 4)
    assert found.difference(target_law(target, [0, 1], 4, sampling)) < 1e-12


def test_two_riders_are_refused_and_bad_n_grams_too():
    target, network = eagle_pair("llama")
    with pytest.raises(ValueError, match="both ride on the target's passes"):
        FallbackDrafter(EagleDrafter(target, network), EarlyExitDrafter(target, 2))
    with pytest.raises(ValueError, match="shortest must be at most longest, 3, got 4"):
        PromptLookupDrafter(shortest=4)
    with pytest.raises(ValueError, match="shortest must be"):
        PromptLookupDrafter(shortest=0)


def test_short_n_grams_are_left_out():
    text = [5, 6, 7, 8, 1, 6]
    for shortest, expected in ((1, (7, 8)), (2, ())):
        drafter = PromptLookupDrafter(shortest=shortest)
        drafter.start(text)
        assert drafter.propose(text, 2, None).tokens == expected
