"""Taught numbers: one printed form, no digit that another machine would print otherwise."""

from __future__ import annotations

import locale
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from specdec_lab.show.say import TOLERANCE, forget, said, say


@pytest.fixture(autouse=True)
def silence():
    forget()
    yield
    forget()


def printed(capsys, *args, **kwargs):
    forget()
    say(*args, **kwargs)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (2.6667, 2, "2.67"),
        (2.6667, 0, "3"),
        (2.0, 3, "2.000"),
        (-1.234, 1, "-1.2"),
        (-0.001, 2, "0.00"),  # never -0.00
        (0.0, 2, "0.00"),
        (2.5e4, 1, "25000.0"),
        (12, 2, "12"),
        (10**30, 2, str(10**30)),
        (True, 2, "True"),
        ("none pays", 2, "none pays"),
        (float("nan"), 2, "nan"),
        (float("inf"), 2, "inf"),
        (-float("inf"), 2, "-inf"),
        (Fraction(2, 3), 4, "0.6667"),
        (Decimal("1.234"), 2, "1.23"),
        (Decimal("NaN"), 2, "nan"),
        (np.float32(0.25), 1, None),
        (np.float64(2.6667), 2, "2.67"),
        (np.int64(7), 2, "7"),
        (np.bool_(True), 2, "True"),
        (np.array(1.5), 2, "1.50"),
        (torch.tensor(2.6667), 2, "2.67"),
        (torch.tensor(7), 2, "7"),
        (torch.tensor(float("nan")), 2, "nan"),
    ],
)
def test_every_kind_of_number(capsys, value, digits, text):
    if text is None:  # 0.25 with one digit is a tie
        with pytest.raises(ValueError, match="edge"):
            say("x", value, digits)
    else:
        assert printed(capsys, "x", value, digits, exact=True) == f"x = {text}\n"


def test_name_unit_and_what_is_remembered(capsys):
    say("tau", 2.6667, unit="tokens a round")
    say("rounds", 12)
    assert capsys.readouterr().out == "tau = 2.67 tokens a round\nrounds = 12\n"
    assert said() == {"tau": "2.67 tokens a round", "rounds": "12"}
    said().clear()
    assert len(said()) == 2, "a copy is handed out"


def test_digits_are_those_of_pythons_own_formatting(capsys):
    for value in np.random.default_rng(0).normal(0, 30, 300).tolist():
        for digits in (0, 1, 3):
            assert printed(capsys, "x", value, digits, exact=True) == f"x = {value:.{digits}f}\n".replace(
                "-0\n", "0\n"
            )


# ---------------------------------------------------------------- edges


@pytest.mark.parametrize("digits", [0, 1, 2, 4])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_number_at_an_edge_is_refused_and_one_beside_it_is_not(capsys, digits, side):
    edge = (3 + 0.5) / 10**digits
    near = max(1, edge) * TOLERANCE
    with pytest.raises(ValueError, match="edge between"):
        say("x", edge + side * 0.9 * near, digits)
    assert said() == {}
    low_or_high = 3 if side < 0 else 4
    shown = f"{low_or_high / 10**digits:.{digits}f}"
    assert printed(capsys, "x", edge + side * 1.1 * near, digits) == f"x = {shown}\n"


def test_the_bound_grows_with_the_value(capsys):
    assert printed(capsys, "x", 0.5 + 2e-6, 0) == "x = 1\n"
    with pytest.raises(ValueError, match=r"1000\.500002"):
        say("x", 1000.500002, 0)
    with pytest.raises(ValueError, match=r"-1000\.500002"):
        say("x", -1000.500002, 0)


def test_another_machine_prints_the_same():
    """Whatever is let through keeps its digits when the last bits differ, and enough is let through."""
    rng, passed = np.random.default_rng(1), 0
    for value in rng.uniform(-5, 5, 2000):
        forget()
        try:
            say("x", value, 3)
        except ValueError:
            continue
        passed += 1
        for other in (value + 0.99 * TOLERANCE, value - 0.99 * TOLERANCE):
            assert float(f"{other:.3f}") == float(said()["x"])
    assert passed > 1900


def test_the_refusal_says_which_number_and_what_to_do():
    with pytest.raises(ValueError) as caught:
        say("rate", 0.615, digits=2)
    message = str(caught.value)
    for part in ("'rate'", "0.615", "digits=2", "0.61 and 0.62", "digits=3", "exact=True"):
        assert part in message
    assert said() == {}
    say("rate", 0.615, digits=3)  # what it advised
    assert said() == {"rate": "0.615"}


def test_no_advice_that_would_be_refused():
    with pytest.raises(ValueError) as caught:
        say("x", 1000000.5, digits=7)
    assert "another value" in str(caught.value)
    with pytest.raises(ValueError, match="digits=5"):
        say("x", 0.123, digits=6)  # at six digits an edge is never further than 5e-7


def test_exact_values_may_lie_on_an_edge(capsys):
    assert printed(capsys, "x", Fraction(5, 8), exact=True) == "x = 0.62\n"  # a tie goes to the even digit
    assert printed(capsys, "x", Fraction(7, 8), exact=True) == "x = 0.88\n"
    assert printed(capsys, "x", 5 / 8, exact=True) == "x = 0.62\n"
    with pytest.raises(ValueError, match="exact=True"):
        say("x", Fraction(5, 8))


# ---------------------------------------------------------------- names and misuse


def test_said_again_the_last_one_counts():
    """A student changes a cell and runs it again; that must not be an error."""
    say("tau", 2.6667)
    say("tau", 2.7)
    assert said() == {"tau": "2.70"}
    say("tau", 2.7, unit="tokens")
    assert said() == {"tau": "2.70 tokens"}


@pytest.mark.parametrize("value", [None, [1.0], np.ones(2), np.ones(1), torch.ones(3), 1j, object()])
def test_what_is_no_single_number(value):
    with pytest.raises(TypeError, match="'x'"):
        say("x", value)


@pytest.mark.parametrize(
    ("args", "match"),
    [(("", 1), "name"), (("a\nb", 1), "name"), (("x", 1.0, -1), "digits"), (("x", 1.0, 1.5), "digits")],
)
def test_misuse(args, match):
    with pytest.raises(ValueError, match=match):
        say(*args)


def test_a_point_whatever_the_locale(capsys):
    before = locale.setlocale(locale.LC_NUMERIC)
    try:
        for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "German_Germany.1252"):
            try:
                locale.setlocale(locale.LC_NUMERIC, name)
                break
            except locale.Error:
                continue
        assert printed(capsys, "x", 1234.567) == "x = 1234.57\n"
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)
