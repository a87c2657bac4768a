"""What the weights have to pass before they are shipped: readable text first, then acceptance."""

from __future__ import annotations

from collections import Counter

import torch

from specdec_lab.decoding.entry import speculative_rounds
from specdec_lab.decoding.rounds import Trace
from specdec_lab.decoding.session import Session

GRAM = 8  # tokens


def repeated_within(outputs: list[list[int]]) -> float:
    """Share of 8-grams that occurred before in the same output."""
    repeated = total = 0
    for output in outputs:
        grams = _grams(output)
        repeated += len(grams) - len(set(grams))
        total += len(grams)
    return repeated / total


def shared_between(outputs: list[list[int]]) -> float:
    """Share of 8-grams that occur in another output too."""
    owners = Counter(gram for output in outputs for gram in set(_grams(output)))
    grams = [gram for output in outputs for gram in _grams(output)]
    return sum(owners[gram] > 1 for gram in grams) / len(grams)


def _grams(tokens: list[int]) -> list[tuple[int, ...]]:
    return [tuple(tokens[i : i + GRAM]) for i in range(len(tokens) - GRAM + 1)]


def smallest_gap(target, prompt: list[int], new_tokens: int) -> float:
    """Smallest difference of the two largest logits while decoding `new_tokens` greedily."""
    session, sequence, smallest = Session(target), list(prompt), float("inf")
    for _ in range(new_tokens):
        best = session.feed(sequence[session.length :], rows=1)[0].topk(2)
        smallest = min(smallest, (best.values[0] - best.values[1]).item())
        sequence.append(int(best.indices[0]))
    return smallest


def held_out_prompts(tokenizer, groups: list[str], target, wanted: int, new_tokens: int = 128) -> list[str]:
    """Openings of held-out speeches, 24 to 64 tokens, spread over the groups, without near ties to come.

    The first speech of a group that qualifies is taken; a prompt whose greedy continuation meets two logits
    within 2e-3 is passed over, so that every machine writes the same lesson.
    """
    prompts: list[str] = []
    offset = 3
    while len(prompts) < wanted and offset < 30:
        for group in groups:
            speech = group.strip().split("\n\n")[offset]
            lines = speech.split("\n")
            text = "\n".join(lines[:3]) + "\n" if len(lines) > 3 else ""
            ids = tokenizer.encode(text, add_special_tokens=False) if text else []
            if 24 <= len(ids) <= 64 and smallest_gap(target, ids, new_tokens) > 2e-3:
                prompts.append(text)
            if len(prompts) == wanted:
                break
        offset += 4
    return prompts


def acceptance(target, draft, prompts: list[list[int]], gamma: int, new_tokens: int) -> dict[str, float]:
    """α, pooled acceptance rate and tokens per round over all prompts."""
    traces = [
        Trace.of(
            ids,
            speculative_rounds(target, draft, ids, max_new_tokens=new_tokens, gamma=gamma, eos_token_id=None),
        )
        for ids in prompts
    ]
    drafted, accepted = sum(t.drafted for t in traces), sum(t.accepted for t in traces)
    return {
        "alpha": accepted / (accepted + sum(t.rejected for t in traces)),
        "acceptance_rate": accepted / drafted,
        "tokens_per_round": sum(len(t.new_tokens) for t in traces) / sum(len(t.rounds) for t in traces),
    }


def passages(corpus: torch.Tensor, count: int, length: int = 32) -> list[list[int]]:
    """`count` evenly spaced passages of held-out ids."""
    step = (len(corpus) - length) // count
    return [corpus[i * step : i * step + length].tolist() for i in range(count)]
