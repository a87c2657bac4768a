"""Memory in bytes: against arithmetic, and where a big vocabulary makes it show."""

from __future__ import annotations

import pytest
import torch
from helpers import crc_rule, random_model

from specdec_lab.measure.memory import CopiedBytes, LiveBytes, cache_bytes_per_token, prefill_peak_bytes
from specdec_lab.models.cache import SlabLayer, cache_bytes
from specdec_lab.models.scripted import ScriptedModel
from specdec_lab.models.transformers_adapter import TransformersAdapter


@pytest.mark.parametrize(
    ("family", "heads", "head_dim"),
    [("gpt2", 4, 8), ("llama", 2, 8)],
    ids=["gpt2", "llama with grouped heads"],
)
@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.bfloat16, 2)])
def test_cache_bytes_are_those_of_the_formula(family, heads, head_dim, dtype, size):
    model = random_model(family, seed=1).to(dtype)
    assert cache_bytes_per_token(model) == 2 * 2 * heads * head_dim * size


def test_held_and_reserved_bytes_follow_the_cache(tiny_llama):
    adapter = TransformersAdapter(tiny_llama.target)
    with torch.inference_mode():
        cache = adapter.forward(torch.arange(20)[None]).past_key_values
        one = cache_bytes_per_token(tiny_llama.target)
        held, reserved = cache_bytes(cache)
        assert held == 20 * one and reserved >= held
        adapter.truncate_cache(cache, 5)
        assert cache_bytes(cache) == (5 * one, reserved)


def test_a_head_on_every_row_costs_the_rows():
    """2048 rows of a 49k vocabulary are 400 MB; here 96 rows of 50,000."""
    model = random_model("llama", seed=1, vocab_size=50_000, max_position_embeddings=128)
    last, every = (prefill_peak_bytes(model, 96, every_row=rows) for rows in (False, True))
    rows = 95 * 50_000 * 4
    assert rows <= every - last <= rows + 50_000 * 4 or every - last == pytest.approx(rows, rel=0.1)
    assert last < rows / 4


def test_live_bytes_counts_storages_once_and_forgets_them():
    with LiveBytes() as memory:
        a = torch.zeros(1000)
        b = a.view(10, 100)[2:]
        assert memory.now == 4000
        c = torch.cat([a, a])
        assert memory.now == memory.peak == 12_000
        del c
        assert memory.now == 4000
        del a
        assert memory.now == 4000, "a view keeps its storage alive"
        del b
        assert memory.now == 0
    assert memory.peak == 12_000


def test_measuring_changes_nothing(tiny_llama):
    before = {name: weight.clone() for name, weight in tiny_llama.target.state_dict().items()}
    prefill_peak_bytes(tiny_llama.target, 40)
    assert all(torch.equal(before[name], weight) for name, weight in tiny_llama.target.state_dict().items())


def test_what_cannot_be_measured_is_refused(tiny_llama):
    with pytest.raises(TypeError, match="SlabCache"):
        cache_bytes_per_token(ScriptedModel(crc_rule(5), 5))
    with pytest.raises(ValueError, match="context of 256"):
        prefill_peak_bytes(tiny_llama.target, 257)
    with pytest.raises(ValueError, match="tokens must be at least 1"):
        prefill_peak_bytes(tiny_llama.target, 0)


def test_copied_bytes_are_those_that_cat_and_copy_write():
    big, small = torch.zeros(10), torch.zeros(3, dtype=torch.bfloat16)
    with CopiedBytes() as copied:
        joined = torch.cat([big, big[:2]])
        assert copied.total == 12 * 4
        joined.narrow(0, 4, 3).copy_(small)
        assert copied.total == 12 * 4 + 3 * 4, "bytes written, in the dtype of the destination"
        joined + 1
    torch.cat([big, big])
    assert copied.total == 60, "nothing else counts, and nothing outside the block"


@pytest.mark.parametrize("tokens", [1, 256, 257, 700])
def test_a_slab_copies_the_new_rows_and_the_old_ones_when_it_is_replaced(tokens):
    """Rows counted one by one: a slab of 256 that doubles when full, and two tensors, keys and values."""
    row = torch.zeros(1, 2, 1, 3)
    with CopiedBytes() as copied:
        layer = SlabLayer()
        for _ in range(tokens):
            layer.update(row, row)
    moved = sum(held for held in (256, 512) if tokens > held)
    assert copied.total == 2 * (tokens + moved) * row.nbytes
