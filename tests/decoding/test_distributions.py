"""Probabilities, filters, residual and overlap, held against slow plain Python in float64 and against transformers.

The reference works on lists and `math` only. A case that rounding could decide (a running sum within 1e-5 of the
threshold, two unequal probabilities nearly alike at a cut) is skipped, and few may be.
"""

from __future__ import annotations

import math
import random

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from specdec_lab.decoding import distributions
from specdec_lab.decoding.distributions import (
    distribution,
    finest,
    fit,
    keep_top_k,
    keep_top_p,
    overlap,
    residual_distribution,
    softmax,
)

NAN, INF = math.nan, math.inf
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12}


# ---------------------------------------------------------------- the reference


def plain_softmax(logits, temperature):
    top = max(logits)
    if temperature < 1e-5:
        return [float(i == logits.index(top)) for i in range(len(logits))]
    weights = [math.exp((x - top) / temperature) for x in logits]
    return [w / math.fsum(weights) for w in weights]


def only(probabilities, kept):
    total = math.fsum(probabilities[i] for i in kept)
    return [p / total if i in kept else 0.0 for i, p in enumerate(probabilities)]


def by_size(probabilities):
    return sorted(range(len(probabilities)), key=lambda i: (-probabilities[i], i))


def plain_top_k(probabilities, k):
    return only(probabilities, set(by_size(probabilities)[: k or len(probabilities)]))


def plain_top_p(probabilities, threshold):
    if threshold >= 1:
        return probabilities
    kept, reached = set(), 0.0
    for i in by_size(probabilities):
        kept.add(i)
        reached += probabilities[i]
        if reached >= threshold:
            break
    return only(probabilities, kept)


def plain_distribution(logits, temperature, top_k, top_p):
    probabilities = plain_softmax(logits, temperature)
    if top_k is not None:
        probabilities = plain_top_k(probabilities, top_k)
    return probabilities if top_p is None else plain_top_p(probabilities, top_p)


def plain_residual(p, q):
    q = [*q, *[0.0] * len(p)][: len(p)]
    positive = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    total = math.fsum(positive)
    return ([x / total for x in positive] if total > 0 else list(p)), total


def plain_overlap(p, q):
    return math.fsum(min(a, b) for a, b in zip(p, q, strict=False))


def doubtful(logits, temperature, top_k, top_p):
    """Whether rounding in float32 may decide which ids stay."""
    probabilities = plain_softmax(logits, temperature)
    if top_k is not None and 0 < top_k < len(logits):
        ordered = sorted(probabilities, reverse=True)
        last, next_ = ordered[top_k - 1], ordered[top_k]
        if last != next_ and last - next_ < 1e-5 * last:
            return True
        probabilities = plain_top_k(probabilities, top_k)
    if top_p is None or top_p >= 1:
        return False
    ordered, reached = sorted(probabilities, reverse=True), 0.0
    for i, value in enumerate(ordered):
        reached += value
        if abs(reached - top_p) < 1e-5:
            return True
        if reached >= top_p:
            near = ordered[i + 1 : i + 2]
            return bool(near) and near[0] != value and value - near[0] < 1e-5 * value
    return False


# ---------------------------------------------------------------- random triples


def random_case(number):
    """Logits for p and q, in batches of 1 to 4 rows of every rank, one filter for both."""
    fate = random.Random(f"triple {number}")
    vocabulary = fate.choice([1, 2, 3, 5, 8, 40, 200])
    other = vocabulary if fate.random() < 0.6 else fate.choice([1, 2, 4, 9, 41, 150])
    shape = fate.choice([(), (1,), (2,), (2, 2), (1, 3)])
    spread = fate.choice([0.0, 0.3, 1.0, 4.0, 30.0, 80.0])
    dtype = fate.choice([torch.float32, torch.float64])

    def logits(width):
        rows = [fate.gauss(0, spread) for _ in range(math.prod(shape) * width)]
        if fate.random() < 0.2:  # ties
            rows = [float(round(x)) for x in rows]
        if fate.random() < 0.2:  # masks, never the whole row
            rows = [-INF if fate.random() < 0.3 and i % width else x for i, x in enumerate(rows)]
        return torch.tensor(rows, dtype=dtype).reshape(*shape, width)

    p = logits(vocabulary)
    near = fate.random() < 0.3 and other == vocabulary
    q = (
        p + 1e-3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(number))
        if near
        else logits(other)
    )
    return (
        p,
        q.to(dtype),
        {
            "temperature": fate.choice([0.0, 1e-7, 9e-6, 2e-5, 0.05, 0.5, 1.0, 1.0, 2.0, 50.0]),
            "top_k": fate.choice([None, None, 0, 1, 2, 3, 30, 500]),
            "top_p": fate.choice([None, None, 0.0, 1e-9, 0.3, 0.5, 0.9, 0.999, 1.0]),
        },
    )


def rows_of(tensor):
    return tensor.reshape(-1, tensor.shape[-1]).tolist()


def close(found, expected, tolerance):
    return all(abs(a - b) <= tolerance for a, b in zip(found, expected, strict=True))


@pytest.mark.scripted
def test_2000_random_triples_against_plain_python():
    rows = compared = 0
    for number in range(2000):
        p_logits, q_logits, settings = random_case(number)
        tolerance = TOLERANCE[p_logits.dtype]
        before = p_logits.clone(), q_logits.clone()
        p, q = distribution(p_logits, **settings), distribution(q_logits, **settings)
        assert (
            p.dtype == q.dtype == p_logits.dtype and p.shape == p_logits.shape and q.shape == q_logits.shape
        )
        for found, logits in ((p, p_logits), (q, q_logits)):
            for row, given in zip(rows_of(found), rows_of(logits), strict=True):
                rows += 1
                assert abs(math.fsum(row) - 1) < 1e-5 and min(row) >= 0, (number, row)
                if doubtful(given, *settings.values()):
                    continue
                compared += 1
                # a temperature multiplies what float32 lost in the logits' differences
                slack = (
                    1 if logits.dtype == torch.float64 else max(1, 20 / max(settings["temperature"], 0.02))
                )
                expected = plain_distribution(given, *settings.values())
                assert close(row, expected, slack * tolerance), (number, settings, row, expected)
                ids = range(len(row))
                assert {i for i in ids if expected[i] > 1e-6} <= {i for i in ids if row[i] > 0}
                assert {i for i in ids if row[i] > 0} <= {i for i in ids if expected[i] > 0}, "a filtered id"

        # the rest is compared on the probabilities as they came out
        left, both = residual_distribution(p, q), overlap(p, q)
        assert left.shape == p.shape and left.dtype == p.dtype and both.shape == p.shape[:-1]
        everything = zip(rows_of(p), rows_of(q), rows_of(left), both.reshape(-1).tolist(), strict=True)
        for p_row, q_row, found, shared in everything:
            expected, total = plain_residual(p_row, q_row)
            assert math.isfinite(sum(found)) and abs(math.fsum(found) - 1) < 1e-5, (number, found)
            assert close(found, expected, tolerance / max(total, tolerance)), (number, found, expected)
            assert all(a == 0 for a, b in zip(found, p_row, strict=True) if b == 0), "an impossible id"
            assert abs(shared - plain_overlap(p_row, q_row)) < 4 * tolerance
            assert abs(1 - shared - total) < 1e-5, "overlap is 1 minus what the residual is made of"
        assert torch.equal(p_logits, before[0]) and torch.equal(q_logits, before[1]), "input was modified"
    assert rows > 8000 and compared > 0.95 * rows, (rows, compared)


def test_single_filters_against_plain_python():
    for number in range(300):
        fate = random.Random(f"filter {number}")
        values = [fate.choice([fate.random(), 0.25, 0.0]) + 1e-9 for _ in range(fate.choice([1, 2, 6, 30]))]
        given = [x / math.fsum(values) for x in values]
        p = torch.tensor(given, dtype=torch.float64)
        k = fate.randrange(0, 40)
        assert close(keep_top_k(p, k).tolist(), plain_top_k(given, k), 1e-12)
        threshold = fate.random()
        if not any(abs(math.fsum(sorted(given)[-i:]) - threshold) < 1e-9 for i in range(1, len(given))):
            assert close(keep_top_p(p, threshold).tolist(), plain_top_p(given, threshold), 1e-12)


@pytest.mark.parametrize("settings", [{}, {"top_k": 7}, {"top_p": 0.8}, {"top_k": 20, "top_p": 0.6}])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("vocabulary", [5, 50, 3000])
def test_transformers_says_the_same(vocabulary, temperature, settings):
    """Its warpers, in its order: temperature, top-k, top-p, each followed by a softmax over what is left."""
    logits = torch.randn(12, vocabulary, generator=torch.Generator().manual_seed(7), dtype=torch.float64) * 3
    warped = TemperatureLogitsWarper(temperature)(None, logits.clone())
    if "top_k" in settings:
        warped = TopKLogitsWarper(settings["top_k"])(None, warped)
    if "top_p" in settings:
        warped = TopPLogitsWarper(settings["top_p"])(None, warped)
    expected, found = warped.softmax(-1), distribution(logits, temperature, **settings)
    assert torch.equal(found > 0, expected > 0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    kept = (found > 0).sum(-1)
    assert settings == {} or vocabulary == 5 or (kept < vocabulary).all(), "nothing was filtered"


# ---------------------------------------------------------------- temperature


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [0.0, 0, 1e-12, 1e-6, 9.99e-6])
def test_f13_below_1e_5_is_the_argmax_exactly(temperature, dtype):
    """Tiny temperatures overflow in one branch and are greedy in another (vllm PR 27077)."""
    rows = torch.tensor([[80.0, -80.0, 79.999], [-80, -80, -80], [1, 3, 3]], dtype=dtype)
    expected = [[1.0, 0, 0], [1, 0, 0], [0, 1, 0]]  # the first of equals, as argmax takes it
    for settings in ({}, {"top_k": 2}, {"top_p": 0.0}, {"top_p": 0.99}, {"top_k": 1, "top_p": 0.5}):
        assert distribution(rows, temperature, **settings).tolist() == expected


@pytest.mark.parametrize("temperature", [1e-5, 1e-4, 1e-2, 1.0, 1e4])
def test_f13_no_temperature_overflows(temperature):
    rows = torch.tensor([[80.0, -80.0, 79.0], [3e38, -3e38, 0], [-3e38, -3e38, -3e38]])
    found = softmax(rows, temperature)
    assert found.isfinite().all()
    torch.testing.assert_close(found.sum(-1), torch.ones(3))
    assert found[2].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hottest_is_uniform_over_what_is_possible(dtype):
    """Any finite temperature is allowed, also one beyond float32."""
    row = torch.tensor([1.0, -INF, 0.0], dtype=dtype)
    assert softmax(row, 1e300).tolist() == [0.5, 0.0, 0.5]


# ---------------------------------------------------------------- top-k, top-p


def sizes(probabilities, thresholds):
    return [int(keep_top_p(probabilities, top_p).count_nonzero()) for top_p in thresholds]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_f18_the_crossing_token_is_in_the_nucleus(dtype):
    """Nucleus drops the token that crosses the threshold, or masks all (fishaudio/fish-speech PR 1171)."""
    p = torch.tensor([0.125, 0.5, 0.125, 0.25], dtype=dtype)
    before = p.clone()
    assert sizes(p, [0.0, 1e-9, 0.49, 0.5, 0.6, 0.75, 0.8, 0.875, 0.9, 1.0]) == [1, 1, 1, 1, 2, 2, 3, 3, 4, 4]
    assert keep_top_p(p, 0.6).tolist() == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=1e-7)
    assert keep_top_p(p, 0.8).tolist() == pytest.approx([1 / 7, 4 / 7, 0, 2 / 7], abs=1e-7), (
        "lower id of equals"
    )
    assert keep_top_k(p, 3).tolist() == pytest.approx([1 / 7, 4 / 7, 0, 2 / 7], abs=1e-7)
    assert torch.equal(p, before) and p.dtype == dtype
    for found in (keep_top_p(p, 0.6), keep_top_p(p, 1.0), keep_top_k(p, 2), keep_top_k(p, 0), softmax(p)):
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("k", [0, 4, 5, 10**6])
def test_f18_top_k_of_nothing_or_everything_keeps_all(k):
    p = torch.tensor([0.125, 0.5, 0.125, 0.25])
    assert torch.equal(keep_top_k(p, k), p)
    assert torch.equal(distribution(p.log(), top_k=k), distribution(p.log()))


def test_ties_never_keep_more_than_asked_for():
    p = torch.full((2, 6), 1 / 6)
    assert (keep_top_k(p, 4) > 0).tolist() == [[True] * 4 + [False] * 2] * 2
    assert (keep_top_p(p, 0.5 + 1e-3) > 0).tolist() == [[True] * 4 + [False] * 2] * 2
    mixed = torch.tensor([0.1, 0.2, 0.2, 0.2, 0.3])
    assert (keep_top_k(mixed, 3) > 0).tolist() == [False, True, True, False, True]


def test_a_filter_of_a_one_hot_is_the_one_hot():
    hot = torch.eye(4)
    for found in (keep_top_k(hot, 1), keep_top_k(hot, 3), keep_top_p(hot, 0.0), keep_top_p(hot, 0.999)):
        assert torch.equal(found, hot)


def test_rows_of_a_batch_have_nuclei_of_their_own():
    p = torch.tensor([[0.97, 0.01, 0.01, 0.01], [0.25, 0.25, 0.25, 0.25], [0.0, 0.6, 0.0, 0.4]])
    assert (keep_top_p(p, 0.7) > 0).sum(-1).tolist() == [1, 3, 2]
    for i in range(3):
        assert torch.equal(keep_top_p(p, 0.7)[i], keep_top_p(p[i], 0.7))


def sortings(monkeypatch):
    """How often a running sum was formed: once on the fast path, twice where everything had to be sorted."""
    seen, real = [], distributions._sums
    monkeypatch.setattr(
        distributions, "_sums", lambda ordered: seen.append(ordered.shape[-1]) or real(ordered)
    )
    return seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("spread", "top_p", "widths"), [(6.0, 0.9, [1024]), (0.1, 0.9, [1024, 3000])])
def test_wide_vocabularies_both_ways(monkeypatch, spread, top_p, widths, dtype):
    """The largest 1024 mostly hold the nucleus; where they do not, all are sorted. Both give the same."""
    logits = torch.randn(5, 3000, generator=torch.Generator().manual_seed(1), dtype=dtype) * spread
    p = softmax(logits)
    seen = sortings(monkeypatch)
    found = keep_top_p(p, top_p)
    assert seen == widths
    monkeypatch.setattr(distributions, "_ENOUGH", 10**6)
    assert torch.equal(found, keep_top_p(p, top_p))
    for row, given in zip(found.tolist(), p.tolist(), strict=True):
        assert close(row, plain_top_p(given, top_p), TOLERANCE[dtype])


def test_one_flat_row_has_the_whole_batch_sorted(monkeypatch):
    p = torch.stack([torch.full((3000,), 1 / 3000), torch.eye(3000)[2999]])
    seen = sortings(monkeypatch)
    found = keep_top_p(p, 0.5 + 1e-5)
    assert seen == [1024, 3000]
    assert (found[0] > 0).nonzero().flatten().tolist() == list(range(1501)), "the lower ids of equals"
    assert torch.equal(found[1], p[1])


def test_equal_probabilities_on_the_fast_path(monkeypatch):
    """topk takes any of equals; the lower ids have to stay."""
    p = torch.full((3000,), 1 / 3000, dtype=torch.float64)
    seen = sortings(monkeypatch)
    assert (keep_top_p(p, 0.1001) > 0).nonzero().flatten().tolist() == list(range(301)) and seen == [1024]
    assert (keep_top_k(p, 1700) > 0).nonzero().flatten().tolist() == list(range(1700))


def test_a_threshold_that_rounding_never_reaches_keeps_all():
    """The probabilities of a float32 row may sum to a little less than 1."""
    p = torch.full((3000,), 1 / 3000) * (1 - 1e-6)
    assert int((keep_top_p(p, 1 - 1e-9) > 0).sum()) == 3000
    few = torch.tensor([0.3, 0.3, 0.3])
    assert keep_top_p(few, 0.99).tolist() == pytest.approx([1 / 3] * 3)


# ---------------------------------------------------------------- rows that are not finite


@pytest.mark.parametrize(
    "settings", [{}, {"top_k": 2}, {"top_p": 0.5}, {"top_p": 0.0}, {"top_k": 1, "top_p": 0.9}]
)
@pytest.mark.parametrize("temperature", [0.0, 1e-6, 0.5, 1.0])
def test_a_bad_row_is_nan_throughout_and_alone(temperature, settings):
    rows = torch.tensor(
        [[1.0, NAN, 2], [INF, 0, 1], [INF, INF, 1], [-INF] * 3, [NAN] * 3, [1, 2, 3], [-INF, 0, -INF]]
    )
    found = distribution(rows, temperature, **settings)
    assert found[:5].isnan().all(), found
    assert torch.equal(found[5], distribution(rows[5], temperature, **settings))
    assert found[6].tolist() == [0, 1, 0]


# ---------------------------------------------------------------- residual and overlap


def test_f15_the_residual_is_normalised_not_softmaxed():
    """Softmax of the clipped difference gives [.28, .38, .34] (huggingface/transformers PR 28508)."""
    p, q = [0.1, 0.6, 0.3], [0.6, 0.3, 0.1]
    assert residual_distribution(p, q).tolist() == pytest.approx([0, 0.6, 0.4], abs=1e-6)
    assert float(overlap(torch.tensor(p), torch.tensor(q))) == pytest.approx(0.5)
    assert residual_distribution(q, p).tolist() == pytest.approx([1, 0, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_f17_nothing_is_left(dtype):
    """The residual sums to zero through rounding when p is almost q; multinomial raises (sgl-project/sglang 27618)."""
    p = torch.tensor([0.2, 0.5, 0.3], dtype=dtype)
    above = torch.nextafter(p, torch.full_like(p, 2))
    assert (above > p).all()
    assert torch.equal(residual_distribution(p, p), p)
    assert torch.equal(residual_distribution(p, above), p)
    hot = torch.eye(3, dtype=dtype)
    assert torch.equal(residual_distribution(hot, hot), hot)
    below = torch.nextafter(p, torch.zeros_like(p))
    assert residual_distribution(p, below).sum().item() == pytest.approx(1, abs=1e-6)
    mixed = torch.stack([p, p]), torch.stack([p, torch.tensor([1.0, 0, 0], dtype=dtype)])
    found = residual_distribution(*mixed)
    assert torch.equal(found[0], p) and found[1].tolist() == pytest.approx([0, 0.625, 0.375])


def test_disjoint_and_one_hot():
    p, q = torch.tensor([0.0, 0.5, 0.5]), torch.tensor([1.0, 0.0, 0.0])
    assert torch.equal(residual_distribution(p, q), p) and float(overlap(p, q)) == 0
    # a point mass x: p without x
    assert residual_distribution([0.2, 0.5, 0.3], [0, 1, 0]).tolist() == pytest.approx([0.4, 0, 0.6])
    assert residual_distribution([0, 1.0, 0], [0.5, 0.25, 0.25]).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("p", "q", "expected", "shared"),
    [
        ([0.5, 0.5], [0.25, 0.25, 0.5], [0.5, 0.5], 0.5),  # q has an id more
        ([0.25, 0.25, 0.5], [0.5, 0.5], [0, 0, 1.0], 0.5),  # p has an id more
        ([1.0], [0.1, 0.9], [1.0], 0.1),
        ([0.1, 0.9], [1.0], [0, 1.0], 0.1),
    ],
)
def test_vocabularies_of_different_size(p, q, expected, shared):
    assert residual_distribution(p, q).tolist() == pytest.approx(expected)
    assert float(overlap(torch.tensor(p), torch.tensor(q))) == pytest.approx(shared)


def test_dtypes_meet():
    p, q = torch.tensor([0.1, 0.6, 0.3]), torch.tensor([0.6, 0.3, 0.1])
    for p_dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for q_dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            found = residual_distribution(p.to(p_dtype), q.to(q_dtype))
            assert found.dtype == (torch.float64 if p_dtype == torch.float64 else torch.float32)
            assert found.tolist() == pytest.approx([0, 0.6, 0.4], abs=0.02)
    assert residual_distribution([1, 0], [0, 1]).tolist() == [1, 0], "whole numbers are fine"
    assert distribution(torch.tensor([1.0, 2.0], dtype=torch.bfloat16), top_p=0.9).dtype == torch.float32


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, NAN], [0.5, 0.5], r"p must hold finite probabilities of 0 or more, got \[0\.5, nan\]"),
        ([0.5, 0.5], [INF, 0.5], r"q must hold finite probabilities of 0 or more, got \[inf"),
        ([1.5, -0.5], [0.5, 0.5], r"p must hold finite probabilities of 0 or more"),
        ([0.5, 0.4], [0.5, 0.5], r"p must sum to 1 over the vocabulary, got 0\.9"),
        ([0.5, 0.5], [2.0, 3.0], r"q must sum to 1 over the vocabulary, got 5"),
        ([0.5, 0.5], [0.0, 0.0], r"q must sum to 1 over the vocabulary, got 0"),
        ([[0.5, 0.5], [0.5, 0.1]], [[0.5, 0.5]] * 2, r"p must sum to 1 over the vocabulary, got 0\.6"),
        (1.0, [1.0], r"p must have the vocabulary as its last dimension, got a single number"),
        ([1.0], 1.0, r"q must have the vocabulary as its last dimension, got a single number"),
        ([[0.5, 0.5]], [0.5, 0.5], r"same shape but for the vocabulary, got \(1, 2\) and \(2,\)"),
        ([[0.5, 0.5]] * 2, [[0.5, 0.5]], r"same shape but for the vocabulary, got \(2, 2\) and \(1, 2\)"),
    ],
)
def test_what_is_no_distribution_is_refused(p, q, message):
    with pytest.raises(ValueError, match=message):
        residual_distribution(p, q)


def test_a_little_rounding_is_no_reason_to_refuse():
    p = torch.tensor([0.1, 0.6, 0.3], dtype=torch.bfloat16)
    assert abs(float(p.double().sum()) - 1) > 1e-4
    assert residual_distribution(p, p).tolist() == p.float().tolist()


# ---------------------------------------------------------------- tensors of all kinds


def every_function(p, q):
    return [
        distribution(p),
        distribution(p, 0.0),
        distribution(p, 0.7, 2, 0.9),
        softmax(p),
        keep_top_k(p, 2),
        keep_top_k(p, 0),
        keep_top_p(p, 0.5),
        keep_top_p(p, 1.0),
        residual_distribution(p, q),
        residual_distribution(p, p),
        overlap(p, q),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_changed_in_place(dtype):
    p, q = torch.tensor([[0.1, 0.6, 0.3]], dtype=dtype), torch.tensor([[0.6, 0.3, 0.1]], dtype=dtype)
    before = p.clone(), q.clone()
    every_function(p, q)
    assert torch.equal(p, before[0]) and torch.equal(q, before[1])


@pytest.mark.parametrize("function", [lambda p: keep_top_k(p, 0), lambda p: keep_top_p(p, 1.0)])
def test_what_comes_out_is_the_caller_s_to_change(function):
    """The first lines of the module: "returns a new one"."""
    p = torch.tensor([0.1, 0.6, 0.3])
    function(p).zero_()
    assert p.tolist() == pytest.approx([0.1, 0.6, 0.3])


def test_tensors_of_inference_mode():
    """The rows of a model are inference tensors, and the functions run outside of that mode."""
    with torch.inference_mode():
        p, q = torch.tensor([[0.1, 0.6, 0.3]]), torch.tensor([[0.6, 0.3, 0.1]])
        inside = every_function(p, q)
    assert p.is_inference()
    for a, b in zip(inside, every_function(p, q), strict=True):
        assert torch.equal(a, b)


def test_strided_and_expanded_rows():
    p = torch.tensor([[0.1, 0.6], [0.6, 0.3], [0.3, 0.1]]).t()
    q = torch.tensor([0.2, 0.2, 0.6]).expand(2, 3)
    for a, b in zip(every_function(p, q), every_function(p.contiguous(), q.contiguous()), strict=True):
        assert torch.equal(a, b)


def test_fit():
    p = torch.zeros(2, 3, dtype=torch.float64)
    assert fit(torch.tensor([0.5, 0.5]), p).tolist() == [0.5, 0.5, 0]
    assert fit(torch.tensor([0.5, 0.25, 0.25, 0.0, 0.0]), p).tolist() == [0.5, 0.25, 0.25]
    assert fit(torch.tensor([[0.5, 0.5]]), p).dtype == torch.float64


def test_another_device_is_followed():
    """q goes where p is; nothing has to be read for that."""
    p = torch.empty(2, 3, device="meta")
    assert fit(torch.ones(2, 2), p).device.type == "meta"
    assert overlap(p, torch.ones(2, 4)).device.type == "meta"
    assert softmax(p).device.type == softmax(p, 0.0).device.type == keep_top_k(p, 2).device.type == "meta"
    assert finest(torch.device("mps")) == torch.float32, "there is no float64 on it (pytorch/pytorch 122602)"
    assert finest(torch.device("cpu")) == finest(torch.device("cuda")) == torch.float64
