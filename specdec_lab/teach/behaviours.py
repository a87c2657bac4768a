"""What a right `speculative_decode` does, behaviour by behaviour: the cases that are tried, how each is judged, and three
hints, from a question to the very line.

The order is that in which things are taught: first the text, then the end token and the budget, then the work, the
caches, the rate. Smaller cases are looked for on a fixed grid, from the smallest on, so the first that fails is minimal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from . import judgements
from .audit import AGREES, HALF, HASH, NEVER, PROMPT, VOCABULARY, Case, follow
from .checks import COUNTING, LONG_PROMPT, first_guess_wrong, larger_draft, wrong_text_or_no_refusal
from .grading import WASTEFUL, Behaviour
from .judgements import DRAFT, TARGET, judge_by, judge_where_right
from .small_cases import NO_END, ONCE, PROMPTS, in_words, small_cases

_AGREES, _NEVER = {"draft": AGREES}, {"draft": NEVER}
_ALL = (_AGREES, _NEVER, *ONCE)


def _full(new: int, gamma: int, draft: str = AGREES, **more: Any) -> Case:
    return Case(new, gamma, draft, **({} if "end_at" in more else {"ends": NO_END}) | more)


# ---------------------------------------------------------------- how a case is judged


def _refused_or_right(runs: Any, case: Case) -> str | None:
    found = wrong_text_or_no_refusal(runs(case))
    if found:
        runs.answered(case)
    return found


_text = judge_by(judgements.wrong_text)
_rate = judge_where_right(judgements.miscounted_rate)


def _behaviour(
    name: str, expected: str, cases: Iterable[Case], judge: Any, smaller: Any, *hints: str, **more: Any
):
    return Behaviour(
        name, expected, tuple(cases), judge, hints, smaller=tuple(smaller), words=in_words, **more
    )


def _places(*numbers: int, drafts: tuple[str, ...] = (AGREES,)) -> list[Case]:
    """γ = 4, so a round of an agreeing draft adds five tokens."""
    return [_full(16, 4, draft, end_at=number) for number in numbers for draft in drafts]


BEHAVIOURS = (
    _behaviour(
        "answers",
        "a pair comes back: token ids and the acceptance rate",
        [_full(1, 1, prompt=(1,)), _full(2, 1, prompt=(1,)), _full(6, 2, HALF), _full(12, 4, HALF)],
        judge_by(judgements.no_answer),
        small_cases(_ALL, lambda new, gamma: new <= 4 and gamma <= 2),
        "What does the sentence say: an error, another kind of answer, no end? Start with max_new_tokens = 1.",
        "Models are called as model.forward(tensor of shape (1, n), use_cache=True, past_key_values=cache). The answer has "
        ".logits of shape (1, n, vocab) and .past_key_values. Only model.truncate_cache may look into a cache.",
        "Every round must add at least one token, the target's own, or the loop never ends. At the end: "
        "return sequence, (accepted / drafted if drafted else 0.0).",
    ),
    _behaviour(
        "agreeing_draft",
        "with a draft that always agrees, the text is that of plain decoding",
        [_full(24, gamma) for gamma in (1, 2, 4, 8)],
        _text,
        small_cases([_AGREES]),
        "How many tokens does a round add when every guess is right?",
        "All K guesses and one more: the row behind the last guess already scores the next token, the bonus.",
        "rows has K + 1 entries; row i scores the token behind guess i - 1. Add guesses[:K] and rows[K].argmax().",
    ),
    _behaviour(
        "disagreeing_draft",
        "with a draft that never agrees, the text is that of plain decoding",
        [_full(24, gamma, NEVER) for gamma in (1, 2, 4, 8)],
        _text,
        small_cases([_NEVER]),
        "Which token comes to the place of the first guess that differs?",
        "The target's own. And the next pass must not see the rejected guesses any more: are they out of its cache?",
        "sequence.append(int(rows[agreed].argmax())); then cut the target's cache to len(sequence) - 1: its last token has "
        "been chosen but not fed.",
    ),
    _behaviour(
        "half_agreeing_draft",
        "with a draft that agrees about half the time, the text is that of plain decoding",
        [_full(24, gamma, HALF) for gamma in (1, 2, 4, 8)],
        _text,
        small_cases(ONCE),
        "What happens to guesses behind the first one that differs?",
        "They were made for another text. A later guess that happens to agree counts for nothing.",
        "Stop at the first difference: while agreed < K and guesses[agreed] == choices[agreed]: agreed += 1.",
    ),
    _behaviour(
        "first_guess_judged",
        "the first guess of a round is compared like the others",
        [first_guess_wrong(_full(12, gamma, prompt=(1, 1, 1))) for gamma in (1, 4)],
        _text,
        small_cases([_AGREES], special=first_guess_wrong),
        "Which row of logits judges the first guess?",
        "The one behind the last token of the sequence, so that token must be in the pass as well: K + 1 rows for K guesses.",
        "Feed [last token, *guesses] in one pass; row 0 scores guesses[0]. In general: rows[-1 - K:].",
    ),
    _behaviour(
        "one_token_prompt",
        "a prompt of one token is enough",
        [_full(9, gamma, draft, prompt=(10,)) for draft, gamma in product((AGREES, HALF), (1, 4))],
        _text,
        small_cases(_ALL, prompts=PROMPTS[:1]),
        "What is fed up front when the prompt has one token only?",
        "All of the prompt but its last token is nothing, and no model takes an empty input.",
        "Skip the prefill where it would be empty, or let the prompt ride on the first pass.",
    ),
    # ------------------------------------------------------------ the end token
    _behaviour(
        "end_token_first",
        "the text stops behind an end token that is the first guess of a round",
        _places(1, 6, 11),
        _text,
        small_cases([_AGREES], lambda new, gamma: gamma >= 2 and new > 2, lambda gamma: 1),
        "Who looks for the end token: every token of a block, or only the last?",
        "Whatever is accepted behind the end token must go again, and so must the bonus.",
        "for token in block: sequence.append(token); if token == eos_token_id: return …",
    ),
    _behaviour(
        "end_token_middle",
        "the text stops behind an end token in the middle of a block",
        _places(2, 3, 7, 8),
        _text,
        small_cases([_AGREES], lambda new, gamma: gamma >= 3 and new > 3, lambda gamma: 2),
        "A block of five is accepted and its second token is the end token. How long is the text?",
        "Comparing sequence[-1] with the end token sees the last token of the block only.",
        "Cut the block behind its first end token, before it is added: block = block[: block.index(eos_token_id) + 1].",
    ),
    _behaviour(
        "end_token_last",
        "the text stops behind an end token that is the last guess: no bonus follows",
        _places(4, 9),
        _text,
        small_cases([_AGREES], lambda new, gamma: gamma >= 2 and new > gamma + 1, lambda gamma: gamma),
        "All guesses are accepted and the last one ends the text. Is there a bonus?",
        "No: nothing follows an end token, however sure the target is about it.",
        "Look for the end token in the accepted guesses and the target's own token together, in this order.",
    ),
    _behaviour(
        "end_token_bonus",
        "the text stops behind an end token that is the bonus",
        _places(5, 10),
        _text,
        small_cases([_AGREES], lambda new, gamma: new > gamma + 1, lambda gamma: gamma + 1),
        "Who looks at the bonus?",
        "The target's own token may be the end token too; a test inside the loop over guesses does not see it.",
        "Add the bonus to the block first, and look for the end token then.",
    ),
    _behaviour(
        "end_token_correction",
        "the text stops behind an end token that corrects a guess",
        [*_places(1, 5, drafts=(NEVER,)), *_places(*range(1, 12), drafts=(HALF,))],
        _text,
        [
            *small_cases([_NEVER, ONCE[0]], lambda new, gamma: new > 1, lambda gamma: 1),
            *small_cases([_NEVER], lambda new, gamma: new > 2, lambda gamma: 2),
        ],
        "The draft does not foresee the end, the target does. Does the text stop?",
        "The correction is a token like any other, and must be compared with the end token.",
        "One test for every token that is added, wherever it came from.",
    ),
    _behaviour(
        "end_token_in_the_prompt",
        "an end token in the prompt stops nothing",
        [_full(16, 4, HALF, ends=token) for token in (PROMPT[0], PROMPT[-1])],
        _text,
        [replace(case, ends=case.prompt[-1]) for case in small_cases(_ALL)],
        "Where does the search for the end token begin?",
        "The prompt may hold the end token of an earlier turn. Only new tokens end the text.",
        "Look in what is added, not in the whole sequence.",
    ),
    # ------------------------------------------------------------ the budget
    _behaviour(
        "budget_of_one",
        "max_new_tokens = 1: one token comes",
        [_full(1, gamma, draft) for draft, gamma in product((AGREES, NEVER), (1, 4))],
        judge_where_right(judgements.wrong_length),
        small_cases([_AGREES, _NEVER], lambda new, gamma: new == 1),
        "How many guesses can be of use when one token is wanted?",
        "None: the pass that would judge a guess brings a token of its own. And 0 accepted ÷ 0 drafted is no number.",
        "K = min(gamma, wanted - 1), and a rate of 0.0 when nothing was drafted.",
    ),
    _behaviour(
        "budget_of_gamma",
        "max_new_tokens = γ: exactly γ tokens come",
        [_full(gamma, gamma, draft) for draft, gamma in product((AGREES, HALF, NEVER), (2, 4, 8))],
        judge_where_right(judgements.wrong_length),
        small_cases(_ALL, lambda new, gamma: new == gamma),
        "A round may add γ + 1 tokens. How many are wanted?",
        "Either draft less in the last round, or drop what is too much. The bonus counts as well.",
        "K = min(gamma, max_new_tokens - new), then block[: max_new_tokens - new].",
    ),
    _behaviour(
        "budget_of_gamma_plus_one",
        "max_new_tokens = γ + 1: exactly γ + 1 tokens come, in one round if all guesses are right",
        [_full(gamma + 1, gamma, draft) for draft, gamma in product((AGREES, HALF, NEVER), (1, 4, 8))],
        judge_where_right(judgements.wrong_length),
        small_cases(_ALL, lambda new, gamma: new == gamma + 1),
        "What is left when one round is short by a single token?",
        "The last round has a budget of its own: what is still wanted, not max_new_tokens.",
        "wanted = len(prompt) + max_new_tokens - len(sequence), anew in every round.",
    ),
    _behaviour(
        "gamma_above_budget",
        "γ > max_new_tokens: exactly max_new_tokens come",
        [_full(new, 8, draft) for draft, new in product((AGREES, NEVER), (2, 3, 5, 7))],
        judge_where_right(judgements.wrong_length),
        small_cases(_ALL, lambda new, gamma: gamma > new > 1),
        "Who tells the draft that γ is more than can be used?",
        "The budget is checked once a round, and a round adds up to γ + 1 tokens: so cap what is drafted.",
        "for _ in range(min(gamma, wanted - 1)): draft one.",
    ),
    _behaviour(
        "input_left_alone",
        "the caller's list is as it was",
        [_full(9, 4, HALF)],
        judge_by(judgements.list_changed),
        small_cases(_ALL),
        "Is your sequence a list of your own?",
        "sequence = input_ids is a second name for the caller's list, and += changes it in place.",
        "sequence = list(input_ids).",
    ),
    # ------------------------------------------------------------ the work
    _behaviour(
        "one_target_pass_per_round",
        "the target makes one pass a round, and no round is too many",
        [_full(50, gamma, draft, rule=COUNTING) for draft, gamma in product((AGREES, HALF, NEVER), (1, 4))],
        judge_where_right(judgements.too_many_passes, TARGET),
        small_cases(_ALL),
        "How many passes does the target need to judge K guesses?",
        "One: all guesses go in together, and every row judges one. Also: is the bonus kept? It saves a round.",
        "logits = target.forward(tensor([[*pending, *guesses]]), …).logits[0, -K - 1:], once a round; after a full "
        "acceptance add the last row's argmax as well.",
    ),
    _behaviour(
        "one_draft_pass_per_guess",
        "the draft makes one pass a guess, and at most one more a round",
        [_full(50, gamma, draft, rule=COUNTING) for draft, gamma in product((AGREES, HALF, NEVER), (1, 4))],
        judge_where_right(judgements.too_many_passes, DRAFT),
        small_cases(_ALL),
        "What does each pass of the draft bring?",
        "A guess; and a pass that catches up may be had for nothing, by feeding two tokens in the next one.",
        "First pass of a round: everything the draft has not read yet. Each later one: the guess before.",
        broken=WASTEFUL,
    ),
    _behaviour(
        "target_reads_once",
        "no token is fed to the target twice without need",
        [_full(24, 4, draft, prompt=LONG_PROMPT) for draft in (AGREES, HALF, NEVER)],
        judge_where_right(judgements.too_many_fed, TARGET, True),
        small_cases(_ALL),
        "What does the target's cache hold already?",
        "Everything confirmed but the last token. Only what it has not read needs to be fed: this token and the guesses.",
        "unread = sequence[read:], with read = len(sequence) - 1 after each cut. A prefill's cache must be kept, too.",
        broken=WASTEFUL,
    ),
    _behaviour(
        "draft_reads_once",
        "no token is fed to the draft twice without need",
        [_full(24, 4, draft, prompt=LONG_PROMPT) for draft in (AGREES, HALF, NEVER)],
        judge_where_right(judgements.too_many_fed, DRAFT, True),
        small_cases(_ALL),
        "Does the draft start every round from an empty cache?",
        "Roll its cache back instead: what is confirmed stays.",
        "draft.truncate_cache(cache, min(length, len(sequence) - 1)), and keep the cache for the next round.",
        broken=WASTEFUL,
    ),
    # ------------------------------------------------------------ the caches
    _behaviour(
        "target_cache",
        "the target's cache holds confirmed text only, each token once",
        [_full(24, gamma, draft) for draft, gamma in product((NEVER, HALF, AGREES), (1, 2, 4))],
        judge_where_right(judgements.foreign_entry_by_round, TARGET),
        small_cases(_ALL),
        "After a rejection, how long is the target's cache, and how long may it be?",
        "The pass put the last token and all guesses into it. What was rejected must go, before the next pass.",
        "cache = target.truncate_cache(cache, len(sequence) - 1), with the sequence that already has the correction.",
    ),
    _behaviour(
        "draft_cache",
        "the draft's cache holds confirmed text and its own guesses, each token once",
        [_full(24, gamma, draft) for draft, gamma in product((NEVER, HALF), (1, 2, 4))],
        judge_where_right(judgements.foreign_entry_by_round, DRAFT),
        small_cases([_NEVER, *ONCE]),
        "The text is right whatever the draft's cache holds. So who would notice?",
        "The draft keeps its own rejected guesses unless its cache is cut like the target's, to the same text.",
        "cache = draft.truncate_cache(cache, min(its length, len(sequence) - 1)); then feed sequence[that length:].",
    ),
    _behaviour(
        "draft_catches_up",
        "after a full acceptance the draft reads its own last guess before it goes on",
        [_full(24, gamma) for gamma in (1, 2, 4)],
        judge_where_right(judgements.foreign_entry_by_round, DRAFT),
        small_cases([_AGREES]),
        "The draft's last guess was never fed to the draft itself. When is it?",
        "After a full acceptance two tokens are missing in its cache: the last guess and the bonus.",
        "Feed sequence[draft_length:], however many that are, not [sequence[-1]].",
    ),
    _behaviour(
        "guessing_stops_at_the_end",
        "a draft that says the end token guesses no further in this round",
        _places(1, 2, 3, 6, 7, 8),
        judge_where_right(judgements.guessed_behind_the_end),
        small_cases([_AGREES], lambda new, gamma: gamma >= 2 and new > 2, lambda gamma: 1),
        "What is a guess behind an end token good for?",
        "It can never be used: if the end token is accepted the text is over, if not the guess is rejected.",
        "guesses.append(token); if token == eos_token_id: break.",
    ),
    # ------------------------------------------------------------ the acceptance rate
    _behaviour(
        "rate_of_a_perfect_draft",
        "a draft that always agrees has rate 1",
        [_full(new, gamma) for new, gamma in product((7, 24), (1, 4, 8))],
        _rate,
        small_cases([_AGREES], lambda new, gamma: new > 1),
        "Which tokens were drafted? Is the bonus one of them?",
        "Neither the correction nor the bonus counts, and short rounds draft fewer than γ tokens.",
        "drafted += len(guesses); accepted += agreed; the rate is accepted / drafted.",
    ),
    _behaviour(
        "rate_is_accepted_over_drafted",
        "the rate is accepted ÷ drafted tokens, as the passes show them",
        [_full(new, gamma, draft) for new, gamma, draft in product((7, 24), (1, 4, 8), (HALF, NEVER))],
        _rate,
        small_cases([_NEVER, *ONCE], lambda new, gamma: new > 1),
        "Over what do you divide: rounds, γ × rounds, new tokens, drafted tokens?",
        "Guesses behind the first difference were drafted as well; the correction never was.",
        "Count in every round: drafted += len(guesses); accepted += agreed, before anything is added or cut.",
    ),
    _behaviour(
        "rate_with_an_end_token",
        "the rate counts the last round like any other, also when the end token cuts it short",
        [_full(16, 4, draft, end_at=number) for number in range(1, 12) for draft in (AGREES, HALF)],
        _rate,
        small_cases([_AGREES, *ONCE], lambda new, gamma: new > 3, lambda gamma: 3),
        "Is the round in which the text ends counted?",
        "A return in the middle of a round skips whatever stands below it, such as the counting.",
        "Count right after the comparison, before you look for the end token.",
    ),
    _behaviour(
        "rate_without_drafts",
        "the rate is 0.0 when nothing was drafted",
        [_full(1, gamma, draft) for gamma, draft in product((1, 4), (AGREES, NEVER))],
        _rate,
        small_cases([_AGREES, _NEVER], lambda new, gamma: new == 1),
        "With one new token nothing need be drafted. What is 0 ÷ 0?",
        "By agreement the rate is then 0.0.",
        "return sequence, accepted / drafted if drafted else 0.0.",
    ),
)

_NEW = follow(HASH, PROMPT, 16)[len(PROMPT) :]
BEYOND = (
    _behaviour(
        "several_end_tokens",
        "eos_token_id may be several ids, or None",
        [
            Case(16, 4, HALF, ends=ends)
            for ends in (None, [], [_NEW[6]], [_NEW[9], _NEW[3]], (_NEW[3], _NEW[9]), VOCABULARY + 9)
        ],
        _text,
        [
            replace(case, ends=ends)
            for ends in ([3], None)
            for case in small_cases([_AGREES], prompts=PROMPTS[:1])
        ],
        "What is eos_token_id for a model with two end tokens?",
        "Compare with a set of ids, which may be empty.",
        "ends = set() if eos_token_id is None else {eos_token_id} if isinstance(eos_token_id, int) else set(eos_token_id).",
    ),
    _behaviour(
        "larger_draft_vocabulary",
        "a draft with more ids than the target does no harm, or is refused at once, naming both sizes",
        [larger_draft(16, 4, when, ends=NO_END) for when in ("always", "at times")],
        _refused_or_right,
        [
            larger_draft(new, gamma, "always", prompt=(1,), ends=NO_END, rule=COUNTING)
            for new, gamma in product(range(1, 6), range(1, 4))
        ],
        "Models of one family pad their vocabularies differently. What if the draft says an id that the target lacks?",
        "It cannot be looked up in the target's embedding. Choose among the ids that both have.",
        "token = int(draft_logits[: target_logits.shape[-1]].argmax()).",
    ),
)
