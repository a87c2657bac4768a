"""The package's scripted models: their cache is the token list, and every call is written down."""

from __future__ import annotations

import pytest
import torch
from helpers import crc_rule, follow

from specdec_lab import autoregressive_decode
from specdec_lab.models.scripted import Call, ScriptedModel, hash_of_prefix, last_token, wrong_when

pytestmark = pytest.mark.scripted

IDS = torch.tensor([[3, 4, 5]])


def counting(**more):
    return ScriptedModel(last_token(step=1, vocab_size=10), vocab_size=10, **more)


def test_logits_score_the_token_behind_each_prefix():
    output = counting().forward(IDS)
    assert output.logits.shape == (1, 3, 10)
    assert output.logits.argmax(-1).tolist() == [[4, 5, 6]]
    assert output.past_key_values == [3, 4, 5]


def test_every_call_is_written_down():
    model = counting()
    cache = model.forward(IDS).past_key_values
    assert model.truncate_cache(cache, 1) is None
    again = model.forward(torch.tensor([[9, 0]]), past_key_values=cache).past_key_values
    assert again is cache == [3, 9, 0]
    assert model.calls == [
        Call("forward", 0, 3, (3, 4, 5)),
        Call("truncate", 3, 1),
        Call("forward", 1, 3, (9, 0)),
    ]
    assert (model.passes, model.fed_tokens) == (2, 5)


def test_caches_of_two_runs_are_apart():
    model = counting()
    first, second = (model.forward(IDS).past_key_values for _ in range(2))
    model.truncate_cache(first, 0)
    assert (first, second) == ([], [3, 4, 5])


@pytest.mark.parametrize("valid", [-1, 4])
def test_a_cut_out_of_range_is_an_error(valid):
    model = counting()
    cache = model.forward(IDS).past_key_values
    with pytest.raises(ValueError, match=f"between 0 and 3, got {valid}"):
        model.truncate_cache(cache, valid)
    assert cache == [3, 4, 5] and len(model.calls) == 1


def test_every_cut_continues_as_if_nothing_had_been():
    rule = hash_of_prefix(50)
    for valid in range(4):
        model = ScriptedModel(rule, 50)
        cache = model.forward(IDS).past_key_values
        model.truncate_cache(cache, valid)
        tail = model.forward(torch.tensor([[7, 8]]), past_key_values=cache).logits.argmax(-1)[0].tolist()
        kept = IDS[0, :valid].tolist()
        assert tail == [rule([*kept, 7]), rule([*kept, 7, 8])]


def test_ids_and_positions_out_of_range_fail_as_an_embedding_would():
    for ids in ([[10]], [[-1]]):
        with pytest.raises(IndexError, match="vocabulary of 10"):
            counting().forward(torch.tensor(ids))
    with pytest.raises(IndexError, match="position 2 of 2"):
        counting(max_position_embeddings=2).forward(IDS)
    for shape in ((3,), (2, 3), (1, 0)):
        with pytest.raises(ValueError, match="shape"):
            counting().forward(torch.zeros(shape, dtype=torch.long))


def test_a_rule_may_give_a_row_of_logits():
    model = ScriptedModel(lambda prefix: [0.5, -1.0, len(prefix)], vocab_size=3)
    assert model.forward(torch.tensor([[0, 1]])).logits.tolist() == [[[0.5, -1.0, 1.0], [0.5, -1.0, 2.0]]]
    with pytest.raises(ValueError, match="3 logits, got 2"):
        ScriptedModel(lambda prefix: [0.0, 1.0], vocab_size=3).forward(torch.tensor([[0]]))


def test_without_a_cache_nothing_is_handed_out():
    assert counting().forward(IDS, use_cache=False).past_key_values is None


def test_the_hash_depends_on_every_token_and_its_place():
    rule = hash_of_prefix(10**6)
    base = list(range(1, 9))
    for i in range(8):
        changed = [*base[:i], 50, *base[i + 1 :]]
        assert rule(changed) != rule(base), f"token {i} has no say"
    for other in (base[::-1], base[1:], [0, *base], [*base, base[-1]], [base[1], base[0], *base[2:]]):
        assert rule(other) != rule(base)
    assert hash_of_prefix(10**6, seed=1)(base) != rule(base)
    assert len(set(follow(hash_of_prefix(50), [1], 40))) >= 20, "text that repeats hides stale caches"


def test_wrong_when_errs_on_cue_and_only_then():
    rule = crc_rule(50)
    altered = wrong_when(rule, 50, wrong=lambda position: position in (2, 5))
    text = follow(rule, [1], 9)
    for position in range(1, 10):
        differs = altered(text[:position]) != rule(text[:position])
        assert differs == (position in (2, 5))


def test_scripted_text_is_the_rule_s_text():
    rule = hash_of_prefix(50)
    model = ScriptedModel(rule, 50)
    assert autoregressive_decode(model, [3], 12, None) == follow(rule, [3], 12)
    assert [call.tokens for call in model.calls] == [(token,) for token in follow(rule, [3], 11)]
