"""Bundled weights: what their cards say is what the files hold."""

from __future__ import annotations

import hashlib

import pytest

from specdec_lab.files import ASSETS, card_of
from specdec_lab.measure.environment import BUNDLED


@pytest.mark.parametrize("name", BUNDLED)
def test_hashes_and_licence_of_the_card(name):
    card = card_of(name)
    licence = "Apache-2.0" if name == "smollm2-eagle" else "MIT"  # what was made from a model has its licence
    assert card["licence"].startswith(licence) and card["seed"] and card["figures"]
    for file, expected in card["sha256"].items():
        assert hashlib.sha256((ASSETS / name / file).read_bytes()).hexdigest() == expected


@pytest.mark.parametrize(
    ("name", "most"), [("tiny", 14e6), ("tiny-medusa", 2e6), ("tiny-streams", 2e6), ("smollm2-eagle", 12e6)]
)
def test_they_stay_small(name, most):
    assert sum(file.stat().st_size for file in (ASSETS / name).rglob("*") if file.is_file()) < most


@pytest.mark.parametrize("name", ["tiny-medusa", "tiny-streams"])
def test_they_belong_to_the_bundled_target(name):
    assert card_of(name)["target_sha256"] == card_of("tiny")["sha256"]["target/model.safetensors"]


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"name must be one of .*tiny-medusa, tiny-streams, got 'tony'"):
        card_of("tony")
