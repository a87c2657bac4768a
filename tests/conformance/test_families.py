"""More than a thousand drawn configurations over the families of the zoo: the text is the target's own, and no work is done twice.

The truth is a full pass without a cache at every step, straight through transformers. `compare.py` says what is
checked in each; here it is decided what is run, and that it was enough.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import product

import pytest
import torch
from compare import SEED, TOTAL, compare, draw, end_tokens, family_of, pooled_rate, results, run
from families import LEAST_VARIETY, LONGEST_PROMPT, NEW_TOKENS, PROMPTS, WINDOWED, ZOO, family, make
from helpers import assert_same_text, full_logits, uncached_greedy

from specdec_lab import autoregressive_decode, speculative_decode
from specdec_lab.decoding.rounds import BONUS, CORRECTION, END, PLAIN
from specdec_lab.models.cache import SlabLayer

ONLY = os.environ.get("CONFORMANCE_ONLY")  # the number of one configuration
CHUNKS = 4
DRAFTS = ("agree", "half", "disagree")
INDICES = {name: [i for i in range(TOTAL) if family_of(i) == name] for name in ZOO}
ITEMS = [(name, chunk, INDICES[name][chunk::CHUNKS]) for name in ZOO for chunk in range(CHUNKS)]
if ONLY is not None:
    ITEMS = [(family_of(int(ONLY)), "only", [int(ONLY)])]


@pytest.mark.parametrize("indices", [pytest.param(item[2], id=f"{item[0]}-{item[1]}") for item in ITEMS])
def test_exact(indices):
    for index in indices:
        compare(index)


def test_all_were_compared():
    """Whatever has not run yet runs now, so the sums are those of all."""
    for index in range(TOTAL):
        compare(index)
    assert len(results) == TOTAL == 50 * len(ZOO) >= 1000
    assert sum(result.cut_short for result in results.values()) <= TOTAL // 50
    for name in ZOO:
        assert pooled_rate(name, "agree") == 1.0, name
        assert 0.2 <= pooled_rate(name, "half") <= 0.8, (name, pooled_rate(name, "half"))
        assert pooled_rate(name, "disagree") < 0.2, name
    drawn = [result.configuration for result in results.values()]
    assert {(item.gamma, item.draft) for item in drawn} == set(product(range(1, 9), DRAFTS))
    assert {item.new_tokens for item in drawn} == set(range(1, NEW_TOKENS + 1))
    assert {type(item.ends) for item in drawn} == {type(None), int, list, tuple}


@pytest.mark.parametrize("name", ZOO)
def test_the_draw_covers_what_it_should(name):
    """In every family every kind of round, end tokens that stop and that do not, and both targets."""
    held = [compare(index) for index in INDICES[name]]
    outcomes = sum((result.outcomes for result in held), Counter())
    assert all(outcomes[kind] >= 3 for kind in (BONUS, CORRECTION, END, PLAIN)), outcomes
    assert sum(result.stopped for result in held) >= 5
    assert sum(not result.stopped and bool(end_tokens(result.configuration.ends)) for result in held) >= 5
    drawn = [result.configuration for result in held]
    assert len({item.gamma for item in drawn}) >= 7 and len({item.prompt for item in drawn}) >= PROMPTS - 1
    assert min(item.new_tokens for item in drawn) <= 3 and max(item.new_tokens for item in drawn) >= 20
    for draft in DRAFTS:
        assert {item.target for item in drawn if item.draft == draft} == {"built", "loaded"}


def test_a_configuration_is_drawn_from_its_number_alone():
    forwards = [draw(index) for index in range(40)]
    assert [draw(index) for index in reversed(range(40))] == forwards[::-1]
    assert len({(item.gamma, item.new_tokens) for item in forwards}) > 20, SEED


@pytest.mark.parametrize("name", ZOO)
def test_the_texts_vary(name):
    """Text that repeats one token would hide a stale cache."""
    zoo = family(name)
    lengths = [len(prompt) for prompt in zoo.prompts]
    assert len(lengths) == PROMPTS and min(lengths) == 1 and max(lengths) == LONGEST_PROMPT
    for reference in zoo.references:
        assert len(reference.tokens) == NEW_TOKENS
        assert len(set(reference.tokens)) >= LEAST_VARIETY, reference.tokens
    assert len({tuple(reference.tokens) for reference in zoo.references}) == PROMPTS


@pytest.mark.parametrize("name", ZOO)
def test_the_model_settings_are_what_the_zoo_says(name):
    config = family(name).targets["loaded"].config
    assert config.num_hidden_layers == 2 and config.hidden_size == 32
    assert (getattr(config, "init_std", None) or config.initializer_range) >= 0.3


@pytest.mark.parametrize("name", WINDOWED)
def test_the_window_matters(name):
    """Otherwise windowed families would be tested like any other."""
    zoo = family(name)
    wide = make(zoo.recipe, **WINDOWED[name])
    wide.load_state_dict(zoo.targets["built"].state_dict())
    prompt = max(zoo.prompts, key=len)
    texts = [uncached_greedy(model, prompt, NEW_TOKENS).tokens for model in (zoo.targets["built"], wide)]
    assert texts[0] != texts[1]


def test_the_unshared_ids_matter():
    """The wider draft would choose ids that the target lacks; the wider target writes ids that the draft lacks."""
    zoo = family("qwen2, wider draft")
    draft = zoo.drafts["agree", "built"]
    for prompt, reference in zip(zoo.prompts, zoo.references, strict=True):
        choices = full_logits(draft, [*prompt, *reference.tokens]).argmax(-1)
        assert choices.max() >= zoo.recipe.vocabulary
    zoo = family("qwen2, wider target")
    beyond = [max(reference.tokens) >= zoo.recipe.draft_vocabulary for reference in zoo.references]
    assert 2 <= sum(beyond) < PROMPTS
    assert max(zoo.prompts[-1]) >= zoo.recipe.draft_vocabulary


@pytest.mark.parametrize("name", ZOO)
def test_plain_decoding_and_a_draft_that_is_the_target_itself(name):
    zoo = family(name)
    for number, (target, prompt, reference) in enumerate(
        zip(zoo.targets.values(), zoo.prompts, zoo.references, strict=False)
    ):
        plain = autoregressive_decode(target, prompt, NEW_TOKENS, None)
        fast, _ = speculative_decode(target, target, prompt, NEW_TOKENS, 3 + number, None)
        for sequence in (plain, fast):
            assert sequence[: len(prompt)] == prompt
            assert_same_text(sequence[len(prompt) :], reference)


@pytest.mark.parametrize("name", ZOO)
def test_a_stale_row_would_be_noticed(name, monkeypatch):
    """One rejected token left in the cache, in place of the last confirmed one: the lengths still look right."""
    cut = SlabLayer.cut

    def careless(layer, valid_length):
        if 0 < valid_length < layer.length:
            for slab in (layer.keys, layer.values):
                slab[..., valid_length - 1, :] = slab[..., valid_length, :].clone()
        cut(layer, valid_length)

    monkeypatch.setattr(SlabLayer, "cut", careless)
    chosen = [
        item
        for item in map(
            draw, range(INDICES[name][0], 4 * TOTAL, len(ZOO))
        )  # beyond those of the suite if need be
        if item.draft != "agree" and item.new_tokens >= 10 and not end_tokens(item.ends)
    ][:14]
    noticed = 0
    for configuration in chosen:
        try:
            run(configuration, family(name))
        except AssertionError:
            noticed += 1
        if noticed == 3:
            return
    pytest.fail(f"{noticed} of {len(chosen)} stale rows were noticed")


def test_no_gradient_is_recorded():
    zoo = family("llama")
    assert torch.is_grad_enabled()
    speculative_decode(zoo.targets["built"], zoo.drafts["half", "built"], zoo.prompts[2], 8, 3, None)
    assert all(weight.grad is None for weight in zoo.targets["built"].parameters())
