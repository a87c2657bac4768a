"""The grader where there is nothing to judge: no call gives an answer, or the text is wrong in every case of a line."""

from __future__ import annotations

import pytest
import torch

from specdec_lab import speculative_decode
from specdec_lab.teach.behaviours import BEHAVIOURS, BEYOND
from specdec_lab.teach.cache_graders import check_truncation
from specdec_lab.teach.grader import check_speculative_decode
from specdec_lab.teach.grading import (
    RIGHT,
    UNJUDGED,
    WASTEFUL,
    WRONG,
    Behaviour,
    NoAnswer,
    NoReturn,
    Undecided,
    grade,
)
from specdec_lab.teach.small_graders import check_residual_distribution


@pytest.mark.parametrize(
    "function",
    [
        lambda target, draft, ids, *rest: target(torch.tensor([ids])).logits,
        lambda target, draft, ids, new, gamma, end: (list(ids), 0.0, []),
        lambda target, draft, ids, new, gamma, end: ids[len(ids) + new],
    ],
    ids=["calls the model", "three things", "an error"],
)
@pytest.mark.parametrize("beyond", [False, True])
def test_without_any_answer_one_line_is_wrong_and_nothing_else_is_said(function, beyond):
    report = check_speculative_decode(function, beyond=beyond)
    others = len(BEHAVIOURS) + beyond * len(BEYOND) - 1
    assert list(report.broken) == ["answers"] and report.verdict == WRONG
    assert report.counts == {RIGHT: 0, WASTEFUL: 0, WRONG: 1, UNJUDGED: others}
    text = report.reveal(3).text()
    assert text.count("found") == 2 and text.count("hint 1") == 1 and len(text.split("\n")) < 25
    assert (
        f"? {others} more lines: agreeing_draft, " in text and "no call gave an answer; see answers." in text
    )
    assert report._repr_html_().count("<tr>") == 1 + 2 and f"{others} more lines" in report._repr_html_()
    assert report.hint("budget_of_one") == "budget_of_one: not judged: no call gave an answer; see answers."


def test_a_model_that_is_called_says_how_it_has_to_be():
    found = check_speculative_decode(lambda target, draft, ids, *rest: target(torch.tensor([ids])))[
        "answers"
    ].found
    assert (
        "the target was called as model(…), and has to be as model.forward(tensor of shape (1, n), " in found
    )


def test_an_error_now_and_then_leaves_the_rest_to_be_judged():
    def fails_for_one_token_prompts(target, draft, ids, *rest):
        return speculative_decode(target, draft, [*ids[:-1][:1], *ids[1:]], *rest)

    report = check_speculative_decode(fails_for_one_token_prompts)
    assert report["one_token_prompt"].status == WRONG and not report.counts[UNJUDGED]


def test_where_some_calls_answer_every_line_is_judged():
    """The first behaviour gets three answers, then an error. All of them try γ = 4, so all are wrong."""

    def fails_for_many_guesses(target, draft, ids, new, gamma, end):
        if gamma > 2:
            raise RuntimeError("no more than two")
        return speculative_decode(target, draft, ids, new, gamma, end)

    report = check_speculative_decode(fails_for_many_guesses)
    assert report.counts[WRONG] == len(report.findings)
    assert "gamma=4" in report["answers"].case and "gamma=3" in report["agreeing_draft"].case


def test_one_answer_among_the_cases_of_any_line_is_an_answer():
    def knows_one_token(p, q):
        if len(p) > 1:
            raise RuntimeError("too many")
        return [1.0]

    report = check_residual_distribution(knows_one_token)
    assert report.counts == {RIGHT: 0, WASTEFUL: 0, WRONG: len(report.findings), UNJUDGED: 0}
    assert "[0.5, 0.5]" in report["nothing_left"].case


ANSWERED = {
    "in the cases, by a right one": (["right", "raise"], []),
    "in the cases, by one that shows nothing": (["undecided", "raise"], []),
    "in the cases, by a wrong one, though a smaller one raises": (["wrong"], ["raise"]),
    "in the smaller cases": (["raise"], ["right", "raise"]),
    "in the smaller cases, by a wrong one": (["raise"], ["wrong"]),
    "before it does not come back": (["right", "hang"], []),
}


def behaviour(name, cases, smaller=()):
    def judge(function, case):
        if case in ("raise", "hang"):
            raise (NoAnswer if case == "raise" else NoReturn)("it raised.")
        if case == "undecided":
            raise Undecided("it shows nothing")
        return "it is wrong." if case == "wrong" else None

    return Behaviour(name, "it is right", cases, judge, ("Is it?", "No.", "Yes."), smaller=smaller)


@pytest.mark.parametrize("name", ANSWERED)
def test_an_answer_counts_wherever_it_comes(name):
    cases, smaller = ANSWERED[name]
    lines = [behaviour("a", ["raise"]), behaviour("b", cases, smaller)]
    report = grade("f", None, lines)
    assert [item.status for item in report.findings] == [WRONG, WRONG]
    after = grade("f", None, [*lines, behaviour("c", ["raise"])])["c"]
    assert after.status == (UNJUDGED if "hang" in cases else WRONG)
    assert "no call gave an answer" not in after.found


def test_without_an_answer_in_any_case_only_the_first_line_is_wrong():
    report = grade("f", None, [behaviour(name, ["raise", "right"], ["raise"]) for name in "abc"])
    assert [item.status for item in report.findings] == [WRONG, UNJUDGED, UNJUDGED]
    assert report["c"].found == "not judged: no call gave an answer; see a."


def test_lines_that_hold_for_any_text_are_no_praise_for_a_wrong_one():
    """A function that decodes nothing has clean caches, few passes and a rate that fits."""
    report = check_speculative_decode(lambda target, draft, ids, *rest: (list(ids), 0.0))
    assert [item.name for item in report.findings if item.status == RIGHT] == ["answers", "input_left_alone"]
    assert report["target_cache"].status == UNJUDGED and report["rate_of_a_perfect_draft"].status == UNJUDGED
    assert "not judged: the text is wrong in every case." in report.text()
    as_long = check_speculative_decode(lambda target, draft, ids, new, *rest: ([*ids, *[0] * new], 0.0))
    assert as_long["budget_of_gamma"].status == UNJUDGED and as_long.counts[RIGHT] == 2


def test_the_small_graders_say_an_error_once_too():
    report = check_truncation(lambda cache, length: cache[9])
    assert list(report.broken) == ["keeps_the_first"] and report.counts[UNJUDGED] == len(report.findings) - 1
