"""What is said to be loaded is what lies in memory: bytes against tensor storages and against the cache of a real run."""

from __future__ import annotations

import pytest
import torch
from eagles import eagle_pair
from helpers import random_model

from specdec_lab import Pair, load_pair, speculative_decode
from specdec_lab.decoding.eagle import EagleDrafter
from specdec_lab.decoding.early_exit import EarlyExitDrafter
from specdec_lab.decoding.lookup import PromptLookupDrafter
from specdec_lab.measure.loaded import describe_pair
from specdec_lab.models.cache import cache_bytes
from specdec_lab.models.transformers_adapter import TransformersAdapter

CLOSE = 0.05


def storage_bytes(model) -> int:
    """Every storage once, whoever shares it."""
    tensors = [*model.parameters(), *model.buffers()]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


def cache_of_a_run(model, tokens: int) -> float:
    """Bytes a token that a real cache holds after three passes."""
    adapter, cache = TransformersAdapter(model), None
    with torch.inference_mode():
        for count in (tokens - 6, 5, 1):
            cache = adapter.forward(
                torch.ones(1, count, dtype=torch.long), past_key_values=cache
            ).past_key_values
    held, _ = cache_bytes(cache)
    return held / tokens


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["tiny", "tiny-weak"])
def test_bundled_pairs(name, dtype):
    pair = load_pair(name, dtype=dtype)
    for part, model in zip(describe_pair(pair), (pair.target, pair.draft), strict=True):
        assert part.weight_bytes == pytest.approx(storage_bytes(model), rel=CLOSE)
        assert part.cache_bytes_per_token == pytest.approx(cache_of_a_run(model, 100), rel=CLOSE)
        assert part.parameters == sum(p.numel() for p in model.parameters())
        assert part.dtypes == (dtype,) and part.devices == ("cpu",) and part.attention == "sdpa"
        assert part.source == pair.sources[part.role]


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2", "mistral", "gemma2", "deepseek_v3"])
@pytest.mark.parametrize("tied", [True, False])
def test_families_with_and_without_a_tied_head(family, tied):
    latent = {
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 12,
    }
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1}
    more = latent | experts | {"topk_group": 1, "num_key_value_heads": 4, "first_k_dense_replace": 1}
    target = random_model(family, 1, tie_word_embeddings=tied, **(more if family == "deepseek_v3" else {}))
    part, _ = describe_pair(Pair("made here", target, PromptLookupDrafter(), None))
    assert part.weight_bytes == pytest.approx(storage_bytes(target), rel=CLOSE)
    assert part.cache_bytes_per_token == pytest.approx(cache_of_a_run(target, 40), rel=CLOSE)
    head, table = target.get_output_embeddings().weight, target.get_input_embeddings().weight
    assert (head is table) is tied
    everything = sum(weight.numel() for weight in target.state_dict().values())
    buffers = sum(b.numel() for n, b in target.named_buffers() if n in target.state_dict())
    assert part.parameters == everything - buffers - (head.numel() if tied else 0)


def test_drafts_that_share_or_need_nothing_take_nothing():
    target = random_model("llama", 1, num_hidden_layers=3)
    for drafter in (PromptLookupDrafter(), EarlyExitDrafter(target, 2)):
        _, draft = describe_pair(Pair("x", target, drafter, None, sources={"draft": "words"}))
        assert draft.parameters == draft.weight_bytes == draft.cache_bytes_per_token == 0
        assert draft.dtypes == draft.devices == () and draft.attention is None
        assert str(draft) == "draft: words; no weights and no KV cache of its own"


def test_an_eagle_draft_takes_its_layer_the_rows_of_its_head_and_its_cache():
    target, network = eagle_pair("llama")
    drafter = EagleDrafter(target, network)
    _, draft = describe_pair(Pair("x", target, drafter, None))
    head = len(network.ids) * target.config.hidden_size
    assert draft.parameters == sum(p.numel() for p in network.parameters()) + head
    assert draft.weight_bytes == pytest.approx(storage_bytes(network) + 4 * head, rel=CLOSE)
    speculative_decode(target, drafter, [3, 1, 4], 40, 4, None)
    held, _ = cache_bytes(drafter._session._cache)
    assert draft.cache_bytes_per_token == held / drafter.cache_length


def test_the_line_says_everything():
    pair = load_pair("tiny", draft="prompt-lookup", dtype="bfloat16", attention="eager")
    target, _ = describe_pair(pair)
    assert str(target) == (
        f"target: bundled tiny/target; {target.parameters:,} parameters, {target.weight_bytes / 1e6:,.4g} MB in bfloat16 "
        f"on cpu, eager attention, {target.cache_bytes_per_token:,} bytes of KV cache a token"
    )
    assert target.weight_bytes / target.parameters == pytest.approx(2, rel=CLOSE)


def test_devices_are_all_named():
    target = random_model("llama", 1)
    target.lm_head.to("meta")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("specdec_lab.measure.loaded.cache_bytes_per_token", lambda model: 1)
        part, _ = describe_pair(Pair("x", target, PromptLookupDrafter(), None))
    assert part.devices == ("cpu", "meta") and "on cpu and meta" in str(part)
