"""Medusa heads: what they are to guess, that they learn it, and that a folder gives them back."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specdec_lab.models.medusa import MedusaHeads, load_medusa
from specdec_lab.training import medusa
from specdec_lab.training.ahead import targets
from specdec_lab.training.fit import build
from specdec_lab.training.medusa import MedusaRecipe, accuracy, hidden_states, train
from specdec_lab.training.recipe import Recipe, Schedule, Shape
from specdec_lab.training.selftext import SelfText

SMALL = MedusaRecipe(
    heads=2,
    schedule=Schedule(steps=60, peak_lr=5e-3, warmup=5, weight_decay=0.0, tokens_per_step=256, tail=0),
    evaluate_every=20,
)


def text_of(rows: torch.Tensor, first: int) -> SelfText:
    return SelfText(rows.to(torch.int16), torch.empty(0), torch.empty(0), first)


def test_head_k_guesses_the_token_k_places_behind_the_targets_own():
    rows = torch.arange(20).expand(3, 20)
    positions, ahead = targets(text_of(rows, first=8), 3)
    assert positions.tolist() == list(range(7, 16)), (
        "from the last prompt token on, as far as all heads can be judged"
    )
    for i, position in enumerate(positions.tolist()):
        # the hidden state of `position` makes the target choose the next token; head 1 guesses the one behind it
        assert ahead[0, i].tolist() == [position + 2, position + 3, position + 4]


def target_model():
    return build(Shape(2, 32, 64, 2), Recipe(), 0, vocabulary=40)


def test_hidden_states_are_what_the_head_is_given():
    target = target_model().eval()
    rows = torch.randint(0, 40, (2, 12), generator=torch.Generator().manual_seed(1))
    hidden = hidden_states(target, text_of(rows, 4))
    logits = target.get_output_embeddings()(hidden.float())
    assert torch.allclose(logits, target(rows).logits, atol=2e-2)  # hidden states are kept in bfloat16


def test_heads_learn_and_the_best_are_kept():
    """Text that counts up: two tokens ahead is certain, once the token is known."""
    target = target_model()
    starts = torch.randint(0, 40, (64, 1), generator=torch.Generator().manual_seed(2))
    text = text_of((starts + torch.arange(24)) % 40, first=8)
    log: list[str] = []
    often = replace(SMALL, evaluate_every=2, patience=99)
    heads, curve = train(often, target, text, text, log=lambda line, **_: log.append(line))
    scores = [sum(head["top1"] for head in entry["held_out"]) for entry in curve]
    assert scores[-1] > scores[0] and max(scores) > 1.5 and len(log) == len(curve) == 30
    found = accuracy(heads, hidden_states(target, text), *targets(text, 2))
    assert sum(head["top1"] for head in found) == pytest.approx(max(scores), abs=1e-3)
    assert all(head["top1"] <= head["top2"] <= head["top4"] <= head["top8"] for head in found)


def test_training_stops_when_nothing_gets_better():
    target = target_model()
    text = text_of(torch.randint(0, 40, (8, 24), generator=torch.Generator().manual_seed(3)), first=8)
    still = replace(SMALL, schedule=replace(SMALL.schedule, peak_lr=0.0), evaluate_every=5, patience=2)
    _, curve = train(still, target, text, text, log=lambda *_, **__: None)
    assert [entry["step"] for entry in curve] == [5, 10, 15]


def test_the_best_heads_are_kept_not_the_last(monkeypatch):
    """Held-out figures that fall from the first look on: what was looked at first is what comes back."""
    seen = []

    def falling(heads, *_):
        seen.append({name: weight.clone() for name, weight in heads.state_dict().items()})
        return [{"top1": 1.0 - 0.1 * len(seen)}]

    monkeypatch.setattr(medusa, "accuracy", falling)
    target = target_model()
    text = text_of(torch.arange(24).expand(16, 24) % 40, first=8)
    heads, curve = train(SMALL, target, text, text, log=lambda *_, **__: None)
    assert len(curve) == len(seen) == 3
    for name, weight in heads.state_dict().items():
        assert torch.equal(weight, seen[0][name])
    assert any(not torch.equal(seen[0][name], seen[-1][name]) for name in seen[0])


def test_a_folder_gives_the_heads_back(tmp_path):
    torch.manual_seed(0)
    heads = MedusaHeads(8, 12, 3)
    heads.save(tmp_path / "heads")
    found, hidden = load_medusa(tmp_path / "heads"), torch.randn(5, 8)
    assert found(hidden).shape == (3, 5, 12) and found(hidden).dtype == torch.float32
    assert torch.allclose(found(hidden), heads(hidden), atol=0.05)  # saved in bfloat16
    with pytest.raises(ValueError, match="folder must hold MedusaHeads"):
        load_medusa(tmp_path)
