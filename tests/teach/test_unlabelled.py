"""Suspects: printing one gives nothing away, the one without a label is guilty of one thing, and innocents are innocent."""

from __future__ import annotations

import copy
import doctest
import re

import pytest
from matplotlib.figure import Figure

from specdec_lab.teach import symptoms, unlabelled
from specdec_lab.teach.audit import AGREES, DRAFTS, HALF, HASH, NEVER, PROMPT, Case, follow, run_case
from specdec_lab.teach.checks import COUNTING, run_checks
from specdec_lab.teach.grader import check_speculative_decode
from specdec_lab.teach.judgements import wrong_text
from specdec_lab.teach.museum import EXHIBITS, get_exhibit
from specdec_lab.teach.plain_loop import PlainLoop
from specdec_lab.teach.stories import STORIES
from specdec_lab.teach.symptoms import passes_in_order, symptom_picture
from specdec_lab.teach.unlabelled import Suspect, innocents, line_up

LETTERS = "ABCDEXY"
VISIT = {letter: unlabelled._VISIT[letter] for letter in "ABCDE"}
NEW = follow(HASH, PROMPT, 16)[len(PROMPT) :]


# ---------------------------------------------------------------- nothing is given away


@pytest.mark.parametrize("letter", LETTERS)
def test_printing_a_suspect_gives_nothing_away(letter):
    suspect = unlabelled.unlabelled(letter)
    shown = f"{suspect!r} {suspect} {suspect.__name__} {vars(suspect)} {[suspect]}"
    told = {
        *EXHIBITS,
        *(type_.loop.__name__ for type_ in EXHIBITS.values()),
        "_Unlabelled",
        "_OtherBuild",
        "Exhibit",
    }
    assert repr(suspect) == f"suspect {letter}" and not [name for name in told if name in shown]
    report = check_speculative_decode(suspect)
    assert report.title == f"suspect {letter}" and not [
        name for name in VISIT.values() if name in str(report)
    ]


@pytest.mark.parametrize(("letter", "name"), VISIT.items())
def test_the_visit_is_to_exhibits_of_the_museum(letter, name):
    suspect, shown = unlabelled.unlabelled(letter), get_exhibit(name)
    for case in (Case(24, 4, HALF), Case(9, 2, AGREES, end_at=4), Case(5, 1, NEVER)):
        run, known = run_case(suspect, case), run_case(shown.decode, case)
        assert (run.sequence, run.rate, run.target.order) == (known.sequence, known.rate, known.target.order)
    assert shown.wrong_step in suspect.turn_over() and STORIES[name].text[:40] in suspect.turn_over()


@pytest.mark.parametrize("letter", ["a", "", "Z", "AB"])
def test_other_letters_are_refused(letter):
    with pytest.raises(ValueError, match="must be one of A, B, C, D, E, X, Y, got"):
        unlabelled.unlabelled(letter)


def test_a_copy_is_the_suspect_and_calls_are_counted():
    suspect = unlabelled.unlabelled("B")
    run_case(copy.deepcopy([suspect])[0], Case(3, 1))
    assert suspect.calls == 1 and copy.deepcopy(suspect) is suspect


# ---------------------------------------------------------------- the one that hangs nowhere


@pytest.mark.parametrize("letter", "XY")
def test_an_end_token_in_the_prompt_ends_the_text_after_a_round(letter):
    """What it is guilty of, and what it is not: everything else is as it should be."""
    suspect = unlabelled.unlabelled(letter)
    assert "nothing on the label" in suspect.turn_over()
    for draft in DRAFTS:
        run = run_case(suspect, Case(24, 4, draft, ends=PROMPT[0]))
        right = run_case(PlainLoop().decode, run.case)
        first = right.sequence[: len(run.sequence)]
        assert run.sequence == first and len(PROMPT) < len(run.sequence) <= len(PROMPT) + 5 < len(
            right.sequence
        )
        quiet = run_case(suspect, Case(24, 4, draft))
        assert wrong_text(quiet) is None
    never = run_case(suspect, Case(24, 4, NEVER, ends=PROMPT[0]))
    assert len(never.sequence) == len(PROMPT) + 1, "one round"


@pytest.mark.parametrize("letter", "XY")
def test_checks_and_grader_catch_it(letter):
    suspect = unlabelled.unlabelled(letter)
    noticed = {name: sentence for name, sentence in run_checks(suspect).items() if sentence}
    assert "end_token_everywhere" in noticed and "the text ends after" in noticed["end_token_everywhere"]
    assert not set(noticed) & {
        "same_tokens",
        "budget",
        "pass_count",
        "fed_tokens",
        "cache_contents",
        "first_token_verified",
    }
    report = check_speculative_decode(suspect)
    assert report.verdict == "wrong"
    assert re.match("the text ends after 1 new token", report["end_token_in_the_prompt"].found)
    shown = report["end_token_in_the_prompt"].shown
    assert (shown.prompt, shown.new_tokens, shown.gamma, shown.ends) == ((1,), 2, 1, 1)


def test_it_hangs_nowhere_else():
    """No exhibit of the museum is noticed for the same reason alone."""
    broken = set(check_speculative_decode(unlabelled.unlabelled(), beyond=True).broken)
    assert broken and broken not in [set(story.breaks) for story in STORIES.values()]


# ---------------------------------------------------------------- the line-up


@pytest.mark.parametrize("innocent", innocents(), ids=repr)
def test_innocents_are_innocent(innocent):
    assert repr(innocent).startswith("right (")
    assert not {name: sentence for name, sentence in run_checks(innocent).items() if sentence}
    assert not check_speculative_decode(innocent).broken


def test_innocents_differ():
    """In passes or in rate, so that a test which asks for more than is right convicts one of them."""
    seen = {
        str(
            [(run.rate, run.target.order) for draft in DRAFTS for run in [run_case(item, Case(23, 4, draft))]]
        )
        for item in innocents()
    }
    assert len(seen) == len(innocents())


def test_a_line_up_has_innocents_first():
    there = line_up("bonus_lost", "stale_draft_cache")
    assert (
        list(map(repr, there[-2:])) == ["bonus_lost", "stale_draft_cache"]
        and len(there) == len(innocents()) + 2
    )
    assert all(isinstance(item, Suspect) and not item.calls for item in there)
    with pytest.raises(ValueError, match="no exhibit"):
        line_up("nobody")


# ---------------------------------------------------------------- what shows from outside


def test_passes_are_in_order_and_complete():
    run = run_case(PlainLoop().decode, Case(6, 2, AGREES, prompt=(1,), rule=COUNTING))
    assert [tuple(item) for item in passes_in_order(run)] == [
        ("draft", [], [1]),
        ("draft", [1], [2]),
        ("target", [], [1, 2, 3]),
        ("draft", [1, 2], [3, 4]),
        ("draft", [1, 2, 3, 4], [5]),
        ("target", [1, 2, 3], [4, 5, 6]),
    ]


def test_symptoms_are_counted():
    run = run_case(get_exhibit("stale_target_cache").decode, Case(24, 4, HALF))
    found = symptoms.symptoms(run)
    assert found["new tokens"] == 24 > found["right tokens"] > 0
    assert found["target passes"] == len(run.target.passes_seen) and found["acceptance rate"] == run.rate
    assert found["tokens read by the draft"] == sum(len(fed) for _, fed in run.draft.passes_seen)
    nothing = symptoms.symptoms(run_case(get_exhibit("correction_dropped").decode, Case(9, 2, NEVER)))
    assert nothing["new tokens"] == nothing["right tokens"] == 0 < nothing["target passes"]


@pytest.mark.parametrize("name", EXHIBITS)
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_picture_and_its_sentence(name, draft):
    suspect = Suspect(name, get_exhibit(name).decode)
    figure, sentence = symptom_picture(suspect, Case(24, 4, draft))
    assert isinstance(figure, Figure) and "\n" not in sentence and sentence.endswith(".")
    assert sentence.startswith(f"{name}, γ = 4, a draft that {draft}: new tokens ")
    assert ("cache clean" in sentence or "cache wrong" in sentence) != ("no answer" in sentence)
    if name == "correct":
        numbers = re.findall(r"([\d.]+) \(right: ([\d.]+)\)", sentence)
        assert len(numbers) == 7 and all(a == b for a, b in numbers)
        assert "target's cache clean, draft's cache clean" in sentence


def test_a_wrong_cache_is_dated():
    suspect = Suspect("it", get_exhibit("hole_in_draft_cache").decode)
    _, sentence = symptom_picture(suspect, Case(9, 2, AGREES, prompt=(1,), rule=COUNTING))
    assert "target's cache clean, draft's cache wrong from round 2 on" in sentence


@pytest.mark.parametrize("module", [unlabelled, symptoms], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    result = doctest.testmod(module)
    assert result.failed == 0 and result.attempted > 0
