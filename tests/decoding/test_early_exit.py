"""Early exit: drafts are those of a model with fewer layers, text and law are the target's own, and nothing is held twice.

The outside truths are uncached loops over the target and over a copy of it that was cut down; families from all over
are in `tests/conformance/test_early_exit_families.py`.
"""

from __future__ import annotations

import copy
import functools
import gc
import random

import pytest
import torch
from helpers import assert_same_text, random_model, uncached_greedy

from specdec_lab import Sampling, Trace, load_pair, speculative_rounds, speculative_sample
from specdec_lab.decoding.early_exit import EarlyExitDrafter
from specdec_lab.measure.exactness import law, speculative_sampler, target_law
from specdec_lab.models.cache import SlabCache, SlabLayer
from specdec_lab.models.early_exit import CacheLender, exit_after
from specdec_lab.models.transformers_adapter import TransformersAdapter

LAYERS = 5
WINDOW = {"sliding_window": 8}
WIDE = {"head_dim": 8, "tie_word_embeddings": False}
ONLY_THE_LAST_IS_FULL = {"layer_types": ["sliding_attention"] * 4 + ["full_attention"], **WINDOW}
FAMILIES = {
    "llama": {},
    "gpt2": {},
    "qwen2": {"tie_word_embeddings": False},
    "mistral": WINDOW,
    "gemma2": {**WIDE, **WINDOW},  # sliding and full in turn
    "gemma3_text": {**WIDE, **ONLY_THE_LAST_IS_FULL},  # the exits have no full layer
}
NEW = 24


@functools.cache
def made(family: str, layers: int = LAYERS, seed: int = 3):
    name = "n_layer" if family == "gpt2" else "num_hidden_layers"
    settings = {**FAMILIES[family], name: layers}
    if layers != LAYERS and "layer_types" in settings:
        settings["layer_types"] = settings["layer_types"][-layers:]
    return random_model(family, seed=seed, **settings)


@functools.cache
def texts(family: str):
    """Prompts of 1 to 20 ids and the target's own text behind each."""
    rng = random.Random(f"early exit of {family}")
    prompts = [[rng.randrange(3, 64) for _ in range(length)] for length in (1, 1, 2, 5, 11, 20)]
    return [(prompt, uncached_greedy(made(family), prompt, NEW)) for prompt in prompts]


def cut_down(model, layers: int):
    """A model of its own with the first layers only."""
    short = copy.deepcopy(model)
    decoder = short.get_decoder()
    stack = "h" if hasattr(decoder, "h") else "layers"
    setattr(decoder, stack, getattr(decoder, stack)[:layers])
    if getattr(short.config, "layer_types", None):
        short.config.layer_types = short.config.layer_types[:layers]
    short.config.num_hidden_layers = layers
    return short


# ---------------------------------------------------------------- greedy


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_is_the_targets_own_in_40_random_settings(family):
    rng = random.Random(f"settings of {family}")
    target, drafted, agreed, distinct = made(family), 0, 0, set()
    drafters = {k: EarlyExitDrafter(target, k) for k in range(1, LAYERS)}
    for case in range(40):
        prompt, reference = texts(family)[case % len(texts(family))]
        layers, gamma, budget = rng.randint(1, LAYERS - 1), rng.randint(1, 8), rng.randint(1, NEW)
        ends = sorted(set(rng.sample(reference.tokens, 2))) if case % 3 == 2 else []
        drafter = drafters[layers]
        run = speculative_rounds(
            target, drafter, prompt, max_new_tokens=budget, gamma=gamma, eos_token_id=ends or None
        )
        trace, cut = Trace.of(prompt, run), uncached_greedy_part(reference, budget)
        assert_same_text(trace.new_tokens, cut, ends)
        distinct |= set(trace.new_tokens)

        length, wanted = len(prompt), budget
        for item in trace.rounds:
            first = item is trace.rounds[0]
            assert item.draft_cache_before is item.draft_cache_after is None
            if first or not ends:  # the loop forgets what was drafted behind an end token
                assert len(item.drafted) == (0 if first else min(gamma, wanted - 1))
            assert item.target_cache_before == (0 if first else length - 1)
            length, wanted = length + len(item.emitted), wanted - len(item.emitted)
            assert item.target_cache_after == length - 1
        if not ends:
            # every draft costs one short pass over one token: nothing was read again
            assert drafter._session.passes == drafter._session.fed_tokens == trace.drafted
        drafted, agreed = drafted + trace.drafted, agreed + trace.accepted
    assert len(distinct) >= 10 and 0 < agreed < drafted


def uncached_greedy_part(reference, count: int):
    return type(reference)(reference.tokens[:count], reference.gaps[:count], reference.near[:count])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [1, 3])
def test_drafts_are_those_of_a_model_with_fewer_layers(family, layers):
    target, (prompt, _) = made(family), texts(family)[4]
    short = cut_down(target, layers)
    run = speculative_rounds(
        target, EarlyExitDrafter(target, layers), prompt, max_new_tokens=NEW, gamma=4, eos_token_id=None
    )
    sequence, seen = list(prompt), 0
    for item in run:
        if item.drafted:
            expected = uncached_greedy(short, sequence, len(item.drafted))
            assert expected.first_near_tie is not None or list(item.drafted) == expected.tokens
            seen += 1
        sequence += item.emitted
    assert seen >= 4


def test_drafting_stops_behind_an_end_token_that_it_is_told():
    target, (prompt, reference) = made("llama"), texts("llama")[3]
    short = cut_down(target, 2)
    first = uncached_greedy(short, [*prompt, reference.tokens[0]], 1).tokens[0]
    drafter = EarlyExitDrafter(target, 2, eos_token_id=first)
    rounds = list(speculative_rounds(target, drafter, prompt, max_new_tokens=NEW, gamma=6, eos_token_id=None))
    assert rounds[1].drafted == (first,)


# ---------------------------------------------------------------- sampling


@pytest.mark.parametrize(("family", "drawing"), [("llama", True), ("gpt2", True), ("llama", False)])
def test_the_law_of_sampled_text_is_the_targets_own(family, drawing):
    name = "n_layer" if family == "gpt2" else "num_hidden_layers"
    none = {"eos_token_id": None, "bos_token_id": None, "pad_token_id": None}
    target = random_model(family, seed=1, vocab_size=3, **{name: 3}, **none).double()
    sampling = Sampling(temperature=4.0)
    drafter = EarlyExitDrafter(target, 2, sampling=sampling if drawing else None)
    found = law(speculative_sampler(2, sampling), target, drafter, [0, 2], 4)
    expected = target_law(target, [0, 2], 4, sampling)
    # transformers' norms and angles go through float32
    assert found.difference(expected) < 1e-5 and len(found) == 3**4
    assert drafter._session.passes, "something was drafted"


def test_sampling_is_repeatable_and_counts_what_was_accepted():
    target = made("llama")
    runs = []
    for _ in range(2):
        drafter = EarlyExitDrafter(target, 4, sampling=Sampling(temperature=1.0))
        runs.append(
            speculative_sample(
                target, drafter, [7, 9], 24, 4, None, generator=torch.Generator().manual_seed(5)
            )
        )
    assert runs[0] == runs[1] and 0 < runs[0][1] < 1 and len(runs[0][0]) == 26


# ---------------------------------------------------------------- what is shared


@pytest.mark.parametrize("family", FAMILIES)
def test_the_target_is_left_alone_and_no_weight_is_copied(family):
    target = made(family)
    config, before = (
        target.config.to_dict(),
        {k: (v.data_ptr(), v.clone()) for k, v in target.state_dict().items()},
    )
    shallow = exit_after(target, 2)
    prompt, _ = texts(family)[3]
    list(
        speculative_rounds(
            target, EarlyExitDrafter(target, 2), prompt, max_new_tokens=12, gamma=3, eos_token_id=None
        )
    )
    assert target.config.to_dict() == config
    after = target.state_dict()
    assert all(after[k].data_ptr() == place and torch.equal(after[k], v) for k, (place, v) in before.items())
    own = {id(p) for p in target.parameters()}
    assert all(id(p) in own for p in shallow.parameters())
    assert 0 < sum(1 for _ in shallow.parameters()) < len(own)
    assert shallow.get_decoder().config.num_hidden_layers == 2
    kinds = getattr(shallow.get_decoder().config, "layer_types", None)
    assert not kinds or kinds == target.config.layer_types[:2]


def test_there_is_one_cache_and_it_goes_with_the_run():
    def slabs():
        gc.collect()
        return sum(type(thing) is SlabLayer for thing in gc.get_objects())

    target, others = made("llama"), slabs()
    drafter = EarlyExitDrafter(target, 3)
    run = speculative_rounds(target, drafter, [7, 8], max_new_tokens=NEW, gamma=4, eos_token_id=None)
    next(run), next(run), next(run)
    assert slabs() - others == LAYERS
    run.close()
    del run
    assert slabs() == others, "the drafter does not keep the cache of a run that is over"


def test_a_run_that_was_left_half_way_spoils_nothing():
    target = made("llama")
    drafter = EarlyExitDrafter(target, 3)
    (one, first), (other, second) = texts("llama")[3:5]
    for prompt, reference in ((one, first), (other, second), (one, first)):
        left = speculative_rounds(target, drafter, other, max_new_tokens=NEW, gamma=5, eos_token_id=None)
        next(left), next(left)
        run = speculative_rounds(target, drafter, prompt, max_new_tokens=NEW, gamma=5, eos_token_id=None)
        assert_same_text(Trace.of(prompt, run).new_tokens, reference)


def test_an_error_while_drafting_leaves_the_targets_cache_as_it_was():
    target, (prompt, reference) = made("llama"), texts("llama")[3]
    failures = iter([False, False, True])

    class Stumbling(EarlyExitDrafter):
        def _choose(self, row):
            if next(failures, False):
                raise OSError("stumbled")
            return super()._choose(row)

    drafter = Stumbling(target, 3)

    class Careful:
        """Another drafter, which goes on where the first one raises."""

        rider, start, commit = drafter.rider, drafter.start, drafter.commit

        def propose(self, sequence, limit, chance):
            try:
                return drafter.propose(sequence, limit, chance)
            except OSError:
                return drafter.propose(sequence, limit, chance)

    run = speculative_rounds(target, Careful(), prompt, max_new_tokens=NEW, gamma=4, eos_token_id=None)
    assert_same_text(Trace.of(prompt, run).new_tokens, reference)


def test_training_mode_is_left_as_found():
    target = random_model("gpt2", seed=3, n_layer=3, resid_pdrop=0.5, embd_pdrop=0.5)
    reference = uncached_greedy(target, [7, 8, 9], 12)
    target.train()
    run = speculative_rounds(
        target, EarlyExitDrafter(target, 1), [7, 8, 9], max_new_tokens=12, gamma=3, eos_token_id=None
    )
    assert_same_text(Trace.of([7, 8, 9], run).new_tokens, reference)
    assert all(module.training for module in target.modules())


# ---------------------------------------------------------------- on several devices


def test_a_target_that_accelerate_has_spread_out():
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    target, (prompt, reference) = made("llama"), texts("llama")[3]
    spread = accelerate.dispatch_model(
        copy.deepcopy(target),
        {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
        | {f"model.layers.{i}": "cpu" for i in range(LAYERS)},
        main_device="cpu",
        force_hooks=True,
    )
    assert hasattr(spread, "_hf_hook"), "hooks are what this is about"
    for layers in (1, 4):
        traces = [
            Trace.of(
                prompt,
                speculative_rounds(
                    model,
                    EarlyExitDrafter(model, layers),
                    prompt,
                    max_new_tokens=NEW,
                    gamma=4,
                    eos_token_id=None,
                ),
            )
            for model in (spread, target)
        ]
        assert_same_text(traces[0].new_tokens, reference)
        assert [item.drafted for item in traces[0].rounds] == [item.drafted for item in traces[1].rounds]


def test_weights_that_are_not_there_between_passes_are_refused():
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    target = accelerate.cpu_offload(copy.deepcopy(made("llama")), execution_device="cpu")
    target._hf_hook.offload = True  # as where the whole model is one block
    with pytest.raises(ValueError, match="LlamaForCausalLM are brought in from elsewhere for each pass"):
        EarlyExitDrafter(target, 2)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("layers", [0, -1, LAYERS, LAYERS + 1, 2.0, True, "2", None])
def test_layers_that_there_are_not_are_refused(layers):
    with pytest.raises(ValueError, match=f"layers must be a whole number between 1 and {LAYERS - 1}"):
        EarlyExitDrafter(made("llama"), layers)


def test_a_model_of_one_layer_has_no_early_exit():
    with pytest.raises(ValueError, match="two layers or more"):
        exit_after(made("llama", layers=1), 1)


def test_another_target_is_refused_before_anything_is_drafted():
    drafter = EarlyExitDrafter(made("llama"), 2)
    run = speculative_rounds(
        made("llama", seed=4), drafter, [7], max_new_tokens=8, gamma=3, eos_token_id=None
    )
    with pytest.raises(ValueError, match="the model that it is a part of, and for no other"):
        next(run)


def test_only_transformers_models_have_layers_to_leave():
    with pytest.raises(TypeError, match="model must be a transformers model, got PlainThing"):
        EarlyExitDrafter(type("PlainThing", (), {})(), 1)


def test_a_cache_of_another_kind_is_refused():
    lender = CacheLender(made("llama"))
    with (
        pytest.raises(TypeError, match="needs a SlabCache to draft in, got list"),
        lender.riding(made("llama"), None, []),
    ):
        pass
    assert lender.first(2) is None


def test_an_adapter_is_taken_for_its_model():
    adapter, (prompt, reference) = TransformersAdapter(made("llama")), texts("llama")[3]
    run = speculative_rounds(
        adapter, EarlyExitDrafter(adapter, 3), prompt, max_new_tokens=NEW, gamma=4, eos_token_id=None
    )
    assert_same_text(Trace.of(prompt, run).new_tokens, reference)


def test_the_lent_rows_are_the_targets_rows():
    target = made("llama")
    lender, cache = CacheLender(target), SlabCache()
    with lender.riding(target, None, cache), torch.inference_mode():
        TransformersAdapter(target).forward(torch.tensor([[5, 6, 7]]), past_key_values=cache)
    view = lender.first(2)
    assert len(view.layers) == 2 and view.get_seq_length() == 3
    assert all(lent is own for lent, own in zip(view.layers, cache.layers, strict=False))


def test_the_bundled_target_drafts_for_itself():
    pair = load_pair("tiny", draft="early-exit:12")
    ids = pair.prompt_ids[0]
    reference = uncached_greedy(pair.target, ids, 20)
    run = speculative_rounds(
        pair.target, pair.draft, ids, max_new_tokens=20, gamma=3, eos_token_id=pair.eos_token_id
    )
    assert_same_text(Trace.of(ids, run).new_tokens, reference)
