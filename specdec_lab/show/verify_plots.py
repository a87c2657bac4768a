"""Pictures of rounds: what a run made of its drafts, what one pass over drafts computes, and acceptance against α.

Each is a pure function that returns a matplotlib Figure and one sentence with the figure's numbers. They count
what a trace recorded; nothing is run and nothing is timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specdec_lab.decoding.rounds import BONUS, CORRECTION, PLAIN, Trace
from specdec_lab.measure.theory import estimate_alpha, expected_tokens_per_round

from .style import BLUE, FONT_SIZE, GREEN, GREY, SKY, VERMILION, label, new_figure
from .words import many, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 9  # letters of a token that a picture shows

# ---------------------------------------------------------------- a run, round by round


def rounds_of_run(runs: Mapping[int, Trace], gamma: int) -> tuple[Figure, str]:
    """One column a round: above the line the tokens it added, below it the drafts it threw away. Notebook 00.

    Args:
        runs: γ → a recorded run. All of them set the axes, so that pictures of two γ can be compared.
        gamma: the run to show.

    Returns:
        The figure, and a sentence with the run's counts and ratios.

    Raises:
        ValueError: there is no run for this γ, or it has no round.
    """
    trace = _known(runs, gamma)
    if not trace.rounds:
        raise ValueError(f"the run for gamma {gamma} has no round")
    figure, (ax,) = new_figure(width=9.0, height=4.4)
    numbers = range(1, len(trace.rounds) + 1)
    agreed = [len(item.accepted) for item in trace.rounds]
    wasted = [len(item.drafted) - len(item.accepted) for item in trace.rounds]
    ax.bar(numbers, agreed, color=GREEN, edgecolor="white", label="accepted drafts")
    for kind, colour, hatch in ((CORRECTION, VERMILION, "//"), (BONUS, BLUE, ".."), (PLAIN, GREY, "")):
        own = [
            (number, len(item.accepted), len(item.emitted) - len(item.accepted))
            for number, item in zip(numbers, trace.rounds, strict=True)
            if item.outcome == kind
        ]
        if own:
            at, bottom, height = zip(*own, strict=True)
            name = "nothing drafted" if kind == PLAIN else kind
            ax.bar(at, height, bottom=bottom, color=colour, hatch=hatch, edgecolor="white", label=name)
    down = [-number for number in wasted]
    ax.bar(numbers, down, color="white", edgecolor=GREY, linewidth=1.2, label="drafts thrown away")
    ax.axhline(0, color="black", linewidth=1.2)
    ax.set_axisbelow(True)
    rounds = [item for run in runs.values() for item in run.rounds]
    highest = max(len(item.emitted) for item in rounds)
    lowest = max(len(item.drafted) - len(item.accepted) for item in rounds)
    ax.set_xlim(0.2, max(len(run.rounds) for run in runs.values()) + 0.8)
    ax.set_ylim(-lowest - 0.8, highest + 0.8)
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    label(
        ax,
        f"γ = {gamma}: {many(len(trace.new_tokens), 'token')} in {many(len(trace.rounds), 'round')}",
        "round (one target pass each)",
        "tokens: ↓ thrown away, ↑ kept",
    )
    figure.legend(loc="outside lower center", ncols=4, fontsize=FONT_SIZE - 1, frameon=False)
    return figure, (
        f"γ = {gamma}: {many(len(trace.new_tokens), 'new token')} in {many(len(trace.rounds), 'round')}, which is "
        f"{many(len(trace.rounds), 'target pass', 'target passes')}; {trace.drafted} drafted, {trace.accepted} accepted, "
        f"{sum(wasted)} thrown away; acceptance rate {_over(trace.accepted, trace.drafted)}, "
        f"tokens per round {_over(len(trace.new_tokens), len(trace.rounds))}."
    )


# ---------------------------------------------------------------- one pass


def rows_of_pass(
    confirmed: Sequence[str], drafted: Sequence[str], choices: Sequence[str], row: int, shown: int = 4
) -> tuple[Figure, str]:
    """What a pass over the last confirmed token and k drafts computes: k + 1 rows. Taught in notebook 03.

    Row 0 belongs to the last confirmed token and judges draft 1; row i belongs to draft i and judges draft i + 1; the
    last row judges nothing. A row sees its own token and everything before it.

    Args:
        confirmed, drafted: tokens as readable text; at least one confirmed.
        choices: the target's choice behind each row, one more than drafted.
        row: the one to point out, 0…k.
        shown: how many confirmed tokens are drawn.

    Returns:
        The figure, and a sentence about the row.

    Raises:
        ValueError: no confirmed token, another number of choices, or no such row.
    """
    if not confirmed or shown < 1:
        raise ValueError("rows_of_pass needs at least one confirmed token, and to show one")
    if len(choices) != len(drafted) + 1:
        raise ValueError(f"{len(drafted)} drafts need {len(drafted) + 1} choices, got {len(choices)}")
    if not 0 <= row <= len(drafted):
        raise ValueError(f"row must be between 0 and {len(drafted)}, got {row}")
    agreed = next((i for i, (a, b) in enumerate(zip(drafted, choices, strict=False)) if a != b), len(drafted))
    shown = min(shown, len(confirmed))
    tokens = [*confirmed[-shown:], *drafted]
    figure, (ax,) = new_figure(width=9.6, height=2.1 + 0.52 * (len(drafted) + 1))
    _draw_mask(ax, len(tokens), shown, row)
    for number, choice in enumerate(choices):
        weight = "bold" if number == row else "normal"
        verdict = _verdict(number, drafted, agreed)
        colour = {"✓": GREEN, "✗": VERMILION}.get(verdict[0], BLUE if verdict[0] == "+" else GREY)
        ax.text(len(tokens) + 0.15, number, f"→ {shortened(choice, LONGEST)}", **_letters(weight))
        ax.text(len(tokens) + 2.6, number, verdict, color=colour, **_letters(weight))
    ax.text(len(tokens) + 0.15, -0.9, "target\nchooses", **_letters("normal"))
    ax.text(len(tokens) + 2.6, -0.9, "and the draft\nthere is", **_letters("normal"))
    ax.set_xlim(-0.5, len(tokens) + 6.4)
    names = [f"{'confirmed' if i < shown else f'draft {i - shown + 1}'}" for i in range(len(tokens))]
    ax.set_xticks(range(len(tokens)), [shortened(token, LONGEST) for token in tokens], rotation=35, ha="left")
    ax.xaxis.tick_top()
    rows = [f"row {i}: {shortened(tokens[shown - 1 + i], LONGEST)}" for i in range(len(drafted) + 1)]
    ax.set_yticks(range(len(rows)), rows)
    for text in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
        text.set(parse_math=False, fontsize=FONT_SIZE - 1)
    ax.get_yticklabels()[row].set_fontweight("bold")
    sees = len(confirmed) + row
    hidden = len(confirmed) - shown
    owner = "the last confirmed token" if row == 0 else names[shown - 1 + row]
    return figure, (
        f"Row {row} belongs to {owner}, ‘{tokens[shown - 1 + row]}’. It sees {many(sees, 'token')} and none behind them"
        f"{f' ({hidden} of them not drawn)' if hidden else ''}. The target chooses ‘{choices[row]}’ there; "
        f"{_told(row, drafted, agreed)}."
    )


def _draw_mask(ax, columns: int, shown: int, row: int) -> None:
    from matplotlib.patches import Rectangle

    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    for number in range(columns - shown + 1):
        for column in range(columns):
            sees = column < shown + number
            colour = (BLUE if number == row else SKY) if sees else "white"
            square = Rectangle((column - 0.46, number - 0.42), 0.92, 0.84, edgecolor=GREY, facecolor=colour)
            square.set(linewidth=0.8, alpha=1.0 if number == row else 0.55)
            ax.add_patch(square)
            if not sees:
                ax.text(column, number, "×", color=GREY, ha="center", va="center", fontsize=FONT_SIZE - 2)
    ax.axvline(shown - 0.5, color="black", linewidth=1.5, linestyle="--")
    below = columns - shown + 0.75
    for words, at, side in (("confirmed", shown - 0.6, "right"), ("drafted", shown - 0.35, "left")):
        ax.text(at, below, words, ha=side, **_letters("normal"))
    ax.set_ylim(below + 0.35, -0.6)


def _letters(weight: str) -> dict:
    return {"fontsize": FONT_SIZE - 1, "va": "center", "parse_math": False, "fontweight": weight}


def _verdict(number: int, drafted: Sequence[str], agreed: int) -> str:
    if number > agreed:
        return "◦ never judged" if number < len(drafted) else "◦ not used"
    if number == len(drafted):
        return "+ bonus"
    return f"{'✓' if number < agreed else '✗'} {shortened(drafted[number], LONGEST)}"


def _told(row: int, drafted: Sequence[str], agreed: int) -> str:
    if row > agreed:
        return f"nobody asks, because draft {agreed + 1} was rejected and this row has read it"
    if row == len(drafted):
        return "nothing was drafted there, so it is the bonus"
    verdict = "accepted" if row < agreed else "rejected, and the target's choice is the correction"
    return f"draft {row + 1} is ‘{drafted[row]}’: {verdict}"


# ---------------------------------------------------------------- acceptance rate and α


def acceptance_by_gamma(runs: Mapping[int, Sequence[Trace]], gamma: int) -> tuple[Figure, str]:
    """What became of the drafted tokens at each γ, and α beside it. Taught in notebook 03.

    The acceptance rate is the height of the accepted part. α is counted over judged tokens only. Where γ = 1 is among
    the runs, the acceptance rate of all others is predicted from its α (every draft is judged there), as under
    independence: (E(α, γ) - 1) ÷ γ.

    Args:
        runs: γ → runs over the same prompts; their counts are added up.
        gamma: the one whose counts are written out.

    Returns:
        The figure, and a sentence with the counts and both ratios at `gamma`.

    Raises:
        ValueError: there are no runs for this γ, or nothing was drafted at some γ.
    """
    _known(runs, gamma)
    gammas = sorted(runs)
    counts = {g: [sum(getattr(run, name) for run in runs[g]) for name in _COUNTED] for g in gammas}
    empty = [g for g in gammas if not counts[g][0]]
    if empty:
        raise ValueError(f"nothing was drafted in the runs for gamma {', '.join(map(str, empty))}")
    alphas = {g: estimate_alpha(accepted, rejected) for g, (_, accepted, rejected) in counts.items()}
    predicted = {}
    if 1 in runs:
        predicted = {g: (expected_tokens_per_round(alphas[1], g) - 1) / g for g in gammas if g > 1}

    figure, (ax,) = new_figure(width=9.0, height=5.0)
    places = range(len(gammas))
    bottom = [0.0] * len(gammas)
    for name, colour, hatch in zip(_FATES, (GREEN, VERMILION, "white"), ("", "//", ""), strict=True):
        parts = [_parts(counts[g])[name] for g in gammas]
        shares = [part / counts[g][0] for part, g in zip(parts, gammas, strict=True)]
        ax.bar(
            places, shares, 0.72, bottom, color=colour, hatch=hatch, edgecolor=GREY, alpha=0.75, label=name
        )
        chosen = gammas.index(gamma)
        if shares[chosen] > 0.06:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            middle = bottom[chosen] + shares[chosen] / 2
            ax.text(
                chosen, middle, str(parts[chosen]), ha="center", va="center", fontsize=FONT_SIZE, bbox=box
            )
        bottom = [low + share for low, share in zip(bottom, shares, strict=True)]
    line = {"linewidth": 2.2, "markersize": 9}
    ax.plot(places, [alphas[g] for g in gammas], "o-", color=BLUE, label="α: accepted ÷ judged", **line)
    if predicted:
        at = [gammas.index(g) for g in predicted]
        name = "acceptance rate predicted\nfrom α at γ = 1"
        ax.plot(
            at, list(predicted.values()), "D:", color="black", markerfacecolor="white", label=name, **line
        )
    ax.set_xticks(places, [str(g) for g in gammas])
    ax.get_xticklabels()[gammas.index(gamma)].set_fontweight("bold")
    ax.set_ylim(0, 1)
    label(
        ax,
        "What became of the drafted tokens",
        "γ (most tokens drafted in a round)",
        "share of drafted tokens",
    )
    handles, names = ax.get_legend_handles_labels()
    order = [i for i in range(len(names)) if names[i] not in _FATES]
    order += [names.index(name) for name in reversed(_FATES)]  # as they lie one above the other
    handles, names = [handles[i] for i in order], [names[i] for i in order]
    figure.legend(handles, names, loc="outside right upper", fontsize=FONT_SIZE - 1, frameon=False)
    drafted, accepted, rejected = counts[gamma]
    more = ""
    if gamma in predicted:
        more = f"; from α at γ = 1, an acceptance rate of {predicted[gamma]:.2f} was to be expected"
    return figure, (
        f"γ = {gamma}: {drafted} drafted = {accepted} accepted + {rejected} rejected + {drafted - accepted - rejected} "
        f"never judged; acceptance rate {_over(accepted, drafted)}, α {_over(accepted, accepted + rejected)}{more}."
    )


_FATES = ("accepted", "rejected", "never judged")
_COUNTED = ("drafted", "accepted", "rejected")


def _parts(counts: Sequence[int]) -> dict[str, int]:
    drafted, accepted, rejected = counts
    return dict(zip(_FATES, (accepted, rejected, drafted - accepted - rejected), strict=True))


# ---------------------------------------------------------------- words


def _known(runs: Mapping, gamma: int):
    if gamma not in runs:
        raise ValueError(f"there is no run for gamma {gamma}; there are {', '.join(map(str, sorted(runs)))}")
    return runs[gamma]


def _over(part: int, whole: int) -> str:
    return f"{part} ÷ {whole} = {part / whole:.2f}" if whole else f"{part} ÷ {whole} (none)"
