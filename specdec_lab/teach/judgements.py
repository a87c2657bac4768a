"""What can be wrong with one run of a decoder: each function takes a `Run` and returns None, or a sentence about it.

The sentence says what was expected and what came; the case that was run is told by whoever asks. `checks.py` puts these
questions to whole series of cases, `behaviours.py` to smaller ones, by the two judges at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specdec_lab.decoding.checks import check_end_tokens

from .audit import AuditedModel, Case, Counts, Run, allowed_counts, common_length, short
from .grading import Undecided

TARGET, DRAFT = "target", "draft"

# ---------------------------------------------------------------- the answer


def no_answer(run: Run) -> str | None:
    """It raised, did not come back, or returned something else than a pair."""
    return run.problem


def wrong_text(run: Run) -> str | None:
    """The first token that is not as in the target's own greedy text."""
    if run.problem:
        return run.problem
    case, got, expected = run.case, run.sequence, run.case.truth()
    if got == expected:
        return None
    start, at = len(case.prompt), common_length(got, expected)
    if got == expected[start:]:
        return "the new tokens are right, but the answer should begin with the prompt."
    if at < start:
        return f"the answer should begin with the prompt, got {short(got)}."
    if at == len(got):
        return f"the text ends after {at - start} new tokens, expected {short(expected[at:])} to follow."
    if at < len(expected):
        due, came = short(expected[at:], 3), short(got[at:], 3)
        return f"the text is wrong from new token {at - start + 1} on, expected {due}, got {came}."
    last = f"{case.new_tokens} new tokens"
    if expected[-1] in check_end_tokens(case.ends):
        last = f"the end token {expected[-1]} (new token {at - start})"
    return f"expected nothing behind {last}, got {short(got[at:])}."


def wrong_length(run: Run) -> str | None:
    """Not exactly `max_new_tokens`, in a case without an end token."""
    wanted, came = run.case.new_tokens, len(run.sequence) - len(run.case.prompt)
    if run.problem or came == wanted:
        return run.problem
    return f"expected {wanted} new token{'s' * (wanted > 1)}, got {came}."


def wrong_rate(run: Run) -> str | None:
    """Another acceptance rate than any correct decoder has in this case."""
    if run.problem:
        return run.problem
    counts = allowed_counts(run.case)
    if any(_close(run.rate, c.rate) for c in counts):
        return None
    return _rate_sentence(counts[0], run.rate)


def miscounted_rate(run: Run) -> str | None:
    """Another rate than accepted ÷ drafted by its own passes, good or bad as its guesses may have been."""
    if run.problem or _close(run.rate, audited_counts(run).rate):
        return run.problem
    return wrong_rate(run)


def list_changed(run: Run) -> str | None:
    """The caller's list is not as it was."""
    if run.problem or run.given == list(run.case.prompt):
        return run.problem
    return f"the caller's list should stay as it is, got {short(run.given)}."


def _close(one: float, other: float) -> bool:
    return abs(one - other) < 1e-6


def _rate_sentence(right: Counts, got: float) -> str:
    why = f"{right.accepted} accepted ÷ {right.drafted} drafted" if right.drafted else "nothing is drafted"
    return f"the acceptance rate should be {right.rate:.4g} ({why}), got {got:.4g}."


# ---------------------------------------------------------------- the work


def too_many_passes(run: Run, name: str) -> str | None:
    """More passes of a model than one a round for the target, or one a guess and one a round for the draft."""
    if run.problem:
        return run.problem
    counts = allowed_counts(run.case)
    rounds, drafted = max(c.rounds for c in counts), max(c.drafted for c in counts)
    fair = (rounds if name == TARGET else drafted + rounds) + 2  # a prefill of its own, and one for luck
    passes = _model(run, name).passes
    if passes <= fair:
        return None
    return f"the {name} should make at most {fair} passes in {rounds} rounds, got {passes}."


def too_many_fed(run: Run, name: str, own_rounds: bool = False) -> str | None:
    """More tokens fed to a model than it needs to see once, in the rounds of a correct decoder; with `own_rounds` also
    in as many rounds as this one made of it, so that poor guesses are not held against it a second time."""
    if run.problem:
        return run.problem
    counts, prompt = allowed_counts(run.case), len(run.case.prompt)
    counts += [audited_counts(run)] if own_rounds else []
    if name == TARGET:
        fair = max(len(run.case.truth()) + c.drafted - c.accepted + c.rounds for c in counts)
    else:
        fair = max(prompt + c.drafted + 2 * c.rounds for c in counts)
    fed = _model(run, name).fed_tokens
    return None if fed <= fair else f"the {name} should be fed at most {fair} tokens in all, got {fed}."


def guessed_behind_the_end(run: Run) -> str | None:
    """A model is fed something behind an end token that was drafted."""
    ends, start = check_end_tokens(run.case.ends), len(run.case.prompt)
    for model in (run.target, run.draft):
        for number, (held, fed) in enumerate(model.passes_seen, start=1):
            context = [*held, *fed]
            behind = next((at + 1 for at in range(start, len(context) - 1) if context[at] in ends), None)
            if behind is not None:
                return (
                    f"pass {number} of the {model.name} should hold nothing behind the end token {context[behind - 1]}, "
                    f"got {short(context[behind:])}."
                )
    return run.problem


# ---------------------------------------------------------------- the caches


def foreign_entry(run: Run, name: str) -> str | None:
    """A pass whose context has something in it that is neither text nor a guess in its place."""
    if run.problem:
        return run.problem
    model = _model(run, name)
    for number, (held, fed) in enumerate(model.passes_seen, start=1):
        at = _foreign(run, model, held, fed)
        if at is not None:
            due = run.sequence[at] if at < len(run.sequence) else "nothing"
            return (
                f"in pass {number} of the {name}, position {at} of its context should be {due}, got "
                f"{[*held, *fed][at]} (its cache had {len(held)} entries, and {short(fed)} was fed)."
            )
    return None


def foreign_entry_by_round(run: Run, name: str) -> str | None:
    """The same in the words of the lessons: which round, which position, and whether it was stale or missing."""
    if run.problem:
        return run.problem
    model = _model(run, name)
    for number, (held, fed) in enumerate(model.passes_seen):
        at = _foreign(run, model, held, fed)
        if at is None:
            continue
        got, where = [*held, *fed][at], f"in round {_round_of(run, name, number)}"
        due = f"{run.sequence[at]} belongs" if at < len(run.sequence) else "nothing belongs"
        if at < len(held):
            return (
                f"{where} the {name}'s cache holds a stale entry: position {at} is {got}, where {due} "
                f"(cache: {short(held, 12)})."
            )
        return (
            f"{where} the {name} is fed {short(fed)} with {len(held)} entries in its cache, so {got} comes to "
            f"position {at}, where {due}."
        )
    return None


def _foreign(run: Run, model: AuditedModel, held: list[int], fed: list[int]) -> int | None:
    """The first position of the context of a pass that has no business there, or None.

    The target's cache may hold text only, and what is fed goes on with text or a guess. The draft's context is text,
    then what the draft itself says behind it.
    """
    text_only = len(held) if model is run.target else 0
    context = [*held, fed[0]] if model is run.target else [*held, *fed]
    for at in range(common_length(context, run.sequence), len(context)):
        if at < max(text_only, 1) or context[at] != run.case.draft_rule(context[:at]):
            return at
    return None


# ---------------------------------------------------------------- rounds, as the passes show them


def audited_counts(run: Run) -> Counts:
    """Rounds, drafted and accepted tokens as the target's own passes show them, in a run whose text is right.

    A pass that ends behind the confirmed text verifies guesses; as many are accepted as agree with the text; one token
    of the target's own follows. A pass over text only is a prefill, or the round of a plain token.
    """
    text, confirmed = run.sequence, len(run.case.prompt)
    rounds = drafted = accepted = 0
    passes = run.target.passes_seen
    for number, (held, fed) in enumerate(passes, start=1):
        context = [*held, *fed]
        guesses = max(0, len(context) - confirmed)
        agreed = common_length(context, text)
        rounds, drafted = rounds + 1, drafted + guesses
        accepted += max(0, agreed - confirmed) if guesses else 0
        if agreed >= confirmed:
            # the own token follows, unless the next pass shows that it was thrown away
            kept = number == len(passes) or len(passes[number][0]) >= agreed
            confirmed = min(len(text), agreed + kept)
    return Counts(rounds, drafted, accepted)


def _model(run: Run, name: str) -> AuditedModel:
    return run.target if name == TARGET else run.draft


def _round_of(run: Run, name: str, index: int) -> int:
    """The number of the round in which a model made its pass `index`: as many as the target had verified before, and
    one. A first pass of the target over the prompt alone, with more to come, is a prefill and no round."""
    position = [at for at, who in enumerate(run.target.order) if who == name][index]
    before = run.target.order[:position].count(TARGET)
    first_held, first_fed = run.target.passes_seen[0] if run.target.passes_seen else ([], [])
    prefill = len(run.target.passes_seen) > 1 and len(first_held) + len(first_fed) < len(run.case.prompt)
    return max(1, before + 1 - prefill)


# ---------------------------------------------------------------- as judges of a case

Judge = Callable[[Any, Case], "str | None"]  # (the runs of a function, a case) → what is wrong


def judge_by(judgement: Callable[..., str | None], *more: Any) -> Judge:
    """A judgement of a run as a judge of a case; `runs.answered` tells where there is nothing to judge."""
    return lambda runs, case: judgement(runs.answered(case), *more)


def judge_where_right(judgement: Callable[..., str | None], *more: Any) -> Judge:
    """The same for lengths, work, caches and rates. A run whose text is wrong may show a fault of theirs, but it is no
    praise: whoever decodes nothing has clean caches."""

    def judge(runs: Any, case: Case) -> str | None:
        run = runs.answered(case)
        found = judgement(run, *more)
        if not found and wrong_text(run):
            raise Undecided("the text is wrong in every case")
        return found

    return judge
