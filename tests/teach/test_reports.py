"""Reports of users: each with a reference that can be followed, a kind, and words that fit a table."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from specdec_lab.teach.reports import BUG, KINDS, OPEN, REPORTS, TIE, Report, as_markdown


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.reference)
def test_every_report_has_a_reference_and_says_what_it_was(report):
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", report.repository) and report.number > 0
    assert report.reference == f"{report.repository} {'PR ' if report.pull else ''}{report.number}"
    assert report.link.startswith(f"https://github.com/{report.repository}/") and report.link.endswith(
        f"/{report.number}"
    )
    assert report.kinds and set(report.kinds) <= set(KINDS) and len(set(report.kinds)) == len(report.kinds)
    for text in (report.seen, report.cause):
        assert text.endswith(".") and "|" not in text and "\n" not in text and len(text) < 200
    assert re.fullmatch(r"(?:(?:PR )?\d+(?:, )?)*", report.see)


def test_what_is_open_is_only_open():
    assert all(report.kinds == (OPEN,) for report in REPORTS if OPEN in report.kinds)


def test_there_are_ties_bugs_and_both():
    kinds = Counter(report.kinds for report in REPORTS)
    assert kinds[TIE,] and kinds[BUG,] and kinds[BUG, TIE] and kinds[OPEN,]
    assert len({report.reference for report in REPORTS}) == len(REPORTS)


def test_links_tell_issues_from_pull_requests():
    assert Report("a/b", 1, "", "", (TIE,)).link == "https://github.com/a/b/issues/1"
    assert Report("a/b", 1, "", "", (TIE,), pull=True).link == "https://github.com/a/b/pull/1"


def test_the_table_has_a_row_for_each_and_links():
    lines = as_markdown().splitlines()
    assert len(lines) == 2 + len(REPORTS) and all(line.count("|") == 5 for line in lines)
    both = as_markdown([Report("a/b", 1, "Seen.", "Found.", (BUG, TIE), see="PR 2")]).splitlines()[-1]
    assert (
        both
        == "| **bug** and **tie** | Seen. | Found. | [a/b 1](https://github.com/a/b/issues/1) (also PR 2) |"
    )
