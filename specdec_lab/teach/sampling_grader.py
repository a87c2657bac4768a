"""Grade a speculative sampler: the behaviours are `sampling_checks.py`, which compute the exact law; here are the hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .examples import call
from .grading import Behaviour, Report, grade
from .sampling_checks import SAMPLING_CHECKS


def check_speculative_sample(function: Callable[..., Any]) -> Report:
    """Grade a sampler: `function(target, draft, prompt, max_new_tokens, gamma, eos_token_id, sampling, chance)`, called by
    position. Taught in notebook 07.

    `sampling` has `temperature`, `top_k` and `top_p`; all randomness comes from `chance.draw(probabilities)`, which
    returns an index, and `chance.accept(probability)`, which returns a bool. It returns the new tokens and the acceptance
    rate. The law of what comes out is computed exactly, by walking every path of draws and tosses.

    >>> from specdec_lab.teach.museum import get_exhibit
    >>> list(check_speculative_sample(get_exhibit("accept_if_equal").sample).broken)
    ['acceptance_is_the_overlap']
    """
    return grade(getattr(function, "__name__", "speculative_sample"), function, SAMPLING)


def _law(check: Callable[[Any], str | None]) -> Callable[[Any, Any], tuple[str, str] | None]:
    """A check as a judge. Its sentence begins with the case that it has chosen."""

    def judge(function: Callable[..., Any], case: Any) -> tuple[str, str] | None:
        sentence = call(check, function)
        if not sentence:
            return None
        words, _, found = sentence.partition(": ")
        return found, words

    return judge


_ACCEPT_LINE = "A guess x is kept with probability min(1, p(x) ÷ q(x)), else replaced by a draw from the residual of p and q."
_SAMPLING_HINTS = {
    "law_of_first_token": ("Is the guess drawn from the very q that judges it?", "What is rejected must be replaced from the positive part of p - q, normalised.", _ACCEPT_LINE),
    "law_of_outputs": ("Is each guess judged by the row of p in its own place?", "Row i of p judges guess i; its q is the one it was drawn from.", _ACCEPT_LINE),
    "law_with_a_certain_draft": ("What is p ÷ q for a draft that is sure?", "It is p(x): the guess is kept with the probability that the target gives it.", _ACCEPT_LINE),
    "law_with_filters": ("To which distributions do top-k and top-p apply?", "To p, and to q both where the guess is drawn and where it is judged.", "p, q = (filtered(softmax(logits / T)) for each model); nothing else is used further on."),
    "law_at_another_temperature": ("To which distributions does the temperature apply?", "To p and to q, in drawing and in judging.", "softmax(logits / temperature) once for each row, kept and used everywhere."),
    "law_with_end_tokens": ("What follows an end token that was accepted?", "Nothing; and drafting stops behind one.", "Look at every token that is added, and stop at the first end token."),
    "bonus_law": ("From which row comes the token behind a full acceptance?", "From p in its own place, the last row; no guess was rejected there, so there is no residual.", "bonus = chance.draw(p[K])."),
    "acceptance_is_the_overlap": ("How often is a guess kept when p and q are equal?", "Always. Two independent draws would agree only now and then.", "chance.accept(min(1, p[x] / q[x])), with q the whole distribution and not a point."),
    "no_token_of_probability_0": ("Can a token come out that p excludes?", "The residual is 0 wherever p is; a softmax of it is not.", "positive / positive.sum(), and filters on p."),
    "greedy_at_temperature_0": ("What is logits ÷ 0?", "Temperature 0 is greedy decoding: all probability on the argmax.", "if temperature < 1e-5: one-hot of the argmax."),
    "equal_but_for_rounding": ("What if nothing of p - q is positive?", "By rounding, a guess may be rejected although p and q are equal.", "positive / total if total > 0 else p."),
    "same_seed_same_tokens": ("Where do your random numbers come from?", "From `chance` and nowhere else: no torch.rand, no torch.multinomial without a generator.", "chance.draw(…) and chance.accept(…) only."),
}  # fmt: skip


def _first_sentence(check: Callable[..., Any]) -> str:
    said = check.__doc__.split(" (")[0].rstrip(".")
    return said[0].lower() + said[1:]


SAMPLING = tuple(
    Behaviour(
        name,
        _first_sentence(check),
        (check,),
        _law(check),
        _SAMPLING_HINTS[name],
    )
    for name, check in SAMPLING_CHECKS.items()
)
