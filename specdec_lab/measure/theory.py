"""Formulas about speculative decoding. Plain Python: no torch, no numpy, loads at once."""

from __future__ import annotations


def estimate_alpha(accepted: int, rejected: int) -> float:
    """α̂ = accepted ÷ (accepted + rejected): the share of *judged* drafted tokens that were accepted.

    Tokens behind a rejection were never judged and count on neither side, so this is not the acceptance
    rate, which divides by everything drafted and falls with γ. NaN when nothing was judged. The chance α
    is that of Leviathan et al. 2023, definition 3.1 and section 3.1.

    Raises `ValueError` for negative counts.

    >>> estimate_alpha(accepted=8, rejected=2)
    0.8
    """
    if accepted < 0 or rejected < 0:
        raise ValueError(f"accepted and rejected must be 0 or more, got {accepted} and {rejected}")
    judged = accepted + rejected
    return accepted / judged if judged else float("nan")
