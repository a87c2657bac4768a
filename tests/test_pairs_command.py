"""Any pair on the command line: models of four families saved to folders and decoded exactly, with every kind of draft;
and each wrong combination refused in a sentence, with exit code 2.

The weights are random, the tokenizer is the bundled pair's.
"""

from __future__ import annotations

import json
import re

import pytest
import torch
from helpers import random_model
from tokenizers import normalizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, T5ForConditionalGeneration

from specdec_lab.__main__ import main
from specdec_lab.files import ASSETS
from specdec_lab.models.loading import no_progress_bar

FAMILIES = {
    "llama": {},
    "gpt2": {},
    "qwen2": {"tie_word_embeddings": False},
    "mistral": {"sliding_window": 8},
}
TEMPLATE = "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }}\n{% endfor %}<assistant>"
QUICK = ["--max-prompts", "2", "--max-new-tokens", "12"]
TIMED = [*QUICK, "--gammas", "1,3", "--runs", "1", "--warmup", "0"]


def bundled_tokenizer():
    return AutoTokenizer.from_pretrained(ASSETS / "tiny")


def save(model, folder, tokenizer=None) -> str:
    with no_progress_bar():
        model.save_pretrained(folder)
    (tokenizer or bundled_tokenizer()).save_pretrained(folder)
    return str(folder)


def sized(family: str, layers: int, vocabulary: int, seed: int = 1):
    name = "n_layer" if family == "gpt2" else "num_hidden_layers"
    ids = {"vocab_size": vocabulary, "eos_token_id": 0, "bos_token_id": 0, "pad_token_id": None}
    return random_model(family, seed=seed, **{name: layers}, **ids, **FAMILIES[family])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """name → folder: for each family a target of three layers with a padded vocabulary and a draft of one; and a target
    with a chat template."""
    base, width = tmp_path_factory.mktemp("families"), len(bundled_tokenizer())
    found = {}
    for family in FAMILIES:
        padded = -(-width // 64) * 64 + 64
        found[f"{family} target"] = save(sized(family, 3, padded), base / f"{family}-target")
        found[f"{family} draft"] = save(sized(family, 1, width), base / f"{family}-draft")
    chatty = bundled_tokenizer()
    chatty.chat_template = TEMPLATE
    found["chat"] = save(sized("llama", 3, width), base / "chat", chatty)
    return found


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """name → folder of something that is no part of a pair."""
    base, width = tmp_path_factory.mktemp("wrong"), len(bundled_tokenizer())
    small = {"vocab_size": width, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    lower = bundled_tokenizer()
    lower.backend_tokenizer.normalizer = normalizers.Lowercase()  # the same words, the same name
    found = {"other tokenizer": save(sized("llama", 1, width), base / "lower", lower)}
    encoder = AutoModelForCausalLM.from_config(AutoConfig.for_model("bert", intermediate_size=16, **small))
    found["encoder"] = save(encoder, base / "encoder")
    t5 = AutoConfig.for_model("t5", vocab_size=width, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    found["encoder-decoder"] = save(T5ForConditionalGeneration(t5), base / "encoder-decoder")
    (base / "nothing").mkdir()
    found["nothing"] = str(base / "nothing")
    return found


@pytest.fixture
def texts(tmp_path):
    file = tmp_path / "prompts.json"
    file.write_text(json.dumps(["To be, or not to be", "O Romeo, Romeo! O Romeo"]), encoding="utf-8")
    return ["--prompts", str(file)]


# ---------------------------------------------------------------- what works


@pytest.mark.parametrize("family", FAMILIES)
def test_four_families_saved_and_loaded(family, folders, texts, capsys):
    pair = ["--target", folders[f"{family} target"], "--draft", folders[f"{family} draft"]]
    assert main(["bench", *pair, *texts, *TIMED]) == 0
    output = capsys.readouterr().out
    assert output.count(" yes") == 3 and " NO" not in output
    assert (
        f"target: {folders[f'{family} target']}; " in output
        and f"draft: {folders[f'{family} draft']}; " in output
    )
    assert re.search(
        r"^target: .*parameters, [\d.]+ MB in float32 on cpu, sdpa attention, [\d,]+ bytes", output, re.M
    )


@pytest.mark.parametrize("draft", ["prompt-lookup", "early-exit:1", "early-exit:2"])
def test_drafts_by_name_for_any_target(draft, folders, texts, capsys):
    for family in FAMILIES:
        target = folders[f"{family} target"]
        assert main(["certify", "--target", target, "--draft", draft, *texts, *QUICK]) == 0
        output = capsys.readouterr().out
        assert (
            f"pair {target} + {draft}, 2 prompts in float32, gamma 4, up to 12 new tokens: 2 equal" in output
        )
        assert re.search(r"^draft: .*; no weights and no KV cache of its own$", output, re.M)


@pytest.mark.parametrize("draft", ["prompt-lookup", "early-exit:14"])
def test_drafts_by_name_for_a_bundled_pair(draft, capsys):
    assert main(["demo", "--draft", draft, "--max-new-tokens", "12", "--runs", "1"]) == 0
    output = capsys.readouterr().out
    assert f"pair 'tiny + {draft}'" in output and "identical, token for token" in output


def test_dtype_attention_and_chat(folders, texts, capsys):
    pair = ["--target", folders["chat"], "--draft", "early-exit:2"]
    arguments = ["demo", *pair, "--attention", "eager", "--chat", "--prompt", "Who are you?"]
    assert main([*arguments, "--max-new-tokens", "12", "--runs", "1"]) == 0
    output = capsys.readouterr().out
    assert "  | <user> Who are you?\n  | <assistant>" in output
    assert "in float32 on cpu, eager attention" in output
    main(["demo", *pair, "--dtype", "bfloat16", "--prompt", "Who?", "--max-new-tokens", "4", "--runs", "1"])
    assert "in bfloat16 on cpu, sdpa attention" in capsys.readouterr().out


def test_a_target_spread_by_accelerate_decodes_exactly(folders, texts, capsys):
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    for draft in (folders["llama draft"], "early-exit:2"):
        pair = ["--target", folders["llama target"], "--draft", draft, "--device-map", "auto"]
        assert main(["certify", *pair, *texts, *QUICK]) == 0
        assert "2 prompts in float32, gamma 4, up to 12 new tokens: 2 equal" in capsys.readouterr().out


def test_a_difference_that_rounding_explains_is_no_error(monkeypatch, capsys):
    """Two logits that are equal to the last bit: whichever comes out, the demo says so and is content."""
    from specdec_lab.measure import benchmark, exactness

    class Found:
        near_tie, index = True, 3

    arguments = ["--max-new-tokens", "8", "--runs", "1"]
    real = benchmark.benchmark_decoding

    def differing(*args, **more):
        return real(*args, **more) | {"outputs_match": False, "divergences": ["new token 3 is 5"]}

    monkeypatch.setattr("specdec_lab.benchmark_decoding", differing, raising=False)
    assert main(arguments) == 1, "the same texts, and yet the benchmark found a difference"
    assert "error: new token 3 is 5" in capsys.readouterr().err

    from specdec_lab import demo_command

    decode = demo_command._decode

    def changed(pair, drafter, *more):
        trace = decode(pair, drafter, *more)
        plain = type(drafter).__name__ == "NoDrafter"
        return type(trace)((*trace.prompt[:-1], trace.prompt[-1] + 1), trace.rounds) if plain else trace

    monkeypatch.setattr(demo_command, "_decode", changed)
    monkeypatch.setattr(exactness, "first_divergence", lambda *args, gamma: Found)
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "part at new token 4, a near tie that rounding decides" in captured.out
    assert "note: new token 3 is 5" in captured.err


# ---------------------------------------------------------------- what is refused


REFUSED = [
    (["--target", "llama target"], "draft is missing: a folder, a Hub id, "),
    (["--draft", "llama draft"], "target and draft must be given together; target is missing"),
    (["--target", "llama target", "--draft", "other tokenizer"], "encode the same text differently"),
    (["--target", "llama target", "--draft", "early-exit"], 'draft must be "early-exit:k"'),
    (["--target", "llama target", "--draft", "early-exit:x"], "got 'early-exit:x'"),
    (["--target", "llama target", "--draft", "early-exit:0"], "between 1 and 2, one less than the model has, got 0"),
    (["--target", "llama target", "--draft", "early-exit:3"], "draft 'early-exit:3' is not possible"),
    (["--draft", "early-exit:16"], "between 1 and 15, one less than the model has, got 16"),
    (["--target", "llama draft", "--draft", "early-exit:1"], "two layers or more"),
    (["--target", "llama target", "--draft", "encoder"], "draft '{encoder}' cannot be loaded for decoding: BertLMHeadModel"),
    (["--target", "encoder-decoder", "--draft", "llama draft"], "for decoding: it is an encoder-decoder (model type 't5'); use a decoder-only model"),
    (["--target", "llama target", "--draft", "nothing"], "draft must be a local folder with a model and its tokenizer"),
    (["--target", "./none", "--draft", "prompt-lookup"], "there is no folder './none'"),
    (["--target", "no/such", "--draft", "prompt-lookup"], "or a Hub id that can be reached; 'no/such' is neither"),
    (["--pair", "huge"], "name must be one of smollm2, tiny, tiny-weak, got 'huge'"),
    (["--pair", "tiny", "--target", "llama target", "--draft", "llama draft"], "--target takes the place of --pair tiny"),
    (["--pair", "smollm2", "--draft", "early-exit"], 'draft must be "early-exit:k"'),
    (["--device", "cpu", "--device-map", "auto"], "device and device_map exclude each other, got 'cpu' and 'auto'"),
    (["--device-map", "sideways"], "device_map 'sideways' cannot be loaded for decoding: "),
    (["--device", "abacus"], "device must name a torch device"),
    (["--attention", "none-such"], "attention 'none-such' cannot be loaded for decoding"),
    (["--chat", "prompts"], "pair 'tiny' has no chat template"),
    (["--threads", "0"], "--threads must be at least 1, got 0"),
    (["--target", "llama target", "--draft", "prompt-lookup"], "--prompts FILE is needed"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=[" ".join(case[0]) for case in REFUSED])
def test_what_makes_no_pair_is_refused(arguments, words, folders, wrong, texts, capsys, monkeypatch):
    monkeypatch.setattr("specdec_lab.measure.exactness.certify", lambda *a, **k: pytest.fail("decoded"))
    known = folders | wrong
    given = [known.get(argument, argument) for argument in arguments if argument != "prompts"]
    needs_prompts = "--prompts" not in words and ("prompts" in arguments or "--target" in arguments)
    assert main(["certify", *given, *QUICK, *(texts if needs_prompts else [])]) == 2
    said = capsys.readouterr().err
    for name, folder in known.items():
        words = words.replace(f"{{{name}}}", folder)
    assert "error: " in said and words in said, said
    assert "Traceback" not in said and max(map(len, said.splitlines())) < 700


def test_the_demo_needs_a_prompt_where_the_pair_has_none(folders, capsys):
    assert main(["demo", "--target", folders["llama target"], "--draft", "prompt-lookup"]) == 2
    assert "--prompt TEXT is needed: this pair brings no prompts of its own" in capsys.readouterr().err


def test_a_dtype_that_is_none_is_refused_by_the_parser(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["certify", "--dtype", "int8"])
    assert stop.value.code == 2 and "invalid choice: 'int8'" in capsys.readouterr().err
    assert torch.get_default_dtype() == torch.float32
