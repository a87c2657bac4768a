"""Checks of a speculative decoder: each takes a function and returns None, or one sentence that says what is wrong.

A check runs the function on scripted models, whose right answer is known without decoding, and looks at one thing:
the text, the rate, the passes, the tokens fed, what the caches held. What can be wrong with one run is in
`judgements.py`. The sentence names the input, what was expected and what came. A decoder that raises or never ends is one more sentence, never an error here.
It does not look inside the function, does not time it, and hands out no marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from specdec_lab.models.scripted import NextToken, last_token

from .audit import AGREES, DRAFTS, HALF, HASH, NEVER, PROMPT, VOCABULARY, Case, Decoder, Run, follow, run_case
from .judgements import (
    DRAFT,
    TARGET,
    foreign_entry,
    list_changed,
    too_many_fed,
    too_many_passes,
    wrong_length,
    wrong_rate,
    wrong_text,
)

Check = Callable[[Decoder], str | None]

COUNTING = last_token(step=1, vocab_size=VOCABULARY)
LONG_PROMPT = tuple((7 * i * i + 3 * i) % VOCABULARY for i in range(40))


def same_tokens(decoder: Decoder) -> str | None:
    """The text is the target's own greedy text, whatever the draft is worth. Taught in notebook 03."""
    return _first(
        decoder, wrong_text, (Case(24, gamma, draft) for draft, gamma in product(DRAFTS, (1, 2, 4, 8)))
    )


def end_token_everywhere(decoder: Decoder) -> str | None:
    """The text stops behind the end token wherever in a block it stands (F01, huggingface/transformers 47912)."""
    new = follow(HASH, PROMPT, 16)[len(PROMPT) :]
    in_text = (Case(16, 4, draft, ends=new[place]) for draft in (AGREES, HALF) for place in range(11))
    in_prompt = (Case(16, 4, HALF, ends=token) for token in (PROMPT[0], PROMPT[-1]))  # must not stop anything
    return _first(decoder, wrong_text, [*in_text, *in_prompt])


def budget(decoder: Decoder) -> str | None:
    """Exactly max_new_tokens come out where no end token does (F04, huggingface/transformers PR 46993)."""
    series = product((AGREES, NEVER), (1, 4, 8), (1, 2, 3, 5, 7, 16))
    return _first(decoder, wrong_length, (Case(wanted, gamma, draft) for draft, gamma, wanted in series))


def acceptance_rate(decoder: Decoder) -> str | None:
    """The rate is accepted ÷ drafted tokens, 0.0 when nothing was drafted (F05, sgl-project/sglang PR 13212)."""
    new = follow(HASH, PROMPT, 16)[len(PROMPT) :]
    cases = [Case(wanted, gamma, draft) for wanted, gamma, draft in product((1, 7, 24), (1, 4, 8), DRAFTS)]
    with_end = (Case(16, 4, HALF, ends=new[place]) for place in range(11))
    return _first(decoder, wrong_rate, [*cases, *with_end])


def pass_count(decoder: Decoder) -> str | None:
    """One target pass a round, and no round too many: the bonus token is kept (F26, ohdearquant/lattice PR 509)."""
    cases = (Case(50, gamma, draft, rule=COUNTING) for draft, gamma in product(DRAFTS, (1, 4)))
    return _first(decoder, _either_model(too_many_passes), cases)


def fed_tokens(decoder: Decoder) -> str | None:
    """No token is fed twice without need: caches are rolled back, not refilled (F27, paiml/aprender PR 2014)."""
    cases = (Case(24, 4, draft, prompt=LONG_PROMPT) for draft in DRAFTS)
    return _first(decoder, _either_model(too_many_fed), cases)


def cache_contents(decoder: Decoder) -> str | None:
    """Before every pass both caches hold confirmed text, without a gap, a stale or a repeated entry (F27)."""
    cases = (Case(24, gamma, draft) for draft, gamma in product(DRAFTS, (1, 2, 4)))
    return _first(decoder, _either_model(foreign_entry), cases)


def first_token_verified(decoder: Decoder) -> str | None:
    """The first drafted token is compared like the others: row i scores token i + 1 (F25, ohdearquant/lattice 243)."""
    cases = (first_guess_wrong(Case(12, gamma, prompt=(1, 1, 1))) for gamma in (1, 4))
    return _first(decoder, wrong_text, cases)


def one_token_prompt(decoder: Decoder) -> str | None:
    """A prompt of one token is enough (F29, huggingface/transformers PR 40906)."""
    pairs = product((AGREES, HALF), (1, 4))
    return _first(decoder, wrong_text, (Case(9, gamma, draft, prompt=(10,)) for draft, gamma in pairs))


def caller_list_untouched(decoder: Decoder) -> str | None:
    """The list of the caller is as it was (F29, mem0ai/mem0 5580)."""
    return _first(decoder, list_changed, [Case(9, 4, HALF)])


def end_token_kinds(decoder: Decoder) -> str | None:
    """eos_token_id may be several ids or None (F11, state-spaces/mamba PR 1040)."""
    new = follow(HASH, PROMPT, 16)[len(PROMPT) :]
    kinds = (None, [], [new[6]], [new[9], new[3]], (new[3], new[9]), VOCABULARY + 9)
    return _first(decoder, wrong_text, (Case(16, 4, HALF, ends=ends) for ends in kinds))


def padded_vocabulary(decoder: Decoder) -> str | None:
    """A draft with more ids than the target does no harm, or is refused at once, naming both sizes (F09,
    huggingface/transformers 45307)."""
    return _first(decoder, wrong_text_or_no_refusal, (larger_draft(16, 4, when) for when in FOREIGN))


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


def run_checks(decoder: Decoder) -> dict[str, str | None]:
    """Every check by name, with None or what it found.

    >>> from specdec_lab import speculative_decode
    >>> set(run_checks(speculative_decode).values())
    {None}
    """
    return {name: check(decoder) for name, check in CHECKS.items()}


# ---------------------------------------------------------------- cases of a special kind


def first_guess_wrong(case: Case) -> Case:
    """With a draft that errs exactly where its context is the true text, and guesses rightly behind its own error."""

    def rule_of(case: Case) -> NextToken:
        text = follow(case.rule, case.prompt, case.new_tokens + case.gamma + 1)

        def draft(prefix: Sequence[int]) -> int:
            answer = case.rule(prefix)
            return (answer + 1) % VOCABULARY if list(prefix) == text[: len(prefix)] else answer

        return draft

    return replace(case, draft="is wrong in the first token of every block", special_draft=rule_of)


FOREIGN = {"always": 1, "at times": 3}  # every so many positions


def larger_draft(new_tokens: int, gamma: int, when: str, **more: Any) -> Case:
    """With a draft of more ids than the target, which proposes one of them `when` that is due."""
    larger = VOCABULARY + 11

    def rule_of(case: Case) -> NextToken:
        return lambda prefix: larger - 3 if len(prefix) % FOREIGN[when] == 0 else case.rule(prefix)

    says = (
        f"has {larger} ids, {larger - VOCABULARY} more than the target, and {when} proposes id {larger - 3}"
    )
    return Case(new_tokens, gamma, says, special_draft=rule_of, draft_vocabulary=larger, **more)


def wrong_text_or_no_refusal(run: Run) -> str | None:
    """Wrong text, where the decoder has not refused the pair at once with both sizes."""
    said = str(run.error) if isinstance(run.error, ValueError) else ""
    called = run.target.calls or run.draft.calls
    if not called and str(VOCABULARY) in said and str(run.case.draft_vocabulary) in said:
        return None
    return wrong_text(run)


def _first(decoder: Decoder, judge: Callable[[Run], str | None], cases: Iterable[Case]) -> str | None:
    """The first case that is judged wrong, and the judgement."""
    for case in cases:
        sentence = judge(run_case(decoder, case))
        if sentence:
            return f"{case}: {sentence}"
    return None


def _either_model(judge: Callable[[Run, str], str | None]) -> Callable[[Run], str | None]:
    return lambda run: judge(run, TARGET) or judge(run, DRAFT)
