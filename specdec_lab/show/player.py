"""The player: a recorded run, step by step, behind a slider. One HTML output, no network, no widgets.

It stands on four layers: `cells` says what each step holds, `frame_words` says it in a sentence, `frame_html` draws
it, `player_script` moves the slider. This file cuts the windows and puts strip, steps and page together. It decodes
nothing and needs no torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from specdec_lab.decoding.rounds import ACCEPTED, Trace

from .cells import COMMIT, DRAFT, PHASES, ROLL_BACK, VERIFY, Frame, frames
from .frame_html import BY_CLASS, BY_STYLE, LONGEST, Window, legend, table, table_rows
from .frame_words import ratios, sentence, token_writer
from .player_script import SCRIPT, STYLE

__all__ = ["Frame", "Player", "frames", "play"]

_COLUMNS = 9  # shown at least, where the window is not that of a strip
_CONTEXT = 3  # tokens shown before the round, at least


@dataclass(frozen=True)
class Player:
    """Steps of a run, ready to be shown. Made by `play`.

    Attributes:
        frames: the steps shown, in order.
        sentences: one for each of them; `str()` joins them with line ends.
        title: a heading, or "".
        total: rounds in the whole run.
        write: token → text.

    In a notebook it shows itself: a strip of one round in three steps, which needs neither styles nor scripts, and
    in its place, where scripts run, a slider over all steps.
    """

    frames: tuple[Frame, ...]
    sentences: tuple[str, ...]
    title: str
    total: int
    write: Callable[[int], str] = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def __repr__(self) -> str:
        return f"<player of {len(self.frames)} steps; print() tells them>"

    def _repr_html_(self) -> str:
        words = "".join(f"<li>{escape(text)}</li>" for text in self.sentences)
        title = f"<h3>{escape(self.title)}</h3>" if self.title else ""
        return (
            f'<div class="specdec-player tex2jax_ignore" data-lm-suppress-shortcuts="true"><style>{STYLE}</style>{title}'
            f'<div class="specdec-strip">{self._strip()}</div><div class="specdec-stage"></div>'
            f"<details><summary>All {len(self.sentences)} steps in words</summary><ol>{words}</ol></details>"
            f'<script type="application/json">{self._data()}</script></div><script>{SCRIPT}</script>'
        )

    def save(self, path: str | Path) -> None:
        """Write a page of its own, which opens from disk without a network; the folder must exist.

        Example:
            >>> play(trace, pair.decode).save("rounds.html")  # doctest: +SKIP
        """
        title = escape(self.title or "Speculative decoding, step by step")
        Path(path).write_text(
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            "<style>:root{color-scheme:light dark}body{font-family:sans-serif;max-width:1200px;margin:16px auto;"
            f"padding:0 16px}}</style></head><body>{self._repr_html_()}</body></html>\n",
            encoding="utf-8",
        )

    def _windows(self, columns: int) -> dict[int, Window]:
        """For each round the positions to show: `columns` or more, always as many, and the round's first new one
        always in the same place."""
        ahead = self._ahead()
        context = max(_CONTEXT, columns - ahead)
        starts = {frame.round: max(0, frame.base - context) for frame in self.frames}
        return {
            number: Window(start, context + ahead, any(starts.values())) for number, start in starts.items()
        }

    def _ahead(self) -> int:
        """The most tokens that a round can add."""
        return max(len(frame.drafted) for frame in self.frames) + 1

    def _strip(self) -> str:
        """One round in three steps, with inline styles only."""
        chosen = telling_round(self.frames)
        if chosen is None:
            return ""
        window = self._windows(0)[chosen]
        steps = [
            (frame, text)
            for frame, text in zip(self.frames, self.sentences, strict=True)
            if frame.round == chosen and frame.phase in (DRAFT, VERIFY, ROLL_BACK)
        ]
        parts = []
        for frame, text in steps:
            head, _, rest = text.partition(":")
            drawn = table(table_rows(frame, window, self.write, BY_STYLE))
            parts.append(f"<p><b>{head}:</b>{escape(rest)}</p>{drawn}")
        return "".join(parts) + f"<p>{legend([frame for frame, _ in steps], BY_STYLE)}</p>"

    def _data(self) -> str:
        """What the script needs, as JSON. Tokens in it are escaped as HTML, so none can end the script element. Many
        rows come again from one step to the next, so each is kept once; end tags of cells, which HTML allows to
        omit, are omitted."""
        windows, rows, steps, sums = self._windows(_COLUMNS), {}, [], {}
        lengths = [1]
        for frame in self.frames:
            window, finished = windows[frame.round], len(frame.so_far.rounds)
            numbers = [
                rows.setdefault(row, len(rows)) for row in table_rows(frame, window, self.write, BY_CLASS)
            ]
            steps.append([frame.round, frame.phase, finished, numbers])
            sums[finished] = sums.get(finished) or ratios(frame.so_far)
            lengths += [len(self.write(token)) for token in (*frame.sequence[window.start :], *frame.drafted)]
        # room for nine tokens of ten, and for "pass 1"; a column with a longer one grows
        letters = max(6, 1 + min(LONGEST, sorted(lengths)[len(lengths) * 9 // 10]))
        # the column of the token before the round
        any_window = windows[self.frames[0].round]
        lead = 1 + any_window.hidden + any_window.columns - self._ahead()
        data = {
            "rounds": self.total,
            "phases": PHASES,
            "letters": letters,
            "lead": lead,
            "glance": f"Round {telling_round(self.frames)} at a glance",
            "legend": legend(self.frames, BY_CLASS),
            "table": table(["@"]).split("@"),
            "rows": [re.sub("</t[dhr]>", "", row) for row in rows],
            "sums": sums,
            "frames": steps,
        }
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def play(
    trace: Trace,
    decode: Callable[[list[int]], str],
    *,
    title: str = "",
    first_round: int = 1,
    rounds: int | None = None,
) -> Player:
    """A recorded run as a picture to step through. Taught in notebooks 03 and 04.

    Args:
        trace: prompt and rounds, as recorded or loaded.
        decode: ids → text; it is asked for one token at a time.
        title: a heading.
        first_round: the first round shown, counted from 1.
        rounds: how many are shown; None shows the rest. Numbers and counts stay those of the whole run.

    Returns:
        A `Player`: shows itself in a notebook, `str()` tells every step in a sentence, `save(path)` writes a page.

    Raises:
        ValueError: `first_round` or `rounds` outside the trace; a round that drafted a tree.

    Example:
        >>> trace = Trace.of(
        ...     ids,
        ...     speculative_rounds(
        ...         pair.target, pair.draft, ids, max_new_tokens=32, gamma=4, eos_token_id=None
        ...     ),
        ... )  # doctest: +SKIP
        >>> play(trace, pair.decode, title="Four guesses a round")  # doctest: +SKIP
    """
    if not 1 <= first_round <= max(1, len(trace.rounds)):
        raise ValueError(f"first_round must be between 1 and {len(trace.rounds)}, got {first_round}")
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds must be 1 or more, got {rounds}")
    last = len(trace.rounds) if rounds is None else first_round + rounds - 1
    first = 0 if first_round == 1 else first_round
    shown = tuple(frame for frame in frames(trace) if first <= frame.round <= last)
    write = token_writer(decode)
    return Player(shown, tuple(sentence(frame, write) for frame in shown), title, len(trace.rounds), write)


def telling_round(shown: tuple[Frame, ...]) -> int | None:
    """The round that shows most in three steps: one with an accepted, a rejected and a never judged guess, and not
    the first, which reads the prompt as well. None where there is no round."""
    commits = [frame for frame in shown if frame.phase == COMMIT]
    if not commits:
        return None

    def tells(frame: Frame) -> tuple:
        agreed = min(frame.verdicts.count(ACCEPTED), 2)
        return len(set(frame.verdicts)), frame.round > 1, len(frame.drafted), agreed, -frame.round

    return max(commits, key=tells).round
