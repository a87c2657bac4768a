"""`python -m specdec_lab.training.medusa --corpus FILE`: trains Medusa heads on the bundled target, resumable.

The target is frozen and has read its own text once; the heads learn from its hidden states, which takes minutes.
Stages: the target's text and its hidden states, heads, card.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from specdec_lab.models.medusa import MedusaHeads
from specdec_lab.models.pairs import load_pair
from specdec_lab.models.transformers_adapter import TransformersAdapter

from .corpus import encode_groups, read_corpus, split_corpus
from .fit import learning_rate
from .recipe import CORPUS_SHA256, CORPUS_URL, Recipe, Schedule
from .selftext import SelfText, write_self_text

RANKS = (1, 2, 4, 8)


HEADS_SCHEDULE = Schedule(
    steps=7500, peak_lr=2e-3, warmup=100, weight_decay=0.02, tokens_per_step=4096, tail=500
)


@dataclass(frozen=True)
class MedusaRecipe:
    """Everything that decides the heads."""

    seed: int = 20261130
    heads: int = 4
    layers: int = 3
    windows: int = 12_000
    held_out_windows: int = 500
    decay: float = 0.8  # head k counts decay^(k - 1) in the loss
    schedule: Schedule = HEADS_SCHEDULE
    evaluate_every: int = 500
    patience: int = 3  # evaluations without a better held-out accuracy before it stops


def hidden_states(target, text: SelfText, batch: int = 100) -> torch.Tensor:
    """What the target's head is given at every position of every stretch: (windows, tokens, hidden), bfloat16."""
    adapter, parts = TransformersAdapter(target), []
    with torch.inference_mode():
        for rows in text.ids.long().split(batch):
            parts.append(adapter.forward(rows, use_cache=False, keep_hidden=True).hidden.to(torch.bfloat16))
    return torch.cat(parts)


def targets(text: SelfText, heads: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions from which all heads have something to guess, and what: (positions), (windows, positions, heads).

    From position t the target's own head chooses token t + 1, head k token t + 1 + k. Only greedy text counts: a
    stretch begins with a corpus window and, in some, a few sampled tokens.
    """
    length = text.ids.shape[1]
    positions = torch.arange(text.first - 1, length - 1 - heads)
    ahead = torch.stack([text.ids[:, positions + 1 + k] for k in range(1, heads + 1)], dim=-1)
    return positions, ahead.long()


def accuracy(
    heads: MedusaHeads, hidden: torch.Tensor, positions: torch.Tensor, ahead: torch.Tensor
) -> list[dict]:
    """For each head how often the right token is among its likeliest 1, 2, 4, 8."""
    with torch.inference_mode():
        best = (
            heads(hidden[:, positions].float()).topk(max(RANKS), dim=-1).indices
        )  # (heads, windows, positions, 8)
    hit = best == ahead.permute(2, 0, 1).unsqueeze(-1)
    return [
        {f"top{r}": round(found[..., :r].any(-1).float().mean().item(), 4) for r in RANKS} for found in hit
    ]


def train(
    recipe: MedusaRecipe, target, text: SelfText, held_out: SelfText, log=print
) -> tuple[MedusaHeads, list[dict]]:
    """Heads, and the curve: one entry for each evaluation."""
    torch.manual_seed(recipe.seed)
    config = target.config
    heads = MedusaHeads(config.hidden_size, config.vocab_size, recipe.heads, recipe.layers)
    with torch.no_grad():  # begin as the target's own head, one place too early
        for head in heads.heads:
            for block in head.blocks:
                block.weight.zero_()
                block.bias.zero_()
            head.projection.weight.copy_(target.get_output_embeddings().weight)
    hidden, (positions, ahead) = hidden_states(target, text), targets(text, recipe.heads)
    check, (check_positions, check_ahead) = hidden_states(target, held_out), targets(held_out, recipe.heads)
    schedule = recipe.schedule
    optimiser = torch.optim.AdamW(
        heads.parameters(), lr=schedule.peak_lr, betas=(0.9, 0.95), weight_decay=schedule.weight_decay
    )
    weights = torch.tensor([recipe.decay**k for k in range(recipe.heads)])
    rows_per_step = max(1, schedule.tokens_per_step // len(positions))
    curve: list[dict] = []
    best, best_state, since = -1.0, copy.deepcopy(heads.state_dict()), 0
    for step in range(schedule.total):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, schedule)
        generator = torch.Generator().manual_seed(recipe.seed * 1000 + step)
        rows = torch.randint(0, len(text), (rows_per_step,), generator=generator)
        guesses = heads(hidden[rows][:, positions].float())  # (heads, rows, positions, vocab)
        wanted = ahead[rows].permute(2, 0, 1)
        losses = torch.stack(
            [F.cross_entropy(g.flatten(0, 1), w.flatten()) for g, w in zip(guesses, wanted, strict=True)]
        )
        (weights * losses).sum().backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if (step + 1) % recipe.evaluate_every == 0 or step + 1 == schedule.total:
            found = accuracy(heads, check, check_positions, check_ahead)
            curve.append(
                {"step": step + 1, "loss": [round(x, 4) for x in losses.tolist()], "held_out": found}
            )
            score = sum(head["top1"] for head in found)
            log(f"step {step + 1}/{schedule.total} {curve[-1]}", flush=True)
            if score > best:
                best, best_state, since = score, copy.deepcopy(heads.state_dict()), 0
            else:
                since += 1
                if since == recipe.patience:
                    break
    heads.load_state_dict(best_state)
    return heads.eval(), curve


def main(arguments: list[str] | None = None) -> None:
    """Run every stage that is not done yet."""
    parser = argparse.ArgumentParser(prog="python -m specdec_lab.training.medusa", description=__doc__)
    parser.add_argument("--corpus", required=True, type=Path, help=f"Tiny Shakespeare, from {CORPUS_URL}")
    parser.add_argument("--work", type=Path, default=Path("checkpoints"), help="where the text goes")
    parser.add_argument("--out", required=True, type=Path, help="folder for the heads and their card")
    options = parser.parse_args(arguments)
    recipe, pair = MedusaRecipe(), load_pair("tiny")
    groups = split_corpus(read_corpus(options.corpus), Recipe())
    training, held_out = (encode_groups(pair.tokenizer, part) for part in groups)
    folder, base = options.work, Recipe()
    text = write_self_text(
        pair.target, training, base, folder / "text-medusa", recipe.seed * 7, recipe.windows
    )
    check = write_self_text(
        pair.target,
        held_out,
        base,
        folder / "text-medusa-held-out",
        recipe.seed * 11,
        recipe.held_out_windows,
    )
    heads, curve = train(recipe, pair.target, text, check)
    heads.save(options.out)
    rounded = MedusaHeads(heads.hidden_size, heads.vocab_size, len(heads), heads.layers)
    rounded.load_state_dict({name: w.to(torch.bfloat16).float() for name, w in heads.state_dict().items()})
    figures = {
        "held_out_accuracy": accuracy(
            rounded, hidden_states(pair.target, check), *targets(check, len(heads))
        ),
        "parameters": sum(weight.numel() for weight in heads.parameters()),
        "curve": curve,
    }
    card = {
        "name": "tiny-medusa",
        "origin": "Medusa-1 heads on the bundled target, trained by `python -m specdec_lab.training.medusa` on text "
        "that the target wrote itself, begun with windows of Tiny Shakespeare (public domain)",
        "corpus_url": CORPUS_URL,
        "corpus_sha256": CORPUS_SHA256,
        "licence": "MIT, as the code",
        "seed": recipe.seed,
        "recipe": asdict(recipe),
        "figures": figures,
        "sha256": {
            name: hashlib.sha256((options.out / name).read_bytes()).hexdigest()
            for name in ("config.json", "model.safetensors")
        },
        "target_sha256": pair.card["sha256"]["target/model.safetensors"],
    }
    (options.out / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(figures["held_out_accuracy"], indent=1))


if __name__ == "__main__":
    main()
