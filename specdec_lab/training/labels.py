"""Speakers' names become tokens of their own: "GLOUCESTER:" and its line break are one token instead of seven.

Names are a fifth of the corpus in small tokens. They are what a loopy text and a good one share, and guessing the
tail of a name that has begun is no feat of a draft. The trained target is kept; its new embedding rows begin as
the mean of the pieces that they replace.
"""

from __future__ import annotations

import copy
import re
from collections import Counter

import torch
from transformers import AddedToken, LlamaForCausalLM, PreTrainedTokenizerFast

_LABEL = re.compile(r"(?:\A|\n\n)([^\n]+:\n)")


def frequent_labels(groups: list[str], count: int) -> list[str]:
    """The `count` most frequent first lines of speeches, "NAME:" with the line break; ties by alphabet."""
    seen = Counter(label for group in groups for label in _LABEL.findall(group))
    return sorted(seen, key=lambda label: (-seen[label], label))[:count]


def with_labels(tokenizer: PreTrainedTokenizerFast, labels: list[str]) -> PreTrainedTokenizerFast:
    """A copy of the tokenizer with one more token for each label."""
    wider = copy.deepcopy(tokenizer)
    wider.add_tokens([AddedToken(label, normalized=False, special=False) for label in labels])
    return wider


@torch.no_grad()
def start_labels(model: LlamaForCausalLM, old: LlamaForCausalLM, tokenizer, labels: list[str]) -> None:
    """Copy the weights of `old`, whose vocabulary is `tokenizer`'s, into the wider `model`, in place."""
    state = old.state_dict()
    rows = state["model.embed_tokens.weight"]
    pieces = [tokenizer.encode(label, add_special_tokens=False) for label in labels]
    new = torch.stack([rows[ids].mean(0) for ids in pieces])
    state["model.embed_tokens.weight"] = state["lm_head.weight"] = torch.cat([rows, new])
    model.load_state_dict(state)
