"""Speculative Streaming, one thing changed at a time: layers N_s, streams γ, pruning. One table.

Each folder holds streams trained with another number of layers, by the same recipe and for the same number of steps
(`python -m specdec_lab.training.streams --layers N --steps S`). Fewer streams are the first of those in the folder.
All settings take turns, prompt by prompt. Run it with nothing else running:

    python benchmarks/stream_ablation.py FOLDER [FOLDER ...] [--save FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tree_speed import card_of_run, figures, rounded, variants

from specdec_lab import load_pair, speculative_rounds
from specdec_lab.decoding.drafters import NoDrafter
from specdec_lab.decoding.streams import StreamDrafter
from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.decoding.tree_decode import tree_rounds
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

    for name, drafter in drafters.items():  # counted apart from the clock: a count is the same in every run
        stream_rows = rounds = 0
        for ids in timed:
            rounds += len(list(contenders[name](ids)))
            stream_rows += drafter.stream_rows
        rows[name]["stream_rows_per_round"] = stream_rows / rounds
    found, same = figures(contenders, timed, options.runs, "plain")
    print(
        f"{len(timed)} prompts x {options.new_tokens} new tokens, {options.runs} runs, "
        f"{torch.get_num_threads()} threads; all outputs equal: {same}"
    )
    print(
        f"{'N_s':>4}{'streams':>9}{'keep':>6}{'nodes':>7}{'stream rows a round':>21}{'tokens per round':>18}  "
        "speed-up over plain decoding (range)"
    )
    for name, row in rows.items():
        row |= found[name]
        keep = "all" if row["keep"] is None else row["keep"]
        print(
            f"{row['layers']:>4}{row['streams']:>9}{keep:>6}{row['nodes']:>7}{row['stream_rows_per_round']:>21.1f}"
            f"{row['tokens_per_round']:>18.2f}  {row['speedup']:.2f}  "
            f"({row['speedup_low']:.2f} to {row['speedup_high']:.2f})"
        )

    if options.save:
        whole = {
            "card": card_of_run("streams, one thing changed at a time", options, prompts=len(timed))
            | {"recipes": {str(layers): card["recipe"] for layers, card in cards.items()}},
            "accuracy": {str(layers): card["figures"]["held_out_accuracy"] for layers, card in cards.items()},
            "parameters": {str(layers): card["figures"]["parameters"] for layers, card in cards.items()},
            "rows": list(rows.values()),
        }
        Path(options.save).write_text(json.dumps(rounded(whole), indent=1) + "\n", encoding="utf-8")
        print(f"saved to {options.save}")


if __name__ == "__main__":
    main()
