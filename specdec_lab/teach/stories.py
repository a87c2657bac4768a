"""The story behind each greedy exhibit of the bug museum: how one gets there, what the grader finds, the shortest case.

Only data. That the findings and the cases are what the grader says is held by a test, and so is that none is missing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Story:
    """What is told beside an exhibit.

    Attributes:
        text: how the fault comes about, and why it stays unnoticed.
        breaks: behaviours of `check_speculative_decode(…, beyond=True)` that are not right, the taught one first.
        shortest: the smallest case that shows the taught one, and what the models say in it.
    """

    text: str
    breaks: tuple[str, ...]
    shortest: str


def _story(text: str, breaks: str, call: str, models: str) -> Story:
    return Story(text, tuple(breaks.split()), f"speculative_decode({call}\n{models}")


STORIES: dict[str, Story] = {
    "stale_target_cache": _story(
        "The verify pass writes every guess into the target's cache, accepted or not. Whoever keeps only "
        "a counter of what is valid, and never cuts, has a cache that is longer than its counter says. "
        "The next pass attends to tokens that are not in the text.",
        "target_cache disagreeing_draft half_agreeing_draft first_guess_judged one_token_prompt "
        "end_token_correction end_token_in_the_prompt rate_is_accepted_over_drafted "
        "rate_with_an_end_token several_end_tokens larger_draft_vocabulary",
        "target, draft, [1], max_new_tokens=2, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3], the last one plus 1; the draft never agrees.",
    ),
    "stale_draft_cache": _story(
        "The target is cut back, because otherwise the text goes wrong; the draft is forgotten, because "
        "nothing goes wrong that a test of the text could see. The draft goes on behind guesses that were "
        "refused, and the speed-up melts away.",
        "draft_cache",
        "target, draft, [1], max_new_tokens=3, gamma=2, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3, 4], the last one plus 1; the draft never agrees.",
    ),
    "hole_in_draft_cache": _story(
        "The last guess of a round is never fed to the draft: it was its output. After a rejection that "
        "is no matter, since the guess is gone. After a full acceptance it is part of the text, the next "
        "round feeds only the bonus, and every later position is one off.",
        "draft_catches_up one_target_pass_per_round draft_cache",
        "target, draft, [1], max_new_tokens=4, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3, 4, 5], the last one plus 1; the draft always agrees.",
    ),
    "rewind_too_far": _story(
        "Cutting one entry more than necessary looks safe. It is, if the entry is fed again. Here the "
        "counter says that it is still there, so a confirmed token is missing for good, one more in every "
        "round.",
        "draft_cache",
        "target, draft, [1], max_new_tokens=3, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3, 4], the last one plus 1; the draft never agrees.",
    ),
    "rolled_back_to_full_length": _story(
        "After a round the sequence has n tokens, so the cache is cut to n. But the last token has been "
        "chosen and not fed: the entry in its place belongs to the rejected guess. The right length is n "
        "- 1.",
        "target_cache disagreeing_draft half_agreeing_draft first_guess_judged one_token_prompt "
        "end_token_correction end_token_in_the_prompt rate_is_accepted_over_drafted "
        "rate_with_an_end_token several_end_tokens larger_draft_vocabulary",
        "target, draft, [1], max_new_tokens=2, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3], the last one plus 1; the draft never agrees.",
    ),
    "draft_cache_reset": _story(
        "An empty cache is never stale, so the draft starts over in every round. All is right, and the "
        "cheap model reads the whole text again for each handful of guesses.",
        "draft_reads_once",
        "target, draft, [1, 2], max_new_tokens=6, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [3, 4, 5, 6, 7, 8], the last one plus 1; the draft always agrees.",
    ),
    "prefix_fed_twice": _story(
        "A loop was written without caches, and a cache was added to it later. The call still passes the "
        "whole sequence, now behind a cache that holds it already.",
        "target_cache agreeing_draft disagreeing_draft half_agreeing_draft first_guess_judged "
        "one_token_prompt end_token_first end_token_middle end_token_last end_token_bonus "
        "end_token_correction end_token_in_the_prompt rate_of_a_perfect_draft "
        "rate_is_accepted_over_drafted rate_with_an_end_token several_end_tokens larger_draft_vocabulary",
        "target, draft, [1], max_new_tokens=2, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3], the last one plus 1; the draft never agrees.",
    ),
    "prefill_done_twice": _story(
        "A prefill was put up front, as in every inference engine, and its cache went out of scope. The "
        "first verify pass reads the prompt once more. On a long prompt that is the longest pass of all.",
        "target_reads_once",
        "target, draft, [1, 2, 3, 4], max_new_tokens=1, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [5], the last one plus 1; the draft always agrees.",
    ),
    "empty_prefill": _story(
        "All of the prompt but its last token is fed up front, so that one token is always pending. It "
        "works for every prompt that a developer tries, and a chat never begins with a single token, "
        "until somebody generates from the begin token alone.",
        "one_token_prompt answers",
        "target, draft, [1], max_new_tokens=1, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2], the last one plus 1; the draft always agrees.",
    ),
    "first_token_unverified": _story(
        "Row 0 of the logits is taken for the judge of the second guess, or the first guess counts as "
        "given, because it came from the confirmed text. With a draft that is usually right at once, few "
        "runs show it.",
        "first_guess_judged disagreeing_draft half_agreeing_draft one_token_prompt end_token_correction "
        "end_token_in_the_prompt several_end_tokens larger_draft_vocabulary",
        "target, draft, [1], max_new_tokens=2, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3], the last one plus 1; the draft is wrong in the first token of every block.",
    ),
    "accepts_past_disagreement": _story(
        "The number of agreeing positions is a sum over a mask, which is one line and no loop. It counts "
        "agreements behind the first difference too, so as many guesses are kept from the front as agreed "
        "anywhere. A cumulative product in front of the sum was missing.",
        "half_agreeing_draft first_guess_judged one_token_prompt end_token_correction "
        "end_token_in_the_prompt rate_is_accepted_over_drafted rate_with_an_end_token several_end_tokens "
        "larger_draft_vocabulary",
        "target, draft, [1], max_new_tokens=3, gamma=2, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3, 4], the last one plus 1; the draft errs at new token 1 only.",
    ),
    "correction_dropped": _story(
        "Accepted tokens are added, rejected ones are not, and the target's own token is left to the next "
        "round. If the draft is wrong at once, nothing is added, and the next round is the same round.",
        "disagreeing_draft answers half_agreeing_draft first_guess_judged one_token_prompt "
        "end_token_correction end_token_in_the_prompt budget_of_gamma budget_of_gamma_plus_one "
        "gamma_above_budget input_left_alone one_target_pass_per_round one_draft_pass_per_guess "
        "target_reads_once draft_reads_once target_cache draft_cache rate_is_accepted_over_drafted "
        "rate_with_an_end_token several_end_tokens larger_draft_vocabulary",
        "target, draft, [1], max_new_tokens=2, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3], the last one plus 1; the draft never agrees.",
    ),
    "bonus_lost": _story(
        "The pass over K guesses yields K + 1 rows, and the code looks at K of them. The text is right. "
        "Each good round yields K tokens in place of K + 1, a fifth less at K = 4, which only a count of "
        "passes shows.",
        "one_target_pass_per_round",
        "target, draft, [1], max_new_tokens=6, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3, 4, 5, 6, 7], the last one plus 1; the draft always agrees.",
    ),
    "no_budget_cap": _story(
        "The budget is tested at the head of the loop, once a round, and a round adds up to γ + 1 tokens. "
        "Most lengths are hit by luck or cut off by whoever called.",
        "gamma_above_budget agreeing_draft one_token_prompt end_token_in_the_prompt budget_of_one "
        "budget_of_gamma budget_of_gamma_plus_one several_end_tokens larger_draft_vocabulary",
        "target, draft, [1], max_new_tokens=2, gamma=3, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3], the last one plus 1; the draft always agrees.",
    ),
    "foreign_ids_passed_on": _story(
        "Embeddings are padded to a round number, another one in each size of a family, and no tokenizer "
        "uses the rest. A draft that is unsure may still put its argmax there, and the target cannot look "
        "the id up.",
        "larger_draft_vocabulary",
        "target, draft, [1], max_new_tokens=2, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3], the last one plus 1; the draft has 64 ids, 11 more than the target, and always proposes id 61.",
    ),
    "caller_list_changed": _story(
        "sequence = input_ids saves a copy. A benchmark that decodes the same prompt twice then decodes "
        "another prompt the second time, a longer one, and measures it.",
        "input_left_alone",
        "target, draft, [1], max_new_tokens=1, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2], the last one plus 1; the draft always agrees.",
    ),
    "end_token_only_last": _story(
        "In plain decoding one token comes at a time, and comparing the last token with the end token is "
        "enough. The test was kept when tokens began to come in blocks. It fails only when the draft "
        "foresees the end, so it looks intermittent.",
        "end_token_middle end_token_first end_token_last end_token_correction guessing_stops_at_the_end "
        "several_end_tokens",
        "target, draft, [1], max_new_tokens=4, gamma=3, eos_token_id=3)",
        "The target alone adds [2, 3], the last one plus 1; the draft always agrees.",
    ),
    "text_behind_end_token": _story(
        "The loop does stop at the end token, and the block was added as a whole before it was looked at. "
        "What the draft guessed behind the end, or the bonus, stays in the text.",
        "end_token_last end_token_first end_token_middle end_token_correction several_end_tokens",
        "target, draft, [1], max_new_tokens=4, gamma=2, eos_token_id=3)",
        "The target alone adds [2, 3], the last one plus 1; the draft always agrees.",
    ),
    "drafts_behind_end_token": _story(
        "The draft is asked for γ tokens and gives γ tokens. What stands behind an end token can never "
        "count, but is drafted, verified, and put into the rate.",
        "guessing_stops_at_the_end rate_with_an_end_token",
        "target, draft, [1], max_new_tokens=3, gamma=2, eos_token_id=2)",
        "The target alone adds [2], the last one plus 1; the draft always agrees.",
    ),
    "end_token_list_ignored": _story(
        "A model has one end token in its tokenizer and two in its generation settings. token == [2, "
        "32000] is simply False, so nothing raises and nothing stops.",
        "several_end_tokens",
        "target, draft, [1], max_new_tokens=3, gamma=1, eos_token_id=[3])",
        "The target alone adds [2, 3], the last one plus 1; the draft always agrees.",
    ),
    "bonus_counted": _story(
        "The length of what a round adds is at hand, the number of accepted guesses is not, so the one is "
        "taken for the other. Rates above 1 get clipped or explained away.",
        "rate_of_a_perfect_draft rate_is_accepted_over_drafted rate_with_an_end_token",
        "target, draft, [1], max_new_tokens=2, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3], the last one plus 1; the draft always agrees.",
    ),
    "rate_over_gamma_times_rounds": _story(
        "γ × rounds is easier to have than a count. The last round drafts less, and a draft that stops at "
        "an end token does too, so a perfect draft seems to err.",
        "rate_of_a_perfect_draft rate_is_accepted_over_drafted rate_with_an_end_token",
        "target, draft, [1], max_new_tokens=2, gamma=2, eos_token_id=99) (never comes)",
        "The target alone adds [2, 3], the last one plus 1; the draft always agrees.",
    ),
    "rate_without_drafts": _story(
        "With one token wanted there is nothing to guess, so nothing was drafted. Nobody calls a decoder "
        "for one token, except a benchmark that measures the time to the first.",
        "rate_without_drafts answers budget_of_one",
        "target, draft, [1], max_new_tokens=1, gamma=1, eos_token_id=99) (never comes)",
        "The target alone adds [2], the last one plus 1; the draft always agrees.",
    ),
}
