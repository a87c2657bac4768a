"""sequential-speculative-decoding, for `benchmarks/peers.py`: its `speculative_generate` at temperature 0.

The mode is its `method`. It takes text, wraps it in a chat template and returns text, so it is given a tokenizer
whose text is the ids themselves, written in decimal, and whose template adds nothing. It keeps no KV cache.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import torch
from answering import Call, Ready, answer, load
from seqspecdecod import speculative_generate


class IdsAsText:
    """The part of a tokenizer that the peer uses; it has no end token and no thinking."""

    eos_token_id = None
    unk_token_id = None

    def apply_chat_template(self, messages: list[dict], **_: object) -> str:
        return messages[0]["content"]

    def __call__(self, texts: list[str], **_: object) -> SimpleNamespace:
        return SimpleNamespace(input_ids=torch.tensor([[int(word) for word in texts[0].split()]]))

    def convert_tokens_to_ids(self, token: str) -> None:
        return None

    def decode(self, ids: list[int], **_: object) -> str:
        return " ".join(map(str, ids))


def prepare(target_folder: Path, draft_folder: Path, mode: str) -> Ready:
    target, draft = load(target_folder), load(draft_folder)

    def ready(prompt: list[int], new_tokens: int, gamma: int) -> Call:
        text = " ".join(map(str, prompt))

        def call() -> list[int]:
            result = speculative_generate(
                draft,
                target,
                IdsAsText(),
                text,
                max_new_tokens=new_tokens,
                gamma=gamma,
                draft_temperature=0.0,
                target_temperature=0.0,
                method=mode,
            )
            return [int(word) for word in result["text"].split()]

        return call

    return ready


if __name__ == "__main__":
    answer(prepare)
