"""Printed speed-ups: complete, sourced, and in keeping with the formula that their papers used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from specdec_lab.measure.published import CHEN, LEVIATHAN, PUBLISHED, SERVED, Published, implied_alpha
from specdec_lab.measure.theory import speedup


def test_every_figure_says_where_it_stands():
    assert len(PUBLISHED) == 15 and len(SERVED) == 2
    for item in (*PUBLISHED, *SERVED):
        source = item.source
        assert source.link.startswith("https://") and source.title and source.authors
        assert "table" in source.place or "section" in source.place
    assert {item.source for item in PUBLISHED} == {LEVIATHAN, CHEN}
    assert len({(item.setting, item.draft) for item in PUBLISHED}) == len(PUBLISHED)


def test_the_formula_gives_what_the_paper_expected():
    """Table 4 rounds α and c to two places, and the factor to one."""
    rows = [item for item in PUBLISHED if item.source is LEVIATHAN]
    assert len(rows) == 12
    for item in rows:
        assert speedup(item.alpha, item.gamma, item.cost_ratio) == pytest.approx(item.expected, abs=0.1), item


def test_a_better_draft_has_a_higher_alpha_and_is_not_faster():
    rows = {(item.setting, item.draft): item for item in PUBLISHED}
    for setting in {item.setting for item in PUBLISHED if item.source is LEVIATHAN}:
        small, base, large = (
            rows[setting, name] for name in ("T5-small, 77M", "T5-base, 250M", "T5-large, 800M")
        )
        assert small.alpha < base.alpha < large.alpha and small.speedup > base.speedup > large.speedup


def test_an_implied_alpha_gives_the_printed_factor():
    for item in PUBLISHED:
        alpha = implied_alpha(item)
        assert speedup(alpha, item.gamma, item.cost_ratio) == pytest.approx(item.speedup)
    assert {item.source for item in PUBLISHED if item.alpha is None} == {CHEN}


def test_a_factor_that_no_alpha_gives_is_refused():
    with pytest.raises(ValueError, match=r"no alpha gives 4.0 at gamma 4 and c 0.5"):
        implied_alpha(Published(CHEN, "", "", gamma=4, speedup=4.0, cost_ratio=0.5))


def test_it_loads_without_torch():
    code = "import sys, specdec_lab.measure.published; print(*({'torch', 'matplotlib'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"
