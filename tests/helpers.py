"""Fakes, tiny random models and outside truths. Nothing here runs the package's decoders or its scripted models.

`crc_rule` and `PlainModel` are a second, independent pair of what `specdec_lab.models.scripted` offers, so that a
bug there cannot hide.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

from specdec_lab.decoding.rounds import BONUS, CORRECTION, END, PLAIN

Rule = Callable[[Sequence[int]], int]

# ---------------------------------------------------------------- rules: prefix → next token


def crc_rule(width: int, seed: int = 0) -> Rule:
    """A next token that depends on every token before it."""
    return lambda prefix: zlib.crc32(repr((seed, list(prefix))).encode()) % width


def counting_rule(width: int, step: int = 1) -> Rule:
    """A next token that depends on the last one only."""
    return lambda prefix: (prefix[-1] + step) % width


def erring(rule: Rule, width: int, wrong: Callable[[int], bool]) -> Rule:
    """`rule`, one off where `wrong(position of the predicted token)`."""
    return lambda prefix: (rule(prefix) + int(wrong(len(prefix)))) % width


def always(position: int) -> bool:
    return True


def never(position: int) -> bool:
    return False


def every_other(position: int) -> bool:
    return zlib.crc32(str(position).encode()) % 2 == 0


def follow(rule: Rule, prompt: Sequence[int], count: int, ends: Sequence[int] = ()) -> list[int]:
    """The truth for a rule: prompt and new tokens, by calling it. No model, no cache."""
    sequence = list(prompt)
    for _ in range(count):
        sequence.append(rule(sequence))
        if sequence[-1] in ends:
            break
    return sequence


# ---------------------------------------------------------------- fakes with two methods and nothing else


class Held:
    """An opaque cache: nothing about it says how long it is."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.secret = list(tokens)
        self.dead = False


class PlainModel:
    """`forward` and `truncate_cache`; the cache is opaque and changed in place, `truncate_cache` returns None.

    `log` holds ("forward", tokens in the cache before, tokens fed) and ("cut", before, after).
    """

    def __init__(self, rule: Rule, width: int) -> None:
        self.rule, self.width = rule, width
        self.log: list[tuple] = []

    @property
    def passes(self) -> int:
        return sum(entry[0] == "forward" for entry in self.log)

    @property
    def fed(self) -> list[list[int]]:
        return [entry[2] for entry in self.log if entry[0] == "forward"]

    @property
    def fed_tokens(self) -> int:
        return sum(map(len, self.fed))

    def forward(self, input_ids, use_cache=True, past_key_values=None):
        assert use_cache and not torch.is_grad_enabled()
        assert input_ids.shape[0] == 1 and input_ids.dtype == torch.long
        cache = self.take(past_key_values)
        new = input_ids[0].tolist()
        assert new and all(0 <= token < self.width for token in new), f"ids {new} of {self.width}"
        self.log.append(("forward", len(cache.secret), new))
        rows = torch.zeros(1, len(new), self.width)
        for i, token in enumerate(new):
            cache.secret.append(token)
            rows[0, i, self.rule(cache.secret)] = 1.0
        return SimpleNamespace(logits=rows, past_key_values=cache)

    def truncate_cache(self, past_key_values, valid_length):
        assert 0 <= valid_length <= len(past_key_values.secret)
        self.log.append(("cut", len(past_key_values.secret), valid_length))
        del past_key_values.secret[valid_length:]

    def take(self, cache: Held | None) -> Held:
        return Held([]) if cache is None else cache


class RenewingModel(PlainModel):
    """Every call returns a cache made anew; the one handed in is dead from then on."""

    def take(self, cache):
        if cache is None:
            return Held([])
        assert not cache.dead, "a cache was used again although a later one had been returned"
        cache.dead = True
        return Held(cache.secret)

    def truncate_cache(self, past_key_values, valid_length):
        renewed = self.take(past_key_values)
        super().truncate_cache(renewed, valid_length)
        return renewed


class KeepingModel(PlainModel):
    """Takes `logits_to_keep` and returns exactly so many rows; `kept` notes each request."""

    def __init__(self, rule, width):
        super().__init__(rule, width)
        self.kept: list[int | None] = []

    def forward(self, input_ids, use_cache=True, past_key_values=None, logits_to_keep=None):
        output = super().forward(input_ids, use_cache, past_key_values)
        self.kept.append(logits_to_keep)
        if logits_to_keep:
            output.logits = output.logits[:, -logits_to_keep:]
        return output


FAKES = [PlainModel, RenewingModel, KeepingModel]


# ---------------------------------------------------------------- tiny random transformers models

VOCABULARY = 64
SIZES = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "llama": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48},
}


def random_model(family: str, seed: int, **changes):
    """A random causal language model in eval mode; `initializer_range` is large, so that its text has variety."""
    settings = {"vocab_size": VOCABULARY, "initializer_range": 0.4, "bos_token_id": 0, "eos_token_id": 1}
    if family != "gpt2":
        settings |= {"max_position_embeddings": 256, "num_key_value_heads": 2, "pad_token_id": 2}
    settings |= SIZES.get(family, SIZES["llama"]) | changes
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **settings)).eval()


def with_noise(model, scale: float, seed: int):
    """The same model with normal noise of this scale on every weight."""
    torch.manual_seed(seed)
    noisy = copy.deepcopy(model)
    with torch.no_grad():
        for weight in noisy.parameters():
            weight.add_(torch.randn_like(weight) * scale)
    return noisy


# ---------------------------------------------------------------- outside truths


@dataclass(frozen=True)
class Reference:
    """Plain greedy text without any cache, and how far apart the two best logits were at each step."""

    tokens: list[int]
    gaps: list[float]
    near: list[bool]

    @property
    def first_near_tie(self) -> int | None:
        return self.near.index(True) if any(self.near) else None

    def until(self, ends: Sequence[int]) -> list[int]:
        """The tokens up to and including the first end token."""
        cut = next((i + 1 for i, token in enumerate(self.tokens) if token in ends), len(self.tokens))
        return self.tokens[:cut]


def top_two(rows: torch.Tensor) -> tuple[list[float], list[bool]]:
    """For logits (n, vocab): the gap of the two best, and whether it is within rounding, which is
    1e-4 × max(1, largest |logit|)."""
    best = rows.float().topk(2, dim=-1).values
    gaps = best[:, 0] - best[:, 1]
    bounds = 1e-4 * rows.float().abs().amax(dim=-1).clamp(min=1)
    return gaps.tolist(), (gaps < bounds).tolist()


@torch.no_grad()
def full_logits(model, sequence: Sequence[int]) -> torch.Tensor:
    """(n, vocab) by one pass without a cache, straight through transformers."""
    return model(input_ids=torch.tensor([list(sequence)]), use_cache=False).logits[0]


def uncached_greedy(model, prompt: Sequence[int], count: int) -> Reference:
    """A full pass over everything at every step."""
    sequence, gaps, near = list(prompt), [], []
    for _ in range(count):
        row = full_logits(model, sequence)[-1:]
        sequence.append(int(row.argmax()))
        gap, is_near = top_two(row)
        gaps += gap
        near += is_near
    return Reference(sequence[len(prompt) :], gaps, near)


def assert_same_text(ours: Sequence[int], reference: Reference, ends: Sequence[int] = ()) -> None:
    """Fail at any difference, except behind a first one that lies at a near tie of the reference."""
    expected = reference.until(ends)
    for i, (a, b) in enumerate(zip(ours, expected, strict=False)):
        if a != b:
            assert reference.near[i], f"new token {i} is {a}, not {b}, at a gap of {reference.gaps[i]:.3g}"
            return
    assert len(ours) == len(expected), f"{len(ours)} new tokens, {len(expected)} expected"


# ---------------------------------------------------------------- what must hold of every run


def assert_rounds_hold(
    prompt: Sequence[int], rounds: Sequence, ends: Sequence[int], budget: int
) -> list[int]:
    """The invariants of a chain of rounds made with a draft model; returns the new tokens."""
    length, wanted, draft_cache = len(prompt), budget, 0
    for item in rounds:
        k, agreed = len(item.drafted), len(item.accepted)
        assert k <= max(0, wanted - 1)
        assert item.parents == tuple(range(-1, k - 1))
        assert item.accepted == tuple(range(agreed))
        assert item.emitted[:agreed] == item.drafted[:agreed]
        assert item.target_cache_before == (0 if item is rounds[0] else length - 1)
        assert item.draft_cache_before == draft_cache
        if item.outcome == END:
            assert agreed and len(item.emitted) == agreed and item.emitted[-1] in ends
        else:
            assert len(item.emitted) == agreed + 1
            assert not set(item.emitted[:-1]) & set(ends)
        if item.outcome == PLAIN:
            assert k == 0
        if item.outcome == BONUS:
            assert k == agreed > 0
        if item.outcome == CORRECTION:
            assert agreed < k and item.emitted[-1] != item.drafted[agreed]
        length, wanted = length + len(item.emitted), wanted - len(item.emitted)
        assert item.target_cache_after == length - 1
        # the last draft was never fed to the draft itself, and a bonus comes on top; both are pending
        draft_cache = {PLAIN: draft_cache, BONUS: length - 2}.get(item.outcome, length - 1)
        assert item.draft_cache_after == draft_cache
    new = [token for item in rounds for token in item.emitted]
    assert wanted == 0 or (wanted > 0 and new[-1] in ends)
    assert not set(new[:-1]) & set(ends)
    return new


# ---------------------------------------------------------------- looking on


class Dtypes(TorchDispatchMode):
    """Notes the dtype of every tensor that any operation returns."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for part in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(part, torch.Tensor):
                self.seen.add(part.dtype)
        return result
