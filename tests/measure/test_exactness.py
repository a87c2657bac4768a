"""Divergences: where, how far apart, and whether rounding may be blamed."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import crc_rule, follow

from specdec_lab import autoregressive_decode
from specdec_lab.measure import divergence
from specdec_lab.measure.exactness import first_difference, first_divergence
from specdec_lab.models.scripted import ScriptedModel

WIDTH = 11
RULE = crc_rule(WIDTH)
PROMPT = [1, 2, 3]


def plain(n=10):
    return follow(RULE, PROMPT, n)[len(PROMPT) :]


def test_equal_texts_need_no_model():
    model = ScriptedModel(RULE, WIDTH)
    assert first_divergence(model, PROMPT, plain(), plain()) is None
    assert model.passes == 0


@pytest.mark.parametrize("place", [0, 1, 7, 9])
def test_a_fault_is_called_a_fault(place):
    ours = plain()
    ours[place] = (ours[place] + 1) % WIDTH
    found = first_divergence(ScriptedModel(RULE, WIDTH), PROMPT, ours, plain())
    assert (found.index, found.token, found.plain_token) == (place, ours[place], plain()[place])
    assert found.gap == pytest.approx(10) and found.noise == 0 and not found.near_tie
    assert "fault" in str(found) and f"new token {place + 1} is" in str(found)


@pytest.mark.parametrize("gamma", [1, 4, 7])
def test_the_noise_is_that_of_blocks_as_long_as_the_runs_own(monkeypatch, gamma):
    blocks, evaluate = [], divergence.evaluate

    def recorded(model, prompt, new_tokens, block):
        blocks.append(block)
        return evaluate(model, prompt, new_tokens, block)

    monkeypatch.setattr(divergence, "evaluate", recorded)
    ours = [*plain()[:-1], (plain()[-1] + 1) % WIDTH]
    first_divergence(ScriptedModel(RULE, WIDTH), PROMPT, ours, plain(), gamma=gamma)
    assert blocks == [gamma + 1]
    with pytest.raises(ValueError, match="gamma must be at least 1, got 0"):
        first_divergence(ScriptedModel(RULE, WIDTH), PROMPT, ours, plain(), gamma=0)


@pytest.mark.parametrize(("gap", "near"), [(5e-5, True), (9e-4, True), (2e-3, False)])
def test_a_near_tie_is_held_against_the_size_of_the_logits(gap, near):
    """1e-4 × max(1, largest |logit|), here 1e-3."""
    model = ScriptedModel(lambda prefix: [10.0, 10.0 - gap, 0.0], 3)
    found = first_divergence(model, [0], [1], [0])
    assert found.near_tie is near and found.gap == pytest.approx(gap, rel=0.05)


def test_noise_is_measured_on_plain_decoding():
    """A step and a block that differ by 0.5 explain a gap of 0.8, but not one of 1.2."""

    class Noisy(ScriptedModel):
        def forward(self, input_ids, use_cache=True, past_key_values=None):
            out = super().forward(input_ids, use_cache, past_key_values)
            if input_ids.shape[1] > 2:
                out.logits = out.logits + torch.tensor([0.5, 0.0, 0.0])
            return out

    for gap, near in ((0.8, True), (1.2, False)):
        model = Noisy(lambda prefix, gap=gap: [1.0 + gap, 1.0, 0.0], 3)
        found = first_divergence(model, [0, 0], [0, 0, 1], [0, 0, 0])
        assert found.index == 2 and found.noise == pytest.approx(0.5) and found.near_tie is near


def test_one_text_that_ends_early_is_no_near_tie():
    for ours, theirs in ((plain(10), plain(8)), (plain(8), plain(10))):
        found = first_divergence(ScriptedModel(RULE, WIDTH), PROMPT, ours, theirs)
        assert found.index == 8 and math.isnan(found.gap) and not found.near_tie
        assert "goes on" in str(found)


def test_half_precision_differences_are_explained_by_their_own_noise(tiny_llama):
    import copy

    model = copy.deepcopy(tiny_llama.target).to(torch.bfloat16)
    prompt = tiny_llama.prompts[1]
    text = autoregressive_decode(model, prompt, 12, None)[len(prompt) :]
    changed = [*text[:5], (text[5] + 1) % 64, *text[6:]]
    found = first_divergence(model, prompt, changed, text)
    assert found.index == 5 and found.noise < 1 and found.gap > 0


def test_the_gap_is_seen_from_a_step_and_from_a_block():
    """A step favours plain decoding's token by 0.8, a block the other one by 0.1."""

    class Noisy(ScriptedModel):
        def forward(self, input_ids, use_cache=True, past_key_values=None):
            out = super().forward(input_ids, use_cache, past_key_values)
            if input_ids.shape[1] > 1:
                out.logits = out.logits + torch.tensor([0.0, 0.9, 0.0])
            return out

    model = Noisy(lambda prefix: [4.8, 4.0, 0.0], 3)
    found = first_divergence(model, [0], [0, 0, 1], [0, 0, 0])
    assert (found.gap, found.gap_block) == (pytest.approx(0.8, abs=1e-6), pytest.approx(-0.1, abs=1e-6))
    assert found.kind == "tie" and "rounding explains it" in str(found)
    assert math.isnan(found.gap_float64), "not asked for"


def test_only_the_target_s_own_text_is_evaluated():
    """Of the text under judgement nothing is fed but the prompt and what plain decoding says too."""
    model = ScriptedModel(RULE, WIDTH)
    ours = [*plain()[:4], (plain()[4] + 1) % WIDTH, 9, 9, 9, 9, 9]
    first_divergence(model, PROMPT, ours, plain())
    text = [*PROMPT, *plain()]
    for call in model.calls:
        if call.kind == "forward":
            assert list(call.tokens) == text[call.before : call.after]


def test_a_token_that_the_target_lacks_is_a_fault():
    for wrong in (WIDTH, -1):
        found = first_divergence(ScriptedModel(RULE, WIDTH), PROMPT, [wrong], plain())
        assert found.kind == "fault" and math.isnan(found.gap) and not found.near_tie


@pytest.mark.parametrize("ids", [[], [-1], [[1]], "text"])
def test_a_bad_prompt_is_refused(ids):
    model = ScriptedModel(RULE, WIDTH)
    with pytest.raises((ValueError, TypeError), match="input_ids"):
        first_divergence(model, ids, [1], [2])
    assert model.passes == 0


@pytest.mark.parametrize(
    ("a", "b", "index"),
    [
        ([], [], None),
        ([1], [1], None),
        ([1], [2], 0),
        ([1, 2], [1], 1),
        ([1], [1, 2], 1),
        ([1, 2], [1, 3], 1),
    ],
)
def test_first_difference(a, b, index):
    assert first_difference(a, b) == index
