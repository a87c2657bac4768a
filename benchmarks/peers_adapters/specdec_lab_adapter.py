"""This package, for `benchmarks/peers.py`: mode "draft" (speculative_decode) or "lookup" (n-grams of up to 3)."""

from __future__ import annotations

from pathlib import Path

from answering import Call, Ready, answer, load

from specdec_lab import speculative_decode, speculative_rounds
from specdec_lab.decoding.lookup import PromptLookupDrafter


def prepare(target_folder: Path, draft_folder: Path, mode: str) -> Ready:
    target = load(target_folder)
    if mode == "lookup":

        def ready(prompt: list[int], new_tokens: int, gamma: int) -> Call:
            def call() -> list[int]:
                rounds = speculative_rounds(
                    target,
                    PromptLookupDrafter(),
                    prompt,
                    max_new_tokens=new_tokens,
                    gamma=gamma,
                    eos_token_id=None,
                )
                return [token for item in rounds for token in item.emitted]

            return call

        return ready
    draft = load(draft_folder)

    def ready(prompt: list[int], new_tokens: int, gamma: int) -> Call:
        return lambda: speculative_decode(target, draft, prompt, new_tokens, gamma, None)[0][len(prompt) :]

    return ready


if __name__ == "__main__":
    answer(prepare)
