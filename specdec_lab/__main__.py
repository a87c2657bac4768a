"""The command line: `python -m specdec_lab [demo|bench|certify|grade|doctor]`.

    demo     decode a prompt plainly and speculatively, side by side (the default); greedily, or by sampling
    bench    measure the speed-up of any pair at several γ; a table, a file, a picture
    certify  compare any pair's speculative output with plain decoding, and judge every difference
    grade    say what is right and what is wrong with a solution of one's own, with the smallest case that shows it
    doctor   say in words what is wrong with this environment and what to do

Exit codes: 0 all well, 1 a fault was found, 2 bad arguments, 130 interrupted, 141 nobody reads on (as in `| head`).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from specdec_lab import __version__
from specdec_lab.bench_command import add_bench
from specdec_lab.certify_command import add_certify
from specdec_lab.demo_command import add_demo
from specdec_lab.grade_command import add_grade

COMMANDS = ("demo", "bench", "certify", "grade", "doctor")


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
        code = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it ends
        return 141
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

    add_demo(commands)
    add_bench(commands)
    add_certify(commands)
    add_grade(commands)

    doctor = commands.add_parser("doctor", help="check this environment")
    doctor.set_defaults(run=run_doctor)
    return parser


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


if __name__ == "__main__":
    sys.exit(main())
