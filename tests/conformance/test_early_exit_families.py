"""The first layer of every family in the zoo drafts for all of it: the text stays the target's own, and no weight is
copied. Drafts and rounds are looked at in `tests/decoding/test_early_exit.py`."""

from __future__ import annotations

import pytest
from families import ZOO, make
from helpers import assert_same_text, uncached_greedy

from specdec_lab import Trace, speculative_rounds
from specdec_lab.decoding.early_exit import EarlyExitDrafter

PROMPTS = ([7], [5, 9, 13, 7, 2, 30, 31, 32, 33, 34, 35])


@pytest.mark.parametrize("name", ZOO)
def test_the_first_layer_drafts(name):
    target, drafted = make(ZOO[name]), 0
    drafter = EarlyExitDrafter(target, 1)
    own = {id(weight) for weight in target.parameters()}
    assert all(id(weight) in own for weight in drafter.model.model.parameters())
    for prompt in PROMPTS:
        reference = uncached_greedy(target, prompt, 14)
        for gamma in (1, 4):
            run = speculative_rounds(
                target, drafter, prompt, max_new_tokens=14, gamma=gamma, eos_token_id=None
            )
            trace = Trace.of(prompt, run)
            assert_same_text(trace.new_tokens, reference)
            drafted += trace.drafted
    assert drafted >= 4 * 7
