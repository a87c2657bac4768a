"""How long a pass takes, and the two rates of a machine that set its least: bytes and FLOPs per second.

It times and returns seconds or rates, for a model (`time_passes`) or for the bare machine. What follows from them is
`roofline`'s business; whole decoding runs are `benchmark`'s. Every figure is wall-clock of this machine at this moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from specdec_lab.decoding.checks import check_count
from specdec_lab.decoding.session import Session
from specdec_lab.models.protocol import context_length, model_device

from .clock import read_clock
from .pass_times import PassTimes, ratio


def time_passes(
    model: Any,
    tokens: Sequence[int] = (1, 2, 3, 5, 9, 13, 17),
    *,
    context: int = 64,
    runs: int = 7,
    budget: float = 8.0,
) -> PassTimes:
    """Time a pass over n tokens behind `context` others, for each n; all n take turns. Taught in notebook 01.

    A pass is what a round costs the target: n tokens in, n rows of logits out, the cache longer by n. Cutting the
    cache back between passes is not timed; the device is waited for at both ends. Turns, because a machine drifts:
    every n meets the same weather, and the ratio within one turn is fair.

    Args:
        model: any model that can be decoded.
        tokens: every n, 1 among them.
        context: tokens in the cache before each pass, 1 or more.
        runs: turns after the first, which warms up.
        budget: seconds after which no further turn begins. A processor without bfloat16 instructions can be a
            hundred times slower in bfloat16; then the first turn is kept, and is the only one.

    Raises:
        ValueError, TypeError: bad input, or more tokens than the model's context, before the first pass.

    Example:
        >>> times = time_passes(pair.target, context=512)  # doctest: +SKIP
        >>> speedup(0.8, 4, 0.1, times.verify_cost)  # doctest: +SKIP
    """
    counts = [check_count(n, f"tokens[{i}]") for i, n in enumerate(tokens)]
    if 1 not in counts or len(set(counts)) < len(counts):
        raise ValueError(
            f"tokens must hold each n once, and 1, the pass that all others are compared with; got {counts}"
        )
    context, runs = check_count(context, "context"), check_count(runs, "runs")
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise TypeError(f"budget must be a number of seconds, got {budget!r}")
    if not budget >= 0:
        raise ValueError(f"budget must be 0 seconds or more, got {budget}")
    session = Session(model)
    most = context_length(session.model)
    if most is not None and context + max(counts) > most:
        raise ValueError(
            f"context is {context} and the longest pass {max(counts)} tokens: together {context + max(counts)}, "
            f"more than the model's context of {most}"
        )
    devices = {model_device(session.model)}
    kept: dict[int, list[float]] = {n: [] for n in counts}
    session.feed([0] * context, rows=1)
    begin = read_clock(devices)
    for _ in range(1 + runs):
        for n in counts:
            start = read_clock(devices)
            session.feed([0] * n, rows=n)
            kept[n].append(read_clock(devices) - start)
            session.roll_back(context)
        if read_clock(devices) - begin > budget:
            break
    return PassTimes({n: tuple(values[1:] or values) for n, values in kept.items()}, context)


def fastest(work: Callable[[], Any], runs: int = 7) -> float:
    """Seconds of the fastest of several runs of `work`. Taught in notebook 01.

    For ceilings: whatever disturbs a run makes it slower, so the fastest tells most about the machine. What users get
    is a median (`PassTimes`). On an accelerator `work` must end by waiting for it (`clock.synchronise`).

    Raises `ValueError` or `TypeError` for `runs` that is not 1 or more.
    """
    seconds = []
    for _ in range(check_count(runs, "runs")):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def memory_bandwidth(megabytes: int = 256) -> float:
    """Bytes per second at which this machine's CPU adds up an array that fits into no cache. Taught in notebook 01.

    The array is written first: a page that was never written is no memory of its own (the system hands out one page
    of zeros for all of them), and reading it would measure the cache. All of torch's threads read, as in a pass.

    Args:
        megabytes: size of the array, 1 or more; far more than the last cache.

    Example:
        >>> token_ceiling(8e9, 2, memory_bandwidth())  # doctest: +SKIP
    """
    array = torch.ones(check_count(megabytes, "megabytes") * 250_000)
    return ratio(array.nbytes, fastest(array.sum))


def product_bandwidth(dtype: torch.dtype, rows: int = 32768) -> float:
    """Bytes per second at which matrix × vector reads its matrix, (rows, 1024), on the CPU. Taught in notebook 01.

    The step between `memory_bandwidth` and what a model reaches. It falls short of the first where the library's
    routine does not keep the memory busy, or where every number is converted before it is multiplied (bfloat16
    without instructions for it).

    Args:
        dtype: a floating-point dtype.
        rows: rows of the matrix, 1 or more; the default makes 134 MB in float32, more than a cache holds.

    Raises:
        TypeError: `dtype` is none of torch's floating-point dtypes.
    """
    _check_floating(dtype)
    matrix = torch.ones(check_count(rows, "rows"), 1024, dtype=dtype)
    vector = torch.ones(1, 1024, dtype=dtype)
    return ratio(matrix.nbytes, fastest(partial(torch.nn.functional.linear, vector, matrix)))


def multiply_rate(dtype: torch.dtype, size: int = 1024) -> float:
    """FLOPs per second of the product of two (size, size) matrices on the CPU. Taught in notebook 01.

    Args:
        dtype: a floating-point dtype.
        size: rows and columns, 1 or more; small ones measure the call and not the arithmetic.

    Raises:
        TypeError: `dtype` is none of torch's floating-point dtypes.
    """
    _check_floating(dtype)
    size = check_count(size, "size")
    square = torch.ones(size, size, dtype=dtype)
    return ratio(2 * size**3, fastest(partial(torch.mm, square, square), runs=3))


def _check_floating(dtype: Any) -> None:
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point dtype such as torch.float32, got {dtype!r}")
