"""What is asked of a model: two methods, and the optional things it may state or show by behaviour."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from helpers import KeepingModel, PlainModel, crc_rule, follow, random_model

from specdec_lab import autoregressive_decode, speculative_decode
from specdec_lab.decoding.session import exposed_length
from specdec_lab.models.protocol import (
    Model,
    as_model,
    context_length,
    keeps_logits,
    model_device,
    model_name,
    torch_modules,
    vocabulary_size,
)
from specdec_lab.models.scripted import ScriptedModel, last_token

RULE = crc_rule(20)


def test_two_methods_are_enough():
    plain = PlainModel(RULE, 20)
    assert isinstance(plain, Model) and as_model(plain) is plain
    assert vocabulary_size(plain) is None and context_length(plain) is None
    assert not keeps_logits(plain) and torch_modules(plain) == []
    assert model_device(plain) == torch.device("cpu") and model_name(plain) == "PlainModel"


def test_what_is_stated_is_found():
    scripted = ScriptedModel(last_token(1, 20), 20, max_position_embeddings=9)
    assert (vocabulary_size(scripted), context_length(scripted)) == (20, 9)
    plain = PlainModel(RULE, 20)
    plain.config = SimpleNamespace(vocab_size=33, max_position_embeddings=44)
    plain.device, plain.name = "meta", "mine"
    assert (vocabulary_size(plain), context_length(plain)) == (33, 44)
    assert model_device(plain) == torch.device("meta") and model_name(plain) == "mine"
    assert keeps_logits(KeepingModel(RULE, 20))


@pytest.mark.parametrize("method", ["forward", "truncate_cache"])
def test_one_method_is_not_enough(method):
    lacking = SimpleNamespace(**{method: print})
    with pytest.raises(TypeError, match=r"draft_model.*forward.*truncate_cache.*SimpleNamespace"):
        as_model(lacking, "draft_model")


def test_the_module_in_a_wrapper_is_found():
    wrapper = PlainModel(RULE, 20)
    wrapper.model = random_model("llama", seed=1)
    assert {id(module) for module in torch_modules(wrapper)} == {id(m) for m in wrapper.model.modules()}
    assert (vocabulary_size(wrapper), context_length(wrapper)) == (64, 256)


def test_objects_that_know_each_other_are_no_endless_search():
    """A model and its counter, say, each with a `forward` and a reference to the other."""
    outer, inner = PlainModel(RULE, 20), PlainModel(RULE, 20)
    outer.inner, inner.outer = inner, outer
    inner.network = random_model("llama", seed=1)
    assert {id(module) for module in torch_modules(outer)} == {id(m) for m in inner.network.modules()}
    assert autoregressive_decode(outer, [3], 4, None) == follow(RULE, [3], 4)


class OwnNetwork(torch.nn.Module):
    """A module of one's own; its position table is registered before its token table."""

    def __init__(self, positions_first):
        super().__init__()
        tables = {"positions": torch.nn.Embedding(16, 8), "tokens": torch.nn.Embedding(50, 8)}
        for name in tables if positions_first else reversed(tables):
            setattr(self, name, tables[name])
        self.head = torch.nn.Linear(8, 50)

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        seen = past_key_values or []
        places = torch.arange(len(seen), len(seen) + input_ids.shape[1])
        states = self.tokens(input_ids) + self.positions(places)
        return SimpleNamespace(logits=self.head(states), past_key_values=[*seen, *input_ids[0].tolist()])

    def truncate_cache(self, past_key_values, valid_length):
        return past_key_values[:valid_length]


@pytest.mark.parametrize("positions_first", [True, False])
def test_a_position_table_is_not_a_vocabulary(positions_first):
    """Ids that the model can read are not refused, nor left out of its drafts."""
    torch.manual_seed(0)
    network = OwnNetwork(positions_first)
    assert vocabulary_size(network) in (50, None)
    tokens = autoregressive_decode(network, [40, 3], 8, None)
    assert len(tokens) == 10
    assert speculative_decode(network, network, [40, 3], 8, 3, None) == (tokens, 1.0)


@pytest.mark.parametrize(
    ("cache", "length"),
    [
        (None, None),
        (object(), None),
        ([], 0),
        ([4, 5], 2),
        ([(1, 2), (3, 4)], None),
        ((1, 2), None),
        (SimpleNamespace(length=7), 7),
        (SimpleNamespace(length=None), None),
        (SimpleNamespace(length=True), None),
        (SimpleNamespace(get_seq_length=lambda: 3), 3),
        (SimpleNamespace(get_seq_length=3), None),
    ],
    ids=lambda part: type(part).__name__,
)
def test_how_long_a_cache_says_it_is(cache, length):
    assert exposed_length(cache) == length


@pytest.mark.parametrize("shape", [(1, 2), (2, 1, 20), (1, 0, 20), (3, 20)])
def test_logits_of_another_shape_are_named(shape):
    class Odd(PlainModel):
        def forward(self, input_ids, use_cache=True, past_key_values=None):
            output = super().forward(input_ids, use_cache, past_key_values)
            output.logits = torch.zeros(shape)
            return output

    with pytest.raises(ValueError, match=r"Odd\.forward must return logits \(1, 2, vocab\)"):
        autoregressive_decode(Odd(RULE, 20), [1, 2], 3, None)


def test_the_prompt_of_a_plain_model_may_hold_any_id_it_reads():
    assert autoregressive_decode(PlainModel(RULE, 20), [19], 4, None) == follow(RULE, [19], 4)
