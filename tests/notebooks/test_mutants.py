"""The list of faults still fits the package: each text stands once in its file, and the broken file still compiles."""

from __future__ import annotations

import pytest
from mutants import MUTANTS
from reading import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_its_file(mutant):
    source = (ROOT / "specdec_lab" / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.text) == 1
    compile(source.replace(mutant.text, mutant.instead), mutant.file, "exec")


def test_mutants_have_names_of_their_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 10
