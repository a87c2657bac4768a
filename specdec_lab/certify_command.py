"""`python -m specdec_lab certify`: is a speculative run of this pair the target's own greedy output?

It reads arguments and prints; what is judged, and how, is `measure/exactness.py`.
"""

from __future__ import annotations

import argparse
from typing import Any

from specdec_lab.pair_options import add_pair_options, add_prompt_options, load_with_prompts, read_texts


def add_certify(commands: Any) -> None:
    """Add the command to an argparse subparsers object."""
    certify = commands.add_parser(
        "certify", help="compare a pair's speculative output with plain decoding, and judge every difference"
    )
    add_pair_options(certify)
    add_prompt_options(certify)
    certify.add_argument("--gamma", type=int, default=4, help="most tokens drafted in one round (default: 4)")
    certify.set_defaults(run=run_certify)


def run_certify(options: argparse.Namespace) -> int:
    """Print the certificate; returns 1 if there is a fault."""
    pair, prompts = load_with_prompts(options, read_texts(options))
    from specdec_lab.measure.exactness import certify
    from specdec_lab.measure.loaded import describe_pair

    found = certify(
        pair.target, pair.draft, prompts, options.max_new_tokens, options.gamma, pair.eos_token_id
    )
    print(*describe_pair(pair), "", sep="\n")
    print(f"pair {pair.name}, {found}")
    return 0 if found.lossless else 1
