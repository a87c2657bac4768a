"""The model drafter feeds what is new and nothing twice; drafters of one's own are kept within bounds; chances draw.

Acceptance and text are tested elsewhere; here it is the calls that count.
"""

from __future__ import annotations

import pytest
import torch
from helpers import (
    FAKES,
    PlainModel,
    always,
    assert_rounds_hold,
    counting_rule,
    crc_rule,
    erring,
    every_other,
    follow,
    never,
)

from specdec_lab import ModelDrafter, Proposal, Trace, speculative_rounds
from specdec_lab.decoding import chance as chance_module
from specdec_lab.decoding.chance import NO_CHANCE, GeneratorChance
from specdec_lab.decoding.drafters import NoDrafter

pytestmark = pytest.mark.scripted

WIDTH = 97
PROMPT = [3, 1, 4, 1, 5]
RULE = crc_rule(WIDTH)


def rounds_with(drafter, n=20, gamma=4, ends=(), target=None, rule=RULE):
    target = target or PlainModel(rule, WIDTH)
    return list(
        speculative_rounds(target, drafter, PROMPT, max_new_tokens=n, gamma=gamma, eos_token_id=list(ends))
    )


# ---------------------------------------------------------------- the model drafter


@pytest.mark.parametrize("kind", FAKES)
def test_catching_up_rides_on_the_next_pass(kind):
    """After a full acceptance the draft is fed [last draft, bonus] at once; the prompt is fed once; nothing is cut."""
    draft = kind(RULE, WIDTH)
    rounds = rounds_with(draft, n=15)
    text = follow(RULE, PROMPT, 15)
    assert draft.fed == [
        PROMPT,
        *([token] for token in text[5:8]),
        text[8:10],
        *([token] for token in text[10:13]),
        text[13:15],
        *([token] for token in text[15:18]),
    ]
    assert [entry for entry in draft.log if entry[0] == "cut"] == []
    assert [item.draft_cache_after for item in rounds] == [8, 13, 18]


@pytest.mark.parametrize("kind", FAKES)
def test_after_a_rejection_only_the_correction_is_fed(kind):
    draft = kind(erring(RULE, WIDTH, always), WIDTH)
    rounds_with(draft, n=8, gamma=3)
    text = follow(RULE, PROMPT, 8)
    starts = [fed for held, fed in ((entry[1], entry[2]) for entry in draft.log if entry[0] == "forward")]
    assert starts[0] == PROMPT
    assert [fed for fed in starts if fed[0] in text[5:]][:4] == [[token] for token in text[5:9]]
    cuts = [entry[1:] for entry in draft.log if entry[0] == "cut"]
    assert cuts[:3] == [(7, 5), (8, 6), (9, 7)], "prompt + 2 drafts back to prompt; the correction is pending"
    assert all(len(fed) == 1 for fed in starts[1:])


@pytest.mark.parametrize("kind", FAKES)
@pytest.mark.parametrize("gamma", [1, 3, 6])
def test_one_pass_a_token_and_no_hole(kind, gamma):
    """Whatever is accepted, the draft holds the text itself when it is asked: its answers are its rule's."""
    rule = erring(RULE, WIDTH, every_other)
    draft = kind(rule, WIDTH)
    rounds = rounds_with(draft, n=40, gamma=gamma)
    sequence = list(PROMPT)
    for item in rounds:
        assert [*sequence, *item.drafted] == follow(rule, sequence, len(item.drafted))
        sequence += item.emitted
    assert draft.passes == sum(len(item.drafted) for item in rounds)


def test_only_the_rows_that_are_read_are_asked_for():
    """`logits_to_keep`: one row for a draft pass, one more than there are drafts for the target."""
    keeping = FAKES[2]
    target, draft = keeping(RULE, WIDTH), keeping(erring(RULE, WIDTH, every_other), WIDTH)
    rounds = rounds_with(draft, target=target)
    assert target.kept == [len(item.drafted) + 1 for item in rounds]
    assert draft.kept == [1] * draft.passes


def test_drafting_stops_at_the_end_token():
    text = follow(RULE, PROMPT, 20)
    draft = PlainModel(RULE, WIDTH)
    (item,) = rounds_with(draft, gamma=8, ends=[text[7]])
    assert item.drafted == item.emitted == tuple(text[5:8]) and item.outcome == "end"
    assert draft.passes == 3


def test_a_drafter_made_by_hand_is_cut_at_the_end_token_too():
    """It was not told the end tokens; what it drafts behind one does not count."""
    text = follow(RULE, PROMPT, 20)
    (item,) = rounds_with(ModelDrafter(PlainModel(RULE, WIDTH)), gamma=8, ends=[text[7]])
    assert item.drafted == item.emitted == tuple(text[5:8]) and item.outcome == "end"


def test_a_drafter_made_by_hand_equals_the_model_itself():
    draft = erring(RULE, WIDTH, every_other)
    by_hand = rounds_with(ModelDrafter(PlainModel(draft, WIDTH)))
    assert_rounds_hold(PROMPT, by_hand, (), 20)
    assert [r.drafted for r in by_hand] == [r.drafted for r in rounds_with(PlainModel(draft, WIDTH))]


def test_no_drafter_is_plain_decoding():
    target = PlainModel(RULE, WIDTH)
    rounds = rounds_with(NoDrafter(), target=target)
    assert [item.outcome for item in rounds] == ["plain"] * 20
    assert target.fed == [PROMPT, *([token] for token in follow(RULE, PROMPT, 20)[5:-1])]
    assert {item.draft_cache_after for item in rounds} == {None}


# ---------------------------------------------------------------- drafters of one's own


class Fixed:
    """Proposes what `choose(sequence, limit)` says, and notes what it is told."""

    def __init__(self, choose):
        self.choose = choose
        self.started, self.asked, self.committed = [], [], []

    def start(self, prompt):
        self.started.append(prompt)

    def propose(self, sequence, limit, chance):
        self.asked.append((list(sequence), limit))
        return self.choose(sequence, limit)

    def commit(self, sequence, hidden=None):
        self.committed.append(list(sequence))


def right(sequence, limit):
    return tuple(follow(RULE, sequence, limit)[len(sequence) :])


def test_what_a_drafter_is_told():
    """`start` once with the prompt, `propose` with the confirmed text and 1…gamma wanted, `commit` every round."""
    drafter = Fixed(lambda sequence, limit: Proposal(right(sequence, limit)))
    rounds = rounds_with(drafter, n=12)
    text = follow(RULE, PROMPT, 12)
    assert drafter.started == [PROMPT]
    assert drafter.asked == [(text[:5], 4), (text[:10], 4), (text[:15], 1)]
    assert drafter.committed == [text[:10], text[:15], text[:17]]
    assert [item.draft_cache_before for item in rounds] == [None] * 3


@pytest.mark.parametrize("extra", [1, 7])
def test_too_many_tokens_is_an_error(extra):
    drafter = Fixed(lambda sequence, limit: Proposal((1,) * (limit + extra)))
    with pytest.raises(ValueError, match=rf"Fixed.*{4 + extra} tokens, at most 4"):
        rounds_with(drafter)


@pytest.mark.parametrize("foreign", [WIDTH, WIDTH + 500, -1])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_ids_that_the_target_lacks_are_cut(foreign, place):
    def choose(sequence, limit):
        return Proposal((*right(sequence, limit)[:place], foreign, *right(sequence, limit))[:limit])

    target = PlainModel(RULE, WIDTH)
    target.vocab_size = WIDTH
    rounds = rounds_with(Fixed(choose), target=target)
    assert Trace.of(PROMPT, rounds).sequence == follow(RULE, PROMPT, 20)
    assert all(len(item.drafted) <= place for item in rounds)
    assert len(rounds[0].drafted) == place and rounds[0].outcome == ("bonus" if place else "plain")


def test_tokens_behind_an_end_token_are_cut():
    text = follow(RULE, PROMPT, 20)
    drafter = Fixed(lambda sequence, limit: Proposal(right(sequence, limit)))
    rounds = rounds_with(drafter, gamma=6, ends=[text[6]])
    assert [item.drafted for item in rounds] == [tuple(text[5:7])]
    assert Trace.of(PROMPT, rounds).acceptance_rate == 1.0


def test_a_wrong_end_token_does_not_stop_the_text():
    """The draft says it is over, the target does not."""
    end = next(i for i in range(WIDTH) if i not in follow(RULE, PROMPT, 20))
    rounds = rounds_with(Fixed(lambda sequence, limit: Proposal((end,))), ends=[end])
    assert Trace.of(PROMPT, rounds).sequence == follow(RULE, PROMPT, 20)
    assert {item.outcome for item in rounds} == {"correction", "plain"}


@pytest.mark.parametrize("parents", [(-1, -1), (-1, 0, 0), (0, 1), (-1,)])
def test_a_tree_is_refused_in_words(parents):
    drafter = Fixed(lambda sequence, limit: Proposal((1,) * max(2, len(parents)), parents))
    with pytest.raises(ValueError, match=r"Fixed.*tree"):
        rounds_with(drafter)


def test_a_chain_may_say_that_it_is_one():
    drafter = Fixed(lambda sequence, limit: Proposal(right(sequence, limit), tuple(range(-1, limit - 1))))
    assert len(rounds_with(drafter)) == 4


def test_fewer_tokens_or_none_are_fine():
    counts = [2, 0, 1, 0, 3, 4]
    drafter = Fixed(lambda sequence, limit: Proposal(right(sequence, counts[len(drafter.asked) - 1])))
    rounds = rounds_with(drafter, n=16)
    assert Trace.of(PROMPT, rounds).sequence == follow(RULE, PROMPT, 16)
    assert [len(item.drafted) for item in rounds] == counts
    assert [item.outcome == "plain" for item in rounds] == [count == 0 for count in counts]


def test_cutting_a_proposal():
    proposal = Proposal((4, 5, 6), (-1, 0, 1), [[0.5], [0.6], [0.7]])
    assert proposal.cut(3) is proposal and proposal.cut(9) is proposal
    assert proposal.cut(2) == Proposal((4, 5), None, [[0.5], [0.6]])
    assert proposal.cut(0) == Proposal((), None, [])
    assert Proposal((4, 5)).cut(1) == Proposal((4,))


# ---------------------------------------------------------------- chance


def test_greedy_decoding_has_no_chance():
    with pytest.raises(RuntimeError, match="draw"):
        NO_CHANCE.draw(torch.tensor([1.0]))
    with pytest.raises(RuntimeError, match="coin"):
        NO_CHANCE.accept(1.0)
    drafter = Fixed(lambda sequence, limit: Proposal())
    drafter.propose = lambda sequence, limit, chance: Proposal((chance.draw(torch.ones(WIDTH)),))
    with pytest.raises(RuntimeError, match="draw"):
        rounds_with(drafter)


def seeded(seed):
    return GeneratorChance(torch.Generator().manual_seed(seed))


def outcomes(chance, count=40):
    probabilities = torch.tensor([0.1, 0.6, 0.3])
    return [(chance.draw(probabilities), chance.accept(0.5)) for _ in range(count)]


def test_seeds_repeat_and_differ():
    assert outcomes(seeded(1)) == outcomes(seeded(1))
    assert outcomes(seeded(1)) != outcomes(seeded(2))


def test_the_global_random_state_is_left_alone():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = outcomes(seeded(1))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    assert outcomes(seeded(1)) == first, "the global state had a say"


def test_frequencies():
    chance = seeded(3)
    probabilities = torch.tensor([0.1, 0.6, 0.0, 0.3])
    draws = torch.tensor([chance.draw(probabilities) for _ in range(20_000)])
    found = torch.bincount(draws, minlength=4) / 20_000
    assert found[2] == 0
    assert torch.allclose(found, probabilities, atol=0.015), found
    for probability in (0.0, 0.2, 0.75, 1.0):
        share = sum(chance.accept(probability) for _ in range(10_000)) / 10_000
        assert share == probability if probability in (0.0, 1.0) else abs(share - probability) < 0.02


def test_draws_and_coins_are_plain_python():
    chance = seeded(0)
    assert type(chance.draw(torch.tensor([0.0, 1.0]))) is int and chance.draw(torch.tensor([0.0, 1.0])) == 1
    assert chance.accept(1.0) is True and chance.accept(0.0) is False
    assert type(chance.draw(torch.tensor([0.5, 0.5], dtype=torch.float64))) is int


def test_drawing_and_tossing_do_not_share_a_number():
    """If they did, acceptance would depend on what was drawn."""
    chance = seeded(5)
    probabilities = torch.tensor([0.5, 0.5])
    pairs = [(chance.draw(probabilities), chance.accept(0.5)) for _ in range(4000)]
    for drawn in (0, 1):
        accepted = [coin for index, coin in pairs if index == drawn]
        assert abs(sum(accepted) / len(accepted) - 0.5) < 0.05


def with_numbers(monkeypatch, *numbers):
    """A chance whose uniform numbers are these, one after another."""
    supply = iter(numbers)
    monkeypatch.setattr(GeneratorChance, "_uniform", lambda self: next(supply))
    return seeded(0)


LARGEST = 1 - 2.0**-53


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_extreme_uniform_numbers_draw_nothing_impossible(monkeypatch, dtype):
    """Zeros at either end and in the middle; 0 and the largest number below 1."""
    for row, first, last in (
        ([0.0, 0.0, 0.25, 0.0, 0.75, 0.0], 2, 4),
        ([1.0, 0.0, 0.0], 0, 0),
        ([0.0, 0.0, 1.0], 2, 2),
        ([0.0, 0.1, 0.2, 0.3, 0.4, 0.0], 1, 4),
        ([0.0, *[0.01] * 100, 0.0], 1, 100),
    ):
        chance = with_numbers(monkeypatch, 0.0, LARGEST, 2.0**-53)
        probabilities = torch.tensor(row, dtype=dtype)
        assert [chance.draw(probabilities) for _ in range(3)] == [first, last, first]


def test_a_number_that_is_rounded_up_to_the_whole_sum(monkeypatch):
    """Sums in float32, as on MPS, and a number of 53 bits: their product may be the sum itself."""
    monkeypatch.setattr(chance_module, "finest", lambda device: torch.float32)
    chance = with_numbers(monkeypatch, LARGEST, LARGEST, 0.0)
    row = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0, 0.0])
    assert [chance.draw(row) for _ in range(3)] == [3, 3, 1]


def test_each_id_has_its_own_stretch_of_numbers(monkeypatch):
    row = torch.tensor([0.25, 0.0, 0.5, 0.25])
    numbers = [0.0, 0.2499, 0.25, 0.5, 0.7499, 0.75, LARGEST]
    chance = with_numbers(monkeypatch, *numbers)
    assert [chance.draw(row) for _ in numbers] == [0, 0, 2, 2, 2, 3, 3]
    chance = with_numbers(monkeypatch, 0.2, 0.3, 0.8)
    assert [chance.draw(row * 2) for _ in range(3)] == [0, 2, 3], (
        "what does not sum to 1 is drawn in proportion"
    )


def test_running_sums_are_float64(monkeypatch):
    """In float32 the sum of 0.9999999 and rare tokens stands still, and those behind it never come."""
    rare = torch.full((1000,), 2e-9)
    row = torch.cat([torch.tensor([1.0]), rare])
    chance = with_numbers(monkeypatch, *(1 - k * 1e-8 for k in range(1, 180)))
    drawn = {chance.draw(row) for _ in range(179)}
    assert len(drawn) > 150 and min(drawn) > 50


@pytest.mark.parametrize("probability", [0.0, 2.0**-60, 0.5, LARGEST, 1.0])
def test_extreme_tosses(monkeypatch, probability):
    chance = with_numbers(monkeypatch, 0.0, LARGEST)
    assert chance.accept(probability) is (probability > 0)
    assert chance.accept(probability) is (probability == 1.0)


def test_one_number_for_each_draw_and_each_toss():
    generator, twin = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    chance = GeneratorChance(generator)
    numbers = torch.rand(3, generator=twin, dtype=torch.float64).tolist()
    assert chance.accept(numbers[0] * 1.0001) and not chance.accept(numbers[1])
    row = torch.full((1000,), 1e-3)
    assert chance.draw(row) == int(numbers[2] * 1000)
    assert torch.equal(generator.get_state(), twin.get_state())


def test_probabilities_are_left_as_they_were():
    row = torch.tensor([0.1, 0.6, 0.3])
    chance = seeded(1)
    for _ in range(5):
        chance.draw(row)
    assert row.tolist() == torch.tensor([0.1, 0.6, 0.3]).tolist()
    with torch.inference_mode():
        inside = torch.tensor([0.0, 1.0])
    assert chance.draw(inside) == 1


def test_counting_models_need_no_context():
    """A drafter behind a model that reads the last token only is right from any prompt."""
    rule = counting_rule(WIDTH)
    rounds = rounds_with(PlainModel(erring(rule, WIDTH, never), WIDTH), rule=rule)
    assert {item.outcome for item in rounds} == {"bonus"}
