"""The grader: every exhibit of the museum is caught, no right solution is blamed, and the case that is shown is minimal."""

from __future__ import annotations

import doctest
import json
import re
import threading
import time
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import right_solutions
import torch

from specdec_lab import speculative_decode
from specdec_lab.teach import (
    audit,
    behaviours,
    checks,
    grader,
    grading,
    judgements,
    report_views,
    small_cases,
    stories,
)
from specdec_lab.teach.behaviours import BEHAVIOURS, BEYOND
from specdec_lab.teach.grader import Runs, as_pair, check_speculative_decode
from specdec_lab.teach.grading import RIGHT, UNJUDGED, WASTEFUL, WRONG, Report
from specdec_lab.teach.museum import EXHIBITS, label
from specdec_lab.teach.plain_loop import PlainLoop
from specdec_lab.teach.stories import STORIES
from specdec_lab.teach.unlabelled import DraftsToTheBudget

EXHIBITED = [name for name in EXHIBITS if name != "correct"]
BY_NAME = {item.name: item for item in (*BEHAVIOURS, *BEYOND)}


@pytest.fixture(scope="module")
def reports():
    return {name: check_speculative_decode(EXHIBITS[name].decode, beyond=True) for name in EXHIBITED}


# ---------------------------------------------------------------- what is wrong is found


@pytest.mark.parametrize("name", EXHIBITED)
def test_an_exhibit_breaks_what_its_story_says_the_taught_one_first(reports, name):
    report, story = reports[name], STORIES[name]
    assert report.verdict != RIGHT and story.breaks
    assert set(report.broken) == set(story.breaks) and len(set(story.breaks)) == len(story.breaks)
    taught = report[story.breaks[0]]
    assert taught.case == story.shortest
    assert taught.found[0].islower() and taught.found[-1] in ".?"


@pytest.mark.parametrize("name", EXHIBITED)
def test_the_shown_case_fails_again_and_no_smaller_one_does(reports, name):
    """One token, one guess or one token of the prompt less, and the taught fault does not show."""
    behaviour, shown = BY_NAME[STORIES[name].breaks[0]], reports[name][STORIES[name].breaks[0]].shown
    runs = Runs(EXHIBITS[name].decode)

    def fails(case):
        try:
            return behaviour.judge(runs, case)
        except grading.NoAnswer as error:
            return str(error)

    assert fails(shown)
    grid = [case for case in behaviour.smaller if size(case) < size(shown)]
    assert not [case for case in grid if fails(case)]
    assert shown.new_tokens <= 6 and shown.gamma <= 3 and len(shown.prompt) <= 4


def size(case):
    return case.new_tokens + case.gamma + len(case.prompt)


def test_the_story_behind_every_exhibit_is_told():
    assert list(STORIES) and set(STORIES) == set(EXHIBITED) and len(STORIES) >= 15
    for name, story in STORIES.items():
        assert len(story.text) > 100 and story.text.endswith("."), name
        assert set(story.breaks) <= set(BY_NAME)
        assert (
            story.text[:40] in label(name)
            and story.breaks[0] in label(name)
            and "shortest case:" in label(name)
        )


def test_every_behaviour_catches_an_exhibit():
    assert {behaviour for story in STORIES.values() for behaviour in story.breaks} == set(BY_NAME)


def test_known_faults_have_the_cases_that_a_person_would_choose(reports):
    shown = {name: reports[name][STORIES[name].breaks[0]].shown for name in EXHIBITED}
    sizes = {name: (case.prompt, case.new_tokens, case.gamma) for name, case in shown.items()}
    assert sizes["first_token_unverified"] == ((1,), 2, 1), "one guess, one judgement"
    assert sizes["rate_without_drafts"] == ((1,), 1, 1)
    assert sizes["end_token_only_last"] == ((1,), 4, 3), "an end token with a guess on either side"
    assert sizes["hole_in_draft_cache"] == ((1,), 4, 1), "the second round after a full acceptance"
    assert sizes["accepts_past_disagreement"] == ((1,), 3, 2), "an agreement behind a difference"
    assert shown["stale_target_cache"].draft == audit.NEVER


def test_a_stale_entry_is_named_with_round_and_position(reports):
    found = reports["stale_target_cache"]["target_cache"].found
    assert found == (
        "in round 2 the target's cache holds a stale entry: position 1 is 3, where 2 belongs (cache: [1, 3])."
    )
    found = reports["hole_in_draft_cache"]["draft_catches_up"].found
    assert found == (
        "in round 2 the draft is fed [3] with 1 entries in its cache, so 3 comes to position 1, where 2 belongs."
    )
    case = audit.Case(3, 1, audit.NEVER, prompt=(1, 2, 3), rule=checks.COUNTING)
    found = judgements.foreign_entry_by_round(audit.run_case(StalePrefilled().decode, case), "target")
    assert found.startswith(
        "in round 2 the target's cache holds a stale entry: position 3 is 5, where 4 belongs"
    )


class StalePrefilled(PlainLoop):
    """A prefill is no round."""

    def start(self, target_model, draft_model, input_ids):
        sequence = super().start(target_model, draft_model, input_ids)
        if sequence[:-1]:
            self.target.feed(sequence[:-1])
        return sequence

    def roll_back_target(self, sequence):
        self.target.read = len(sequence) - 1


# ---------------------------------------------------------------- what is right is not blamed


@pytest.mark.parametrize("name", right_solutions.RIGHT)
def test_right_solutions_are_right(name):
    started = time.perf_counter()
    report = check_speculative_decode(right_solutions.RIGHT[name])
    assert time.perf_counter() - started < 60, "a guard against hanging: it takes a second"
    assert report.verdict == RIGHT and not report.broken and len(report.findings) == len(BEHAVIOURS)
    new_only = name in ("extra_pass", "generator")
    assert [note[:24] for note in report.notes] == ["Read as: the answer is t"] * new_only
    assert report.text().count("✓") == len(BEHAVIOURS)


def test_a_draft_that_reads_everything_again_is_wasteful_and_not_wrong():
    report = check_speculative_decode(right_solutions.rereading_draft)
    assert report.verdict == WASTEFUL and list(report.broken) == ["draft_reads_once"]
    assert report["draft_reads_once"].status == WASTEFUL
    assert re.search(r"^~ draft_reads_once", report.text(), re.M) and "✗" not in report.text()


def test_the_decoders_of_the_package_are_right_beyond_the_statement_too():
    for decoder in (speculative_decode, PlainLoop().decode):
        report = check_speculative_decode(decoder, beyond=True)
        assert report.verdict == RIGHT and len(report.findings) == len(BEHAVIOURS) + len(BEYOND)


class RewindsOneMore(PlainLoop):
    """Feeds a confirmed token once more in every round."""

    def roll_back_target(self, sequence):
        self.target.cut(len(sequence) - 2)

    def roll_back_draft(self, sequence):
        self.draft.cut(len(sequence) - 2)


class NeverGuesses(PlainLoop):
    def room(self, wanted):
        return 0


class Forgetful(PlainLoop):
    def roll_back_target(self, sequence):
        self.target.cut(0)


class GuessesTwice(PlainLoop):
    """Asks the draft for every guess a second time."""

    def propose(self, sequence, room):
        drafted = super().propose(sequence, room)
        for _ in drafted[1:]:
            self.draft.cut(self.draft.read - 1)
            self.draft.feed([drafted[-2]])
        return drafted


class BonusUnlookedAt(PlainLoop):
    def stop_at_end(self, emitted):
        head, ended = super().stop_at_end(emitted[:-1])
        return (head, True) if ended else (emitted, False)


@pytest.mark.parametrize(
    ("loop", "verdict", "broken"),
    [
        (DraftsToTheBudget, RIGHT, set()),
        (RewindsOneMore, RIGHT, set()),
        (NeverGuesses, WRONG, {"one_target_pass_per_round"}),
        (Forgetful, WASTEFUL, {"target_reads_once"}),
        (GuessesTwice, WASTEFUL, {"one_draft_pass_per_guess", "draft_reads_once"}),
        (BonusUnlookedAt, WRONG, {"end_token_bonus", "end_token_correction"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_other_makes_get_the_verdict_they_deserve(loop, verdict, broken):
    report = check_speculative_decode(lambda *a: loop().decode(*a))
    assert report.verdict == verdict
    assert set(report.broken) == broken


# ---------------------------------------------------------------- answers of all kinds


@pytest.mark.parametrize(
    "shape",
    [
        lambda ids, rate: (torch.tensor(ids), torch.tensor(rate)),
        lambda ids, rate: (torch.tensor([ids]), rate),
        lambda ids, rate: ([ids], rate),
        lambda ids, rate: [tuple(ids), rate],
        lambda ids, rate: ([torch.tensor(token) for token in ids], rate),
        lambda ids, rate: (ids[5:] if ids[:5] == [3, 1, 4, 1, 5] else ids, rate),
    ],
    ids=["tensor", "batch of one", "nested list", "tuple in a list", "list of tensors", "mixed"],
)
def test_forms_of_the_answer(shape, request):
    report = check_speculative_decode(lambda *a: shape(*speculative_decode(*a)))
    if "mixed" in request.node.name:
        assert report["agreeing_draft"].status == WRONG, "the prompt is in some answers and not in others"
        assert "should begin with the prompt" in report["agreeing_draft"].found
    else:
        assert report.verdict == RIGHT


def test_generators_may_yield_several_ids_at_a_time():
    def by_block(*arguments):
        ids, rate = speculative_decode(*arguments)
        new = ids[len(arguments[2]) :]
        yield new[:2]
        yield torch.tensor(new[2:])
        return rate

    assert as_pair(by_block(*audit.Case(4, 2).models(), [1], 4, 2, None))[1] == 1.0
    assert check_speculative_decode(by_block).verdict == RIGHT


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda *a: None, "it returned None, not a pair"),
        (lambda *a: ([1, 2, 3], 0.5, 0.5), "not a pair"),
        (lambda *a: ("text", 0.5), "not a pair"),
        (lambda *a: ([], 0.0), None),
        (lambda *a: a[7], r"it raised IndexError: tuple index out of range \(line \d+ of test_grader.py\)\."),
        (lambda *a: a[0](a[2]), "it raised TypeError"),
        (lambda: None, "it raised TypeError"),
        (lambda *a: exit(), "it raised SystemExit"),
    ],
)
def test_useless_functions_get_sentences(function, says):
    report = check_speculative_decode(function)
    assert report.verdict == WRONG and len(report.findings) == len(BEHAVIOURS)
    if says:
        assert re.search(says, report["answers"].found)
    else:
        assert "the text ends after 0 new tokens" in report["agreeing_draft"].found


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="function must be callable, as speculative_decode is, got int"):
        check_speculative_decode(7)


def test_an_endless_loop_is_stopped_and_nothing_more_is_asked():
    calls = []

    def hangs(target, draft, ids, new, gamma, end):
        calls.append(new)
        if new < 6:
            return speculative_decode(target, draft, ids, new, gamma, end)
        while True:
            time.sleep(0.001)

    before = threading.active_count()
    report = check_speculative_decode(hangs, seconds=0.4)
    assert report["answers"].found == "no answer after 0.4 seconds; is there a loop without an end?"
    assert report["answers"].shown.new_tokens == 6 and sum(new >= 6 for new in calls) == 1
    assert report.counts == {RIGHT: 0, WASTEFUL: 0, WRONG: 1, UNJUDGED: len(BEHAVIOURS) - 1}
    assert report.verdict == WRONG and "in answers the function did not come back" in report.text()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(10)
    assert threading.active_count() <= before


def test_a_round_that_adds_nothing_is_named():
    found = check_speculative_decode(EXHIBITS["correction_dropped"].decode)["disagreeing_draft"].found
    assert "called the" in found and "is there a round that adds nothing?" in found


def test_too_much_memory_ends_the_grading():
    def hog(*arguments):
        raise MemoryError

    def torch_hog(*arguments):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    for function in (hog, torch_hog):
        report = check_speculative_decode(function)
        assert report["answers"].found == "it used up the memory that it may have."
        assert report.counts[UNJUDGED] == len(BEHAVIOURS) - 1


def test_an_error_lets_go_of_what_the_call_held():
    run = audit.run_case(lambda *a: a[9], audit.Case(1, 1))
    assert run.error.__traceback__ is None and run.where.endswith("test_grader.py")


# ---------------------------------------------------------------- hints, views, JSON


def test_hints_are_revealed_one_by_one():
    report = check_speculative_decode(EXHIBITS["bonus_counted"].decode)
    name = "rate_of_a_perfect_draft"
    hints = BY_NAME[name].hints
    assert not any(hint in report.text() for hint in hints)
    for number, hint in enumerate(hints, start=1):
        assert report.hint(name) == f"Hint {number} of 3: {hint}"
        flat = " ".join(report.text().split())
        assert [each in flat for each in hints] == [i < number for i in range(3)]
    assert report.hint(name) == f"Hint 3 of 3: {hints[2]}"
    assert report.text().endswith('report.hint("rate_of_a_perfect_draft"), up to three times.')
    assert "--hints" not in report.text() and "report.hint" not in report.text(in_terminal=True)
    assert report.text(in_terminal=True).endswith("; what follows may come from it."), (
        "there are no more hints"
    )
    assert report.hint("answers") == "answers is right: there is nothing to hint at."
    with pytest.raises(KeyError, match="no behaviour 'nonsense'; there are answers"):
        report.hint("nonsense")


@pytest.mark.parametrize("behaviour", BY_NAME.values(), ids=BY_NAME)
def test_behaviours_are_complete(behaviour):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", behaviour.name) and not behaviour.expected.endswith(".")
    assert len(behaviour.hints) == 3 and all(
        hint[0].isupper() or hint.split()[0].islower() for hint in behaviour.hints
    )
    assert behaviour.cases and behaviour.smaller
    assert behaviour.hints[0].endswith("?") or behaviour.name == "answers"
    sizes = [size(case) for case in behaviour.smaller]
    assert sizes[0] == min(sizes) and len(sizes) <= grading.MOST_TRIES
    for case in behaviour.cases:
        assert case.ends is not None or behaviour.name == "several_end_tokens", (
            "the statement's end token is an int"
        )


class Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.depth, self.deepest, self.attributes = [], 0, 0, []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.depth += tag == "details"
        self.deepest = max(self.deepest, self.depth)

    def handle_endtag(self, tag):
        self.depth -= tag == "details"


def test_the_table_in_a_notebook():
    report = check_speculative_decode(EXHIBITS["end_token_only_last"].decode)
    page = Outline()
    page.feed(report._repr_html_())
    assert page.tags.count("tr") == len(BEHAVIOURS) + 1
    assert page.tags.count("details") == 3 * len(report.broken) and page.deepest == 3 and page.depth == 0
    assert not {"script", "link", "img"} & set(page.tags) and "id" not in dict(page.attributes)
    spoken = [value for name, value in page.attributes if name == "aria-label"]
    assert spoken[0] == report_views.sentence(report) and set(spoken[1:]) == {RIGHT, WRONG}
    assert report._repr_html_() == report._repr_html_() and repr(report) == report.text()


def test_markup_in_answers_stays_text():
    def shouts(*arguments):
        raise ValueError("<script>alert(1)</script>")

    page = check_speculative_decode(shouts)._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_ascii_where_the_terminal_has_no_more():
    report = check_speculative_decode(EXHIBITS["bonus_counted"].decode).reveal(3)
    text = report.text("ascii")
    assert (
        text.isascii()
        and re.search(r"^x rate_of_a_perfect_draft", text, re.M)
        and "?" not in text.split("\n")[0]
    )
    assert re.search(r"^\+ answers", text, re.M) and "accepted / drafted" in text
    assert report.text("latin-1").isascii() and not report.text("utf-8").isascii()
    assert all(len(line) <= report_views.WIDTH for line in report.text().split("\n"))


def test_json_for_course_tools():
    report = check_speculative_decode(EXHIBITS["draft_cache_reset"].decode).reveal(1)
    written = json.loads(json.dumps(report.to_dict()))
    assert written["schema_version"] == 1 and written["verdict"] == WASTEFUL
    found = {item["name"]: item for item in written["behaviours"]}
    assert found["draft_reads_once"]["status"] == WASTEFUL and len(found["draft_reads_once"]["hints"]) == 1
    assert found["answers"] == {
        "name": "answers",
        "expected": BY_NAME["answers"].expected,
        "status": RIGHT,
        "found": "",
        "smallest_case": "",
        "hints": [],
    }
    assert Report.from_dict(written).text() == report.text()
    assert Report.from_dict(written).text(in_terminal=True).endswith("For a further hint: --hints 2.")
    with pytest.raises(ValueError, match="schema_version must be 1, got 2"):
        Report.from_dict(written | {"schema_version": 2})


def test_a_case_can_be_run_by_hand():
    """What the report shows is enough to see the fault without the grader."""
    shown = check_speculative_decode(EXHIBITS["first_token_unverified"].decode)["first_guess_judged"].shown
    arguments = (*shown.models(), list(shown.prompt), shown.new_tokens, shown.gamma, shown.ends)
    assert EXHIBITS["first_token_unverified"].decode(*arguments)[0] != shown.truth()
    assert speculative_decode(*arguments)[0] == shown.truth()
    assert replace(shown, rule=audit.HASH).truth() != shown.truth()


@pytest.mark.parametrize(
    "module", [grader, grading, report_views, behaviours, small_cases, stories], ids=lambda m: m.__name__
)
def test_examples_in_docstrings(module):
    assert doctest.testmod(module).failed == 0
