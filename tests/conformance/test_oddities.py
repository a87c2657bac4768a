"""Models that look like ordinary decoders and are not: exact, or refused by name before the first token.

Families that hold are in `test_families.py`.
"""

from __future__ import annotations

import pytest
import torch
import transformers
from families import ZOO
from helpers import VOCABULARY, assert_same_text, uncached_greedy, with_noise
from packaging.version import Version
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from specdec_lab import speculative_rounds
from specdec_lab.models.probe import PROVEN
from specdec_lab.models.transformers_adapter import TransformersAdapter

OLD = Version(transformers.__version__) < Version("5.24")
PROMPT = [5, 9, 2, 7, 21, 3, 3, 40]  # 2 is the padding id
NEW_TOKENS = 30
BASE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 256,
    "initializer_range": 0.4,
    "pad_token_id": 2,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
}
GROUPED = {**BASE, "num_key_value_heads": 2, "head_dim": 8}
XLM = {"vocab_size": VOCABULARY, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 256}
PALIGEMMA = {
    "text_config": {"model_type": "gemma", **GROUPED},
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "image_size": 16,
        "patch_size": 8,
    },
    "image_token_index": 60,
    "projection_dim": 32,
}
PROPHETNET = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
    "num_encoder_attention_heads": 4,
    "num_decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 256,
}
# name: (auto class, model type, settings, words of the refusal, whether it must be refused here)
ODD = {
    "paligemma, text only": (AutoModelForImageTextToText, "paligemma", PALIGEMMA, "look ahead", True),
    "llama, is_causal false": (
        AutoModelForCausalLM,
        "llama",
        {**GROUPED, "is_causal": False},
        "look ahead",
        True,
    ),
    "gemma3, bidirectional": (
        AutoModelForCausalLM,
        "gemma3_text",
        {**GROUPED, "use_bidirectional_attention": True},
        "look ahead",
        True,
    ),
    "roberta, positions skip padding ids": (
        AutoModelForCausalLM,
        "roberta",
        {**BASE, "is_decoder": True},
        "other logits",
        True,
    ),
    "xlm": (AutoModelForCausalLM, "xlm", {**XLM, "causal": True}, "cannot process a block", True),
    "prophetnet": (AutoModelForCausalLM, "prophetnet", PROPHETNET, "cannot process a block", True),
    # broken in the oldest version that is supported, mended later
    "moshi": (AutoModelForCausalLM, "moshi", {**GROUPED, "ffn_dim": 48}, "other logits", OLD),
    "persimmon": (AutoModelForCausalLM, "persimmon", GROUPED, "cannot process a block", OLD),
}


@pytest.fixture(scope="module")
def reference(request):
    auto, model_type, settings, *_ = ODD[request.param]
    torch.manual_seed(1)
    model = auto.from_config(AutoConfig.for_model(model_type, **settings)).eval()
    return model_type, model, uncached_greedy(model, PROMPT, NEW_TOKENS)


@pytest.mark.parametrize("reference", ODD, indirect=True)
def test_right_or_refused_before_the_first_token(reference, request):
    model_type, model, truth = reference
    *_, words, must_refuse = ODD[request.node.callspec.params["reference"]]
    refused = 0
    for draft, gamma in ((model, 4), (with_noise(model, 0.01, seed=9), 3)):
        try:
            rounds = speculative_rounds(
                model, draft, PROMPT, max_new_tokens=NEW_TOKENS, gamma=gamma, eos_token_id=None
            )
        except ValueError as error:
            assert model_type in str(error) and words in str(error)
            refused += 1
        else:
            assert_same_text([token for item in rounds for token in item.emitted], truth)
    assert refused in ((2,) if must_refuse else (0, 2))
    assert not model.training


def test_a_model_is_asked_once_and_left_as_found():
    """An unknown type costs its owner a few passes, once; a proven one none."""
    torch.manual_seed(1)
    unknown = AutoModelForCausalLM.from_config(AutoConfig.for_model("starcoder2", **GROUPED)).train()
    passes = []
    hook = unknown.register_forward_pre_hook(lambda *call: passes.append(1))
    TransformersAdapter(unknown)
    assert len(passes) == 4 and unknown.training
    TransformersAdapter(unknown)
    assert len(passes) == 4
    hook.remove()
    proven = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **GROUPED))
    proven.register_forward_pre_hook(lambda *call: pytest.fail("a proven type needs no asking"))
    TransformersAdapter(proven)


def test_what_is_believed_is_what_is_tested():
    assert {recipe.model_type for recipe in ZOO.values()} == PROVEN
