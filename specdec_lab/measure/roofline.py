"""The roofline of a pass: what a machine's memory and arithmetic allow, before anything was measured. No torch.

Numbers or arrays in, numbers or arrays out, as in `theory`. Figures of real machines are in `machines`; what passes
really take is measured by `passes` and `profile`.
"""

from __future__ import annotations

from .arrays import above_zero, counts, plain


def token_ceiling(parameters: float, bytes_each: float, bandwidth: float) -> float:
    """Tokens per second that one sequence cannot exceed: bandwidth ÷ bytes of all weights. Taught in notebook 01.

    Every new token needs a pass, and every pass reads every weight once. Reading the KV cache comes on top. Drafting
    breaks the first half of that sentence: tokens per round multiply this.

    Args:
        parameters: how many the model has (of a mixture of experts: those used for a token).
        bytes_each: bytes of one parameter, 4 in float32.
        bandwidth: bytes per second.

    Raises `ValueError` unless all three are above 0.

    >>> token_ceiling(8e9, 2, 3350e9)
    209.375
    """
    size = above_zero(parameters=parameters) * above_zero(bytes_each=bytes_each)
    return plain(above_zero(bandwidth=bandwidth) / size)


def bend(bytes_each: float, bandwidth: float, flops: float) -> float:
    """Tokens in a pass at which arithmetic takes as long as reading the weights. Taught in notebook 01.

    2 FLOPs per parameter and token, `bytes_each` bytes per parameter however many tokens there are: the roofline of
    Williams et al. 2009 for matrices that are read once.

    Args:
        bytes_each: bytes of one parameter.
        bandwidth: bytes per second.
        flops: FLOPs per second.

    Raises `ValueError` unless all three are above 0.

    >>> round(bend(2, 3350e9, 989e12))
    295
    """
    balance = above_zero(flops=flops) / above_zero(bandwidth=bandwidth)
    return plain(balance * above_zero(bytes_each=bytes_each) / 2)


def textbook_verify_cost(tokens: int, bend_at: float, users: int = 1) -> float:
    """v(n) by the roofline: a pass takes the longer of reading and computing. Taught in notebook 01.

    With `users` sequences in one pass, both the plain pass and the verification carry that many times the tokens.

    Args:
        tokens: n of one sequence, 1 or more.
        bend_at: tokens at which computing takes as long as reading; `bend`.
        users: sequences in one pass, 1 or more.

    Raises `ValueError` outside these bounds, `TypeError` for counts that are no integers.

    >>> textbook_verify_cost(5, 295), round(textbook_verify_cost(5, 295, users=256), 2)
    (1.0, 4.34)
    """
    import numpy as np

    tokens, users, bend_at = counts(tokens=tokens), counts(users=users), above_zero(bend_at=bend_at)
    return plain(np.maximum(1.0, users * tokens / bend_at) / np.maximum(1.0, users / bend_at))
