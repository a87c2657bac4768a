"""Streams through a target's top layers: right against the target's own layer modules, and unseen by the target.

The outside truth runs transformers' decoder layers, with the adapters merged into copies of their weights, over the
streams of one position at a time; nothing of `StreamLayer.forward` is in it.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import random

import pytest
import torch
import torch.nn.functional as F
from helpers import random_model, with_noise
from torch import nn
from transformers import DynamicCache

from specdec_lab.decoding.session import Session
from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.models.medusa import MedusaHeads
from specdec_lab.models.rider import HeadInput
from specdec_lab.models.stream_rider import StreamRider
from specdec_lab.models.streams import FAMILIES, Streams, load_streams
from specdec_lab.models.transformers_adapter import TransformersAdapter

VOCABULARY = 64
GAMMA = 3
SETTINGS = {
    "llama": {},
    "mistral": {"sliding_window": None, "head_dim": 10},  # 4 heads of 10 are not the hidden size, 32
    "qwen2": {"num_key_value_heads": 1},
    "llama with biases": {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
    "llama of equal heads": {"num_key_value_heads": 4, "rope_theta": 100.0},
    "llama with yarn": {
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 4.0,
            "rope_theta": 10000.0,
            "original_max_position_embeddings": 64,
        }
    },
}


def make_target(kind: str, seed: int = 1, **changes):
    """Three layers; norms and biases are not what they begin as, so that leaving one out shows."""
    family = kind.split()[0]
    model = random_model(family, seed=seed, **{"num_hidden_layers": 3} | SETTINGS[kind] | changes)
    return with_noise(model, 0.05, seed=seed + 100)


def make_streams(target, layers: int = 2, gamma: int = GAMMA, rank: int = 2, seed: int = 7) -> Streams:
    """Nothing in them is zero or the identity."""
    streams = Streams.beside(target, streams=gamma, layers=layers, rank=rank)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in streams.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return streams.to(target.dtype)


@pytest.fixture(scope="module", params=SETTINGS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def llama():
    target = make_target("llama")
    return target, make_streams(target)


def rider_of(target, streams: Streams, folded: bool = False, **settings) -> StreamRider:
    return StreamRider(streams, folded=streams.fold(target) if folded else None, **settings)


# ---------------------------------------------------------------- outside truth

ATTENTION, MLP = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")


@torch.no_grad()
def merged_layers(target, streams: Streams) -> list[nn.Module]:
    """Copies of the target's top layers with the adapters added to their weights."""
    top = [copy.deepcopy(layer) for layer in target.model.layers[-streams.sizes["layers"] :]]
    for layer, added in zip(top, streams.layers, strict=True):
        assert set(added.adapters) == {*ATTENTION, *MLP}
        for name in (*ATTENTION, *MLP):
            owner = layer.self_attn if name in ATTENTION else layer.mlp
            adapter = added.adapters[name]
            assert adapter.up.weight.abs().min() > 0, "an adapter of zeros would test nothing"
            getattr(owner, name).weight += adapter.up.weight @ adapter.down.weight
    return top


def cache_keyword(module: nn.Module) -> str:
    """transformers 5.24 renamed it."""
    return "cache" if "cache" in inspect.signature(module.forward).parameters else "past_key_values"


@torch.no_grad()
def by_the_targets_layers(
    target, streams: Streams, text: list[int], count: int, windows: list[int | None] | None = None
) -> torch.Tensor:
    """What the first `count` streams of the last position of `text` are behind the last layer: (count, hidden).

    `windows` says for each top layer how far back the main stream looks.
    """
    above = merged_layers(target, streams)
    # a plain cache keeps every position, whatever the window
    output = target(
        input_ids=torch.tensor([text]), output_hidden_states=True, **{cache_keyword(target): DynamicCache()}
    )
    entry = output.hidden_states[len(target.model.layers) - len(above)][0, -1]
    rows = F.linear(entry, streams.start.weight, streams.start.bias) + streams.embedding[:count]
    places = torch.arange(len(text), len(text) + count)  # position t + 1 and on, t = len(text) - 1
    turn = target.model.rotary_emb(rows[None], position_ids=places[None])
    mask = torch.zeros(1, 1, count, len(text) + count)
    for row in range(count):
        mask[..., row, len(text) + row + 1 :] = torch.finfo(torch.float32).min
    for layer, window in zip(above, windows or [None] * len(above), strict=True):
        place = layer.self_attn.layer_idx
        seen = mask.clone()
        if window is not None:
            seen[..., : max(0, len(text) - window)] = torch.finfo(torch.float32).min
        held, cache = output.past_key_values.layers[place], DynamicCache()
        cache.update(held.keys.clone(), held.values.clone(), place)
        rows = layer(
            rows[None],
            attention_mask=seen,
            position_ids=places[None],
            position_embeddings=turn,
            use_cache=True,
            **{cache_keyword(layer): cache},
        )[0]
        assert cache.layers[place].keys.shape[-2] == len(text) + count, "the streams were in this cache"
    return rows


def assert_close(ours: torch.Tensor, truth: torch.Tensor) -> None:
    assert ours.shape == truth.shape and truth.isfinite().all()
    assert (ours - truth).abs().max() <= 1e-5 * max(1, truth.abs().max())


def words(seed: int, count: int) -> list[int]:
    dice = random.Random(seed)
    return [dice.randrange(VOCABULARY) for _ in range(count)]


def random_tree(seed: int, most: int = 10) -> tuple[TreeShape, list[int]]:
    """A shape and tokens; siblings differ, as their paths could not be told apart otherwise."""
    dice = random.Random(seed)
    parents = [-1]
    for _ in range(dice.randint(1, most - 1)):
        parents.append(dice.randint(parents[-1], len(parents) - 1))
    shape, tokens = TreeShape(tuple(parents)), [0] * len(parents)
    for children in shape.children.values():
        for child, token in zip(children, dice.sample(range(VOCABULARY), len(children)), strict=True):
            tokens[child] = token
    return shape, tokens


def path_text(prompt: list[int], shape: TreeShape, tokens: list[int], row: int) -> list[int]:
    """The text that row `row` of a pass over `prompt` and the tree ends: 0 is the last token of the prompt."""
    return prompt if row == 0 else [*prompt, *(tokens[node] for node in shape.path(row - 1))]


def ride(target, streams, prompt, shape=None, tokens=(), **settings):
    """One pass over a prompt and a tree; (rows, γ, hidden), and the session behind it."""
    session = Session(target, rider=rider_of(target, streams, **settings))
    parents = () if shape is None else shape.parents
    session.feed([*prompt, *tokens], rows=len(tokens) + 1, parents=parents)
    return session.carried, session


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_streams_are_what_the_targets_own_layers_make_of_them(kind, layers):
    """At every position of a text, in one pass, with adapters beside the weights and folded into them."""
    target = make_target(kind)
    streams, text = make_streams(target, layers), words(3, 9)
    found = []
    for folded in (False, True):
        with torch.inference_mode():
            rider = rider_of(target, streams, folded)
            found.append(TransformersAdapter(target).forward(torch.tensor([text]), rider=rider).carried)
        assert found[-1].shape == (1, 9, GAMMA, 32)
    for place in range(9):
        truth = by_the_targets_layers(target, streams, text[: place + 1], GAMMA)
        assert_close(found[0][0, place], truth)
        assert_close(found[1][0, place], truth)


@pytest.mark.parametrize("seed", range(4))
def test_streams_of_a_tree_are_those_of_its_paths(kind, seed):
    """Each node of a tree stands for a text of its own: its streams see that text, and no sibling."""
    target = make_target(kind)
    streams, prompt = make_streams(target), words(seed, 6)
    shape, tokens = random_tree(seed)
    rows, folded = (ride(target, streams, prompt, shape, tokens, folded=way)[0] for way in (False, True))
    assert len(rows) == len(folded) == len(shape) + 1
    for row in range(len(rows)):
        truth = by_the_targets_layers(target, streams, path_text(prompt, shape, tokens, row), GAMMA)
        assert_close(rows[row], truth)
        assert_close(folded[row], truth)


def test_a_batch_is_its_rows_one_by_one(llama):
    """Training runs batches."""
    target, streams = llama
    adapter = TransformersAdapter(target)
    with torch.inference_mode():
        ids = torch.tensor([words(1, 8), words(2, 8), words(3, 8)])
        together = adapter.forward(ids, rider=StreamRider(streams), logits_to_keep=5).carried
        assert together.shape == (3, 5, GAMMA, 32)
        for row, text in zip(together, ids, strict=True):
            assert_close(row, adapter.forward(text[None], rider=StreamRider(streams)).carried[0, -5:])


def test_untrained_adapters_add_nothing(llama):
    """What training begins with: the target's own layers, one position further on."""
    target, _ = llama
    streams = Streams.beside(target, streams=1, layers=2, rank=2)
    with torch.inference_mode():
        entry = torch.randn(1, 4, 32)
        assert_close(streams.begin(entry, 1), entry[:, :, None])  # the hidden state itself
        for layer in streams.layers:
            for adapter in layer.adapters.values():
                x = torch.randn(5, adapter.down.in_features)
                assert not adapter(x).any() and adapter(x).shape == (5, adapter.up.out_features)


def test_guesses_are_what_the_targets_head_says_and_the_early_exit_goes_through_its_own_map(llama):
    target, streams = llama
    hidden = torch.randn(2, 4, 32)
    with torch.inference_mode():
        head, norm = target.lm_head, target.model.norm
        assert_close(Streams.guesses(target, hidden), head(norm(hidden)))
        left = F.linear(hidden, streams.exit.weight, streams.exit.bias)
        assert_close(streams.early(target, hidden), head(norm(left)))
        assert not torch.allclose(streams.early(target, hidden), head(norm(hidden)), atol=1e-2)


# ---------------------------------------------------------------- the target does not see them


def hook_count(model) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def passes(shape, tokens):
    """Prefill, a chain behind it, one token, a tree: what the adapter is given for each."""
    adapted = [
        {"ids": words(5, 7), "logits_to_keep": None},
        {"ids": words(6, 4), "logits_to_keep": 3},
        {"ids": words(7, 1), "logits_to_keep": 1},
    ]
    length = 12
    mask = torch.zeros(1, 1, len(shape) + 1, length + len(shape) + 1, dtype=torch.bool)
    mask[..., : length + 1] = True
    mask[0, 0, 1:, length + 1 :] = torch.tensor(shape.mask())
    mask[0, 0, 0, length + 1 :] = False
    adapted.append(
        {
            "ids": [9, *tokens],
            "logits_to_keep": len(shape) + 1,
            "attention_mask": mask,
            "position_ids": torch.tensor([[length, *shape.positions(length + 1)]]),
        }
    )
    return adapted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keep", [None, 2])
def test_the_main_stream_is_the_same_bit_for_bit(kind, dtype, keep):
    """Logits, keys and values with and without a rider, after every pass, and as many rows in the cache."""
    target = make_target(kind).to(dtype)
    streams, (shape, tokens) = make_streams(target), random_tree(11)
    assert not shape.is_chain and len(shape) > 3
    weights = {name: value.clone() for name, value in target.state_dict().items()}
    adapter, caches, length = TransformersAdapter(target), {True: None, False: None}, 0
    for settings in passes(shape, tokens):
        ids = torch.tensor([settings.pop("ids")])
        length += ids.shape[1]
        logits = {}
        for riding in (True, False):
            with torch.inference_mode():
                rider = rider_of(target, streams, keep is not None, keep=keep) if riding else None
                output = adapter.forward(ids, past_key_values=caches[riding], rider=rider, **settings)
            logits[riding], caches[riding] = output.logits, output.past_key_values
            assert caches[riding].get_seq_length() == length
            if riding:
                assert output.carried.shape[:3] == (1, output.logits.shape[1], GAMMA)
                assert output.carried[0, 0].isfinite().all() and output.carried[0, 0].any()
            else:
                assert output.carried is None
        assert torch.equal(logits[True], logits[False])
        for mine, theirs in zip(caches[True].layers, caches[False].layers, strict=True):
            assert mine.keys.shape[-2] == length
            assert torch.equal(mine.keys, theirs.keys) and torch.equal(mine.values, theirs.values)
    assert hook_count(target) == 0
    assert all(torch.equal(value, weights[name]) for name, value in target.state_dict().items())


def test_a_hidden_state_that_is_read_at_the_same_time_is_the_same_too(llama):
    """Nothing is added to what the head is given, in place or otherwise."""
    target, streams = llama
    adapter, ids = TransformersAdapter(target), torch.tensor([words(1, 6)])
    with torch.inference_mode():
        alone = adapter.forward(ids, rider=HeadInput()).carried
        caught: list[torch.Tensor] = []
        hook = target.lm_head.register_forward_pre_hook(lambda module, args: caught.append(args[0]))
        adapter.forward(ids, rider=StreamRider(streams))
        hook.remove()
    assert torch.equal(caught[0], alone)


def test_hooks_are_gone_when_a_pass_raises(llama):
    """Wherever it raises: in the main stream below, in a top layer, in the streams themselves."""
    target, streams = llama
    adapter, ids = TransformersAdapter(target), torch.tensor([words(1, 6)])
    clean, before = adapter.forward(ids).logits, hook_count(target)

    def fail(*_):
        raise RuntimeError("on purpose")

    for module in (
        target.model.layers[0].mlp,
        target.model.layers[-1].mlp,
        streams.start,
        streams.layers[-1].adapters["down_proj"],
        target.lm_head,
    ):
        hook = module.register_forward_pre_hook(fail)
        rider = StreamRider(streams)
        with pytest.raises(RuntimeError, match="on purpose"):
            adapter.forward(ids, rider=rider)
        hook.remove()
        assert hook_count(target) == before and rider.rows == 0
    assert torch.equal(adapter.forward(ids).logits, clean)


# ---------------------------------------------------------------- fewer, in pieces, pruned


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_streams_are_the_first_of_more(kind, count):
    target = make_target(kind)
    streams, (shape, tokens) = make_streams(target), random_tree(2)
    everything, _ = ride(target, streams, words(1, 6), shape, tokens)
    fewer, _ = ride(target, streams, words(1, 6), shape, tokens, count=count)
    assert_close(fewer, everything[:, :count])
    assert not torch.allclose(everything[:, 0], everything[:, 1], atol=1e-2), (
        "streams that are alike test nothing"
    )


def test_a_pass_in_pieces_is_one_pass(llama):
    target, streams = llama
    text, rider = words(4, 14), StreamRider(streams)
    whole, _ = ride(target, streams, text[:1], TreeShape.chain(13), text[1:])
    for cuts in ((5, 9), (1, 2, 3, 13), (7,)):
        session, parts, last = Session(target, rider=rider), [], 0
        for cut in (*cuts, 14):
            session.feed(text[last:cut], rows=cut - last)
            parts.append(session.carried)
            last = cut
        assert_close(torch.cat(parts), whole)


def test_rows_are_the_last_ones(llama):
    """As many as there are rows of logits: those of the drafts, not of the prompt; all where no number is given."""
    target, streams = llama
    adapter, ids = TransformersAdapter(target), torch.tensor([words(4, 9)])
    with torch.inference_mode():
        everything = adapter.forward(ids, rider=StreamRider(streams)).carried
        assert everything.shape[1] == 9
        for rows in (1, 4, 9, 20):
            rider = StreamRider(streams)
            output = adapter.forward(ids, logits_to_keep=rows, rider=rider)
            assert output.carried.shape[1] == output.logits.shape[1] == min(rows, 9)
            assert_close(output.carried, everything[:, -rows:])
            assert rider.rows == min(rows, 9) * GAMMA


def test_behind_a_rolled_back_tree_streams_read_what_was_kept(llama):
    """The cache is selected between the passes; the next streams see the accepted path and nothing else."""
    target, streams = llama
    for seed in range(6):
        prompt, (shape, tokens) = words(seed, 5), random_tree(seed)
        _, session = ride(target, streams, prompt, shape, tokens)
        leaf = len(shape) - 1
        session.keep(len(prompt), [len(prompt) + node for node in shape.path(leaf)])
        text = [*path_text(prompt, shape, tokens, leaf + 1), 21, 22]
        session.feed([21, 22], rows=2)
        for row in (0, 1):
            truth = by_the_targets_layers(target, streams, text[: len(text) - 1 + row], GAMMA)
            assert_close(session.carried[row], truth)


@torch.no_grad()
def early_exit(target, streams, text: list[int]) -> torch.Tensor:
    """What it thinks of the next token, (vocab), from a pass over the text alone."""
    layer = len(target.model.layers) - len(streams.layers)
    output = target(input_ids=torch.tensor([text]), use_cache=False, output_hidden_states=True)
    left = F.linear(output.hidden_states[layer][0, -1], streams.exit.weight, streams.exit.bias)
    return target.lm_head(target.model.norm(left)).double().softmax(-1)


def path_probabilities(target, streams, prompt, shape, tokens) -> list[float]:
    """The early exit's chance of every node's path, multiplied out."""
    chances = []
    for node, parent in enumerate(shape.parents):
        above = 1.0 if parent < 0 else chances[parent]
        row = early_exit(target, streams, path_text(prompt, shape, tokens, parent + 1))
        chances.append(above * float(row[tokens[node]]))
    return chances


def with_likely_tokens(target, streams, prompt, shape, dice) -> list[int]:
    """Tokens among the early exit's favourites, so that deep nodes can outdo shallow ones; siblings differ."""
    tokens = [0] * len(shape)
    for parent, children in sorted(shape.children.items()):
        best = early_exit(target, streams, path_text(prompt, shape, tokens, parent + 1)).argsort(
            descending=True
        )
        for child, place in zip(children, dice.sample(range(len(children)), len(children)), strict=True):
            tokens[child] = int(best[place])
    return tokens


def test_pruning_keeps_the_likeliest_paths():
    """Every number of kept nodes, on trees of random shape and on chains."""
    target = make_target("llama")
    streams = make_streams(target)
    checked, not_first, uneven = 0, 0, 0
    for seed in range(12):
        shape, tokens = random_tree(seed)
        if seed == 0:
            shape, tokens = TreeShape.chain(6), words(seed, 6)
        prompt = words(seed, 4)
        if seed % 2:
            shape = TreeShape.by_branching(*((3, 2, 1), (2, 2, 1), (4, 1, 1))[seed % 3])
            tokens = with_likely_tokens(target, streams, prompt, shape, random.Random(seed))
        everything, _ = ride(target, streams, prompt, shape, tokens)
        chances = path_probabilities(target, streams, prompt, shape, tokens)
        ranked = sorted(range(len(shape)), key=lambda node: -chances[node])
        for keep in range(len(shape)):
            if keep and not chances[ranked[keep - 1]] > 1.001 * chances[ranked[keep]]:
                continue  # too near to call
            rows, session = ride(target, streams, prompt, shape, tokens, keep=keep)
            kept = {0, *(node + 1 for node in ranked[:keep])}
            alive = (~rows.isnan()).flatten(1)
            assert (alive.all(-1) == alive.any(-1)).all(), "a row is there or not"
            assert set(alive.all(-1).nonzero().flatten().tolist()) == kept
            assert_close(rows[sorted(kept)], everything[sorted(kept)])
            assert session._rider.rows == len(kept) * GAMMA
            checked += 1
            not_first += kept != set(range(keep + 1))
            depths = [0, *shape.depths]
            uneven += [depths[row] for row in sorted(kept)] != depths[: len(kept)]
    assert checked > 60 and not_first > 20 and uneven > 5, (checked, not_first, uneven)


@pytest.mark.parametrize("more", [0, 1, 50])
def test_a_limit_that_is_not_reached_prunes_nothing(llama, more):
    target, streams = llama
    shape, tokens = random_tree(3)
    rows, session = ride(target, streams, words(1, 4), shape, tokens, keep=len(shape) + more)
    assert torch.equal(rows, ride(target, streams, words(1, 4), shape, tokens)[0]) and not rows.isnan().any()
    assert session._rider.rows == (len(shape) + 1) * GAMMA


def test_pruning_everything_leaves_the_row_before_the_drafts(llama):
    target, streams = llama
    shape, tokens = random_tree(3)
    rows, session = ride(target, streams, words(1, 4), shape, tokens, keep=0)
    assert rows[0].isfinite().all() and rows[1:].isnan().all() and session._rider.rows == GAMMA
    assert_close(rows[0], ride(target, streams, words(1, 4))[0][0])


# ---------------------------------------------------------------- folders


def test_a_folder_gives_the_streams_back(tmp_path, llama):
    target, streams = llama
    streams.save(tmp_path / "new" / "streams")
    found = load_streams(tmp_path / "new" / "streams")
    assert found.sizes == streams.sizes and len(found) == GAMMA and not found.training
    found.check_fits(target)
    assert found.state_dict().keys() == streams.state_dict().keys()
    for name, weight in streams.state_dict().items():
        assert torch.equal(found.state_dict()[name], weight.to(torch.bfloat16).float())
    half = load_streams(tmp_path / "new" / "streams", dtype=torch.bfloat16)
    assert {weight.dtype for weight in half.parameters()} == {torch.bfloat16}
    assert streams.embedding.dtype == torch.float32, "saving leaves the streams as they are"
    rows = ride(target, found, words(1, 5))[0]
    assert (rows - ride(target, streams, words(1, 5))[0]).abs().max() < 0.1 * rows.abs().max()


def test_a_folder_without_streams(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match=rf"folder must hold Streams, .*, got '{folder}'"):
            load_streams(folder)


def test_a_folder_with_other_sizes_than_weights(tmp_path, llama):
    llama[1].save(tmp_path)
    sizes = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(sizes | {"layers": 1}), encoding="utf-8")
    with pytest.raises(RuntimeError, match="layers"):
        load_streams(tmp_path)


# ---------------------------------------------------------------- refusals


def test_other_families_are_refused_by_name():
    with pytest.raises(ValueError, match=r"target must be of a family.*llama, mistral, qwen2.*'gpt2'"):
        Streams.beside(random_model("gpt2", seed=1), streams=2, layers=1, rank=2)
    with pytest.raises(TypeError, match="target must be a transformers model, got str"):
        Streams.beside("tiny", streams=2, layers=1, rank=2)
    assert {name.split()[0] for name in SETTINGS} == set(FAMILIES), "a family that no test runs"


@pytest.mark.parametrize(
    ("name", "value"), [("layers", 0), ("layers", True), ("streams", -1), ("streams", 2.0), ("rank", 0)]
)
def test_sizes_that_are_none(llama, name, value):
    sizes = {"streams": 2, "layers": 1, "rank": 2} | {name: value}
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, got {value}"):
        Streams.beside(llama[0], **sizes)


def test_more_layers_than_the_target_has(llama):
    with pytest.raises(ValueError, match="layers must be between 1 and the target's 3, got 4"):
        Streams.beside(llama[0], streams=2, layers=4, rank=2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"count": 0}, "count must"), ({"count": 3}, "count must"), ({"keep": -1}, "keep must")],
)
def test_a_rider_is_told_what_there_is(llama, settings, said):
    with pytest.raises(ValueError, match=said):
        StreamRider(Streams.beside(llama[0], streams=2, layers=1, rank=2), **settings)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 16},
        {"intermediate_size": 40},
        {"num_attention_heads": 8},
        {"num_key_value_heads": 4},
        {"head_dim": 6},
    ],
)
def test_streams_of_other_sizes_do_not_fit(llama, changes):
    with pytest.raises(ValueError, match=r"streams of sizes .* do not fit a target that needs "):
        llama[1].check_fits(make_target("llama", **changes))
    llama[1].check_fits(make_target("llama", seed=5))


def test_streams_through_more_layers_than_the_target_has_do_not_fit(llama):
    deep = make_streams(llama[0], layers=3)
    with pytest.raises(ValueError, match="layers must be between 1 and the target's 2, got 3"):
        deep.check_fits(make_target("llama", num_hidden_layers=2))


def test_a_pass_without_a_cache_is_refused_before_it_runs(llama):
    target, streams = llama
    before, runs = hook_count(target), []
    hook = target.model.layers[0].register_forward_pre_hook(lambda *_: runs.append(1))
    with pytest.raises(ValueError, match="past_key_values must be a cache"):
        TransformersAdapter(target).forward(
            torch.tensor([[1, 2]]), use_cache=False, rider=StreamRider(streams)
        )
    hook.remove()
    assert not runs and hook_count(target) == before


# ---------------------------------------------------------------- what the target's layers do not see, streams do not


@pytest.mark.parametrize(
    ("kind", "changes", "windows"),
    [
        ("mistral", {"sliding_window": 4}, [4, 4]),
        (
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2},
            [None, 4],
        ),
    ],
)
@pytest.mark.parametrize("folded", [False, True])
def test_streams_look_back_no_further_than_the_main_stream(kind, changes, windows, folded):
    """In one pass, and behind a cache; with pruning, which picks rows out of the mask."""
    target = make_target(kind, **changes)
    streams, text = make_streams(target), words(3, 12)
    unlike = by_the_targets_layers(target, streams, text, GAMMA)
    assert not torch.allclose(by_the_targets_layers(target, streams, text, GAMMA, windows), unlike, atol=1e-2)
    session = Session(target, rider=rider_of(target, streams, folded))
    for cuts in ((0, 12), (0, 7, 12)):
        session, parts = Session(target, rider=rider_of(target, streams, folded)), []
        for first, last in itertools.pairwise(cuts):
            session.feed(text[first:last], rows=last - first)
            parts.append(session.carried)
        for place, row in enumerate(torch.cat(parts)):
            assert_close(row, by_the_targets_layers(target, streams, text[: place + 1], GAMMA, windows))
    session = Session(target, rider=rider_of(target, streams, folded, keep=2))
    session.feed(text, rows=6)
    kept = [place for place, row in enumerate(session.carried) if not row.isnan().any()]
    assert kept[0] == 0 and len(kept) == 3
    for place in kept:
        truth = by_the_targets_layers(target, streams, text[: len(text) - 5 + place], GAMMA, windows)
        assert_close(session.carried[place], truth)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_frequencies_that_change_with_the_length_are_refused(kind):
    """A rotary embedding that grows with the positions it is asked for is the target's own: streams would grow it."""
    rope = {"rope_type": kind, "factor": 4.0, "rope_theta": 10000.0}
    if kind == "longrope":
        rope |= {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "original_max_position_embeddings": 16}
    target = make_target("llama", rope_parameters=rope, max_position_embeddings=16)
    with pytest.raises(ValueError, match=rf"rotary frequencies .*got rope_type '{kind}'"):
        Streams.beside(target, streams=2, layers=1, rank=2)


@pytest.mark.parametrize("kind", ["Medusa heads", "no weights"])
def test_a_folder_of_something_else(tmp_path, llama, kind):
    if kind == "Medusa heads":
        MedusaHeads(8, 12, 2).save(tmp_path)
    else:
        llama[1].save(tmp_path)
        (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"folder must hold Streams, .*, got "):
        load_streams(tmp_path)


def test_streams_of_another_dtype_do_not_fit(llama):
    target, streams = llama
    with pytest.raises(ValueError, match=r"target's dtype torch\.bfloat16, got torch\.float32"):
        streams.check_fits(copy.deepcopy(target).to(torch.bfloat16))
    with pytest.raises(ValueError, match=r"target's dtype torch\.float32, got torch\.bfloat16"):
        copy.deepcopy(streams).to(torch.bfloat16).check_fits(target)
