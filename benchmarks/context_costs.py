"""What a long context costs: roll-back, one plain token, memory of a prefill, and how tokens arrive. One table.

Lengths and caches take turns within one run; figures are medians and their ratios. Run it with nothing else running:

    python benchmarks/context_costs.py
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from specdec_lab import benchmark_decoding, load_pair
from specdec_lab.measure.environment import versions
from specdec_lab.measure.memory import cache_bytes_per_token, prefill_peak_bytes
from specdec_lab.models.transformers_adapter import TransformersAdapter

ROUND = 5  # tokens of a verification at γ = 4


class Slab:
    """This package's cache behind its adapter."""

    def __init__(self, model, prompt: torch.Tensor) -> None:
        self.adapter = TransformersAdapter(model)
        self.cache = self.adapter.forward(prompt, logits_to_keep=1).past_key_values

    def feed(self, ids: torch.Tensor) -> None:
        """One pass over new tokens."""
        self.adapter.forward(ids, past_key_values=self.cache, logits_to_keep=1)

    def cut(self, count: int) -> None:
        """Drop the last `count` positions."""
        self.adapter.truncate_cache(self.cache, self.cache.get_seq_length() - count)


class Stock:
    """transformers' own dynamic cache, as `generate` uses it."""

    def __init__(self, model, prompt: torch.Tensor) -> None:
        self.model, self.cache = model, DynamicCache(config=model.config)
        self.keyword = TransformersAdapter(model)._cache_keyword
        self.feed(prompt)

    def feed(self, ids: torch.Tensor) -> None:
        """One pass over new tokens."""
        self.model(input_ids=ids, use_cache=True, logits_to_keep=1, **{self.keyword: self.cache})

    def cut(self, count: int) -> None:
        """Drop the last `count` positions."""
        self.cache.crop(-count)


@torch.inference_mode()
def step_and_cut(model, lengths: list[int], repeats: int) -> dict[tuple[str, int, str], list[float]]:
    """Seconds of one plain step, and of one roll-back of a verified block, for both caches at each length."""
    vocabulary = model.config.vocab_size
    caches = {
        (kind.__name__, length): kind(model, torch.arange(length)[None] % vocabulary)
        for kind in (Slab, Stock)
        for length in lengths
    }
    one, block = torch.tensor([[7]]), torch.tensor([[7, 8, 9, 10, 11]])
    seconds: dict[tuple[str, int, str], list[float]] = {}
    for repeat in range(repeats + 3):
        order = list(caches)
        for key in order[repeat % len(order) :] + order[: repeat % len(order)]:
            cache = caches[key]
            started = time.perf_counter()
            cache.feed(one)
            stepped = time.perf_counter() - started
            cache.cut(1)
            cache.feed(block)
            started = time.perf_counter()
            cache.cut(ROUND)
            cut = time.perf_counter() - started
            if repeat >= 3:
                seconds.setdefault((*key, "step"), []).append(stepped)
                seconds.setdefault((*key, "cut"), []).append(cut)
    return seconds


def row(name: str, value: str) -> None:
    """One line of the table."""
    print(f"{name:<72} {value}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs=2, default=[128, 2048])
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    short, long = options.lengths
    pair = load_pair("tiny")
    stamp = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(f"pair {pair.name}; {stamp}; {torch.get_num_threads()} threads; {options.repeats} repeats\n")

    seconds = step_and_cut(pair.target, [short, long], options.repeats)
    middle = {key: statistics.median(values) for key, values in seconds.items()}
    for kind, name in (("Slab", "slab cache"), ("Stock", "transformers' dynamic cache")):
        for what, words in (("cut", "roll-back of a block"), ("step", "one plain token")):
            ratio = middle[kind, long, what] / middle[kind, short, what]
            row(
                f"{words} at {long} ÷ at {short} tokens, {name}",
                f"{ratio:.2f}  ({1e6 * middle[kind, short, what]:.0f} to {1e6 * middle[kind, long, what]:.0f} µs)",
            )
    for length in (short, long):
        ratio = middle["Stock", length, "step"] / middle["Slab", length, "step"]
        row(f"one plain token at {length}: dynamic cache ÷ slab cache", f"{ratio:.2f}")

    both = cache_bytes_per_token(pair.target), cache_bytes_per_token(pair.draft)
    row("bytes of cache per token: target, draft", f"{both[0]:,}, {both[1]:,}")
    torch.manual_seed(0)
    wide = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49_152,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=4096,
        )
    ).eval()
    lean, full = (prefill_peak_bytes(wide, long, every_row=rows) for rows in (False, True))
    row(
        f"peak of a {long}-token prefill, vocabulary 49,152, head on one row / on all",
        f"{lean / 1e6:.0f} MB / {full / 1e6:.0f} MB",
    )

    prompts = pair.prompt_ids[: options.prompts]
    result = benchmark_decoding(
        pair.target, pair.draft, prompts, options.new_tokens, 4, None, 1, options.runs
    )
    for leg in ("autoregressive", "speculative"):
        row(
            f"{leg}: time to first token, largest gap, variation of gaps (std ÷ mean)",
            f"{1e3 * result[f'mean_time_to_first_token_{leg}']:.1f} ms, {1e3 * result[f'largest_gap_{leg}']:.1f} ms, "
            f"{result[f'gap_variation_{leg}']:.2f}",
        )


if __name__ == "__main__":
    main()
