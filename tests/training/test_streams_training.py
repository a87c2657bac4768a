"""Training of streams: that they learn, what is judged, that the target stays as it is, and that it goes on again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from helpers import random_model, with_noise

from specdec_lab import autoregressive_decode
from specdec_lab.models.stream_rider import StreamRider
from specdec_lab.models.streams import Streams, load_streams
from specdec_lab.models.transformers_adapter import TransformersAdapter
from specdec_lab.training import streams as training
from specdec_lab.training.ahead import rows_of_step
from specdec_lab.training.fit import build
from specdec_lab.training.recipe import Recipe, Schedule, Shape
from specdec_lab.training.selftext import SelfText
from specdec_lab.training.streams import StreamsRecipe, accuracy, pass_with_streams, train

WIDTH = 30
SMALL = StreamsRecipe(
    streams=2,
    layers=2,
    rank=8,
    schedule=Schedule(steps=60, peak_lr=2e-2, warmup=5, weight_decay=0.0, tokens_per_step=256, tail=0),
    evaluate_every=20,
)
SHORT = replace(SMALL, schedule=replace(SMALL.schedule, steps=9, warmup=2), evaluate_every=3, patience=99)


def text_of(rows: torch.Tensor, first: int = 8) -> SelfText:
    return SelfText(rows.to(torch.int16), torch.empty(0), torch.empty(0), first)


def random_text(seed: int, windows: int = 8, length: int = 16) -> SelfText:
    generator = torch.Generator().manual_seed(seed)
    return text_of(torch.randint(0, WIDTH, (windows, length), generator=generator), first=6)


def counting_text(seed: int = 2, windows: int = 48) -> SelfText:
    starts = torch.randint(0, WIDTH, (windows, 1), generator=torch.Generator().manual_seed(seed))
    return text_of((starts + torch.arange(20)) % WIDTH)


@pytest.fixture
def target():
    return build(Shape(2, 32, 64, 2), Recipe(), 0, vocabulary=WIDTH).eval()


def silent(*_, **__) -> None:
    pass


def everything_of(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def hook_count(model) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def assert_untouched(target, before: dict, wanted: list[bool]) -> None:
    assert before.keys() == target.state_dict().keys()
    assert all(torch.equal(value, before[name]) for name, value in target.state_dict().items())
    assert [weight.requires_grad for weight in target.parameters()] == wanted
    assert all(weight.grad is None for weight in target.parameters())
    assert hook_count(target) == 0


# ---------------------------------------------------------------- what is judged


def perturbed(target, **sizes) -> Streams:
    streams = Streams.beside(target, **{"streams": 3, "layers": 1, "rank": 2} | sizes)
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in streams.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return streams


@pytest.fixture
def lively():
    """A target whose guesses differ from place to place."""
    model = random_model("llama", seed=4, vocab_size=WIDTH)
    return with_noise(model, 0.02, seed=5)


@torch.no_grad()
def brute_force(target, streams, text: SelfText) -> tuple[list[dict], float]:
    """One pass for every beginning of every window, one look at every guess."""
    adapter, length = TransformersAdapter(target), text.ids.shape[1]
    layer = len(target.model.layers) - len(streams.layers)
    hits = {(k, r): [] for k in range(1, len(streams) + 1) for r in (1, 2, 4, 8)}
    exits = []
    for ids in text.ids.long():
        # from the last token of the prompt on: what stands before it was not written by the target
        for t in range(text.first - 1, length):
            out = adapter.forward(ids[None, : t + 1], logits_to_keep=1, rider=StreamRider(streams))
            guesses = streams.guesses(target, out.carried[0, 0])
            entry = target(input_ids=ids[None, : t + 1], use_cache=False, output_hidden_states=True)
            left = streams.early(target, entry.hidden_states[layer][0, -1])
            if t + 1 < length:
                exits.append(float(left.argmax() == ids[t + 1]))
            if t + 1 + len(streams) < length:  # as far as all streams can be judged
                for k in range(1, len(streams) + 1):
                    best = guesses[k - 1].argsort(descending=True).tolist()
                    for r in (1, 2, 4, 8):
                        hits[k, r].append(float(int(ids[t + 1 + k]) in best[:r]))
    rate = {key: sum(found) / len(found) for key, found in hits.items()}
    rows = [{f"top{r}": rate[k, r] for r in (1, 2, 4, 8)} for k in range(1, len(streams) + 1)]
    return rows, sum(exits) / len(exits)


@pytest.mark.parametrize("batch", [3, 50])
def test_accuracy_is_a_count_over_every_place(lively, batch):
    """Half of the text is the target's own, so that some guesses are right."""
    streams, text = perturbed(lively, layers=1), random_text(1, windows=14, length=13)
    for row in text.ids[::2]:
        row[6:] = torch.tensor(autoregressive_decode(lively, row[:6].tolist(), 7, None)[6:])
    found, early = accuracy(lively, streams, text, batch)
    assert hook_count(lively) == 0
    rows, exits = brute_force(lively, streams, text)
    assert len(found) == len(rows) == 3 and len({row["top4"] for row in rows}) > 1
    for ours, truth in zip(found, rows, strict=True):
        assert ours == {name: pytest.approx(value, abs=6e-5) for name, value in truth.items()}
        assert 0 < truth["top1"] < truth["top2"] < truth["top4"] < truth["top8"] < 1
    assert early == pytest.approx(exits, abs=6e-5) and 0 < early < 1


def test_stream_k_is_held_against_the_token_k_places_behind_the_targets_own(target):
    """Streams that always say one token are right exactly where that token stands, k + 1 places on."""

    class Fixed(Streams):
        @staticmethod
        def guesses(model, hidden):
            rows = torch.zeros(*hidden.shape[:-1], WIDTH)
            rows[..., 5] = 1.0
            return rows

    streams = Fixed(32, 64, (2, 2, 16), 2, 1, 2)
    ids = torch.zeros(1, 12, dtype=torch.long)
    ids[0, 7] = 5
    found, early = accuracy(target, streams, text_of(ids, first=4))
    # places 3…8 can be judged by two streams; stream 1 is right from place 5, stream 2 from place 4
    assert [row["top1"] for row in found] == [round(1 / 6, 4)] * 2
    assert early == round(1 / 8, 4), "places 3…10, and the token stands behind place 6"
    ids[0, 7], ids[0, 4] = 0, 5
    found, _ = accuracy(target, streams, text_of(ids, first=4))
    assert [row["top1"] for row in found] == [0, 0], "the token right behind the prompt is nobody's to guess"
    ids[0, 4], ids[0, 5] = 0, 5
    found, _ = accuracy(target, streams, text_of(ids, first=4))
    assert [row["top1"] for row in found] == [round(1 / 6, 4), 0]


def test_a_pass_brings_streams_and_early_exit_of_the_last_rows(lively):
    streams, ids = perturbed(lively, layers=2), torch.tensor([[1, 2, 3, 4, 5], [9, 8, 7, 6, 5]])
    with torch.no_grad():
        guesses, exits = pass_with_streams(TransformersAdapter(lively), streams, ids, 3)
        assert guesses.shape == (3, 2, 3, WIDTH) and exits.shape == (2, 3, WIDTH)
        entry = lively.model.embed_tokens(ids)[:, -3:]  # both layers are top layers
        assert torch.allclose(exits, streams.early(lively, entry), atol=1e-5)
    assert hook_count(lively) == 0


def test_hooks_are_gone_when_a_pass_of_training_raises(lively):
    streams = perturbed(lively)

    def fail(*_):
        raise RuntimeError("on purpose")

    hook = lively.model.layers[-1].mlp.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        pass_with_streams(TransformersAdapter(lively), streams, torch.tensor([[1, 2, 3]]), 2)
    hook.remove()
    assert hook_count(lively) == 0


# ---------------------------------------------------------------- learning


def test_streams_learn_and_the_best_are_kept(target):
    """Text that counts up: two tokens ahead is certain, once the token is known."""
    text, held_out = counting_text(), counting_text(seed=5, windows=20)
    before, wanted = everything_of(target), [weight.requires_grad for weight in target.parameters()]
    log: list[str] = []
    streams, curve = train(SMALL, target, text, held_out, log=lambda line, **_: log.append(line))
    assert_untouched(target, before, wanted)
    scores = [sum(row["top1"] for row in entry["held_out"]) for entry in curve]
    assert [entry["step"] for entry in curve] == [20, 40, 60] and len(log) == 3
    assert max(scores) > 1.5 and scores[0] < max(scores), scores
    losses = [entry["loss"] for entry in curve]
    assert all(len(parts) == 3 for parts in losses), "two streams and the early exit"
    assert all(last < first for first, last in zip(losses[0], losses[-1], strict=True))
    found, early = accuracy(target, streams, held_out)
    assert sum(row["top1"] for row in found) == pytest.approx(max(scores), abs=1e-4)
    assert early > 0.8 and not streams.training
    assert all(row["top1"] <= row["top2"] <= row["top4"] <= row["top8"] for row in found)
    # every part has moved: nothing of the network is left out of the loss
    fresh = untrained(SMALL, target)
    for name, weight in streams.state_dict().items():
        assert not torch.equal(weight, fresh[name]), name


def untrained(recipe: StreamsRecipe, target) -> dict[str, torch.Tensor]:
    """What the training begins with: one step at a rate of nothing."""
    still = replace(recipe, schedule=replace(recipe.schedule, steps=1, peak_lr=0.0), evaluate_every=1)
    text = counting_text()
    return everything_of(train(still, target, text, text, log=silent)[0])


def test_streams_do_not_begin_alike(target):
    start = untrained(SMALL, target)["embedding"]
    assert start.shape == (2, 32) and (start[0] - start[1]).abs().min() > 0
    assert all(
        torch.equal(value, again)
        for value, again in zip(
            untrained(SMALL, target).values(), untrained(SMALL, target).values(), strict=True
        )
    ), "same seed, same weights"
    assert not torch.equal(untrained(replace(SMALL, seed=1), target)["embedding"], start)


def test_the_best_streams_are_kept_not_the_last(target, monkeypatch):
    """Held-out figures that fall from the second look on: what was looked at second is what comes back."""
    seen = []

    def rising_once(_, streams, *__):
        seen.append(everything_of(streams))
        return [{"top1": [0.5, 0.9, 0.7][len(seen) - 1]}], 0.0

    monkeypatch.setattr(training, "accuracy", rising_once)
    streams, curve = train(SHORT, target, counting_text(), counting_text(), log=silent)
    assert len(curve) == len(seen) == 3
    assert all(torch.equal(weight, seen[1][name]) for name, weight in streams.state_dict().items())
    assert any(not torch.equal(seen[1][name], seen[2][name]) for name in seen[1])


def test_training_stops_when_nothing_gets_better(target):
    still = replace(
        SMALL, schedule=replace(SMALL.schedule, peak_lr=0.0, steps=20), evaluate_every=2, patience=2
    )
    _, curve = train(still, target, random_text(3), random_text(3), log=silent)
    assert [entry["step"] for entry in curve] == [2, 4, 6]


def test_later_streams_count_less(target, monkeypatch):
    """And the early exit by its weight: the loss is put together again from its parts."""
    losses = []
    real = torch.Tensor.backward
    monkeypatch.setattr(
        torch.Tensor, "backward", lambda self, *a, **k: (losses.append(self.item()), real(self, *a, **k))[1]
    )
    recipe = replace(SHORT, decay=0.5, exit_weight=0.25, evaluate_every=1)
    _, curve = train(recipe, target, random_text(3), random_text(4), log=silent)
    assert len(losses) == len(curve) == 9
    for loss, entry in zip(losses, curve, strict=True):
        first, second, leaving = entry["loss"]
        assert loss == pytest.approx(first + 0.5 * second + 0.25 * leaving, abs=1e-3)


def test_every_step_sees_other_windows_and_the_same_ones_again():
    text, schedule = counting_text(), SMALL.schedule
    chosen = [rows_of_step(text, 10, schedule, seed=1, step=step).tolist() for step in range(6)]
    assert chosen == [rows_of_step(text, 10, schedule, seed=1, step=step).tolist() for step in range(6)]
    assert len({tuple(rows) for rows in chosen}) == 6 and {len(rows) for rows in chosen} == {25}
    assert chosen[0] != rows_of_step(text, 10, schedule, seed=2, step=0).tolist()
    assert {row for rows in chosen for row in rows} <= set(range(len(text)))


# ---------------------------------------------------------------- the target, and interruptions


class Interrupted(Exception):
    pass


def interrupting(after: int):
    count = []

    def log(*_, **__):
        count.append(1)
        if len(count) == after:
            raise Interrupted

    return log


def test_an_interrupted_training_leaves_the_target_as_it_was(target):
    """Also what was frozen before, and what the caller wanted trained."""
    weights = list(target.parameters())
    weights[2].requires_grad_(False)
    before, wanted = everything_of(target), [weight.requires_grad for weight in target.parameters()]
    assert True in wanted and False in wanted
    with pytest.raises(Interrupted):
        train(SHORT, target, counting_text(), counting_text(), log=interrupting(1))
    assert_untouched(target, before, wanted)

    def fail(*_):
        raise RuntimeError("on purpose")

    hook = target.model.layers[-1].mlp.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        train(SHORT, target, counting_text(), counting_text(), log=silent)
    hook.remove()
    assert_untouched(target, before, wanted)


def test_nothing_of_the_target_is_trained_while_it_runs(target, monkeypatch):
    looked = []

    def look(*_):
        looked.append([weight.requires_grad for weight in target.parameters()])
        return [{"top1": 0.0}], 0.0

    monkeypatch.setattr(training, "accuracy", look)
    train(SHORT, target, counting_text(), counting_text(), log=silent)
    assert looked and not any(any(flags) for flags in looked)


@pytest.mark.parametrize("after", [1, 2])
def test_a_checkpoint_goes_on_to_the_same_result(target, tmp_path, after):
    text, held_out, file = counting_text(), counting_text(seed=5, windows=10), tmp_path / "streams.pt"
    whole, curve = train(SHORT, target, text, held_out, tmp_path / "other.pt", log=silent)
    looks: list = []

    def stop(streams_after):
        def log(*_, **__):
            looks.append(1)
            if len(looks) == streams_after + 1:  # the checkpoint of the look before is there
                raise Interrupted

        return log

    with pytest.raises(Interrupted):
        train(SHORT, target, text, held_out, file, log=stop(after))
    assert torch.load(file, weights_only=True)["step"] == 3 * after
    lines: list = []
    again, resumed = train(SHORT, target, text, held_out, file, log=lambda line, **_: lines.append(line))
    assert len(lines) == 3 - after, "it began where it was"
    assert resumed == curve and len(curve) == 3
    assert all(torch.equal(w, again.state_dict()[name]) for name, w in whole.state_dict().items())
    # a training that is over is not done again
    lines.clear()
    third, same = train(SHORT, target, text, held_out, file, log=lambda line, **_: lines.append(line))
    assert not lines and same == curve
    assert all(torch.equal(w, third.state_dict()[name]) for name, w in whole.state_dict().items())


def test_a_checkpoint_of_another_recipe_is_refused(target, tmp_path):
    text, file = counting_text(), tmp_path / "streams.pt"
    train(SHORT, target, text, text, file, log=silent)
    with pytest.raises(ValueError, match="belongs to another recipe"):
        train(replace(SHORT, decay=0.5), target, text, text, file, log=silent)


# ---------------------------------------------------------------- the command


def test_the_command_trains_saves_and_writes_a_card(target, tmp_path, monkeypatch):
    """Every stage of `main` on a tiny target: what is said of the streams is said of those in the folder."""
    from types import SimpleNamespace

    pair = SimpleNamespace(target=target, card={"sha256": {"target/model.safetensors": "00"}})
    texts = (counting_text(), counting_text(seed=5, windows=20))
    asked = []
    monkeypatch.setattr(training, "load_pair", lambda name: pair)
    monkeypatch.setattr(training, "written_text", lambda *given: (asked.append(given), texts)[1])
    monkeypatch.setattr(training, "STREAMS_SCHEDULE", replace(SMALL.schedule, tail=5, tokens_per_step=64))
    out = tmp_path / "out"
    training.main(
        [
            "--corpus",
            "corpus.txt",
            "--work",
            str(tmp_path),
            "--out",
            str(out),
            "--layers",
            "2",
            "--steps",
            "5",
        ]
    )
    assert asked[0][0] is pair and str(asked[0][1]) == "corpus.txt"
    card, found = json.loads((out / "card.json").read_text(encoding="utf-8")), load_streams(out)
    assert found.sizes["layers"] == card["recipe"]["layers"] == 2
    assert card["recipe"]["schedule"]["steps"] == 5 and card["figures"]["curve"][-1]["step"] == 10
    figures, early = accuracy(target, found, texts[1])
    assert card["figures"]["held_out_accuracy"] == figures
    assert card["figures"]["held_out_early_exit_top1"] == early
    assert card["figures"]["parameters"] == sum(weight.numel() for weight in found.parameters())
    assert (tmp_path / "streams-2-layers-5.pt").is_file() and card["target_sha256"] == "00"
