"""Certificates: equal, tie or fault, and never a fault that is excused by its own noise.

`Jittery` is a model that answers blocks a little differently from single steps, at places of the test's choosing:
rounding, made deterministic.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
from helpers import full_logits, random_model

from specdec_lab import PromptLookupDrafter, autoregressive_decode, speculative_decode
from specdec_lab.measure.exactness import certify, first_divergence, measure_margins
from specdec_lab.measure.margins import FLOAT32_TIE, is_near_tie, is_rounding
from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix
from specdec_lab.teach.museum import get_exhibit

WIDTH = 11
PROMPT = [4]  # of one token, so that plain decoding never runs a block
BEST = hash_of_prefix(WIDTH)
NAN, INF = math.nan, math.inf


def runner_up(prefix):
    return (BEST(prefix) + 1 + len(prefix) % 5) % WIDTH


class Jittery(ScriptedModel):
    """The best token has 10, the runner-up `10 - gap`; in a pass over several tokens, which is what blocks are,
    the runner-up gets `jitter` more where `at(position)`."""

    def __init__(self, at, gap=0.1, jitter=0.2, dtype=None):
        super().__init__(self.row, WIDTH)
        self.at, self.gap, self.jitter = at, gap, jitter
        if dtype is not None:
            self.dtype = dtype

    def row(self, prefix):
        row = [0.0] * WIDTH
        row[BEST(prefix)] = 10.0
        if self.at(len(prefix)):
            row[runner_up(prefix)] = 10.0 - self.gap
        return row

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        before = list(past_key_values or [])
        output = super().forward(input_ids, use_cache, past_key_values)
        if input_ids.shape[1] > 1:
            for i in range(input_ids.shape[1]):
                prefix = [*before, *input_ids[0, : i + 1].tolist()]
                if self.at(len(prefix)):
                    output.logits[0, i, runner_up(prefix)] += self.jitter
        return output


def steady():
    return ScriptedModel(BEST, WIDTH)


def plain(target, n, prompt=PROMPT, ends=None):
    return autoregressive_decode(target, prompt, n, ends)[len(prompt) :]


def spoilt(*positions, by=1):
    """`speculative_decode`, but for the tokens at these positions of the sequence."""

    def decoder(target, draft, ids, n, gamma, ends):
        output, rate = speculative_decode(target, draft, ids, n, gamma, ends)
        for position in positions:
            if len(ids) <= position < len(output):
                output[position] = (output[position] + by) % WIDTH
        return output, rate

    return decoder


def only(certificate):
    (verdict,) = certificate.prompts
    return verdict


# ---------------------------------------------------------------- verdicts


def test_agreement_is_equal():
    target = steady()
    for draft in (steady(), ScriptedModel(hash_of_prefix(WIDTH, 3), WIDTH), PromptLookupDrafter()):
        found = certify(target, draft, [PROMPT, [1, 2, 3]], 20, 4, None)
        assert (found.equal, found.ties, found.faults, found.lossless) == (2, 0, 0, True)
        assert [verdict.verdict for verdict in found.prompts] == ["equal"] * 2
        assert [verdict.new_tokens for verdict in found.prompts] == [20, 20]
        assert [verdict.prompt for verdict in found.prompts] == [0, 1]
        assert all(verdict.divergences == () for verdict in found.prompts)
    assert (found.dtype, found.gamma, found.max_new_tokens) == (None, 4, 20)


def test_a_tie_is_a_tie():
    target = Jittery(lambda position: position == 7)
    found = only(certify(target, steady(), [PROMPT], 20, 4, None))
    (divergence,) = found.divergences
    text = [*PROMPT, *plain(target, 20)]
    assert found.verdict == divergence.kind == "tie"
    assert (divergence.index, divergence.plain_token, divergence.token) == (6, text[7], runner_up(text[:7]))
    assert divergence.gap == pytest.approx(0.1, abs=1e-5) and divergence.gap_block == pytest.approx(
        -0.1, abs=1e-5
    )
    assert divergence.noise == pytest.approx(0.2, abs=1e-5)
    assert math.isnan(divergence.gap_float64), "no weights to convert"


def test_a_fault_is_a_fault_and_ends_the_comparison():
    target = steady()
    found = only(certify(target, steady(), [PROMPT], 20, 4, None, decoder=spoilt(5, 9)))
    (divergence,) = found.divergences
    assert found.verdict == "fault" and divergence.index == 4 and divergence.noise == 0
    assert divergence.gap == pytest.approx(10) and divergence.gap_block == pytest.approx(10)


def test_behind_ties_the_comparison_goes_on():
    """Several ties, then a fault: one tie does not hide the rest, and the fault does not excuse itself."""
    target = Jittery(lambda position: position in (3, 7, 8, 14, 19))
    without = only(certify(target, steady(), [PROMPT], 24, 4, None))
    assert [d.index for d in without.divergences] == [2, 6, 7, 13, 18] and without.verdict == "tie"
    text, _ = speculative_decode(target, steady(), PROMPT, 24, 4, None)
    for divergence in without.divergences:  # judged behind the run's own text
        before = text[: len(PROMPT) + divergence.index]
        assert divergence.plain_token == BEST(before) and divergence.kind == "tie"
        assert divergence.token == runner_up(before)
    spoilt_too = only(certify(target, steady(), [PROMPT], 24, 4, None, decoder=spoilt(11)))
    assert [d.index for d in spoilt_too.divergences] == [2, 6, 7, 10]
    assert [d.kind for d in spoilt_too.divergences] == ["tie"] * 3 + ["fault"]
    assert spoilt_too.verdict == "fault"


def test_a_tie_at_the_very_end():
    target = Jittery(lambda position: position == 10)
    found = only(certify(target, steady(), [PROMPT], 10, 4, None, decoder=spoilt()))
    assert [d.index for d in found.divergences] == [9] and found.verdict == "tie"


@pytest.mark.parametrize(("gap", "kind"), [(0.1, "tie"), (0.39, "tie"), (0.41, "fault")])
def test_twice_the_noise_is_the_bound(gap, kind):
    """Each of the two logits may have moved by it; here the decoder under test errs, not the model."""
    target = Jittery(lambda position: position == 7, gap=gap, jitter=0.2)

    def decoder(*arguments):
        output = [*PROMPT, *plain(target, 6)]
        output.append(runner_up(output))
        return autoregressive_decode(target, output, 3, None), 0.0

    found = only(certify(target, steady(), [PROMPT], 10, 4, None, decoder=decoder))
    assert [d.kind for d in found.divergences] == [kind] and found.divergences[0].index == 6


def test_the_noise_of_text_that_only_the_run_wrote_excuses_nothing():
    """The decoder errs at a gap of 0.3, and behind its error the target's blocks are off by 0.2. Plain decoding never
    goes there."""
    text = [*PROMPT, *plain(steady(), 12)]
    wrong = runner_up(text[:7])

    class Strayed(Jittery):
        def forward(self, input_ids, use_cache=True, past_key_values=None):
            astray = len(past_key_values or []) + input_ids.shape[1] > 7
            before = list(past_key_values or [])
            output = ScriptedModel.forward(self, input_ids, use_cache, past_key_values)
            if astray and input_ids.shape[1] > 1 and [*before, *input_ids[0].tolist()][7] == wrong:
                output.logits[0, -1] += 0.2
            return output

    target = Strayed(lambda position: position == 7, gap=0.3)
    assert text[7] != wrong and plain(target, 11) == text[1:12]

    def decoder(*arguments):
        return autoregressive_decode(target, [*text[:7], wrong], 5, None), 0.0

    found = only(certify(target, steady(), [PROMPT], 12, 4, None, decoder=decoder))
    assert found.divergences[0].noise == 0 and found.verdict == "fault"


def test_verdicts_of_several_prompts_are_counted():
    target = Jittery(lambda position: position == 7)
    prompts = [PROMPT, [1, 2, 3, 4, 5, 6, 7, 8], [2]]
    found = certify(target, steady(), prompts, 10, 4, None, decoder=spoilt(13))
    assert [verdict.verdict for verdict in found.prompts] == ["tie", "fault", "tie"]
    assert (found.equal, found.ties, found.faults, found.lossless) == (0, 2, 1, False)


# ---------------------------------------------------------------- what is not excused


def test_noise_is_that_of_plain_decoding():
    """A stale cache answers nonsense: its blocks may not count as noise (ml-explore/mlx-lm PR 1109)."""
    for name in ("stale_target_cache", "rolled_back_to_full_length", "prefix_fed_twice"):
        target = Jittery(lambda position: position == 15, gap=0.01, jitter=0.02)
        draft = ScriptedModel(hash_of_prefix(WIDTH, 3), WIDTH)
        found = only(certify(target, draft, [PROMPT], 20, 4, None, decoder=get_exhibit(name).decode))
        assert found.verdict == "fault"
        assert found.divergences[-1].noise == pytest.approx(0.02, abs=1e-5)


MUSEUM = {
    "correct": "equal",
    "stale_target_cache": "fault",
    "rolled_back_to_full_length": "fault",
    "prefix_fed_twice": "fault",
    "first_token_unverified": "fault",
    "accepts_past_disagreement": "fault",
    "no_budget_cap": "fault",
    # these leave the text alone; a certificate says no more than that
    "stale_draft_cache": "equal",
    "draft_cache_reset": "equal",
    "bonus_lost": "equal",
}


@pytest.mark.parametrize("name", MUSEUM)
def test_the_museum_on_a_real_pair(tiny_llama, name):
    pair = tiny_llama.target, tiny_llama.drafts["half"]
    found = certify(*pair, [tiny_llama.prompts[1]], 24, 4, None, decoder=get_exhibit(name).decode)
    assert only(found).verdict == MUSEUM[name] and found.dtype == "float32"


@pytest.mark.parametrize(
    "name", ["stale_target_cache", "first_token_unverified", "accepts_past_disagreement"]
)
def test_bfloat16_excuses_no_bug(tiny_llama, name):
    target, draft = (
        copy.deepcopy(m).to(torch.bfloat16) for m in (tiny_llama.target, tiny_llama.drafts["disagree"])
    )
    found = certify(target, draft, tiny_llama.prompts[:2], 30, 4, None, decoder=get_exhibit(name).decode)
    assert found.faults >= 1 and found.ties == 0 and found.dtype == "bfloat16"
    right = certify(target, draft, tiny_llama.prompts[:2], 30, 4, None)
    assert right.faults == 0


@pytest.mark.parametrize(
    ("dtype", "jitter", "kind"),
    [
        (torch.float32, 0.2, "fault"),  # 16 × 2^-23 × 10 is 2e-5
        (torch.bfloat16, 0.2, "tie"),  # 16 × 2^-7 × 10 is 1.25
        (torch.bfloat16, 1.4, "fault"),
        (None, 3.0, "tie"),  # arithmetic unknown: a third of the largest logit
        (None, 3.6, "fault"),
    ],
)
def test_a_model_whose_blocks_are_wrong_is_not_excused(dtype, jitter, kind):
    """More than rounding can make is a fault of the model, however it is repeated."""
    target = Jittery(lambda position: position == 7, gap=jitter / 2, jitter=jitter, dtype=dtype)
    found = only(certify(target, steady(), [PROMPT], 10, 4, None, float64=False))
    assert found.verdict == kind and found.divergences[0].index == 6
    if kind == "fault":
        assert "the model itself answers a block" in str(found.divergences[0])


def test_float32_ties_without_any_noise():
    """Within 1e-4 × max(1, largest |logit|) nothing is told apart, noise or not: here 1e-3."""
    for gap, kind in ((9e-4, "tie"), (2e-3, "fault")):
        target = Jittery(lambda position: position == 7, gap=gap, jitter=0.0)
        decoder = spoilt(7, by=1 + 7 % 5)
        found = only(certify(target, steady(), [PROMPT], 8, 4, None, decoder=decoder))
        assert found.divergences[0].kind == kind and found.divergences[0].gap == pytest.approx(gap, rel=0.05)


def test_a_spoilt_prompt_is_refused():
    """A decode function returns the prompt followed by the new tokens."""

    def decoder(*arguments):
        output, rate = speculative_decode(*arguments)
        return [9, *output[1:]], rate

    with pytest.raises(ValueError, match="decoder must return the prompt followed by the new tokens"):
        certify(steady(), steady(), [PROMPT], 6, 3, None, decoder=decoder)


def test_a_decoder_that_grows_the_caller_s_list_is_compared_all_the_same():
    """It has the right tokens, and its list is not ours to measure by (mem0ai/mem0 5580)."""
    decoder = get_exhibit("caller_list_changed").decode
    found = certify(steady(), steady(), [PROMPT], 6, 3, None, decoder=decoder)
    assert found.equal == 1


# ---------------------------------------------------------------- lengths and end tokens


@pytest.mark.parametrize("ends", [None, 5, [5, 7], []])
def test_end_tokens(ends):
    target = steady()
    found = certify(target, ScriptedModel(hash_of_prefix(WIDTH, 3), WIDTH), [PROMPT, [1, 2]], 30, 4, ends)
    assert found.equal == 2
    lengths = [len(plain(target, 30, prompt, ends)) for prompt in (PROMPT, [1, 2])]
    assert [verdict.new_tokens for verdict in found.prompts] == lengths
    assert (max(lengths) < 30) == bool(ends)


def test_text_behind_the_end_token():
    """It runs on past the end (huggingface/transformers PR 47931)."""
    target = steady()
    text = plain(target, 12)
    end = text[5]
    length = text.index(end) + 1
    for name in ("text_behind_end_token", "end_token_only_last"):
        found = only(certify(target, steady(), [PROMPT], 12, 4, end, decoder=get_exhibit(name).decode))
        assert found.new_tokens >= length
        if found.divergences:
            (divergence,) = found.divergences
            assert found.verdict == "fault" and divergence.index == length and divergence.plain_token is None
            assert math.isnan(divergence.gap) and "only this decoding goes on" in str(divergence)
            break
    else:
        pytest.fail("neither wrong decoder ran on")


def test_text_that_stops_early():
    def decoder(*arguments):
        output, rate = speculative_decode(*arguments)
        return output[:6], rate

    found = only(certify(steady(), steady(), [PROMPT], 12, 4, None, decoder=decoder))
    (divergence,) = found.divergences
    assert (divergence.index, divergence.token, found.verdict) == (5, None, "fault")
    assert "only plain decoding goes on" in str(divergence)


def test_an_end_token_that_wins_a_tie():
    """The run ends there, and nothing is missing from it."""
    target = Jittery(lambda position: position == 4)
    text = [*PROMPT, *plain(target, 14)]
    end = runner_up(text[:4])
    ends = [end] if end not in text[1:] else None
    assert ends, "choose another place"
    found = only(certify(target, steady(), [PROMPT], 14, 4, ends))
    assert found.new_tokens == 4 and [d.index for d in found.divergences] == [3]
    assert found.divergences[0].token == end and found.verdict == "tie"


def test_ids_that_the_target_does_not_have_are_a_fault():
    for wrong in (WIDTH, 10**6, -1):

        def decoder(*arguments, wrong=wrong):
            output, rate = speculative_decode(*arguments)
            return [*output[:3], wrong, *output[4:]], rate

        found = only(certify(steady(), steady(), [PROMPT], 8, 3, None, decoder=decoder))
        assert found.verdict == "fault" and found.divergences[0].index == 2
        assert found.divergences[0].token == wrong and str(found)


# ---------------------------------------------------------------- float64


def test_the_gap_in_float64(tiny_llama):
    """By a copy: the same weights, every product in float64, no cache."""
    target = copy.deepcopy(tiny_llama.target).to(torch.bfloat16)
    prompt = tiny_llama.prompts[1]
    before = {name: weight.clone() for name, weight in target.state_dict().items()}
    found = certify(
        target, tiny_llama.drafts["half"], [prompt], 20, 4, None, decoder=spoilt_text(len(prompt) + 6)
    )
    (divergence,) = only(found).divergences[-1:]
    text = plain(target, 20, prompt)
    truth = full_logits(copy.deepcopy(target).double(), [*prompt, *text[: divergence.index]])[-1]
    assert truth.dtype == torch.float64
    expected = float(truth[divergence.plain_token] - truth[divergence.token])
    assert divergence.gap_float64 == pytest.approx(expected, abs=1e-6)
    assert divergence.gap != divergence.gap_float64 and abs(divergence.gap - expected) < 1
    assert target.dtype == torch.bfloat16, "the target itself stays as it is"
    assert all(torch.equal(before[name], weight) for name, weight in target.state_dict().items())
    without = certify(
        target, None, [prompt], 20, 4, None, decoder=spoilt_text(len(prompt) + 6), float64=False
    )
    assert math.isnan(only(without).divergences[-1].gap_float64)


def spoilt_text(position):
    """Plain decoding, but for one token."""

    def decoder(target, draft, ids, n, gamma, ends):
        output = autoregressive_decode(target, ids, n, ends)
        if len(ids) <= position < len(output):
            output[position] = (output[position] + 1) % WIDTH
        return output, 0.0

    return decoder


def test_a_copy_in_float64_is_made_only_for_a_difference(tiny_llama, monkeypatch):
    copies = []
    monkeypatch.setattr(copy, "deepcopy", lambda *a: copies.append(a) or pytest.fail("a copy was made"))
    assert (
        certify(tiny_llama.target, tiny_llama.drafts["half"], [tiny_llama.prompts[1]], 10, 4, None).equal == 1
    )
    assert copies == []


def test_every_float32_run_is_equal(tiny):
    for draft in tiny.drafts.values():
        found = certify(tiny.target, draft, tiny.prompts, 30, 4, None)
        assert found.equal == len(tiny.prompts), str(found)


# ---------------------------------------------------------------- the report


def test_the_report_in_words():
    target = Jittery(lambda position: position in (3, 7))
    found = certify(target, steady(), [PROMPT, [1, 2, 3, 4, 5, 6, 7, 8, 9]], 10, 4, None)
    lines = str(found).splitlines()
    head = "2 prompts, gamma 4, up to 10 new tokens: 1 equal, 1 differ by ties, 0 by faults"
    assert lines[0] == head and len(lines) == 2
    assert lines[1].startswith("prompt 0: tie, 10 tokens; new token 3 is")
    assert lines[1].count("rounding explains it") == 2 and "new token 7 is" in lines[1]
    assert str(found.prompts[1]) == "prompt 1: equal, 10 tokens"
    typed = Jittery(lambda position: False, dtype=torch.bfloat16)
    assert str(certify(typed, steady(), [PROMPT], 4, 2, None)).startswith("1 prompts in bfloat16, gamma 2")
    fault = certify(steady(), steady(), [PROMPT], 8, 4, None, decoder=spoilt(3))
    assert "too far apart for rounding: this is a fault" in str(fault)


def test_the_report_as_a_frame():
    target = Jittery(lambda position: position in (3, 7))
    found = certify(target, steady(), [PROMPT, [1] * 9], 10, 4, None)
    frame = found.to_frame()
    assert list(frame["prompt"]) == [0, 0, 1] and list(frame["verdict"]) == ["tie", "tie", "equal"]
    assert list(frame["index"][:2]) == [2, 6] and frame["index"].isna().tolist() == [False, False, True]
    assert {str(frame[name].dtype) for name in ("index", "token", "plain_token")} == {"Int64"}
    for name in ("gap", "gap_block", "gap_float64", "noise"):
        expected = [getattr(d, name) for d in found.prompts[0].divergences] + [NAN]
        assert list(frame[name]) == pytest.approx(expected, nan_ok=True)
    assert list(frame["token"][:2]) == [d.token for d in found.prompts[0].divergences]
    equal = certify(steady(), steady(), [PROMPT], 4, 2, None).to_frame()
    assert len(equal) == 1 and str(equal["token"].dtype) == "Int64" and equal["token"].isna().all()
    ended = certify(steady(), steady(), [PROMPT], 8, 4, None, decoder=lambda *a: (a[2], 0.0)).to_frame()
    assert list(ended["verdict"]) == ["fault"] and ended["token"].isna().all() and list(ended["index"]) == [0]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], 4, 2, None), ValueError, "prompts must hold at least one prompt, got none"),
        (([[1], []], 4, 2, None), ValueError, r"prompts\[1\] must hold at least one id"),
        (
            ([[1], [WIDTH]], 4, 2, None),
            ValueError,
            rf"prompts\[1\] must hold ids below .* {WIDTH}, got {WIDTH}",
        ),
        (([1, 2], 4, 2, None), TypeError, r"prompts\[0\] must be a list"),
        (([[1.5]], 4, 2, None), TypeError, r"prompts\[0\]\[0\] must be an integer"),
        ((["text"], 4, 2, None), TypeError, r"prompts\[0\] must be token ids, got text"),
        (([[1]], 0, 2, None), ValueError, "max_new_tokens must be at least 1"),
        (([[1]], 4, 0, None), ValueError, "gamma must be at least 1"),
        (([[1]], 4, 2.5, None), TypeError, "gamma must be an integer"),
        (([[1]], 4, 2, "end"), TypeError, "eos_token_id"),
        (([[1], [1] * 10], 16, 2, None), ValueError, r"prompts\[1\] has 10 tokens.*context of 25"),
    ],
)
def test_bad_input_is_refused_before_any_pass(arguments, error, message):
    target, draft = ScriptedModel(BEST, WIDTH, 25), steady()
    with pytest.raises(error, match=message):
        certify(target, draft, *arguments)
    assert target.passes == draft.passes == 0


def test_bad_models_are_refused_before_any_pass():
    with pytest.raises(TypeError, match="target_model"):
        certify(object(), steady(), [PROMPT], 4, 2, None)
    target = steady()
    with pytest.raises(TypeError, match="draft_model"):
        certify(target, object(), [PROMPT], 4, 2, None)
    assert target.passes == 0


def test_prompts_in_any_form():
    for prompts in (((4,), (1, 2)), [torch.tensor([4]), torch.tensor([1, 2])], iter([[4], [1, 2]])):
        assert certify(steady(), steady(), prompts, 6, 2, None).equal == 2


# ---------------------------------------------------------------- margins


def test_margins_against_an_uncached_loop(tiny):
    """Tokens, runners-up and gaps by a full pass at every step, straight through transformers."""
    prompt, text = tiny.prompts[1], tiny.references[1].tokens[:12]
    for block in (1, 2, 5, 12, 40):
        found = measure_margins(tiny.target, prompt, text, block=block)
        assert found.tokens == tuple(text) and found.noise < 1e-3 and found.noise == max(found.changes)
        assert found.eps == torch.finfo(torch.float32).eps
        for i, token in enumerate(text):
            row = full_logits(tiny.target, [*prompt, *text[:i]])[-1]
            others = [j for j in range(len(row)) if j != token]
            runner = max(others, key=lambda j: float(row[j]))
            assert found.runners_up[i] == runner
            gap = float(row[token] - row[runner])
            assert found.gaps[i] == pytest.approx(gap, abs=1e-3)
            assert found.block_gaps[i] == pytest.approx(gap, abs=1e-3)
            assert found.largest_logits[i] == pytest.approx(float(row.abs().max()), abs=1e-3)
        assert found.gaps == pytest.approx(tiny.references[1].gaps[:12], abs=1e-3)


def test_margins_of_a_text_that_is_not_greedy(tiny_llama):
    prompt, text = tiny_llama.prompts[1], list(tiny_llama.references[1].tokens[:6])
    text[3] = (text[3] + 1) % 64
    found = measure_margins(tiny_llama.target, prompt, text)
    assert found.gaps[3] < 0 and min(found.gaps[:3]) > 0
    assert found.runners_up[3] == tiny_llama.references[1].tokens[3]


def test_blocks_are_fed_as_a_verify_pass_would():
    """`block` tokens at a time, the prompt on the first pass, nothing twice; then once in one pass."""
    target, text = steady(), plain(steady(), 7)
    measure_margins(target, [4], text, block=3)
    fed = [call.tokens for call in target.calls]
    whole = (4, *text)
    assert fed[:7] == [(token,) for token in whole[:7]], "steps"
    assert fed[7:10] == [whole[:3], whole[3:6], whole[6:7]], "blocks"
    assert fed[10:] == [whole[:7]], "one pass"


def test_noise_sees_every_row_and_both_ways():
    """A change anywhere in the text, in blocks or in one pass over everything."""
    for at in (2, 6, 9):
        target = Jittery(lambda position, at=at: position == at, gap=5.0, jitter=0.3)
        found = measure_margins(target, PROMPT, plain(target, 10), block=4)
        assert found.noise == pytest.approx(0.3, abs=1e-5)
        assert [c > 0.1 for c in found.changes] == [i == at - 1 for i in range(10)]
        # block 1 is a step; the one pass is still compared
        assert measure_margins(target, PROMPT, plain(target, 10), block=1).noise == pytest.approx(
            0.3, abs=1e-5
        )


def test_block_gaps_below_zero_choose_otherwise():
    target = Jittery(lambda position: position in (3, 6))
    found = measure_margins(target, PROMPT, plain(target, 10), block=5)
    assert [i for i, gap in enumerate(found.block_gaps) if gap < 0] == [2, 5]
    assert found.gaps[2] == pytest.approx(0.1, abs=1e-5) and found.block_gaps[2] == pytest.approx(
        -0.1, abs=1e-5
    )
    assert found.near_ties() == [2, 5]
    assert found.share_within(0.05) == 0 and found.share_within(0.11) == 0.2 and found.share_within(10) == 1


def test_share_within_includes_the_margin():
    target = ScriptedModel(lambda prefix: [2.0, 1.5, 0.0], 3)
    found = measure_margins(target, [0], [0, 0, 0])
    assert found.share_within(0.5) == 1 and found.share_within(0.49) == 0
    assert found.runners_up == (1, 1, 1) and found.gaps == (0.5,) * 3 and found.noise == 0
    assert found.eps is None and found.largest_logits == (2.0,) * 3


def test_a_token_whose_others_are_all_impossible():
    """Nothing comes near it, whichever id it has."""
    for only_id in (1, 2, 0):
        target = ScriptedModel(lambda prefix, i=only_id: [5.0 if j == i else -INF for j in range(3)], 3)
        found = measure_margins(target, [0], [only_id] * 2)
        assert found.gaps == (INF, INF), only_id
        assert found.near_ties() == [] and only_id not in found.runners_up


def test_masked_ids_are_no_noise():
    """-inf in a step and in a block are equal, not NaN apart."""
    target = ScriptedModel(lambda prefix: [-INF, 1.0, 0.5], 3)
    assert measure_margins(target, [0], [1, 1, 1]).noise == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], [1]), ValueError, "input_ids must hold at least one id"),
        (([0], []), ValueError, "new_tokens must hold at least one id"),
        (([0], [1.5]), TypeError, "new_tokens"),
        (([0], [1], 0), ValueError, "block must be at least 1"),
        (([0], [1], 2.0), TypeError, "block must be an integer"),
        (([WIDTH], [1]), ValueError, str(WIDTH)),
        (([0], [1, WIDTH]), ValueError, str(WIDTH)),
        (([0], [1] * 30), ValueError, "context of 25"),
    ],
)
def test_margins_refuse_bad_input(arguments, error, message):
    target = ScriptedModel(BEST, WIDTH, 25)
    with pytest.raises(error, match=message):
        measure_margins(target, *arguments)
    assert target.passes == 0


@pytest.mark.parametrize("eps", [2**-7, 2**-10, 2**-23, None])
def test_what_rounding_can_make(eps):
    most = 1 / 3 if eps is None else 16 * eps
    for largest in (0.5, 1.0, 40.0):
        size = max(1.0, largest)
        assert is_rounding(most * size * 0.999, largest, eps) and not is_rounding(
            most * size * 1.001, largest, eps
        )
        noise = most * size / 2
        bound = max(2 * noise, FLOAT32_TIE * size)
        assert is_near_tie(bound * 0.999, noise, largest, eps) and not is_near_tie(
            bound * 1.001, noise, largest, eps
        )
        assert is_near_tie(-bound * 0.999, noise, largest, eps)
        assert not is_near_tie(FLOAT32_TIE * size * 1.001, most * size * 1.001, largest, eps)
    assert not is_near_tie(NAN, 0.1, 1.0, eps) and not is_near_tie(0.1, NAN, 1.0, eps)


def test_large_logits_elsewhere_do_not_make_a_fault_of_a_tie():
    """The noise of a row of large logits is rounding there; a tie in a row of small ones is still a tie."""

    class Uneven(ScriptedModel):
        dtype = torch.bfloat16

        def forward(self, input_ids, use_cache=True, past_key_values=None):
            first = len(past_key_values or [])
            output = super().forward(input_ids, use_cache, past_key_values)
            if input_ids.shape[1] > 1:
                for i in range(input_ids.shape[1]):
                    output.logits[0, i] += torch.tensor(
                        [0.0, 1.5, 0.0] if first + i == 2 else [0.0, 0.02, 0.0]
                    )
            return output

    def rule(prefix):
        return [100.0, 90.0, 0.0] if len(prefix) == 3 else [2.0, 1.99, 0.0]

    target = Uneven(rule, 3)
    assert is_rounding(1.5, 100.0, 2**-7) and is_rounding(0.02, 2.0, 2**-7)
    found = first_divergence(target, [0], [0, 0, 0, 0, 1], [0] * 5)
    assert found.index == 4 and found.near_tie, str(found)


def test_half_precision_has_half_precision_s_noise():
    target = random_model("llama", seed=1).to(torch.bfloat16)
    text = plain(target, 16, [5, 9, 13])
    found = measure_margins(target, [5, 9, 13], text)
    assert found.eps == 2**-7 and 1e-4 < found.noise < 1
    assert is_rounding(found.noise, min(found.largest_logits), found.eps)
