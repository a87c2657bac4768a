"""Does this model give a block behind its cache the same answers as one pass over everything? Asked by trying.

Speculation needs that, and some models that look like ordinary decoders do not have it: a mask that lets the first
pass look ahead (PaliGemma), positions that are counted without padding ids (RoBERTa), a block behind the cache that
raises or gets a wrong mask (XLM, ProphetNet; Moshi and Persimmon in early transformers 5). Types on which the
conformance tests have shown it are believed and not asked.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .protocol import torch_modules

# what tests/conformance decodes exactly, on both ends of the supported transformers range
PROVEN = frozenset(
    [
        "bloom",
        "deepseek_v3",
        "falcon",
        "gemma",
        "gemma2",
        "gemma3_text",
        "gpt2",
        "gpt_neo",
        "gpt_neox",
        "gpt_oss",
        "granite",
        "llama",
        "llama4_text",
        "mistral",
        "mixtral",
        "mpt",
        "olmo2",
        "opt",
        "phi",
        "phi3",
        "qwen2",
        "qwen3",
        "smollm3",
    ]
)
# relative to the largest |logit|; exact models stay below 1e-6 in float32, the others are off by tenths
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
HALF_TOLERANCE = 0.2

_answers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def why_inexact(adapter) -> str | None:
    """Half a sentence saying why blocks behind this model's cache cannot be trusted, or None.

    At most four short passes, once in the life of a model; none for proven types.
    """
    model = adapter.model
    config = model.config.get_text_config(decoder=True)
    if getattr(config, "is_causal", True) is False or getattr(config, "use_bidirectional_attention", False):
        return "is set to look ahead within a pass, so drafted tokens would change what comes before them"
    if model.config.model_type in PROVEN:
        return None
    if model not in _answers:
        _answers[model] = _try(adapter, config)
    return _answers[model]


def _try(adapter, config) -> str | None:
    vocabulary = adapter.vocab_size
    ids = [number % vocabulary for number in (11, 5, 7, 3, 13, 17, 19, 23)]
    padding = getattr(config, "pad_token_id", None)
    if isinstance(padding, int) and 0 <= padding < vocabulary:
        ids[1] = ids[6] = padding  # never first or last in a pass, where transformers would warn of it
    first, junk, block = ids[:3], ids[3:5], ids[5:]

    def run(tokens: list[int], cache=None, use_cache: bool = True):
        return adapter.forward(
            torch.tensor([tokens], device=adapter.device), use_cache=use_cache, past_key_values=cache
        )

    try:
        with _evaluating(adapter.model), torch.inference_mode():
            whole = run([*first, *block], use_cache=False).logits[0].float()
            step = run(first)
            rows, cache = [step.logits[0]], step.past_key_values
            held = cache.get_seq_length()
            if held != len(first):
                return f"keeps no cache that can be rolled back: it holds {held} positions after {len(first)} tokens"
            cache = run(junk, cache).past_key_values
            cache = adapter.truncate_cache(cache, len(first))
            rows.append(run(block, cache).logits[0])
            off = (torch.cat(rows).float() - whole).abs().max() / whole.abs().max().clamp(min=1e-6)
    except Exception as error:  # whatever a model raises here, it would raise in the middle of a text
        said = "".join(str(error).splitlines()[:1])
        return f"cannot process a block of tokens behind its cache ({type(error).__name__}: {said})"
    if not off <= TOLERANCE.get(adapter.dtype, HALF_TOLERANCE):
        return (
            "gives other logits for a block of tokens behind its cache than for one pass over everything "
            f"(they differ by {off.item():.1g} of the largest), so nothing can be verified with it"
        )
    return None


@contextmanager
def _evaluating(model) -> Iterator[None]:
    """Eval mode, left as found."""
    training = [module for module in torch_modules(model) if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def why_no_trees(adapter) -> str | None:
    """Half a sentence saying why a tree of drafts cannot be verified with this model, or None.

    Three nodes in one pass are held against the two paths in passes of their own, and the longer path is selected and
    continued. At most five short passes, once in the life of a model.
    """
    if adapter.model not in _tree_answers:
        _tree_answers[adapter.model] = _try_tree(adapter)
    return _tree_answers[adapter.model]


_tree_answers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _try_tree(adapter) -> str | None:
    """The tree is 2 and 3 behind the text, 4 behind 2; then 5 behind 4."""
    if "position_ids" not in inspect.signature(type(adapter.model).forward).parameters:
        return "takes no positions, so the nodes of a tree cannot stand side by side"
    text, (two, three, four, five) = (
        [i % adapter.vocab_size for i in (11, 5, 7)],
        (i % adapter.vocab_size for i in (13, 17, 19, 23)),
    )
    first = len(text)

    def run(tokens: list[int], cache=None, seen: list[list[int]] | None = None, positions=None):
        more = {}
        if seen is not None:
            mask = torch.zeros(1, 1, len(tokens), first + len(tokens), dtype=torch.bool)
            for row, columns in enumerate(seen):
                mask[0, 0, row, [*range(first), *columns]] = True
            more["attention_mask"] = mask.to(adapter.device)
            more["position_ids"] = torch.tensor([positions], device=adapter.device)
        return adapter.forward(torch.tensor([tokens], device=adapter.device), past_key_values=cache, **more)

    try:
        with _evaluating(adapter.model), torch.inference_mode():
            path = run([*text, two, four, five]).logits[0, first:]
            side = run([*text, three]).logits[0, first:]
            cache = run(text).past_key_values
            tree = run(
                [two, three, four],
                cache,
                [[first], [first + 1], [first, first + 2]],
                [first, first, first + 1],
            ).logits[0]
            cache = adapter.select_cache(cache, first, [first, first + 2])
            then = run([five], cache).logits[0]
            expected = torch.cat([path[:1], side, path[1:]]).float()
            off = (torch.cat([tree, then]).float() - expected).abs().max()
            off = off / expected.abs().max().clamp(min=1e-6)
    except Exception as error:  # whatever a model raises here, it would raise in the middle of a text
        said = "".join(str(error).splitlines()[:1])
        return f"cannot process a tree of tokens ({type(error).__name__}: {said})"
    if not off <= TOLERANCE.get(adapter.dtype, HALF_TOLERANCE):
        return (
            "does not honour the mask and the positions of a tree: its answers differ from those for the paths one "
            f"by one, by {off.item():.1g} of the largest"
        )
    return None
