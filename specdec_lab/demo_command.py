"""`python -m specdec_lab demo`: one prompt decoded plainly and speculatively, side by side.

It prints; decoding is `decoding/loop.py`, timing `measure/benchmark.py`, the marks `show/terminal.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from typing import Any

from specdec_lab import __version__
from specdec_lab.pair_options import add_pair_options, encode, load
from specdec_lab.show.front_picture import PROMPT
from specdec_lab.show.readable import readable


def add_demo(commands: Any) -> None:
    """Add the command to an argparse subparsers object."""
    demo = commands.add_parser("demo", help="decode a prompt both ways (the default)")
    add_pair_options(demo)
    demo.add_argument("--prompt", help="text to continue (default: one of the pair's own)")
    demo.add_argument("--gamma", type=int, default=4, help="most tokens drafted in one round (default: 4)")
    demo.add_argument("--max-new-tokens", type=int, default=96, help="tokens to add (default: 96)")
    demo.add_argument("--runs", type=int, default=5, help="timed runs of each decoder (default: 5)")
    demo.add_argument(
        "--temperature", type=float, default=0.0, help="sample at this temperature (default: 0, greedy)"
    )
    demo.add_argument("--top-k", type=int, help="sample from the so many likeliest tokens")
    demo.add_argument(
        "--top-p", type=float, help="sample from the fewest likeliest tokens of this total chance"
    )
    demo.add_argument("--seed", type=int, default=0, help="of the draws (default: 0)")
    demo.set_defaults(run=run_demo)


def run_demo(options: argparse.Namespace) -> int:
    """Decode one prompt both ways; returns 1 if the two texts differ where they must not."""
    _say("loading the pair …")
    from specdec_lab import Sampling, benchmark_decoding
    from specdec_lab.decoding.drafters import NoDrafter
    from specdec_lab.measure.exactness import first_divergence
    from specdec_lab.measure.loaded import describe_pair
    from specdec_lab.show.terminal import legend, style_for, token_strip

    sampling = Sampling(options.temperature, options.top_k, options.top_p)
    if sampling.greedy and (options.top_k is not None or options.top_p is not None):
        raise ValueError("--top-k and --top-p need a --temperature above 0: greedy decoding draws nothing")
    pair = load(options)
    if options.prompt is None and not pair.prompts:
        raise ValueError("--prompt TEXT is needed: this pair brings no prompts of its own")
    own = PROMPT if pair.card else 0
    ids = pair.prompt_ids[own] if options.prompt is None else encode(pair, options.prompt, options)
    if not ids:
        raise ValueError("--prompt must hold at least one character, got an empty text")

    _say("decoding …")
    trace = _decode(pair, pair.draft, ids, options, sampling)
    plain = _decode(pair, NoDrafter(), ids, options, sampling)
    result = None
    if sampling.greedy:
        result = benchmark_decoding(
            pair.target,
            pair.draft,
            [ids],
            options.max_new_tokens,
            options.gamma,
            pair.eos_token_id,
            num_runs=options.runs,
            progress=lambda done, total: _say(f"timing, {done} of {total} …"),
        )
    _say("")

    style = style_for(sys.stdout.encoding, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    print(f"specdec_lab {__version__}, pair {pair.name!r}")
    print(*describe_pair(pair), "", sep="\n")
    _block("Prompt", pair.decode(ids))
    way, passes = "decoding" if sampling.greedy else "sampling", len(plain.rounds)
    _block(f"Plain {way}: {passes} passes of the target", pair.decode(plain.new_tokens))
    _block(
        f"Speculative {way}, γ = {options.gamma}: {len(trace.rounds)} passes of the target",
        pair.decode(trace.new_tokens),
    )
    same = trace.sequence == plain.sequence
    found = None
    if sampling.greedy:
        if not same:
            found = first_divergence(
                pair.target, ids, trace.new_tokens, plain.new_tokens, gamma=options.gamma
            )
        print(f"The two texts {_comparison(found)}.\n")
    else:
        print(
            "Two draws from the same distribution: the texts may differ, their law does not (notebook 07).\n"
        )
    print("Every token by origin, one line a round:")
    print(f"  {legend(style)}\n")
    print(token_strip(trace, lambda tokens: pair.decode(tokens), style) + "\n")
    for line in _figures(trace, result):
        print(line)
    if result and not (same and result["outputs_match"]):
        excused = found is not None and found.near_tie
        for sentence in result["divergences"]:
            print(f"{'note' if excused else 'error'}: {sentence}", file=sys.stderr)
        return 0 if excused else 1
    return 0


def _comparison(found: Any) -> str:
    if found is None:
        return "are identical, token for token"
    if found.near_tie:
        return f"part at new token {found.index + 1}, a near tie that rounding decides (notebook 08)"
    return "are DIFFERENT"


def _decode(pair: Any, drafter: Any, ids: list[int], options: argparse.Namespace, sampling: Any) -> Any:
    import torch

    from specdec_lab import Trace, speculative_rounds
    from specdec_lab.decoding.chance import GeneratorChance

    rounds = speculative_rounds(
        pair.target,
        drafter,
        ids,
        max_new_tokens=options.max_new_tokens,
        gamma=options.gamma,
        eos_token_id=pair.eos_token_id,
        sampling=sampling,
        chance=GeneratorChance(torch.Generator().manual_seed(options.seed)),
    )
    return Trace.of(ids, rounds)


def _figures(trace: Any, result: dict[str, Any] | None) -> list[str]:
    lines = [
        f"rounds              {len(trace.rounds)}",
        f"acceptance rate     {trace.acceptance_rate:.3f}   accepted ÷ drafted = {trace.accepted} ÷ {trace.drafted}",
        f"alpha               {trace.alpha:.3f}   accepted ÷ judged = {trace.accepted} ÷ {trace.accepted + trace.rejected}",
        f"tokens per round    {trace.tokens_per_round:.2f}",
    ]
    if result is None:
        return [
            *lines,
            f"expected alpha      {trace.expected_alpha:.3f}   mean of Σ min(p, q) over the judged tokens",
        ]
    per_run = result["speedup_per_run"]
    return [
        *lines,
        f"speed-up            {result['speedup']:.2f}   over plain decoding; {len(per_run)} interleaved runs, "
        f"{min(per_run):.2f} to {max(per_run):.2f}",
        f"tokens per second   {result['tokens_per_second_speculative']:.0f} speculative, "
        f"{result['tokens_per_second_autoregressive']:.0f} plain, on {result['threads']} CPU threads",
    ]


def _block(title: str, text: str) -> None:
    print(title)
    lines = "\n".join(readable(line).replace("␣", " ") for line in text.rstrip("\n").split("\n"))
    print(textwrap.indent(lines, "  | ", lambda line: True) + "\n")


def _say(text: str) -> None:
    """Progress, on stderr, on one line that the next one replaces; silent where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
