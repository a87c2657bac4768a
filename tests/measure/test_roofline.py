"""The roofline: ceilings and bends against times worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specdec_lab.measure.roofline import bend, textbook_verify_cost, token_ceiling


@pytest.mark.parametrize(
    ("parameters", "bytes_each", "bandwidth", "tokens"),
    [(8e9, 2, 3350e9, 3350 / 16), (70e9, 0.5, 3350e9, 3350 / 35), (1, 1, 1, 1.0)],
)
def test_the_ceiling_is_how_often_the_weights_can_be_read(parameters, bytes_each, bandwidth, tokens):
    assert token_ceiling(parameters, bytes_each, bandwidth) == pytest.approx(tokens, rel=1e-12)
    assert token_ceiling(2 * parameters, bytes_each, 2 * bandwidth) == pytest.approx(tokens, rel=1e-12)


def test_at_the_bend_reading_takes_as_long_as_computing():
    """Times of both, worked out for a model of 7 parameters; the bend does not depend on how many they are."""
    for bytes_each, bandwidth, flops in ((2, 3350e9, 989e12), (4, 20e9, 95e9), (0.5, 1e9, 1e9)):
        n = bend(bytes_each, bandwidth, flops)
        assert 7 * bytes_each / bandwidth == pytest.approx(2 * 7 * n / flops, rel=1e-12)


@pytest.mark.parametrize("users", [1, 3, 60, 1000])
@pytest.mark.parametrize("tokens", [1, 5, 17])
def test_the_textbooks_verify_cost_is_the_longer_of_reading_and_computing(users, tokens):
    parameters, bytes_each, bandwidth, flops = 11e9, 2, 2e12, 300e12

    def seconds(n):
        return max(parameters * bytes_each / bandwidth, 2 * parameters * n / flops)

    cost = textbook_verify_cost(tokens, bend(bytes_each, bandwidth, flops), users)
    assert cost == pytest.approx(seconds(users * tokens) / seconds(users), rel=1e-12)
    assert 1 <= cost <= tokens and (tokens > 1 or cost == 1)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: token_ceiling(0, 2, 1e9), ValueError, "parameters must be above 0, got 0"),
        (lambda: token_ceiling(1e9, -2, 1e9), ValueError, "bytes_each must be above 0, got -2"),
        (lambda: token_ceiling(1e9, 2, math.inf), ValueError, "bandwidth must be above 0"),
        (lambda: token_ceiling("8B", 2, 1e9), TypeError, "parameters must be a number"),
        (lambda: bend(2, 0, 1e12), ValueError, "bandwidth must be above 0"),
        (lambda: bend(2, 1e9, math.nan), ValueError, "flops must be above 0"),
        (lambda: bend(0, 1e9, 1e9), ValueError, "bytes_each must be above 0"),
        (lambda: textbook_verify_cost(0, 295), ValueError, "tokens must be 1 or more, got 0"),
        (lambda: textbook_verify_cost(5, 295, 0), ValueError, "users must be 1 or more, got 0"),
        (lambda: textbook_verify_cost(5, 0), ValueError, "bend_at must be above 0"),
        (lambda: textbook_verify_cost(5.5, 295), TypeError, "tokens must be an integer"),
        (lambda: textbook_verify_cost(5, 295, True), TypeError, "users must be an integer"),
    ],
)
def test_bad_input_about_passes_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_arrays_give_what_numbers_give():
    tokens = np.arange(1, 18)
    costs = textbook_verify_cost(tokens, 295, np.array([[1], [64], [256]]))
    assert costs.shape == (3, 17)
    assert costs[2].tolist() == [textbook_verify_cost(int(n), 295, 256) for n in tokens]
    assert token_ceiling(8e9, [2, 1], 1e12).tolist() == [62.5, 125.0]
