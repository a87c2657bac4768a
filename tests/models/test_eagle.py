"""The EAGLE draft: taps, features told and guessed, rows in chains and trees, against passes without any cache."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from eagles import FAMILIES, eagle_pair
from helpers import VOCABULARY
from torch.testing import assert_close

from specdec_lab.decoding.session import Session
from specdec_lab.files import card_of
from specdec_lab.models.eagle import EagleDraft, EagleModel, TapRider, load_eagle
from specdec_lab.models.taps import tapped
from specdec_lab.models.transformers_adapter import TransformersAdapter


def hidden_of(target, ids: list[int], taps) -> torch.Tensor:
    """What transformers says that the layers put out, (tokens, taps, hidden)."""
    with torch.no_grad():
        found = target(torch.tensor([ids]), output_hidden_states=True, use_cache=False).hidden_states
    return torch.stack([found[tap][0] for tap in taps], dim=1)


def rows_without_cache(draft: EagleDraft, target, ids: list[int], hidden: torch.Tensor) -> torch.Tensor:
    """Features at all of `ids`; behind the places of `hidden` the draft's own stand in. One full pass for each."""
    with torch.no_grad():
        embedded = target.get_input_embeddings()(torch.tensor([ids]))
        known = list(draft.features(hidden))
        while True:
            count = min(len(known) + 1, len(ids))
            before = torch.stack([torch.zeros_like(known[0]), *known])[:count]
            found = draft(embedded[:, :count], before[None])[0]
            if count == len(ids):
                return found
            known.append(found[-1])


def logits_of(target, draft, features: torch.Tensor) -> torch.Tensor:
    """(rows, vocab), -inf outside the draft's tokens."""
    head = target.get_output_embeddings().weight.detach()
    full = torch.full((len(features), VOCABULARY), float("-inf"))
    full[:, draft.ids.long()] = F.linear(features, head[draft.ids.long()])
    return full


@pytest.mark.parametrize("family", FAMILIES)
def test_taps_read_what_the_layers_put_out(family):
    target, draft = eagle_pair(family)
    ids = [5, 9, 13, 7, 2, 40]
    with tapped(target, draft.taps) as passes, torch.no_grad():
        target(torch.tensor([ids]))
        target(torch.tensor([ids[:3]]))
    assert_close(passes[0][0], hidden_of(target, ids, draft.taps))
    assert [part.shape[1] for part in passes] == [6, 3]
    with torch.no_grad():
        assert_close(target.get_output_embeddings()(passes[0][:, :, -1]), target(torch.tensor([ids])).logits)
        target(torch.tensor([ids]))
    assert len(passes) == 2, "the taps are gone"


@pytest.mark.parametrize("taps", [(), (0, 1), (2, 1), (1, 1), (1, 9)])
def test_taps_that_are_not_there_are_refused(taps):
    target, _ = eagle_pair("llama")
    with (
        pytest.raises(ValueError, match="taps must be rising numbers from 1 to the 4 layers"),
        tapped(target, taps),
    ):
        pass


def test_the_rider_brings_rows_and_keeps_what_lies_before():
    target, draft = eagle_pair("llama")
    ids, rider = [5, 9, 13, 7, 2, 40], TapRider(draft.taps)
    session = Session(target, rider=rider)
    session.feed(ids, rows=2)
    truth = hidden_of(target, ids, draft.taps)
    assert_close(session.carried, truth[-2:])
    assert_close(rider.before, truth[:-2])
    plain = TransformersAdapter(target).forward(torch.tensor([ids])).logits
    assert torch.equal(TransformersAdapter(target).forward(torch.tensor([ids]), rider=rider).logits, plain)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_chain_is_what_passes_without_a_cache_say(family):
    target, draft = eagle_pair(family)
    rng = random.Random(family)
    for _ in range(6):
        ids = [rng.randrange(60) for _ in range(rng.randint(3, 14))]
        known = rng.randint(1, len(ids) - 1)
        hidden = hidden_of(target, ids[:known], draft.taps)
        model = EagleModel(draft, target)
        model.tell(hidden[: known // 2]), model.tell(hidden[known // 2 :])
        session, rows = Session(model), []
        cuts = sorted({rng.randint(1, known + 1), known + 1} & set(range(1, len(ids) + 1)))
        for first, last in zip([0, *cuts], cuts, strict=False):
            rows += session.feed(ids[first:last], rows=last - first)
        for token in ids[len(rows) :]:
            rows += session.feed([token], rows=1)
        truth = logits_of(target, draft, rows_without_cache(draft, target, ids, hidden))
        assert_close(torch.stack(list(rows)), truth)


def test_every_node_of_a_tree_is_what_its_path_alone_would_be():
    target, draft = eagle_pair("llama")
    prompt, tokens, parents = [4, 8, 15, 16], [1, 2, 3, 4, 5, 6], [-1, -1, 0, 0, 1, 2]
    hidden = hidden_of(target, prompt[:-1], draft.taps)
    model = EagleModel(draft, target)
    model.tell(hidden)
    session = Session(model)
    session.feed(prompt, rows=1)
    rows = [*session.feed(tokens[:2], 2, parents[:2]), *session.feed(tokens[2:5], 3, parents[2:5])]
    rows += session.feed(tokens[5:], 1, parents[5:])
    for node, row in enumerate(rows):
        path, place = [], node
        while place >= 0:
            path.insert(0, tokens[place])
            place = parents[place]
        alone = rows_without_cache(draft, target, prompt + path, hidden)
        assert_close(row, logits_of(target, draft, alone)[-1])


def test_what_the_target_says_takes_the_place_of_guesses():
    target, draft = eagle_pair("llama")
    ids = [4, 8, 15, 16, 23, 42]
    hidden = hidden_of(target, ids, draft.taps)
    model = EagleModel(draft, target)
    model.tell(hidden[:2])
    session = Session(model)
    session.feed(ids[:3], 1), session.feed(ids[3:4], 1), session.feed(ids[4:5], 1)
    session.roll_back(3)
    model.tell(hidden[2:5])
    assert model.told == 5
    rows = session.feed(ids[3:], rows=3)
    truth = logits_of(target, draft, rows_without_cache(draft, target, ids, hidden[:5]))
    assert_close(rows, truth[3:])


def test_only_the_drafts_own_tokens_can_be_guessed():
    target, draft = eagle_pair("llama")
    model = EagleModel(draft, target)
    model.tell(hidden_of(target, [1, 2], draft.taps))
    logits = Session(model).feed([1, 2, 3], rows=3)
    assert logits.shape == (3, VOCABULARY)
    assert set(torch.nonzero(logits[0].isfinite()).flatten().tolist()) == set(draft.ids.tolist())


def test_the_callers_draft_is_left_alone_and_later_changes_do_not_reach_the_model():
    target, draft = eagle_pair("llama")
    draft.train()
    model = EagleModel(draft, target.to(torch.bfloat16))
    assert draft.training and next(draft.parameters()).dtype == torch.float32
    assert model.dtype == torch.bfloat16 and not model.draft.training


def test_a_folder_gives_the_draft_back(tmp_path):
    _, draft = eagle_pair("llama")
    draft.save(tmp_path)
    again = load_eagle(tmp_path)
    assert again.taps == draft.taps and not again.training
    assert torch.equal(again.ids, draft.ids) and again.ids.dtype == torch.int32
    for name, weight in again.named_parameters():
        assert weight.dtype == torch.bfloat16
        assert torch.equal(weight, dict(draft.named_parameters())[name].to(torch.bfloat16)), name
    assert next(load_eagle(tmp_path, dtype=torch.float32).parameters()).dtype == torch.float32
    with pytest.raises(ValueError, match="folder must hold EagleDraft"):
        load_eagle(tmp_path / "nothing")


def test_a_draft_for_another_target_is_refused():
    _, draft = eagle_pair("llama")
    for change in ({"hidden_size": 64}, {"num_hidden_layers": 3}, {"vocab_size": 20}):
        other, _ = eagle_pair("llama", **change)
        with pytest.raises(
            ValueError, match="draft was made for a target of hidden size 32 with 4 layers or more"
        ):
            EagleModel(draft, other)


def test_the_bundled_draft_is_the_one_on_its_card():
    card = card_of("smollm2-eagle")
    draft = load_eagle("smollm2")
    assert draft.taps == tuple(card["recipe"]["taps"]) and len(draft.ids) == card["recipe"]["vocabulary"]
    assert sum(p.numel() for p in draft.parameters()) == card["figures"]["parameters"]
    assert len(set(draft.ids.tolist())) == len(draft.ids) and draft.ids.min() >= 0 and draft.ids.max() < 49152
    rates = [guess["top1"] for guess in card["figures"]["held_out_agreement"]]
    assert len(rates) == 4 and rates == sorted(rates, reverse=True) and rates[0] > 0.4
