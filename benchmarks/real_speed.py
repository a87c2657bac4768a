"""SmolLM2, a real chat model, with every drafter that needs no second model, beside transformers' own. One table.

Tasks differ in how much of the answer stands in the question, and that decides who pays. All contenders answer one
question before the next one's turn, in an order that rotates; figures are seconds per new token over a task's
questions, medians over runs: in half precision a near tie may end an answer earlier or later. Run it with nothing else
running:

    python benchmarks/real_speed.py [--dtype float32] [--save FOLDER]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from itertools import pairwise
from pathlib import Path

import torch
from decoding_speed import interleaved
from transformers import GenerationConfig
from transformers.utils import logging

from specdec_lab import PromptLookupDrafter, Trace, load_pair, speculative_rounds
from specdec_lab.decoding.drafters import NoDrafter
from specdec_lab.decoding.eagle import EagleDrafter, EagleTreeDrafter
from specdec_lab.decoding.early_exit import EarlyExitDrafter
from specdec_lab.decoding.fallback import FallbackDrafter
from specdec_lab.decoding.tree_decode import tree_rounds
from specdec_lab.measure.passes import time_passes
from specdec_lab.measure.runs import run_card, save_run
from specdec_lab.models.eagle import load_eagle
from specdec_lab.models.smollm2 import MESSAGES

PLAIN, THEIRS = "plain", "transformers generate"


def main() -> None:
    """Measure, print, and save if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), help="the pair's own choice unless given")
    parser.add_argument("--tasks", nargs="+", choices=list(MESSAGES), default=list(MESSAGES))
    parser.add_argument("--questions", type=int, default=8, help="of each task, the first so many")
    parser.add_argument("--new-tokens", type=int, default=128, help="at most; an answer may end before")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--lookup-gammas", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--eagle", default="smollm2", help="the draft: bundled, or a folder")
    parser.add_argument("--eagle-gammas", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--trees", nargs="+", default=["6x2"], help="nodes x levels, grown by confidence")
    parser.add_argument(
        "--fallbacks",
        nargs="+",
        default=["3x8x6x2"],
        help="shortest n-gram x γ of prompt lookup x γ of EAGLE where it finds nothing, or x nodes x levels of its tree",
    )
    parser.add_argument("--exits", nargs="+", default=["10x2"], help="layers x γ")
    parser.add_argument(
        "--save", metavar="FOLDER", help="write the run here, and bring the folder's index up to date"
    )
    options = parser.parse_args()

    logging.set_verbosity_error()  # its own decoders make it warn of its own arguments
    pair = load_pair("smollm2", dtype=options.dtype)
    prompts = {
        task: [pair.chat(message) for message in MESSAGES[task][: options.questions]]
        for task in options.tasks
    }
    contenders = ours(pair, options) | theirs(pair, options)
    seconds, outputs = {}, {}
    for task, its in prompts.items():
        print(f"{task}: {len(its)} questions", file=sys.stderr)
        seconds[task], outputs[task] = interleaved(contenders, its, warmup=1, runs=options.runs)

    times = time_passes(pair.target, [1, 2, 3, 5, 9, 13, 17], runs=9, budget=60.0)
    print(
        f"\n{pair.name}, {str(pair.target.dtype).removeprefix('torch.')}, at most {options.new_tokens} new tokens, "
        f"{options.runs} runs, {torch.get_num_threads()} threads"
    )
    print("v(n): " + ", ".join(f"v({n}) = {times.verify_cost(n):.2f}" for n in sorted(times)))
    rows = [row for task in prompts for row in rows_of(task, contenders, seconds[task], outputs[task])]
    print(
        f"\n{'task':<10} {'contender':<44} {'equal':>7} {'tokens/round':>13}  speed-up (range)    over its counterpart"
    )
    for row in rows:
        tau = "" if row["tokens_per_round"] is None else f"{row['tokens_per_round']:.2f}"
        beside = "" if row["over_transformers"] is None else f"{row['over_transformers']:.2f}"
        print(
            f"{row['task']:<10} {row['contender']:<44} {row['equal']:>3}/{row['questions']:<3} {tau:>13}  "
            f"{row['speedup']:.2f} ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})  {beside}"
        )
    if options.save:
        card = run_card(
            pair,
            f"{str(pair.target.dtype).removeprefix('torch.')}, {len(prompts)} tasks",
            command=command_line(sys.argv),
            new_tokens=options.new_tokens,
            runs=options.runs,
            verify_cost={str(n): round(times.verify_cost(n), 3) for n in sorted(times)},
        )
        print(f"saved to {save_run(rows, card, options.save)}")


def command_line(words: list[str]) -> str:
    """What makes the run again, without paths of this machine."""
    script, *arguments = words
    told = [
        "FOLDER" if before in ("--save", "--eagle") and ("/" in word or "\\" in word) else word
        for before, word in pairwise([script, *arguments])
    ]
    return " ".join([f"python benchmarks/{Path(script).name}", *told])


def ours(pair, options) -> dict:
    """Name → (prompt → trace)."""
    settings = {"max_new_tokens": options.new_tokens, "eos_token_id": pair.eos_token_id}

    def chain(drafter, gamma):
        return lambda prompt: Trace.of(
            prompt, speculative_rounds(pair.target, drafter, prompt, gamma=gamma, **settings)
        )

    def tree(drafter):
        return lambda prompt: Trace.of(
            prompt, tree_rounds(pair.target, drafter, prompt, tree=None, **settings)
        )

    found = {PLAIN: chain(NoDrafter(), 1)}
    for gamma in options.lookup_gammas:
        found[f"prompt lookup, γ {gamma}"] = chain(PromptLookupDrafter(), gamma)
    for word in options.exits:
        layers, gamma = map(int, word.split("x"))
        found[f"early exit {layers}, γ {gamma}"] = chain(
            EarlyExitDrafter(pair.target, layers, eos_token_id=pair.eos_token_id), gamma
        )
    draft = load_eagle(options.eagle)
    for gamma in options.eagle_gammas:
        found[f"EAGLE, γ {gamma}"] = chain(
            EagleDrafter(pair.target, draft, eos_token_id=pair.eos_token_id), gamma
        )
    for word in options.fallbacks:
        shortest, gamma, size, *levels = map(int, word.split("x"))
        if levels:
            other = EagleTreeDrafter(pair.target, draft, size, *levels)
            told = tree_name(size, *levels)
        else:
            other, told = EagleDrafter(pair.target, draft, eos_token_id=pair.eos_token_id), f"EAGLE, γ {size}"
        both = FallbackDrafter(
            PromptLookupDrafter(shortest=shortest), other, second_limit=levels[0] if levels else size
        )
        found[f"lookup {shortest}, γ {gamma}, else {told}"] = chain(both, gamma)
    for word in options.trees:
        nodes, levels = map(int, word.split("x"))
        found[tree_name(nodes, levels)] = tree(EagleTreeDrafter(pair.target, draft, nodes, levels))
    return found


def tree_name(nodes: int, levels: int) -> str:
    return f"EAGLE tree {nodes}x{levels}"


def theirs(pair, options) -> dict:
    """Name → (prompt → sequence), through transformers' `generate`."""

    def generate(**more):
        config = GenerationConfig(
            max_new_tokens=options.new_tokens,
            do_sample=False,
            pad_token_id=pair.tokenizer.pad_token_id,
            eos_token_id=pair.eos_token_id,
            num_assistant_tokens_schedule="constant",
            assistant_confidence_threshold=0.0,
            **more,
        )

        def decode(prompt):
            ids = torch.tensor([prompt])
            with torch.inference_mode():
                return pair.target.generate(
                    ids, attention_mask=torch.ones_like(ids), generation_config=config
                )[0].tolist()

        return decode

    found = {THEIRS: generate()}
    for gamma in options.lookup_gammas:
        found[f"transformers prompt lookup, γ {gamma}"] = generate(
            prompt_lookup_num_tokens=gamma, max_matching_ngram_size=3
        )
    for word in options.exits:
        layers, gamma = map(int, word.split("x"))
        found[f"transformers early exit {layers}, γ {gamma}"] = generate(
            assistant_early_exit=layers, num_assistant_tokens=gamma
        )
    return found


def rows_of(task: str, contenders: dict, seconds: dict, outputs: dict) -> list[dict]:
    """One for each contender: speed-up over our plain decoding, equal texts, and how ours compares with theirs."""
    rows, plain = [], [trace.sequence for trace in outputs[PLAIN]]
    asked = sum(len(trace.prompt) for trace in outputs[PLAIN])
    texts = {
        name: [output.sequence if isinstance(output, Trace) else output for output in its]
        for name, its in outputs.items()
    }
    tokens = {name: sum(map(len, its)) - asked for name, its in texts.items()}
    per_token = {name: [run / tokens[name] for run in its] for name, its in seconds.items()}
    for name in contenders:
        row = {
            "task": task,
            "contender": name,
            "questions": len(plain),
            "equal": sum(text == truth for text, truth in zip(texts[name], plain, strict=True)),
            "new_tokens": tokens[name],
            "tokens_per_round": None,
            "acceptance_rate": None,
            **spread(per_token[PLAIN], per_token[name]),
            "over_transformers": None,
        }
        if isinstance(outputs[name][0], Trace):
            drafted = sum(trace.drafted for trace in outputs[name])
            row["tokens_per_round"] = tokens[name] / sum(len(trace.rounds) for trace in outputs[name])
            if drafted:
                row["acceptance_rate"] = sum(trace.accepted for trace in outputs[name]) / drafted
            counterpart = THEIRS if name == PLAIN else f"transformers {name}"
            if counterpart in per_token:
                row["over_transformers"] = spread(per_token[counterpart], per_token[name])["speedup"]
        rows.append(row)
    return rows


def spread(slow: list[float], fast: list[float]) -> dict:
    """Ratio of medians, and the smallest and largest ratio run by run."""
    ratios = [a / b for a, b in zip(slow, fast, strict=True)]
    return {
        "speedup": statistics.median(slow) / statistics.median(fast),
        "speedup_low": min(ratios),
        "speedup_high": max(ratios),
    }


if __name__ == "__main__":
    main()
