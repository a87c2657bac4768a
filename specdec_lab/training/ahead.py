"""What the trainings of Medusa heads and of streams share: what is to be guessed, how it is judged, the loop.

The target is frozen and has written its own text; something on top of it learns to guess the tokens further ahead.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from .corpus import encode_groups, read_corpus, split_corpus
from .fit import learning_rate
from .recipe import CORPUS_SHA256, CORPUS_URL, Recipe, Schedule
from .selftext import SelfText, write_self_text

RANKS = (1, 2, 4, 8)


def written_text(
    pair: Any, corpus: Path, folder: Path, seed: int, windows: int, held_out_windows: int
) -> tuple[SelfText, SelfText]:
    """Text that the target of `pair` writes behind windows of the corpus, and held-out text; kept in `folder`."""
    groups = split_corpus(read_corpus(corpus), Recipe())
    training, held_out = (encode_groups(pair.tokenizer, part) for part in groups)
    return (
        write_self_text(pair.target, training, Recipe(), folder / "text-medusa", seed * 7, windows),
        write_self_text(
            pair.target, held_out, Recipe(), folder / "text-medusa-held-out", seed * 11, held_out_windows
        ),
    )


def targets(text: SelfText, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions from which `count` tokens further ahead are known, and what they are: (positions),
    (windows, positions, count).

    From position t the target's own head chooses token t + 1, guess k is of token t + 1 + k. Only greedy text
    counts: a stretch begins with a corpus window and, in some, a few sampled tokens.
    """
    length = text.ids.shape[1]
    positions = torch.arange(text.first - 1, length - 1 - count)
    ahead = torch.stack([text.ids[:, positions + 1 + k] for k in range(1, count + 1)], dim=-1)
    return positions, ahead.long()


def hit_rates(guesses: torch.Tensor, ahead: torch.Tensor) -> list[dict]:
    """For each guess how often the right token is among its likeliest 1, 2, 4, 8.

    Args:
        guesses: logits, (count, windows, positions, vocab), or the likeliest ids, (…, 8).
        ahead: (windows, positions, count).
    """
    best = guesses if guesses.dtype == torch.long else guesses.topk(max(RANKS), dim=-1).indices
    hit = best == ahead.permute(2, 0, 1).unsqueeze(-1)
    return [
        {f"top{r}": round(found[..., :r].any(-1).float().mean().item(), 4) for r in RANKS} for found in hit
    ]


def weighted_loss(guesses: torch.Tensor, ahead: torch.Tensor, decay: float) -> tuple[torch.Tensor, list]:
    """Cross-entropy, guess k weighted by decay^(k - 1), and the parts; shapes as in `hit_rates`."""
    wanted = ahead.permute(2, 0, 1)
    losses = [
        F.cross_entropy(g.flatten(0, 1).float(), w.flatten()) for g, w in zip(guesses, wanted, strict=True)
    ]
    return sum(decay**k * loss for k, loss in enumerate(losses)), [round(x.item(), 4) for x in losses]


def rows_of_step(text: SelfText, positions: int, schedule: Schedule, seed: int, step: int) -> torch.Tensor:
    """Which windows a step sees: always the same for the same seed and step."""
    generator = torch.Generator().manual_seed(seed * 1000 + step)
    return torch.randint(0, len(text), (max(1, schedule.tokens_per_step // positions),), generator=generator)


def fit_best(
    network: torch.nn.Module,
    schedule: Schedule,
    loss_of_step: Callable[[int], tuple[torch.Tensor, list]],
    evaluate: Callable[[], list[dict]],
    *,
    every: int,
    patience: int,
    checkpoint: Path | None = None,
    recipe: dict | None = None,
    log: Callable = print,
) -> list[dict]:
    """Train in place, in bfloat16 autocast, and keep the weights that guess held-out text best.

    Args:
        loss_of_step: step → loss, and its parts for the curve.
        evaluate: held-out hit rates, best where the sum of their top1 is largest.
        every, patience: steps between two looks; looks without a better one before it stops.
        checkpoint: a file that resumes an interrupted training.
        recipe: what the checkpoint belongs to.

    Returns:
        The curve: one entry for each look.

    Raises:
        ValueError: a checkpoint of another recipe.
    """
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=schedule.peak_lr, betas=(0.9, 0.95), weight_decay=schedule.weight_decay
    )
    state: dict[str, Any] = {
        "recipe": recipe,
        "step": 0,
        "curve": [],
        "best": -1.0,
        "since": 0,
        "weights": None,
    }
    if checkpoint is not None and checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        if state["recipe"] != recipe:
            raise ValueError(
                f"checkpoint {checkpoint} belongs to another recipe, {state['recipe']}: name another folder"
            )
        network.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
    for step in range(state["step"], schedule.total):
        if state["since"] == patience:
            break
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, schedule)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, parts = loss_of_step(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if (step + 1) % every and step + 1 != schedule.total:
            continue
        found = evaluate()
        state["curve"].append({"step": step + 1, "loss": parts, "held_out": found})
        score = sum(guess["top1"] for guess in found)
        log(f"step {step + 1}/{schedule.total} {state['curve'][-1]}", flush=True)
        if score > state["best"]:
            state |= {"best": score, "since": 0, "weights": copy.deepcopy(network.state_dict())}
        else:
            state["since"] += 1
        state["step"] = step + 1
        if checkpoint is not None:
            torch.save(
                state | {"network": network.state_dict(), "optimiser": optimiser.state_dict()}, checkpoint
            )
    if state["weights"] is not None:
        network.load_state_dict(state["weights"])
    network.eval()
    return state["curve"]


CORPUS = {"corpus_url": CORPUS_URL, "corpus_sha256": CORPUS_SHA256, "licence": "MIT, as the code"}


def write_card(
    folder: Path,
    name: str,
    origin: str,
    recipe: dict,
    figures: dict,
    target_sha256: str,
    source: dict[str, str] = CORPUS,
) -> None:
    """The card beside what was saved: origin, source and licence, seed, recipe, hashes, figures."""
    card = {
        "name": name,
        "origin": origin,
        **source,
        "seed": recipe["seed"],
        "recipe": recipe,
        "figures": figures,
        "sha256": {
            file: hashlib.sha256((folder / file).read_bytes()).hexdigest()
            for file in ("config.json", "model.safetensors")
        },
        "target_sha256": target_sha256,
    }
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
