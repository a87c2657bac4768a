"""`practise`: a reader's function against a specification."""

from __future__ import annotations

import pytest
import torch

from specdec_lab.teach.practice import NotRightYet, practise, same

NUMBERS = [(n,) for n in range(5)]


def double(n):
    return 2 * n


def test_agreement_is_said_with_the_number_of_cases(capsys):
    practise(lambda n: n + n, double, NUMBERS)
    assert capsys.readouterr().out == "✓ <lambda> agrees with its specification in all 5 cases.\n"


def test_the_first_case_that_differs_is_named():
    def wrong(n):
        return n * n

    with pytest.raises(NotRightYet, match=r"^wrong\(1\) should be 2, got 1\.$"):
        practise(wrong, double, NUMBERS)


def test_a_mistake_is_shown_in_a_notebook_without_a_traceback():
    assert NotRightYet("f(1) should be 2, got 1.")._render_traceback_() == ["✗ f(1) should be 2, got 1."]


def test_what_is_not_written_yet_says_so_itself():
    def empty(n):
        raise NotImplementedError("write empty")

    with pytest.raises(NotImplementedError, match="write empty"):
        practise(empty, double, NUMBERS)


def test_an_error_goes_on_with_a_note_on_the_case():
    def broken(n):
        return [0, 2][n]

    with pytest.raises(IndexError) as caught:
        practise(broken, double, NUMBERS)
    assert caught.value.__notes__ == ["in broken(2), where 4 is right"]


def test_changing_an_argument_is_a_mistake_unless_it_is_asked_for():
    def emptied(items):
        return sum(items.pop() for _ in range(len(items)))

    with pytest.raises(NotRightYet, match=r"should leave its arguments as they are, now they are \(\[\],\)"):
        practise(emptied, sum, [([1],)])
    practise(emptied, sum, [([1],)], in_place=True)
    tensor = torch.ones(2)
    with pytest.raises(NotRightYet, match="leave its arguments"):
        practise(lambda t: t.add_(1), lambda t: t + 1, [(tensor,)])
    assert tensor.tolist() == [1, 1], "the caller's own is never touched"


def test_a_property_is_tried_where_the_answer_agrees():
    calls = []

    def once(answer, n):
        return calls.count(n) == 1

    def counted(n):
        calls.append(n)
        return 2 * n

    practise(counted, double, NUMBERS, properties={"one call a case": once})
    with pytest.raises(NotRightYet, match=r"counted\(0\): one call a case should hold, got 0\."):
        practise(counted, double, NUMBERS, properties={"one call a case": once})


def test_a_pasted_specification_is_no_answer():
    def pasted(n):
        return double(n)

    with pytest.raises(NotRightYet, match="pasted should find its answer itself, and not call double"):
        practise(pasted, double, NUMBERS)
    practise(lambda text: {"a": 1}.get(text), {"a": 1}.get, [("a",)])


def test_no_cases_are_no_agreement():
    with pytest.raises(ValueError, match="cases must not be empty"):
        practise(double, double, [])


@pytest.mark.parametrize(
    ("got", "right", "tolerance", "equal"),
    [
        (1, 1, 0.0, True),
        (True, 1, 0.0, True),
        (1.0 + 1e-9, 1.0, 0.0, False),
        (1.0 + 1e-9, 1.0, 1e-6, True),
        (float("nan"), float("nan"), 0.0, True),
        (1, 1.0, 0.0, True),
        (None, None, 0.0, True),
        (None, 0, 0.0, False),
        (0, None, 0.0, False),
        ([1, 2], (1, 2), 0.0, True),
        ([1, 2], [1, 2, 3], 0.0, False),
        ({"a": [1.0]}, {"a": [1.0 + 1e-9]}, 1e-6, True),
        ({"a": 1}, {"b": 1}, 0.0, False),
        ("ab", "ab", 0.0, True),
        (torch.tensor(3), 3, 0.0, True),
        (torch.tensor([1.0]), torch.tensor([1.0 + 1e-6]), 1e-4, True),
        (torch.tensor([1.0]), torch.tensor([1.0 + 1e-3]), 1e-4, False),
        (torch.tensor([1, 2]), torch.tensor([[1, 2]]), 0.0, False),
        (torch.tensor([True]), torch.tensor([False]), 0.0, False),
        ([1.0], torch.tensor([1.0]), 0.0, False),
        (torch.tensor([1.0, 2.0]), 1.0, 0.0, False),
    ],
)
def test_same(got, right, tolerance, equal):
    assert same(got, right, tolerance) is equal


def test_long_values_are_cut():
    with pytest.raises(NotRightYet) as caught:
        practise(lambda n: list(range(n)), lambda n: [0] * n, [(500,)])
    assert len(str(caught.value)) < 500
