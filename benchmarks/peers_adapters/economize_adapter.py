"""economize, for `benchmarks/peers.py`: its `.decode`, lossless; mode "draft" (a draft model) or "lookup".

A cycle of N tokens drafts up to N - 1, so γ is N - 1.
"""

from __future__ import annotations

from pathlib import Path

import economize
import torch
from answering import Call, Ready, answer, load
from economize.techniques.draft_model import DraftModelConfig
from economize.techniques.lookup import LookupConfig


def prepare(target_folder: Path, draft_folder: Path, mode: str) -> Ready:
    drafting = LookupConfig() if mode == "lookup" else DraftModelConfig(model=str(draft_folder))
    model = economize.apply(load(target_folder), drafting)

    def ready(prompt: list[int], new_tokens: int, gamma: int) -> Call:
        decoding = economize.DecodeConfig(cycle_length=gamma + 1, lossless=True)
        return lambda: model.decode(torch.tensor(prompt), new_tokens, decoding=decoding).tokens.tolist()

    return ready


if __name__ == "__main__":
    answer(prepare)
