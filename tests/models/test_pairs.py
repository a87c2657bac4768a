"""Pairs by name: the bundled ones are the files on their card, and the lessons are stable; any two models make a pair."""

from __future__ import annotations

import hashlib
import json
import shutil
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from helpers import full_logits
from tokenizers import normalizers, pre_tokenizers
from transformers import AutoTokenizer

from specdec_lab import autoregressive_decode, load_pair, speculative_decode, speculative_rounds
from specdec_lab.decoding.eagle import EagleDrafter
from specdec_lab.decoding.early_exit import EarlyExitDrafter
from specdec_lab.decoding.lookup import PromptLookupDrafter
from specdec_lab.decoding.rounds import Trace
from specdec_lab.files import ASSETS
from specdec_lab.models.loading import Loading, check_same_tokens, multiplies_bfloat16, no_progress_bar
from specdec_lab.models.pairs import random_like
from specdec_lab.models.scripted import ScriptedModel, last_token
from specdec_lab.training.eagle import new_draft
from specdec_lab.training.gates import repeated_within, shared_between


@pytest.fixture(scope="module")
def tiny():
    return load_pair("tiny")


@pytest.fixture(scope="module")
def weak():
    return load_pair("tiny-weak")


def test_pair_is_what_its_docstring_says(tiny):
    assert tiny.target.config.num_hidden_layers == 16
    assert tiny.draft.config.num_hidden_layers == 1
    assert tiny.target.config.max_position_embeddings == 4096
    assert tiny.target.dtype == tiny.draft.dtype == torch.float32
    assert not tiny.target.training and not tiny.draft.training
    assert tiny.eos_token_id == tiny.tokenizer.eos_token_id == 0
    text = "Naïve – 12\tΩ\n\n  spaces "
    assert tiny.decode(tiny.encode(text)) == text  # byte-level: any text survives


def test_tiny_weak_shares_the_target(tiny, weak):
    for name, tensor in weak.target.state_dict().items():
        assert torch.equal(tensor, tiny.target.state_dict()[name])
    assert sum(p.numel() for p in weak.draft.parameters()) < sum(p.numel() for p in tiny.draft.parameters())


def test_weights_are_small_and_are_the_ones_on_the_card():
    folder = ASSETS / "tiny"
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    files = {f.relative_to(folder).as_posix(): f for f in folder.rglob("*") if f.is_file()}
    assert set(card["sha256"]) == set(files) - {"card.json", "CARD.md"}
    for name, digest in card["sha256"].items():
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == digest, name
    assert sum(f.stat().st_size for f in files.values()) < 14e6
    assert files["weak/model.safetensors"].stat().st_size < 1e6
    for key in ("origin", "licence", "seed", "recipe", "figures", "corpus_sha256"):
        assert card[key]


def greedy_texts(model, prompts, count):
    """What transformers' own `generate` writes behind all prompts at once; shorter prompts are padded in front."""
    longest = max(map(len, prompts))
    padded = torch.tensor([[0] * (longest - len(ids)) + ids for ids in prompts])
    real = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
    settings = {"do_sample": False, "max_new_tokens": count, "eos_token_id": [], "pad_token_id": 0}
    return model.generate(padded, attention_mask=real, **settings)[:, longest:].tolist()


@pytest.mark.weights
def test_lesson_prompts_have_no_near_ties(tiny):
    """A pass without padding or cache says of each text: it is the target's own, and every second best is well below."""
    assert len(tiny.prompts) >= 12 and len(set(tiny.prompts)) == len(tiny.prompts)
    texts = greedy_texts(tiny.target, tiny.prompt_ids, 128)
    for prompt, ids, text in zip(tiny.prompts, tiny.prompt_ids, texts, strict=True):
        best = full_logits(tiny.target, [*ids, *text])[len(ids) - 1 : -1].topk(2)
        assert best.indices[:, 0].tolist() == text and len(text) == 128, prompt
        assert (best.values[:, 0] - best.values[:, 1]).min() > 1e-3, prompt


@pytest.mark.parametrize("gamma", [1, 4, 16])
def test_bundled_pairs_decode_exactly(tiny, weak, gamma):
    for pair in (tiny, weak):
        ids = pair.prompt_ids[gamma % len(pair.prompts)]
        plain = autoregressive_decode(pair.target, ids, 64, pair.eos_token_id)
        fast, rate = speculative_decode(pair.target, pair.draft, ids, 64, gamma, pair.eos_token_id)
        assert fast == plain
        assert 0 < rate < 1


@pytest.mark.weights
def test_the_distilled_draft_guesses_better_and_the_text_does_not_loop(tiny, weak):
    alphas, texts = {}, []
    for pair in (tiny, weak):
        traces = [
            Trace.of(
                ids,
                speculative_rounds(
                    pair.target, pair.draft, ids, max_new_tokens=96, gamma=4, eos_token_id=None
                ),
            )
            for ids in pair.prompt_ids[:6]
        ]
        accepted, rejected = sum(t.accepted for t in traces), sum(t.rejected for t in traces)
        alphas[pair.name] = accepted / (accepted + rejected)
        texts = [trace.new_tokens for trace in traces]
    assert alphas["tiny"] > alphas["tiny-weak"] + 0.1
    assert repeated_within(texts) < 0.03
    assert shared_between(texts) < 0.08


def test_any_two_local_folders_make_a_pair(tiny, tmp_path):
    for name in ("target", "weak"):
        shutil.copytree(ASSETS / "tiny" / name, tmp_path / name)
        tiny.tokenizer.save_pretrained(tmp_path / name)
    pair = load_pair(target=tmp_path / "target", draft=tmp_path / "weak", dtype="bfloat16")
    assert pair.target.dtype == torch.bfloat16
    assert pair.prompts == () and pair.encode("To be") == tiny.encode("To be")


def test_wrong_names_are_refused_in_words():
    with pytest.raises(ValueError, match=r"tiny, tiny-weak.*'huge'"):
        load_pair("huge")
    with pytest.raises(ValueError, match="draft is missing"):
        load_pair(target="somewhere")


@pytest.mark.parametrize("device", ["abacus", "cuda:x", 1.5])
def test_a_device_that_is_none_is_refused(device):
    with pytest.raises(ValueError, match="device must name a torch device"):
        load_pair("tiny", device=device)


def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="device 'cuda:1' is not there; torch sees cpu"):
        load_pair("tiny", device="cuda:1")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="target must be a local folder or a Hub id; there is no folder"):
        load_pair(target=tmp_path / "none", draft=tmp_path)
    with pytest.raises(ValueError, match="target must be a local folder with a model and its tokenizer"):
        load_pair(target=tmp_path, draft=tmp_path)


# ---------------------------------------------------------------- random models of another shape

SHAPE = {
    "num_hidden_layers": 2,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 8,
}


def test_a_random_model_has_the_shape_that_was_asked_for(tiny):
    model, vocabulary = random_like(tiny.target, **SHAPE), tiny.target.config.vocab_size
    assert type(model) is type(tiny.target) and model.dtype == torch.float32 and not model.training
    attention = 24 * (3 + 1 + 1) * 8 + 3 * 8 * 24  # q, k, v; and back
    norms = 2 * 2 * 24 + 24
    assert sum(p.numel() for p in model.parameters()) == (
        vocabulary * 24 + 2 * (attention + 3 * 24 * 40) + norms
    )
    ids = tiny.prompt_ids[0][:4]
    assert len(autoregressive_decode(model, ids, 3, None)) == 7, "it reads the pair's tokens"


def test_a_random_model_depends_on_its_seed_and_on_nothing_else(tiny):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, same, other = (random_like(tiny.target, seed=seed, **SHAPE) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    for a, b, c in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.dim() < 2 or not torch.equal(a, c)


def test_the_given_model_stays_as_it_is(tiny):
    before = tiny.target.config.to_dict(), [p.clone() for p in tiny.target.parameters()]
    random_like(tiny.target, **SHAPE)
    assert tiny.target.config.to_dict() == before[0]
    assert all(torch.equal(p, q) for p, q in zip(tiny.target.parameters(), before[1], strict=True))


def test_a_field_that_there_is_not_is_refused(tiny):
    with pytest.raises(ValueError, match="shape must name fields of LlamaConfig, got n_layers"):
        random_like(tiny.target, n_layers=3)
    with pytest.raises(TypeError, match="model must be a transformers model, got ScriptedModel"):
        random_like(ScriptedModel(last_token(1, 5), 5))


# ---------------------------------------------------------------- any pair


@pytest.fixture(scope="module")
def any_two(tiny, tmp_path_factory):
    """A small random target with a padded vocabulary and a smaller draft, saved with the bundled tokenizer."""
    base, width = tmp_path_factory.mktemp("pairs"), len(tiny.tokenizer)
    folders = {}
    for name, layers, vocabulary in (("target", 4, width + 64), ("draft", 1, width)):
        folders[name] = base / name
        model = random_like(tiny.target, **SHAPE | {"num_hidden_layers": layers, "vocab_size": vocabulary})
        with no_progress_bar():
            model.save_pretrained(folders[name])
        tiny.tokenizer.save_pretrained(folders[name])
    return folders


def retold(tiny, folder, **changes):
    """The bundled tokenizer saved again with a change."""
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / "tiny")
    for name, value in changes.items():
        setattr(tokenizer.backend_tokenizer, name, value)
    tokenizer.save_pretrained(folder)
    return folder


def test_tokenizers_are_compared_by_what_they_encode(tiny, any_two, tmp_path):
    folder = tmp_path / "again"
    shutil.copytree(any_two["draft"], folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings |= {
        "name_or_path": "elsewhere",
        "pad_token": "<|padding|>",
        "extra_special_tokens": ["<|more|>"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert len(AutoTokenizer.from_pretrained(folder)) == len(tiny.tokenizer) + 2
    pair = load_pair(target=any_two["target"], draft=folder)
    assert pair.encode("To be") == tiny.encode("To be")

    for change, text in (
        ({"normalizer": normalizers.Lowercase()}, "Once more unto"),
        ({"normalizer": normalizers.NFC()}, "Über façade"),
        ({"normalizer": normalizers.Strip()}, "Über façade"),
        ({"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)}, "Once more unto"),
    ):
        retold(tiny, folder, **change)
        with pytest.raises(ValueError, match=rf"encode the same text differently.*{text}.*token \d+ is"):
            load_pair(target=any_two["target"], draft=folder)


def test_a_tokenizer_that_ends_early_is_told_apart(tiny):
    class Short:
        def encode(self, text, add_special_tokens):
            return tiny.tokenizer.encode(text, add_special_tokens=False)[:5]

        decode = staticmethod(tiny.tokenizer.decode)

    with pytest.raises(ValueError, match=r"token 5 is .* for the target, none for the draft"):
        check_same_tokens(tiny.tokenizer, Short(), "a", "b")


def test_a_begin_token_is_put_in_front_once_and_nothing_behind(tiny):
    """Llama 3 and Gemma write badly without theirs; a chat template writes it itself."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = deepcopy(tiny.tokenizer)
    begin, end = (tokenizer.convert_ids_to_tokens(i) for i in (7, tiny.eos_token_id))
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A {end}", special_tokens=[(begin, 7), (end, tiny.eos_token_id)]
    )
    assert tokenizer.encode("To be")[0] == 7, "the tokenizer itself adds them"
    pair = replace(tiny, tokenizer=tokenizer)
    plain = tiny.encode("To be")
    assert pair.encode("To be") == [7, *plain] and pair.encode("") == [7]
    assert pair.encode(tiny.decode([7]) + "To be") == [7, *plain]
    assert tiny.encode("") == [] and tiny.encode("a") == tiny.tokenizer.encode("a")


def test_a_chat_template_writes_all_special_tokens_itself(tiny):
    from tokenizers.processors import TemplateProcessing

    tokenizer = deepcopy(tiny.tokenizer)
    begin = tokenizer.convert_ids_to_tokens(7)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A", special_tokens=[(begin, 7)]
    )
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['content'] }}:{% endfor %}"  # without a begin token
    )
    text = tokenizer.apply_chat_template([{"role": "user", "content": "To be"}], tokenize=False)
    pair = replace(tiny, tokenizer=tokenizer, prompts=(text,))
    assert pair.chat("To be") == pair.prompt_ids[0] == tiny.encode("To be:")
    assert pair.encode("To be") == [7, *tiny.encode("To be")]


def test_a_pair_is_shown_in_one_line(tiny):
    assert repr(tiny) == (
        "Pair('tiny': target from bundled tiny/target, draft from bundled tiny/draft; 16 prompts)"
    )


def test_a_padded_vocabulary_is_decoded_exactly(tiny, any_two):
    pair = load_pair(target=any_two["target"], draft=any_two["draft"])
    width = len(tiny.tokenizer)
    for prompt in ([5, 6, 7], [5, width + 3, 7]):  # an id that only the target has
        plain = autoregressive_decode(pair.target, prompt, 24, None)
        assert speculative_decode(pair.target, pair.draft, prompt, 24, 4, None)[0] == plain


def test_a_named_pair_takes_drafts_without_a_model(tiny):
    for draft, kind in (("prompt-lookup", PromptLookupDrafter), ("early-exit:3", EarlyExitDrafter)):
        pair = load_pair("tiny", draft=draft)
        assert isinstance(pair.draft, kind) and pair.name == f"tiny + {draft}"
        assert pair.prompts == tiny.prompts and pair.sources["target"] == "bundled tiny/target"
    assert pair.draft.layers == 3


def test_an_eagle_draft_comes_from_its_folder(tiny, tmp_path):
    draft = new_draft(tiny.target, (2, 8, 16), torch.arange(200, dtype=torch.int32))
    draft.save(tmp_path)
    pair = load_pair("tiny", draft=f"eagle:{tmp_path}")
    assert isinstance(pair.draft, EagleDrafter) and pair.sources["draft"] == f"EAGLE draft, {tmp_path}"
    ids = tiny.prompt_ids[0]
    plain = autoregressive_decode(pair.target, ids, 24, None)
    assert speculative_decode(pair.target, pair.draft, ids, 24, 4, None)[0] == plain
    with pytest.raises(
        ValueError, match="draft 'eagle' is not possible: no draft is bundled for this target"
    ):
        load_pair("tiny", draft="eagle")
    with pytest.raises(ValueError, match="folder must hold EagleDraft"):
        load_pair("tiny", draft=f"eagle:{tmp_path / 'nothing'}")


def test_what_is_asked_for_is_what_is_loaded(any_two):
    for dtype in ("bfloat16", torch.bfloat16, "torch.bfloat16"):
        pair = load_pair(**any_two, dtype=dtype, attention="eager")
        assert pair.target.dtype == pair.draft.dtype == torch.bfloat16
        assert pair.target.config._attn_implementation == pair.draft.config._attn_implementation == "eager"
        assert not pair.target.training and not pair.draft.training
    assert load_pair(**any_two).target.dtype == torch.float32


@pytest.mark.parametrize("dtype", ["int8", "float99", torch.int64, "tensor", 32])
def test_a_dtype_that_is_none_is_refused(dtype):
    with pytest.raises(ValueError, match="dtype must be a floating-point dtype such as 'float32'"):
        load_pair("tiny", dtype=dtype)


def test_bfloat16_is_only_chosen_where_it_is_native(monkeypatch):
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    for native in (True, False):
        monkeypatch.setattr(
            torch.cpu, "_is_avx512_bf16_supported", lambda native=native: native, raising=False
        )
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False, raising=False)
        assert multiplies_bfloat16(cpu) is native
        chosen = Loading().in_fastest_dtype().dtype
        assert chosen == (torch.bfloat16 if native else torch.float32)
    assert Loading(dtype="float16").in_fastest_dtype().dtype == torch.float16
    # an older card answers True when emulation counts
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert not multiplies_bfloat16(cuda)


def test_a_target_that_accelerate_places_decodes_exactly(any_two):
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    alone, placed = load_pair(**any_two), load_pair(**any_two, device_map="auto")
    blocks = [
        "model.embed_tokens",
        "model.rotary_emb",
        "model.norm",
        "lm_head",
        *(f"model.layers.{i}" for i in range(4)),
    ]
    by_hand = load_pair(
        target=any_two["target"], draft="early-exit:2", device_map=dict.fromkeys(blocks, "cpu")
    )
    plain = autoregressive_decode(alone.target, [5, 6, 7], 24, None)
    for pair in (placed, by_hand):
        assert speculative_decode(pair.target, pair.draft, [5, 6, 7], 24, 4, None)[0] == plain
    assert placed.draft.device == torch.device("cpu")


def test_a_draft_is_put_beside_a_target_that_is_spread_out(any_two):
    target = load_pair(**any_two).target.to("meta")
    how = Loading(dtype="bfloat16", device_map="auto")
    assert how.beside(target) == Loading(dtype="bfloat16"), "not where nothing lies"
    assert Loading(device="cpu").beside(target) == Loading(device="cpu")


def test_without_accelerate_a_device_map_is_refused_in_words(any_two, monkeypatch):
    import transformers.modeling_utils as modeling

    def absent(*args, **more):
        raise ImportError("Using a `device_map` requires accelerate")

    monkeypatch.setattr(modeling.PreTrainedModel, "from_pretrained", absent)
    with pytest.raises(
        ValueError, match=r"device_map 'auto' cannot be loaded for decoding: .*requires accelerate"
    ):
        load_pair(**any_two, device_map="auto")
