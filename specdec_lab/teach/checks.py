"""Checks of a speculative decoder: each takes a function and returns None, or one sentence that says what is wrong.

A check runs the function on scripted models, whose right answer is known without decoding, and looks at one thing:
the text, the rate, the passes, the tokens fed, what the caches held. The sentence names the input, what was
expected and what came. A decoder that raises or never ends is one more sentence, never an error here.
It does not look inside the function, does not time it, and hands out no marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product

from specdec_lab.decoding.checks import check_end_tokens
from specdec_lab.models.scripted import last_token

from .audit import (
    AGREES,
    DRAFTS,
    HALF,
    HASH,
    NEVER,
    PROMPT,
    VOCABULARY,
    AuditedModel,
    Case,
    Decoder,
    Run,
    allowed_counts,
    common_length,
    follow,
    run_case,
    short,
)

Check = Callable[[Decoder], str | None]

LONG_PROMPT = tuple((7 * i * i + 3 * i) % VOCABULARY for i in range(40))


def same_tokens(decoder: Decoder) -> str | None:
    """The text is the target's own greedy text, whatever the draft is worth. Taught in notebook 03."""
    return _wrong_text(decoder, (Case(24, gamma, draft) for draft, gamma in product(DRAFTS, (1, 2, 4, 8))))


def end_token_everywhere(decoder: Decoder) -> str | None:
    """The text stops behind the end token wherever in a block it stands (F01, huggingface/transformers 47912)."""
    new = follow(HASH, PROMPT, 16)[len(PROMPT) :]
    in_text = (Case(16, 4, draft, ends=new[place]) for draft in (AGREES, HALF) for place in range(11))
    in_prompt = (Case(16, 4, HALF, ends=token) for token in (PROMPT[0], PROMPT[-1]))  # must not stop anything
    return _wrong_text(decoder, [*in_text, *in_prompt])


def budget(decoder: Decoder) -> str | None:
    """Exactly max_new_tokens come out where no end token does (F04, huggingface/transformers PR 46993)."""
    for draft, gamma, wanted in product((AGREES, NEVER), (1, 4, 8), (1, 2, 3, 5, 7, 16)):
        run = run_case(decoder, Case(wanted, gamma, draft))
        came = len(run.sequence) - len(PROMPT)
        if run.problem or came != wanted:
            return run.problem or f"{run.case}: expected {wanted} new token{'s' * (wanted > 1)}, got {came}."
    return None


def acceptance_rate(decoder: Decoder) -> str | None:
    """The rate is accepted ÷ drafted tokens, 0.0 when nothing was drafted (F05, sgl-project/sglang PR 13212)."""
    new = follow(HASH, PROMPT, 16)[len(PROMPT) :]
    cases = [Case(wanted, gamma, draft) for wanted, gamma, draft in product((1, 7, 24), (1, 4, 8), DRAFTS)]
    for case in [*cases, *(Case(16, 4, HALF, ends=new[place]) for place in range(11))]:
        run = run_case(decoder, case)
        if run.problem:
            return run.problem
        counts = allowed_counts(case)
        if not any(abs(run.rate - c.rate) < 1e-6 for c in counts):
            right = counts[0]
            why = f"{right.accepted} accepted ÷ {right.drafted} drafted"
            why = why if right.drafted else "nothing is drafted"
            return f"{case}: the acceptance rate should be {right.rate:.4g} ({why}), got {run.rate:.4g}."
    return None


def pass_count(decoder: Decoder) -> str | None:
    """One target pass a round, and no round too many: the bonus token is kept (F26, ohdearquant/lattice PR 509)."""
    counting = last_token(step=1, vocab_size=VOCABULARY)
    for draft, gamma in product(DRAFTS, (1, 4)):
        run = run_case(decoder, Case(50, gamma, draft, rule=counting))
        if run.problem:
            return run.problem
        counts = allowed_counts(run.case)
        rounds, drafted = max(c.rounds for c in counts), max(c.drafted for c in counts)
        for model, fair in ((run.target, rounds), (run.draft, drafted + rounds)):
            if model.passes > fair + 2:  # a prefill of its own, and one for luck
                return (
                    f"{run.case}: the {model.name} should make at most {fair + 2} passes in {rounds} rounds, "
                    f"got {model.passes}."
                )
    return None


def fed_tokens(decoder: Decoder) -> str | None:
    """No token is fed twice without need: caches are rolled back, not refilled (F27, paiml/aprender PR 2014)."""
    for draft in DRAFTS:
        run = run_case(decoder, Case(24, 4, draft, prompt=LONG_PROMPT))
        if run.problem:
            return run.problem
        counts = allowed_counts(run.case)
        for model, fair in (
            (run.target, max(len(run.case.truth()) + c.drafted - c.accepted + c.rounds for c in counts)),
            (run.draft, max(len(LONG_PROMPT) + c.drafted + 2 * c.rounds for c in counts)),
        ):
            if model.fed_tokens > fair:
                return (
                    f"{run.case}: the {model.name} should be fed at most {fair} tokens in all, got "
                    f"{model.fed_tokens}."
                )
    return None


def cache_contents(decoder: Decoder) -> str | None:
    """Before every pass both caches hold confirmed text, without a gap, a stale or a repeated entry (F27)."""
    for draft, gamma in product(DRAFTS, (1, 2, 4)):
        run = run_case(decoder, Case(24, gamma, draft))
        if run.problem:
            return run.problem
        for model in (run.target, run.draft):
            for number, (held, fed) in enumerate(model.passes_seen, start=1):
                at = _foreign_entry(run, model, held, fed)
                if at is not None:
                    due = run.sequence[at] if at < len(run.sequence) else "nothing"
                    return (
                        f"{run.case}: in pass {number} of the {model.name}, position {at} of its context should be "
                        f"{due}, got {[*held, *fed][at]} (its cache had {len(held)} entries, and {short(fed)} was fed)."
                    )
    return None


def first_token_verified(decoder: Decoder) -> str | None:
    """The first drafted token is compared like the others: row i scores token i + 1 (F25, ohdearquant/lattice 243)."""
    says = "is wrong in the first token of every block"
    cases = (Case(12, gamma, says, prompt=(1, 1, 1)) for gamma in (1, 4))
    return _wrong_text(decoder, map(_with_first_draft_wrong, cases))


def one_token_prompt(decoder: Decoder) -> str | None:
    """A prompt of one token is enough (F29, huggingface/transformers PR 40906)."""
    pairs = product((AGREES, HALF), (1, 4))
    return _wrong_text(decoder, (Case(9, gamma, draft, prompt=(10,)) for draft, gamma in pairs))


def caller_list_untouched(decoder: Decoder) -> str | None:
    """The list of the caller is as it was (F29, mem0ai/mem0 5580)."""
    run = run_case(decoder, Case(9, 4, HALF))
    if run.problem:
        return run.problem
    if run.given != list(PROMPT):
        return f"{run.case}: the caller's list should stay as it is, got {short(run.given)}."
    return None


def end_token_kinds(decoder: Decoder) -> str | None:
    """eos_token_id may be several ids or None (F11, state-spaces/mamba PR 1040)."""
    new = follow(HASH, PROMPT, 16)[len(PROMPT) :]
    kinds = (None, [], [new[6]], [new[9], new[3]], (new[3], new[9]), VOCABULARY + 9)
    return _wrong_text(decoder, (Case(16, 4, HALF, ends=ends) for ends in kinds))


def padded_vocabulary(decoder: Decoder) -> str | None:
    """A draft with more ids than the target does no harm, or is refused at once, naming both sizes (F09,
    huggingface/transformers 45307)."""
    larger = VOCABULARY + 11
    for when, foreign in (("always", lambda n: True), ("at times", lambda n: n % 3 == 0)):
        case = Case(
            16,
            4,
            f"has {larger} ids, {larger - VOCABULARY} more than the target, and {when} proposes id {larger - 3}",
            special_draft=lambda prefix, foreign=foreign: (
                larger - 3 if foreign(len(prefix)) else HASH(prefix)
            ),
            draft_vocabulary=larger,
        )
        run = run_case(decoder, case)
        said = str(run.error) if isinstance(run.error, ValueError) else ""
        called = run.target.calls or run.draft.calls
        if called or str(VOCABULARY) not in said or str(larger) not in said:
            sentence = run.problem or _difference(run)
            if sentence:
                return sentence
    return None


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        same_tokens,
        end_token_everywhere,
        budget,
        acceptance_rate,
        pass_count,
        fed_tokens,
        cache_contents,
        first_token_verified,
        one_token_prompt,
        caller_list_untouched,
        end_token_kinds,
        padded_vocabulary,
    )
}
# What the problem statement does not ask for: it has one end token and one vocabulary.
BEYOND_THE_STATEMENT = frozenset({"end_token_kinds", "padded_vocabulary"})


def run_checks(decoder: Decoder) -> dict[str, str | None]:
    """Every check by name, with None or what it found.

    >>> from specdec_lab import speculative_decode
    >>> set(run_checks(speculative_decode).values())
    {None}
    """
    return {name: check(decoder) for name, check in CHECKS.items()}


# ---------------------------------------------------------------- helpers


def _with_first_draft_wrong(case: Case) -> Case:
    """A draft that errs exactly where its context is the true text, and guesses rightly behind its own error."""
    text = follow(case.rule, case.prompt, case.new_tokens + case.gamma + 1)

    def draft(prefix: Sequence[int]) -> int:
        answer = case.rule(prefix)
        return (answer + 1) % VOCABULARY if list(prefix) == text[: len(prefix)] else answer

    return replace(case, special_draft=draft)


def _wrong_text(decoder: Decoder, cases: Iterable[Case]) -> str | None:
    for case in cases:
        run = run_case(decoder, case)
        sentence = run.problem or _difference(run)
        if sentence:
            return sentence
    return None


def _difference(run: Run) -> str | None:
    """A sentence about the first token that is not as in the truth, or None."""
    case, got, expected = run.case, run.sequence, run.case.truth()
    if got == expected:
        return None
    start, at = len(case.prompt), common_length(got, expected)
    if got == expected[start:]:
        return f"{case}: the new tokens are right, but the answer should begin with the prompt."
    if at < start:
        return f"{case}: the answer should begin with the prompt, got {short(got)}."
    if at == len(got):
        return (
            f"{case}: the text ends after {at - start} new tokens, expected {short(expected[at:])} to follow."
        )
    if at < len(expected):
        due, came = short(expected[at:], 3), short(got[at:], 3)
        return f"{case}: the text is wrong from new token {at - start + 1} on, expected {due}, got {came}."
    last = f"{case.new_tokens} new tokens"
    if expected[-1] in check_end_tokens(case.ends):
        last = f"the end token {expected[-1]} (new token {at - start})"
    return f"{case}: expected nothing behind {last}, got {short(got[at:])}."


def _foreign_entry(run: Run, model: AuditedModel, held: list[int], fed: list[int]) -> int | None:
    """The first position of the context of a pass that has no business there, or None.

    The target's cache may hold text only, and what is fed goes on with text or a guess. The draft's context is text,
    then what the draft itself says behind it.
    """
    text_only = len(held) if model is run.target else 0
    context = [*held, fed[0]] if model is run.target else [*held, *fed]
    for at in range(common_length(context, run.sequence), len(context)):
        if at < text_only or context[at] != run.case.draft_rule(context[:at]):
            return at
    return None
