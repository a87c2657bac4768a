"""How right a prediction is that was made before the run: three pairs, four γ, two kinds of error stated apart.

The *cost model's* error takes α from the predicted run itself, so only the costs can be wrong. The *prediction's* error
takes α from other prompts, which is what anybody has who asks before running. Beside both, the textbook's (v = 1, α
from the run). Costs are measured first, in the same process. Run it with nothing else running:

    python benchmarks/prediction.py
"""

from __future__ import annotations

import argparse
import statistics

from specdec_lab import Trace, load_pair, speculative_rounds, speedup
from specdec_lab.measure.predict import explain, predict
from specdec_lab.measure.profile import measure_costs
from specdec_lab.measure.sweep import summarise, sweep
from specdec_lab.measure.theory import estimate_alpha


def alpha_on(pair, draft, prompts: list[list[int]], new_tokens: int) -> float:
    """α at γ = 1, where every draft is judged, over these prompts."""
    traces = [
        Trace.of(
            prompt,
            speculative_rounds(
                pair.target, draft, prompt, max_new_tokens=new_tokens, gamma=1, eos_token_id=None
            ),
        )
        for prompt in prompts
    ]
    return estimate_alpha(sum(t.accepted for t in traces), sum(t.rejected for t in traces))


def main() -> None:
    """Measure, predict, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=3, help="to predict for; as many others give α")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gammas", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--cost-runs", type=int, default=15)
    options = parser.parse_args()
    new, most = options.new_tokens, max(options.gammas)

    good, weak = load_pair("tiny"), load_pair("tiny-weak")
    asked = good.prompt_ids[: options.prompts]
    others = good.prompt_ids[options.prompts : 2 * options.prompts]
    lengths = [len(prompt) for prompt in asked]
    mean = sum(lengths) / len(lengths)
    drafts = {"the bundled draft": good.draft, "the weak draft": weak.draft, "the target itself": good.target}
    errors: dict[str, list[float]] = {"cost model": [], "prediction": [], "textbook": []}
    print("draft              γ     α  α elsewhere  measured (range)     cost model  prediction  textbook")
    for name, draft in drafts.items():
        profile = measure_costs(
            good.target,
            draft,
            largest_gamma=most,
            contexts=(min(lengths), max(lengths) + new),
            runs=options.cost_runs,
        )
        table = summarise(sweep(good.target, draft, asked, new, options.gammas, None, num_runs=options.runs))
        elsewhere = alpha_on(good, draft, others, new)
        c = profile.cost_ratio(mean + new / 2)
        for row in table[table["gamma"] > 0].itertuples():
            said = {
                "cost model": predict(
                    profile, row.alpha, row.gamma, new_tokens=new, prompt_tokens=round(mean)
                ).speedup,
                "prediction": predict(
                    profile, elsewhere, row.gamma, new_tokens=new, prompt_tokens=round(mean)
                ).speedup,
                "textbook": speedup(row.alpha, row.gamma, c),
            }
            for kind, value in said.items():
                errors[kind].append(abs(value / row.speedup - 1))
            print(
                f"{name:<17} {row.gamma:>2}  {row.alpha:.2f}         {elsewhere:.2f}  {row.speedup:.2f} "
                f"({row.speedup_low:.2f} to {row.speedup_high:.2f})  "
                + "  ".join(f"{value:>10.2f}" for value in said.values())
            )
        print(f"  {explain(profile, elsewhere, new_tokens=new, prompt_tokens=round(mean))}")
    for kind, values in errors.items():
        print(
            f"{kind}: median error {100 * statistics.median(values):.1f} %, largest {100 * max(values):.1f} %"
        )


if __name__ == "__main__":
    main()
