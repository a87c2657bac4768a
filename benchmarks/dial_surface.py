"""The speed-up surface over α and γ, measured with the dial, beside what the cost model says of it.

The dial drafts the target's own text and errs with chance 1 - α, while the real draft's passes are paid for; so α is
known, and everything else is real. Costs are measured first, in the same process. Run it with nothing else running:

    python benchmarks/dial_surface.py [--save FOLDER]
"""

from __future__ import annotations

import argparse
import datetime
import sys

from specdec_lab import load_pair, optimal_gamma
from specdec_lab.measure.reference import save_reference
from specdec_lab.measure.surface import measure_surface


def main() -> None:
    """Measure, compare, print, and save if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pair", default="tiny")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--alphas", type=float, nargs="*", default=[i / 10 for i in range(11)])
    parser.add_argument("--gammas", type=int, nargs="*", default=list(range(1, 17)))
    parser.add_argument("--cost-runs", type=int, default=15)
    parser.add_argument("--save", metavar="FOLDER", help="write the reference run here")
    options = parser.parse_args()

    pair = load_pair(options.pair)
    prompts = pair.prompt_ids[: options.prompts]

    def progress(done: int, total: int) -> None:
        print(f"\r{100 * done // total} %", end="", file=sys.stderr, flush=True)

    surface, profile = measure_surface(
        pair.target,
        pair.draft,
        prompts,
        options.new_tokens,
        alphas=options.alphas,
        gammas=options.gammas,
        runs=options.runs,
        cost_runs=options.cost_runs,
        progress=progress,
    )
    print(file=sys.stderr)
    c = profile.cost_ratio()
    drafted = surface[surface["gamma"] > 0]

    shown = [n for n in (2, 5, 9, 17) if n <= profile.largest_gamma + 1]
    print(", ".join([f"c = {c:.3f}", *[f"v({n}) = {profile.verify_cost(n):.2f}" for n in shown]]))
    print("measured speed-up, rows α, columns γ; in brackets the cost model's")
    print("   α " + "".join(f"{gamma:>13}" for gamma in options.gammas))
    for alpha in options.alphas:
        cells = drafted[drafted["dial"] == alpha]
        print(
            f"{alpha:>4.1f} "
            + "".join(f"{row.speedup:>6.2f} ({row.predicted:.2f})" for row in cells.itertuples())
        )
    for name in ("predicted", "textbook"):
        errors = (drafted[name] / drafted["speedup"] - 1).abs()
        print(f"{name}: median error {100 * errors.median():.1f} %, largest {100 * errors.max():.1f} %")
    best = {
        alpha: optimal_gamma(alpha, c, profile.verify_cost, profile.largest_gamma) for alpha in options.alphas
    }
    print("best γ by the formula, α → γ:", ", ".join(f"{alpha:g} → {gamma}" for alpha, gamma in best.items()))

    if options.save:
        card = {
            "name": "speed-up over α and γ, measured with the dial",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "command": " ".join(["python benchmarks/dial_surface.py", *sys.argv[1:]]),
            "pair": options.pair,
            "settings": {
                "prompts": options.prompts,
                "prompt_tokens": [len(prompt) for prompt in prompts],
                "new_tokens": options.new_tokens,
                "warmup_runs": 1,
                "runs": options.runs,
                "cost_runs": options.cost_runs,
            },
            "environment": dict(profile.environment),
            "licence": "MIT, as the code",
        }
        save_reference(surface, profile, card, options.save)
        print(f"saved to {options.save}")


if __name__ == "__main__":
    main()
