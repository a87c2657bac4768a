"""Faults that people reported in public against programs of this kind, group "decoding and caches", as tests.

Each name starts with the row of the list of faults. They look at pass counts, fed tokens, acceptance and cache
lengths as well as at the text, since most of these faults leave the text alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import (
    FAKES,
    VOCABULARY,
    Dtypes,
    PlainModel,
    always,
    assert_rounds_hold,
    counting_rule,
    crc_rule,
    erring,
    every_other,
    follow,
    full_logits,
    never,
    random_model,
    uncached_greedy,
    with_noise,
)

from specdec_lab import (
    Proposal,
    Trace,
    autoregressive_decode,
    benchmark_decoding,
    speculative_decode,
    speculative_rounds,
)
from specdec_lab.models.protocol import as_model
from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix, last_token, wrong_when
from specdec_lab.models.transformers_adapter import TransformersAdapter

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 97
PROMPT = [3, 1, 4, 1, 5]
DRAFTS = {"agree": never, "half": every_other, "disagree": always}
DOUBLES = ["scripted", *FAKES]


def doubles(kind, wrong, rule=None, width=WIDTH):
    """A target and a draft, of the package's scripted kind or of one of the tests' own, and the target's rule."""
    if kind == "scripted":
        rule = rule or hash_of_prefix(width)
        return ScriptedModel(rule, width), ScriptedModel(wrong_when(rule, width, wrong), width), rule
    rule = rule or crc_rule(width)
    return kind(rule, width), kind(erring(rule, width, wrong), width), rule


def run(target, draft, prompt, n, gamma, ends=()):
    """All rounds as a trace, with every invariant checked."""
    rounds = speculative_rounds(target, draft, prompt, max_new_tokens=n, gamma=gamma, eos_token_id=list(ends))
    trace = Trace.of(prompt, rounds)
    assert_rounds_hold(prompt, trace.rounds, ends, n)
    return trace


def assert_not_called(*models):
    for model in models:
        assert model.passes == 0 and model.fed_tokens == 0


# ---------------------------------------------------------------- F01 to F05


@pytest.mark.parametrize("kind", DOUBLES)
@pytest.mark.parametrize("wrong", DRAFTS.values(), ids=DRAFTS.keys())
@pytest.mark.parametrize("i", range(1, 11))
def test_f01_end_token_inside_a_block(kind, wrong, i):
    """Text runs on past an end token accepted in the middle of a block (huggingface/transformers 47912)."""
    target, draft, rule = doubles(kind, wrong)
    end = follow(rule, PROMPT, 16)[len(PROMPT) + i]
    expected = follow(rule, PROMPT, 16, ends=[end])
    trace = run(target, draft, PROMPT, 16, gamma=4, ends=[end])
    assert trace.sequence == expected
    assert trace.new_tokens.count(end) == 1
    assert target.passes == len(trace.rounds)
    assert draft.passes == trace.drafted, "the draft runs on behind an end token"
    if wrong is never:  # 5 tokens a round: the end token is the 1st, …, 4th draft or the bonus
        last = len(trace.new_tokens) - 1
        assert len(trace.rounds) == last // 5 + 1
        assert trace.origins[-1] == ("bonus" if last % 5 == 4 else "accepted")
        assert trace.drafted == last // 5 * 4 + min(last % 5 + 1, 4)
        assert trace.acceptance_rate == 1.0


def test_f01_every_place_in_a_block_was_tried():
    """The positions above cover each draft of a block and the bonus (huggingface/transformers PR 48981)."""
    rule = crc_rule(WIDTH)
    new = follow(rule, PROMPT, 16)[len(PROMPT) :]
    assert {new.index(new[i]) % 5 for i in range(1, 11)} == {0, 1, 2, 3, 4}


@pytest.fixture(scope="module")
def adapter():
    return TransformersAdapter(random_model("llama", seed=1))


@torch.inference_mode()
def test_f02_every_cut_of_a_cache_is_exact(adapter):
    """`crop` changed its meaning three times; the cache keeps the wrong rows (huggingface/transformers PR 47720)."""
    sequence = torch.tensor([[(7 * i + i * i) % VOCABULARY for i in range(12)]])
    tail = torch.tensor([[9, 30, 2]])
    for valid in range(13):
        cache = adapter.forward(sequence).past_key_values
        answer = adapter.truncate_cache(cache, valid)
        cache = cache if answer is None else answer
        assert cache.get_seq_length() == valid
        continued = adapter.forward(tail, past_key_values=cache).logits[0]
        truth = full_logits(adapter.model, [*sequence[0, :valid].tolist(), *tail[0].tolist()])[valid:]
        torch.testing.assert_close(continued, truth, rtol=0, atol=1e-5 * max(1.0, float(truth.abs().max())))
    for valid in (13, -1):
        with pytest.raises(ValueError, match=rf"12.*got {valid}"):
            adapter.truncate_cache(adapter.forward(sequence).past_key_values, valid)


QUIET = """
import logging, torch
from transformers import AutoConfig, AutoModelForCausalLM
from specdec_lab.models.transformers_adapter import TransformersAdapter
SIZE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
for family, more in (("llama", {"intermediate_size": 48}), ("gpt2", {})):
    config = AutoConfig.for_model(family, vocab_size=64, bos_token_id=0, eos_token_id=1, **SIZE, **more)
    adapter = TransformersAdapter(AutoModelForCausalLM.from_config(config).eval())
    cache = None
    with torch.inference_mode():
        for step in ([[1, 2, 3, 4]], [[5]], [[6]], [[7]]):
            out = adapter.forward(torch.tensor(step), past_key_values=cache)
            out.logits, cache = out.logits, out.past_key_values
        adapter.truncate_cache(cache, 3)
        adapter.forward(torch.tensor([[8, 9]]), past_key_values=cache)
print("done")
"""


def test_f03_no_warning_reaches_the_reader():
    """Old names of the cache API warn, then die, after upgrades (huggingface/transformers 48479)."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", QUIET],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_f03_a_tuple_cache_is_refused_by_name(adapter):
    """A tuple cache gives a bare AttributeError (feifeibear/LLMSpeculativeSampling 34)."""
    rows = torch.zeros(1, 2, 3, 8)
    with pytest.raises(TypeError, match=r"DynamicCache.*got tuple"):
        adapter.forward(torch.tensor([[1]]), past_key_values=((rows, rows), (rows, rows)))
    with pytest.raises(TypeError, match=r"DynamicCache.*got tuple"):
        adapter.truncate_cache(((rows, rows), (rows, rows)), 2)


@pytest.mark.parametrize("wrong", DRAFTS.values(), ids=DRAFTS.keys())
@pytest.mark.parametrize("gamma", [1, 4, 8])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 16])
def test_f04_never_more_than_max_new_tokens(wrong, gamma, n):
    """A round commits gamma + 1 tokens past the budget (huggingface/transformers PR 46993)."""
    for kind in DOUBLES:
        target, draft, rule = doubles(kind, wrong)
        trace = run(target, draft, PROMPT, n, gamma)
        assert trace.sequence == follow(rule, PROMPT, n)
        assert target.passes == len(trace.rounds)
        assert draft.passes == trace.drafted, "one draft pass a drafted token"
        if wrong is never:
            assert len(trace.rounds) == -(-n // (gamma + 1))
        if n == 1:
            assert trace.acceptance_rate == 0.0 and draft.passes == 0


@pytest.mark.parametrize("n", [0, -3])
def test_f04_no_tokens_wanted_is_an_error(n):
    """max_new_tokens=0 returns tokens or divides by zero (ohdearquant/lattice PR 245)."""
    target, draft, _ = doubles(PlainModel, never)
    with pytest.raises(ValueError, match=f"max_new_tokens.*at least 1, got {n}"):
        speculative_decode(target, draft, PROMPT, n, 4, None)
    assert_not_called(target, draft)


@pytest.mark.parametrize("kind", DOUBLES)
@pytest.mark.parametrize(
    ("wrong", "n", "accepted", "drafted"),
    # 7 tokens at gamma 4: a round of 4 + bonus, then 2 are wanted, so 1 is drafted
    [(never, 7, 5, 5), (never, 5, 4, 4), (never, 2, 1, 1), (never, 1, 0, 0), (always, 7, 0, 21 - 3)],
)
def test_f05_rate_divides_by_what_was_drafted(kind, wrong, n, accepted, drafted):
    """Acceptance divided by gamma × rounds, or the bonus counted too (NVIDIA/TensorRT-LLM PR 14724)."""
    rule = last_token(1, WIDTH) if kind == "scripted" else counting_rule(WIDTH)
    target, draft, _ = doubles(kind, wrong, rule)
    tokens, rate = speculative_decode(target, draft, PROMPT, n, 4, None)
    assert tokens == follow(rule, PROMPT, n)
    assert rate == (accepted / drafted if drafted else 0.0)
    assert draft.passes == drafted


# ---------------------------------------------------------------- F09 to F11


class Sized(PlainModel):
    """States its vocabulary; an id outside is an IndexError, as in an embedding."""

    def __init__(self, rule, width):
        super().__init__(rule, width)
        self.vocab_size = width

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        if int(input_ids.max()) >= self.width:
            raise IndexError(f"id {int(input_ids.max())} of {self.width}")
        return super().forward(input_ids, use_cache, past_key_values)


@pytest.mark.parametrize("kind", [ScriptedModel, Sized])
@pytest.mark.parametrize("when", [always, every_other])
def test_f09_draft_with_more_ids_than_the_target(kind, when):
    """A padded draft vocabulary offers ids that the target does not have (huggingface/transformers 45307)."""
    rule = crc_rule(512)
    target = kind(rule, 512)
    draft = kind(lambda prefix: 600 if when(len(prefix)) else rule(prefix), 640)
    trace = run(target, draft, PROMPT, 24, gamma=4)
    assert trace.sequence == follow(rule, PROMPT, 24)
    assert all(token < 512 for item in trace.rounds for token in item.drafted)
    assert (trace.accepted == 0) == (when is always)


def test_f09_foreign_id_from_a_drafter_of_ones_own():
    """The same through the drafter interface: the proposal is cut there (mlc-ai/mlc-llm 3212)."""

    class Foreign:
        start = commit = lambda self, *args: None

        def propose(self, sequence, limit, chance):
            right = follow(rule, sequence, 2)[len(sequence) :]
            return Proposal((*right, 600, 1)[:limit])

    rule = crc_rule(512)
    target = Sized(rule, 512)
    rounds = speculative_rounds(target, Foreign(), PROMPT, max_new_tokens=20, gamma=4, eos_token_id=None)
    trace = Trace.of(PROMPT, rounds)
    assert trace.sequence == follow(rule, PROMPT, 20)
    assert {len(item.drafted) for item in trace.rounds} <= {1, 2} and trace.acceptance_rate == 1.0


@pytest.mark.parametrize("kind", [ScriptedModel, Sized])
def test_f09_draft_with_fewer_ids_than_the_target(kind):
    """Once the text holds an id that the draft cannot read, rounds go on without it (vllm-project/vllm 14939)."""
    rule = counting_rule(40)
    target, draft = kind(rule, 40), kind(counting_rule(30), 30)
    trace = run(target, draft, [20], 24, gamma=4)
    assert trace.sequence == follow(rule, [20], 24)
    # rounds 21-25, 26-29 and a correction to 30, which the draft cannot read
    assert [len(item.emitted) for item in trace.rounds[:2]] == [5, 5]
    assert {item.outcome for item in trace.rounds[2:]} == {"plain"}
    prompt_unreadable = run(kind(rule, 40), kind(counting_rule(30), 30), [35, 2], 6, gamma=4)
    assert prompt_unreadable.drafted == 0 and prompt_unreadable.sequence == follow(rule, [35, 2], 6)


def test_f09_padded_embeddings_of_one_family():
    """The same with transformers models, either way round (vllm-project/vllm 12323)."""
    small, large = (random_model("llama", seed=1, vocab_size=size) for size in (48, 80))
    for target, draft in ((small, large), (large, small)):
        prompt = [5, 40, 7]
        reference = uncached_greedy(target, prompt, 30)
        assert reference.first_near_tie is None
        tokens, _ = speculative_decode(target, draft, prompt, 30, 4, None)
        assert tokens == [*prompt, *reference.tokens]


def test_f09_target_that_states_fewer_ids_than_it_scores():
    """A head padded beyond the embedding: ids in the padding cannot be fed (huggingface/transformers 45307)."""

    class Padded(Sized):
        def forward(self, input_ids, use_cache=True, past_key_values=None):
            output = super().forward(input_ids, use_cache, past_key_values)
            output.logits = torch.nn.functional.pad(output.logits, (0, 8), value=-1.0)
            return output

    class Foreign:
        start = commit = lambda self, *args: None

        def propose(self, sequence, limit, chance):
            return Proposal((WIDTH + 3,))

    rule = crc_rule(WIDTH)
    rounds = speculative_rounds(
        Padded(rule, WIDTH), Foreign(), PROMPT, max_new_tokens=6, gamma=4, eos_token_id=None
    )
    assert Trace.of(PROMPT, rounds).sequence == follow(rule, PROMPT, 6)


class Rounding(PlainModel):
    """Answers differently in a pass over several tokens, from position 9 on: what half precision does at a tie."""

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        output = super().forward(input_ids, use_cache, past_key_values)
        position = len(output.past_key_values.secret)
        if input_ids.shape[1] > 1 and position >= 9:
            output.logits = output.logits.roll(1, dims=-1)
        return output


def test_f10_a_difference_is_reported_never_hidden():
    """Speculative text differs from plain text after a near tie, and nobody says so (ml-explore/mlx-lm 1470)."""
    rule = crc_rule(WIDTH)
    target, draft = Rounding(rule, WIDTH), PlainModel(rule, WIDTH)
    plain = autoregressive_decode(target, PROMPT, 12, None)
    ours, _ = speculative_decode(target, draft, PROMPT, 12, 4, None)
    assert plain == follow(rule, PROMPT, 12)
    first = next(i for i in range(12) if plain[len(PROMPT) + i] != ours[len(PROMPT) + i])
    result = benchmark_decoding(target, draft, [PROMPT], 12, 4, None, warmup_runs=0, num_runs=1)
    assert result["outputs_match"] is False
    assert result["first_divergence"] == [first]


def test_f10_half_precision_runs_and_reports():
    """Identity is not promised in bfloat16; the first divergence is reported (SafeAILab/EAGLE 212)."""
    target = random_model("llama", seed=1).to(torch.bfloat16)
    draft = random_model("llama", seed=1).to(torch.bfloat16)
    prompts = [PROMPT, [9, 2, 6]]
    result = benchmark_decoding(target, draft, prompts, 24, 4, None, warmup_runs=0, num_runs=1)
    plain = [autoregressive_decode(target, prompt, 24, None) for prompt in prompts]
    ours = [speculative_decode(target, draft, prompt, 24, 4, None)[0] for prompt in prompts]
    for prompt, a, b, said in zip(prompts, plain, ours, result["first_divergence"], strict=True):
        assert len(a) == len(b) == len(prompt) + 24
        assert said == next((i - len(prompt) for i in range(len(a)) if a[i] != b[i]), None)
    assert result["outputs_match"] == (plain == ours)
    assert result["dtype"] == "bfloat16"


F11 = crc_rule(11)
F11_TEXT = follow(F11, PROMPT, 30)[len(PROMPT) :]


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        (7, [7]),
        ([7], [7]),
        ([5, 7], [5, 7]),
        ([7, 5], [5, 7]),
        ((5, 7), [5, 7]),
        ({5, 7}, [5, 7]),
        (np.array([5, 7]), [5, 7]),
        (torch.tensor([5, 7]), [5, 7]),
        (torch.tensor(7), [7]),
        (np.int64(7), [7]),
        (None, []),
        ([], []),
        (99, []),
        ([99, -1], []),
    ],
    ids=str,
)
def test_f11_one_end_token_several_or_none(given, ends):
    """A list of end tokens, or none, raises or never stops (state-spaces/mamba PR 1040)."""
    assert {5, 7} <= set(F11_TEXT), "the case would test nothing"
    for kind in DOUBLES:
        target, draft, _ = doubles(kind, every_other, F11, 11)
        expected = follow(F11, PROMPT, 30, ends)
        assert speculative_decode(target, draft, PROMPT, 30, 4, given)[0] == expected
        assert autoregressive_decode(target, PROMPT, 30, given) == expected


def test_f11_an_end_token_in_the_prompt_does_not_stop():
    """Generation stops at once when the prompt holds the end token (huggingface/transformers PR 46790)."""
    for prompt in ([7, 3, 1], [3, 1, 7]):
        target, draft, rule = doubles(PlainModel, never)
        assert speculative_decode(target, draft, prompt, 6, 4, 7)[0] == follow(rule, prompt, 6, [7])
        assert len(follow(rule, prompt, 6, [7])) > len(prompt) + 1


@pytest.mark.parametrize("bad", ["7", 7.0, [7.5], [[7]], True, object()])
def test_f11_nonsense_is_refused_before_a_pass(bad):
    """A wrong type of end token surfaces as a text that never stops (QwenLM/Qwen 1001)."""
    target, draft, _ = doubles(PlainModel, never)
    with pytest.raises((TypeError, ValueError), match="eos_token_id"):
        speculative_decode(target, draft, PROMPT, 6, 4, bad)
    assert_not_called(target, draft)


# ---------------------------------------------------------------- F24 to F30


class Uncut(PlainModel):
    """Its cache tells its length in one of three ways, and `truncate_cache` does nothing or too much."""

    name = "uncut-model"

    def __init__(self, rule, width, tell, keeps):
        super().__init__(rule, width)
        self.tell, self.keeps = tell, keeps

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        held = [] if past_key_values is None else past_key_values.held
        output = super().forward(input_ids, use_cache, SimpleNamespace(secret=held, dead=False))
        cache = {"list": Listing, "length": WithLength, "get_seq_length": WithMethod}[self.tell](held)
        return SimpleNamespace(logits=output.logits, past_key_values=cache)

    def truncate_cache(self, past_key_values, valid_length):
        kept = self.keeps(len(past_key_values.held), valid_length)
        del past_key_values.held[kept:]
        return type(past_key_values)(past_key_values.held)


class Listing(list):
    @property
    def held(self):
        return self


class WithLength:
    def __init__(self, held):
        self.held = held

    @property
    def length(self):
        return len(self.held)


class WithMethod:
    def __init__(self, held):
        self.held = held

    def get_seq_length(self):
        return len(self.held)


KEEPS = {
    "nothing is cut": lambda length, valid: length,
    "cut to the rest": lambda length, valid: length - valid,
    "one too few": lambda length, valid: valid + 1,
    "one too many": lambda length, valid: valid - 1,
}


@pytest.mark.parametrize("tell", ["list", "length", "get_seq_length"])
@pytest.mark.parametrize("keeps", KEEPS.values(), ids=KEEPS.keys())
@pytest.mark.parametrize("role", ["target", "draft"])
def test_f24_a_cut_that_does_not_take_is_an_error(tell, keeps, role):
    """Truncation is a no-op and the text is silently corrupted (ml-explore/mlx-lm PR 1109)."""
    target, draft, _ = doubles(PlainModel, always)
    faulty = Uncut(target.rule if role == "target" else draft.rule, WIDTH, tell, keeps)
    pair = (faulty, draft) if role == "target" else (target, faulty)
    with pytest.raises(RuntimeError, match=r"uncut-model.*cannot be rolled back"):
        speculative_decode(*pair, PROMPT, 12, 4, None)


@pytest.mark.parametrize("tell", ["list", "length", "get_seq_length"])
def test_f24_a_cut_that_takes_is_trusted(tell):
    """The check above does not refuse honest caches."""
    target, _, rule = doubles(PlainModel, always)
    honest = Uncut(erring(rule, WIDTH, every_other), WIDTH, tell, lambda length, valid: valid)
    tokens, rate = speculative_decode(target, honest, PROMPT, 24, 4, None)
    assert tokens == follow(rule, PROMPT, 24) and 0 < rate < 1


REFUSED = {
    "t5": {"d_model": 32, "num_heads": 4, "d_kv": 8, "d_ff": 48, "num_layers": 2},
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
}


@pytest.mark.parametrize("family", REFUSED)
def test_f24_recurrent_and_encoder_decoder_are_refused(family):
    """A recurrent state or a cross-attention cache cannot be cut (huggingface/transformers 30312)."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    build = AutoModelForSeq2SeqLM if family == "t5" else AutoModelForCausalLM
    model = build.from_config(AutoConfig.for_model(family, vocab_size=VOCABULARY, **REFUSED[family]))
    counted = []
    model.register_forward_pre_hook(lambda *args: counted.append(1))
    fine = PlainModel(crc_rule(VOCABULARY), VOCABULARY)
    for pair in ((model, fine), (fine, model)):
        with pytest.raises(ValueError, match=family):
            speculative_decode(*pair, [1, 2, 3], 4, 2, None)
    with pytest.raises(ValueError, match=family):
        autoregressive_decode(model, [1, 2, 3], 4, None)
    assert not counted and not fine.passes


@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("prompt", [[1, 1, 1], [1]])
@pytest.mark.parametrize("kind", DOUBLES)
def test_f25_first_draft_is_compared_too(kind, prompt, gamma):
    """Row i scores token i + 1; the first draft is committed without a look (ohdearquant/lattice 243)."""

    class WrongFirst:
        start = commit = lambda self, *args: None

        def propose(self, sequence, limit, chance):
            first = (rule(sequence) + 1) % WIDTH
            return Proposal(tuple(follow(rule, [*sequence, first], limit - 1)[len(sequence) :]))

    target, draft, rule = doubles(kind, always)
    for drafter in (WrongFirst(), draft):
        before = target.passes
        rounds = speculative_rounds(
            target, drafter, prompt, max_new_tokens=12, gamma=gamma, eos_token_id=None
        )
        trace = Trace.of(prompt, rounds)
        assert trace.sequence == follow(rule, prompt, 12)
        assert trace.acceptance_rate == 0.0 and trace.alpha == 0.0
        assert target.passes - before == 12, "no draft is right, so each pass yields one token"


@pytest.mark.parametrize("kind", DOUBLES)
def test_f26_the_bonus_token_is_kept(kind):
    """The free token behind a full acceptance is thrown away, or never scored (ohdearquant/lattice PR 509)."""
    rule = last_token(1, WIDTH) if kind == "scripted" else counting_rule(WIDTH)
    target, draft, _ = doubles(kind, never, rule)
    trace = run(target, draft, PROMPT, 50, gamma=4)
    assert trace.sequence == follow(rule, PROMPT, 50)
    assert target.passes == len(trace.rounds) == 10
    assert [item.outcome for item in trace.rounds] == ["bonus"] * 10
    assert target.fed_tokens == len(PROMPT) + 4 + 9 * 5, "the pending token and four drafts a pass"
    assert draft.passes == 40
    # after a full acceptance the draft is fed [last draft, bonus] in one pass; nothing is ever cut
    assert draft.fed_tokens == len(PROMPT) + 3 + 9 * (2 + 3)
    assert trace.tokens_per_round == 5.0


@pytest.mark.parametrize("gamma", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("kind", DOUBLES)
def test_f27_caches_are_rolled_back_not_reset(kind, gamma):
    """The rewind removes one entry too many, or the draft is fed the prompt again each round (lablup/mlxcel 994)."""
    target, draft, rule = doubles(kind, lambda position: position % 4 == 3)
    trace = run(target, draft, PROMPT, 24, gamma)
    assert trace.sequence == follow(rule, PROMPT, 24)
    assert trace.accepted > 0 and trace.rejected > 0
    # every position of the text is fed once to the target; on top come the rejected drafts and those behind them
    unused = trace.drafted - trace.accepted
    assert target.fed_tokens == len(PROMPT) + 24 - 1 + unused
    assert draft.fed_tokens <= len(PROMPT) + trace.drafted + 2 * len(trace.rounds)
    caught_up = sum(item.outcome == "bonus" and item is not trace.rounds[-1] for item in trace.rounds)
    speculated = sum(max(0, len(item.drafted) - 1) for item in trace.rounds)
    drafting_rounds = sum(bool(item.drafted) for item in trace.rounds)
    assert draft.fed_tokens >= len(PROMPT) + drafting_rounds - 1 + speculated
    if trace.rounds[-1].drafted:
        assert draft.fed_tokens == len(PROMPT) + drafting_rounds - 1 + speculated + caught_up


@pytest.mark.parametrize("same", [True, False])
def test_f28_draft_with_a_shorter_context(same):
    """Look-ahead past the end of the draft's context crashes near the limit (turboderp-org/exllamav2 274)."""
    target = random_model("gpt2", seed=5, n_positions=64)
    draft = random_model("gpt2", seed=5, n_positions=64) if same else random_model("gpt2", seed=6)
    draft.transformer.wpe = torch.nn.Embedding.from_pretrained(draft.transformer.wpe.weight[:48].detach())
    draft.config.n_positions = 48
    prompt = [(3 * i * i + i) % VOCABULARY for i in range(40)]
    reference = uncached_greedy(target, prompt, 20)
    assert reference.first_near_tie is None
    trace = run(target, draft, prompt, 20, gamma=8)
    assert trace.new_tokens == reference.tokens
    assert [item.outcome for item in trace.rounds[-5:]] == ["plain"] * 5, (
        "drafting stops at the end of its context"
    )
    if same:  # 40 + 8 drafts + bonus = 49, and 48 positions can be read
        assert [len(item.drafted) for item in trace.rounds] == [8] + [0] * 11


@pytest.mark.parametrize("context", [45, 46, 47, 60])
def test_f28_scripted_draft_uses_its_context_to_the_end(context):
    """The same by count: the last readable position still drafts one token (vllm-project/vllm PR 22935)."""
    rule = hash_of_prefix(WIDTH)
    target, draft = ScriptedModel(rule, WIDTH), ScriptedModel(rule, WIDTH, max_position_embeddings=context)
    trace = run(target, draft, [2] * 40, 20, gamma=4)
    assert trace.sequence == follow(rule, [2] * 40, 20)
    # 40 → 45 after round 1; the draft reads positions 0…context-1 and so guesses ids for 1…context
    assert len(trace.rounds[0].drafted) == 4
    assert len(trace.rounds[1].drafted) == min(4, context - 45 + 1)


def test_f28_beyond_the_target_s_context_is_an_error():
    """Prompt and new tokens past the context fail deep inside (predibase/lorax 474)."""
    target = random_model("gpt2", seed=5, n_positions=64)
    with pytest.raises(ValueError, match=r"(?s)40 .*25.*65.*64"):
        speculative_decode(target, target, [1] * 40, 25, 8, None)
    assert len(speculative_decode(target, target, [1] * 40, 24, 8, None)[0]) == 64
    scripted = ScriptedModel(hash_of_prefix(WIDTH), WIDTH, max_position_embeddings=64)
    with pytest.raises(ValueError, match=r"(?s)40 .*25.*65.*64"):
        autoregressive_decode(scripted, [1] * 40, 25, None)
    assert_not_called(scripted)


GOOD = {"input_ids": [10, 3], "max_new_tokens": 6, "gamma": 4}
BAD = [
    ("input_ids", [], ValueError),
    ("input_ids", (), ValueError),
    ("input_ids", [[1, 2], [3]], ValueError),
    ("input_ids", [[1, 2]], ValueError),
    ("input_ids", torch.tensor([[1, 2], [3, 4]]), ValueError),
    ("input_ids", torch.tensor([[1, 2]]), ValueError),
    ("input_ids", torch.tensor(3), ValueError),
    ("input_ids", np.array([[1, 2]]), ValueError),
    ("input_ids", torch.tensor([1.0]), TypeError),
    ("input_ids", torch.tensor([True]), TypeError),
    ("input_ids", np.array([1.0]), TypeError),
    ("input_ids", [1.0], TypeError),
    ("input_ids", [True], TypeError),
    ("input_ids", [None], TypeError),
    ("input_ids", "text", TypeError),
    ("input_ids", 3, TypeError),
    ("input_ids", None, TypeError),
    ("input_ids", {1, 2}, TypeError),
    ("input_ids", iter([1, 2]), TypeError),
    ("input_ids", {"input_ids": [1]}, TypeError),
    ("input_ids", [3, -1], ValueError),
    ("input_ids", [3, WIDTH], ValueError),
    ("gamma", 0, ValueError),
    ("gamma", -2, ValueError),
    ("gamma", 2.0, TypeError),
    ("gamma", True, TypeError),
    ("gamma", None, TypeError),
    ("gamma", "4", TypeError),
    ("max_new_tokens", 0, ValueError),
    ("max_new_tokens", 2.0, TypeError),
    ("max_new_tokens", True, TypeError),
    ("max_new_tokens", None, TypeError),
]


@pytest.mark.parametrize(("name", "value", "error"), BAD, ids=lambda part: str(part)[:24])
def test_f29_bad_input_is_refused_before_a_pass(name, value, error):
    """Empty, batched or negative input fails deep inside or is accepted (hemingkx/Spec-Bench 17)."""
    target, draft = Sized(crc_rule(WIDTH), WIDTH), Sized(crc_rule(WIDTH), WIDTH)
    arguments = {**GOOD, name: value}
    with pytest.raises(error, match=name):
        speculative_decode(target, draft, **arguments, eos_token_id=None)
    with pytest.raises(error, match=name):
        speculative_rounds(
            target, draft, **arguments, eos_token_id=None
        )  # at the call, not at the first next()
    if name != "gamma":
        del arguments["gamma"]
        with pytest.raises(error, match=name):
            autoregressive_decode(target, **arguments, eos_token_id=None)
    assert_not_called(target, draft)


@pytest.mark.parametrize("model", [None, 3, object(), torch.nn.Linear(2, 2), "gpt2"])
def test_f29_something_that_is_no_model(model):
    """Named by argument, with what would be right (huggingface/transformers 29769)."""
    fine = PlainModel(crc_rule(WIDTH), WIDTH)
    with pytest.raises(TypeError, match=r"target_model.*truncate_cache"):
        speculative_decode(model, fine, PROMPT, 4, 2, None)
    with pytest.raises(TypeError, match=r"draft_model.*truncate_cache"):
        speculative_decode(fine, model, PROMPT, 4, 2, None)
    assert_not_called(fine)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_f29_input_is_accepted_in_every_flat_form_and_left_alone(kind):
    """One token is enough of a prompt; the caller's ids are not changed (huggingface/transformers 30042)."""
    for ids in ([10], PROMPT):
        given = kind(ids)
        target, draft, rule = doubles(PlainModel, every_other)
        tokens, _ = speculative_decode(target, draft, given, np.int64(9), np.int64(4), None)
        assert tokens == autoregressive_decode(target, given, 9, None) == follow(rule, ids, 9)
        assert all(type(token) is int for token in tokens)
        assert list(given) == ids


def dropout_pair():
    dropout = {"attn_pdrop": 0.5, "embd_pdrop": 0.5, "resid_pdrop": 0.5}
    target = random_model("gpt2", seed=5, **dropout)
    return target, with_noise(target, 0.02, seed=9)


def test_f30_training_mode_and_gradients():
    """A model left in training mode decodes with dropout; gradients are recorded (karpathy/nanoGPT PR 240)."""
    target, draft = dropout_pair()
    expected = speculative_decode(target, draft, PROMPT, 20, 4, None)
    assert expected[0][len(PROMPT) :] == uncached_greedy(target, PROMPT, 20).tokens
    target.train()
    draft.train()
    draft.transformer.h[1].eval()  # a mixture is left as found, too
    flags = [module.training for model in (target, draft) for module in model.modules()]
    assert 0.3 < expected[1] < 0.9
    for _ in range(2):
        assert speculative_decode(target, draft, PROMPT, 20, 4, None) == expected
        assert autoregressive_decode(target, PROMPT, 20, None) == expected[0]
    assert [module.training for model in (target, draft) for module in model.modules()] == flags
    assert all(weight.grad is None for weight in target.parameters())
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_f30_flags_are_restored_after_an_error():
    """The training flag stays off when a pass fails (karpathy/ng-video-lecture PR 62)."""

    class Failing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, input_ids, use_cache=True, past_key_values=None):
            assert not self.training and not self.drop.training
            raise RuntimeError("out of memory")

        def truncate_cache(self, past_key_values, valid_length):
            pass

    model = Failing()
    model.drop.eval()
    with pytest.raises(RuntimeError, match="out of memory"):
        autoregressive_decode(model, [1], 3, None)
    assert model.training and not model.drop.training
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


class Wrapper:
    """The two methods around something else that holds the module."""

    def __init__(self, inner):
        self.inner = inner

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        output = as_model(self.inner).forward(input_ids, use_cache, past_key_values)
        assert not output.logits.requires_grad
        return output

    def truncate_cache(self, past_key_values, valid_length):
        return as_model(self.inner).truncate_cache(past_key_values, valid_length)


@pytest.mark.parametrize("depth", [1, 2])
def test_f30_a_plain_wrapper_around_a_module(depth):
    """A wrapper object, or one around an adapter: the module is switched all the same (huggingface/transformers 2627)."""
    target, draft = dropout_pair()
    expected = speculative_decode(target, draft, PROMPT, 12, 4, None)
    target.train(), draft.train()
    pair = [Wrapper(model if depth == 1 else TransformersAdapter(model)) for model in (target, draft)]
    assert speculative_decode(*pair, PROMPT, 12, 4, None) == expected
    assert target.training and draft.training


# ---------------------------------------------------------------- F32


def test_f32_target_and_draft_of_different_dtypes():
    """Mixed dtypes fail at the comparison (huggingface/transformers 35099)."""
    target = random_model("llama", seed=1)
    reference = uncached_greedy(target, PROMPT, 30)
    assert reference.first_near_tie is None
    for dtype in (torch.bfloat16, torch.float64):
        draft = random_model("llama", seed=1).to(dtype)
        tokens, rate = speculative_decode(target, draft, PROMPT, 30, 4, None)
        assert tokens[len(PROMPT) :] == reference.tokens
        assert rate > 0.3
        assert draft.dtype == dtype


class Elsewhere:
    """A model on the `meta` device, where data cannot be read: its next token depends on the position only."""

    def __init__(self, answers):
        self.answers = answers
        self.device = torch.device("meta")

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        assert input_ids.device.type == "meta", "ids must be moved to the model's device"
        start, count = past_key_values or 0, input_ids.shape[1]
        rows = torch.nn.functional.one_hot(torch.tensor(self.answers[start + 1 : start + count + 1]), WIDTH)
        return SimpleNamespace(logits=rows[None].float(), past_key_values=start + count)

    def truncate_cache(self, past_key_values, valid_length):
        return valid_length


@pytest.mark.parametrize("role", ["target", "draft"])
def test_f32_ids_are_moved_to_each_model_s_device(role):
    """Target and draft on different devices (huggingface/transformers 31060); logits are read where they are."""
    prompt = [2, 3]
    rule = counting_rule(WIDTH)
    here, there = PlainModel(rule, WIDTH), Elsewhere(follow(rule, prompt, 40))
    pair = (there, here) if role == "target" else (here, there)
    assert speculative_decode(*pair, prompt, 20, 4, None) == (follow(rule, prompt, 20), 1.0)


def test_f32_no_float64_is_made():
    """float64 does not exist on every device (pytorch/pytorch 122602)."""
    target, draft = random_model("llama", seed=1), random_model("llama", seed=1)
    with Dtypes() as noted:
        speculative_decode(target, draft, PROMPT, 8, 3, None)
    assert torch.float32 in noted.seen and torch.float64 not in noted.seen
