"""transformers, for `benchmarks/peers.py`: mode "generate", "assisted" or "lookup", all through `generate`.

Assisted generation drafts γ tokens every round (constant schedule, confidence threshold 0). Prompt lookup matches
n-grams of up to 3 tokens, as many as the other two lookups in the table, where the default is 2.
"""

from __future__ import annotations

from pathlib import Path

import torch
from answering import Call, Ready, answer, load
from transformers import GenerationConfig


def prepare(target_folder: Path, draft_folder: Path, mode: str) -> Ready:
    target = load(target_folder)
    draft = load(draft_folder) if mode == "assisted" else None

    def ready(prompt: list[int], new_tokens: int, gamma: int) -> Call:
        plain = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
        more = {}
        if mode == "assisted":
            draft.generation_config = GenerationConfig(
                num_assistant_tokens=gamma,
                num_assistant_tokens_schedule="constant",
                assistant_confidence_threshold=0.0,
                **plain,
            )
            more["assistant_model"] = draft
        elif mode == "lookup":
            plain |= {"prompt_lookup_num_tokens": gamma, "max_matching_ngram_size": 3}
        config = GenerationConfig(max_new_tokens=new_tokens, **plain)
        target.generation_config = config  # or `generate` takes the end token from what the model came with

        def call() -> list[int]:
            with torch.inference_mode():
                output = target.generate(torch.tensor([prompt]), generation_config=config, **more)
            return output[0].tolist()[len(prompt) :]

        return call

    return ready


if __name__ == "__main__":
    answer(prepare)
