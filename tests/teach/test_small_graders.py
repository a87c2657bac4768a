"""The small graders: right parts pass, each typical mistake is found, and the case that shows it is the smallest."""

from __future__ import annotations

import doctest
import re
import time
from time import perf_counter

import pytest
import right_solutions
import torch

from specdec_lab import benchmark_decoding, residual_distribution
from specdec_lab.decoding.token_tree import TreeShape
from specdec_lab.teach import benchmark_grader, cache_graders, examples, sampling_grader, small_graders
from specdec_lab.teach.benchmark_grader import KEYS, check_benchmark_decoding
from specdec_lab.teach.cache_graders import check_tree_mask, check_truncation
from specdec_lab.teach.grading import RIGHT, UNJUDGED, WRONG
from specdec_lab.teach.museum import CORRECT_SAMPLER, SAMPLERS
from specdec_lab.teach.sampling_grader import check_speculative_sample
from specdec_lab.teach.small_graders import check_accept_prefix, check_residual_distribution

ALL = {
    check_residual_distribution: small_graders.RESIDUAL,
    check_accept_prefix: small_graders.ACCEPT,
    check_truncation: cache_graders.TRUNCATION,
    check_tree_mask: cache_graders.TREE_MASK,
    check_speculative_sample: sampling_grader.SAMPLING,
    check_benchmark_decoding: benchmark_grader.BENCHMARK,
}


def positive(p, q):
    return (p - q).clamp(min=0)


def guarded(p, q):
    part = positive(p, q)
    return (part / part.sum()).tolist() if part.sum() > 0 else p


def in_place(p, q):
    p -= q
    return p.clamp_(min=0) / p.sum()


RESIDUALS = [
    (residual_distribution, set()),
    (guarded, set()),
    (lambda p, q: positive(p, q) / positive(p, q).sum(), {"nothing_left", "equal_but_for_rounding"}),
    (
        lambda p, q: p if torch.equal(p, q) else positive(p, q) / positive(p, q).sum(),
        {"equal_but_for_rounding"},
    ),
    (lambda p, q: torch.softmax(positive(p, q), 0), {"positive_part", "nothing_overrated", "nothing_left"}),
    (lambda p, q: p, {"positive_part", "nothing_overrated"}),
    (
        lambda p, q: positive(p, q),
        {"positive_part", "a_distribution", "nothing_left", "equal_but_for_rounding"},
    ),
    (in_place, {"nothing_left", "equal_but_for_rounding", "arguments_left_alone"}),
]


@pytest.mark.parametrize(("function", "broken"), RESIDUALS)
def test_residuals(function, broken):
    report = check_residual_distribution(function)
    assert set(report.broken) == broken and (report.verdict == RIGHT) == (not broken)


def test_the_smallest_residual_that_shows_a_softmax():
    found = check_residual_distribution(lambda p, q: torch.softmax(positive(p, q), 0))["positive_part"]
    assert found.case == "residual_distribution(tensor([0.5, 0.5]), tensor([1.0, 0.0]))\nRight: [0.0, 1.0]"
    assert found.found == "expected [0.0, 1.0], got [0.3775, 0.6225]."


def by_loop(drafted, choices):
    count = 0
    while count < len(drafted) and drafted[count] == choices[count]:
        count += 1
    return count


def by_product(drafted, choices):
    same = torch.tensor(drafted) == torch.tensor(choices[:-1])
    return same.long().cumprod(0).sum()


def eats(drafted, choices):
    count = 0
    while drafted and drafted.pop(0) == choices.pop(0):
        count += 1
    return count


PREFIXES = [
    (by_loop, set()),
    (by_product, set()),
    (lambda d, c: sum(a == b for a, b in zip(d, c, strict=False)), {"stops_at_the_first_difference"}),
    (
        lambda d, c: 1 + by_loop(d[1:], c[1:]),
        {"none_agree", "nothing_drafted", "stops_at_the_first_difference"},
    ),
    (
        lambda d, c: by_loop(d, c) + (by_loop(d, c) == len(d)),
        {"counts_agreement", "all_agree", "nothing_drafted"},
    ),
    (lambda d, c: by_loop(d, c[1:]), {"counts_agreement", "all_agree", "stops_at_the_first_difference"}),
    (lambda d, c: by_loop(d[:-1], c), {"counts_agreement", "all_agree"}),
    (lambda d, c: by_loop(d, c) if d[0] == c[0] else 0, {"nothing_drafted"}),
    (eats, {"arguments_left_alone"}),
]


@pytest.mark.parametrize(("function", "broken"), PREFIXES)
def test_accepted_prefixes(function, broken):
    assert set(check_accept_prefix(function).broken) == broken


def cut_in_place(cache, length):
    if not 0 <= length <= cache[0][0].shape[2]:
        raise ValueError(length)
    for layer in cache:
        layer[:] = [part[:, :, :length] for part in layer]


def cut(cache, length, keep=lambda part, n: part[:, :, :n]):
    cut_in_place([list(layer) for layer in cache], length)
    return [[keep(part, length) for part in layer] for layer in cache]


def by_what_goes(cache, length):
    return cut(cache, length, lambda part, n: part[:, :, : -(part.shape[2] - n)])


TRUNCATIONS = [
    (cut, set()),
    (cut_in_place, set()),
    (by_what_goes, {"nothing_to_cut"}),
    (lambda c, n: cut(c, n) if n else c, {"empties"}),
    (lambda c, n: [cut(c[:1], n)[0], *c[1:]], {"every_layer", "empties"}),
    (lambda c, n: [[k, v0] for (k, _), (_, v0) in zip(cut(c, n), c, strict=True)], {"keeps_the_first", "every_layer", "empties"}),
    (lambda c, n: cut(c, n, lambda part, n: part[:, :, part.shape[2] - n :]), {"keeps_the_first", "every_layer"}),
    (lambda c, n: [[p[:, :, :n] for p in layer] for layer in c], {"refuses_the_impossible"}),
]  # fmt: skip


@pytest.mark.parametrize(("function", "broken"), TRUNCATIONS)
def test_truncations(function, broken):
    assert set(check_truncation(function).broken) == broken


def full_mask(parents, length):
    return [[True] * length + row for row in TreeShape(tuple(parents)).mask()]


def with_change(change):
    def mask(parents, length):
        rows = torch.tensor(full_mask(parents, length))
        for node in range(len(parents)):
            change(rows, node, parents, length)
        return rows

    return mask


def blind(rows, node, parents, length):
    rows[node, length + node] = False


def forget_the_root(rows, node, parents, length):
    above = parents[node]
    if above >= 0 and parents[above] >= 0:
        rows[node, length + parents[above]] = False


MASKS = [
    (full_mask, set()),
    (with_change(lambda *a: None), set()),
    (with_change(blind), {"sees_itself", "sees_its_ancestors"}),
    (with_change(forget_the_root), {"sees_its_ancestors"}),
    (
        with_change(lambda rows, i, parents, n: rows[i].__setitem__(slice(0, min(1, n)), False)),
        {"sees_the_prefix"},
    ),
    (lambda p, n: torch.ones(len(p), n + len(p)).tril(n), {"siblings_are_apart", "no_cousins"}),
    (lambda p, n: torch.ones(len(p), n + len(p)), {"a_chain_is_causal", "siblings_are_apart", "no_cousins"}),
]


@pytest.mark.parametrize(("function", "broken"), MASKS)
def test_tree_masks(function, broken):
    assert set(check_tree_mask(function).broken) == broken


def test_a_mask_of_another_shape_is_told_its_shape():
    found = check_tree_mask(lambda parents, length: TreeShape(tuple(parents)).mask())["sees_the_prefix"].found
    assert found == "the mask should have shape (1, 2), nodes × (prefix + nodes), got (1, 1)."


# ---------------------------------------------------------------- samplers


def test_the_correct_sampler_is_right():
    assert check_speculative_sample(CORRECT_SAMPLER.sample).verdict == RIGHT


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_wrong_sampler_is_caught(name):
    report = check_speculative_sample(SAMPLERS[name].sample)
    assert set(report.broken) == SAMPLERS[name].caught_by and report.verdict == WRONG
    for finding in report.broken.values():
        assert "max_new_tokens=" in finding.case and ": " not in finding.found[:8]


# ---------------------------------------------------------------- benchmarks


def plain_decode(target, prompt, new, end):
    ids, cache, unread = list(prompt), None, list(prompt)
    while len(ids) < len(prompt) + new:
        choices, cache = right_solutions.pass_over(target, unread, cache)
        unread = choices[-1:]
        ids += unread
        if unread == [end]:
            break
    return ids


class Bench:
    """A right benchmark in parts, so that each can be spoilt. It reads a clock that was imported by name."""

    def timed(self, decode, prompt):
        started = perf_counter()
        answer = decode(prompt)
        return answer, perf_counter() - started

    def tokens(self, ids, prompt, new):
        return len(ids) - len(prompt)

    def counts(self, run, warmup):
        return run >= warmup

    def plain(self, target, prompt, new, end):
        return plain_decode(target, prompt, new, end)

    def rates(self, rates, prompts):
        return sum(rates) / len(rates)

    def speedup(self, plain, fast):
        return sum(plain) / sum(fast)

    def __call__(self, target, draft, prompts, new, gamma, end, warmup_runs=2, num_runs=5):
        fast, plain, fast_tokens, plain_tokens, rates = [], [], 0, 0, []
        for run in range(warmup_runs + num_runs):
            for prompt in prompts:
                (ids, rate), seconds = self.timed(
                    lambda p: right_solutions.pending_tokens(target, draft, p, new, gamma, end), prompt
                )
                text, plain_seconds = self.timed(lambda p: self.plain(target, p, new, end), prompt)
                if self.counts(run, warmup_runs):
                    fast.append(seconds)
                    plain.append(plain_seconds)
                    fast_tokens += self.tokens(ids, prompt, new)
                    plain_tokens += self.tokens(text, prompt, new)
                    rates.append(rate)
        return {
            "mean_latency_speculative": sum(fast) / len(fast),
            "mean_latency_autoregressive": sum(plain) / len(plain),
            "speedup": self.speedup(plain, fast),
            "mean_acceptance_rate": self.rates(rates, prompts),
            "tokens_per_second_speculative": fast_tokens / sum(fast),
            "tokens_per_second_autoregressive": plain_tokens / sum(plain),
        }


def spoilt(**parts):
    bench = type("Spoilt", (Bench,), parts)()

    def function(*arguments, **more):
        return bench(*arguments, **more)

    return function


def uncached(self, target, prompt, new, end):
    ids = list(prompt)
    while len(ids) < len(prompt) + new:
        ids += right_solutions.pass_over(target, ids, None)[0][-1:]
        if ids[-1] == end:
            break
    return ids


BENCHMARKS = [
    (benchmark_decoding, set()),
    (spoilt(), set()),
    (spoilt(tokens=lambda self, ids, prompt, new: new), {"tokens_really_produced"}),
    (spoilt(tokens=lambda self, ids, prompt, new: len(ids)), {"tokens_per_second", "tokens_really_produced"}),
    (spoilt(speedup=lambda self, plain, fast: sum(fast) / sum(plain)), {"speedup"}),
    (
        spoilt(
            speedup=lambda self, plain, fast: sum(a / b for a, b in zip(plain, fast, strict=True)) / len(fast)
        ),
        {"speedup"},
    ),
    (spoilt(plain=uncached), {"runs_made"}),
    (spoilt(rates=lambda self, rates, prompts: sum(rates)), {"acceptance"}),
    (
        lambda *a, **more: benchmark_decoding(*a, **more | {"warmup_runs": 0}),
        {"warm_up_left_out", "runs_made"},
    ),
    (lambda *a, **more: {key: 1.0 for key in KEYS}, None),
    (lambda *a, **more: {}, None),
    (lambda *a, **more: None, None),
]


@pytest.mark.parametrize(("function", "broken"), BENCHMARKS)
def test_benchmarks(function, broken):
    clocks = perf_counter, time.perf_counter, time.monotonic, time.time_ns
    report = check_benchmark_decoding(function)
    assert (perf_counter, time.perf_counter, time.monotonic, time.time_ns) == clocks, "the clock is put back"
    if broken is None:
        assert report["six_keys"].status == WRONG
    else:
        assert set(report.broken) == broken


def test_what_a_benchmark_lacks_is_named():
    def partly(*arguments, **more):
        return {key: 1.0 for key in KEYS[:4]}

    found = check_benchmark_decoding(partly)["six_keys"].found
    assert found.endswith("tokens_per_second_speculative, tokens_per_second_autoregressive is missing.")
    found = check_benchmark_decoding(lambda *a, **more: {key: 1.0 for key in KEYS})["six_keys"].found
    assert "no clock" in found


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_hints_and_names_are_complete(check):
    behaviours = ALL[check]
    assert len({item.name for item in behaviours}) == len(behaviours) >= 5
    for item in behaviours:
        assert re.fullmatch(r"[a-z0]+(_[a-z0]+)*", item.name) and not item.expected.endswith(".")
        assert len(item.hints) == 3 and item.hints[0].endswith("?") and item.cases


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_errors_and_endless_loops_end_in_sentences(check, monkeypatch):
    def raises(*arguments, **more):
        raise RuntimeError("no idea")

    report = check(raises)
    assert report.verdict == WRONG and any(
        "it raised RuntimeError: no idea" in item.found for item in report.findings
    )

    def hangs(*arguments, **more):
        while True:
            pass

    monkeypatch.setattr(examples, "SECONDS", 0.2)
    report = check(hangs)
    assert "is there a loop without an end?" in report.findings[0].found
    assert report.counts[UNJUDGED] == len(report.findings) - 1


@pytest.mark.parametrize(
    "module",
    [small_graders, cache_graders, sampling_grader, benchmark_grader],
    ids=lambda module: module.__name__,
)
def test_examples_in_docstrings(module):
    result = doctest.testmod(module)
    assert result.failed == 0 and result.attempted > 0
