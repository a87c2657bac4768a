"""The bug museum: every label tells the truth, and the checks behind the table are fair to correct decoders.

Also what the checks say about decoders that answer nonsense, raise or never end.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import re
import threading

import pytest
import torch
from helpers import crc_rule, erring, every_other, follow

from specdec_lab import Trace, load_pair, speculative_decode, speculative_rounds
from specdec_lab.models.scripted import ScriptedModel
from specdec_lab.teach import audit, checks, museum, plain_loop
from specdec_lab.teach.checks import CHECKS, run_checks
from specdec_lab.teach.museum import EXHIBITS, SAMPLERS, get_exhibit
from specdec_lab.teach.plain_loop import PlainLoop
from specdec_lab.teach.sampling_checks import SAMPLING_CHECKS, run_sampling_checks

WRONG = {name: item for name, item in EXHIBITS.items() if name != "correct"}


@pytest.fixture(scope="module")
def findings():
    return museum.survey()


# ---------------------------------------------------------------- the exhibits


@pytest.mark.parametrize("name", EXHIBITS)
def test_exactly_the_declared_checks_notice_an_exhibit(findings, name):
    noticed = {check for check, sentence in findings[name].items() if sentence}
    assert noticed == EXHIBITS[name].caught_by
    assert bool(noticed) == (name != "correct")


def test_every_check_notices_something(findings):
    assert {check for found in findings.values() for check, sentence in found.items() if sentence} == set(
        CHECKS
    )


def test_comparing_texts_alone_is_not_enough(findings):
    """Half of the faults leave the text of an ordinary run alone."""
    missed = {name for name in WRONG if not findings[name]["same_tokens"]}
    assert len(missed) >= 5
    assert {
        "stale_draft_cache",
        "hole_in_draft_cache",
        "rewind_too_far",
        "draft_cache_reset",
        "prefill_done_twice",
        "bonus_lost",
        "bonus_counted",
        "rate_over_gamma_times_rounds",
        "end_token_only_last",
    } <= missed


@pytest.mark.parametrize("name", WRONG)
def test_an_exhibit_differs_in_one_place(name):
    shown = WRONG[name]
    replaced = [part for part, value in vars(shown.loop).items() if inspect.isfunction(value)]
    assert replaced == [shown.replaced] and hasattr(PlainLoop, shown.replaced)
    assert shown.loop.__mro__[1] is PlainLoop
    lines = museum.diff(name).splitlines()
    assert lines[:2] == [f"--- correct.{shown.replaced}", f"+++ {name}.{shown.replaced}"]
    body = lines[3:]
    assert sum(line.startswith("@@") for line in lines) == 1, "more than one place"
    marks = "".join(line[0] for line in body)
    assert re.fullmatch(r" +[-+]+ *", marks), "changed lines lie side by side"
    assert marks.count("+") <= 3 and marks.count("-") <= 6


@pytest.mark.parametrize("name", [*WRONG, *SAMPLERS])
def test_labels_are_complete(name):
    shown = get_exhibit(name)
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", name) and shown.name == name
    for text in (shown.wrong_step, shown.symptom):
        assert re.fullmatch(r"[A-Z][^.]+\.", text), "one sentence"
    assert shown.faults and all(re.fullmatch(r"F\d\d", fault) for fault in shown.faults)
    assert shown.references
    for reference in shown.references:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+( PR)? \d+( \(review\))?", reference), reference
    assert shown.caught_by <= set(CHECKS if name in WRONG else SAMPLING_CHECKS)
    assert name in museum.label(name) and shown.symptom in museum.label(name)


def test_the_museum_holds_what_it_should():
    assert len(WRONG) >= 20
    assert set(EXHIBITS) == {"correct", *WRONG}
    assert museum.diff("correct") == ""
    with pytest.raises(ValueError, match=r"no exhibit 'nonsense'.*bonus_lost"):
        museum.get_exhibit("nonsense")


# ---------------------------------------------------------------- correct decoders pass


class RewindsOneMore(PlainLoop):
    """Rolls the draft back by one token too many, and feeds that token again: wasteful, and right."""

    def roll_back_draft(self, sequence):
        self.draft.cut(len(sequence) - 2)


def refuses_larger_drafts(target_model, draft_model, *rest):
    if draft_model.vocab_size > target_model.vocab_size:
        raise ValueError(f"draft of {draft_model.vocab_size} ids, target of {target_model.vocab_size}")
    return speculative_decode(target_model, draft_model, *rest)


def answers_with_tensors(*arguments):
    sequence, rate = speculative_decode(*arguments)
    return torch.tensor(sequence), torch.tensor(rate)


@pytest.mark.parametrize(
    "decoder",
    [RewindsOneMore().decode, refuses_larger_drafts, answers_with_tensors],
    ids=["rewind", "refuses", "tensors"],
)
def test_correct_decoders_of_any_make_pass_every_check(decoder):
    """A student's loop may be built differently. Only faults are noticed. More makes: `innocents`, in test_unlabelled.py."""
    assert not {name: sentence for name, sentence in run_checks(decoder).items() if sentence}


@pytest.mark.parametrize("gamma", [1, 3, 5])
def test_the_plain_loop_is_the_loop_of_the_package(gamma):
    """Token for token and guess for guess, on fakes of the tests' own and on the bundled pair."""
    rule = crc_rule(90)
    pairs = [
        (ScriptedModel(rule, 90), ScriptedModel(erring(rule, 90, every_other), 90), [[3, 1, 4], [7]], None),
    ]
    if gamma == 3:
        tiny = load_pair("tiny")
        pairs.append((tiny.target, tiny.draft, [tiny.encode(tiny.prompts[0])[:24]], tiny.eos_token_id))
    for target, draft, prompts, end in pairs:
        for prompt in prompts:
            expected = speculative_decode(target, draft, prompt, 30, gamma, end)
            assert PlainLoop().decode(target, draft, prompt, 30, gamma, end) == expected


def test_a_decoder_without_a_cache_is_right_and_noticed():
    def uncached(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id):
        class Forgetful(PlainLoop):
            def roll_back_target(self, sequence):
                self.target.cut(0)

            def roll_back_draft(self, sequence):
                self.draft.cut(0)

        return Forgetful().decode(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id)

    assert {name for name, sentence in run_checks(uncached).items() if sentence} == {"fed_tokens"}


def test_plain_decoding_in_disguise_is_noticed():
    """It returns the right text and never speculates."""

    def plain(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id):
        class Alone(PlainLoop):
            def room(self, wanted):
                return 0

        return Alone().decode(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id)

    assert checks.same_tokens(plain) is None
    assert "should make at most" in checks.pass_count(plain)


# ---------------------------------------------------------------- what the checks say


@pytest.mark.parametrize("name", WRONG)
def test_sentences_name_input_expectation_and_answer(findings, name):
    for sentence in filter(None, findings[name].values()):
        assert re.match(r"prompt \[[\d, …]+\], max_new_tokens=\d+, gamma=\d+[ ,]", sentence), sentence
        assert "and a draft that" in sentence and "\n" not in sentence and len(sentence) < 330
        assert sentence[-1] in ".?" and sentence.count(": ") >= 1
        stopped = " it raised " in sentence or " it called the " in sentence
        assert stopped or (re.search("expected|should", sentence) and "got" in sentence), sentence


@pytest.mark.parametrize(
    ("decoder", "says"),
    [
        (lambda *a: None, "it returned None, not a pair"),
        (lambda *a: [1, 2, 3], r"it returned \[1, 2, 3\], not a pair"),
        (lambda *a: ("text", 0.5), "not a pair"),
        (lambda *a: (list(range(60)), "high"), r"it returned \(\[0, 1, .*\.\.\., not a pair"),
        (lambda *a: ([*a[2]], 0.0), r"the text ends after 0 new tokens, expected \[36, 7, .*\] to follow"),
        (lambda *a: ([], 0.0), "should begin with the prompt, got"),
        (lambda *a: (speculative_decode(*a)[0][5:], 0.0), "should begin with the prompt"),
        (lambda *a: a[7], "it raised IndexError: tuple index out of range"),
        (lambda *a: a[0].forward([1, 2]), r"it raised TypeError: forward takes a tensor of shape \(1, n\)"),
        (lambda *a: a[0].forward(torch.tensor([1, 2])), r"it raised ValueError: input_ids must have shape"),
        (lambda *a: exit(), "it raised SystemExit"),
        (lambda: None, "it raised TypeError: .*takes 0 positional arguments"),
    ],
)
def test_a_useless_decoder_gets_a_sentence_from_every_check(decoder, says):
    assert re.search(says, checks.same_tokens(decoder))
    for name, check in CHECKS.items():
        sentence = check(decoder)
        looks_elsewhere = name in ("caller_list_untouched", "cache_contents", "pass_count", "fed_tokens")
        assert isinstance(sentence, str) or (sentence is None and looks_elsewhere), name


def test_a_decoder_that_calls_a_model_for_ever_is_stopped():
    def calls_on(target, draft, ids, *rest):
        while True:
            target.forward(torch.tensor([ids]))

    for name, check in CHECKS.items():
        assert "called the target" in check(calls_on), name


def test_a_decoder_that_never_ends_is_stopped(monkeypatch):
    """Also where it calls no model and swallows ordinary errors; its thread is gone afterwards."""
    monkeypatch.setattr(audit, "SECONDS", 0.2)

    def hangs(*arguments):
        i = 0
        while i < 1:
            with contextlib.suppress(Exception):
                i += 0

    before = threading.active_count()
    assert "is there a loop without an end?" in checks.budget(hangs)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(10)
    assert threading.active_count() <= before


def test_the_first_check_is_the_promise():
    assert next(iter(CHECKS)) == "same_tokens"


def test_the_scripted_drafts_are_what_they_are_called():
    for gamma in (1, 4):
        rates = [
            audit.allowed_counts(audit.Case(60, gamma, draft))[0].rate
            for draft in (audit.AGREES, audit.HALF, audit.NEVER)
        ]
        assert rates[0] == 1.0 and 0.3 < rates[1] < 0.7 and rates[2] == 0.0
    new = audit.Case(24, 4).truth()[len(audit.PROMPT) :]
    assert len(set(new)) >= 10, "text that repeats hides stale caches"
    assert audit.Case(24, 4).truth() == follow(audit.HASH, audit.PROMPT, 24)


@pytest.mark.parametrize("draft", audit.DRAFTS)
@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_allowed_counts_hold_for_the_package(draft, gamma):
    """The first of the allowed ways is the package's own, by its own trace."""
    case = audit.Case(24, gamma, draft)
    target, guesser = (ScriptedModel(rule, audit.VOCABULARY) for rule in (case.rule, case.draft_rule))
    settings = {"max_new_tokens": 24, "gamma": gamma, "eos_token_id": None}
    trace = Trace.of(case.prompt, speculative_rounds(target, guesser, case.prompt, **settings))
    assert audit.allowed_counts(case)[0] == audit.Counts(len(trace.rounds), trace.drafted, trace.accepted)


# ---------------------------------------------------------------- what is printed


def test_the_table_shows_every_exhibit_and_check(findings):
    lines = museum.table(findings).splitlines()
    assert lines[0].split() == [str(i) for i in range(1, len(CHECKS) + 1)]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1 : len(EXHIBITS) + 1]}
    assert rows["correct"] == ["."] * len(CHECKS)
    for name, marks in rows.items():
        assert {check for check, mark in zip(CHECKS, marks, strict=True) if mark == "x"} == EXHIBITS[
            name
        ].caught_by
    assert all(f"{i} {check}" in museum.table(findings) for i, check in enumerate(CHECKS, 1))


def test_the_command_line(findings, monkeypatch, capsys):
    draws = run_sampling_checks(get_exhibit("resample_from_p").sample)
    monkeypatch.setattr(museum, "SAMPLERS", {"resample_from_p": get_exhibit("resample_from_p")})
    monkeypatch.setattr(
        museum, "survey", lambda names=EXHIBITS: {name: findings.get(name, draws) for name in names}
    )
    assert museum.main([]) == 0
    shown = capsys.readouterr().out
    assert museum.table(findings) + "\n" in shown
    assert museum.table({"correct_sampler": draws, "resample_from_p": draws}) + "\n" in shown
    for sampling in museum.BOTH_SETTINGS:
        assert museum.bias_table(museum.biases(sampling=sampling), sampling) + "\n" in shown
    assert museum.main(["draft_cache_reset"]) == 0
    shown = capsys.readouterr().out
    assert "+    self.draft.cut(0)" in shown and "see paiml/aprender PR 2014" in shown
    assert re.search(r"^fed_tokens: prompt", shown, re.M) and "same_tokens" not in shown
    assert museum.main(["nonsense"]) == 2
    assert "no exhibit 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize("module", [plain_loop, checks, museum], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    result = doctest.testmod(module)
    assert result.failed == 0 and result.attempted > 0
