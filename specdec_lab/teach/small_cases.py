"""The smallest cases there are, in a fixed order, and a case in words.

Whoever looks for a smaller failing case walks the grid from its beginning: the first that fails is minimal, and it is
the same one every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from specdec_lab.models.scripted import NextToken, wrong_when

from .audit import HASH, VOCABULARY, Case, short
from .checks import COUNTING

NO_END = 99  # an id that no model has: an end token that never comes


def errs_once(number: int) -> dict[str, Any]:
    """The fields of a case whose draft errs at one new token only, 1 for the first."""

    def rule_of(case: Case) -> NextToken:
        return wrong_when(case.rule, VOCABULARY, lambda position: position == len(case.prompt) + number - 1)

    return {"draft": f"errs at new token {number} only", "special_draft": rule_of}


ONCE = tuple(errs_once(number) for number in (1, 2, 3))
PROMPTS = ((1,), (1, 2), (1, 2, 3, 4))
_SIZES = sorted(
    product(range(1, 9), range(1, 5), PROMPTS), key=lambda s: (s[0] + s[1] + len(s[2]), s[0], s[1])
)


def small_cases(
    drafts: Iterable[dict[str, Any]],
    fits: Callable[[int, int], bool] = lambda new, gamma: True,
    end_at: Callable[[int], int] | None = None,
    prompts: Iterable[tuple[int, ...]] = PROMPTS,
    special: Callable[[Case], Case] = lambda case: case,
) -> list[Case]:
    """The grid, from the smallest case on: by new tokens + γ + prompt, then simpler drafts and rules first.

    Args:
        drafts: fields of a `Case` for each draft.
        fits: (new tokens, γ) → whether such a case belongs here.
        end_at: γ → the number of the new token that is the end token; None: it never comes.
        prompts: those that may be used.
        special: what is done to each case.
    """
    cases = []
    for new, gamma, prompt in _SIZES:
        if not fits(new, gamma) or prompt not in prompts:
            continue
        for draft, rule in product(drafts, (COUNTING, HASH)):
            ends = {"ends": NO_END} if end_at is None else {"end_at": end_at(gamma)}
            cases.append(special(Case(new, gamma, prompt=prompt, rule=rule, **ends, **draft)))
    return cases


def in_words(case: Case) -> str:
    """The call on one line, and on the next what the models say."""
    text = case.truth()
    never = " (never comes)" if case.ends == NO_END else ""
    counts = ", the last one plus 1" if case.rule is COUNTING else ""
    return (
        f"speculative_decode(target, draft, {list(case.prompt)}, max_new_tokens={case.new_tokens}, "
        f"gamma={case.gamma}, eos_token_id={case.ends}){never}\n"
        f"The target alone adds {short(text[len(case.prompt) :], 12)}{counts}; the draft {case.draft}."
    )
