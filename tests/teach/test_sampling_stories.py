"""The stories of the museum's samplers: each breaks what its story says, and the shortest case is the shortest there is.

Cases are walked from the smallest on: by tokens in the vocabulary + new tokens + γ, then simple settings first, then
models that agree before models that differ, and coarse probabilities before fine ones. What is due in a case is worked
out from p and q; the checks behind the grader do not help.
"""

from __future__ import annotations

import doctest
import functools
import itertools
import re
from dataclasses import replace

import pytest
import torch

from specdec_lab.decoding.sampling import Sampling
from specdec_lab.models.scripted import fixed
from specdec_lab.teach import museum, stories_of_sampling
from specdec_lab.teach.grading import WRONG
from specdec_lab.teach.museum import CORRECT_SAMPLER, SAMPLERS, label
from specdec_lab.teach.sampling_audit import Case, Unlucky, answer, law_of, package_sampler
from specdec_lab.teach.sampling_checks import SAMPLING_CHECKS
from specdec_lab.teach.sampling_grader import check_speculative_sample
from specdec_lab.teach.stories import STORIES
from specdec_lab.teach.stories_of_sampling import SAMPLER_STORIES, ByPlace

TIGHT = 1e-9


@pytest.fixture(scope="module")
def reports():
    return {name: check_speculative_sample(item.sample) for name, item in SAMPLERS.items()}


# ---------------------------------------------------------------- cases, from the smallest on

SIZES = sorted(
    (
        (vocabulary, new, gamma)
        for vocabulary, new, gamma in itertools.product((2, 3), (1, 2, 3), (1, 2))
        if gamma <= max(1, new - 1)  # a larger γ guesses no more
    ),
    key=lambda sizes: (sum(sizes), sizes),
)


def same(case, other):
    return replace(case, says="") == replace(other, says="")


def denominator(values):
    return next(number for number in (1, 2, 4) if all((value * number).is_integer() for value in values))


def distributions(vocabulary):
    """All in whole quarters: coarse ones first, and those that favour small ids."""
    quarters = (parts for parts in itertools.product(range(5), repeat=vocabulary) if sum(parts) == 4)
    found = [tuple(part / 4 for part in parts) for parts in quarters]
    return sorted(found, key=lambda values: (denominator(values), [-value for value in values]))


def pairs(vocabulary):
    """Two distributions, equal ones first."""
    known = distributions(vocabulary)

    def order(pair):
        parts = [denominator(values) for values in pair]
        return pair[0] != pair[1], max(parts), sum(parts), [known.index(values) for values in pair]

    return sorted(itertools.product(known, repeat=2), key=order)


@functools.cache
def settled(values, sampling):
    """Whether it does not matter which of two equal ids comes first."""

    def distribution(probabilities):
        return sampling.distribution(torch.tensor(fixed(probabilities)([0]), dtype=torch.float64))

    return torch.allclose(distribution(values), distribution(values[::-1]).flip(0), atol=1e-12)


def cases(*settings):
    for vocabulary, new, gamma in SIZES:
        for sampling, (p, q) in itertools.product(settings, pairs(vocabulary)):
            if settled(p, sampling) and settled(q, sampling):
                yield Case(p, q, new, gamma, sampling, vocabulary=vocabulary)


def equal_by_place():
    """p and q are equal, so that every guess is kept: one distribution in the first place, one from the second on."""
    for vocabulary, new, gamma in SIZES:
        for rows in pairs(vocabulary):
            rule = ByPlace(rows)
            yield Case(rule, rule, new, gamma, says=f"p = q = {rows}", vocabulary=vocabulary)


def uniform_in_two_precisions():
    for vocabulary, new in sorted(itertools.product(range(2, 41), (1, 2)), key=lambda s: (sum(s), s)):
        p = (1 / vocabulary,) * vocabulary
        yield Case(p, p, new, 1, vocabulary=vocabulary, dtypes=(torch.float32, torch.float64))


CASES = {
    "law_of_first_token": lambda: cases(Sampling()),
    "acceptance_is_the_overlap": lambda: cases(Sampling()),
    "bonus_law": equal_by_place,
    "law_with_filters": lambda: cases(Sampling(top_k=1), Sampling(top_k=2), Sampling(top_p=0.6)),
    "law_at_another_temperature": lambda: cases(Sampling(0.5), Sampling(2.0)),
    "greedy_at_temperature_0": lambda: cases(Sampling(0.0)),
    "equal_but_for_rounding": uniform_in_two_precisions,
}


def shows(taught, sampler, case):
    """What is wrong with a sampler in a case, in the words of the stories, or None."""
    if taught == "equal_but_for_rounding":
        _, problem = answer(sampler, case, Unlucky())
        return problem and in_words(problem)
    if taught == "acceptance_is_the_overlap":
        return overlap_shows(sampler, case)
    texts, problem = law_of(sampler, case)
    if problem:
        return in_words(problem)
    due = case.truth()
    if taught == "law_of_first_token":
        texts, due = ({token: sum_of(law, token) for token in range(case.vocabulary)} for law in (texts, due))
    # the largest difference, and of equal ones the first
    worst = min({**texts, **due}, key=lambda o: (-round(abs(texts.get(o, 0.0) - due.get(o, 0.0)), 9), o))
    right, came = due.get(worst, 0.0), texts.get(worst, 0.0)
    if abs(right - came) < TIGHT:
        return None
    if taught == "law_of_first_token":
        return f"The first token should be {worst} with probability {right:.4g}, and is with {came:.4g}."
    return f"{list(worst)} should come out with probability {right:.4g}, and does with {came:.4g}."


def overlap_shows(sampler, case):
    if case.new_tokens == 1:
        return None  # nothing is guessed
    rates, problem = law_of(sampler, replace(case, new_tokens=2, gamma=1), of=lambda new, rate: (rate,))
    if problem:
        return in_words(problem)
    due = sum(map(min, case.p, case.q))
    came = sum(rate * probability for (rate,), probability in rates.items())
    if abs(due - came) < TIGHT:
        return None
    return f"The guess should be kept with probability {due:.4g}, and is with {came:.4g}."


def sum_of(law, token):
    return sum(probability for text, probability in law.items() if text[0] == token)


def in_words(problem):
    raised = problem[problem.index(": it raised ") + 2 :]
    return raised[0].upper() + raised[1:]


# ---------------------------------------------------------------- the stories


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_exhibit_breaks_what_its_story_says_the_taught_one_first(reports, name):
    """The grader convicts it of exactly that; and the taught property fails when it is asked alone."""
    story, report = SAMPLER_STORIES[name], reports[name]
    assert report.verdict == WRONG and report[story.breaks[0]].status == WRONG
    assert set(report.broken) == set(story.breaks) == SAMPLERS[name].caught_by
    assert len(set(story.breaks)) == len(story.breaks) > 0
    assert SAMPLING_CHECKS[story.breaks[0]](SAMPLERS[name].sample)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_shortest_case_fails_and_each_smaller_one_does_not(name):
    story, sampler = SAMPLER_STORIES[name], SAMPLERS[name].sample
    taught, shortest = story.breaks[0], story.case
    before = list(itertools.takewhile(lambda case: not same(case, shortest), CASES[taught]()))
    assert not [str(case) for case in before if shows(taught, sampler, case)]
    sentence = shows(taught, sampler, shortest)
    assert sentence and story.shortest.endswith(f".\n{sentence}")
    assert len(before) < len(list(CASES[taught]())), "it is one of those that are walked"
    assert shortest.new_tokens <= 2 and shortest.gamma == 1
    assert shortest.vocabulary <= 3 or taught == "equal_but_for_rounding"


@pytest.mark.parametrize("taught", CASES)
def test_no_correct_sampler_fails_in_any_of_these_cases(taught):
    """As far as the stories need them."""
    left = [story.case for story in SAMPLER_STORIES.values() if story.breaks[0] == taught]
    for case in CASES[taught]():
        for sampler in (CORRECT_SAMPLER.sample, package_sampler):
            assert shows(taught, sampler, case) is None, str(case)
        left = [other for other in left if not same(case, other)]
        if not left:
            return
    pytest.fail(f"{left} is not among the cases")


def test_known_faults_have_the_cases_that_a_person_would_choose():
    shown = {name: story.case for name, story in SAMPLER_STORIES.items()}
    assert shown["resample_from_p"].p == (0.5, 0.5) and shown["resample_from_p"].q == (1.0, 0.0)
    assert shown["one_uniform_for_two"].vocabulary == 3, "two tokens to choose from when one was rejected"
    assert shown["accept_if_equal"].p == shown["accept_if_equal"].q, "a perfect draft"
    assert shown["argmax_draft_with_softmax_q"].p == shown["argmax_draft_with_softmax_q"].q
    alone = {name for name, case in shown.items() if case.new_tokens == 1}
    assert alone == {
        "unfiltered_p",
        "nucleus_without_the_crossing_token",
        "divided_by_temperature_zero",
        "temperature_zero_taken_for_one",
    }, "faults of sampling, with or without speculation"


def test_the_story_behind_every_sampler_is_told():
    assert list(SAMPLER_STORIES) == list(SAMPLERS) and not set(SAMPLER_STORIES) & set(STORIES)
    assert {story.breaks[0] for story in SAMPLER_STORIES.values()} == set(CASES)
    for name, story in SAMPLER_STORIES.items():
        assert len(story.text) > 100 and story.text.endswith("."), name
        assert set(story.breaks) <= set(SAMPLING_CHECKS)
        call, models, _ = story.shortest.split("\n")
        assert re.fullmatch(r"speculative_sample\(target, draft, \[0\], .*temperature=[\d.]+.*\)", call)
        assert re.match(r"p (=|and q)", models)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_story_names_threads_of_its_exhibit_and_no_others(name):
    told = re.findall(r"[\w.-]+/[\w.-]+(?: PR)? \d+", SAMPLER_STORIES[name].text)
    known = {reference.removesuffix(" (review)") for reference in SAMPLERS[name].references}
    assert told and set(told) <= known and len(set(told)) == len(told)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_label_tells_the_story(name):
    story, shown = SAMPLER_STORIES[name], label(name)
    flat = " ".join(shown.split())
    assert story.text in flat and f"breaks {', '.join(story.breaks)}" in flat
    assert f"shortest case: {' '.join(story.shortest.split())}" in flat
    assert shown.endswith(museum.diff(name))


def test_examples_in_docstrings():
    result = doctest.testmod(stories_of_sampling)
    assert result.failed == 0 and result.attempted > 0
