"""Public pairs: sizes as transformers counts them and makers print them, claims that hold, a source for every row."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from specdec_lab.models.public_pairs import MEMORIES, PAIRS, PROMPT_LOOKUP, SHAPES, public_pairs

MODELS = {model.name: model for pair in PAIRS for model in pair.models}


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_that_transformers_builds(name):
    """On the meta device: shapes without memory. One layer more is what a layer adds."""
    model = MODELS[name]
    config = {
        "vocab_size": model.vocabulary,
        "hidden_size": model.width,
        "intermediate_size": model.inner,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.key_value_heads,
        "head_dim": model.head_size,
        "tie_word_embeddings": model.tied,
    }
    sizes = []
    for layers in (1, 2):
        built = AutoConfig.for_model(model.maker.kind, num_hidden_layers=layers, **config)
        with torch.device("meta"):
            made = dict(AutoModelForCausalLM.from_config(built).named_parameters())
        if model.tied:
            made.pop("lm_head.weight", None)  # some versions tie no weights on the meta device
        sizes.append(sum(weight.numel() for weight in made.values()))
    one, two = sizes
    assert model.parameters == one + (model.layers - 1) * (two - one)


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_that_the_maker_prints(name):
    """Rounded by the maker: within 1.5 %. A wrong width, vocabulary or tied head would be further off."""
    model = MODELS[name]
    assert model.parameters / 1e9 == pytest.approx(model.billions, rel=0.015)
    untied = model.vocabulary * model.width * (1 if model.tied else -1)
    assert (model.parameters + untied) / 1e9 != pytest.approx(model.billions, rel=0.015)


def test_known_sizes():
    assert MODELS["HuggingFaceTB/SmolLM2-135M-Instruct"].parameters == 134_515_008
    assert MODELS["Qwen/Qwen3-8B"].parameters * 2 / 1e9 == pytest.approx(
        16.4, abs=0.05
    )  # its files on the Hub
    assert MODELS["meta-llama/Llama-3.1-8B-Instruct"].cache_bytes_per_token == 131_072


def test_cache_bytes_are_what_the_slab_cache_takes():
    """A model of SmolLM2's attention, one layer, in bfloat16."""
    from specdec_lab.measure.memory import cache_bytes_per_token

    model = MODELS["HuggingFaceTB/SmolLM2-135M-Instruct"]
    config = AutoConfig.for_model(
        "llama",
        vocab_size=64,
        hidden_size=model.width,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=model.heads,
        num_key_value_heads=model.key_value_heads,
    )
    built = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    assert cache_bytes_per_token(built) * model.layers == model.cache_bytes_per_token


def test_every_row_has_licence_reason_and_source():
    frame = public_pairs()
    assert len(frame) == len(PAIRS) >= 8
    assert not frame.duplicated(["target", "draft"]).any()
    for row in frame.to_dict("records"):
        assert row["licence"] and row["why"]
        assert row["same_tokens"].startswith(("one vocabulary of", "one byte-level BPE of"))
        assert row["source"].count("https://") >= 2 and SHAPES in row["source"]
        assert row["gated"] == row["target"].startswith("meta-llama/")
        licences = {"Qwen": "Apache-2.0", "HuggingFaceTB": "Apache-2.0", "meta-llama": "Llama 3."}
        assert row["licence"].startswith(licences[row["target"].split("/")[0]])
    both = frame.set_index("target").loc["meta-llama/Llama-3.1-8B-Instruct"]
    assert both["licence"] == "Llama 3.1 Community License; Llama 3.2 Community License"
    assert "llama3_1" in both["source"] and "llama3_2" in both["source"]


def test_drafts_are_smaller_and_of_the_target_s_tokenizer():
    for pair in PAIRS:
        if pair.draft is None:
            continue
        assert pair.draft.parameters < 0.5 * pair.target.parameters
        vocabularies = {pair.target.vocabulary, pair.draft.vocabulary}
        assert len(vocabularies) == 1 or vocabularies == {151936, 152064}  # Qwen pads differently
        assert pair.draft.maker.tokens[:40] == pair.target.maker.tokens[:40]  # "one vocabulary of …"
        assert pair.target.maker.licence != "Apache-2.0" or pair.draft.maker.licence == "Apache-2.0"


def test_weights_and_caches_add_up():
    row = public_pairs(tokens=1000).set_index("target").loc["Qwen/Qwen3-8B"]
    assert row["weights_gb"] == pytest.approx(2 * (row["target_billions"] + row["draft_billions"]))
    assert row["cache_bytes_per_token"] == 2 * 2 * (36 + 28) * 8 * 128
    assert row["needs_gb"] == pytest.approx(row["weights_gb"] + 1000 * row["cache_bytes_per_token"] / 1e9)
    alone = public_pairs().iloc[0]
    assert alone["draft"] == PROMPT_LOOKUP and alone["draft_billions"] == 0
    assert alone["cache_bytes_per_token"] == 23_040 and alone["vocabularies"] == "49,152"


def test_rows_are_ordered_and_filtered_by_what_they_need():
    everything = public_pairs()
    assert everything["needs_gb"].is_monotonic_increasing
    previous = 0
    for memory in MEMORIES:
        fitting = public_pairs(memory.gb, share=memory.share)
        assert fitting.equals(everything.head(len(fitting)))
        assert (fitting["needs_gb"] <= memory.gb * memory.share).all()
        assert (everything["needs_gb"][len(fitting) :] > memory.gb * memory.share).all()
        assert previous < len(fitting)  # every kind of machine is good for one more pair
        previous = len(fitting)
    assert previous == len(everything)
    assert public_pairs(0.1).empty and list(public_pairs(0.1).columns) == list(everything.columns)


def test_the_machine_is_the_smallest_that_takes_it():
    rooms = [memory.gb * memory.share for memory in MEMORIES]
    assert rooms == sorted(rooms)
    names = [memory.name for memory in MEMORIES]
    frame = public_pairs()
    for row in frame.to_dict("records"):
        place = names.index(row["machine"])
        assert row["needs_gb"] <= rooms[place] and (place == 0 or row["needs_gb"] > rooms[place - 1])
    assert set(frame["machine"]) == set(names)
    assert frame.set_index("target").loc["Qwen/Qwen3-4B", "machine"] == "free Colab GPU, 16 GB"


def test_a_longer_text_needs_more():
    """At 32,768 tokens the caches alone push a pair out of its memory."""
    assert "Qwen/Qwen3-8B" in set(public_pairs(24)["target"])
    assert "Qwen/Qwen3-8B" not in set(public_pairs(24, tokens=32_768)["target"])
    assert (public_pairs(tokens=32_768)["machine"] == "").sum() > 0


@pytest.mark.parametrize(
    "call, error, message",
    [
        (dict(memory_gb=0), ValueError, "memory_gb must be above 0, got 0"),
        (dict(memory_gb=float("nan")), ValueError, "memory_gb must be above 0, got nan"),
        (dict(tokens=0), ValueError, "tokens must be at least 1"),
        (dict(tokens=1.5), TypeError, "tokens"),
        (dict(share=1.5), ValueError, "share must be between 0 and 1"),
        (dict(share=0), ValueError, "share must be above 0"),
    ],
)
def test_nonsense_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        public_pairs(**call)
