"""How fast speculative sampling is beside transformers' own assisted generation with do_sample. One table.

Every contender samples from the same held-out prompts with the same temperature, filters and γ; contenders take
turns prompt by prompt, in an order that rotates. Outputs differ from draw to draw, so the work is compared by the
number of new tokens, which is fixed, and target passes are counted. Run it with nothing else running:

    python benchmarks/sampling_speed.py
"""

from __future__ import annotations

import argparse

import torch
from decoding_speed import interleaved, spread
from transformers import GenerationConfig

from specdec_lab import autoregressive_sample, load_pair, speculative_sample
from specdec_lab.measure.environment import versions

SETTINGS = (
    {"temperature": 1.0},
    {"temperature": 0.7},
    {"temperature": 1.0, "top_k": 50},
    {"temperature": 0.8, "top_p": 0.9},
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default="tiny")
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    new, gamma = options.new_tokens, options.gamma

    pair = load_pair(options.pair)
    prompts = pair.prompt_ids[: options.prompts]
    stamp = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(
        f"pair {pair.name}, gamma {gamma}, {len(prompts)} held-out prompts x {new} new tokens, {options.runs} runs"
    )
    print(f"{stamp}; {torch.get_num_threads()} threads\n")
    print(
        f"{'':<32}{'over transformers assisted':<28}{'over transformers generate':<28}{'over plain sampling':<28}"
        "new tokens a target pass: ours, theirs"
    )
    for setting in SETTINGS:
        sampled = GenerationConfig(
            max_new_tokens=new,
            do_sample=True,
            pad_token_id=0,
            eos_token_id=None,
            **{"top_k": 0, "top_p": 1.0, **setting},
        )
        # `generate` fills what is missing from the model's own configuration
        pair.target.generation_config = sampled
        pair.draft.generation_config = GenerationConfig(
            num_assistant_tokens=gamma,
            num_assistant_tokens_schedule="constant",
            assistant_confidence_threshold=0.0,
            pad_token_id=0,
            eos_token_id=None,
        )
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)

        def generate(prompt, config=sampled, **more):
            with torch.inference_mode():
                return pair.target.generate(torch.tensor([prompt]), generation_config=config, **more)

        def ours(prompt, setting=setting, generator=generator):
            return speculative_sample(
                pair.target, pair.draft, prompt, new, gamma, None, generator=generator, **setting
            )

        def plain(prompt, setting=setting, generator=generator):
            return autoregressive_sample(pair.target, prompt, new, None, generator=generator, **setting)

        contenders = {
            "ours": ours,
            "assisted": lambda prompt: generate(prompt, assistant_model=pair.draft),
            "generate": generate,
            "plain": plain,
        }
        passes = {name: count_passes(pair.target, contenders[name], prompts) for name in ("ours", "assisted")}
        seconds, _ = interleaved(contenders, prompts, warmup=1, runs=options.runs)
        label = ", ".join(f"{name} {value}" for name, value in setting.items())
        ratios = [spread(seconds[name], seconds["ours"]) for name in ("assisted", "generate", "plain")]
        tokens = new * len(prompts)
        print(
            f"{label:<32}"
            + "".join(f"{ratio:<28}" for ratio in ratios)
            + ", ".join(f"{tokens / passes[name]:.2f}" for name in passes)
        )


def count_passes(model, decode, prompts) -> int:
    """How often `model` runs while all prompts are decoded once."""
    count = 0
    forward = model.forward

    def counted(*args, **kwargs):
        nonlocal count
        count += 1
        return forward(*args, **kwargs)

    model.forward = counted
    for prompt in prompts:
        decode(prompt)
    del model.forward
    return count


if __name__ == "__main__":
    main()
