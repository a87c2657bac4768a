"""`python -m specdec_lab.training.streams --corpus FILE --out FOLDER`: trains streams on the bundled target.

The target is frozen; the streams and the early exit learn on text that it wrote itself, the text of
`training/medusa.py`. Stages: text, streams, card. The text is kept, and an interrupted training goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from specdec_lab.models.pairs import load_pair
from specdec_lab.models.stream_rider import StreamRider
from specdec_lab.models.streams import Streams, load_streams
from specdec_lab.models.transformers_adapter import TransformersAdapter

from .ahead import fit_best, hit_rates, rows_of_step, targets, weighted_loss, write_card, written_text
from .medusa import MedusaRecipe
from .recipe import CORPUS_URL, Schedule
from .selftext import SelfText

STREAMS_SCHEDULE = Schedule(
    steps=1500, peak_lr=2e-3, warmup=50, weight_decay=0.02, tokens_per_step=2560, tail=300
)


@dataclass(frozen=True)
class StreamsRecipe:
    """Everything that decides the streams; the text is that of `MedusaRecipe`."""

    seed: int = 20261130
    streams: int = 4
    layers: int = 4
    rank: int = 32
    decay: float = 0.8  # stream k counts decay^(k - 1) in the loss
    exit_weight: float = 0.5  # of the early exit's loss
    schedule: Schedule = STREAMS_SCHEDULE
    evaluate_every: int = 250
    patience: int = 3  # evaluations without a better held-out accuracy before it stops


def pass_with_streams(
    adapter: TransformersAdapter, streams: Streams, ids: torch.Tensor, rows: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the streams at the last `rows` positions, (streams, batch, rows, vocab), and of the early exit,
    (batch, rows, vocab)."""
    rider = StreamRider(streams)
    output = adapter.forward(ids, logits_to_keep=rows, rider=rider)
    guesses = streams.guesses(adapter.model, output.carried).movedim(2, 0)
    return guesses, streams.early(adapter.model, rider.below)


def accuracy(target, streams: Streams, text: SelfText, batch: int = 50) -> tuple[list[dict], float]:
    """For each stream how often the right token is among its likeliest 1, 2, 4, 8; for the early exit how often its
    likeliest is."""
    adapter, (positions, ahead) = TransformersAdapter(target), targets(text, len(streams))
    rows = text.ids.shape[1] - int(positions[0])
    best, right = [], []
    with torch.inference_mode():
        for ids in text.ids.long().split(batch):
            guesses, exits = pass_with_streams(adapter, streams, ids, rows)
            best.append(guesses[:, :, : len(positions)].topk(8, dim=-1).indices)
            right.append(exits[:, :-1].argmax(-1) == ids[:, -rows + 1 :])
    return hit_rates(torch.cat(best, dim=1), ahead), round(torch.cat(right).float().mean().item(), 4)


def train(
    recipe: StreamsRecipe,
    target,
    text: SelfText,
    held_out: SelfText,
    checkpoint: Path | None = None,
    log=print,
) -> tuple[Streams, list[dict]]:
    """Streams, and the curve: one entry for each evaluation. The target's weights are left as they are."""
    torch.manual_seed(recipe.seed)
    streams = Streams.beside(target, streams=recipe.streams, layers=recipe.layers, rank=recipe.rank)
    with torch.no_grad():  # streams that began alike would stay alike
        streams.embedding.normal_(std=0.02)
    adapter, (positions, ahead) = TransformersAdapter(target), targets(text, recipe.streams)
    frozen = [weight for weight in target.parameters() if weight.requires_grad]
    rows = text.ids.shape[1] - int(positions[0])

    def loss_of_step(step: int) -> tuple[torch.Tensor, list]:
        chosen = rows_of_step(text, len(positions), recipe.schedule, recipe.seed, step)
        ids = text.ids[chosen].long()
        guesses, exits = pass_with_streams(adapter, streams, ids, rows)
        loss, parts = weighted_loss(guesses[:, :, : len(positions)], ahead[chosen], recipe.decay)
        leaving = F.cross_entropy(exits[:, :-1].flatten(0, 1).float(), ids[:, -rows + 1 :].flatten())
        return loss + recipe.exit_weight * leaving, [*parts, round(leaving.item(), 4)]

    for weight in frozen:
        weight.requires_grad_(False)
    try:
        curve = fit_best(
            streams,
            recipe.schedule,
            loss_of_step,
            lambda: accuracy(target, streams, held_out)[0],
            every=recipe.evaluate_every,
            patience=recipe.patience,
            checkpoint=checkpoint,
            recipe=asdict(recipe),
            log=log,
        )
    finally:
        for weight in frozen:
            weight.requires_grad_(True)
    return streams, curve


def main(arguments: list[str] | None = None) -> None:
    """Run every stage that is not done yet."""
    parser = argparse.ArgumentParser(prog="python -m specdec_lab.training.streams", description=__doc__)
    parser.add_argument("--corpus", required=True, type=Path, help=f"Tiny Shakespeare, from {CORPUS_URL}")
    parser.add_argument(
        "--work", type=Path, default=Path("checkpoints"), help="where the text and the checkpoint go"
    )
    parser.add_argument("--out", required=True, type=Path, help="folder for the streams and their card")
    parser.add_argument("--layers", type=int, default=StreamsRecipe.layers, help="N_s, for the ablation")
    parser.add_argument(
        "--steps", type=int, default=STREAMS_SCHEDULE.steps, help="of the schedule, for the ablation"
    )
    options = parser.parse_args(arguments)
    schedule = Schedule(**asdict(STREAMS_SCHEDULE) | {"steps": options.steps})
    recipe, pair, heads = (
        StreamsRecipe(layers=options.layers, schedule=schedule),
        load_pair("tiny"),
        MedusaRecipe(),
    )
    text, held_out = written_text(
        pair, options.corpus, options.work, heads.seed, heads.windows, heads.held_out_windows
    )
    checkpoint = options.work / f"streams-{options.layers}-layers-{options.steps}.pt"
    streams, curve = train(recipe, pair.target, text, held_out, checkpoint)
    streams.save(options.out)
    found, early = accuracy(pair.target, load_streams(options.out), held_out)
    figures = {
        "held_out_accuracy": found,
        "held_out_early_exit_top1": early,
        "parameters": sum(weight.numel() for weight in streams.parameters()),
        "curve": curve,
    }
    write_card(
        options.out,
        "tiny-streams",
        "streams of Speculative Streaming on the bundled target, trained by `python -m specdec_lab.training.streams` "
        "on text that the target wrote itself, begun with windows of Tiny Shakespeare (public domain)",
        asdict(recipe),
        figures,
        pair.card["sha256"]["target/model.safetensors"],
    )
    print(json.dumps(figures["held_out_accuracy"], indent=1))


if __name__ == "__main__":
    main()
