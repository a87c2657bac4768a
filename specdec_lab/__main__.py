"""The command line: `python -m specdec_lab [demo|bench|doctor]`.

    demo     decode a prompt plainly and speculatively, side by side (the default)
    bench    measure the speed-up of any pair at several γ; a table, a file, a picture
    doctor   say in words what is wrong with this environment and what to do

Exit codes: 0 all well, 1 a fault was found, 2 bad arguments, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from specdec_lab import __version__
from specdec_lab.bench import add_bench

COMMANDS = ("demo", "bench", "doctor")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or (arguments[0] not in COMMANDS and arguments[0] not in ("-h", "--help", "--version")):
        arguments.insert(0, "demo")
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that cannot print γ shows "?" instead of failing
    try:
        return options.run(options)
    except (ValueError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"error: {error}\nRun `python -m specdec_lab doctor` to see what is missing.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m specdec_lab",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"specdec_lab {__version__}")
    commands = parser.add_subparsers(required=True)

    demo = commands.add_parser("demo", help="decode a prompt both ways (the default)")
    demo.add_argument("--pair", default="tiny", help='bundled pair: "tiny" or "tiny-weak" (default: tiny)')
    demo.add_argument("--prompt", help="text to continue (default: a held-out passage)")
    demo.add_argument("--gamma", type=int, default=4, help="most tokens drafted in one round (default: 4)")
    demo.add_argument("--max-new-tokens", type=int, default=96, help="tokens to add (default: 96)")
    demo.add_argument("--runs", type=int, default=5, help="timed runs of each decoder (default: 5)")
    demo.set_defaults(run=run_demo)

    add_bench(commands)

    doctor = commands.add_parser("doctor", help="check this environment")
    doctor.set_defaults(run=run_doctor)
    return parser


def run_demo(options: argparse.Namespace) -> int:
    """Decode one prompt both ways; returns 1 if the two texts differ where they must not."""
    _say("loading the pair …")
    from specdec_lab import (
        Trace,
        autoregressive_decode,
        benchmark_decoding,
        load_pair,
        speculative_rounds,
    )
    from specdec_lab.show.terminal import legend, style_for, token_strip

    pair = load_pair(options.pair)
    prompt = pair.prompts[0] if options.prompt is None else options.prompt
    ids = pair.encode(prompt)
    if not ids:
        raise ValueError("--prompt must hold at least one character, got an empty text")
    settings = {"max_new_tokens": options.max_new_tokens, "eos_token_id": pair.eos_token_id}

    _say("decoding …")
    trace = Trace.of(ids, speculative_rounds(pair.target, pair.draft, ids, gamma=options.gamma, **settings))
    plain = autoregressive_decode(pair.target, ids, **settings)
    same = trace.sequence == plain
    result = benchmark_decoding(
        pair.target,
        pair.draft,
        [ids],
        gamma=options.gamma,
        num_runs=options.runs,
        progress=lambda done, total: _say(f"timing, {done} of {total} …"),
        **settings,
    )
    _say("")

    style = style_for(sys.stdout.encoding, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    print(f"specdec_lab {__version__}, pair {pair.name!r}: {_describe(pair)}\n")
    _block("Prompt", prompt)
    _block(f"Plain decoding: {len(plain) - len(ids)} passes of the target", pair.decode(plain[len(ids) :]))
    _block(
        f"Speculative decoding, γ = {options.gamma}: {len(trace.rounds)} passes of the target",
        pair.decode(trace.new_tokens),
    )
    print(f"The two texts are {'identical, token for token' if same else 'DIFFERENT'}.\n")
    print("Every token by origin, one line a round:")
    print(f"  {legend(style)}\n")
    print(token_strip(trace, lambda tokens: pair.decode(tokens), style) + "\n")
    for line in _figures(trace, result):
        print(line)
    if not (same and result["outputs_match"]):
        for sentence in result["divergences"]:
            print(f"error: {sentence}", file=sys.stderr)
        return 1
    return 0


def run_doctor(options: argparse.Namespace) -> int:
    """Print the environment report; returns 1 if something is wrong."""
    from specdec_lab.measure.environment import NOTE, OK, WRONG, examine

    findings = examine()
    for finding in findings:
        mark = {OK: "ok   ", NOTE: "note ", WRONG: "WRONG"}[finding.level]
        print(
            f"{mark}  {finding.subject}: {finding.sentence}"
            + (f" {finding.remedy}" if finding.remedy else "")
        )
    wrong = sum(finding.level == WRONG for finding in findings)
    print(
        "Everything that decoding needs is there." if not wrong else f"{wrong} thing(s) to mend, see above."
    )
    return 1 if wrong else 0


def _figures(trace: Any, result: dict[str, Any]) -> list[str]:
    per_run = result["speedup_per_run"]
    return [
        f"rounds              {len(trace.rounds)}",
        f"acceptance rate     {trace.acceptance_rate:.3f}   accepted ÷ drafted = {trace.accepted} ÷ {trace.drafted}",
        f"alpha               {trace.alpha:.3f}   accepted ÷ judged = {trace.accepted} ÷ {trace.accepted + trace.rejected}",
        f"tokens per round    {trace.tokens_per_round:.2f}",
        f"speed-up            {result['speedup']:.2f}   over plain decoding; {len(per_run)} interleaved runs, "
        f"{min(per_run):.2f} to {max(per_run):.2f}",
        f"tokens per second   {result['tokens_per_second_speculative']:.0f} speculative, "
        f"{result['tokens_per_second_autoregressive']:.0f} plain, on {result['threads']} CPU threads",
    ]


def _describe(pair: Any) -> str:
    def size(model: Any) -> str:
        layers = model.config.num_hidden_layers
        millions = sum(p.numel() for p in model.parameters()) / 1e6
        return f"{millions:.1f}M parameters in {layers} layer{'' if layers == 1 else 's'}"

    return f"target {size(pair.target)}, draft {size(pair.draft)}"


def _block(title: str, text: str) -> None:
    print(title)
    print(textwrap.indent(text.rstrip("\n"), "  | ", lambda line: True) + "\n")


def _say(text: str) -> None:
    """Progress, on stderr, on one line that the next one replaces; silent where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
