"""Speculative Streaming as a drafter: exact whatever the streams say, what it drafts, what it counts, what it refuses."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from helpers import random_model
from test_token_tree import random_shape

from specdec_lab import Sampling, Trace, autoregressive_decode, speculative_decode, speculative_rounds
from specdec_lab.decoding.medusa import MedusaDrafter
from specdec_lab.decoding.session import Session
from specdec_lab.decoding.streams import StreamDrafter
from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.decoding.tree_decode import tree_decode, tree_rounds
from specdec_lab.measure.law import law, target_law
from specdec_lab.models.medusa import MedusaHeads
from specdec_lab.models.scripted import ScriptedModel, scattered
from specdec_lab.models.streams import Streams
from specdec_lab.models.transformers_adapter import TransformersAdapter

WIDTH, GAMMA = 12, 3


def make_target(family: str, seed: int, width: int = WIDTH, **changes):
    sizes = {"vocab_size": width, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    more = {"sliding_window": None} if family == "mistral" else {}
    return random_model(family, seed=seed, **sizes | {"num_key_value_heads": 1} | more | changes)


def make_streams(target, layers: int = 2, gamma: int = GAMMA, seed: int = 7) -> Streams:
    """Streams that have learnt nothing, and whose every weight matters."""
    streams = Streams.beside(target, streams=gamma, layers=layers, rank=2)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in streams.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return streams


@pytest.fixture(scope="module")
def pairs():
    """Three families: (target, streams)."""
    found = []
    for i, family in enumerate(("llama", "mistral", "qwen2")):
        target = make_target(family, seed=20 + i)
        found.append((target, make_streams(target, layers=1 + i % 2)))
    return found


@pytest.fixture(scope="module")
def pair(pairs):
    return pairs[0]


def hook_count(model) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def some_tree(dice: random.Random) -> TreeShape:
    """Wide enough that even streams that know nothing are right now and then; no deeper than there are streams."""
    kind = dice.randrange(4)
    if kind == 0:
        return TreeShape.by_branching(*(dice.randint(1, 4) for _ in range(dice.randint(1, GAMMA))))
    if kind == 1:
        return TreeShape.chain(dice.randint(1, GAMMA))
    if kind == 2:
        return TreeShape.by_branching(8, 3, 1)
    return random_shape(dice.randrange(1000)).cut(GAMMA)


def assert_rounds_hold(rounds, length: int, depth: int, keep: int | None, stream_rows: int) -> None:
    """Stream rows and cache lengths follow from the rounds."""
    rows = 0
    for item in rounds:
        nodes = len(item.drafted)
        rows += (1 + (nodes if keep is None else min(keep, nodes))) * depth
        assert item.target_cache_before == (length - 1 if item is not rounds[0] else 0)
        length += len(item.emitted)
        assert item.target_cache_after == length - 1, "rows of streams or of dropped nodes are in the cache"
    assert stream_rows == rows > 0


# ---------------------------------------------------------------- exact


@pytest.mark.parametrize("part", range(10))
def test_the_text_is_the_targets_own(pairs, part):
    """500 settings: families, prompts, shapes, pruning, budgets and end tokens at random."""
    accepted = deep = rested = pruned = ended = cut_short = 0
    for seed in range(50 * part, 50 * part + 50):
        dice = random.Random(seed)
        target, streams = pairs[seed % 3]
        ids = [dice.randrange(WIDTH) for _ in range(dice.randint(1, 9))]
        wanted, ends = (
            dice.randint(1, 12),
            dice.choice([None, dice.randrange(WIDTH), dice.sample(range(WIDTH), 3)]),
        )
        keep, shape = dice.choice([None, None, 0, 1, 3, 99]), some_tree(dice)
        drafter = StreamDrafter(target, streams, (1,), keep=keep)
        rounds = list(tree_rounds(target, drafter, ids, max_new_tokens=wanted, tree=shape, eos_token_id=ends))
        trace = Trace.of(ids, rounds)
        assert trace.sequence == autoregressive_decode(target, ids, wanted, ends), seed
        assert_rounds_hold(rounds, len(ids), shape.depth, keep, drafter.stream_rows)
        assert rounds[0].drafted == () and rounds[0].outcome == "plain", "nothing has been read yet"
        for before, item in itertools.pairwise(rounds):
            left = wanted - sum(len(r.emitted) for r in rounds[: rounds.index(item)])
            if not item.drafted and left > 1:
                assert keep is not None and before.accepted and keep < len(before.drafted), (
                    "a rest for no reason"
                )
                rested += 1
            cut_short += bool(item.drafted) and left - 1 < shape.depth
        accepted += trace.accepted
        deep += any(len(item.accepted) > 1 for item in rounds)
        pruned += keep is not None and any(len(item.drafted) > keep for item in rounds)
        ended += len(trace.new_tokens) < wanted
    enough = (accepted > 40, deep > 2, rested > 2, pruned > 5, ended > 5, cut_short > 5)
    assert all(enough), (accepted, deep, rested, pruned, ended, cut_short)


def test_tree_decode_gives_text_and_rate(pairs):
    for target, streams in pairs:
        for tree in ((4, 2, 1), [(0,), (1,), (0, 0), (2,)], TreeShape.chain(3)):
            drafter = StreamDrafter(target, streams, (1,))
            tokens, rate = tree_decode(target, drafter, [1, 2, 3], 20, tree, None)
            assert tokens == autoregressive_decode(target, [1, 2, 3], 20, None)
            rounds = tree_rounds(target, drafter, [1, 2, 3], max_new_tokens=20, tree=tree, eos_token_id=None)
            assert rate == Trace.of([1, 2, 3], rounds).acceptance_rate


@pytest.mark.parametrize("seed", range(12))
def test_chains_without_a_tree_decoder(pairs, seed):
    """`speculative_rounds` and `speculative_decode` take it as any drafter; gamma, also one that changes, cuts it."""
    dice = random.Random(seed)
    target, streams = pairs[seed % 3]
    ids, keep = [dice.randrange(WIDTH) for _ in range(4)], dice.choice([None, 1])
    plain = autoregressive_decode(target, ids, 16, None)
    asked: list[int] = []

    def changing(rounds):
        asked.append(dice.choice([0, 1, 2, 5]))
        return asked[-1]

    for gamma in (1, 2, 7, changing):
        drafter = StreamDrafter(target, streams, (1, 1, 1), keep=keep)
        rounds = list(
            speculative_rounds(target, drafter, ids, max_new_tokens=16, gamma=gamma, eos_token_id=None)
        )
        assert Trace.of(ids, rounds).sequence == plain
        assert_rounds_hold(rounds, len(ids), 3, keep, drafter.stream_rows)
        for i, item in enumerate(rounds):
            most = asked[i] if callable(gamma) else gamma
            assert len(item.drafted) <= min(3, most) and item.parents == tuple(
                range(-1, len(item.drafted) - 1)
            )
    assert any(len(item.drafted) for item in rounds)
    assert speculative_decode(target, drafter, ids, 16, 3, None)[0] == plain


def test_a_tree_without_a_tree_decoder(pair):
    """A drafter that has its own tree, and one handed over as `tree=None`."""
    target, streams = pair
    plain = autoregressive_decode(target, [5, 1], 20, None)
    for make in (
        lambda d: speculative_rounds(target, d, [5, 1], max_new_tokens=20, gamma=3, eos_token_id=None),
        lambda d: tree_rounds(target, d, [5, 1], max_new_tokens=20, tree=None, eos_token_id=None),
    ):
        drafter = StreamDrafter(target, streams, (3, 2, 1))
        rounds = list(make(drafter))
        assert Trace.of([5, 1], rounds).sequence == plain
        assert {len(item.drafted) for item in rounds} >= {0, 3 + 6 + 6}


def test_a_tree_shaped_as_a_chain_is_the_chain(pairs):
    for target, streams in pairs:
        drafter, runs = StreamDrafter(target, streams, (1,)), []
        for make, settings in (
            (tree_rounds, {"tree": TreeShape.chain(3)}),
            (tree_rounds, {"tree": (1, 1, 1)}),
            (speculative_rounds, {"gamma": 3}),
        ):
            rounds = make(target, drafter, [1, 2], max_new_tokens=16, eos_token_id=None, **settings)
            runs.append([(r.drafted, r.parents, r.accepted, r.emitted, r.target_cache_after) for r in rounds])
        assert runs[0] == runs[1] == runs[2] and any(drafted for drafted, *_ in runs[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_half_precision_streams_on_a_half_precision_target(pair, dtype):
    """The rounds are those of any other drafter: what streams ride along changes no logit."""
    target, streams = make_target("llama", seed=31).to(dtype), make_streams(pair[0]).to(dtype)
    drafter = StreamDrafter(TransformersAdapter(target), streams, (4, 2))
    rounds = list(tree_rounds(target, drafter, [1, 2], max_new_tokens=12, tree=(4, 2), eos_token_id=None))
    sequence = [1, 2]
    session = Session(target)
    for item in rounds:  # the same passes once more, nothing riding
        confirmed = len(sequence)
        parents = item.parents if item.drafted else ()
        rows = session.feed(
            [*sequence[session.length :], *item.drafted], rows=len(item.drafted) + 1, parents=parents
        )
        path = [-1, *item.accepted]
        assert item.emitted == tuple(int(rows[node + 1].argmax()) for node in path)
        sequence += item.emitted
        session.keep(confirmed, [confirmed + node for node in item.accepted])
    assert len(sequence) == 14 and any(item.drafted for item in rounds)


def test_streams_that_are_not_finite_draft_nothing(pair):
    """A row of NaN is a pruned one; whatever the reason, there is nothing to guess from."""
    target = pair[0]
    broken = make_streams(target)
    with torch.no_grad():
        broken.start.weight.fill_(float("nan"))
    drafter = StreamDrafter(target, broken, (3, 2))
    rounds = list(tree_rounds(target, drafter, [1, 2], max_new_tokens=8, tree=(3, 2), eos_token_id=None))
    assert {item.drafted for item in rounds} == {()}
    assert Trace.of([1, 2], rounds).sequence == autoregressive_decode(target, [1, 2], 8, None)


def test_adapters_are_in_the_weights_while_decoding(pair):
    """A small product beside each large one would cost more than what it computes; the tokens are the same."""
    target = pair[0]
    streams, calls = make_streams(target), []
    drafter = StreamDrafter(target, streams, (3, 2))
    for layer in streams.layers:
        for adapter in layer.adapters.values():
            adapter.register_forward_hook(lambda *_: calls.append(1))
    folded = record(run(target, drafter))
    assert not calls and any(drafted for drafted, *_ in folded)
    drafter.rider.folded = [None] * len(streams.layers)
    beside = record(
        speculative_rounds(target, drafter, [1, 2, 3], max_new_tokens=14, gamma=2, eos_token_id=None)
    )
    assert calls and beside == folded


# ---------------------------------------------------------------- sampling


@pytest.mark.parametrize(
    ("tree", "keep", "n", "sampling"),
    [((2, 1), None, 4, Sampling()), ((3,), 1, 3, Sampling(0.7)), ((2, 2), None, 4, Sampling(1.5, top_k=2))],
)
def test_sampled_text_has_the_targets_own_law(tree, keep, n, sampling):
    """Guesses are point masses: every path of draws is walked. Float32 norms inside bound what can be asked for."""
    target = make_target("llama", seed=3, width=3, initializer_range=0.3).double()
    streams = make_streams(target, gamma=2).double()
    lengths = set()

    def decoder(target, draft, prompt, n, chance):
        rounds = list(
            tree_rounds(
                target,
                StreamDrafter(target, streams, tree, keep=keep),
                prompt,
                max_new_tokens=n,
                tree=tree,
                eos_token_id=None,
                sampling=sampling,
                chance=chance,
            )
        )
        lengths.update(len(item.accepted) for item in rounds)
        return [token for item in rounds for token in item.emitted]

    found, truth = law(decoder, target, None, [0, 1], n), target_law(target, [0, 1], n, sampling)
    assert len(truth) > 7 and min(truth.values()) < 0.02 and max(truth.values()) < 0.9
    assert abs(sum(found.values()) - 1) < 1e-9
    assert found.difference(truth) < 1e-6
    assert lengths == set(range(len(tree) + 1)), "every number of acceptances happened"


# ---------------------------------------------------------------- what is drafted


@torch.no_grad()
def test_the_tree_crosses_what_the_streams_of_the_last_read_token_say(pair):
    """Depth d, rank r is the r-th likeliest token of stream d, at the token before the pending one."""
    target, streams = pair
    shape = TreeShape.of_paths([(0,), (1,), (2,), (0, 0), (0, 1), (2, 0), (0, 1, 0), (2, 0, 0), (2, 0, 1)])
    drafter = StreamDrafter(target, streams, shape)
    sequence, seen = [4, 1, 7], 0
    for item in tree_rounds(target, drafter, sequence, max_new_tokens=30, tree=shape, eos_token_id=None):
        if len(item.drafted) == len(shape):
            # a pass over the text without its last token, which no pass had read when this tree was drafted
            session = Session(target, rider=drafter.rider.__class__(streams))
            session.feed(sequence[:-1], rows=1)
            logits = target.lm_head(target.model.norm(session.carried[0]))
            best = logits.argsort(-1, descending=True).tolist()
            expected = tuple(best[d - 1][r] for d, r in zip(shape.depths, shape.ranks, strict=True))
            assert item.drafted == expected and item.parents == shape.parents
            seen += 1
        sequence = [*sequence, *item.emitted]
    assert seen > 8


def test_a_wider_level_than_the_vocabulary_is_drafted_as_far_as_it_goes(pair):
    target, streams = pair
    drafter = StreamDrafter(target, streams, (WIDTH, 2))
    rounds = list(tree_rounds(target, drafter, [1], max_new_tokens=12, tree=(WIDTH, 2), eos_token_id=None))
    assert Trace.of([1], rounds).new_tokens == autoregressive_decode(target, [1], 12, None)[1:]
    assert all(item.accepted for item in rounds if item.drafted), "a level holds every token there is"


def test_behind_a_pruned_node_nothing_is_drafted(pair):
    """Which rows were pruned is looked up; the next round rests exactly there."""
    target, streams = pair
    drafter = StreamDrafter(target, streams, (WIDTH, 2), keep=3)
    sequence, before, rested, went_on = [4, 1, 7], None, 0, 0
    rounds = tree_rounds(target, drafter, sequence, max_new_tokens=60, tree=(WIDTH, 2), eos_token_id=None)
    session = Session(target, rider=drafter.rider.__class__(streams, count=2, keep=3))
    wanted = 60
    for item in rounds:
        if before is not None and wanted > 1:
            assert bool(item.drafted) == before
            rested, went_on = rested + (not item.drafted), went_on + bool(item.drafted)
        confirmed = len(sequence)
        parents = item.parents if item.drafted else ()
        session.feed(
            [*sequence[session.length :], *item.drafted], rows=len(item.drafted) + 1, parents=parents
        )
        row = session.carried[item.accepted[-1] + 1 if item.accepted else 0]
        assert row.isnan().all() or row.isfinite().all()
        before = bool(row.isfinite().all())
        sequence += item.emitted
        wanted -= len(item.emitted)
        session.keep(confirmed, [confirmed + node for node in item.accepted])
    assert rested > 3 and went_on > 3, (rested, went_on)


# ---------------------------------------------------------------- leftovers


def record(rounds):
    return [(r.drafted, r.parents, r.accepted, r.emitted) for r in rounds]


def run(target, drafter, ids=(1, 2, 3), tree=(3, 2), wanted=14):
    return tree_rounds(target, drafter, list(ids), max_new_tokens=wanted, tree=tree, eos_token_id=None)


def test_a_second_run_is_as_the_first(pair):
    target, streams = pair
    used, fresh = StreamDrafter(target, streams, (3, 2)), StreamDrafter(target, streams, (3, 2))
    first, count = record(run(target, used)), used.stream_rows
    assert count > 0
    record(run(target, used, [9, 9, 9, 9]))
    assert used.stream_rows != count, "two runs that count alike would test nothing"
    assert record(run(target, used)) == first == record(run(target, fresh))
    assert used.stream_rows == count == fresh.stream_rows
    # without a tree decoder, which would ask for the tree anew
    counts = []
    for _ in range(2):
        rounds = speculative_rounds(target, used, [1, 2, 3], max_new_tokens=14, gamma=2, eos_token_id=None)
        assert record(rounds) == first
        counts.append(used.stream_rows)
    assert counts == [count, count]
    assert hook_count(target) == 0


def test_a_run_that_is_left_in_the_middle_leaves_nothing(pair):
    target, streams = pair
    for made in (run, None):
        drafter = StreamDrafter(target, streams, (3, 2))
        truth = record(run(target, StreamDrafter(target, streams, (3, 2))))
        left = run(target, drafter, [9, 9, 9, 9])
        for _ in range(3):
            next(left)
        assert hook_count(target) == 0, "hooks between the rounds"
        if made is None:
            left.close()
        assert record(run(target, drafter)) == truth
        assert hook_count(target) == 0


def test_two_drafters_on_one_target_take_turns(pair):
    """Streams of other weights and other depths, and Medusa; each run is what it is alone."""
    target, streams = pair
    other = make_streams(target, layers=1, seed=99)
    torch.manual_seed(5)
    heads = MedusaHeads(16, WIDTH, 2)
    made = [
        (lambda: StreamDrafter(target, streams, (3, 2)), (3, 2)),
        (lambda: StreamDrafter(target, other, (2, 2, 1), keep=2), (2, 2, 1)),
        (lambda: MedusaDrafter(heads, (3, 2)), (3, 2)),
    ]
    alone, counts = [], []
    for make, tree in made:
        drafter = make()
        alone.append(record(run(target, drafter, tree=tree)))
        counts.append(getattr(drafter, "stream_rows", None))
    assert len({str(r) for r in alone}) == 3
    drafters = [make() for make, _ in made]
    runs = [run(target, d, tree=tree) for d, (_, tree) in zip(drafters, made, strict=True)]
    together: list[list] = [[], [], []]
    while len(runs) > sum(len(t) == len(a) for t, a in zip(together, alone, strict=True)):
        for i, rounds in enumerate(runs):
            together[i] += [r for r in [next(rounds, None)] if r is not None]
    assert [record(rounds) for rounds in together] == alone
    assert [getattr(d, "stream_rows", None) for d in drafters] == counts
    assert hook_count(target) == 0


def test_a_drafter_of_one_target_is_exact_on_another_of_its_sizes(pair):
    """Its guesses are worse there, and nothing else."""
    target, streams = pair
    other = make_target("llama", seed=77)
    drafter = StreamDrafter(target, streams, (3, 2))
    for model in (target, other, target):
        tokens, _ = tree_decode(model, drafter, [1, 2, 3], 16, (3, 2), None)
        assert tokens == autoregressive_decode(model, [1, 2, 3], 16, None)
    assert autoregressive_decode(other, [1, 2, 3], 16, None) != tokens
    assert hook_count(target) == hook_count(other) == 0


def test_a_pass_that_raises_leaves_no_hook_and_the_next_run_is_right(pair):
    target, streams = pair
    drafter, calls = StreamDrafter(target, streams, (3, 2)), []
    truth = record(run(target, StreamDrafter(target, streams, (3, 2))))

    def fail_later(*_):
        calls.append(1)
        if len(calls) > 3:
            raise RuntimeError("on purpose")

    hook = target.model.layers[-1].mlp.register_forward_pre_hook(fail_later)
    with pytest.raises(RuntimeError, match="on purpose"):
        list(run(target, drafter))
    hook.remove()
    assert len(calls) == 4 and hook_count(target) == 0
    assert record(run(target, drafter)) == truth


def test_training_mode_comes_back_and_weights_stay(pair):
    target, streams = pair
    weights = {name: w.clone() for model in pair for name, w in model.state_dict().items()}
    wanted = [weight.requires_grad for weight in target.parameters()]
    target.train()
    try:
        list(run(target, StreamDrafter(target, streams, (3, 2))))
        assert all(module.training for module in target.modules())
    finally:
        target.eval()
    assert [weight.requires_grad for weight in target.parameters()] == wanted
    assert all(weight.grad is None for model in pair for weight in model.parameters())
    now = {name: w for model in pair for name, w in model.state_dict().items()}
    assert all(torch.equal(weight, weights[name]) for name, weight in now.items())


# ---------------------------------------------------------------- refusals


def passes_of(model) -> tuple[list, object]:
    seen: list[int] = []
    return seen, model.get_input_embeddings().register_forward_pre_hook(lambda *_: seen.append(1))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"tree": (1, 1, 1, 1)}, ValueError, "tree has 4 levels, and there are 3 streams"),
        ({"tree": (0,)}, ValueError, "branching must be"),
        ({"tree": "21"}, TypeError, "tree must be"),
        ({"keep": -1}, ValueError, "keep must be at least 0, got -1"),
        ({"keep": True}, TypeError, "keep must be an integer, got True"),
        ({"keep": 2.0}, TypeError, r"keep must be an integer, got 2\.0"),
        ({"keep": "2"}, TypeError, "keep must be an integer, got '2'"),
    ],
)
def test_bad_settings_are_refused_before_any_pass(pair, settings, error, message):
    target, streams = pair
    seen, hook = passes_of(target)
    with pytest.raises(error, match=message):
        StreamDrafter(target, streams, **{"tree": (2, 1)} | settings)
    hook.remove()
    assert not seen


def test_a_deeper_tree_than_streams_is_refused_by_the_decoder_too(pair):
    target, streams = pair
    drafter = StreamDrafter(target, streams, (1,))
    seen, hook = passes_of(target)
    with pytest.raises(ValueError, match="tree has 4 levels, and there are 3 streams"):
        tree_decode(target, drafter, [1], 8, (1, 1, 1, 1), None)
    hook.remove()
    assert not seen


def test_targets_that_streams_cannot_run_through_are_refused(pair):
    streams = pair[1]
    with pytest.raises(TypeError, match="target must be a transformers model, got ScriptedModel"):
        StreamDrafter(ScriptedModel(scattered(WIDTH, 0), WIDTH), streams, (1,))
    with pytest.raises(ValueError, match=r"target must be of a family.*got model type 'gpt2'"):
        StreamDrafter(random_model("gpt2", seed=1), streams, (1,))
    with pytest.raises(
        ValueError, match=r"streams of sizes .*'hidden_size': 16.* do not fit .*'hidden_size': 32"
    ):
        StreamDrafter(make_target("llama", seed=1, hidden_size=32), streams, (1,))


def test_a_target_on_whose_pass_nothing_can_ride_is_refused(pair):
    """A model of the two methods alone."""
    target, streams = pair
    plain = ScriptedModel(scattered(WIDTH, 0), WIDTH)
    with pytest.raises(ValueError, match="target_model must let the drafter ride on its passes"):
        tree_decode(plain, StreamDrafter(target, streams, (2,)), [1], 8, (2,), None)
    assert plain.passes == 0


def test_a_text_beyond_a_sliding_window_is_refused_for_trees(pair):
    """And a chain, which honours the window, is exact beyond it."""
    target = make_target("mistral", seed=4, sliding_window=8)
    streams = make_streams(target)
    drafter = StreamDrafter(target, streams, (2, 1))
    with pytest.raises(ValueError, match=r"together 23, more than the attention window 8"):
        tree_decode(target, drafter, [1, 2, 3], 20, (2, 1), None)
    tokens, _ = tree_decode(target, drafter, [1, 2, 3], 20, (1, 1, 1), None)
    assert tokens == autoregressive_decode(target, [1, 2, 3], 20, None)


# ---------------------------------------------------------------- another tree, another target


@pytest.mark.parametrize(("first", "then"), [((1,), (2, 2, 1)), ((2, 2, 1), (2,)), ((2, 1), (1, 1, 1))])
@pytest.mark.parametrize("keep", [None, 1])
def test_another_tree_from_now_on(pair, first, then, keep):
    """`use_tree` in the middle of a run, as an adaptive method does: levels change, and so do the streams."""
    target, streams = pair
    drafter, rounds, rows = StreamDrafter(target, streams, first, keep=keep), [], 0
    depth, changed = len(first), None
    for item in speculative_rounds(target, drafter, [1, 2, 3], max_new_tokens=24, gamma=3, eos_token_id=None):
        rounds.append(item)
        nodes = len(item.drafted)
        rows += (1 + (nodes if keep is None else min(keep, nodes))) * depth
        assert drafter.stream_rows == rows
        if changed is None and len(rounds) > 2 and item.drafted:
            drafter.use_tree(then)
            depth, changed = len(then), len(rounds)
    assert Trace.of([1, 2, 3], rounds).sequence == autoregressive_decode(target, [1, 2, 3], 24, None)
    shape = TreeShape.by_branching(*then)
    if keep is None:
        # streams for the deeper levels have ridden along from the pass behind the change on
        assert rounds[changed].parents == shape.cut(min(len(first), len(then))).parents
        assert rounds[changed + 1].parents == shape.parents
    assert any(item.parents == shape.parents for item in rounds[changed:])


def test_two_runs_that_are_prepared_before_either_begins(pair):
    target, streams = pair
    drafter = StreamDrafter(target, streams, (2, 1))
    runs = [run(target, drafter, ids, (2, 1)) for ids in ([1, 2, 3], [9, 9, 9, 9])]
    for ids, rounds in zip(([1, 2, 3], [9, 9, 9, 9]), runs, strict=True):
        found = list(rounds)
        assert record(found) == record(run(target, StreamDrafter(target, streams, (2, 1)), ids, (2, 1)))
        assert_rounds_hold(found, len(ids), 2, None, drafter.stream_rows)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 32}, "streams of sizes .* do not fit"),
        ({"num_hidden_layers": 1}, "layers must be between 1 and the target's 1"),
        (None, "target must be of a family .*'gpt2'"),
    ],
)
def test_a_target_that_is_not_the_drafters_and_does_not_fit_is_refused_before_any_pass(
    pairs, changes, message
):
    target, streams = pairs[1]
    assert len(streams.layers) == 2
    other = random_model("gpt2", seed=5) if changes is None else make_target("llama", seed=9, **changes)
    seen, hook = passes_of(other)
    try:
        with pytest.raises(ValueError, match=message):
            tree_decode(other, StreamDrafter(target, streams, (1, 1)), [1, 2], 8, (1, 1), None)
        assert not seen
    finally:
        hook.remove()
    assert hook_count(other) == 0


def test_streams_of_another_dtype_are_refused_before_any_pass(pair):
    streams = pair[1]
    target = make_target("llama", seed=20).to(torch.bfloat16)
    with pytest.raises(ValueError, match=r"target's dtype torch\.bfloat16, got torch\.float32"):
        tree_decode(target, StreamDrafter(target, streams, (2,)), [1, 2], 8, (2,), None)
