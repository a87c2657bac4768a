"""`python -m specdec_lab.training.medusa --corpus FILE --out FOLDER`: trains Medusa heads on the bundled target.

The target is frozen and has read its own text once; the heads learn from its hidden states. Stages: the target's text
and its hidden states, heads, card. The text is kept, and an interrupted training goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from specdec_lab.models.medusa import MedusaHeads, load_medusa
from specdec_lab.models.pairs import load_pair
from specdec_lab.models.rider import HeadInput
from specdec_lab.models.transformers_adapter import TransformersAdapter

from .ahead import fit_best, hit_rates, rows_of_step, targets, weighted_loss, write_card, written_text
from .recipe import CORPUS_URL, Schedule
from .selftext import SelfText

HEADS_SCHEDULE = Schedule(
    steps=7500, peak_lr=2e-3, warmup=100, weight_decay=0.02, tokens_per_step=4096, tail=500
)


@dataclass(frozen=True)
class MedusaRecipe:
    """Everything that decides the heads."""

    seed: int = 20261130
    heads: int = 4
    inner: int = 432  # width inside the residual block
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
            output = adapter.forward(rows, use_cache=False, rider=HeadInput())
            parts.append(output.carried.to(torch.bfloat16))
    return torch.cat(parts)


def accuracy(
    heads: MedusaHeads, hidden: torch.Tensor, positions: torch.Tensor, ahead: torch.Tensor
) -> list[dict]:
    """For each head how often the right token is among its likeliest 1, 2, 4, 8."""
    with torch.inference_mode():
        return hit_rates(heads(hidden[:, positions].float()), ahead)


def train(
    recipe: MedusaRecipe,
    target,
    text: SelfText,
    held_out: SelfText,
    checkpoint: Path | None = None,
    log=print,
) -> tuple[MedusaHeads, list[dict]]:
    """Heads, and the curve: one entry for each evaluation."""
    torch.manual_seed(recipe.seed)
    config = target.config
    heads = MedusaHeads(config.hidden_size, config.vocab_size, recipe.heads, recipe.inner)
    with torch.no_grad():  # begin as the target's own head, one place too early
        for head in heads.heads:
            head.projection.weight.copy_(target.get_output_embeddings().weight)
    hidden, (positions, ahead) = hidden_states(target, text), targets(text, recipe.heads)
    check, checked = hidden_states(target, held_out), targets(held_out, recipe.heads)

    def loss_of_step(step: int) -> tuple[torch.Tensor, list]:
        rows = rows_of_step(text, len(positions), recipe.schedule, recipe.seed, step)
        return weighted_loss(heads(hidden[rows][:, positions].float()), ahead[rows], recipe.decay)

    curve = fit_best(
        heads,
        recipe.schedule,
        loss_of_step,
        lambda: accuracy(heads, check, *checked),
        every=recipe.evaluate_every,
        patience=recipe.patience,
        checkpoint=checkpoint,
        recipe=asdict(recipe),
        log=log,
    )
    return heads, curve


def main(arguments: list[str] | None = None) -> None:
    """Run every stage that is not done yet."""
    parser = argparse.ArgumentParser(prog="python -m specdec_lab.training.medusa", description=__doc__)
    parser.add_argument("--corpus", required=True, type=Path, help=f"Tiny Shakespeare, from {CORPUS_URL}")
    parser.add_argument(
        "--work", type=Path, default=Path("checkpoints"), help="where the text and the checkpoint go"
    )
    parser.add_argument("--out", required=True, type=Path, help="folder for the heads and their card")
    options = parser.parse_args(arguments)
    recipe, pair = MedusaRecipe(), load_pair("tiny")
    text, held_out = written_text(
        pair, options.corpus, options.work, recipe.seed, recipe.windows, recipe.held_out_windows
    )
    heads, curve = train(recipe, pair.target, text, held_out, options.work / "medusa.pt")
    heads.save(options.out)
    shipped = load_medusa(options.out)
    figures = {
        "held_out_accuracy": accuracy(
            shipped, hidden_states(pair.target, held_out), *targets(held_out, len(heads))
        ),
        "parameters": sum(weight.numel() for weight in heads.parameters()),
        "curve": curve,
    }
    write_card(
        options.out,
        "tiny-medusa",
        "Medusa-1 heads on the bundled target, trained by `python -m specdec_lab.training.medusa` on text that the "
        "target wrote itself, begun with windows of Tiny Shakespeare (public domain)",
        asdict(recipe),
        figures,
        pair.card["sha256"]["target/model.safetensors"],
    )
    print(json.dumps(figures["held_out_accuracy"], indent=1))


if __name__ == "__main__":
    main()
