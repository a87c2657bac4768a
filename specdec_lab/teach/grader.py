"""Grade a `speculative_decode` of one's own: what it does right, what is wrong and what is only wasteful.

It calls the function on scripted models that audit their caches, and judges what came by `judgements.py`. The list of
behaviours, with their hints, is in `behaviours.py`; the small graders for parts of a solution are in `small_graders.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .audit import AGREES, Case, Run, run_case
from .behaviours import BEHAVIOURS, BEYOND
from .grading import NoAnswer, NoReturn, Report, grade

CALLED = "speculative_decode"


def check_speculative_decode(
    function: Callable[..., Any], *, beyond: bool = False, seconds: float | None = None
) -> Report:
    """Grade a function with the signature of `speculative_decode`. Taught in notebook 12.

    It is called by position: `function(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id)`, with
    a list of ids, and an `eos_token_id` that is always an int. Models have `forward(input_ids, use_cache=True,
    past_key_values=None)`, returning `.logits` (1, n, vocab) and `.past_key_values`, and `truncate_cache(past_key_values,
    valid_length)`, which cuts in place and returns the cache as well. What a cache is, is the model's own business.

    The answer is (token ids, acceptance rate). Ids may be a list, a tuple or a tensor, (n,) or (1, n), the prompt
    included or the new tokens only, alike in all calls. A generator may yield ids, or lists of them, and return the rate.
    A round may draft up to min(γ, still wanted) or min(γ, still wanted - 1) tokens.

    Args:
        function: what is graded. Whatever it does, a report comes back, unless it ends the process:
            `python -m specdec_lab grade` runs a file in a process of its own.
        beyond: also look at what the problem statement does not ask for: several end tokens, and a draft with more ids.
        seconds: the longest that one call may take (None: 10); it takes milliseconds.

    Returns:
        A `Report`: a table in a notebook and on `print`; `report.verdict`; `report.hint(name)`. Where no call gives an
        answer, only the first line is judged; behind a line that is wrong because a call did not come back, none is;
        where the text is wrong, lines that any text would fulfil are not.

    Raises:
        TypeError: `function` cannot be called.

    Example:
        >>> from specdec_lab.teach.museum import get_exhibit
        >>> report = check_speculative_decode(get_exhibit("bonus_counted").decode)
        >>> report.verdict, list(report.broken)[0]
        ('wrong', 'rate_of_a_perfect_draft')
    """
    if not callable(function):
        raise TypeError(f"function must be callable, as speculative_decode is, got {type(function).__name__}")
    name = getattr(function, "__name__", CALLED)
    runs = Runs(function, seconds)
    behaviours = [*BEHAVIOURS, *(BEYOND if beyond else ())]
    report = grade(name, runs, behaviours)
    if runs.new_only:
        report.notes.append(
            "Read as: the answer is the new tokens only. (The package puts the prompt before them.)"
        )
    return report


class Runs:
    """The runs of one function, each case run once; and in which form it answers, which the first answer shows."""

    def __init__(self, function: Callable[..., Any], seconds: float | None = None) -> None:
        self.function, self.seconds = function, seconds
        self._known: dict[tuple, Run] = {}
        self.new_only = False
        for case in (
            Case(3, 1, AGREES, prompt=(7, 7, 9), ends=99),
            Case(1, 1, AGREES, prompt=(7, 7, 9), ends=99),
        ):
            run = run_case(self._plainly, case, self.seconds)
            if run.problem is None:
                self.new_only = run.sequence[: len(case.prompt)] != list(case.prompt)
                break
            if isinstance(run.error, TimeoutError):
                break

    def __call__(self, case: Case) -> Run:
        """The run of a case. `NoReturn` where it did not come back in time, or took all memory."""
        key = (case.new_tokens, case.gamma, case.draft, case.prompt, repr(case.ends), id(case.rule))
        if key not in self._known:
            self._known[key] = run_case(
                self._with_prompt if self.new_only else self._plainly, case, self.seconds
            )
        run = self._known[key]
        if isinstance(run.error, TimeoutError):
            raise NoReturn(run.problem)
        if isinstance(run.error, MemoryError) or "can't allocate memory" in str(run.error):
            raise NoReturn("it used up the memory that it may have.")
        return run

    def answered(self, case: Case) -> Run:
        """As a call; `NoAnswer` where there is nothing to look at."""
        run = self(case)
        if run.problem:
            raise NoAnswer(f"{run.problem[:-1]} ({run.where})." if run.where else run.problem)
        return run

    def _plainly(self, target: Any, draft: Any, ids: list[int], *rest: Any) -> tuple[list[int], Any]:
        return as_pair(self.function(target, draft, ids, *rest))

    def _with_prompt(self, target: Any, draft: Any, ids: list[int], *rest: Any) -> tuple[list[int], Any]:
        before = list(ids)
        answer = as_pair(self.function(target, draft, ids, *rest))
        return ([*before, *answer[0]], answer[1]) if isinstance(answer, tuple) else answer


def as_pair(answer: Any) -> Any:
    """(list of ids, rate) from any of the forms that are accepted; anything else comes back as it is.

    >>> as_pair((torch.tensor([[1, 2]]), torch.tensor(0.5)))
    ([1, 2], 0.5)
    """
    if inspect.isgenerator(answer):
        answer = _exhaust(answer)
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return answer
    ids, rate = answer
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    if isinstance(ids, Sequence) and len(ids) == 1 and hasattr(ids[0], "__len__"):
        ids = ids[0].tolist() if hasattr(ids[0], "tolist") else ids[0]  # a batch of one
    return (list(ids), float(rate)) if isinstance(ids, Sequence) and hasattr(rate, "__float__") else answer


def _exhaust(steps: Any) -> tuple[list[Any], Any]:
    """What a generator yields, one id or several at a time, and what it returns."""
    ids: list[Any] = []
    while True:
        try:
            step = next(steps)
        except StopIteration as stop:
            return ids, stop.value
        step = step.flatten().tolist() if isinstance(step, torch.Tensor) else step
        ids += step if isinstance(step, (list, tuple)) else [step]
