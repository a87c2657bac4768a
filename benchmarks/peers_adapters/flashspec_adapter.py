"""flashspec, for `benchmarks/peers.py`: `SpeculativeEngine.generate` as its README shows it.

Mode "draft" is its strategy "bandit" with one arm: the draft model, γ tokens a round. Mode "default" is what it
chooses by itself: prompt lookup of up to 6 tokens, else 2 tokens of the draft; it fixes its lengths and ignores γ.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from answering import Call, Ready, answer, load
from flashspec import BanditConfig, FlashSpecConfig, SamplingConfig, SpeculativeEngine
from flashspec.engine import HuggingFaceDrafter, TargetModel


def prepare(target_folder: Path, draft_folder: Path, mode: str) -> Ready:
    where = (torch.device("cpu"), torch.float32)
    target = TargetModel(str(target_folder), *where, model=load(target_folder))
    drafter = HuggingFaceDrafter(str(draft_folder), *where, model=load(draft_folder))
    strategy = {"drafter_strategy": "bandit", "bandit": BanditConfig(n_arms=1)} if mode == "draft" else {}

    @cache
    def engine(gamma: int) -> SpeculativeEngine:
        sampling = SamplingConfig(temperature=0.0, gamma=gamma)
        config = FlashSpecConfig(device="cpu", dtype="float32", sampling=sampling, **strategy)
        return SpeculativeEngine(config, [drafter], target)

    def ready(prompt: list[int], new_tokens: int, gamma: int) -> Call:
        this = engine(gamma)

        def call() -> list[int]:
            result = this.generate(torch.tensor([prompt]), max_new_tokens=new_tokens)
            return result.output_ids[0, : result.n_tokens_generated].tolist()

        return call

    return ready


if __name__ == "__main__":
    answer(prepare)
