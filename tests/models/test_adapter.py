"""transformers families behind the protocol: exact beyond every window, or refused by name before a pass.

The truth is an uncached loop straight through transformers; text that hardly varies would prove nothing.
"""

from __future__ import annotations

import logging

import pytest
import torch
from helpers import (
    VOCABULARY,
    assert_rounds_hold,
    assert_same_text,
    full_logits,
    random_model,
    uncached_greedy,
    with_noise,
)
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from specdec_lab import Trace, autoregressive_decode, speculative_decode, speculative_rounds
from specdec_lab.models.protocol import as_model, context_length, keeps_logits, vocabulary_size
from specdec_lab.models.transformers_adapter import TransformersAdapter

SLIDING = {"sliding_window": 8}
MIXED = {"num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
PLAIN_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
FAMILIES = {  # family: (seed, noise of the draft, settings)
    "gpt2": (5, 0.02, {}),
    "llama": (1, 0.006, {}),
    "qwen2": (3, 0.01, {}),
    "mistral": (3, 0.006, SLIDING),
    "gemma2": (1, 0.02, {"head_dim": 8, "tie_word_embeddings": False, **SLIDING}),  # sliding and full in turn
    "gemma3_text": (1, 0.01, {"head_dim": 8, "tie_word_embeddings": False, **MIXED, **SLIDING}),
    "phi": (3, 0.02, {"num_key_value_heads": 4, "partial_rotary_factor": 0.5}),
    "gpt_oss": (2, 0.01, {"head_dim": 8, "num_local_experts": 4, **PLAIN_ROPE, **SLIDING}),  # attention sinks
}
PROMPT = [5, 9, 13, 7]
NEW = 60  # far beyond the window of 8


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request):
    seed, noise, settings = FAMILIES[request.param]
    target = random_model(request.param, seed, **settings)
    draft = with_noise(target, noise, seed=9)
    reference = uncached_greedy(target, PROMPT, NEW)
    assert len(set(reference.tokens)) >= 10, (request.param, reference.tokens)
    assert reference.first_near_tie is None, request.param
    return target, draft, reference


@pytest.mark.parametrize("family", [name for name in FAMILIES if "sliding_window" in FAMILIES[name][2]])
def test_the_window_matters(family):
    """Otherwise the sliding families below would be tested like any other."""
    seed, _, settings = FAMILIES[family]
    texts = [
        uncached_greedy(
            random_model(family, seed, **{**settings, "sliding_window": window}), PROMPT, NEW
        ).tokens
        for window in (8, 256)
    ]
    assert texts[0][:4] == texts[1][:4] and texts[0] != texts[1]


def test_plain_text_is_exact(pair):
    target, _, reference = pair
    assert_same_text(autoregressive_decode(target, PROMPT, NEW, None)[len(PROMPT) :], reference)


@pytest.mark.parametrize("gamma", [1, 4, 12])
def test_speculative_text_is_exact(pair, gamma):
    """gamma 12 is wider than the window of 8; drafts are accepted and rejected beyond it."""
    target, draft, reference = pair
    rounds = list(
        speculative_rounds(target, draft, PROMPT, max_new_tokens=NEW, gamma=gamma, eos_token_id=None)
    )
    assert_same_text(assert_rounds_hold(PROMPT, rounds, (), NEW), reference)
    late = Trace(tuple(PROMPT), tuple(rounds[len(rounds) // 2 :]))
    assert late.rejected and late.accepted
    agreeing = list(
        speculative_rounds(target, target, PROMPT, max_new_tokens=NEW, gamma=gamma, eos_token_id=None)
    )
    assert Trace.of(PROMPT, agreeing).rejected == 0


@torch.inference_mode()
def test_logits_after_a_cut_are_those_without_a_cache(pair):
    """Also where the cut lies beyond the window, and block by block."""
    adapter = TransformersAdapter(pair[0])
    sequence = [(5 * i * i + i) % VOCABULARY for i in range(30)]
    truth = full_logits(adapter.model, sequence)
    bound = 1e-5 * max(1.0, float(truth.abs().max()))
    cache = adapter.forward(torch.tensor([sequence])).past_key_values
    for valid, until in ((20, 25), (24, 30), (29, 30), (3, 30), (0, 12), (11, 30)):
        adapter.truncate_cache(cache, valid)
        got = adapter.forward(torch.tensor([sequence[valid:until]]), past_key_values=cache)
        assert got.past_key_values is cache and cache.get_seq_length() == until
        torch.testing.assert_close(got.logits[0], truth[valid:until], rtol=0, atol=bound)


@torch.inference_mode()
def test_only_the_last_logits_are_built(pair):
    adapter = TransformersAdapter(pair[0])
    assert keeps_logits(adapter)
    ids = torch.tensor([PROMPT])
    whole = adapter.forward(ids).logits
    assert whole.shape == (1, 4, VOCABULARY)
    for count in (1, 3):
        kept = adapter.forward(ids, logits_to_keep=count).logits
        torch.testing.assert_close(kept, whole[:, -count:], rtol=0, atol=1e-4)
    assert adapter.forward(ids, logits_to_keep=None).logits.shape == whole.shape


def test_the_head_never_sees_a_prompt_s_other_rows():
    """A 2048-token prompt on a large vocabulary would otherwise build hundreds of megabytes of logits."""
    model = random_model("llama", seed=1)
    seen = []
    model.lm_head.register_forward_hook(lambda module, args, output: seen.append(output.shape[1]))
    speculative_decode(model, model, [1, 2, 3] * 20, 12, 3, None)
    assert seen[:4] == [1, 1, 1, 4] and max(seen) == 4


def test_what_an_adapter_states():
    model = random_model("gpt2", seed=5, n_positions=77)
    adapter = as_model(model)
    assert isinstance(adapter, TransformersAdapter) and as_model(adapter) is adapter
    assert (vocabulary_size(adapter), context_length(adapter)) == (VOCABULARY, 77)
    assert adapter.device == torch.device("cpu") and adapter.dtype == torch.float32
    assert adapter.name == "gpt2" and adapter.model is model


@torch.inference_mode()
def test_without_a_cache(pair):
    adapter = TransformersAdapter(pair[0])
    output = adapter.forward(torch.tensor([PROMPT]), use_cache=False)
    assert output.past_key_values is None
    torch.testing.assert_close(output.logits[0], full_logits(adapter.model, PROMPT), rtol=0, atol=0)


def test_nothing_is_logged_or_warned(pair, caplog, recwarn):
    """Deprecated names would show here first (stderr of a fresh process is looked at in the faults, F03)."""
    loggers = [logging.getLogger("transformers"), logging.getLogger()]
    for logger in loggers:
        logger.addHandler(caplog.handler)
    try:
        speculative_decode(pair[0], pair[1], PROMPT, 12, 3, None)
    finally:
        for logger in loggers:
            logger.removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records] == [] and len(recwarn) == 0


# ---------------------------------------------------------------- refused


SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
REFUSED = {  # name: (auto class, model type, settings, a word of the reason)
    "encoder-decoder": (
        AutoModelForSeq2SeqLM,
        "t5",
        {"d_model": 32, "num_heads": 4, "d_kv": 8, "d_ff": 48, "num_layers": 2, "vocab_size": VOCABULARY},
        "encoder-decoder",
    ),
    "recurrent": (AutoModelForCausalLM, "mamba", {**SMALL, "state_size": 8}, "recurrent"),
    "hybrid": (
        AutoModelForCausalLM,
        "qwen3_next",
        {
            **SMALL,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "intermediate_size": 48,
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
        "recurrent",
    ),
    "convolution": (
        AutoModelForCausalLM,
        "lfm2",
        {
            **SMALL,
            "num_key_value_heads": 2,
            "intermediate_size": 48,
            "layer_types": ["conv", "full_attention"],
        },
        "conv",
    ),
    "no head": (AutoModel, "bert", {**SMALL, "intermediate_size": 48}, "head"),
    "no head, decoder": (
        AutoModel,
        "llama",
        {**SMALL, "num_key_value_heads": 2, "intermediate_size": 48},
        "head",
    ),
    "encoder with a head": (AutoModelForCausalLM, "bert", {**SMALL, "intermediate_size": 48}, "causal"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_a_pass(name):
    build, family, settings, reason = REFUSED[name]
    model = build.from_config(AutoConfig.for_model(family, **settings)).eval()
    ran = []
    model.register_forward_pre_hook(lambda *args: ran.append(1))
    with pytest.raises(ValueError, match=rf"'{family}'.*{reason}"):
        TransformersAdapter(model)
    fine = random_model("llama", seed=1)
    for target, draft in ((model, fine), (fine, model)):
        with pytest.raises(ValueError, match=family):
            speculative_rounds(target, draft, PROMPT, max_new_tokens=4, gamma=2, eos_token_id=None)
    assert not ran


@pytest.mark.parametrize("family", ["camembert", "megatron-bert"])
def test_encoders_that_see_both_ways_are_never_silently_wrong(family):
    """Loaded without `is_decoder`, attention has no causal mask: cached text differs from the model's own."""
    model = random_model(family, seed=0)
    assert not model.config.is_decoder
    with pytest.raises((ValueError, RuntimeError), match=family.split("-")[0]):
        speculative_decode(model, with_noise(model, 0.01, seed=9), PROMPT, 20, 4, None)


SWITCH = 32
LONGROPE = {
    "original_max_position_embeddings": SWITCH,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 4,
        "long_factor": [4.0] * 4,
        "original_max_position_embeddings": SWITCH,
    },
}


@pytest.mark.parametrize(("length", "new"), [(4, 28), (33, 40), (40, 40)])
def test_rotary_embeddings_on_one_side_of_their_switch_are_exact(length, new):
    target = random_model("phi3", seed=1, **LONGROPE)
    draft = with_noise(target, 0.01, seed=9)
    prompt = [(5 * i * i + 9) % VOCABULARY for i in range(length)]
    reference = uncached_greedy(target, prompt, new)
    assert len(set(reference.tokens)) >= 8
    for gamma in (1, 8):
        rounds = list(
            speculative_rounds(target, draft, prompt, max_new_tokens=new, gamma=gamma, eos_token_id=None)
        )
        assert_same_text(assert_rounds_hold(prompt, rounds, (), new), reference)


def test_rotary_embeddings_that_would_switch_are_refused():
    """`longrope` turns by other angles beyond a length: a block across it is not what single steps give."""
    target = random_model("phi3", seed=1, **LONGROPE)
    ran = []
    target.register_forward_pre_hook(lambda *args: ran.append(1))
    for decode in (
        lambda: speculative_decode(target, target, PROMPT, 50, 8, None),
        lambda: autoregressive_decode(target, PROMPT, 50, None),
    ):
        with pytest.raises(ValueError, match=rf"(?s)50.*phi3.*{SWITCH}"):
            decode()
    assert not ran


@pytest.mark.parametrize("thing", [None, object(), torch.nn.Linear(2, 2)])
def test_only_transformers_models_are_adapted(thing):
    with pytest.raises(TypeError, match=type(thing).__name__):
        TransformersAdapter(thing)
    with pytest.raises(TypeError, match=rf"some_argument.*{type(thing).__name__}"):
        as_model(thing, "some_argument")
