"""Small random targets of some families, and untrained EAGLE drafts for them."""

from __future__ import annotations

import torch
from helpers import VOCABULARY, random_model

from specdec_lab.models.eagle import EagleDraft

FAMILIES = ("llama", "gpt2", "qwen2", "mistral")
ONE_LAYER = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 1,
    "max_position_embeddings": 512,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}


def eagle_pair(family: str, tokens: int = 40, **changes):
    """A target of four layers, and a draft that guesses `tokens` of its tokens."""
    layers = "n_layer" if family == "gpt2" else "num_hidden_layers"
    target = random_model(family, seed=3, **{layers: 4} | changes)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        draft = EagleDraft(ONE_LAYER, [1, 2, 4], tokens)
        draft.ids.copy_(torch.randperm(VOCABULARY)[:tokens].sort().values.int())
    return target, draft.eval()
