"""The slab cache against plain concatenation, and roll-back of every cache that is taken or refused.

What a wrong roll-back does to a text is tested with the decoders.
"""

from __future__ import annotations

import pytest
import torch
from helpers import VOCABULARY, full_logits, random_model
from transformers import DynamicCache, EncoderDecoderCache, StaticCache
from transformers.cache_utils import DynamicLayer

from specdec_lab.models.cache import (
    FIRST_CAPACITY,
    SlabCache,
    SlabLayer,
    check_cache,
    cut_cache,
    select_rows,
    uncuttable_layers,
)
from specdec_lab.models.transformers_adapter import TransformersAdapter

TOKENS = [(7 * i + i * i) % VOCABULARY for i in range(12)]


def rows(count, seed, dtype=torch.float32):
    """Keys and values of `count` positions, (1, heads, count, width); the widths differ, as in some families."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(1, 2, count, 5, generator=generator).to(dtype),
        torch.randn(1, 2, count, 3, generator=generator).to(dtype),
    )


def assert_holds(layer, keys, values):
    assert layer.get_seq_length() == layer.length == keys.shape[-2]
    assert torch.equal(layer.keys, keys) and torch.equal(layer.values, values)


# ---------------------------------------------------------------- one layer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_append_and_cut_equal_concatenation(dtype):
    """A long random history, over two doublings of the slab."""
    layer = SlabLayer()
    generator = torch.Generator().manual_seed(0)
    keys, values = (part[..., :0, :] for part in rows(1, 0, dtype))
    longest = 0
    for step in range(120):
        new = rows(int(torch.randint(1, 40, (), generator=generator)), step, dtype)
        shown = layer.update(*new)
        keys, values = torch.cat([keys, new[0]], -2), torch.cat([values, new[1]], -2)
        assert torch.equal(shown[0], layer.keys) and torch.equal(shown[1], layer.values)
        assert_holds(layer, keys, values)
        longest = max(longest, keys.shape[-2])
        keep = keys.shape[-2] - int(torch.randint(0, 30, (), generator=generator))
        keep = max(0, keep)
        layer.cut(keep)
        keys, values = keys[..., :keep, :], values[..., :keep, :]
        assert_holds(layer, keys, values)
    assert longest > 2 * FIRST_CAPACITY, "the slab never grew twice"
    assert layer.keys.dtype == layer.values.dtype == dtype


def test_a_cut_copies_nothing():
    layer = SlabLayer()
    layer.update(*rows(20, 1))
    before = layer.keys.data_ptr(), layer.values.data_ptr()
    layer.cut(7)
    assert (layer.keys.data_ptr(), layer.values.data_ptr()) == before
    layer.update(*rows(5, 2))
    assert (layer.keys.data_ptr(), layer.values.data_ptr()) == before, (
        "appending within capacity moved the slab"
    )


def test_growth_is_rare():
    """Appending one row at a time moves the slab once a doubling, not once a row."""
    layer, places = SlabLayer(), set()
    for step in range(4 * FIRST_CAPACITY):
        layer.update(*rows(1, step))
        places.add(layer.keys.untyped_storage().data_ptr())
    assert len(places) <= 3
    assert layer.get_seq_length() == 4 * FIRST_CAPACITY


@pytest.mark.parametrize("count", [1, FIRST_CAPACITY - 1, FIRST_CAPACITY, FIRST_CAPACITY + 1, 1000])
def test_the_first_append_may_be_of_any_length(count):
    layer, new = SlabLayer(), rows(count, 3)
    layer.update(*new)
    assert_holds(layer, *new)


def test_cutting_an_empty_or_shorter_layer_does_nothing():
    layer = SlabLayer()
    layer.cut(0)
    assert layer.get_seq_length() == 0
    new = rows(4, 1)
    layer.update(*new)
    layer.cut(9)
    assert_holds(layer, *new)


@pytest.mark.parametrize(("count", "left"), [(0, 6), (-1, 5), (-6, 0), (-9, 0)])
def test_crop_speaks_the_newest_dialect(count, left):
    """For code of transformers that crops our layers: negative removes, zero does nothing, positive raises."""
    layer, new = SlabLayer(), rows(6, 1)
    layer.update(*new)
    layer.crop(count)
    assert_holds(layer, *(part[..., :left, :] for part in new))
    with pytest.raises(ValueError, match="negative"):
        layer.crop(3)


def test_reset_empties_and_the_slab_is_used_again():
    layer, new = SlabLayer(), rows(6, 1)
    layer.update(*rows(9, 2))
    layer.reset()
    assert layer.get_seq_length() == 0
    layer.update(*new)
    assert_holds(layer, *new)


def test_mask_sizes_for_counts_and_for_positions():
    """transformers asks with a number of queries, before 5.6 with their positions."""
    layer = SlabLayer()
    layer.update(*rows(6, 1))
    assert layer.get_mask_sizes(3) == layer.get_mask_sizes(torch.arange(6, 9)) == (9, 0)


@pytest.mark.parametrize("chosen", [[4, 6], [6, 4], [], [3], [3, 4, 5, 6, 7]])
def test_select_keeps_rows_in_the_order_given(chosen):
    layer, (keys, values) = SlabLayer(), rows(8, 1)
    layer.update(keys, values)
    layer.select(3, torch.tensor(chosen, dtype=torch.long))
    kept = [0, 1, 2, *chosen]
    assert_holds(layer, keys[..., kept, :], values[..., kept, :])
    new = rows(2, 5)
    layer.update(*new)
    assert_holds(
        layer, torch.cat([keys[..., kept, :], new[0]], -2), torch.cat([values[..., kept, :], new[1]], -2)
    )


# ---------------------------------------------------------------- a whole cache under a model


@pytest.fixture(scope="module")
def adapter():
    return TransformersAdapter(random_model("llama", seed=1))


def filled(adapter, count=12):
    return adapter.forward(torch.tensor([TOKENS[:count]])).past_key_values


def assert_continues(adapter, cache, confirmed):
    """What follows `confirmed` is what a pass without a cache says."""
    tail = [9, 30, 2]
    got = adapter.forward(torch.tensor([tail]), past_key_values=cache).logits[0]
    truth = full_logits(adapter.model, [*confirmed, *tail])[len(confirmed) :]
    torch.testing.assert_close(got, truth, rtol=0, atol=1e-5 * max(1.0, float(truth.abs().max())))


@pytest.mark.parametrize("kind", [SlabCache, DynamicCache])
@torch.inference_mode()
def test_every_cut_continues_exactly(adapter, kind):
    """Also for transformers' own dynamic cache, which a caller may hand in."""
    for valid in range(13):
        cache = kind()
        adapter.forward(torch.tensor([TOKENS]), past_key_values=cache)
        assert cut_cache(cache, valid) is cache
        assert cache.get_seq_length() == valid
        assert_continues(adapter, cache, TOKENS[:valid])


@torch.inference_mode()
def test_cuts_after_cuts(adapter):
    cache = filled(adapter)
    for valid in (11, 11, 5, 4, 4, 0):
        cut_cache(cache, valid)
        assert cache.get_seq_length() == valid
    assert_continues(adapter, cache, [])


@pytest.mark.parametrize("kind", [SlabCache, DynamicCache])
@pytest.mark.parametrize("valid", [13, -1, 100])
@torch.inference_mode()
def test_a_cut_out_of_range_is_an_error_and_changes_nothing(adapter, kind, valid):
    cache = kind()
    adapter.forward(torch.tensor([TOKENS]), past_key_values=cache)
    with pytest.raises(ValueError, match=rf"valid_length.*12.*got {valid}"):
        cut_cache(cache, valid)
    assert cache.get_seq_length() == 12
    assert_continues(adapter, cache, TOKENS)


def test_an_empty_cache_and_none():
    assert cut_cache(None, 0) is None
    assert cut_cache(SlabCache(), 0).get_seq_length() == 0
    for cache in (None, SlabCache()):
        with pytest.raises(ValueError, match=r"length 0, got 1"):
            cut_cache(cache, 1)


@torch.inference_mode()
def test_selecting_a_chain_equals_computing_it(adapter):
    """Keep every second of four later rows: rows hold what was computed for them, at their old places."""
    cache = filled(adapter)
    before = [(layer.keys.clone(), layer.values.clone()) for layer in cache.layers]
    select_rows(cache, 8, [9, 11])
    kept = [*range(8), 9, 11]
    for layer, (keys, values) in zip(cache.layers, before, strict=True):
        assert_holds(layer, keys[..., kept, :], values[..., kept, :])
    chain = filled(adapter)
    assert select_rows(chain, 8, [8, 9]) is chain
    assert_continues(adapter, chain, TOKENS[:10])


@pytest.mark.parametrize(("first", "chosen"), [(8, [7]), (8, [12]), (13, []), (-1, [0])])
@torch.inference_mode()
def test_selecting_rows_out_of_range_is_an_error(adapter, first, chosen):
    cache = filled(adapter)
    with pytest.raises(ValueError, match="rows"):
        select_rows(cache, first, chosen)
    assert cache.get_seq_length() == 12


def test_selecting_needs_a_slab():
    with pytest.raises(TypeError, match=r"SlabCache.*DynamicCache"):
        select_rows(DynamicCache(), 0, [])


# ---------------------------------------------------------------- caches that are refused


def refused():
    model = random_model("llama", seed=1)
    sliding = random_model("mistral", seed=1, sliding_window=8)
    return {
        "StaticCache": StaticCache(config=model.config, max_cache_len=16),
        "tuple": ((torch.zeros(1, 2, 3, 8),) * 2,) * 2,
        "list": [1, 2, 3],
        "EncoderDecoderCache": EncoderDecoderCache(DynamicCache(), DynamicCache()),
        "DynamicSlidingWindowLayer": DynamicCache(config=sliding.config),
    }


@pytest.mark.parametrize("name", refused())
def test_a_cache_that_cannot_be_cut_is_refused_by_type(name, adapter):
    cache = refused()[name]
    for refuse in (
        lambda: check_cache(cache),
        lambda: cut_cache(cache, 0),
        lambda: adapter.forward(torch.tensor([[1]]), past_key_values=cache),
        lambda: adapter.truncate_cache(cache, 0),
    ):
        with pytest.raises(TypeError, match=name):
            refuse()


def test_a_subclass_with_rules_of_its_own_is_refused():
    """A subclass may drop or mix positions; only the plain types are known to be exact."""

    class Dropping(DynamicCache):
        pass

    class DroppingLayer(DynamicLayer):
        pass

    with pytest.raises(TypeError, match="Dropping"):
        check_cache(Dropping())
    cache = DynamicCache()
    cache.layers.append(DroppingLayer())
    with pytest.raises(TypeError, match="DroppingLayer"):
        check_cache(cache)


def test_which_layers_cannot_be_cut():
    class Config:
        def __init__(self, layer_types):
            self.layer_types = layer_types

    assert uncuttable_layers(random_model("llama", seed=1).config) is None
    assert uncuttable_layers(random_model("mistral", seed=1, sliding_window=8).config) is None
    for kind in ("linear_attention", "conv", "mamba", "something_new"):
        assert uncuttable_layers(Config(["full_attention", kind])) == kind
