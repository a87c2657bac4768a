"""The same code beside an accelerator: where inputs are made, what the host reads, what clocks wait for.

Without one, models live on devices that are not there (`pretend_device.py`); a mixture of devices raises, and reads
are counted. With a CUDA device the last tests run on it.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch
from helpers import random_model, with_noise
from pretend_device import Away, PretendDevices

from specdec_lab import (
    PromptLookupDrafter,
    Sampling,
    Trace,
    autoregressive_decode,
    benchmark_decoding,
    load_pair,
    speculative_decode,
    speculative_rounds,
    speculative_sample,
)
from specdec_lab.decoding.chance import GeneratorChance
from specdec_lab.decoding.drafters import NoDrafter
from specdec_lab.decoding.early_exit import EarlyExitDrafter
from specdec_lab.decoding.medusa import MedusaDrafter
from specdec_lab.decoding.session import Session
from specdec_lab.decoding.streams import StreamDrafter
from specdec_lab.decoding.tree_decode import tree_rounds
from specdec_lab.decoding.tree_drafters import ConfidenceTreeDrafter
from specdec_lab.measure.clock import read_clock
from specdec_lab.models.medusa import load_medusa
from specdec_lab.models.protocol import as_model, why_no_trees
from specdec_lab.models.streams import load_streams

PROMPT = [1, 2, 3, 1, 2]
NEW = 12
TARGET, DRAFT = "meta:0", "meta:1"
SHAPE = (2, 2, 1)


@pytest.fixture
def there():
    with PretendDevices() as devices:
        yield devices


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rounds(target, drafter, temperature=None) -> Trace:
    """A chain of at most 4, greedy or drawn."""
    more = {}
    if temperature is not None:
        sampling = Sampling(temperature=temperature, top_k=20, top_p=0.95)
        more = {"sampling": sampling, "chance": GeneratorChance(seeded())}
    run = speculative_rounds(target, drafter, PROMPT, max_new_tokens=NEW, gamma=4, eos_token_id=None, **more)
    return Trace.of(PROMPT, run)


def tree(target, drafter, shape=SHAPE) -> Trace:
    run = tree_rounds(target, drafter, PROMPT, max_new_tokens=NEW, tree=shape, eos_token_id=None)
    return Trace.of(PROMPT, run)


def pair(family: str, there: PretendDevices | None = None):
    """A target and a draft that half agrees; each on its own device if `there` is given."""
    seed, noise = {"llama": (1, 0.006), "gpt2": (5, 0.02)}[family]
    models = random_model(family, seed=seed), with_noise(random_model(family, seed=seed), noise, seed=9)
    if there:
        for model, device in zip(models, (TARGET, DRAFT), strict=True):
            there.send(model, device)
    return models


# ---------------------------------------------------------------- the devices themselves


def test_a_mixture_of_devices_raises_and_reads_are_counted(there):
    one, other = (torch.ones(2, device=device) for device in (TARGET, DRAFT))
    for wrong in (lambda: one + other, lambda: one + torch.ones(2), lambda: torch.cat([one, other])):
        with pytest.raises(RuntimeError, match="over tensors on"):
            wrong()
    assert isinstance(one + 1, Away) and str((one + 1).device) == TARGET and not there.reads
    assert ((one + one.to(other.device).to(one.device)) * 2).tolist() == [4, 4]
    assert int(one.sum()) == 2 and bool((one > 0).all()) and one.cpu().device.type == "cpu"
    assert there.reads == {TARGET: 4}


def test_ids_left_on_the_cpu_would_be_found(there, monkeypatch):
    target, _ = pair("llama", there)
    monkeypatch.setattr("specdec_lab.decoding.session.model_device", lambda model: torch.device("cpu"))
    with pytest.raises(RuntimeError, match="embedding over tensors on cpu, meta:0"):
        autoregressive_decode(target, PROMPT, 2, None)


# ---------------------------------------------------------------- the same text, and how often the host waits
# name → (how it is run, reads of the target's device, reads of the draft's)

READS = {
    # the choices of a pass are one read; a draft model is asked for its token after each of its passes
    "plain": (lambda t, d: rounds(t, NoDrafter()), lambda trace: (len(trace.rounds), 0)),
    "draft": (lambda t, d: rounds(t, d), lambda trace: (len(trace.rounds), trace.drafted)),
    "lookup": (lambda t, d: rounds(t, PromptLookupDrafter()), lambda trace: (len(trace.rounds), 0)),
    "early exit": (
        lambda t, d: rounds(t, EarlyExitDrafter(t, 1)),
        lambda trace: (len(trace.rounds) + trace.drafted, 0),
    ),
    # as greedy decoding: whether rows are finite is read with the choices
    "temperature 0": (lambda t, d: rounds(t, d, 0.0), lambda trace: (len(trace.rounds), trace.drafted)),
    # drawing: what the rule has to know, then a token, where one is drawn; a draft's row, then its token
    "drawn": (lambda t, d: rounds(t, d, 0.8), lambda trace: (2 * len(trace.rounds), 2 * trace.drafted)),
    # a tree of a draft model: a read for each level
    "tree": (lambda t, d: tree(t, d), lambda trace: (len(trace.rounds), levels(trace))),
    "confidence tree": (
        lambda t, d: tree(t, ConfidenceTreeDrafter(d, budget=6, depth=3, width=2), None),
        lambda trace: (len(trace.rounds), 2 * 3 * len(trace.rounds)),
    ),
}


def levels(trace: Trace) -> int:
    """Levels of all trees that were drafted."""

    def depth(parents) -> int:
        depths: list[int] = []
        for parent in parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return max(depths, default=0)

    return sum(depth(round_.parents) for round_ in trace.rounds)


@pytest.mark.parametrize(
    "method, family", [*((method, "llama") for method in READS), ("draft", "gpt2"), ("tree", "gpt2")]
)
def test_the_text_is_the_same_and_the_host_reads_no_more_than_it_must(method, family):
    run, most = READS[method]
    here = run(*pair(family))
    with PretendDevices() as there:
        target, draft = pair(family, there)
        for model in (target, draft):
            assert why_no_trees(as_model(model)) is None  # tried once, which reads
        there.reads.clear()
        trace = run(target, draft)
    assert trace.sequence == here.sequence and trace.accepted == here.accepted
    of_target, of_draft = most(trace)
    assert there.reads[TARGET] <= of_target and there.reads[DRAFT] <= of_draft, (
        dict(there.reads),
        of_target,
        of_draft,
    )
    assert set(there.reads) <= {TARGET, DRAFT}
    if method not in ("drawn", "confidence tree"):  # a draw less behind an end, a level less near it
        assert (there.reads[TARGET], there.reads[DRAFT]) == (of_target, of_draft)


def test_a_pass_a_roll_back_and_a_selection_read_nothing(there):
    target, _ = pair("llama", there)
    session = Session(target)
    session.feed(PROMPT, rows=1)
    session.feed([4, 5, 6], rows=3, parents=(-1, -1, 0))
    session.keep(len(PROMPT), [len(PROMPT) + 1])
    session.feed([7, 8], rows=2)
    logits = session.feed([9], rows=1)
    session.roll_back(2)
    assert str(logits.device) == TARGET and session.length == 2
    assert not there.reads


def test_a_model_spread_over_devices_gets_ids_where_its_embedding_is(there):
    """As accelerate's hooks do with `device_map`: each part moves its inputs to itself, and caches follow."""
    whole, _ = pair("llama")
    spread, _ = pair("llama")
    here = autoregressive_decode(whole, PROMPT, NEW, None)

    def follow(device):
        def moved(part, args, kwargs):
            def move(thing):
                if isinstance(thing, tuple):
                    return tuple(map(move, thing))
                return thing.to(device) if isinstance(thing, Away) else thing

            return tuple(map(move, args)), {name: move(thing) for name, thing in kwargs.items()}

        return moved

    decoder = spread.model
    for part, device in (
        (decoder.embed_tokens, DRAFT),
        (decoder.rotary_emb, DRAFT),
        (decoder.layers[0], DRAFT),
    ):
        there.send(part, device)
    for part in (*decoder.layers[1:], decoder.norm, spread.lm_head):
        if part is spread.lm_head and part.weight is decoder.embed_tokens.weight:
            continue
        there.send(part, TARGET)
        part.register_forward_pre_hook(follow(torch.device(TARGET)), with_kwargs=True)
    assert str(as_model(spread).device) == DRAFT
    there.reads.clear()
    assert autoregressive_decode(spread, PROMPT, NEW, None) == here
    assert there.reads == {TARGET: NEW}
    draft = random_model("llama", seed=1)  # on the CPU
    assert speculative_decode(spread, draft, PROMPT, NEW, 4, None) == (here, 1.0)


@pytest.mark.parametrize("kind", ["medusa", "streams"])
def test_what_rides_on_a_pass_is_on_its_device(there, kind):
    def run(target, heads):
        drafter = MedusaDrafter(heads, SHAPE) if kind == "medusa" else StreamDrafter(target, heads, SHAPE)
        return tree(target, drafter)

    load = load_medusa if kind == "medusa" else load_streams
    here = run(load_pair("tiny").target, load("tiny"))
    target, heads = load_pair("tiny").target, load("tiny")
    there.send(target, TARGET)
    there.send(heads, TARGET)
    assert why_no_trees(as_model(target)) is None
    there.reads.clear()
    trace = run(target, heads)
    assert trace.sequence == here.sequence and trace.accepted == here.accepted > 0
    reads = (
        2 if kind == "medusa" else 3
    )  # the choices, the guesses; for streams also whether they were pruned
    assert there.reads[TARGET] <= reads * len(trace.rounds) and set(there.reads) == {TARGET}


# ---------------------------------------------------------------- chance


def test_a_generator_draws_on_its_own_device(monkeypatch):
    """A CPU generator beside probabilities elsewhere, or the other way round (vllm-ascend PR 16370)."""
    asked, real = [], torch.rand

    def rand(*size, generator, device, dtype):
        asked.append((generator, device, dtype))
        return real(*size, dtype=dtype)

    monkeypatch.setattr(torch, "rand", rand)
    for kind, dtype in (("cuda:1", torch.float64), ("mps", torch.float32)):
        generator = SimpleNamespace(device=torch.device(kind))
        chance = GeneratorChance(generator)
        assert chance.draw(torch.tensor([0.0, 1.0])) == 1 and chance.accept(1.0)
        assert asked[-2:] == [(generator, generator.device, dtype)] * 2


def test_a_seed_means_the_same_whatever_device_the_models_are_on(there):
    """The numbers come from the generator that was given; the global state stays."""
    here = speculative_sample(*pair("llama"), PROMPT, NEW, 4, None, generator=seeded())
    before = torch.get_rng_state()
    away = speculative_sample(*pair("llama", there), PROMPT, NEW, 4, None, generator=seeded())
    assert away == here and torch.equal(torch.get_rng_state(), before)
    assert speculative_sample(*pair("llama", there), PROMPT, NEW, 4, None, generator=seeded(4))[0] != here[0]


# ---------------------------------------------------------------- clocks


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_a_clock_is_read_after_its_devices_have_finished(monkeypatch, kind):
    events: list = []
    monkeypatch.setattr(getattr(torch, kind), "synchronize", lambda *device: events.append(device))
    monkeypatch.setattr(time, "perf_counter", lambda: events.append("read") or 1.0)
    devices = {torch.device("cpu"), torch.device(kind, 0)} | (
        {torch.device(kind, 1)} if kind != "mps" else set()
    )
    assert read_clock(devices) == 1.0
    assert events.pop() == "read" and len(events) == len(devices) - 1
    assert set(events) == ({()} if kind == "mps" else {(torch.device(kind, 0),), (torch.device(kind, 1),)})


def test_a_device_that_never_waits_is_read_at_once():
    assert read_clock({torch.device("meta")}) <= time.perf_counter()


# ---------------------------------------------------------------- really

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@pytest.fixture(scope="module")
def on_cuda():
    return load_pair("tiny", device="cuda")


@cuda
@pytest.mark.parametrize("place", ["both there", "draft here", "target here"])
def test_cuda_text_is_that_of_plain_decoding(on_cuda, place):
    here = load_pair("tiny")
    target = here.target if place == "target here" else on_cuda.target
    draft = here.draft if place == "draft here" else on_cuda.draft
    for ids in on_cuda.prompt_ids[:3]:
        plain = autoregressive_decode(target, ids, 48, on_cuda.eos_token_id)
        tokens, rate = speculative_decode(target, draft, ids, 48, 4, on_cuda.eos_token_id)
        assert tokens == plain and 0 < rate <= 1


@cuda
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_cuda_a_generator_on_either_device_repeats(on_cuda, device):
    def run(seed):
        generator = torch.Generator(device).manual_seed(seed)
        ids = on_cuda.prompt_ids[0]
        return speculative_sample(on_cuda.target, on_cuda.draft, ids, 48, 4, None, generator=generator)

    states = torch.get_rng_state(), torch.cuda.get_rng_state()
    assert run(1) == run(1) != run(2)
    assert torch.equal(states[0], torch.get_rng_state()) and torch.equal(
        states[1], torch.cuda.get_rng_state()
    )


@cuda
def test_cuda_is_waited_for_and_named_by_the_benchmark(on_cuda, monkeypatch):
    waits, real = [], torch.cuda.synchronize
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: waits.append(device) or real(device))
    result = benchmark_decoding(
        on_cuda.target, on_cuda.draft, on_cuda.prompt_ids[:2], 32, 4, None, warmup_runs=1, num_runs=1
    )
    assert result["outputs_match"] and result["speedup"] > 0 and result["device"].startswith("cuda")
    assert len(waits) == 2 * 2 * 2 * 2, "before and after each of two legs, two prompts, two runs"
