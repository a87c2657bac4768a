"""Conversations that a chat model has with itself: it makes up what a user asks, then answers greedily.

A draft is only ever asked to continue the target's own greedy text, so that is what it learns from. Nobody's questions
are needed: given the beginning of a conversation, a chat model goes on with what a user would say (the idea of Xu et
al. 2024, Magpie, arXiv 2406.08464).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specdec_lab.models.taps import tapped

BATCH = 128
LONGEST_QUESTION, LONGEST_ANSWER = 48, 224  # tokens
_MARK = "\x00"


@dataclass(frozen=True)
class Conversation:
    """One question and its answer with all of the template.

    Attributes:
        ids: (tokens).
        answer: where the answer begins.
        hidden: what the target computed over all but the last token, (tokens - 1, taps, hidden), bfloat16.
    """

    ids: torch.Tensor
    answer: int
    hidden: torch.Tensor


def before_question(tokenizer: Any) -> list[int]:
    """What the chat template puts in front of a user's words."""
    text = tokenizer.apply_chat_template([{"role": "user", "content": _MARK}], tokenize=False)
    return tokenizer.encode(text.split(_MARK)[0], add_special_tokens=False)


@torch.inference_mode()
def questions(pair: Any, count: int, seed: int) -> list[str]:
    """What users might say: `count` draws at temperature 1 and top-p 0.95; those that come to no end are left out."""
    begin = before_question(pair.tokenizer)
    rows = torch.tensor([begin] * count)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        drawn = pair.target.generate(
            rows,
            attention_mask=torch.ones_like(rows),
            do_sample=True,
            temperature=1.0,
            top_p=0.95,
            max_new_tokens=LONGEST_QUESTION,
            eos_token_id=pair.eos_token_id,
            pad_token_id=pair.eos_token_id,
            cache_implementation="static",
        )
    texts = [
        row[: row.index(pair.eos_token_id)]
        for row in drawn[:, len(begin) :].tolist()
        if pair.eos_token_id in row
    ]
    return [text for text in map(pair.decode, texts) if text.strip()]


@torch.inference_mode()
def answers(pair: Any, asked: list[str], taps: Sequence[int]) -> list[Conversation]:
    """The target's greedy answers, up to their end token or `LONGEST_ANSWER` tokens; its hidden states at `taps`."""
    if not asked:
        return []
    prompts = [pair.chat(question) for question in asked]
    longest = max(map(len, prompts))
    rows = torch.tensor([[pair.eos_token_id] * (longest - len(ids)) + ids for ids in prompts])
    seen = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
    with tapped(pair.target, taps) as passes:
        written = pair.target.generate(
            rows,
            attention_mask=seen,
            do_sample=False,
            max_new_tokens=LONGEST_ANSWER,
            eos_token_id=pair.eos_token_id,
            pad_token_id=pair.eos_token_id,
            cache_implementation="static",
        )
    hidden, found = torch.cat(passes, dim=1).to(torch.bfloat16), []
    for row, (ids, answer) in enumerate(zip(prompts, written[:, longest:].tolist(), strict=True)):
        end = answer.index(pair.eos_token_id) + 1 if pair.eos_token_id in answer else len(answer)
        text = torch.tensor(ids + answer[:end], dtype=torch.int32)
        first = longest - len(ids)
        found.append(Conversation(text, len(ids), hidden[row, first : first + len(text) - 1].clone()))
    return found


def write_conversations(
    pair: Any,
    folder: Path,
    taps: Sequence[int],
    batches: int,
    seed: int,
    workers: tuple[int, int] = (0, 1),
    log: Any = print,
) -> list[Conversation]:
    """`batches` batches of about 100 conversations; finished ones are kept in `folder`, so it resumes.

    `workers` = (i, n) makes only every n-th batch, from the i-th on: several processes can share the work.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Conversation] = []
    for index in range(workers[0], batches, workers[1]):
        file = folder / f"part{index:03d}.pt"
        if not file.exists():
            made = answers(pair, questions(pair, BATCH, seed + index), taps)
            torch.save([(each.ids, each.answer, each.hidden) for each in made], file)
            log(f"conversations: batch {index + 1} of {batches}", flush=True)
        found += [Conversation(*each) for each in torch.load(file, weights_only=True, mmap=True)]
    return found
