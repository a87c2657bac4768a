"""What every test gets: no network, no hub, and pairs of tiny random models that agree, half agree or disagree.

Fakes and outside truths are in `helpers.py`.
"""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported anywhere

import socket
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from helpers import Reference, random_model, uncached_greedy, with_noise
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import PreTrainedModel

torch.set_num_threads(1)  # on a busy machine two threads wait for each other; tiny models need one

LOOPBACK = {"localhost", "127.0.0.1", "::1", "", None}


@pytest.fixture(autouse=True, scope="session")
def no_network():
    """Connecting or resolving anything but the loopback raises; child processes get `HF_HUB_OFFLINE`."""
    real_connect, real_connect_ex = socket.socket.connect, socket.socket.connect_ex
    real_resolve = socket.getaddrinfo

    def refuse(host):
        if host not in LOOPBACK:
            raise RuntimeError(f"a test tried to reach {host!r}: tests need no network")

    def outside(connection, address):
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            refuse(address[0])

    def connect(connection, address):
        outside(connection, address)
        return real_connect(connection, address)

    def connect_ex(connection, address):
        outside(connection, address)
        return real_connect_ex(connection, address)

    def resolve(host, *args, **kwargs):
        refuse(host)
        return real_resolve(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect)
        patch.setattr(socket.socket, "connect_ex", connect_ex)
        patch.setattr(socket, "getaddrinfo", resolve)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test marked `scripted` is not repeated on the oldest transformers, so it fails if it makes or runs one of its models."""
    if item.get_closest_marker("scripted") is None:
        return (yield)

    def refuse(model, *arguments, **more):
        if isinstance(model, PreTrainedModel):
            raise AssertionError(
                f"{type(model).__name__} in a test that is marked `scripted`: take the mark away"
            )

    watch = register_module_forward_pre_hook(refuse)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PreTrainedModel, "__init__", refuse)
            return (yield)
    finally:
        watch.remove()


@dataclass(frozen=True)
class Tiny:
    """A random target, three drafts of the same family, prompts, and the target's own text after each prompt."""

    target: Any
    drafts: dict[str, Any]  # "agree", "half", "disagree"
    prompts: tuple[list[int], ...]
    references: tuple[Reference, ...]


NEW_TOKENS = 40
PROMPTS = ([7], [5, 9, 13, 7, 2], [(11 * i * i + 3 * i) % 60 for i in range(30)])
SEED = {"llama": 1, "gpt2": 5}
NOISE = {"llama": 0.006, "gpt2": 0.02}  # chosen so that about half the drafts are accepted


@pytest.fixture(scope="session", params=["llama", "gpt2"])
def tiny(request) -> Tiny:
    return make_tiny(request.param)


@pytest.fixture(scope="session")
def tiny_llama() -> Tiny:
    return make_tiny("llama")


def make_tiny(family: str) -> Tiny:
    from specdec_lab import speculative_rounds
    from specdec_lab.decoding.rounds import Trace

    target = random_model(family, seed=SEED[family])
    drafts = {
        "agree": random_model(family, seed=SEED[family]),
        "half": with_noise(random_model(family, seed=SEED[family]), NOISE[family], seed=9),
        "disagree": random_model(family, seed=SEED[family] + 1),
    }
    references = tuple(uncached_greedy(target, prompt, NEW_TOKENS) for prompt in PROMPTS)
    for reference in references:
        # text that repeats one token would hide a stale cache; a near tie would excuse a difference
        assert len(set(reference.tokens)) >= 10, reference.tokens
        assert reference.first_near_tie is None, reference
    for name, (least, most) in {"agree": (1, 1), "half": (0.3, 0.7), "disagree": (0, 0.2)}.items():
        accepted = drafted = 0
        for prompt in PROMPTS:
            run = speculative_rounds(
                target, drafts[name], prompt, max_new_tokens=NEW_TOKENS, gamma=4, eos_token_id=None
            )
            trace = Trace.of(prompt, run)
            accepted, drafted = accepted + trace.accepted, drafted + trace.drafted
        assert least <= accepted / drafted <= most, (name, accepted / drafted)
    return Tiny(target, drafts, PROMPTS, references)
