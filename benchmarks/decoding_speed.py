"""How fast the two decoders are beside transformers' own, and how much of the time is ours. One table.

Every contender decodes the same held-out prompts; contenders take turns prompt by prompt, in an order that
rotates, and each figure is the median over runs of total time. Run it with nothing else running:

    python benchmarks/decoding_speed.py
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from transformers import GenerationConfig

from specdec_lab import Trace, autoregressive_decode, load_pair, speculative_decode, speculative_rounds
from specdec_lab.measure.environment import versions


def interleaved(contenders: dict, prompts: list[list[int]], warmup: int, runs: int):
    """Seconds per run of each contender over all prompts, (name → list), and what each produced."""
    seconds = {name: [] for name in contenders}
    outputs = {name: [] for name in contenders}
    names = list(contenders)
    for run in range(warmup + runs):
        totals = dict.fromkeys(names, 0.0)
        for number, prompt in enumerate(prompts):
            shift = (run + number) % len(names)
            for name in names[shift:] + names[:shift]:
                started = time.perf_counter()
                output = contenders[name](prompt)
                totals[name] += time.perf_counter() - started
                if run == 0:
                    outputs[name].append(output)
        if run >= warmup:
            for name in names:
                seconds[name].append(totals[name])
    return seconds, outputs


def spread(above: list[float], below: list[float]) -> str:
    """Ratio of medians, and the smallest and largest ratio run by run."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    middle = statistics.median(above) / statistics.median(below)
    return f"{middle:.3f}  ({min(ratios):.3f} to {max(ratios):.3f})"


def time_inside_forwards(pair, prompts: list[list[int]], new_tokens: int, gamma: int, runs: int):
    """Medians over runs of a speculative decode: wall ÷ seconds inside both models' forwards, and the rest of
    the wall time in seconds per round."""
    inside = 0.0

    def timed(forward):
        def wrapper(*args, **kwargs):
            nonlocal inside
            started = time.perf_counter()
            try:
                return forward(*args, **kwargs)
            finally:
                inside += time.perf_counter() - started

        return wrapper

    models = (pair.target, pair.draft)
    for model in models:
        model.forward = timed(model.forward)
    walls, insides, rounds = [], [], 0
    for _ in range(runs + 1):
        inside, rounds, started = 0.0, 0, time.perf_counter()
        for prompt in prompts:
            trace = Trace.of(
                prompt,
                speculative_rounds(
                    pair.target, pair.draft, prompt, max_new_tokens=new_tokens, gamma=gamma, eos_token_id=None
                ),
            )
            rounds += len(trace.rounds)
        walls.append(time.perf_counter() - started)
        insides.append(inside)
    for model in models:
        del model.forward
    ratios = [wall / within for wall, within in zip(walls[1:], insides[1:], strict=True)]
    ours = [(wall - within) / rounds for wall, within in zip(walls[1:], insides[1:], strict=True)]
    return statistics.median(ratios), statistics.median(ours)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default="tiny")
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--gammas", type=int, nargs="*", default=list(range(1, 17)), help="for the last table"
    )
    options = parser.parse_args()
    new, gamma = options.new_tokens, options.gamma

    pair = load_pair(options.pair)
    prompts = pair.prompt_ids[: options.prompts]
    plain = GenerationConfig(max_new_tokens=new, do_sample=False, pad_token_id=0, eos_token_id=None)
    pair.target.generation_config = (
        plain  # `generate` fills a missing end token from here, and would stop early
    )
    pair.draft.generation_config = GenerationConfig(
        num_assistant_tokens=gamma,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
    )

    def generate(prompt, **more):
        with torch.inference_mode():
            return pair.target.generate(torch.tensor([prompt]), generation_config=plain, **more)[0].tolist()

    contenders = {
        "speculative_decode": lambda p: speculative_decode(pair.target, pair.draft, p, new, gamma, None)[0],
        "transformers assisted": lambda p: generate(p, assistant_model=pair.draft),
        "autoregressive_decode": lambda p: autoregressive_decode(pair.target, p, new, None),
        "transformers generate": lambda p: generate(p),
    }
    seconds, outputs = interleaved(contenders, prompts, warmup=2, runs=options.runs)
    same = all(outputs[name] == outputs["autoregressive_decode"] for name in outputs)
    ratio, ours = time_inside_forwards(pair, prompts, new, gamma, options.runs)

    stamp = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(
        f"pair {pair.name}, gamma {gamma}, {len(prompts)} held-out prompts x {new} new tokens, {options.runs} runs"
    )
    print(f"{stamp}; {torch.get_num_threads()} threads; all outputs equal: {same}\n")
    rows = {
        "speculative_decode over transformers assisted": spread(
            seconds["transformers assisted"], seconds["speculative_decode"]
        ),
        "autoregressive_decode over transformers generate": spread(
            seconds["transformers generate"], seconds["autoregressive_decode"]
        ),
        "speculative_decode over autoregressive_decode": spread(
            seconds["autoregressive_decode"], seconds["speculative_decode"]
        ),
        "wall time over time inside model forwards": f"{ratio:.3f}",
        "microseconds of our own per round": f"{ours * 1e6:.0f}",
    }
    for name, value in rows.items():
        print(f"{name:<50} {value}")

    print("\ngamma  speed-up over plain decoding (range)      tokens per round  acceptance rate  alpha")
    sweep = {
        g: lambda p, g=g: Trace.of(
            p,
            speculative_rounds(pair.target, pair.draft, p, max_new_tokens=new, gamma=g, eos_token_id=None),
        )
        for g in options.gammas
    }
    sweep["plain"] = contenders["autoregressive_decode"]
    seconds, outputs = interleaved(sweep, prompts, warmup=1, runs=options.runs)
    for g in options.gammas:
        traces = outputs[g]
        drafted, accepted = sum(t.drafted for t in traces), sum(t.accepted for t in traces)
        alpha = accepted / (accepted + sum(t.rejected for t in traces))
        tau = sum(len(t.new_tokens) for t in traces) / sum(len(t.rounds) for t in traces)
        print(
            f"{g:>5}  {spread(seconds['plain'], seconds[g]):<42} {tau:>16.2f} {accepted / drafted:>16.3f} {alpha:>6.3f}"
        )


if __name__ == "__main__":
    main()
