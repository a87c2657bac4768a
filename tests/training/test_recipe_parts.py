"""The parts of the training command that can be tried in seconds."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from specdec_lab.training.corpus import encode_groups, random_windows, read_corpus, split_corpus, window_shape
from specdec_lab.training.distill import agreement
from specdec_lab.training.finish import between, mixed, move_towards
from specdec_lab.training.fit import build, learning_rate, rounded
from specdec_lab.training.gates import passages, repeated_within, shared_between, smallest_gap
from specdec_lab.training.labels import frequent_labels, start_labels, with_labels
from specdec_lab.training.recipe import Recipe, Schedule, Shape
from specdec_lab.training.selftext import SelfText, continue_batch
from specdec_lab.training.target import train_on_corpus, train_tokenizer

RECIPE = Recipe(vocabulary=300, labels=4, context=4096)
SHAPE = Shape(layers=2, width=32, feed_forward=64, heads=2)
TEXT = "".join(f"Lord {i}:\nSpeak the speech, I pray you, number {i}.\n\n" for i in range(900))


def test_another_corpus_is_refused(tmp_path):
    (tmp_path / "corpus.txt").write_text("To be", encoding="utf-8")
    with pytest.raises(ValueError, match="sha256"):
        read_corpus(tmp_path / "corpus.txt")


def test_held_out_groups_are_every_twentieth_and_nothing_is_lost():
    training, held_out = split_corpus(TEXT, RECIPE)
    assert len(training) == 22 and len(held_out) == 1
    assert held_out[0].startswith("Lord 760:") and held_out[0].count("Lord") == 40
    assert sorted("".join(training + held_out).split()) == sorted(TEXT.split())


def test_tokenizer_keeps_any_text_and_groups_end_with_the_end_token():
    tokenizer = train_tokenizer([TEXT], RECIPE)
    assert len(tokenizer) == 300
    assert tokenizer.decode(tokenizer.encode("żółw \n\t!", add_special_tokens=False)) == "żółw \n\t!"
    ids = encode_groups(tokenizer, ["a", "b"])
    assert (ids == tokenizer.eos_token_id).nonzero().flatten().tolist() == [1, 3]


def test_labels_are_the_frequent_first_lines_of_speeches():
    groups = ["A B:\nx: y\n\nC:\nz\n\nC:\nC:\n", "C:\nwell\n\nA B:\n:\n"]
    assert frequent_labels(groups, 5) == ["C:\n", "A B:\n"]
    assert frequent_labels(groups, 1) == ["C:\n"]


def test_a_label_becomes_one_token_and_any_text_still_survives():
    tokenizer = train_tokenizer([TEXT], RECIPE)
    labels = ["Lord 1:\n", "Lord 11:\n", "GLOUCESTER:\n", "é B:\n"]
    wider = with_labels(tokenizer, labels)
    assert len(wider) == 304 and len(tokenizer) == 300
    text = "Lord 11:\nLord 1:\nLord 111:\n\té B:\nGLOUCESTER: żółw\n"
    ids = wider.encode(text, add_special_tokens=False)
    assert wider.decode(ids) == text
    assert [i for i in ids if i >= 300] == [301, 300, 303]


def test_a_wider_model_starts_as_the_old_one():
    tokenizer = train_tokenizer([TEXT], RECIPE)
    labels = ["Lord 1:\n", "Lord 2:\n", "Lord 3:\n", "Lord 4:\n"]
    old, wide = build(SHAPE, RECIPE, 0, vocabulary=300).eval(), build(SHAPE, RECIPE, 1).eval()
    start_labels(wide, old, tokenizer, labels)
    ids = torch.arange(40)[None]
    with torch.inference_mode():
        before, after = old(ids).logits, wide(ids).logits
    torch.testing.assert_close(after[..., :300], before, rtol=1e-5, atol=1e-5)
    pieces = old.model.embed_tokens.weight[tokenizer.encode(labels[2], add_special_tokens=False)]
    torch.testing.assert_close(wide.model.embed_tokens.weight[302], pieces.mean(0))
    assert wide.lm_head.weight is wide.model.embed_tokens.weight


def test_the_target_moves_towards_its_mean_with_the_guide(tmp_path, capsys):
    target, guide = build(SHAPE, RECIPE, 0), build(SHAPE, RECIPE, 1).eval()
    with torch.no_grad():  # opinions strong enough to differ
        target.model.embed_tokens.weight.mul_(30)
        guide.model.embed_tokens.weight.mul_(30)
    ids = torch.randint(0, 304, (6000,), generator=torch.Generator().manual_seed(0))
    rows = ids[: 8 * 40].view(8, 40)
    text = SelfText(rows.to(torch.int16), torch.zeros(8, 32, 8), torch.zeros(8, 32, 8), 8)
    recipe = replace(
        RECIPE,
        draft_share=0.5,
        finish_schedule=Schedule(steps=60, peak_lr=3e-3, warmup=5, weight_decay=0.0, tokens_per_step=320),
    )
    teacher = target.eval()

    def distance():
        with torch.no_grad():
            wanted = mixed(teacher, guide, rows, 0.5)
            return torch.nn.functional.kl_div(
                target(rows).logits.log_softmax(-1), wanted, log_target=True, reduction="sum"
            ).item()

    with torch.no_grad():
        wanted = mixed(teacher, guide, rows, 0.5).exp()
        p, q = teacher(rows).logits.softmax(-1), guide(rows).logits.softmax(-1)
    torch.testing.assert_close(wanted.sum(-1), torch.ones(8, 40))
    torch.testing.assert_close(wanted, (p * q).sqrt() / (p * q).sqrt().sum(-1, keepdim=True))
    before = distance()
    target = move_towards(teacher, guide, recipe, text, ids, text, tmp_path / "a.pt")
    assert distance() < 0.7 * before
    assert "with the mean" in capsys.readouterr().out
    torch.testing.assert_close(teacher(rows).logits.softmax(-1), p)  # it was a copy that moved

    ends = [between(teacher, target, share) for share in (0.0, 1.0)]
    for model, end in zip(ends, (teacher, target), strict=True):
        torch.testing.assert_close(model.state_dict(), end.state_dict(), rtol=1e-5, atol=1e-6)
    start, end = teacher.lm_head.weight, target.lm_head.weight
    half = between(teacher, target, 0.5).lm_head.weight
    torch.testing.assert_close(half, (start + end) / 2)


def test_schedule_warms_up_peaks_and_decays():
    schedule = Schedule(steps=1000, peak_lr=2e-3, tail=50)
    rates = [learning_rate(step, schedule) for step in range(schedule.total)]
    assert rates[0] == pytest.approx(2e-5) and max(rates) == pytest.approx(2e-3, rel=1e-3)
    assert rates[999] == pytest.approx(2e-4, rel=1e-2) and len(rates) == 1050
    assert rates[1000] == pytest.approx(2e-4) and rates[-1] == pytest.approx(2e-4 / 50)
    shapes = {window_shape(step, 2048) for step in range(128)}
    assert shapes == {(8, 256), (2, 1024), (1, 2048), (1, 4096)}


def test_training_learns_resumes_and_repeats(tmp_path, capsys):
    tokenizer = train_tokenizer([TEXT], RECIPE)
    ids = encode_groups(tokenizer, [TEXT])
    schedule = Schedule(steps=12, peak_lr=5e-3, warmup=2, tokens_per_step=512)

    def trained(checkpoint):
        return train_on_corpus(
            build(SHAPE, RECIPE, 0), schedule, RECIPE, 0, ids, ids[:600], tmp_path / checkpoint
        )

    first, again, resumed = trained("a.pt"), trained("b.pt"), trained("a.pt")
    fresh = build(SHAPE, RECIPE, 0)
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name])
        torch.testing.assert_close(tensor, again.state_dict()[name], rtol=1e-3, atol=1e-4)
    assert not torch.equal(first.lm_head.weight, fresh.lm_head.weight)
    assert "held out" in capsys.readouterr().out


def test_self_generated_text_is_greedy_where_it_says_so():
    target = build(SHAPE, RECIPE, 0).eval()
    prompts = random_windows(torch.arange(300), 3, 7, torch.Generator().manual_seed(0))
    text = continue_batch(target, prompts, sampled=2, total=14, generator=torch.Generator().manual_seed(1))
    assert text.ids.shape == (3, 14) and text.first == 8 and text.top_ids.shape == (3, 6, 8)
    assert torch.equal(text.ids[:, :8].long(), prompts)
    with torch.inference_mode():
        expected = target(text.ids[:, :-1].long(), use_cache=False).logits[:, 7:].argmax(-1)
    assert torch.equal(expected, text.top_ids[..., 0].long())
    assert torch.equal(text.ids[:, 10:].long(), expected[:, 2:])  # greedy from the third new token on
    assert agreement(target, text) > 0.9  # with itself; bfloat16 autocast may break a tie


def test_gates_count_what_they_say():
    one = list(range(20))
    assert repeated_within([one]) == 0 and shared_between([one, [50 + t for t in one]]) == 0
    assert repeated_within([[1] * 20]) == pytest.approx(12 / 13)
    assert shared_between([one, one]) == 1
    assert passages(torch.arange(100), 3, 10) == [list(range(s, s + 10)) for s in (0, 30, 60)]


def test_smallest_gap_is_that_of_the_greedy_path():
    target = build(SHAPE, RECIPE, 0).eval()
    sequence, gaps = [5, 6, 7], []
    for _ in range(6):
        with torch.inference_mode():
            best = target(torch.tensor([sequence]), use_cache=False).logits[0, -1].topk(2)
        gaps.append((best.values[0] - best.values[1]).item())
        sequence.append(best.indices[0].item())
    assert smallest_gap(target, [5, 6, 7], 6) == pytest.approx(min(gaps), abs=1e-5)


def test_rounding_for_shipping_is_what_a_saved_model_loads_as(tmp_path):
    """The rotary frequencies stay as they are: rounded ones would turn far positions by other angles."""
    model = build(SHAPE, RECIPE, 0).eval()
    before = model.model.rotary_emb.inv_freq.clone()
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=torch.float32).eval()
    ids = torch.arange(60)[None]
    with torch.inference_mode():
        torch.testing.assert_close(rounded(model)(ids).logits, loaded(ids).logits, rtol=0, atol=1e-5)
    assert torch.equal(model.model.rotary_emb.inv_freq, before)
