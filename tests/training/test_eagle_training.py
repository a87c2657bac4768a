"""Training the EAGLE draft: conversations are the target's own, guesses in a row are those of decoding, and it learns."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from eagles import eagle_pair
from helpers import VOCABULARY, random_model, uncached_greedy
from torch.testing import assert_close
from transformers import AutoTokenizer

from specdec_lab.decoding.session import Session
from specdec_lab.files import ASSETS
from specdec_lab.models.eagle import EagleModel, load_eagle
from specdec_lab.models.pairs import Pair
from specdec_lab.models.taps import layers_of
from specdec_lab.training import chat_text, eagle
from specdec_lab.training.chat_text import Conversation, answers, questions, write_conversations
from specdec_lab.training.eagle import (
    Batch,
    EagleRecipe,
    agreement,
    frequent_tokens,
    guesses,
    loss_of,
    new_draft,
    rows_of_step,
    train,
    unrolled_masks,
)
from specdec_lab.training.recipe import Schedule

TAPS = (1, 2, 4)
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"


def texts_of(target, count: int, taps=TAPS, seed: int = 1) -> list[Conversation]:
    """Random questions and the target's greedy answers, without a cache."""
    generator, made = torch.Generator().manual_seed(seed), []
    for _ in range(count):
        asked = torch.randint(
            3, VOCABULARY, (int(torch.randint(2, 6, (1,), generator=generator)),), generator=generator
        )
        said = uncached_greedy(
            target, asked.tolist(), int(torch.randint(4, 10, (1,), generator=generator))
        ).tokens
        ids = torch.tensor([*asked.tolist(), *said], dtype=torch.int32)
        with torch.no_grad():
            states = target(ids[None, :-1].long(), output_hidden_states=True, use_cache=False).hidden_states
        hidden = torch.stack([states[tap][0] for tap in taps], dim=1)
        made.append(Conversation(ids, len(asked), hidden))
    return made


@pytest.fixture(scope="module")
def chat_pair():
    """A random model with the bundled tokenizer and a chat template of its own."""
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / "tiny")
    tokenizer.chat_template = TEMPLATE
    target = random_model(
        "llama", seed=4, vocab_size=len(tokenizer), num_hidden_layers=4, initializer_range=0.2
    )
    target.generation_config.eos_token_id = target.generation_config.pad_token_id = tokenizer.eos_token_id
    return Pair("chat", target, None, tokenizer, eos_token_id=tokenizer.eos_token_id)


def test_answers_are_the_targets_own_with_what_it_computed(chat_pair, monkeypatch):
    monkeypatch.setattr(chat_text, "LONGEST_ANSWER", 12)
    found = answers(chat_pair, ["Who goes there?", "Nay, answer me: stand, and unfold yourself."], TAPS)
    for text, question in zip(
        found, ("Who goes there?", "Nay, answer me: stand, and unfold yourself."), strict=True
    ):
        prompt, said = text.ids[: text.answer].tolist(), text.ids[text.answer :].tolist()
        assert prompt == chat_pair.chat(question)
        assert said == uncached_greedy(chat_pair.target, prompt, 12).until([chat_pair.eos_token_id])
        with torch.no_grad():
            states = chat_pair.target(text.ids[None, :-1].long(), output_hidden_states=True).hidden_states
        truth = torch.stack([states[tap][0] for tap in TAPS], dim=1)
        assert text.hidden.dtype == torch.bfloat16
        assert_close(text.hidden.float(), truth, atol=2e-2, rtol=2e-2)


def test_questions_end_and_depend_on_the_seed_alone(chat_pair, monkeypatch):
    monkeypatch.setattr(chat_text, "LONGEST_QUESTION", 40)
    begin = torch.tensor([chat_text.before_question(chat_pair.tokenizer)] * 20)
    drawn = chat_pair.target.generate(begin, do_sample=True, max_new_tokens=30, eos_token_id=None)
    ends = replace(chat_pair, eos_token_id=int(drawn[:, begin.shape[1] :].flatten().mode().values))
    state = torch.get_rng_state()
    first = questions(ends, 60, seed=1)
    assert first == questions(ends, 60, seed=1) != questions(ends, 60, seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert 0 < len(first) < 60 and all(ends.eos_token_id not in ends.encode(text) for text in first)
    begin = chat_text.before_question(chat_pair.tokenizer)
    assert chat_pair.decode(begin) == "<user>"


def test_conversations_are_kept_and_shared(chat_pair, tmp_path, monkeypatch):
    monkeypatch.setattr(chat_text, "LONGEST_ANSWER", 4)
    monkeypatch.setattr(chat_text, "questions", lambda pair, count, seed: [f"What is {seed}?", "Why?"])
    log = []
    write_conversations(chat_pair, tmp_path, TAPS, 3, 10, (1, 2), log=lambda line, **_: log.append(line))
    found = write_conversations(chat_pair, tmp_path, TAPS, 3, 10, log=lambda line, **_: log.append(line))
    assert len(found) == 6 and log == [f"conversations: batch {n} of 3" for n in (2, 1, 3)]
    monkeypatch.setattr(chat_text, "answers", None)
    again = write_conversations(chat_pair, tmp_path, TAPS, 3, 10)
    assert all(
        torch.equal(a.ids, b.ids) and torch.equal(a.hidden, b.hidden)
        for a, b in zip(found, again, strict=True)
    )


def test_masks_show_what_decoding_shows():
    first, second, third = unrolled_masks(4, 3)
    assert first.tolist() == torch.ones(4, 4).tril().bool().tolist()
    # place 3 in the third guess: the target's features up to place 1, then its own of guess two at place 2, itself
    assert third[3].nonzero().flatten().tolist() == [0, 1, 4 + 2, 8 + 3]
    assert second[2].nonzero().flatten().tolist() == [0, 1, 4 + 2]


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_guesses_in_a_row_are_those_of_decoding(family):
    target, draft = eagle_pair(family)
    text = texts_of(target, 1)[0]
    batch = Batch.of([text])
    found = guesses(draft, target, replace(batch, hidden=text.hidden[None]), 3)
    head = target.get_output_embeddings().weight[draft.ids.long()]
    for last in range(1, len(text.hidden) - 3):  # places whose features are the target's: 0 … last - 1
        model = EagleModel(draft, target)
        model.tell(text.hidden[:last])
        session = Session(model)
        tokens = text.ids.tolist()
        rows = [
            session.feed(tokens[: last + 1], 1)[0],
            *(session.feed([tokens[last + k]], 1)[0] for k in (1, 2)),
        ]
        for k, row in enumerate(rows):
            with torch.no_grad():
                assert_close(found[k][0, last + k] @ head.T, row[draft.ids.long()], atol=1e-4, rtol=1e-4)


def test_places_behind_a_text_and_before_its_answer_do_not_count():
    target, draft = eagle_pair("llama")
    texts, recipe = texts_of(target, 5), EagleRecipe(taps=TAPS)
    batch = Batch.of(texts)
    assert int(batch.judged.sum()) == sum(len(text.ids) - text.answer - 1 for text in texts)
    alone = [loss_of(draft, target, Batch.of([text]), recipe) for text in texts]
    weights = torch.tensor([float(Batch.of([text]).judged.sum()) for text in texts])
    mean = (torch.stack([loss for loss, _ in alone]) * weights).sum() / weights.sum()
    assert_close(loss_of(draft, target, batch, recipe)[0], mean, atol=2e-3, rtol=2e-3)


def test_frequent_tokens_come_from_answers_and_the_draft_begins_as_the_targets_last_layer():
    target, _ = eagle_pair("llama")
    texts = [Conversation(torch.tensor([9, 9, 9, 9, 5, 5, 7], dtype=torch.int32), 4, torch.empty(0))] * 2
    assert frequent_tokens(texts, 2, VOCABULARY).tolist() == [5, 7]
    draft = new_draft(target, TAPS, torch.tensor([5, 7], dtype=torch.int32))
    assert draft.ids.tolist() == [5, 7] and draft.taps == TAPS
    for mine, theirs in zip(
        draft.body.layers[0].parameters(), layers_of(target)[2][-1].parameters(), strict=True
    ):
        assert torch.equal(mine, theirs)


def test_a_step_sees_the_same_conversations_every_time():
    target, _ = eagle_pair("llama")
    texts = texts_of(target, 12)
    first = rows_of_step(texts, 20, 3, 5)
    assert (
        [id(t) for t in first]
        == [id(t) for t in rows_of_step(texts, 20, 3, 5)]
        != [id(t) for t in rows_of_step(texts, 20, 3, 6)]
    )
    assert 20 <= sum(len(t.hidden) for t in first) < 20 + 15
    assert (
        len(rows_of_step(texts, 10**6, 3, 5)) == len({id(t) for t in rows_of_step(texts, 10**6, 3, 5)}) == 12
    )


def test_it_learns_and_what_it_says_of_itself_is_what_decoding_accepts(tmp_path):
    target, _ = eagle_pair("llama")
    texts = texts_of(target, 60)
    recipe = EagleRecipe(
        taps=TAPS,
        vocabulary=50,
        schedule=Schedule(steps=160, peak_lr=5e-3, warmup=5, weight_decay=0.0, tokens_per_step=200, tail=0),
        evaluate_every=40,
    )
    log = []
    draft, curve = train(recipe, target, texts, texts, log=lambda line, **_: log.append(line))
    first, last = (entry["held_out"][0]["top1"] for entry in (curve[0], curve[-1]))
    assert last > first + 0.1 and last > 0.4, curve
    # the same figure, counted by decoding: the first guess at every judged place
    hits = []
    draft.save(tmp_path)
    shipped = load_eagle(tmp_path, dtype=torch.float32)
    for text in texts[:20]:
        for place in range(text.answer, len(text.hidden)):
            model = EagleModel(shipped, target)
            model.tell(text.hidden[:place])
            row = Session(model).feed(text.ids[: place + 1].tolist(), 1)[0]
            hits.append(int(row.argmax()) == int(text.ids[place + 1]))
    said = agreement(shipped, target, texts[:20], 3)
    assert said[0]["top1"] == pytest.approx(sum(hits) / len(hits), abs=0.03)
    assert all(guess["top1"] <= guess["top2"] <= guess["top4"] for guess in said)


def test_the_command_makes_a_folder_with_its_card(tmp_path, monkeypatch, chat_pair):
    recipe = EagleRecipe(
        taps=TAPS,
        vocabulary=30,
        batches=2,
        held_out_batches=1,
        schedule=Schedule(steps=2, peak_lr=1e-3, warmup=1, weight_decay=0.0, tokens_per_step=50, tail=0),
        evaluate_every=1,
    )
    monkeypatch.setattr(chat_text, "LONGEST_ANSWER", 8)
    monkeypatch.setattr(chat_text, "questions", lambda pair, count, seed: [f"What is {seed}?", "Why?"])
    monkeypatch.setattr(eagle, "EagleRecipe", lambda: recipe)
    monkeypatch.setattr(eagle, "load_pair", lambda name: chat_pair)
    eagle.main(["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")])
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert {"origin", "licence", "seed", "recipe", "figures", "sha256", "target_sha256"} <= set(card)
    assert card["figures"]["held_out_agreement"] == agreement(
        load_eagle(tmp_path / "out", dtype=torch.float32),
        chat_pair.target,
        eagle.held_out_texts(chat_pair, recipe, tmp_path / "work"),
        4,
    )
