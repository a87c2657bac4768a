"""Plain decoding, chains, prompt lookup, draft trees, Medusa and streaming at equal verify budgets. One table.

The budget is what the target's pass carries beyond the pending token: drafted tokens of a chain, nodes of a tree. Streaming has rows of streams beside them, in the top layers; they are counted in a column.
Shapes are the best ones for the acceptance measured on other prompts. All methods take turns, prompt by prompt. Run it
with nothing else running:

    python benchmarks/tree_speed.py [--save FILE]
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
from pathlib import Path

import torch

from specdec_lab import PromptLookupDrafter, load_pair, speculative_rounds
from specdec_lab.decoding.drafters import NoDrafter
from specdec_lab.decoding.medusa import MedusaDrafter
from specdec_lab.decoding.streams import StreamDrafter
from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.decoding.tree_decode import tree_rounds
from specdec_lab.decoding.tree_drafters import ConfidenceTreeDrafter, ModelTreeDrafter
from specdec_lab.measure.environment import versions
from specdec_lab.measure.interleave import take_turns
from specdec_lab.measure.passes import time_passes
from specdec_lab.measure.trees import RankAcceptance, best_shape, expected_tokens, load_tree_reference
from specdec_lab.models.medusa import load_medusa
from specdec_lab.models.streams import load_streams

WIDE = {"draft tree": (6, 4, 3, 2), "Medusa": (8, 3, 2, 1), "streaming": (8, 3, 2, 1)}


def main() -> None:
    """Measure, print, and save if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pair", default="tiny")
    parser.add_argument("--heads", default="tiny", help="Medusa heads: bundled, or a folder")
    parser.add_argument("--streams", default="tiny", help="streams: bundled, or a folder")
    parser.add_argument("--budgets", type=int, nargs="*", default=[4, 8, 16, 32])
    parser.add_argument("--depth", type=int, default=4, help="most levels, which is draft passes")
    parser.add_argument("--prompts", type=int, default=8, help="timed; as many others calibrate")
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--passes", type=int, default=2000, help="target passes behind each predicted τ")
    parser.add_argument(
        "--methods", nargs="+", choices=list(WIDE), default=list(WIDE), help="methods to count and time"
    )
    parser.add_argument(
        "--counts-from",
        nargs="+",
        metavar="FILE",
        default=[],
        help="take acceptance and predictions from what earlier runs saved: they are counts, which a busy machine "
        "does not spoil",
    )
    parser.add_argument("--save", metavar="FILE", help="write everything as JSON here")
    options = parser.parse_args()
    new, depth = options.new_tokens, options.depth

    pair = load_pair(options.pair)
    timed = pair.prompt_ids[: options.prompts]
    others = pair.prompt_ids[options.prompts : 2 * options.prompts] or timed

    def rounds(drafter, shape, prompts, tokens):
        for prompt in prompts:
            yield from tree_rounds(
                pair.target, drafter, prompt, max_new_tokens=tokens, tree=shape, eos_token_id=None
            )

    drafters, sizes = {}, {}
    if "draft tree" in options.methods:
        drafters["draft tree"] = ModelTreeDrafter(pair.draft, (1,), vocabulary=pair.target.config.vocab_size)
    if "Medusa" in options.methods:
        heads = load_medusa(options.heads)
        drafters["Medusa"], sizes["Medusa"] = MedusaDrafter(heads, (1,)), size(heads)
    if "streaming" in options.methods:
        streams = load_streams(options.streams)
        drafters["streaming"] = StreamDrafter(pair.target, streams, (1,))
        sizes["streaming"] = size(streams)
    sizes["draft tree"] = size(pair.draft)
    acceptance, prediction, counted = {}, [], []
    for file in options.counts_from:
        before = load_tree_reference(file)
        counted += before["card"]["counted_by"]
        prediction += before["prediction"]
        for method, chances in before["acceptance"].items():
            acceptance[method] = RankAcceptance(tuple(map(tuple, chances)), ())
    left = {name: drafter for name, drafter in drafters.items() if name not in acceptance}
    if left:
        more, its = count(left, rounds, timed, others, options)
        acceptance, prediction = acceptance | more, prediction + its
        counted.append(" ".join(["python benchmarks/tree_speed.py", *sys.argv[1:]]))

    most = max(options.budgets) + 1
    times = time_passes(
        pair.target, sorted({1, 2, 3, 5, 9, 17, 33, most}), runs=max(7, options.runs), budget=30.0
    )
    settings = {"max_new_tokens": new, "eos_token_id": None}
    contenders, facts = {}, {}

    def add(method, budget, decode, nodes, levels, extra):
        contenders[f"{method} {budget}"] = decode
        facts[f"{method} {budget}"] = {
            "method": method, "budget": budget, "nodes": nodes, "depth": levels, "extra_parameters": extra,
            "stream_rows": (1 + nodes) * levels if method == "streaming" else 0,
        }  # fmt: skip

    def chain(drafter, gamma):
        return lambda prompt: speculative_rounds(pair.target, drafter, prompt, gamma=gamma, **settings)

    def tree(drafter, shape):
        return lambda prompt: tree_rounds(pair.target, drafter, prompt, tree=shape, **settings)

    add("plain", 0, chain(NoDrafter(), 1), 0, 0, 0)
    for budget in options.budgets:
        if budget <= 16:
            add("chain", budget, chain(pair.draft, budget), budget, budget, sizes["draft tree"])
            add("prompt lookup", budget, chain(PromptLookupDrafter(), budget), budget, budget, 0)
        confident = ConfidenceTreeDrafter(pair.draft, budget, depth, vocabulary=pair.target.config.vocab_size)
        add("confidence tree", budget, tree(confident, None), budget, depth, sizes["draft tree"])
        for method, drafter in drafters.items():
            shape = best_shape(acceptance[method], budget)
            add(method, budget, tree(drafter, shape), len(shape), shape.depth, sizes[method])
    found, same = figures(contenders, timed, options.runs, "plain 0")
    print(
        f"\n{len(timed)} prompts x {new} new tokens, {options.runs} runs, {torch.get_num_threads()} threads; all outputs equal: {same}"
    )
    print("v(n): " + ", ".join(f"v({n}) = {times.verify_cost(n):.2f}" for n in sorted(times)))
    print(
        f"{'method':<16}{'budget':>7}{'nodes':>7}{'stream rows':>13}{'tokens per round':>18}  speed-up over plain decoding (range)"
    )
    rows = []
    for name, its in facts.items():
        its |= found[name]
        rows.append(its)
        print(
            f"{its['method']:<16}{its['budget']:>7}{its['nodes']:>7}{its['stream_rows']:>13}"
            f"{its['tokens_per_round']:>18.2f}  {its['speedup']:.2f}  "
            f"({its['speedup_low']:.2f} to {its['speedup_high']:.2f})"
        )

    if options.save:
        card = card_of_run("methods at equal verify budget", options, prompts=len(timed), depth=depth) | {
            "counted_by": counted
        }
        whole = {
            "card": card,
            "verify_cost": {str(n): times.verify_cost(n) for n in sorted(times)},
            "acceptance": {
                method: [list(level) for level in its.chances] for method, its in acceptance.items()
            },
            "prediction": prediction,
            "rows": rows,
        }
        Path(options.save).write_text(json.dumps(rounded(whole), indent=1) + "\n", encoding="utf-8")
        print(f"saved to {options.save}")


def count(drafters, rounds, timed, others, options):
    """Acceptance on `others`, and tokens per round that it predicts for `timed`, beside those counted there."""
    acceptance = {}
    for method, drafter in drafters.items():
        shape = TreeShape.by_branching(*WIDE[method][: options.depth])
        acceptance[method] = RankAcceptance.of(rounds(drafter, shape, variants(others), options.new_tokens))
        print(f"acceptance by depth and rank, {method}, on other prompts")
        for level, chances in enumerate(acceptance[method].chances, 1):
            print(f"  depth {level}: " + " ".join(f"{chance:.3f}" for chance in chances))

    print("\npredicted and measured tokens per round, on prompts that the shapes were not made for")
    prediction = []
    for method, drafter in drafters.items():
        for budget in options.budgets:
            levels = acceptance[method].depth
            hand = [TreeShape.by_branching(*b) for b in hand_made(budget, levels)]
            for name, shape in [
                ("best", best_shape(acceptance[method], budget)),
                *((",".join(map(str, branching(h))), h) for h in hand),
            ]:
                emitted = passes = 0
                for item in rounds(drafter, shape, variants(timed), options.new_tokens):
                    emitted, passes = emitted + len(item.emitted), passes + 1
                    if passes >= options.passes:
                        break
                row = {
                    "method": method, "budget": budget, "shape": name, "nodes": len(shape), "passes": passes,
                    "predicted": expected_tokens(shape, acceptance[method]), "measured": emitted / passes,
                }  # fmt: skip
                prediction.append(row)
                print(
                    f"  {method:<11} budget {budget:>2}, {name:<10} {row['nodes']:>3} nodes: {row['predicted']:.3f} "
                    f"predicted, {row['measured']:.3f} in {passes} passes ({100 * (row['predicted'] / row['measured'] - 1):+.1f} %)"
                )
    return acceptance, prediction


def figures(contenders, prompts, runs, plain):
    """All contenders timed by turns: name → tokens per round and speed-up over `plain`; and whether all texts are
    equal."""
    found = take_turns(
        contenders,
        prompts,
        warmup_runs=1,
        num_runs=runs,
        devices=set(),
        progress=lambda done, total: print(f"\r{100 * done // total} %", end="", file=sys.stderr, flush=True),
    )
    print(file=sys.stderr)
    seconds = {name: [sum(t.seconds for t in run) for run in its] for name, its in found.items()}
    texts = {name: [t.trace.sequence for t in its[0]] for name, its in found.items()}
    result = {}
    for name, its in found.items():
        traces = [timing.trace for timing in its[0]]
        ratios = [a / b for a, b in zip(seconds[plain], seconds[name], strict=True)]
        result[name] = {
            "tokens_per_round": sum(len(t.new_tokens) for t in traces) / sum(len(t.rounds) for t in traces),
            "speedup": statistics.median(seconds[plain]) / statistics.median(seconds[name]),
            "speedup_low": min(ratios),
            "speedup_high": max(ratios),
        }
    return result, all(text == texts[plain] for text in texts.values())


def card_of_run(name, options, **settings):
    """What a stored run says of itself: date, command, settings, machine."""
    script, *arguments = sys.argv
    return {
        "name": name,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": " ".join([f"python benchmarks/{Path(script).name}", *arguments]),
        "settings": {"new_tokens": options.new_tokens, "runs": options.runs} | settings,
        "environment": versions() | {"threads": torch.get_num_threads()},
        "licence": "MIT, as the code",
    }


def size(model: torch.nn.Module) -> int:
    """Its parameters."""
    return sum(weight.numel() for weight in model.parameters())


def variants(prompts: list[list[int]]) -> list[list[int]]:
    """Each prompt, and its shorter beginnings: other texts follow them."""
    cuts = [prompt[:-cut] if cut else prompt for cut in (0, 4, 9, 15, 22, 30) for prompt in prompts]
    return [prompt for prompt in cuts if prompt]


def hand_made(budget: int, depth: int) -> list[tuple[int, ...]]:
    """Branching factors that one might try by hand: the widest first levels that fit the budget."""
    shapes = []
    for first in range(1, budget + 1):
        for second in (1, 2):
            factors = (first, second, *([1] * (depth - 2)))[:depth]
            if sum(TreeShape.by_branching(*factors).depths.count(d) for d in range(1, depth + 1)) <= budget:
                shapes.append(factors)
    return shapes[-3:] or [(1,) * min(budget, depth)]


def branching(shape: TreeShape) -> list[int]:
    """Children of the first node of each level."""
    factors, node = [], -1
    while shape.children[node]:
        factors.append(len(shape.children[node]))
        node = shape.children[node][0]
    return factors


def rounded(value):
    """Floats to six digits, so that the file stays readable."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
