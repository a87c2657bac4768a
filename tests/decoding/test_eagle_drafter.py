"""Drafting with EAGLE: the target's own text, guesses that stand on the target's features, laws, interrupted runs."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from eagles import FAMILIES, eagle_pair
from helpers import uncached_greedy
from torch.testing import assert_close

from specdec_lab import Sampling, Trace, speculative_decode, speculative_rounds
from specdec_lab.decoding.eagle import EagleDrafter, EagleTreeDrafter
from specdec_lab.measure.law import law, speculative_sampler, target_law

ENDS = 7
PAIRS = {}


def pair_of(family):
    if family not in PAIRS:
        PAIRS[family] = eagle_pair(family)
    return PAIRS[family]


def drafters(target, draft, rng):
    if rng.random() < 0.5:
        return EagleDrafter(target, draft, eos_token_id=ENDS)
    return EagleTreeDrafter(target, draft, rng.randint(1, 9), rng.randint(1, 5), rng.randint(1, 4))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_text_is_the_targets_own_in_random_settings(family):
    target, draft = pair_of(family)
    rng, accepted = random.Random(family), 0
    for _ in range(40):
        prompt = [rng.randrange(60) for _ in range(rng.randint(1, 18))]
        count, gamma = rng.randint(1, 30), rng.randint(1, 7)
        reference = uncached_greedy(target, prompt, count)
        if reference.first_near_tie is not None:
            continue
        rounds = speculative_rounds(
            target, drafters(target, draft, rng), prompt, max_new_tokens=count, gamma=gamma, eos_token_id=ENDS
        )
        trace = Trace.of(prompt, rounds)
        assert trace.new_tokens == reference.until([ENDS])
        accepted += trace.accepted
    assert accepted, "a draft that is never right would hide what happens behind an accepted token"


def drafted_without_cache(target, draft, sequence: list[int], count: int) -> list[int]:
    """What the draft says behind `sequence`, whose last token the target has not read: full passes, no cache."""
    with torch.no_grad():
        states = target(
            torch.tensor([sequence[:-1]]), output_hidden_states=True, use_cache=False
        ).hidden_states
        known = list(draft.features(torch.stack([states[tap][0] for tap in draft.taps], dim=1)))
        head, tokens = target.get_output_embeddings().weight[draft.ids.long()], list(sequence)
        for _ in range(count):
            embedded = target.get_input_embeddings()(torch.tensor([tokens]))
            before = torch.stack([torch.zeros_like(known[0]), *known])
            known.append(draft(embedded, before[None])[0, -1])
            tokens.append(int(draft.ids[F.linear(known[-1], head).argmax()]))
    return tokens[len(sequence) :]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_round_drafts_what_passes_without_a_cache_say(family):
    """A row that stood on the draft's own features and was kept would change what is drafted later."""
    target, draft = pair_of(family)
    rng = random.Random(family)
    for _ in range(4):
        sequence = [rng.randrange(60) for _ in range(rng.randint(2, 12))]
        drafter = EagleDrafter(target, draft)
        rounds = speculative_rounds(target, drafter, sequence, max_new_tokens=24, gamma=4, eos_token_id=None)
        for number, item in enumerate(rounds):
            expected = drafted_without_cache(target, draft, sequence, len(item.drafted)) if number else []
            assert list(item.drafted) == expected
            sequence = [*sequence, *item.emitted]
            assert drafter._session.model.told == len(sequence) - 1
            assert drafter.cache_length <= len(sequence) - 1


def test_in_a_tree_the_accepted_path_is_what_is_told():
    """Its rows lie among those of refused nodes."""
    target, draft = pair_of("llama")
    rng, scattered = random.Random(1), 0
    for _ in range(12):
        sequence = [rng.randrange(60) for _ in range(rng.randint(2, 8))]
        drafter = EagleTreeDrafter(target, draft, budget=24, depth=3, width=8)
        rounds = speculative_rounds(target, drafter, sequence, max_new_tokens=24, gamma=3, eos_token_id=None)
        for item in rounds:
            sequence = [*sequence, *item.emitted]
            scattered += item.accepted != tuple(range(len(item.accepted)))
            with torch.no_grad():
                states = target(torch.tensor([sequence[:-1]]), output_hidden_states=True).hidden_states
                truth = draft.features(torch.stack([states[tap][0] for tap in draft.taps], dim=1))
            told = torch.stack(drafter.model._features[: drafter.model.told])
            assert_close(told, truth, atol=1e-4, rtol=1e-4)
    assert scattered, "every accepted path was the first rows"


def test_a_tree_holds_the_chain_and_its_first_level_the_likeliest():
    target, draft = pair_of("llama")
    prompt = [3, 1, 4, 1, 5]
    tree = EagleTreeDrafter(target, draft, budget=30, depth=3, width=4)
    sequence = list(prompt)
    for number, item in enumerate(
        speculative_rounds(target, tree, prompt, max_new_tokens=16, gamma=3, eos_token_id=None)
    ):
        if number and len(item.drafted) == 30:
            chain, node = drafted_without_cache(target, draft, sequence, 3), -1
            for token in chain:
                node = next(
                    i
                    for i, (t, p) in enumerate(zip(item.drafted, item.parents, strict=True))
                    if p == node and t == token
                )
        sequence += item.emitted


def test_only_the_first_round_drafts_nothing():
    target, draft = pair_of("llama")
    drafter, wanted = EagleDrafter(target, draft), 25
    rounds = speculative_rounds(target, drafter, [3, 1, 4], max_new_tokens=wanted, gamma=4, eos_token_id=None)
    for number, item in enumerate(rounds):
        assert len(item.drafted) == (min(4, wanted - 1) if number else 0)
        wanted -= len(item.emitted)


def test_a_drafter_can_be_used_again_and_after_an_interrupted_run():
    target, draft = pair_of("llama")
    for drafter in (EagleDrafter(target, draft), EagleTreeDrafter(target, draft, 6, 3)):
        first, _ = speculative_decode(target, drafter, [3, 1, 4], 20, 4, None)
        rounds = speculative_rounds(
            target, drafter, [9, 9, 2, 7], max_new_tokens=20, gamma=4, eos_token_id=None
        )
        next(rounds), next(rounds), next(rounds)
        again, _ = speculative_decode(target, drafter, [3, 1, 4], 20, 4, None)
        assert first == again == [3, 1, 4, *uncached_greedy(target, [3, 1, 4], 20).tokens]


@pytest.mark.parametrize("drawn", [False, True])
def test_sampling_keeps_the_targets_law(drawn):
    target, draft = eagle_pair("llama", tokens=2, vocab_size=3, bos_token_id=0, eos_token_id=1)
    draft.ids.copy_(torch.tensor([0, 2]))
    target, sampling = target.double(), Sampling(temperature=0.8)
    drafter = EagleDrafter(target, draft, sampling=sampling if drawn else None)
    found = law(speculative_sampler(2, sampling), target, drafter, [0, 1], 4)
    assert found.difference(target_law(target, [0, 1], 4, sampling)) < 1e-12


def test_bad_drafts_are_refused():
    target, draft = pair_of("llama")
    with pytest.raises(TypeError, match="draft must be an EagleDraft"):
        EagleDrafter(target, target)
    with pytest.raises(ValueError, match="draft was made for a target of hidden size"):
        EagleTreeDrafter(eagle_pair("llama", hidden_size=64)[0], draft, 4, 2)
