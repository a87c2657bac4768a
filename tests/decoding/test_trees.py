"""Trees of drafts: exact, one target pass a round, the right rows kept, and refused where a mask is ignored."""

from __future__ import annotations

import copy
import functools
import random

import pytest
import torch
from helpers import random_model
from test_token_tree import random_shape

from specdec_lab import Sampling, Trace, autoregressive_decode, speculative_rounds, speculative_sample
from specdec_lab.decoding.chance import GeneratorChance
from specdec_lab.decoding.drafters import ModelDrafter, Proposal
from specdec_lab.decoding.medusa import MedusaDrafter
from specdec_lab.decoding.session import Session
from specdec_lab.decoding.token_tree import TokenTree, TreeShape
from specdec_lab.decoding.tree_decode import tree_decode, tree_rounds
from specdec_lab.decoding.tree_drafters import ConfidenceTreeDrafter, ModelTreeDrafter
from specdec_lab.measure.law import law, target_law
from specdec_lab.models.medusa import MedusaHeads
from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix, scattered

WIDTH = 11


def mixed(seed: int, share: float):
    """A draft that follows the target more or less."""
    mine, other = scattered(WIDTH, seed), scattered(WIDTH, seed + 1000)
    return lambda prefix: [
        share * a + (1 - share) * b for a, b in zip(mine(prefix), other(prefix), strict=True)
    ]


def drafters(draft, seed: int):
    dice = random.Random(seed)
    shape = random_shape(seed)
    yield draft, shape
    yield ModelTreeDrafter(draft, shape), shape
    yield ConfidenceTreeDrafter(draft, dice.randint(1, 12), dice.randint(1, 4), dice.randint(1, 4)), None


@pytest.mark.scripted
@pytest.mark.parametrize("seed", range(170))
def test_greedy_trees_equal_plain_decoding(seed):
    """500 settings over three methods: shapes, agreement, prompts, budgets and end tokens at random."""
    dice = random.Random(seed)
    target = ScriptedModel(scattered(WIDTH, seed), WIDTH)
    draft = ScriptedModel(mixed(seed, dice.random()), WIDTH)
    ids = [dice.randrange(WIDTH) for _ in range(dice.randint(1, 6))]
    wanted, ends = dice.randint(1, 24), dice.choice([None, 3, [1, 4]])
    plain = autoregressive_decode(target, ids, wanted, ends)
    for drafter, tree in drafters(draft, seed):
        target.calls.clear()
        rounds = list(tree_rounds(target, drafter, ids, max_new_tokens=wanted, tree=tree, eos_token_id=ends))
        trace = Trace.of(ids, rounds)
        assert trace.sequence == plain
        assert target.passes == len(rounds), "one target pass a round"
        length = len(ids)
        for item in rounds:
            length += len(item.emitted)
            assert item.target_cache_after == length - 1
            assert item.draft_cache_after is None or item.draft_cache_after <= length - 1
        assert 0 <= trace.acceptance_rate <= 1
        assert tree_decode(target, drafter, ids, wanted, tree, ends) == (plain, trace.acceptance_rate)


def test_a_perfect_draft_is_accepted_down_to_the_leaves():
    rule = hash_of_prefix(WIDTH)
    for shape in (TreeShape.by_branching(2, 2, 1), TreeShape.by_branching(1, 3)):
        target, draft = ScriptedModel(rule, WIDTH), ScriptedModel(rule, WIDTH)
        rounds = list(tree_rounds(target, draft, [1, 2], max_new_tokens=25, tree=shape, eos_token_id=None))
        assert all(len(item.emitted) == shape.depth + 1 for item in rounds[:-2])
        assert {item.outcome for item in rounds[:-1]} == {"bonus"}
        fed = [call for call in draft.calls if call.kind == "forward"]
        assert len(fed) <= shape.depth * len(rounds), "one draft pass a level"


@pytest.mark.parametrize("seed", range(30))
def test_a_chain_shaped_tree_is_the_chain(seed):
    """Same tokens, same passes, same cache, call by call."""
    dice = random.Random(seed)
    ids, gamma, wanted = [dice.randrange(WIDTH) for _ in range(4)], dice.randint(1, 5), dice.randint(1, 20)
    ends = dice.choice([None, 2])
    runs = []
    for as_tree in (True, False):
        target, draft = ScriptedModel(scattered(WIDTH, seed), WIDTH), ScriptedModel(mixed(seed, 0.7), WIDTH)
        settings = {"max_new_tokens": wanted, "eos_token_id": ends}
        if as_tree:
            rounds = tree_rounds(target, draft, ids, tree=TreeShape.chain(gamma), **settings)
        else:
            rounds = speculative_rounds(target, draft, ids, gamma=gamma, **settings)
        record = [
            (
                r.drafted,
                r.parents,
                r.accepted,
                r.emitted,
                r.outcome,
                r.target_cache_after,
                r.draft_cache_after,
            )
            for r in rounds
        ]
        runs.append((record, target.calls))
    assert runs[0] == runs[1]


# ---------------------------------------------------------------- real models


def test_node_logits_are_those_of_separate_passes(tiny_llama):
    """F23, on a transformers model: every node against a pass over its own path (Tencent/AngelSlim PR 62)."""
    prompt = tiny_llama.prompts[1]
    for seed in range(6):
        shape, dice = random_shape(seed), random.Random(seed)
        tokens = [dice.randrange(60) for _ in range(len(shape))]
        session = Session(tiny_llama.target)
        rows = session.feed([*prompt, *tokens], rows=len(shape) + 1, parents=shape.parents)
        for node in range(len(shape)):
            path = [tokens[i] for i in shape.path(node)]
            alone = Session(tiny_llama.target).feed([*prompt, *path], rows=1)[0]
            assert (rows[node + 1] - alone).abs().max() <= 1e-5 * max(1, alone.abs().max())


def test_siblings_in_another_order_change_nothing_but_the_order(tiny_llama):
    prompt = tiny_llama.prompts[1]
    rows = [
        Session(tiny_llama.target).feed([*prompt, a, b, 3], rows=4, parents=(-1, -1, parent))
        for a, b, parent in ((5, 9, 0), (9, 5, 1))
    ]
    assert torch.allclose(rows[0][[0, 2, 1, 3]], rows[1], atol=1e-5)


def test_after_a_commit_the_cache_is_that_of_a_fresh_prefill(tiny_llama):
    """The accepted path is not the first rows: its keys must be those of the text, at the right positions."""
    prompt, moved = tiny_llama.prompts[2], 0
    drafter = ModelTreeDrafter(tiny_llama.drafts["half"], (3, 2, 2))
    target = tiny_llama.target
    sequence = list(prompt)
    session = Session(target)
    rounds = tree_rounds(target, drafter, prompt, max_new_tokens=40, tree=(3, 2, 2), eos_token_id=None)
    for item in rounds:
        # the same pass once more in a session of our own, selected the same way
        confirmed = len(sequence)
        parents = item.parents if not TreeShape(item.parents).is_chain else ()
        session.feed([*sequence[session.length :], *item.drafted], rows=1, parents=parents)
        sequence += item.emitted
        session.keep(confirmed, [confirmed + i for i in item.accepted])
        fresh = Session(target)
        fresh.feed(sequence[:-1], rows=1)
        moved += item.accepted != tuple(range(len(item.accepted)))
        for mine, theirs in zip(session._cache.layers, fresh._cache.layers, strict=True):
            for a, b in ((mine.keys, theirs.keys), (mine.values, theirs.values)):
                assert a.shape == b.shape
                assert (a - b).abs().max() <= 1e-5 * max(1, b.abs().max())
    assert moved > 3, "the path was always the first rows, and nothing was tested"


@pytest.mark.parametrize("draft", ["agree", "half", "disagree"])
def test_real_models_equal_an_uncached_loop(tiny_llama, draft):
    for prompt, reference in zip(tiny_llama.prompts, tiny_llama.references, strict=True):
        for drafter, tree in drafters(tiny_llama.drafts[draft], 3):
            got, _ = tree_decode(tiny_llama.target, drafter, prompt, len(reference.tokens), tree, None)
            assert got[len(prompt) :] == list(reference.tokens)


def test_medusa_is_exact_whatever_its_heads_say(tiny_llama):
    target = tiny_llama.target
    torch.manual_seed(0)
    heads = MedusaHeads(target.config.hidden_size, target.config.vocab_size, 3)
    for prompt, reference in zip(tiny_llama.prompts, tiny_llama.references, strict=True):
        drafter = MedusaDrafter(heads, (4, 3, 2))
        rounds = list(
            tree_rounds(target, drafter, prompt, max_new_tokens=40, tree=(4, 3, 2), eos_token_id=None)
        )
        trace = Trace.of(prompt, rounds)
        assert trace.new_tokens == list(reference.tokens)[:40]
        assert rounds[0].outcome == "plain" and all(item.drafted for item in rounds[1:-1])


def test_medusa_reads_what_the_head_reads(tiny_llama):
    """Heads that repeat the target's own head guess the token that the target chose last: one place too early."""
    target, seen = tiny_llama.target, []

    class Echo:
        def __len__(self):
            return 1

        def __call__(self, hidden):
            row = target.get_output_embeddings()(hidden)
            seen.append(int(row.argmax()))
            return row[None]

    rounds = list(
        tree_rounds(
            target,
            MedusaDrafter(Echo(), (1,)),
            tiny_llama.prompts[1],
            max_new_tokens=20,
            tree=(1,),
            eos_token_id=None,
        )
    )
    assert seen == [item.emitted[-1] for item in rounds[: len(seen)]]


# ---------------------------------------------------------------- sampling


F64 = torch.float64


def sampler(tree, sampling, *, drawn: bool, ends=None):
    def decoder(target, draft, prompt, n, chance):
        drafter = ModelTreeDrafter(draft, tree, vocabulary=3, sampling=sampling if drawn else None)
        rounds = tree_rounds(
            target,
            drafter,
            prompt,
            max_new_tokens=n,
            tree=tree,
            eos_token_id=ends,
            sampling=sampling,
            chance=chance,
        )
        return [token for item in rounds for token in item.emitted]

    return decoder


@pytest.mark.scripted
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize(
    ("tree", "n", "sampling"),
    [
        ((2,), 3, Sampling()),
        ((3,), 2, Sampling(1.5)),
        ((3, 1), 3, Sampling(0.7, top_k=2)),
        ((2, 2), 3, Sampling(0.8, top_p=0.8)),
        ([(0,), (1,), (0, 0)], 3, Sampling()),
    ],
)
def test_sampled_trees_have_the_targets_own_law(tree, n, sampling, drawn):
    target = ScriptedModel(scattered(3, 1), 3, logits_dtype=F64)
    draft = ScriptedModel(scattered(3, 2), 3, logits_dtype=F64)
    found = law(sampler(tree, sampling, drawn=drawn), target, draft, [0, 1], n)
    assert found.difference(target_law(target, [0, 1], n, sampling)) < 1e-12
    assert not drawn or sampling.top_k or found.paths > len(found), "several paths lead to one output"


def test_confidence_trees_have_the_targets_own_law():
    target = ScriptedModel(scattered(3, 4), 3, logits_dtype=F64)
    draft = ScriptedModel(scattered(3, 5), 3, logits_dtype=F64)

    def decoder(target, draft, prompt, n, chance):
        drafter = ConfidenceTreeDrafter(draft, budget=3, depth=2, width=2, vocabulary=3)
        rounds = tree_rounds(
            target,
            drafter,
            prompt,
            max_new_tokens=n,
            tree=None,
            eos_token_id=None,
            sampling=Sampling(),
            chance=chance,
        )
        return [token for item in rounds for token in item.emitted]

    assert law(decoder, target, draft, [0], 4).difference(target_law(target, [0], 4)) < 1e-12


def test_temperature_0_is_greedy_for_trees_too(tiny_llama):
    prompt = tiny_llama.prompts[1]
    rounds = tree_rounds(
        tiny_llama.target,
        tiny_llama.drafts["half"],
        prompt,
        max_new_tokens=30,
        tree=(2, 2),
        eos_token_id=None,
        sampling=Sampling(0.0),
    )
    assert Trace.of(prompt, rounds).sequence == autoregressive_decode(tiny_llama.target, prompt, 30, None)


def test_a_tree_drafter_goes_where_a_draft_model_goes(tiny_llama):
    prompt = tiny_llama.prompts[1]
    drafter = ModelTreeDrafter(tiny_llama.drafts["half"], (2, 1))
    tokens = [
        speculative_sample(
            tiny_llama.target, drafter, prompt, 12, 2, None, generator=torch.Generator().manual_seed(seed)
        )[0]
        for seed in (1, 1, 2)
    ]
    assert tokens[0] == tokens[1] != tokens[2]


# ---------------------------------------------------------------- what is drafted


def test_children_are_the_likeliest_tokens_and_drawn_siblings_differ():
    draft = ScriptedModel(scattered(WIDTH, 3), WIDTH, logits_dtype=F64)
    chance = GeneratorChance(torch.Generator().manual_seed(0))
    for sampling in (None, Sampling(2.0)):
        drafter = ModelTreeDrafter(draft, (4, 3), sampling=sampling)
        drafter.start([1, 2])
        proposal = drafter.propose([1, 2], 2, chance)
        tree = TokenTree(TreeShape(proposal.parents), proposal.tokens)
        for node in range(-1, 4):
            tokens = [tree.tokens[child] for child in tree.shape.children[node]]
            assert len(set(tokens)) == len(tokens) == (4 if node < 0 else 3)
            if sampling is None:
                row = draft.rule([1, 2, *(tree.words(node) if node >= 0 else ())])
                assert tokens == sorted(range(WIDTH), key=lambda i: -row[i])[: len(tokens)]
    rows = proposal.probabilities
    assert torch.allclose(rows.sum(-1), torch.ones(len(rows), dtype=F64))
    assert rows[1, proposal.tokens[0]] == 0 and rows[2, list(proposal.tokens[:2])].sum() == 0


def test_a_confidence_tree_holds_the_likeliest_nodes_within_its_budget():
    draft = ScriptedModel(scattered(WIDTH, 3), WIDTH)
    for budget in (1, 3, 8):
        drafter = ConfidenceTreeDrafter(draft, budget, depth=2, width=WIDTH)
        drafter.start([1, 2])
        proposal = drafter.propose([1, 2], 2, None)
        tree = TokenTree(TreeShape(proposal.parents), proposal.tokens)

        def confidence(*words):
            chance = 1.0
            for i, token in enumerate(words):
                row = torch.tensor(draft.rule([1, 2, *words[:i]]), dtype=F64).softmax(-1)
                chance *= float(row[token])
            return chance

        everything = {(a,): confidence(a) for a in range(WIDTH)}
        everything |= {(a, b): confidence(a, b) for a in range(WIDTH) for b in range(WIDTH)}
        best = sorted(everything, key=lambda words: -everything[words])[:budget]
        assert {tree.words(node) for node in range(len(tree.tokens))} == set(best)


@pytest.mark.parametrize("seed", range(5))
def test_drafts_of_other_vocabularies_and_shorter_contexts(seed):
    """F09, F28: ids that the target lacks are never drafted; where the draft cannot read or has no room, it rests."""
    target = ScriptedModel(scattered(WIDTH, seed), WIDTH)
    plain = autoregressive_decode(target, [1, 2], 24, None)
    assert max(plain) >= 8
    for draft in (
        ScriptedModel(scattered(30, seed), 30),
        ScriptedModel(scattered(8, seed), 8),
        ScriptedModel(scattered(WIDTH, seed), WIDTH, max_position_embeddings=10),
    ):
        for tree, make in (
            ((3, 2, 1), lambda d: d),
            (None, lambda d: ConfidenceTreeDrafter(d, 8, 3, 3, vocabulary=WIDTH)),
        ):
            rounds = list(
                tree_rounds(target, make(draft), [1, 2], max_new_tokens=24, tree=tree, eos_token_id=None)
            )
            assert Trace.of([1, 2], rounds).sequence == plain
            if draft.vocab_size == 30:
                sizes = {len(item.drafted) for item in rounds[:-3]}
                assert sizes == ({3 + 6 + 6} if tree else {8}), "nothing had to be dropped"
            else:
                assert rounds[0].drafted and not rounds[-2].drafted


def test_a_draft_row_that_is_not_finite_ends_its_branch():
    def rule(prefix):
        return [float("nan")] * 3 if len(prefix) % 3 == 0 else scattered(3, 2)(prefix)

    target = ScriptedModel(scattered(3, 1), 3, logits_dtype=F64)
    draft = ScriptedModel(rule, 3, logits_dtype=F64)
    found = law(sampler((2, 1), Sampling(), drawn=True), target, draft, [0, 1], 3)
    assert found.difference(target_law(target, [0, 1], 3)) < 1e-12


@pytest.mark.scripted
def test_an_end_token_within_a_drawn_tree():
    """What would follow it is taken out, and every other node keeps the row it was drawn from."""
    target = ScriptedModel(scattered(3, 1), 3, logits_dtype=F64)
    draft = ScriptedModel(scattered(3, 2), 3, logits_dtype=F64)
    found = law(sampler((2, 2), Sampling(), drawn=True, ends=2), target, draft, [0, 1], 3)
    assert found.difference(target_law(target, [0, 1], 3, eos_token_id=2)) < 1e-12


class Known:
    """Heads of which head k says 10 k, 10 k + 1, …"""

    def __len__(self):
        return 3

    def __call__(self, hidden):
        rows = torch.zeros(3, 64)
        for k in range(3):
            for rank in range(4):
                rows[k, 10 * k + rank] = 9.0 - rank
        return rows


def test_medusa_crosses_depth_and_rank_and_forgets_between_runs(tiny_llama):
    drafter = MedusaDrafter(Known(), (2, 2, 1))
    for _ in range(2):
        rounds = list(
            tree_rounds(
                tiny_llama.target,
                drafter,
                tiny_llama.prompts[1],
                max_new_tokens=8,
                tree=(2, 2, 1),
                eos_token_id=None,
            )
        )
        assert rounds[0].drafted == (), "nothing is known of the target before its first pass"
        assert rounds[1].drafted == (0, 1, 10, 11, 10, 11, 20, 20, 20, 20)


# ---------------------------------------------------------------- refusals


class Blind(ScriptedModel):
    """Takes no mask."""

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        return super().forward(input_ids, use_cache, past_key_values)


def test_a_model_without_a_mask_is_refused_before_any_pass():
    blind, seeing = Blind(scattered(WIDTH, 0), WIDTH), ScriptedModel(scattered(WIDTH, 0), WIDTH)
    with pytest.raises(ValueError, match=r"target_model cannot verify a tree.*Blind takes no attention_mask"):
        tree_decode(blind, seeing, [1], 8, (2,), None)
    with pytest.raises(ValueError, match=r"draft_model cannot draft trees: Blind"):
        tree_decode(seeing, blind, [1], 8, (2,), None)
    assert blind.passes == seeing.passes == 0
    got, _ = tree_decode(blind, seeing, [1], 8, (1, 1), None)  # a chain needs no mask
    assert got == autoregressive_decode(blind, [1], 8, None)


def test_families_that_ignore_the_mask_are_found_by_trying():
    """BLOOM's positions are slopes over the distance in the cache, so siblings cannot stand side by side."""
    model = random_model("bloom", seed=1)
    with pytest.raises(ValueError, match="bloom takes no positions"):
        tree_decode(model, model, [1, 2], 8, (2,), None)


def test_a_model_that_looks_at_siblings_is_found_by_trying(tiny_llama, monkeypatch):
    model = copy.deepcopy(tiny_llama.target)
    forward = type(model).forward

    @functools.wraps(forward)
    def ignoring(self, *inputs, **more):
        more.pop("attention_mask", None)
        return forward(self, *inputs, **more)

    monkeypatch.setattr(type(model), "forward", ignoring)
    with pytest.raises(ValueError, match="does not honour the mask"):
        tree_decode(model, model, [1, 2], 8, (2,), None)


def test_a_window_that_a_tree_would_ignore_is_refused():
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    model = MistralForCausalLM(
        MistralConfig(
            vocab_size=40,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            sliding_window=16,
            initializer_range=0.4,
        )
    ).eval()
    with pytest.raises(ValueError, match=r"together 18, more than the attention window 16"):
        tree_decode(model, model, [1, 2, 3], 15, (2,), None)
    got, _ = tree_decode(model, model, [1, 2, 3], 13, (2, 2), None)
    assert got == autoregressive_decode(model, [1, 2, 3], 13, None)


@pytest.mark.parametrize(
    ("settings", "window"),
    [
        ({"sliding_window": 16}, 16),
        ({"sliding_window": None}, None),
        ({"sliding_window": 16, "use_sliding_window": False}, None),
        ({"sliding_window": 16, "layer_types": ["full_attention"]}, None),
        ({"sliding_window": 16, "layer_types": ["full_attention", "sliding_attention"]}, 16),
        ({"attention_chunk_size": 8, "layer_types": ["full_attention", "chunked_attention"]}, 8),
        ({"attention_chunk_size": 8, "sliding_window": 16}, 8),
    ],
)
def test_the_shortest_window_counts(settings, window):
    from types import SimpleNamespace

    from specdec_lab.models.transformers_adapter import attention_window

    assert attention_window(SimpleNamespace(**settings)) == window


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        (None, ValueError, "tree must be given with a draft model"),
        ((), TypeError, "tree must be a TreeShape"),
        ((0,), ValueError, "branching must be"),
        ("21", TypeError, "tree must be"),
    ],
)
def test_no_such_tree(tree, error, message):
    model = ScriptedModel(scattered(WIDTH, 0), WIDTH)
    with pytest.raises(error, match=message):
        tree_decode(model, model, [1], 8, tree, None)
    assert model.passes == 0


def test_a_drafter_of_chains_cannot_be_given_a_tree():
    model = ScriptedModel(scattered(WIDTH, 0), WIDTH)
    with pytest.raises(TypeError, match=r"use_tree.*ModelDrafter is not"):
        tree_decode(model, ModelDrafter(model), [1], 8, (2,), None)


def test_more_levels_than_heads():
    with pytest.raises(ValueError, match="3 levels, and there are 2 heads"):
        MedusaDrafter(MedusaHeads(4, 5, 2), (1, 1, 1))


class Fixed:
    def __init__(self, proposal):
        self.proposal = proposal

    def start(self, prompt):
        pass

    def propose(self, sequence, limit, chance):
        return self.proposal

    def commit(self, sequence, hidden=None):
        pass


@pytest.mark.parametrize(
    ("proposal", "message"),
    [
        (Proposal((1, 2, 3), (-1, -1)), "one for each of 2 nodes"),
        (Proposal((1, 2), (-1, 1)), "parents must"),
        (Proposal((1, 2, 3, 4, 5), (-1, -1, 0, 2, 3)), "a path of 4 tokens, at most 3"),
    ],
)
def test_a_proposal_that_is_no_tree_is_refused(proposal, message):
    model = ScriptedModel(scattered(WIDTH, 0), WIDTH)
    with pytest.raises(ValueError, match=rf"Fixed.propose.*{message}"):
        list(speculative_rounds(model, Fixed(proposal), [1], max_new_tokens=9, gamma=3, eos_token_id=None))


def test_nodes_that_the_target_does_not_have_are_dropped_with_all_behind_them():
    rule = hash_of_prefix(WIDTH)
    target = ScriptedModel(rule, WIDTH)
    right = rule([1])
    proposal = Proposal((WIDTH, right, 3, rule([1, right])), (-1, -1, 0, 1))
    rounds = list(
        speculative_rounds(target, Fixed(proposal), [1], max_new_tokens=3, gamma=2, eos_token_id=None)
    )
    assert rounds[0].drafted == (right, rule([1, right])) and rounds[0].accepted == (0, 1)
