"""Models that cannot be decoded exactly are refused by a sentence that names them, before the first token.

Sentences are compared whole. Families that are decoded are in `test_families.py`; those that look like ordinary
ones and are not, in `test_oddities.py`.
"""

from __future__ import annotations

import re

import pytest
import torch
from families import no_progress_bar
from helpers import VOCABULARY, random_model
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
)

from specdec_lab import autoregressive_decode, benchmark_decoding, speculative_decode, speculative_rounds

PROMPT = [5, 9, 13, 7]
BASE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "pad_token_id": 2,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
GROUPED = {**BASE, "num_key_value_heads": 2, "intermediate_size": 48, "head_dim": 8}
MAMBA_HEADS = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8}
RECURRENT = (
    "keeps a recurrent state, which cannot be rolled back to an earlier token; use an attention-only model"
)
LAYERS = "has {} layers, whose cache cannot be cut by length; use an attention-only model"
TWO_SIDED = (
    "is an encoder-decoder: its cross-attention cache cannot be cut by length; use a decoder-only model"
)
NO_HEAD = "has no language-model head to generate with; load it with AutoModelForCausalLM"
ENCODER = (
    "is loaded as an encoder, which looks ahead; a causal mask is needed (is_decoder=True in its config)"
)

# name: (auto class, model type, settings, class, why)
REFUSED = {
    "mamba": (AutoModelForCausalLM, "mamba", {**BASE, "state_size": 8}, "MambaForCausalLM", RECURRENT),
    "rwkv": (
        AutoModelForCausalLM,
        "rwkv",
        {**BASE, "attention_hidden_size": 32, "context_length": 64},
        "RwkvForCausalLM",
        RECURRENT,
    ),
    "falcon_h1": (
        AutoModelForCausalLM,
        "falcon_h1",
        {**GROUPED, **MAMBA_HEADS, "mamba_d_ssm": 64},
        "FalconH1ForCausalLM",
        RECURRENT,
    ),
    "bamba": (
        AutoModelForCausalLM,
        "bamba",
        {**GROUPED, **MAMBA_HEADS, "attn_layer_indices": [1]},
        "BambaForCausalLM",
        RECURRENT,
    ),
    "qwen3_next": (
        AutoModelForCausalLM,
        "qwen3_next",
        {
            **GROUPED,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
        },
        "Qwen3NextForCausalLM",
        RECURRENT,
    ),
    "lfm2": (
        AutoModelForCausalLM,
        "lfm2",
        {
            **BASE,
            "num_key_value_heads": 2,
            "intermediate_size": 48,
            "layer_types": ["conv", "full_attention"],
        },
        "Lfm2ForCausalLM",
        LAYERS.format("conv"),
    ),
    "minimax": (
        AutoModelForCausalLM,
        "minimax",
        {**GROUPED, "num_local_experts": 2, "layer_types": ["linear_attention", "full_attention"]},
        "MiniMaxForCausalLM",
        LAYERS.format("linear_attention"),
    ),
    "t5": (
        AutoModelForSeq2SeqLM,
        "t5",
        {"d_model": 32, "num_heads": 4, "d_kv": 8, "d_ff": 48, "num_layers": 2, "vocab_size": VOCABULARY},
        "T5ForConditionalGeneration",
        TWO_SIDED,
    ),
    "bart": (
        AutoModelForSeq2SeqLM,
        "bart",
        {
            "d_model": 32,
            "vocab_size": VOCABULARY,
            **{f"{side}_layers": 1 for side in ("encoder", "decoder")},
            **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
            **{f"{side}_ffn_dim": 48 for side in ("encoder", "decoder")},
        },
        "BartForConditionalGeneration",
        TWO_SIDED,
    ),
    "llama without a head": (AutoModel, "llama", GROUPED, "LlamaModel", NO_HEAD),
    "bert, masked": (AutoModelForMaskedLM, "bert", BASE, "BertForMaskedLM", NO_HEAD),
    "bert, loaded as an encoder": (AutoModelForCausalLM, "bert", BASE, "BertLMHeadModel", ENCODER),
}
# model type: settings; attention-only by their config, but what they cache is not one position a token
LATE = {
    "openai-gpt": {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "xlnet": {"vocab_size": VOCABULARY, "d_model": 32, "d_inner": 48, "n_layer": 2, "n_head": 4},
    "reformer": {
        **BASE,
        "is_decoder": True,
        "attn_layers": ["local", "lsh"],
        "axial_pos_embds": False,
        "num_buckets": 4,
        "feed_forward_size": 48,
        "attention_head_size": 8,
        "max_position_embeddings": 256,
    },
    "cpmant": {**BASE, "dim_head": 8, "dim_ff": 48, "prompt_types": 4, "prompt_length": 4},
}


def build(auto, model_type, settings):
    torch.manual_seed(1)
    return auto.from_config(AutoConfig.for_model(model_type, **settings)).eval()


class Passes:
    """How often any of these models ran."""

    def __init__(self, *models):
        self.count = 0
        self._hooks = [model.register_forward_pre_hook(self._note) for model in models]

    def _note(self, *args):
        self.count += 1

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for hook in self._hooks:
            hook.remove()


@pytest.fixture(scope="module")
def fine():
    return random_model("llama", seed=1)


@pytest.fixture(scope="module", params=REFUSED)
def refused(request):
    """Built outside the check of stderr: some families speak of missing kernels when they are made."""
    auto, model_type, settings, kind, why = REFUSED[request.param]
    return auto, build(auto, model_type, settings), f"{kind} (model type {model_type!r}) {why}"


def ways(target, draft):
    """Every entry point, as calls."""
    yield lambda: speculative_rounds(
        target, draft, PROMPT, max_new_tokens=6, gamma=3, eos_token_id=None
    )  # at the call, not at the first `next`
    yield lambda: speculative_decode(target, draft, PROMPT, 6, 3, None)
    yield lambda: benchmark_decoding(target, draft, [PROMPT], 6, 3, None, warmup_runs=0, num_runs=1)


def test_refused_before_any_pass(refused, fine):
    _, model, sentence = refused
    calls = [*ways(model, fine), *ways(fine, model), lambda: autoregressive_decode(model, PROMPT, 6, None)]
    with Passes(model, fine) as passes:
        for call in calls:
            with pytest.raises(ValueError) as error:
                call()
            assert str(error.value) == sentence
    assert passes.count == 0


@pytest.mark.parametrize("refused", ["rwkv", "lfm2", "t5"], indirect=True)
def test_refused_when_loaded_from_disk(refused, fine, tmp_path):
    auto, model, sentence = refused
    with no_progress_bar():
        model.save_pretrained(tmp_path)
        loaded = auto.from_pretrained(tmp_path)
    with Passes(loaded) as passes, pytest.raises(ValueError) as error:
        speculative_decode(loaded, fine, PROMPT, 6, 3, None)
    assert str(error.value) == sentence and passes.count == 0


@pytest.mark.parametrize("model_type", LATE)
def test_a_cache_that_does_not_grow_by_a_token_is_noticed_before_the_first_token(model_type, fine):
    model = build(AutoModelForCausalLM, model_type, LATE[model_type])
    calls = [*ways(model, fine), *ways(fine, model), lambda: autoregressive_decode(model, PROMPT, 6, None)]
    with Passes(model) as passes:
        for call in calls:
            with pytest.raises(ValueError) as error:
                call()
            assert f"(model type {model_type!r})" in str(error.value)
            assert re.search("holds . positions after 3 tokens|cannot process a block", str(error.value))
    assert passes.count <= 4, "asked once, in short passes, and not again"
