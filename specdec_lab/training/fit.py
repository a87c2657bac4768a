"""One training loop for all models: AdamW, warm-up and cosine by steps, bfloat16 autocast, resumable."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, set_seed

from .recipe import Recipe, Schedule, Shape


def build(shape: Shape, recipe: Recipe, seed_offset: int, vocabulary: int | None = None) -> LlamaForCausalLM:
    """A freshly initialised Llama-type model of this shape; same seed, same weights.

    Its vocabulary is that of the recipe with all labels, or `vocabulary`.
    """
    set_seed(recipe.seed + seed_offset)
    config = LlamaConfig(
        vocab_size=vocabulary or recipe.vocabulary + recipe.labels,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=recipe.context,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    return LlamaForCausalLM(config)


@torch.no_grad()
def rounded(model: LlamaForCausalLM) -> LlamaForCausalLM:
    """The model with its weights rounded to bfloat16, as they are shipped, held in float32; in place.

    Weights only: `model.to(torch.bfloat16)` would round the rotary frequencies too, and they are not reloaded.
    """
    for weight in model.parameters():
        weight.copy_(weight.to(torch.bfloat16))
    return model.eval()


def learning_rate(step: int, schedule: Schedule) -> float:
    """Linear warm-up, cosine from the peak to a tenth of it, then a linear tail to nothing."""
    if step < schedule.warmup:
        return schedule.peak_lr * (step + 1) / schedule.warmup
    if step >= schedule.steps:
        return 0.1 * schedule.peak_lr * (schedule.total - step) / schedule.tail
    done = (step - schedule.warmup) / (schedule.steps - schedule.warmup)
    return schedule.peak_lr * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def fit(
    model,
    schedule: Schedule,
    loss_of_step: Callable[[int], tuple[torch.Tensor, dict]],
    checkpoint: Path,
    evaluate: Callable[[], dict] | None = None,
    log_every: int = 100,
) -> None:
    """Train in place. `loss_of_step(step)` returns the loss and figures to log; a checkpoint resumes."""
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": decay, "weight_decay": schedule.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=schedule.peak_lr, betas=(0.9, 0.95), fused=True)
    first = 0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        first = state["step"]
    model.train()
    started = time.perf_counter()
    for step in range(first, schedule.total):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, schedule)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, figures = loss_of_step(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if (step + 1) % log_every == 0 or step + 1 == schedule.total:
            rate = (step + 1 - first) / (time.perf_counter() - started)
            figures = {"loss": round(loss.item(), 4), **figures}
            print(f"step {step + 1}/{schedule.total} {figures} {rate:.2f} steps/s", flush=True)
        if (step + 1) % (5 * log_every) == 0 or step + 1 == schedule.total:
            if evaluate is not None:
                model.eval()
                print(f"step {step + 1} held out {evaluate()}", flush=True)
                model.train()
            torch.save(
                {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step + 1},
                checkpoint,
            )
    model.eval()
