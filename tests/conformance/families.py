"""The zoo: small random models of many families, each with drafts, prompts and the text that the target writes.

It builds, saves, loads and asks transformers for the truth; it does not run the package's decoders.
"""

from __future__ import annotations

import functools
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from helpers import VOCABULARY, Reference, random_model, uncached_greedy, with_noise
from transformers import AutoTokenizer

from specdec_lab import load_pair
from specdec_lab.files import ASSETS
from specdec_lab.models.loading import no_progress_bar

WINDOW = 8  # of every family that has one; prompt and text go far beyond
NEW_TOKENS = 24
PROMPTS = 8
LONGEST_PROMPT = 40
LEAST_VARIETY = 10  # distinct tokens in every text; one that repeats itself would hide a stale cache
TRIES = 60


@dataclass(frozen=True)
class Recipe:
    """How a family is made. `noise` is that of the draft that half agrees."""

    model_type: str
    seed: int
    noise: float
    settings: dict = field(default_factory=dict)
    vocabulary: int = VOCABULARY
    draft_vocabulary: int = VOCABULARY


UNTIED = {"tie_word_embeddings": False}  # tied, a narrow random model repeats its input
SLIDING = {"sliding_window": WINDOW}
SLIDING_THEN_FULL = {"layer_types": ["sliding_attention", "full_attention"], **SLIDING}
WIDE_HEADS = {"head_dim": 8}
EXPERTS = {"num_local_experts": 4}
PLAIN_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
CHUNKED_THEN_FULL = {
    "layer_types": ["chunked_attention", "full_attention"],
    "attention_chunk_size": WINDOW,
    "no_rope_layers": [1, 0],
    "intermediate_size_mlp": 48,
}
GLOBAL_THEN_LOCAL = {
    "num_layers": 2,
    "attention_types": [[["global", "local"], 1]],
    "window_size": WINDOW,
}
LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 12,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
LARGER = {"initializer_range": 0.6}
ZOO = {
    "llama": Recipe("llama", 1, 0.006),
    "llama, eager attention": Recipe("llama", 2, 0.006, {"attn_implementation": "eager"}),
    "gpt2": Recipe("gpt2", 7, 0.02),
    "qwen2, wider draft": Recipe("qwen2", 3, 0.01, UNTIED, draft_vocabulary=72),
    "qwen2, wider target": Recipe("qwen2", 4, 0.01, UNTIED, vocabulary=66),
    "gemma": Recipe("gemma", 1, 0.01, {**WIDE_HEADS, **UNTIED}),
    "gemma2": Recipe("gemma2", 2, 0.02, {**WIDE_HEADS, **UNTIED, **SLIDING}),  # sliding and full in turn
    "gemma3": Recipe("gemma3_text", 2, 0.035, {**WIDE_HEADS, **UNTIED, **SLIDING_THEN_FULL}),
    "phi": Recipe("phi", 5, 0.02, {"num_key_value_heads": 4, "partial_rotary_factor": 0.5}),
    "mistral": Recipe("mistral", 3, 0.006, SLIDING),
    "gpt_neox": Recipe("gpt_neox", 1, 0.013, {"rotary_pct": 0.25}),
    "opt": Recipe("opt", 4, 0.013, {"ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.4}),
    "bloom": Recipe("bloom", 3, 0.013, UNTIED),  # alibi
    "mpt": Recipe("mpt", 8, 0.013, {"max_seq_len": 256, **UNTIED, **LARGER}),  # alibi
    "falcon": Recipe("falcon", 9, 0.02, {**UNTIED, **LARGER}),  # one head of keys and values
    "gpt_oss": Recipe("gpt_oss", 2, 0.01, {**WIDE_HEADS, **EXPERTS, **PLAIN_ROPE, **SLIDING}),  # sinks
    "llama4": Recipe("llama4_text", 1, 0.01, {**WIDE_HEADS, **EXPERTS, **CHUNKED_THEN_FULL}),
    "gpt_neo": Recipe("gpt_neo", 1, 0.01, {**UNTIED, **GLOBAL_THEN_LOCAL}),
    "mixtral": Recipe("mixtral", 4, 0.006, EXPERTS),
    "qwen3": Recipe("qwen3", 1, 0.016, {**WIDE_HEADS, **UNTIED}),  # norms on queries and keys
    "phi3": Recipe("phi3", 1, 0.006),
    "smollm3": Recipe("smollm3", 1, 0.006, UNTIED),  # every fourth layer without positions
    "olmo2": Recipe("olmo2", 1, 0.02),  # norms behind the layers
    "granite": Recipe("granite", 1, 0.006, UNTIED),
    "deepseek_v3": Recipe("deepseek_v3", 1, 0.01, LATENT),  # latent attention, experts in the second layer
}
WINDOWED = {  # family: what widens its window beyond every text here
    "gemma2": {"sliding_window": 256},
    "gemma3": {"sliding_window": 256},
    "mistral": {"sliding_window": 256},
    "gpt_oss": {"sliding_window": 256},
    "llama4": {"attention_chunk_size": 256},
    "gpt_neo": {"window_size": 256},
}


@dataclass(frozen=True)
class Family:
    """A target as built and as loaded from disk, its drafts, and its own text behind each prompt.

    The agreeing draft of the built target is made from the loaded one and the other way round.
    """

    name: str
    recipe: Recipe
    targets: dict[str, Any]  # "built", "loaded"
    drafts: dict[tuple[str, str], Any]  # ("agree", "half" or "disagree"; the target's key)
    prompts: tuple[list[int], ...]
    references: tuple[Reference, ...]


@functools.cache
def family(name: str) -> Family:
    """Build one family; once per process."""
    recipe = ZOO[name]
    built = make(recipe)
    half = resized(with_noise(built, recipe.noise, seed=9), recipe)
    disagreeing = resized(make(recipe, seed=recipe.seed + 100), recipe)
    loaded = saved_and_loaded(built, half)
    texts = list(varied_texts(name, recipe, built))
    return Family(
        name=name,
        recipe=recipe,
        targets={"built": built, "loaded": loaded.target},
        drafts={
            ("agree", "built"): resized(loaded.target, recipe),
            ("agree", "loaded"): resized(built, recipe),
            ("half", "built"): loaded.draft,
            ("half", "loaded"): half,
            ("disagree", "built"): disagreeing,
            ("disagree", "loaded"): disagreeing,
        },
        prompts=tuple(prompt for prompt, _ in texts),
        references=tuple(reference for _, reference in texts),
    )


def make(recipe: Recipe, seed: int | None = None, **changes):
    """A random target of this recipe."""
    settings = {"vocab_size": recipe.vocabulary, **recipe.settings, **changes}
    return random_model(recipe.model_type, recipe.seed if seed is None else seed, **settings)


@torch.no_grad()
def resized(model, recipe: Recipe):
    """The same model over `draft_vocabulary` ids: some left out, or random ones added, as padding does."""
    if recipe.draft_vocabulary == recipe.vocabulary:
        return model
    other = make(recipe, vocab_size=recipe.draft_vocabulary)
    weights = model.state_dict()
    for name, weight in other.state_dict().items():
        rows = min(len(weight), len(weights[name]))
        weight[:rows] = weights[name][:rows]
    return other


def saved_and_loaded(target, draft):
    """Both through `save_pretrained` and the package's own loader, which wants a tokenizer beside them."""
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / "tiny")
    with no_progress_bar(), tempfile.TemporaryDirectory() as folder:
        places = {"target": Path(folder) / "target", "draft": Path(folder) / "draft"}
        for model, place in zip((target, draft), places.values(), strict=True):
            model.save_pretrained(place)
            tokenizer.save_pretrained(place)
        return load_pair(**places)


def varied_texts(name: str, recipe: Recipe, target) -> Iterator[tuple[list[int], Reference]]:
    """Random prompts of 1…40 ids, drawn again where the target's text repeats itself, and those texts.

    Only the last prompt may hold ids that the draft cannot read.
    """
    rng = random.Random(f"prompts of {name}")
    lengths = [1, LONGEST_PROMPT, *(rng.randint(2, LONGEST_PROMPT - 1) for _ in range(PROMPTS - 2))]
    shared = min(recipe.vocabulary, recipe.draft_vocabulary)
    for i, length in enumerate(lengths):
        width = recipe.vocabulary if i == PROMPTS - 1 else shared
        for _ in range(TRIES):
            prompt = [rng.randrange(width) for _ in range(length)]
            reference = uncached_greedy(target, prompt, NEW_TOKENS)
            if len(set(reference.tokens)) >= LEAST_VARIETY:
                break
        yield prompt, reference
