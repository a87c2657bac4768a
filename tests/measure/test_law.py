"""The exact law of the sampling decoder is the target's own, whatever guesses; a wrong decoder has another.

The outside truth is multiplied out here from the rules of the scripted models, in plain Python; `target_law` has to
agree with it first.
"""

from __future__ import annotations

import functools
import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from helpers import random_model, with_noise

from specdec_lab import (
    DialDrafter,
    ModelDrafter,
    PromptLookupDrafter,
    Proposal,
    Trace,
    speculative_rounds,
)
from specdec_lab.decoding import sampling_rule as rule_module
from specdec_lab.decoding.drafters import NoDrafter
from specdec_lab.decoding.loop import Verdict
from specdec_lab.decoding.sampling import Sampling
from specdec_lab.measure.exactness import law, speculative_sampler, target_law
from specdec_lab.measure.law import EnumeratingChance, Law
from specdec_lab.models.scripted import ScriptedModel, fixed, scattered

EXACT = 1e-12
P, Q = [0.1, 0.6, 0.3], [0.6, 0.3, 0.1]
NAN, INF = math.nan, math.inf


def model(rule, width, kind=ScriptedModel, **more):
    remembered = functools.cache(rule)  # the same prefixes come in thousands of paths
    return kind(lambda prefix: remembered(tuple(prefix)), width, logits_dtype=torch.float64, **more)


def pair(target_width=3, draft_width=3, spread=1.0):
    return model(scattered(target_width, 1, spread), target_width), model(
        scattered(draft_width, 2, spread), draft_width
    )


def probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """Softmax and filters in plain Python."""
    top = max(logits)
    weights = [math.exp((x - top) / temperature) for x in logits]
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    kept = order[:top_k] if top_k else order
    if top_p is not None:
        total, reached, nucleus = sum(weights[i] for i in kept), 0.0, []
        for i in kept:
            nucleus.append(i)
            reached += weights[i] / total
            if reached >= top_p:
                break
        kept = nucleus
    total = sum(weights[i] for i in kept)
    return [w / total if i in kept else 0.0 for i, w in enumerate(weights)]


def truth(rule, prompt, n, ends=(), **settings):
    """Every text and its probability, straight from the rule."""
    found, open_ = {}, {(): 1.0}
    for _ in range(n):
        longer = {}
        for text, so_far in open_.items():
            for token, p in enumerate(probabilities(rule([*prompt, *text]), **settings)):
                if p > 0:
                    (found if token in ends else longer)[(*text, token)] = so_far * p
        open_ = longer
    return {**found, **open_}


def assert_law(decoder, target, draft, n, ends=(), prompt=(0,), **settings):
    """Equal to the target's own law; returns the law found."""
    expected = target_law(target, prompt, n, Sampling(**settings), list(ends))
    outside = truth(target.rule, prompt, n, ends, **settings)
    assert expected.difference(outside) < EXACT and abs(sum(outside.values()) - 1) < EXACT
    found = law(decoder, target, draft, prompt, n)
    assert abs(sum(found.values()) - 1) < EXACT
    assert found.difference(expected) < EXACT and found.total_variation(expected) < EXACT
    assert all(len(text) == n or text[-1] in ends for text in found)
    return found


# ---------------------------------------------------------------- equal to the target's law


@pytest.mark.parametrize(("gamma", "least"), [(1, 200), (2, 900), (3, 2500)])
def test_vocabulary_3_four_tokens(gamma, least):
    """A full round with its bonus and more: thousands of paths."""
    found = assert_law(speculative_sampler(gamma), *pair(), n=4)
    assert len(found) == 81 and found.paths > least


def test_vocabulary_2_six_tokens_gamma_4():
    """More than ten thousand paths: a full round of four drafts, its bonus, and a round behind it. Slow."""
    found = assert_law(speculative_sampler(4), *pair(2, 2), n=6)
    assert len(found) == 64 and found.paths > 10_000


FILTERS = {
    "cold": {"temperature": 0.5},
    "hot": {"temperature": 3.0},
    "top-k 2": {"top_k": 2},
    "top-k 1": {"top_k": 1},
    "top-p 0.7": {"top_p": 0.7},
    "top-p 0": {"top_p": 0.0},
    "all": {"temperature": 1.7, "top_k": 2, "top_p": 0.8},
}


@pytest.mark.parametrize("settings", FILTERS.values(), ids=FILTERS.keys())
def test_filters_and_temperature(settings):
    assert_law(speculative_sampler(2, Sampling(**settings)), *pair(), n=3, **settings)


def test_a_temperature_of_zero_has_one_path():
    target, draft = pair()
    found = law(speculative_sampler(2, Sampling(0.0)), target, draft, [0], 4)
    assert found.paths == 1 and list(found.values()) == [1.0]
    assert found.difference(target_law(target, [0], 4, Sampling(0.0))) == 0


@pytest.mark.parametrize("widths", [(2, 4), (4, 2), (3, 4), (1, 3), (3, 1)])
@pytest.mark.parametrize("settings", [{}, {"top_k": 2}])
def test_unequal_vocabularies(widths, settings):
    assert_law(speculative_sampler(2, Sampling(**settings)), *pair(*widths), n=3, **settings)


class Unstated(ScriptedModel):
    """It scores `vocab_size` ids but does not say so; it reads others too, as a padded embedding does."""

    def __init__(self, rule, width, **more):
        super().__init__(rule, width, **more)
        self.vocab_size, self.width = None, width

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        cache = [] if past_key_values is None else past_key_values
        rows = []
        for token in input_ids[0].tolist():
            cache.append(token)
            rows.append(self.rule(cache))
        return SimpleNamespace(logits=torch.tensor([rows], dtype=self.logits_dtype), past_key_values=cache)


def rounds_law(target, draft, n, gamma, outcome, prompt=(0,), ends=(), **settings):
    """The law of whatever `outcome` makes of the rounds; it need not ask for all of them."""

    def decoder(target, draft, prompt, n, chance):
        rounds = speculative_rounds(
            target,
            draft,
            prompt,
            max_new_tokens=n,
            gamma=gamma,
            eos_token_id=list(ends),
            sampling=Sampling(**settings),
            chance=chance,
        )
        return outcome(rounds)

    return law(decoder, target, draft, list(prompt), n)


def emitted(rounds):
    return [token for item in rounds for token in item.emitted]


@pytest.mark.parametrize("settings", [{}, {"top_k": 2}])
def test_a_vocabulary_that_is_not_stated_is_learnt_from_the_first_pass(settings):
    """From then on a draw that the target cannot read counts as rejected: forgetting it would favour the others."""
    target, draft = model(scattered(2, 1), 2, Unstated), model(scattered(4, 2), 4)
    found = rounds_law(target, draft, 4, lambda rounds: 2 if rounds else 0, emitted, **settings)
    assert found.difference(truth(target.rule, [0], 4, **settings)) < EXACT


def test_a_vocabulary_that_is_not_stated_in_the_first_round():
    """Never an IndexError: the row that judges a foreign id says how many ids there are."""
    target, draft = model(scattered(2, 1), 2, Unstated), model(scattered(4, 2), 4)
    found = law(speculative_sampler(2), target, draft, [0], 3)
    assert found.difference(truth(target.rule, [0], 3)) < EXACT


def test_an_embedding_wider_than_the_head():
    """The target states more ids than it scores; the draft uses them (huggingface/transformers 45307)."""

    class Wide(Unstated):
        def __init__(self, rule, width, **more):
            super().__init__(rule, width, **more)
            self.vocab_size = 8

    target, draft = model(scattered(2, 1), 2, Wide), model(scattered(4, 2), 4)
    found = law(speculative_sampler(2), target, draft, [0], 3)
    assert found.difference(truth(target.rule, [0], 3)) < EXACT


class Foreign:
    """Draws from four ids for a target that has two, through the drafter interface."""

    row = torch.tensor([0.2, 0.3, 0.4, 0.1], dtype=torch.float64)

    def start(self, prompt):
        pass

    def propose(self, sequence, limit, chance):
        tokens = tuple(chance.draw(self.row) for _ in range(limit))
        return Proposal(tokens, probabilities=self.row.expand(limit, -1))

    def commit(self, sequence, hidden=None):
        pass


def test_foreign_draws_of_a_drafter_of_one_s_own():
    target = model(scattered(2, 1), 2)
    assert_law(speculative_sampler(2), target, Foreign(), n=3)
    assert_law(speculative_sampler(2, eos_token_id=1), target, Foreign(), n=3, ends=(1,))


class Guesses:
    """A point mass that differs from place to place, now and then none."""

    def start(self, prompt):
        pass

    def propose(self, sequence, limit, chance):
        return Proposal(
            tuple((len(sequence) + i * i + sequence[-1]) % 3 for i in range(limit))[: len(sequence) % 3]
        )

    def commit(self, sequence, hidden=None):
        pass


DRAFTERS = {
    "argmax": lambda target, draft: ModelDrafter(draft),
    "lookup": lambda target, draft: PromptLookupDrafter(),
    "dial": lambda target, draft: DialDrafter(target, 0.6),
    "dial paid": lambda target, draft: DialDrafter(target, 0.6, draft_model=draft),
    "guesses": lambda target, draft: Guesses(),
    "nobody": lambda target, draft: NoDrafter(),
    "itself": lambda target, draft: target,
}


@pytest.mark.parametrize("settings", [{}, {"top_k": 2, "temperature": 0.7}])
@pytest.mark.parametrize("name", DRAFTERS)
def test_whoever_guesses(name, settings):
    target, draft = pair()
    drafter = DRAFTERS[name](target, draft)
    found = assert_law(
        speculative_sampler(3, Sampling(**settings)), target, drafter, n=4, prompt=(0, 1, 0), **settings
    )
    if name == "nobody":
        assert found.paths == len(found)


@pytest.mark.parametrize(("ends", "n"), [((1,), 4), ((0, 2), 4), ((0, 1, 2), 4), ((9,), 3)])
@pytest.mark.parametrize("gamma", [1, 3])
def test_end_tokens(ends, n, gamma):
    target, draft = pair()
    found = assert_law(speculative_sampler(gamma, eos_token_id=list(ends)), target, draft, n=n, ends=ends)
    assert all(not set(text[:-1]) & set(ends) for text in found)
    by_hand = ModelDrafter(draft, sampling=Sampling())  # not told the end tokens: cut by the loop
    assert_law(speculative_sampler(gamma, eos_token_id=list(ends)), target, by_hand, n=3, ends=ends)
    lookup = speculative_sampler(gamma, eos_token_id=list(ends))
    assert_law(lookup, target, PromptLookupDrafter(), n=n, ends=ends, prompt=(0, 1, 0, 1))


@pytest.mark.parametrize("bad", [[NAN] * 3, [0.0, INF, 0.0], [-INF] * 3, [0.0, NAN, 1.0]])
def test_a_draft_that_gives_up_on_some_prefixes(bad):
    rule = scattered(3, 2)
    draft = model(lambda prefix: bad if sum(prefix) % 3 == 1 else rule(prefix), 3)
    assert_law(speculative_sampler(3), pair()[0], draft, n=4 if bad[0] == 0 else 3)


def test_a_target_and_a_draft_with_zeros():
    target = model(lambda prefix: fixed([0.5, 0.5, 0.0] if prefix[-1] else [0.0, 0.3, 0.7])([]), 3)
    draft = model(lambda prefix: fixed([0.0, 0.1, 0.9] if prefix[-1] == 1 else [0.2, 0.0, 0.8])([]), 3)
    assert_law(speculative_sampler(3), target, draft, n=4)


def test_p_equals_q_but_for_one_ulp():
    target = model(lambda prefix: [0.1, 0.2, 0.3], 3)
    draft = model(lambda prefix: [math.nextafter(0.1, 1), 0.2, math.nextafter(0.3, 0)], 3)
    assert_law(speculative_sampler(2), target, draft, n=3)


def test_one_token():
    """Nothing is drafted for it."""
    target, draft = pair()
    found = assert_law(speculative_sampler(4), target, draft, n=1)
    assert found.paths == 3 and draft.passes == 0


def test_a_gamma_that_changes():
    """Decided by what came out so far, which must not lean on what is to come."""
    target, draft = pair()
    found = rounds_law(target, draft, 4, lambda rounds: 1 + sum(len(r.accepted) for r in rounds) % 3, emitted)
    assert found.difference(truth(target.rule, [0], 4)) < EXACT


def test_a_context_that_ends():
    target = model(scattered(3, 1), 3, max_position_embeddings=4)
    draft = model(scattered(3, 2), 3, max_position_embeddings=2)
    assert_law(speculative_sampler(3), target, draft, n=3)


@pytest.mark.parametrize(
    "dtypes", [(torch.float32, torch.float64), (torch.float64, torch.float32), (torch.float32,) * 2]
)
def test_float32_is_right_to_float32(dtypes):
    target, draft = (
        ScriptedModel(scattered(3, s), 3, logits_dtype=d) for s, d in zip((1, 2), dtypes, strict=True)
    )
    found = law(speculative_sampler(2), target, draft, [0], 3)
    assert found.difference(truth(target.rule, [0], 3)) < 1e-6


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_caches_of_real_models(family):
    """Two rounds of a random transformers model in float64, its cache cut after every rejection."""
    target = random_model(
        family, seed=1, vocab_size=3, eos_token_id=None, bos_token_id=None, pad_token_id=None
    )
    draft = with_noise(target, 0.05, seed=3)
    target, draft = target.double(), draft.double()
    settings = {"temperature": 4.0}
    found = law(speculative_sampler(2, Sampling(**settings)), target, draft, [0, 2], 3)

    @torch.no_grad()
    def rule(prefix):
        return target(input_ids=torch.tensor([list(prefix)]), use_cache=False).logits[0, -1].tolist()

    expected = truth(rule, [0, 2], 3, **settings)
    # transformers' norms and angles go through float32
    assert found.difference(expected) < 1e-5 and len(found) == 27
    flat = {text: 1 / 27 for text in expected}
    assert found.total_variation(flat) > 0.1, "the texts are far from equally likely"
    alone = law(speculative_sampler(2, Sampling(**settings)), draft, NoDrafter(), [0, 2], 3)
    assert found.total_variation(alone) > 0.01, "the draft's law is another"


# ---------------------------------------------------------------- how many are accepted


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "top_k": 2}])
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_the_law_of_the_number_accepted(gamma, settings):
    """At least m are, with probability Σ over m tokens of Π min(p, q)."""
    target, draft = pair()
    found = rounds_law(
        target, draft, gamma + 1, gamma, lambda rounds: [len(next(rounds).accepted)], **settings
    )
    for m in range(gamma + 1):
        expected = sum(
            math.prod(
                min(probabilities(m_.rule([0, *text[:i]]), **settings)[text[i]] for m_ in (target, draft))
                for i in range(m)
            )
            for text in itertools.product(range(3), repeat=m)
        )
        at_least = sum(chance for (count,), chance in found.items() if count >= m)
        assert at_least == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("gamma", [1, 2, 4])
def test_a_steady_pair_is_geometric(gamma):
    """α = Σ min(p, q) = .5 at every place, and `overlaps` says so on every path."""
    target, draft = (model(fixed(row), 3) for row in (P, Q))

    def outcome(rounds):
        first = next(rounds)
        return [len(first.accepted), *first.overlaps]

    found = rounds_law(target, draft, gamma + 1, gamma, outcome)
    for (count, *overlaps), chance in found.items():
        assert chance == pytest.approx(0.5**count * (0.5 if count < gamma else 1), abs=EXACT)
        assert overlaps == pytest.approx([0.5] * min(count + 1, gamma), abs=EXACT)


def test_the_bonus_follows_p_and_the_correction_the_residual():
    """Given what happened before them (vllm PR 5765)."""
    target, draft = (model(fixed(row), 3) for row in (P, Q))

    def outcome(rounds):
        first = next(rounds)
        return [first.outcome, first.emitted[-1]]

    found = rounds_law(target, draft, 4, 2, outcome)
    for outcome, expected in (("bonus", P), ("correction", [0, 0.6, 0.4])):
        total = sum(chance for key, chance in found.items() if key[0] == outcome)
        for token, p in enumerate(expected):
            assert found.get((outcome, token), 0.0) / total == pytest.approx(p, abs=EXACT)


def accepted_and_expected(target, drafter, n):
    """Over all paths: the mean number of accepted tokens, and the mean of Σ overlaps."""

    def counts(rounds):
        trace = Trace.of([0], rounds)
        return [trace.accepted, round(sum(sum(r.overlaps) for r in trace.rounds), 12)]

    found = rounds_law(target, drafter, n, 2, counts)
    return [sum(key[i] * chance for key, chance in found.items()) for i in (0, 1)]


def test_expected_alpha_is_the_mean_of_alpha():
    """The expectation of the observed count, place by place."""
    accepted, expected = accepted_and_expected(*pair(), 4)
    assert accepted == pytest.approx(expected, abs=1e-9) and accepted > 0.5


def test_expected_alpha_with_foreign_draws():
    """A draw that the target cannot read counts as rejected, in the record too."""
    accepted, expected = accepted_and_expected(model(scattered(2, 1), 2), Foreign(), 3)
    assert accepted == pytest.approx(expected, abs=1e-9)


# ---------------------------------------------------------------- a wrong decoder is noticed


def first_token_law(monkeypatch, **changes):
    for name, value in changes.items():
        monkeypatch.setattr(*name.rsplit(".", 1) if "." in name else (rule_module, name), value)
    target, draft = (model(fixed(row), 3) for row in (P, Q))
    return law(speculative_sampler(1), target, draft, [0], 3).of_token(0)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (lambda p, q: p, [0.15, 0.6, 0.25]),  # resampled from p (eth-sri/language-model-arithmetic 14)
        (lambda p, q: (p - q).clamp(min=0).softmax(-1), None),  # (huggingface/transformers PR 28508)
        (lambda p, q: q, [0.1 + 0.3, 0.3 + 0.15, 0.1 + 0.05]),  # resampled from q
        (lambda p, q: (q - p).clamp(min=0) / 0.5, [0.6, 0.3, 0.1]),  # the wrong way round
    ],
)
def test_a_wrong_replacement(monkeypatch, wrong, expected):
    if expected is None:
        weights = [math.exp(max(0.0, a - b)) for a, b in zip(P, Q, strict=True)]
        expected = [min(a, b) + 0.5 * w / sum(weights) for a, b, w in zip(P, Q, weights, strict=True)]
    found = first_token_law(monkeypatch, residual=wrong)
    assert [found[(i,)] for i in range(3)] == pytest.approx(expected, abs=EXACT)
    assert found.total_variation({(i,): p for i, p in enumerate(P)}) > 0.04


def test_a_wrong_rule(monkeypatch):
    """Accepting everything yields the draft's law; accepting with p(x) only, a mixture."""

    def accept_all(self, proposal, logits, chance):
        k = len(proposal.tokens)
        return Verdict(range(k), chance.draw(self.distribution(logits)[k]), ())

    def accept_with_p(self, proposal, logits, chance):
        p = self.distribution(logits)
        for i, token in enumerate(proposal.tokens):
            if not chance.accept(float(p[i, token])):
                return Verdict(range(i), chance.draw(p[i]), ())
        return accept_all(self, proposal, logits, chance)

    target, draft = pair()
    right = target_law(target, [0], 3)
    for wrong in (accept_all, accept_with_p):
        monkeypatch.setattr(Sampling, "accept", wrong)
        found = law(speculative_sampler(2), target, draft, [0], 3)
        assert found.difference(right) > 0.01 and abs(sum(found.values()) - 1) < EXACT
    monkeypatch.setattr(Sampling, "accept", accept_all)
    assert (
        law(speculative_sampler(1), target, draft, [0], 2).of_token(0).difference(target_law(draft, [0], 1))
        < EXACT
    )


def test_a_draft_that_is_not_filtered(monkeypatch):
    """q in the accept test is not what was sampled from."""
    target, draft = pair()
    drafter = ModelDrafter(draft, sampling=Sampling(top_k=2))
    real = ModelDrafter.propose

    def propose(self, sequence, limit, chance):
        proposal = real(self, sequence, limit, chance)
        rows = [
            probabilities(draft.rule([*sequence, *proposal.tokens[:i]])) for i in range(len(proposal.tokens))
        ]
        return Proposal(proposal.tokens, probabilities=torch.tensor(rows, dtype=torch.float64))

    assert_law(speculative_sampler(2), target, drafter, n=3)
    monkeypatch.setattr(ModelDrafter, "propose", propose)
    assert law(speculative_sampler(2), target, drafter, [0], 3).difference(target_law(target, [0], 3)) > 0.01


# ---------------------------------------------------------------- the machine itself


def test_every_path_once():
    walk, seen = EnumeratingChance(), {}
    while True:
        first = walk.draw([0.5, 0.0, 0.25, 0.25])
        second = walk.accept(0.2) if first else None
        third = walk.draw(torch.tensor([0.4, 0.6])) if second else None
        assert (first, second, third) not in seen
        seen[first, second, third] = walk.probability
        if not walk.advance():
            break
    assert len(seen) == 7 and sum(seen.values()) == pytest.approx(1)
    assert seen[0, None, None] == 0.5 and seen[2, False, None] == pytest.approx(0.2)
    assert seen[3, True, 1] == pytest.approx(0.25 * 0.2 * 0.6)


def test_the_impossible_is_no_path():
    walk = EnumeratingChance()
    assert (walk.draw([0.0, 1.0, 0.0]), walk.accept(1.0), walk.accept(0.0)) == (1, True, False)
    assert walk.probability == 1.0 and not walk.advance()
    assert not EnumeratingChance().advance(), "no choice at all is one path"
    with pytest.raises(ValueError, match="no id has a positive probability"):
        EnumeratingChance().draw([0.0, 0.0])


def test_counting_paths():
    def tossing(target, draft, prompt, n, chance):
        return [int(chance.accept(0.5)) for _ in range(n)]

    found = law(tossing, None, None, [0], 5)
    assert found.paths == 32 and set(found.values()) == {1 / 32}
    assert law(lambda *a: "x", None, None, [0], 1) == {("x",): 1.0}
    merged = law(lambda t, d, p, n, chance: [sum(tossing(t, d, p, n, chance))], None, None, [0], 4)
    assert merged == {(i,): math.comb(4, i) / 16 for i in range(5)} and merged.paths == 16


def test_most_paths():
    decoder, models = speculative_sampler(2), pair()
    paths = law(decoder, *models, [0], 3).paths
    assert law(decoder, *models, [0], 3, most_paths=paths).paths == paths
    with pytest.raises(ValueError, match=rf"more than most_paths = {paths - 1} paths"):
        law(decoder, *models, [0], 3, most_paths=paths - 1)


@pytest.mark.parametrize(
    ("prompt", "n", "error", "message"),
    [
        ([], 3, ValueError, "prompt must hold at least one id"),
        ([-1], 3, ValueError, "prompt must hold ids of 0 or more"),
        ("text", 3, TypeError, "prompt must be token ids"),
        ([0], 0, ValueError, "n must be at least 1, got 0"),
        ([0], 1.5, TypeError, "n must be an integer"),
    ],
)
def test_bad_input_is_refused(prompt, n, error, message):
    target, draft = pair()
    for ask in (
        lambda: law(speculative_sampler(2), target, draft, prompt, n),
        lambda: target_law(target, prompt, n),
    ):
        with pytest.raises(error, match=message):
            ask()
    assert target.passes == draft.passes == 0


def test_the_caller_s_prompt_is_given_out_fresh():
    def greedy_for_more(target, draft, prompt, n, chance):
        prompt.append(7)
        return [len(prompt), chance.accept(0.5)]

    prompt = [0]
    assert set(law(greedy_for_more, None, None, prompt, 1)) == {(2, True), (2, False)} and prompt == [0]


def test_distances_between_laws():
    a, b = Law({(0,): 0.5, (1,): 0.5}), Law({(0,): 0.2, (2,): 0.8})
    assert a.difference(b) == b.difference(a) == 0.8
    assert a.total_variation(b) == b.total_variation(a) == pytest.approx(0.8)
    assert a.difference(a) == a.total_variation(a) == 0
    marginal = Law({(0, 1): 0.25, (0, 2): 0.25, (1,): 0.5})
    assert marginal.of_token(0) == {(0,): 0.5, (1,): 0.5}
    assert marginal.of_token(1) == {(1,): 0.25, (2,): 0.25, (): 0.5}


def test_end_tokens_of_the_target_s_own_law():
    target, _ = pair()
    for ends in (None, 1, [1, 2], (9,)):
        stops = [] if ends is None else [ends] if isinstance(ends, int) else ends
        found = target_law(target, [0], 3, eos_token_id=ends)
        assert found.difference(truth(target.rule, [0], 3, stops)) < EXACT
        assert found.paths == len(found)
