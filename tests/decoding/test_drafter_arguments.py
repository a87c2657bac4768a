"""What drafters are made with: end tokens as everywhere else, drafters where drafters belong, parts that fit."""

from __future__ import annotations

import pytest
import torch
from eagles import eagle_pair
from helpers import VOCABULARY, random_model

from specdec_lab import ModelDrafter, PromptLookupDrafter, speculative_decode, speculative_rounds
from specdec_lab.decoding.eagle import EagleDrafter
from specdec_lab.decoding.early_exit import EarlyExitDrafter
from specdec_lab.decoding.fallback import FallbackDrafter
from specdec_lab.decoding.medusa import MedusaDrafter
from specdec_lab.decoding.tree_decode import tree_decode
from specdec_lab.decoding.tree_drafters import ModelTreeDrafter
from specdec_lab.models.medusa import MedusaHeads
from specdec_lab.models.scripted import ScriptedModel, last_token

# ---------------------------------------------------------------- end tokens


@pytest.mark.parametrize("ends", [9, [9], (9, 30), {9}, frozenset({9}), torch.tensor([9])])
def test_drafting_stops_behind_an_end_token_however_it_is_given(ends):
    count = ScriptedModel(last_token(step=1, vocab_size=40), 40)
    drafter = ModelDrafter(count, eos_token_id=ends)
    drafter.start([7])
    assert drafter.propose([7], 6, None).tokens == (8, 9)
    copying = PromptLookupDrafter(eos_token_id=ends)
    copying.start([1, 8, 9, 3, 1])
    assert copying.propose([1, 8, 9, 3, 1], 4, None).tokens == (8, 9)


def test_without_end_tokens_drafting_goes_on():
    drafter = ModelDrafter(ScriptedModel(last_token(step=1, vocab_size=40), 40), eos_token_id=None)
    drafter.start([7])
    assert drafter.propose([7], 6, None).tokens == (8, 9, 10, 11, 12, 13)


def test_every_drafter_takes_the_decoders_eos_token_id():
    target, network = eagle_pair("llama")
    truth, _ = speculative_decode(target, target, [3, 1, 4], 24, 4, None)
    end = truth[12]
    expected = truth[: truth.index(end, 3) + 1]
    for drafter in (
        ModelDrafter(target, eos_token_id=end),
        EarlyExitDrafter(target, 3, eos_token_id=end),
        EagleDrafter(target, network, eos_token_id=end),
        PromptLookupDrafter(eos_token_id=end),
    ):
        assert speculative_decode(target, drafter, [3, 1, 4], 24, 4, end)[0] == expected
    for make in (
        lambda ends: ModelDrafter(target, eos_token_id=ends),
        lambda ends: EarlyExitDrafter(target, 3, eos_token_id=ends),
        lambda ends: EagleDrafter(target, network, eos_token_id=ends),
        lambda ends: PromptLookupDrafter(eos_token_id=ends),
    ):
        with pytest.raises(
            TypeError, match="eos_token_id must be an id, a sequence of ids or None, got 'end'"
        ):
            make("end")


# ---------------------------------------------------------------- drafters that do not go together


def test_a_draft_model_inside_a_fallback_is_refused_when_it_is_made():
    model = random_model("llama", 9)
    with pytest.raises(
        TypeError, match="second must be a drafter, got LlamaForCausalLM; ModelDrafter makes one"
    ):
        FallbackDrafter(PromptLookupDrafter(), model)
    with pytest.raises(TypeError, match="first must be a drafter, got LlamaForCausalLM"):
        FallbackDrafter(model, PromptLookupDrafter())


@pytest.mark.parametrize(
    ("hidden", "vocabulary", "message"),
    [
        (
            48,
            VOCABULARY,
            "heads must be made for this target: they are for a hidden size of 48, its head has 32",
        ),
        (32, 9, f"they are for a vocabulary of 9, its head has {VOCABULARY}"),
    ],
)
def test_medusa_heads_of_another_target_are_refused_before_the_first_pass(hidden, vocabulary, message):
    target = random_model("llama", 3)
    assert target.config.hidden_size == 32
    passes: list[int] = []
    target.register_forward_hook(lambda *_: passes.append(1))
    heads = MedusaDrafter(MedusaHeads(hidden, vocabulary, 2), (2, 1))
    for drafter in (heads, FallbackDrafter(PromptLookupDrafter(), heads)):
        run = speculative_rounds(target, drafter, [3, 1, 4], max_new_tokens=8, gamma=2, eos_token_id=None)
        with pytest.raises(ValueError, match=message):
            next(run)
        assert not passes


# ---------------------------------------------------------------- the shape of a tree


def test_a_drafter_of_trees_keeps_its_own_shape_where_none_is_given():
    model = ScriptedModel(last_token(step=1, vocab_size=40), 40)
    drafter = ModelTreeDrafter(model, (2, 1, 1))
    assert tree_decode(model, drafter, [7], 9, None, None)[0] == list(range(7, 17))
    assert drafter.depth == 3
    tree_decode(model, drafter, [7], 9, (3,), None)
    assert drafter.depth == 1, "a shape that is given stays"


def test_a_drafter_of_chains_without_a_tree_is_told_so():
    model = ScriptedModel(last_token(step=1, vocab_size=40), 40)
    for tree in (None, (2, 1)):
        with pytest.raises(TypeError, match=r"use_tree\); ModelDrafter is not: speculative_rounds runs it"):
            tree_decode(model, ModelDrafter(model), [7], 9, tree, None)


# ---------------------------------------------------------------- prompts with a batch dimension


@pytest.mark.parametrize(
    ("given", "got"),
    [(torch.tensor([[1, 2, 3]]), r"shape \(1, 3\)"), ([[1, 2, 3]], r"\[1, 2, 3\] at \[0\]")],
)
def test_a_batch_of_one_is_told_what_to_pass(given, got):
    model = ScriptedModel(last_token(step=1, vocab_size=40), 40)
    message = f"input_ids must be one flat sequence of ids, without a batch dimension, got {got}; pass input_ids\\[0\\]$"
    with pytest.raises(ValueError, match=message):
        speculative_decode(model, model, given, 9, 2, None)
    assert speculative_decode(model, model, given[0], 9, 2, None)[0] == list(range(1, 13))


@pytest.mark.parametrize(
    "given",
    [
        torch.ones(2, 3, dtype=torch.long),
        torch.ones(1, 2, 3, dtype=torch.long),
        torch.tensor(3),
        [1, [2]],
        [[1], [2]],
    ],
)
def test_what_is_no_batch_of_one_is_not_told_to_pass_its_first(given):
    model = ScriptedModel(last_token(step=1, vocab_size=40), 40)
    with pytest.raises(ValueError, match="without a batch dimension, got ") as caught:
        speculative_decode(model, model, given, 9, 2, None)
    assert "pass input_ids" not in str(caught.value)
