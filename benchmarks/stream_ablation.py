"""Speculative Streaming, one thing changed at a time: layers N_s, streams γ, pruning. One table.

Each folder holds streams trained with another number of layers, by the same recipe and for the same number of steps
(`python -m specdec_lab.training.streams --layers N --steps S`). Fewer streams are the first of those in the folder.
All settings take turns, prompt by prompt. Run it with nothing else running:

    python benchmarks/stream_ablation.py FOLDER [FOLDER ...] [--save FILE]
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
from pathlib import Path

import torch
from tree_speed import rounded, variants

from specdec_lab import load_pair, speculative_rounds
from specdec_lab.decoding.drafters import NoDrafter
from specdec_lab.decoding.streams import StreamDrafter
from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.decoding.tree_decode import tree_rounds
from specdec_lab.measure.environment import versions
from specdec_lab.measure.interleave import take_turns
from specdec_lab.measure.trees import RankAcceptance, best_shape
from specdec_lab.models.streams import load_streams


def main() -> None:
    """Measure, print, and save if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="streams, one folder for each N_s")
    parser.add_argument("--pair", default="tiny")
    parser.add_argument("--budget", type=int, default=8, help="nodes of a tree")
    parser.add_argument("--keep", type=int, nargs="*", default=[0, 1, 2, 4], help="pruning, for one setting")
    parser.add_argument("--prune-layers", type=int, default=4, help="N_s of the setting that is pruned")
    parser.add_argument("--prune-streams", type=int, default=3, help="its γ")
    parser.add_argument("--prompts", type=int, default=8, help="timed; as many others calibrate")
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--save", metavar="FILE", help="write everything as JSON here")
    options = parser.parse_args()

    pair = load_pair(options.pair)
    timed = pair.prompt_ids[: options.prompts]
    others = pair.prompt_ids[options.prompts : 2 * options.prompts] or timed
    settings = {"max_new_tokens": options.new_tokens, "eos_token_id": None}
    contenders = {"plain": lambda ids: speculative_rounds(pair.target, NoDrafter(), ids, gamma=1, **settings)}
    drafters, rows, cards = {}, {}, {}

    def add(streams, shape, layers, gamma, keep):
        name = f"N_s {layers}, gamma {gamma}, keep {keep}"
        drafter = drafters[name] = StreamDrafter(pair.target, streams, shape, keep=keep)
        contenders[name] = lambda ids: tree_rounds(pair.target, drafter, ids, tree=shape, **settings)
        rows[name] = {
            "layers": layers, "streams": gamma, "keep": keep, "budget": options.budget,
            "nodes": len(shape), "depth": shape.depth,
        }  # fmt: skip

    for folder in options.folders:
        streams = load_streams(folder)
        layers = streams.sizes["layers"]
        cards[layers] = json.loads((Path(folder) / "card.json").read_text(encoding="utf-8"))
        wide = TreeShape.by_branching(*(8, 3, 2, 1)[: len(streams)])
        drafter = StreamDrafter(pair.target, streams, wide)
        acceptance = RankAcceptance.of(
            item
            for ids in variants(others)[: 3 * len(others)]
            for item in tree_rounds(pair.target, drafter, ids, tree=wide, **settings)
        )
        for gamma in range(1, len(streams) + 1):
            shape = best_shape(acceptance, options.budget, min(gamma, acceptance.depth))
            add(streams, shape, layers, gamma, None)
            if (layers, gamma) == (options.prune_layers, options.prune_streams):
                for keep in options.keep:
                    add(streams, shape, layers, gamma, keep)

    stream_rows = dict.fromkeys(rows, 0)
    for name, drafter in drafters.items():  # counted apart from the clock: a count is the same in every run
        for ids in timed:
            list(contenders[name](ids))
            stream_rows[name] += drafter.stream_rows
    found = take_turns(
        contenders,
        timed,
        warmup_runs=1,
        num_runs=options.runs,
        devices=set(),
        progress=lambda done, total: print(f"\r{100 * done // total} %", end="", file=sys.stderr, flush=True),
    )
    print(file=sys.stderr)
    seconds = {name: [sum(t.seconds for t in run) for run in runs] for name, runs in found.items()}
    texts = {name: [t.trace.sequence for t in runs[0]] for name, runs in found.items()}
    same = all(text == texts["plain"] for text in texts.values())
    print(
        f"{len(timed)} prompts x {options.new_tokens} new tokens, {options.runs} runs, "
        f"{torch.get_num_threads()} threads; all outputs equal: {same}"
    )
    print(
        f"{'N_s':>4}{'streams':>9}{'keep':>6}{'nodes':>7}{'stream rows a round':>21}{'tokens per round':>18}  "
        "speed-up over plain decoding (range)"
    )
    for name, row in rows.items():
        traces = [timing.trace for timing in found[name][0]]
        rounds = sum(len(trace.rounds) for trace in traces)
        ratios = [a / b for a, b in zip(seconds["plain"], seconds[name], strict=True)]
        row |= {
            "tokens_per_round": sum(len(trace.new_tokens) for trace in traces) / rounds,
            "stream_rows_per_round": stream_rows[name] / rounds,
            "speedup": statistics.median(seconds["plain"]) / statistics.median(seconds[name]),
            "speedup_low": min(ratios),
            "speedup_high": max(ratios),
        }
        keep = "all" if row["keep"] is None else row["keep"]
        print(
            f"{row['layers']:>4}{row['streams']:>9}{keep:>6}{row['nodes']:>7}{row['stream_rows_per_round']:>21.1f}"
            f"{row['tokens_per_round']:>18.2f}  {row['speedup']:.2f}  "
            f"({row['speedup_low']:.2f} to {row['speedup_high']:.2f})"
        )

    if options.save:
        whole = {
            "card": {
                "name": "streams, one thing changed at a time",
                "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
                "command": " ".join(["python benchmarks/stream_ablation.py", *sys.argv[1:]]),
                "recipes": {str(layers): card["recipe"] for layers, card in cards.items()},
                "settings": {
                    "prompts": len(timed),
                    "new_tokens": options.new_tokens,
                    "runs": options.runs,
                },
                "environment": versions() | {"threads": torch.get_num_threads()},
                "licence": "MIT, as the code",
            },
            "accuracy": {str(layers): card["figures"]["held_out_accuracy"] for layers, card in cards.items()},
            "parameters": {str(layers): card["figures"]["parameters"] for layers, card in cards.items()},
            "rows": list(rows.values()),
        }
        Path(options.save).write_text(json.dumps(rounded(whole), indent=1) + "\n", encoding="utf-8")
        print(f"saved to {options.save}")


if __name__ == "__main__":
    main()
