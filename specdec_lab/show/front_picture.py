"""The picture at the head of the README and of the lecture kit: a run of the bundled pair, round by round.

`python -m specdec_lab.show.front_picture` decodes, draws and stores it again, with the sentence that is its alternative
text wherever it is shown; a test compares that sentence with a run of today.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_lab.decoding.rounds import ACCEPTED, BONUS, CORRECTION, Trace
from specdec_lab.files import ASSETS

from .readable import readable
from .style import FONT_SIZE, GREY, new_figure
from .terminal import REJECTED, UNJUDGED, WORDS, verdicts
from .tokens import MARKS, PAPER, VEIL, Decode, show_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PROMPT = 10  # as in the demo and in notebook 00: neither the luckiest of the bundled prompts nor the worst
GAMMA, NEW_TOKENS = 4, 22
DPI = 110
PICTURE = ASSETS / "front" / "rounds.png"
SENTENCE = PICTURE.with_suffix(".txt")

_COLOURS = {**dict.fromkeys(WORDS, GREY), **PAPER}


def run_of_the_picture() -> tuple[Trace, Decode]:
    """The run that is shown, and what makes text of its tokens."""
    from specdec_lab import load_pair, speculative_rounds

    pair = load_pair("tiny")
    ids = pair.encode(pair.prompts[PROMPT])
    rounds = speculative_rounds(
        pair.target, pair.draft, ids, max_new_tokens=NEW_TOKENS, gamma=GAMMA, eos_token_id=None
    )
    return Trace.of(ids, rounds), pair.decode


def rounds_table(trace: Trace, decode: Decode) -> tuple[Figure, str]:
    """One row a round: what the draft guessed, what the target made of it, and how many tokens that gave.

    Args:
        trace: a run whose rounds drafted chains.
        decode: a list of token ids → text.

    Returns:
        The figure, and the sentence with its counts.

    Raises:
        ValueError: no round was run.

    Example: `rounds_table(*run_of_the_picture())`.
    """
    if not trace.rounds:
        raise ValueError("trace has no round to show")
    widest = max(len(item.drafted) for item in trace.rounds)
    rows = len(trace.rounds)
    figure, (ax,) = new_figure(width=11.0, height=0.42 * rows + 2.2)
    ax.set_xlim(-1.0, widest + 1.7)
    ax.set_ylim(rows + 1.4, -1.5)
    ax.axis("off")
    for x, words in (
        (-0.8, "round"),
        (widest / 2 - 0.5, f"the draft model guesses {widest} tokens;\nthe target checks them in one pass"),
        (widest + 0.12, "and adds one\nof its own"),
        (widest + 1.15, "new\ntokens"),
    ):
        _say(ax, x, -1.0, words, weight="bold")
    for number, item in enumerate(trace.rounds):
        _say(ax, -0.8, number, str(number + 1), color=GREY)
        for place, (kind, token) in enumerate(verdicts(item)):
            own = place >= len(item.drafted)
            _chip(ax, widest + 0.12 if own else place, number, kind, readable(decode([token]), token))
        _say(ax, widest + 1.15, number, f"+{len(item.emitted)}", weight="bold")
    _legend(ax, rows, widest)
    count = len(trace.new_tokens)
    _say(
        ax,
        widest / 2 + 0.3,
        rows + 0.95,
        f"{count} tokens in {rows} passes of the target, not {count}",
        weight="bold",
    )
    counts = show_tokens(trace, decode).sentence
    return figure, f"{counts} A round is one pass of the target; plain decoding takes {count} passes."


def _chip(ax: Axes, x: float, y: float, kind: str, text: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    colour = _COLOURS[kind]
    veil = VEIL if kind in PAPER else 0.0
    box = FancyBboxPatch(
        (x - 0.44, y - 0.36),
        0.88,
        0.72,
        boxstyle="round,pad=0,rounding_size=0.08",
        facecolor=(colour, veil),
        edgecolor=colour,
        linestyle=":" if kind == UNJUDGED else "-",
        linewidth=1.6,
    )
    ax.add_patch(box)
    dropped = kind in (REJECTED, UNJUDGED)
    _say(
        ax, x, y, f"{MARKS.marks[kind]} {text}", family="DejaVu Sans Mono", color=GREY if dropped else "black"
    )
    if kind == REJECTED:
        ax.plot([x - 0.38, x + 0.38], [y, y], color=GREY, linewidth=1.2)


def _legend(ax: Axes, y: float, widest: int) -> None:
    words = [ACCEPTED, REJECTED, UNJUDGED, CORRECTION, BONUS]
    step = (widest + 2.5) / len(words)
    for number, kind in enumerate(words):
        said = f"{MARKS.marks[kind]} {WORDS[kind]}"
        _say(ax, -0.95 + step * number, y, said, ha="left", color=_COLOURS[kind], weight="bold")


def _say(ax: Axes, x: float, y: float, text: str, ha: str = "center", **look: str) -> None:
    ax.text(x, y, text, fontsize=FONT_SIZE, ha=ha, va="center", **look)


def main(arguments: Sequence[str] | None = None) -> None:
    from .picture import to_png

    parser = argparse.ArgumentParser(prog="python -m specdec_lab.show.front_picture", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=PICTURE, help="the PNG; its sentence goes beside it as .txt"
    )
    options = parser.parse_args(arguments)
    figure, sentence = rounds_table(*run_of_the_picture())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(to_png(figure, DPI))
    options.out.with_suffix(".txt").write_text(sentence + "\n", encoding="utf-8")
    print(sentence)


if __name__ == "__main__":
    main()
