"""Puts finished weights into `specdec_lab/assets/tiny`, with a card that says where they come from."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path

import torch

from specdec_lab.decoding.greedy import autoregressive_decode

from . import gates
from .fit import rounded
from .recipe import CORPUS_SHA256, CORPUS_URL, Recipe

LESSON_PROMPTS = 16


def ship(
    folder: Path,
    recipe: Recipe,
    tokenizer,
    models: dict[str, torch.nn.Module],
    groups: list[str],
    corpus: torch.Tensor,
    losses: dict[str, float],
) -> dict:
    """Write weights (bfloat16), tokenizer, prompts and card; returns the card.

    `groups` and `corpus` are the held-out text and its ids. Figures are those of the shipped bfloat16
    weights, loaded in float32.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        model.generation_config = type(model.generation_config)(
            bos_token_id=0, eos_token_id=0, do_sample=False
        )
        copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder / name)
        rounded(model)
    tokenizer.save_pretrained(folder)

    target = models["target"]
    prompts = gates.held_out_prompts(tokenizer, groups, target, LESSON_PROMPTS)
    (folder / "prompts.json").write_text(
        json.dumps({"source": "openings of held-out speeches", "prompts": prompts}, indent=1) + "\n",
        encoding="utf-8",
    )
    prompt_ids = [tokenizer.encode(prompt, add_special_tokens=False) for prompt in prompts]
    passages = gates.passages(corpus, 40)
    texts = [autoregressive_decode(target, ids, 96, None)[len(ids) :] for ids in passages]
    figures = {
        "held_out_loss_per_token": losses,
        "greedy_text": {
            "passages": len(passages),
            "new_tokens": 96,
            "eight_grams_repeated_within_an_output": gates.repeated_within(texts),
            "eight_grams_shared_between_outputs": gates.shared_between(texts),
        },
        "acceptance_gamma_4": {
            f"{name}, {where}": gates.acceptance(target, models[name], ids, gamma=4, new_tokens=96)
            for name in ("draft", "weak")
            for where, ids in (("held-out passages", passages), ("lesson prompts", prompt_ids))
        },
        "parameters": {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()},
    }
    card = {
        "name": "tiny",
        "origin": "trained by `python -m specdec_lab.training` from Tiny Shakespeare (public domain), char-rnn repository",
        "corpus_url": CORPUS_URL,
        "corpus_sha256": CORPUS_SHA256,
        "licence": "MIT, as the code",
        "seed": recipe.seed,
        "recipe": recipe.as_dict(),
        "figures": figures,
        "sha256": {
            str(file.relative_to(folder).as_posix()): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.rglob("*"))
            if file.is_file() and file.name not in ("card.json", "CARD.md")
        },
    }
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    (folder / "CARD.md").write_text(_card_text(card), encoding="utf-8")
    return card


def _card_text(card: dict) -> str:
    figures = card["figures"]
    text, sizes = figures["greedy_text"], figures["parameters"]
    rows = "\n".join(
        f"| {name} | {f['alpha']:.3f} | {f['acceptance_rate']:.3f} | {f['tokens_per_round']:.2f} |"
        for name, f in figures["acceptance_gamma_4"].items()
    )
    losses = ", ".join(f"{name} {loss:.3f}" for name, loss in figures["held_out_loss_per_token"].items())
    return f"""# The pair "tiny" (and "tiny-weak")

Written by the training command; do not edit. Everything here is in `card.json` too.

- **What**: a Llama-type target ({sizes["target"]:,} parameters), a one-layer draft distilled from the target's
  own text ({sizes["draft"]:,}), and an undistilled draft that is meant to disappoint ({sizes["weak"]:,}). They
  write pseudo-Shakespeare; they know nothing and answer nothing.
- **Made by**: `python -m specdec_lab.training --corpus tinyshakespeare.txt`, seed {card["seed"]}. Training uses
  bfloat16 autocast, so another processor gives other weights of the same kind.
- **Corpus**: Tiny Shakespeare, public domain, {card["corpus_url"]}
  (sha256 `{card["corpus_sha256"]}`); every twentieth group of 40 speeches is held out.
- **Licence**: {card["licence"]}.
- **Held-out loss** (nats per token): {losses}.
- **Greedy text** ({text["passages"]} held-out passages, {text["new_tokens"]} new tokens each):
  {100 * text["eight_grams_repeated_within_an_output"]:.1f} % of 8-grams of tokens occur twice in an output,
  {100 * text["eight_grams_shared_between_outputs"]:.1f} % in another output too.

Acceptance at γ = 4, 96 new tokens, greedy:

| draft, prompts | α | acceptance rate | tokens per round |
|---|---|---|---|
{rows}
"""
