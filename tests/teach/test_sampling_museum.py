"""The museum's samplers: each label tells the truth, each bias is the number that pencil and paper give.

Expected laws are worked out here from p and q, in plain Python; neither the package's sampler nor its filters help.
"""

from __future__ import annotations

import doctest
import inspect
import itertools
import math
import re

import pytest
import torch

from specdec_lab import speculative_sample
from specdec_lab.decoding.chance import GeneratorChance
from specdec_lab.decoding.sampling import Sampling
from specdec_lab.measure.law import EnumeratingChance, law, speculative_sampler, target_law
from specdec_lab.models.scripted import ScriptedModel, fixed, scattered
from specdec_lab.teach import (
    biases,
    exhibit,
    museum,
    one_uniform,
    plain_sampler,
    sampling_audit,
    sampling_checks,
    wrong_sampling,
)
from specdec_lab.teach.museum import CORRECT_SAMPLER, EXHIBITS, SAMPLERS, get_exhibit
from specdec_lab.teach.one_uniform import OneUniform
from specdec_lab.teach.plain_sampler import PlainSampler
from specdec_lab.teach.sampling_audit import package_sampler
from specdec_lab.teach.sampling_checks import SAMPLING_CHECKS, run_sampling_checks

P, Q = [0.1, 0.6, 0.3], [0.6, 0.3, 0.1]
TIGHT = 1e-9


@pytest.fixture(scope="module")
def findings():
    return museum.survey(["correct_sampler", *SAMPLERS])


def model(rule, vocabulary=3):
    rule = rule if callable(rule) else fixed(rule)
    return ScriptedModel(rule, vocabulary, logits_dtype=torch.float64)


def first_token(name, p=P, q=Q, sampling=None, gamma=1):
    decoder, pair = get_exhibit(name).sampler(gamma, sampling), (model(p, len(p)), model(q, len(q)))
    found = law(decoder, *pair, [0], gamma + 1)
    return [found.of_token(0).get((token,), 0.0) for token in range(len(p))]


def distance(one, other):
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2


# ---------------------------------------------------------------- the exhibits


@pytest.mark.parametrize("name", ["correct_sampler", *SAMPLERS])
def test_exactly_the_declared_checks_notice_an_exhibit(findings, name):
    noticed = {check for check, sentence in findings[name].items() if sentence}
    assert noticed == get_exhibit(name).caught_by
    assert bool(noticed) == (name != "correct_sampler")


def test_every_check_of_a_law_notices_something(findings):
    """The last is about random numbers, and has samplers of its own below."""
    noticed = {check for found in findings.values() for check, sentence in found.items() if sentence}
    assert noticed == set(SAMPLING_CHECKS) - {"same_seed_same_tokens"}


def test_no_single_check_is_enough(findings):
    for check in SAMPLING_CHECKS:
        assert any(not found[check] for name, found in findings.items() if name != "correct_sampler"), check


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_exhibit_differs_in_one_place(name):
    shown = SAMPLERS[name]
    replaced = [part for part, value in vars(shown.loop).items() if inspect.isfunction(value)]
    assert replaced == [shown.replaced] and shown.loop.__mro__[1] is PlainSampler
    lines = museum.diff(name).splitlines()
    assert lines[:2] == [f"--- correct_sampler.{shown.replaced}", f"+++ {name}.{shown.replaced}"]
    marks = "".join(line[0] for line in lines[3:])
    assert sum(line.startswith("@@") for line in lines) == 1 and marks.count("+") <= 3 >= marks.count("-")


def test_the_wing_holds_the_faults_that_were_reported():
    assert len(SAMPLERS) >= 12 and not set(SAMPLERS) & set(EXHIBITS)
    faults = {fault for item in SAMPLERS.values() for fault in item.faults}
    assert {"F07", "F13", "F15", "F16", "F17", "F18", "F26", "F31"} <= faults


# ---------------------------------------------------------------- the law of the first token, by hand

KEPT = [0.1, 0.3, 0.1]  # min(p, q): what a correct rule lets through; .5 is left to replace
_WEIGHTS = [math.exp(max(a - b, 0.0)) for a, b in zip(P, Q, strict=True)]
SOFTMAX = [weight / sum(_WEIGHTS) for weight in _WEIGHTS]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("correct_sampler", P),
        ("accept_if_equal", P),
        ("drawn_guess_taken_for_certain", P),
        ("residual_of_nothing", P),
        ("bonus_from_the_residual", P),
        ("every_guess_accepted", Q),
        ("resample_from_p", [0.15, 0.6, 0.25]),
        ("softmax_of_the_clipped_difference", [k + 0.5 * s for k, s in zip(KEPT, SOFTMAX, strict=True)]),
        # 0 always kept, 1 in half of the cases, 2 in a third; .15 + .0667 go to the residual [0, .6, .4]
        ("p_and_q_swapped", [0.6, 0.15 + 0.6 * 13 / 60, 1 / 30 + 0.4 * 13 / 60]),
        # rejected means u ≥ 1/6, and the residual gives 1 for u < .6
        ("one_uniform_for_two", [0.1, 0.3 + 0.6 * (0.6 - 1 / 6), 0.1 + 0.6 * 0.4]),
        # 0 is guessed for u < .6 and kept for u < 1/6; 1 and 2 are always kept
        ("guess_and_toss_share_a_number", [1 / 6, 0.3 + 0.6 * 13 / 30, 0.1 + 0.4 * 13 / 30]),
        # 0 is always guessed and kept with 1/6
        ("argmax_draft_with_softmax_q", [1 / 6, 0.6 * 5 / 6, 0.4 * 5 / 6]),
    ],
)
@pytest.mark.parametrize("gamma", [1, 2])
def test_the_first_token_has_the_law_that_pencil_and_paper_give(name, expected, gamma):
    assert abs(sum(expected) - 1) < 1e-12
    assert first_token(name, gamma=gamma) == pytest.approx(expected, abs=TIGHT)


def test_the_numbers_of_the_list_of_faults():
    """F07, F15, F31: as they are written there, to their digits."""
    assert [round(weight, 2) for weight in SOFTMAX] == [0.28, 0.38, 0.34]
    assert distance(first_token("softmax_of_the_clipped_difference"), P) == pytest.approx(0.14, abs=5e-5)
    assert distance(first_token("resample_from_p"), P) == pytest.approx(0.05, abs=TIGHT)
    assert first_token("one_uniform_for_two") == pytest.approx([0.10, 0.56, 0.34], abs=TIGHT)
    assert first_token("argmax_draft_with_softmax_q") == pytest.approx([0.167, 0.5, 0.333], abs=0.0005)


def test_acceptance():
    """F15: .50. F16: 1 and .38 where p = q; Σ p·q elsewhere."""
    same = [0.5, 0.3, 0.2]
    rows = {row.name: row for row in museum.biases(same, same)}
    assert rows["correct_sampler"].acceptance == pytest.approx(1.0, abs=TIGHT)
    assert rows["accept_if_equal"].acceptance == pytest.approx(0.38, abs=TIGHT)
    assert rows["drawn_guess_taken_for_certain"].acceptance == pytest.approx(0.38, abs=TIGHT)
    rows = {row.name: row for row in museum.biases()}
    assert rows["correct_sampler"].acceptance == pytest.approx(0.5, abs=TIGHT)
    assert rows["accept_if_equal"].acceptance == pytest.approx(0.06 + 0.18 + 0.03, abs=TIGHT)
    assert rows["every_guess_accepted"].acceptance == pytest.approx(1.0, abs=TIGHT)
    assert rows["guess_and_toss_share_a_number"].acceptance == pytest.approx(1 / 6 + 0.4, abs=TIGHT)


def one_guess(p, drawn, ratio, replacement):
    """The law of a token that is drawn from `drawn`, kept with min(1, `ratio`) and else drawn from `replacement`."""
    kept = [d * min(1.0, r) for d, r in zip(drawn, ratio, strict=True)]
    return [k + (1 - sum(kept)) * r for k, r in zip(kept, replacement, strict=True)]


def ratios(p, q):
    return [a / b if b else math.inf for a, b in zip(p, q, strict=True)]


def rest(p, q):
    positive = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
    return [value / sum(positive) for value in positive]


def test_filters_by_hand():
    """top-p .8 keeps two tokens of either: p = [0, 2/3, 1/3], q = [2/3, 1/3, 0]."""
    nucleus, p, q = Sampling(top_p=0.8), [0.0, 2 / 3, 1 / 3], [2 / 3, 1 / 3, 0.0]

    def by(name):
        return first_token(name, sampling=nucleus)

    assert by("correct_sampler") == pytest.approx(p, abs=TIGHT)
    assert by("unfiltered_q") == pytest.approx(one_guess(p, q, ratios(p, Q), rest(p, Q)), abs=TIGHT)
    assert by("unfiltered_p") == pytest.approx(P, abs=TIGHT), "the law of the target without its filter"
    assert by("unfiltered_p")[0] == pytest.approx(0.1, abs=TIGHT), "a token that was to be excluded"
    assert by("nucleus_without_the_crossing_token") == pytest.approx([0.0, 1.0, 0.0], abs=TIGHT)


@pytest.mark.parametrize(("top_p", "right", "wrong"), [(0.6, 2, 1), (0.8, 3, 2), (0.1, 1, 1), (1.0, 4, 4)])
def test_the_nucleus_of_f18(top_p, right, wrong):
    probabilities = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64)
    for loop, kept in ((PlainSampler, right), (SAMPLERS["nucleus_without_the_crossing_token"].loop, wrong)):
        sampler = loop()
        sampler.sampling = Sampling(top_p=top_p)
        assert int(sampler.nucleus(probabilities).count_nonzero()) == kept


def test_another_temperature_by_hand():
    def sharper(values):
        return [value**2 / sum(v**2 for v in values) for value in values]

    p, q = sharper(P), sharper(Q)
    half = Sampling(0.5)
    assert first_token("correct_sampler", sampling=half) == pytest.approx(p, abs=TIGHT)
    expected = one_guess(p, q, ratios(p, Q), rest(p, Q))
    assert first_token("q_at_another_temperature", sampling=half) == pytest.approx(expected, abs=TIGHT)


def test_the_bonus_by_hand():
    """F26: behind a kept guess comes the residual [0, .6, .4], and p everywhere else."""
    found = law(SAMPLERS["bonus_from_the_residual"].sampler(1), model(P), model(Q), [0], 2)
    residual = rest(P, Q)
    for x, y in itertools.product(range(3), repeat=2):
        expected = KEPT[x] * residual[y] + 0.5 * residual[x] * P[y]
        assert found.get((x, y), 0.0) == pytest.approx(expected, abs=TIGHT)


def test_temperature_0_by_hand():
    """F07: the draft's peak is A, the target's B. Greedy emits B, and a rule at temperature 1 does not always."""
    p, q, zero = [0.3, 0.5, 0.05, 0.05, 0.05, 0.05], [0.2, *[0.16] * 5], Sampling(0.0)
    assert first_token("correct_sampler", p, q, zero) == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert first_token("temperature_zero_taken_for_one", p, q, zero) == pytest.approx(p, abs=TIGHT)
    with pytest.raises(ValueError, match="no id has a positive probability"):
        first_token("divided_by_temperature_zero", p, q, zero)


# ---------------------------------------------------------------- one uniform number


class Number:
    """A chance whose every answer comes from one given number."""

    def __init__(self, number):
        self.number = number

    def accept(self, probability):
        return self.number < probability

    def draw(self, probabilities):
        return next(
            i for i, end in enumerate(itertools.accumulate(probabilities.tolist())) if self.number < end
        )


def test_one_uniform_is_integrated_over():
    """Against the number itself, at the middle of each of the intervals in which no answer changes."""
    first, second = torch.tensor([0.2, 0.5, 0.3]), torch.tensor([0.6, 0.0, 0.4], dtype=torch.float64)

    def answers(chance):
        return chance.accept(0.35), chance.draw(first.double()), chance.draw(second), chance.accept(0.75)

    edges = sorted({0.0, 0.35, 0.2, 0.7, 0.6, 0.75, 1.0})
    expected = {}
    for low, high in itertools.pairwise(edges):
        came = answers(Number((low + high) / 2))
        expected[came] = expected.get(came, 0.0) + high - low
    found = law(lambda *arguments: answers(OneUniform(arguments[-1])), None, None, [0], 1)
    assert found.difference(expected) < 1e-7  # .2 and .5 are float32


def test_a_number_that_is_almost_1_still_gives_a_token():
    """The last id that has a probability, never one of probability 0."""
    chance = EnumeratingChance()
    one = OneUniform(chance)
    assert one.accept(1 - 2**-53) and chance.advance() is True
    one = OneUniform(chance)
    assert not one.accept(1 - 2**-53)
    assert one.draw(torch.tensor([0.1, 0.6, 0.3, 0.0], dtype=torch.float64)) == 2


def test_shared_numbers_are_used_up_in_order():
    shared = one_uniform.SameForGuessAndToss(GeneratorChance(torch.Generator().manual_seed(3)))
    half = torch.tensor([0.5, 0.5])
    for _ in range(50):
        guesses = [shared.draw(half), shared.draw(half)]
        assert shared.accept(0.5) == (guesses[0] == 0)
        assert shared.accept(0.5) == (guesses[1] == 0)
        shared.draw(half)  # replacement or bonus
        assert not shared.numbers


# ---------------------------------------------------------------- correct samplers pass


@pytest.mark.parametrize(
    ("gamma", "n", "vocabulary", "sampling", "ends"),
    [
        (1, 4, 2, Sampling(), None),
        (2, 4, 2, Sampling(), None),
        (3, 5, 2, Sampling(), None),
        (2, 4, 2, Sampling(0.6), [1]),
        (2, 3, 3, Sampling(top_k=2), None),
        (1, 3, 3, Sampling(1.5, top_p=0.7), 2),
        (2, 3, 3, Sampling(0.0), None),
    ],
)
def test_the_plain_sampler_has_the_law_of_the_target(gamma, n, vocabulary, sampling, ends):
    target, draft = (model(scattered(vocabulary, seed), vocabulary) for seed in (1, 2))
    right = target_law(target, [0], n, sampling, ends)
    for decoder in (
        CORRECT_SAMPLER.sampler(gamma, sampling, ends),
        speculative_sampler(gamma, sampling, ends),
    ):
        found = law(decoder, target, draft, [0], n)
        assert abs(sum(found.values()) - 1) < 1e-12
        assert found.difference(right) < 1e-12


def test_a_draft_with_more_ids_than_the_target():
    found = law(CORRECT_SAMPLER.sampler(2), model(scattered(2), 2), model(scattered(5), 5), [0], 3)
    assert found.difference(target_law(model(scattered(2), 2), [0], 3)) < 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_the_plain_sampler_is_the_sampler_of_the_package(seed):
    """Token for token with the same seed, and the same acceptance."""
    target, draft = (ScriptedModel(scattered(40, number), 40) for number in (7, 8))
    generators = [torch.Generator().manual_seed(seed) for _ in range(2)]
    tokens, rate = speculative_sample(
        target, draft, [3, 1], 30, 3, None, temperature=0.8, top_k=12, generator=generators[0]
    )
    sampler = PlainSampler()
    chance = GeneratorChance(generators[1])
    new = sampler.sample(target, draft, [3, 1], 30, 3, None, Sampling(0.8, top_k=12), chance)
    assert [3, 1, *new] == tokens and sampler.rate() == rate and 0 < rate < 1
    assert len(new) == 30 and sampler.total_accepted / sampler.total_drafted == rate


class DraftsUnfiltered(PlainSampler):
    """Draws its guesses at temperature 1 without filters, and says so in q: right, if not the best."""

    def guess(self, scores):
        q = torch.softmax(scores, dim=-1)
        return self.chance.draw(q), q


class TossesByInverse(PlainSampler):
    """Asks whether the guess is to be rejected."""

    def judge(self, token, p, q):
        if not self.chance.accept(max(0.0, 1.0 - float(p[token] / q[token]))):
            return True, token
        weights = (p - q).clamp(min=0)
        return False, self.chance.draw(weights / weights.sum() if weights.sum() > 0 else p)


class BonusFirst(PlainSampler):
    """Draws a bonus in every round, needed or not."""

    def agree(self, drafted, p):
        spare = self.chance.draw(p[-1])
        agreed = super().agree(drafted, p)
        self.own = spare if agreed == len(drafted) else self.own
        return agreed


def sampling_with(loop):
    def sampler(*arguments):
        plain = loop()
        return plain.sample(*arguments), plain.rate()

    return sampler


@pytest.mark.parametrize(
    "sampler",
    [package_sampler, *map(sampling_with, (PlainSampler, DraftsUnfiltered, TossesByInverse, BonusFirst))],
    ids=["package", "plain", "unfiltered draft", "tosses by inverse", "bonus first"],
)
def test_correct_samplers_of_any_make_pass_every_check(sampler):
    assert not {name: said for name, said in run_sampling_checks(sampler).items() if said}


def test_deterministic_guesses_are_right_and_accepted_less():
    """A point mass: the law is the target's, and the overlap of p with it is smaller than with q."""

    class Certain(PlainSampler):
        def guess(self, scores):
            q = self.probabilities(scores)
            certain = torch.zeros_like(q)
            certain[q.argmax()] = 1.0
            return int(q.argmax()), certain

    found = run_sampling_checks(sampling_with(Certain))
    assert {name for name, said in found.items() if said} == {"acceptance_is_the_overlap"}


# ---------------------------------------------------------------- what the checks say


@pytest.mark.parametrize("name", SAMPLERS)
def test_sentences_name_input_expectation_and_answer(findings, name):
    for said in filter(None, findings[name].values()):
        assert re.search(r"max_new_tokens=\d+, gamma=\d+, temperature=[\d.e-]+[:,]", said), said
        assert "\n" not in said and len(said) < 330 and said[-1] == "."
        assert " it raised " in said or (re.search("expected|should", said) and "got" in said), said


def seeded_inside(*arguments):
    """The seed is set inside, so the caller's has no effect."""
    return package_sampler(*arguments[:-1], GeneratorChance(torch.Generator().manual_seed(1)))


def from_the_global_state(*arguments):
    return package_sampler(*arguments[:-1], GeneratorChance(torch.default_generator))


def reseeding_the_world(*arguments):
    torch.manual_seed(0)
    return package_sampler(*arguments)


def test_random_numbers_from_elsewhere_are_noticed():
    said = sampling_checks.same_seed_same_tokens(seeded_inside)
    assert "expected the same tokens for seeds 7 and 7 and others for 8" in said
    state = torch.random.get_rng_state()
    for sampler in (from_the_global_state, reseeding_the_world):
        assert "global random state should be left alone" in sampling_checks.same_seed_same_tokens(sampler)
    torch.random.set_rng_state(state)
    assert "total variation" in sampling_checks.law_of_first_token(seeded_inside)


@pytest.mark.parametrize(
    ("sampler", "says"),
    [
        (lambda *a: None, "it raised TypeError"),
        (lambda *a: ([], 0.0), "expected"),
        (lambda *a: a[99], "it raised IndexError: tuple index out of range"),
        (lambda *a: (["x"], 0.0), "it raised ValueError"),
    ],
)
def test_a_useless_sampler_gets_a_sentence_from_every_check(sampler, says):
    assert re.search(says, sampling_checks.law_of_outputs(sampler))
    for name, check in SAMPLING_CHECKS.items():
        looks_elsewhere = name == "no_token_of_probability_0"
        assert isinstance(check(sampler), str) or looks_elsewhere, name


def test_a_sampler_that_calls_a_model_for_ever_is_stopped():
    def calls_on(target, *rest):
        while True:
            target.forward(torch.tensor([[0]]))

    for name, check in SAMPLING_CHECKS.items():
        assert "it raised TooManyCalls: it called the target" in check(calls_on), name


def test_a_sampler_that_asks_differently_each_time_is_stopped(monkeypatch):
    monkeypatch.setattr(sampling_audit, "MOST_PATHS", 50)
    said = sampling_checks.law_of_outputs(package_sampler)
    assert "it raised ValueError: more than most_paths = 50 paths" in said


def test_equal_but_for_rounding_is_what_it_says():
    """The guess is rejected there, with nothing positive to replace it from."""
    seen = []

    class Watched(PlainSampler):
        def judge(self, token, p, q):
            kept, own = super().judge(token, p, q)
            seen.append((kept, float((p - q).max())))
            return kept, own

    assert sampling_checks.equal_but_for_rounding(sampling_with(Watched)) is None
    assert seen and all(not kept and -1e-7 < largest < 0 for kept, largest in seen)


# ---------------------------------------------------------------- two wings under one roof


def test_exhibits_of_either_wing_refuse_what_they_cannot_do():
    with pytest.raises(TypeError, match=r"call sample\(\.\.\.\), not decode"):
        get_exhibit("resample_from_p").decode(model(P), model(Q), [0], 3, 1, None)
    for call in (
        lambda: get_exhibit("bonus_lost").sampler(1),
        lambda: get_exhibit("bonus_lost").sample(model(P), model(Q), [0], 3, 1, None, Sampling(), None),
    ):
        with pytest.raises(TypeError, match="bonus_lost is a wrong greedy decoder: it draws nothing"):
            call()
    with pytest.raises(ValueError, match=r"no exhibit 'nonsense'.*bonus_lost.*correct_sampler.*unfiltered_q"):
        get_exhibit("nonsense")


def test_biases():
    rows = museum.biases()
    assert [row.name for row in rows] == ["correct_sampler", *SAMPLERS]
    for row in rows:
        assert -1e-12 < row.first_token <= row.outputs + 1e-12 and 0 <= row.acceptance <= 1
        assert row.first_token == pytest.approx(distance(first_token(row.name), P), abs=TIGHT)
    by_name = {row.name: row for row in rows}
    assert (
        by_name["bonus_from_the_residual"].first_token
        < 1e-12
        < 0.06
        < by_name["bonus_from_the_residual"].outputs
    )
    unbiased = {row.name for row in rows if row.outputs < 1e-12}
    assert {"correct_sampler", "accept_if_equal", "drawn_guess_taken_for_certain", "unfiltered_q"} <= unbiased
    hotter = {row.name: row for row in museum.biases(sampling=museum.BOTH_SETTINGS[1])}
    setting_faults = {
        "unfiltered_q",
        "unfiltered_p",
        "q_at_another_temperature",
        "nucleus_without_the_crossing_token",
    }
    assert all(hotter[name].outputs > 0.02 for name in setting_faults)
    assert hotter["correct_sampler"].outputs < 1e-12


def test_biases_of_one_exhibit():
    shown = SAMPLERS["resample_from_p"]
    row = biases.bias_of(shown, [0.2, 0.8], [0.7, 0.3], gamma=2)
    assert row.name == "resample_from_p" and row.first_token == pytest.approx(0.5 * 0.2, abs=TIGHT)
    assert row.acceptance == pytest.approx(0.5, abs=TIGHT)
    with pytest.raises(ValueError, match="leaves nothing to chance"):
        biases.bias_of(shown, sampling=Sampling(0.0))
    with pytest.raises(ValueError, match="must have the same length, got 2 and 3"):
        biases.bias_of(shown, [0.5, 0.5])
    with pytest.raises(TypeError, match="draws nothing"):
        biases.bias_of(get_exhibit("bonus_lost"))


def test_the_table_of_biases():
    shown = biases.bias_table(museum.biases(names=["resample_from_p"]), Sampling(0.5, top_k=2))
    lines = shown.splitlines()
    assert lines[0].endswith("(temperature 0.5, top_k 2)")
    assert lines[-1].split() == ["resample_from_p", "0.0500", "0.0675", "0.5000"]


def test_the_table_of_the_wing(findings):
    lines = museum.table(findings).splitlines()
    assert lines[0].split() == [str(i) for i in range(1, len(SAMPLING_CHECKS) + 1)]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1 : len(SAMPLERS) + 2]}
    assert list(rows) == ["correct_sampler", *SAMPLERS]
    for name, marks in rows.items():
        noticed = {check for check, mark in zip(SAMPLING_CHECKS, marks, strict=True) if mark == "x"}
        assert noticed == get_exhibit(name).caught_by


def test_one_sampler_on_the_command_line(capsys):
    assert museum.main(["accept_if_equal"]) == 0
    shown = capsys.readouterr().out
    assert "+    return token == own, own" in shown and "see ml-explore/mlx-lm PR 1709" in shown
    assert re.search(r"^acceptance_is_the_overlap: p=\[0\.5", shown, re.M) and "got 0.38" in shown


@pytest.mark.parametrize(
    "module", [plain_sampler, one_uniform, sampling_checks, museum], ids=lambda m: m.__name__
)
def test_examples_in_docstrings(module):
    result = doctest.testmod(module)
    assert result.failed == 0 and result.attempted > 0


@pytest.mark.parametrize(
    "module", [plain_sampler, sampling_audit, sampling_checks, biases, exhibit, wrong_sampling]
)
def test_rooms_say_what_they_do(module):
    assert module.__doc__ and len(module.__doc__.splitlines()) >= 3
