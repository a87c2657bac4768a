"""The text is the target's own greedy text: against plain decoding, an uncached loop, and transformers' `generate`,
plain and assisted. Then the limits of the problem statement, and streaming.

A difference is excused only at a near tie of the *uncached* loop (see `helpers.assert_same_text`).
"""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import (
    VOCABULARY,
    Reference,
    assert_rounds_hold,
    assert_same_text,
    full_logits,
    random_model,
    top_two,
    with_noise,
)

from specdec_lab import ModelDrafter, Trace, autoregressive_decode, speculative_decode, speculative_rounds

DRAFTS = ["agree", "half", "disagree"]


class Counted:
    """Passes and fed tokens of a transformers model, counted at the model itself."""

    def __init__(self, model):
        self.fed: list[int] = []
        self.hook = model.register_forward_pre_hook(self.note, with_kwargs=True)

    def note(self, module, args, kwargs):
        self.fed.append(kwargs["input_ids"].shape[1])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.hook.remove()


def generate(model, prompt, n, text, ends=(), draft=None, gamma=None):
    """transformers' own greedy decoding; with a draft, assisted by a constant gamma.

    `text` is what will come out: the padding token must not be in it, or assisted generation masks it for the draft.
    """
    padding = min(set(range(VOCABULARY)) - {*prompt, *text, *ends})
    assisted = {}
    if draft is not None:
        draft.generation_config.num_assistant_tokens = gamma
        draft.generation_config.num_assistant_tokens_schedule = "constant"
        draft.generation_config.assistant_confidence_threshold = 0.0
        assisted = {"assistant_model": draft}
    ids = torch.tensor([prompt])
    output = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=n,
        eos_token_id=list(ends) or None,
        pad_token_id=padding,
        **assisted,
    )
    return output[0].tolist()


def free_to_run(model):
    """A copy whose own generation settings name no end token."""
    model = copy.deepcopy(model)
    model.generation_config.eos_token_id = None
    model.config.eos_token_id = None
    return model


# ---------------------------------------------------------------- tiny random pairs


@pytest.mark.parametrize("kind", DRAFTS)
@pytest.mark.parametrize("gamma", [1, 4, 16])
@pytest.mark.parametrize("n", [1, 17, 40])
def test_equals_the_uncached_loop(tiny, kind, gamma, n):
    for prompt, full in zip(tiny.prompts, tiny.references, strict=True):
        reference = Reference(full.tokens[:n], full.gaps[:n], full.near[:n])
        with Counted(tiny.target) as target, Counted(tiny.drafts[kind]) as draft:
            rounds = list(
                speculative_rounds(
                    tiny.target,
                    tiny.drafts[kind],
                    prompt,
                    max_new_tokens=n,
                    gamma=gamma,
                    eos_token_id=None,
                )
            )
        new = assert_rounds_hold(prompt, rounds, (), n)
        assert_same_text(new, reference)
        trace = Trace.of(prompt, rounds)
        # what the text cannot show: passes and fed tokens, counted at the models
        unused = trace.drafted - trace.accepted
        assert len(target.fed) == len(rounds)
        assert sum(target.fed) == len(prompt) + n - 1 + unused
        assert len(draft.fed) == trace.drafted
        assert draft.fed[:1] == [len(prompt)][: trace.drafted]
        assert set(draft.fed[1:]) <= {1, 2}
        if kind == "agree":
            assert trace.rejected == 0 and len(rounds) == -(-n // (gamma + 1))


@pytest.mark.parametrize("kind", DRAFTS)
def test_the_one_call_is_the_collected_rounds(tiny, kind):
    for prompt in tiny.prompts:
        trace = Trace.of(prompt, rounds_of(tiny, kind, prompt))
        answer = speculative_decode(tiny.target, tiny.drafts[kind], prompt, 40, 4, None)
        assert answer == (trace.sequence, trace.acceptance_rate)


def test_plain_decoding_equals_the_uncached_loop(tiny):
    for prompt, reference in zip(tiny.prompts, tiny.references, strict=True):
        with Counted(tiny.target) as target:
            tokens = autoregressive_decode(tiny.target, prompt, 40, None)
        assert tokens[: len(prompt)] == prompt
        assert_same_text(tokens[len(prompt) :], reference)
        assert target.fed == [len(prompt)] + [1] * 39


@pytest.fixture(scope="module")
def alone(tiny):
    """The target by itself, 40 tokens behind each prompt: transformers' plain `generate` and our plain loop. No draft and
    no γ takes part, so one run serves all of them."""
    target = free_to_run(tiny.target)
    return [
        (
            generate(target, prompt, 40, reference.tokens),
            autoregressive_decode(target, prompt, 40, None),
        )
        for prompt, reference in zip(tiny.prompts, tiny.references, strict=True)
    ]


@pytest.mark.parametrize("kind", DRAFTS)
@pytest.mark.parametrize("gamma", [1, 5])
def test_equals_transformers_plain_and_assisted(tiny, alone, kind, gamma):
    target, draft = free_to_run(tiny.target), free_to_run(tiny.drafts[kind])
    for prompt, reference, plain in zip(tiny.prompts, tiny.references, alone, strict=True):
        with Counted(target) as theirs, Counted(draft) as their_draft:
            assisted = generate(target, prompt, 40, reference.tokens, draft=draft, gamma=gamma)
        with Counted(target) as ours, Counted(draft) as our_draft:
            tokens, _ = speculative_decode(target, draft, prompt, 40, gamma, None)
        for sequence in (*plain, assisted, tokens):
            assert sequence[: len(prompt)] == prompt
            assert_same_text(sequence[len(prompt) :], reference)
        # the same drafts are made and accepted, so both models run equally often over the same tokens
        assert ours.fed == theirs.fed
        assert len(our_draft.fed) == len(their_draft.fed)


@pytest.mark.parametrize("place", [0, 1, 3, 4, 9, 22])
def test_equals_transformers_with_end_tokens(tiny, place):
    for prompt, reference in zip(tiny.prompts, tiny.references, strict=True):
        text, ends = reference.tokens, [reference.tokens[place]]
        if place == 22:  # several end tokens, one of which never comes
            ends.append(next(i for i in range(64) if i not in text))
        sequences = [
            autoregressive_decode(tiny.target, prompt, 40, ends),
            generate(tiny.target, prompt, 40, text, ends),
        ]
        for draft in tiny.drafts.values():
            sequences.append(speculative_decode(tiny.target, draft, prompt, 40, 4, ends)[0])
            sequences.append(generate(tiny.target, prompt, 40, text, ends, draft=draft, gamma=4))
        for sequence in sequences:
            assert_same_text(sequence[len(prompt) :], reference, ends)
            assert sequence.count(ends[0]) == prompt.count(ends[0]) + 1


def test_the_comparison_itself_can_fail():
    """The excuse is a near tie in the reference, nowhere else, and never a wrong length."""
    reference = Reference([4, 5, 6], [0.5, 1e-7, 0.5], [False, True, False])
    assert_same_text([4, 9, 9], reference)
    for ours in ([9, 5, 6], [4, 5, 9], [4, 5], [4, 5, 6, 7]):
        with pytest.raises(AssertionError):
            assert_same_text(ours, reference)


# ---------------------------------------------------------------- limits of the statement

LONG = {"max_position_embeddings": 2560}


@pytest.mark.parametrize("kind", ["agree", "half"])
def test_longest_prompt_widest_gamma_most_tokens(kind):
    """2048 prompt tokens, gamma 16, 512 new tokens; the truth is one uncached pass over the result."""
    target = random_model("llama", seed=1, **LONG)
    draft = target if kind == "agree" else with_noise(target, 0.006, seed=9)
    prompt = [(17 * i * i + 5 * i + i // 7) % 64 for i in range(2048)]
    given = list(prompt)
    rounds = list(speculative_rounds(target, draft, given, max_new_tokens=512, gamma=16, eos_token_id=None))
    new = assert_rounds_hold(prompt, rounds, (), 512)
    assert len(new) == 512 and len(set(new)) >= 10 and given == prompt
    # by induction: each token is the argmax behind those before it, up to a near tie
    rows = full_logits(target, [*prompt, *new[:-1]])[len(prompt) - 1 :]
    gaps, near = top_two(rows)
    reference = Reference(rows.argmax(-1).tolist(), gaps, near)
    assert (reference.first_near_tie or 512) > 100, "nearly nothing would be compared"
    assert_same_text(new, reference)
    if kind == "agree":
        assert len(rounds) == -(-512 // 17)
        plain = autoregressive_decode(target, prompt, 512, None)
        assert_same_text(plain[2048:], reference)
    else:
        assert 0.05 < Trace.of(prompt, rounds).acceptance_rate < 0.7


# ---------------------------------------------------------------- streaming


def rounds_of(tiny, kind="half", prompt=None, n=40, gamma=4, **more):
    prompt = tiny.prompts[1] if prompt is None else prompt
    more = {"eos_token_id": None, **more}
    return speculative_rounds(tiny.target, tiny.drafts[kind], prompt, max_new_tokens=n, gamma=gamma, **more)


def test_rounds_arrive_one_by_one(tiny_llama):
    """Each round is yielded as soon as it is confirmed: no pass of the next one has run yet."""
    new = []
    with Counted(tiny_llama.target) as target:
        for number, item in enumerate(rounds_of(tiny_llama), start=1):
            new += item.emitted
            assert len(target.fed) == number
    assert new == tiny_llama.references[1].tokens


def test_nothing_leaks_between_rounds(tiny_llama):
    """No `with` block spans a yield: the caller's gradient and inference mode are its own."""
    rounds = rounds_of(tiny_llama)
    for _ in range(3):
        next(rounds)
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        weight = torch.ones(2, requires_grad=True)
        (weight * 3).sum().backward()
        assert weight.grad.tolist() == [3.0, 3.0]
    with torch.no_grad():
        next(rounds)
        assert not torch.is_grad_enabled()


def test_mode_flips_between_rounds():
    """A caller that trains between rounds gets eval-mode tokens and keeps the mode it set."""
    target = random_model("gpt2", seed=5, attn_pdrop=0.5, embd_pdrop=0.5, resid_pdrop=0.5)
    draft = with_noise(target, 0.02, seed=9)
    expected, _ = speculative_decode(target, draft, [3, 1, 4], 30, 3, None)
    new = []
    for i, item in enumerate(
        speculative_rounds(target, draft, [3, 1, 4], max_new_tokens=30, gamma=3, eos_token_id=None)
    ):
        new += item.emitted
        assert target.training == draft.training == (i % 2 == 1)
        target.train(i % 2 == 0), draft.train(i % 2 == 0)
    assert [3, 1, 4, *new] == expected


@pytest.mark.parametrize("flip", ["a part only", "all of it, twice"])
def test_more_flips_between_rounds(flip):
    """The modes are looked at before each pass, not guessed from the outermost module's."""
    target = random_model("gpt2", seed=5, attn_pdrop=0.5, embd_pdrop=0.5, resid_pdrop=0.5)
    block = target.transformer.h[0]
    expected = autoregressive_decode(target, [3, 1, 4], 20, None)
    if flip != "a part only":
        target.train()
        block.eval()
    rounds = speculative_rounds(target, target, [3, 1, 4], max_new_tokens=20, gamma=3, eos_token_id=None)
    new = list(next(rounds).emitted)
    if flip == "a part only":
        block.train()
    else:
        target.eval()
        target.train()
    modes = [module.training for module in target.modules()]
    new += [token for item in rounds for token in item.emitted]
    assert [3, 1, 4, *new] == expected
    assert [module.training for module in target.modules()] == modes


def test_closing_early_leaves_everything_as_found():
    model = random_model("gpt2", seed=5).train()
    rounds = speculative_rounds(model, model, [3, 1, 4], max_new_tokens=30, gamma=3, eos_token_id=None)
    next(rounds)
    rounds.close()
    assert model.training and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    assert next(rounds, None) is None
    fresh = speculative_decode(model, model, [3, 1, 4], 30, 3, None)
    assert fresh == speculative_decode(random_model("gpt2", seed=5), model, [3, 1, 4], 30, 3, None)


def test_two_runs_side_by_side_do_not_mix(tiny_llama):
    """The models hold no state: two iterators over one pair give what each gives alone."""
    alone = [Trace.of(p, rounds_of(tiny_llama, prompt=p)) for p in tiny_llama.prompts[:2]]
    running = [rounds_of(tiny_llama, prompt=p) for p in tiny_llama.prompts[:2]]
    together: list[list] = [[], []]
    while any(running):
        for i, rounds in enumerate(running):
            item = next(rounds, None) if rounds else None
            if item is None:
                running[i] = None
            else:
                together[i].append(item)
    for trace, rounds in zip(alone, together, strict=True):
        assert [(r.drafted, r.emitted) for r in trace.rounds] == [(r.drafted, r.emitted) for r in rounds]


def test_gamma_may_change_from_round_to_round(tiny_llama):
    asked = []

    def gamma(rounds):
        asked.append(len(rounds))
        return [3, 0, 5][len(rounds) % 3]

    rounds = list(rounds_of(tiny_llama, "agree", gamma=gamma))
    assert asked == list(range(len(rounds)))
    assert [len(item.drafted) for item in rounds[:6]] == [3, 0, 5, 3, 0, 5]
    assert [item.outcome for item in rounds[:3]] == ["bonus", "plain", "bonus"]
    assert assert_rounds_hold(tiny_llama.prompts[1], rounds, (), 40) == tiny_llama.references[1].tokens


@pytest.mark.parametrize(("answer", "error"), [(-1, ValueError), (2.5, TypeError), (None, TypeError)])
def test_a_callable_gamma_is_checked(tiny_llama, answer, error):
    rounds = rounds_of(tiny_llama, gamma=lambda rounds: answer)
    with pytest.raises(error, match="gamma"):
        next(rounds)


def test_bad_input_is_refused_at_the_call(tiny_llama):
    """Before the first `next`, with nothing run."""
    with Counted(tiny_llama.target) as target, Counted(tiny_llama.drafts["half"]) as draft:
        for changes, error in (
            ({"n": 0}, ValueError),
            ({"gamma": 0}, ValueError),
            ({"prompt": [64]}, ValueError),
            ({"prompt": [1] * 250}, ValueError),
            ({"eos_token_id": "x"}, TypeError),
        ):
            with pytest.raises(error):
                rounds_of(tiny_llama, **changes)
    assert target.fed == draft.fed == []


def test_a_drafter_can_be_used_again(tiny_llama):
    """`start` forgets the last run; the same object decodes another prompt."""
    drafter = ModelDrafter(tiny_llama.drafts["half"])
    for prompt, reference in zip(tiny_llama.prompts, tiny_llama.references, strict=True):
        rounds = list(
            speculative_rounds(
                tiny_llama.target, drafter, prompt, max_new_tokens=40, gamma=4, eos_token_id=None
            )
        )
        assert assert_rounds_hold(prompt, rounds, (), 40) == reference.tokens
        assert Trace.of(prompt, rounds).accepted > 0
