"""`python -m specdec_lab bench`: a sweep from the command line; table, CSV or JSON, and a picture.

It reads arguments and writes files; what is measured is `measure/sweep.py`, what is drawn `show/plots.py`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from specdec_lab.pair_options import add_pair_options, add_prompt_options, load_with_prompts, read_texts

TABLES, PICTURES = (".csv", ".json"), (".png", ".svg", ".pdf")


def add_bench(commands: Any) -> None:
    """Add the command to an argparse subparsers object."""
    bench = commands.add_parser("bench", help="measure the speed-up of a pair at several γ")
    add_pair_options(bench)
    add_prompt_options(bench)
    bench.add_argument("--gammas", default="1,2,3,4,6,8,12,16", help="γ values, separated by commas")
    bench.add_argument("--alphas", help="acceptance chances for the dial, separated by commas: the draft errs "
                       "as often as told and its passes are paid")  # fmt: skip
    bench.add_argument("--runs", type=int, default=5, help="timed runs (default: 5)")
    bench.add_argument("--warmup", type=int, default=1, help="untimed runs before them (default: 1)")
    bench.add_argument("--out", type=Path, help=f"write every decode to a file ({', '.join(TABLES)})")
    bench.add_argument("--picture", type=Path, help=f"draw speed-up against γ ({', '.join(PICTURES)})")
    bench.add_argument("--force", action="store_true", help="overwrite existing files")
    bench.set_defaults(run=run_bench)


def run_bench(options: argparse.Namespace) -> int:
    """Measure, print, write; returns 1 if float32 outputs differ from plain decoding beyond a near tie."""
    gammas = _numbers(options.gammas, "--gammas", int)
    alphas = None if options.alphas is None else _numbers(options.alphas, "--alphas", float)
    texts = read_texts(options)
    _check_file(options.out, "--out", TABLES, options.force)
    _check_file(options.picture, "--picture", PICTURES, options.force)

    from tqdm import tqdm

    from specdec_lab.decoding.drafters import is_drafter
    from specdec_lab.measure.loaded import describe_pair
    from specdec_lab.measure.sweep import summarise, sweep

    pair, prompts = load_with_prompts(options, texts)
    if alphas is not None and is_drafter(pair.draft):
        raise ValueError(f"--alphas sets a draft model's dial, and the draft of {pair.name} is no model")

    with tqdm(unit="decode", disable=None, file=sys.stderr, leave=False) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        frame = sweep(
            pair.target,
            pair.draft,
            prompts,
            options.max_new_tokens,
            gammas,
            pair.eos_token_id,
            alphas=alphas,
            warmup_runs=options.warmup,
            num_runs=options.runs,
            progress=progress,
        )
    summary = summarise(frame)
    _print(summary, frame, pair.name, describe_pair(pair))
    if options.out is not None:
        _write(frame, options.out)
    if options.picture is not None:
        from specdec_lab.show.plots import speedup_by_gamma

        figure, sentence = speedup_by_gamma(summary)
        figure.savefig(options.picture, dpi=150)
        print(f"{sentence}\nwritten: {options.picture}")
    return _verdict(frame)


def _numbers(text: str, option: str, kind: type) -> list:
    try:
        return [kind(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise ValueError(f"{option} must be numbers separated by commas, got {text!r}") from None


def _check_file(path: Path | None, option: str, endings: tuple[str, ...], force: bool) -> None:
    """Everything that would make writing fail, before anything is measured."""
    if path is None:
        return
    if path.suffix not in endings:
        raise ValueError(f"{option} must end in one of {', '.join(endings)}, got {path}")
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: the folder {path.parent} does not exist")
    if path.exists() and not force:
        raise ValueError(f"{option} {path} exists; give another name, or --force to overwrite it")


def _print(summary: Any, frame: Any, name: str, parts: Any) -> None:
    first = frame.iloc[0]
    print(
        f"pair {name}; {frame['prompt'].nunique()} prompts, {frame['run'].nunique()} interleaved runs; "
        f"{first['device']}, {first['dtype']}, {first['threads']} threads, torch {first['torch']}, "
        f"transformers {first['transformers']}"
    )
    print(*parts, "", sep="\n")
    table = summary.assign(
        spread=[
            f"{a:.2f} to {b:.2f}"
            for a, b in zip(summary["speedup_low"], summary["speedup_high"], strict=True)
        ],
        same=summary["same_as_plain"].map({True: "yes", False: "NO"}),
    )[["decoder", "speedup", "spread", "tokens_per_round", "acceptance_rate", "alpha", "same"]]
    table.columns = [
        "decoder", "speed-up", "spread", "tokens per round", "acceptance rate", "alpha", "same tokens"
    ]  # fmt: skip
    print(table.to_string(index=False, float_format="{:.3f}".format, na_rep="") + "\n")


def _write(frame: Any, path: Path) -> None:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        path.write_text(
            frame.to_json(orient="records", indent=1, double_precision=15) + "\n", encoding="utf-8"
        )
    print(f"written: {path}, {len(frame)} rows")


def _verdict(frame: Any) -> int:
    """Say where tokens differ from plain decoding and why; 1 unless rounding explains every difference."""
    differing = frame[~frame["same_as_plain"]]
    for row in differing.drop_duplicates(["decoder", "prompt", "divergence"]).itertuples():
        print(f"prompt {row.prompt}, {row.decoder}: {row.divergence}", file=sys.stderr)
    return 0 if differing["near_tie"].all() else 1
