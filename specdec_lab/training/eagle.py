"""`python -m specdec_lab.training.eagle --out FOLDER`: trains an EAGLE-style draft for SmolLM2.

The target is frozen. It makes up conversations, and what it computed over them is kept; the draft learns to guess its
next token from that, and then from its own guesses. Stages: conversations, draft, card. Both are kept in `--work`, so
an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import DynamicCache

from specdec_lab.models.eagle import EagleDraft, load_eagle
from specdec_lab.models.pairs import load_pair
from specdec_lab.models.taps import layers_of
from specdec_lab.models.transformers_adapter import added_mask

from .ahead import fit_best, write_card
from .chat_text import Conversation, write_conversations
from .recipe import Schedule

JUDGED = 4  # guesses in a row that the card tells of


@dataclass(frozen=True)
class EagleRecipe:
    """Everything that decides the draft."""

    seed: int = 20261130
    batches: int = 25  # of about 100 conversations
    held_out_batches: int = 1
    taps: tuple[int, ...] = (3, 16, 30)  # low, middle, and what the head reads
    vocabulary: int = 8192
    unrolled: int = 2  # guesses in a row that are trained on
    decay: float = 0.8  # guess k counts decay^(k - 1) in the loss
    schedule: Schedule = Schedule(  # noqa: RUF009 (frozen)
        steps=2200, peak_lr=1e-3, warmup=60, weight_decay=0.02, tokens_per_step=1024, tail=500
    )
    evaluate_every: int = 300
    patience: int = 4


def frequent_tokens(texts: Sequence[Conversation], count: int, vocab_size: int) -> torch.Tensor:
    """The ids that answers hold most often, in rising order: (count,) int32."""
    seen = torch.cat([text.ids[text.answer :] for text in texts]).long()
    found = torch.bincount(seen, minlength=vocab_size).argsort(descending=True, stable=True)[:count]
    return found.sort().values.int()


def new_draft(target: Any, taps: Sequence[int], ids: torch.Tensor) -> EagleDraft:
    """An untrained draft for this target; its layer begins as the target's last one."""
    config = target.config.to_diff_dict()
    for name in ("architectures", "dtype", "transformers_version", "layer_types", "tie_word_embeddings"):
        config.pop(name, None)
    config |= {"num_hidden_layers": 1, "vocab_size": 1, "model_type": target.config.model_type}
    config |= {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    draft = EagleDraft(config, list(taps), len(ids))
    draft.ids.copy_(ids)
    draft.body.layers[0].load_state_dict(layers_of(target)[2][-1].state_dict())
    draft.body.norm.load_state_dict(target.get_decoder().norm.state_dict())
    return draft


@dataclass(frozen=True)
class Batch:
    """Conversations side by side, padded behind: ids (n, length), hidden (n, length, taps, hidden), judged (n, length):
    where the next token is one that the target chose itself."""

    ids: torch.Tensor
    hidden: torch.Tensor
    judged: torch.Tensor

    @classmethod
    def of(cls, texts: Sequence[Conversation]) -> Batch:
        """Of conversations whose last token is only a target."""
        longest = max(len(text.hidden) for text in texts)
        ids = torch.zeros(len(texts), longest + 1, dtype=torch.long)
        hidden = torch.zeros(len(texts), longest, *texts[0].hidden.shape[1:], dtype=torch.bfloat16)
        judged = torch.zeros(len(texts), longest, dtype=torch.bool)
        for row, text in enumerate(texts):
            ids[row, : len(text.ids)], hidden[row, : len(text.hidden)] = text.ids, text.hidden
            judged[row, text.answer : len(text.hidden)] = True
        return cls(ids, hidden, judged)


def unrolled_masks(length: int, unrolled: int) -> list[torch.Tensor]:
    """For each guess in a row what a place sees: (length, length × guess number) bool.

    In guess j (from 0) place i stands j places behind the last one whose feature is the target's: it sees the first
    guess's rows up to i - j, then one row of each later guess.
    """
    masks = []
    place = torch.arange(length)
    for j in range(unrolled):
        blocks = [place[None] <= place[:, None] - j]
        blocks += [place[None] == place[:, None] - j + s for s in range(1, j + 1)]
        masks.append(torch.cat(blocks, dim=1))
    return masks


def guesses(draft: EagleDraft, target: Any, batch: Batch, unrolled: int) -> list[torch.Tensor]:
    """What the draft finds at every place, first from the target's features, then from its own: (n, length, hidden)
    each."""
    inputs = batch.ids[:, :-1]
    with torch.no_grad():
        embedded = target.get_input_embeddings()(inputs)
    length = inputs.shape[1]
    positions = torch.arange(length)[None]
    cache, found = DynamicCache(), []
    # what is known before a place: nothing before the first
    features = draft.features(batch.hidden)
    for mask in unrolled_masks(length, unrolled):
        before = F.pad(features, (0, 0, 1, 0))[:, :-1]
        added = added_mask(mask[None, None], torch.float32)
        features = draft(embedded, before, cache, attention_mask=added, position_ids=positions)
        found.append(features)
    return found


def loss_of(draft: EagleDraft, target: Any, batch: Batch, recipe: EagleRecipe) -> tuple[torch.Tensor, list]:
    """Cross-entropy to the target's distribution over the draft's tokens, and its parts."""
    head = target.get_output_embeddings().weight.detach()[draft.ids.long()]
    with torch.no_grad():
        wanted = F.linear(batch.hidden[batch.judged][:, -1].to(head.dtype), head).float().softmax(-1)
    losses = []
    for features in guesses(draft, target, batch, recipe.unrolled):
        said = F.linear(features[batch.judged].to(head.dtype), head).float()
        losses.append(F.cross_entropy(said, wanted))
    return sum(recipe.decay**k * loss for k, loss in enumerate(losses)), [round(x.item(), 4) for x in losses]


def agreement(
    draft: EagleDraft, target: Any, texts: Sequence[Conversation], unrolled: int, batch: int = 16
) -> list[dict]:
    """For each guess in a row how often the target's next token is among its likeliest 1, 2, 4."""
    head = target.get_output_embeddings().weight.detach()[draft.ids.long()]
    hits, count = torch.zeros(unrolled, 3), 0
    was = draft.training
    draft.eval()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        for first in range(0, len(texts), batch):
            part = Batch.of(texts[first : first + batch])
            right, count = part.ids[:, 1:][part.judged], count + int(part.judged.sum())
            for k, features in enumerate(guesses(draft, target, part, unrolled)):
                best = F.linear(features[part.judged].to(head.dtype), head).topk(4).indices
                hit = draft.ids.long()[best] == right[:, None]
                hits[k] += torch.stack([hit[:, :r].any(1).sum() for r in (1, 2, 4)])
    draft.train(was)
    return [
        {f"top{r}": round(x / count, 4) for r, x in zip((1, 2, 4), row, strict=True)} for row in hits.tolist()
    ]


def rows_of_step(texts: Sequence[Conversation], tokens: int, seed: int, step: int) -> list[Conversation]:
    """Which conversations a step sees, about as many tokens; always the same for the same seed and step.

    `texts` are in order of length, and a step sees neighbours: little of it is padding.
    """
    generator = torch.Generator().manual_seed(seed * 100_003 + step)
    place, found, count = int(torch.randint(len(texts), (1,), generator=generator)), [], 0
    while count < tokens and len(found) < len(texts):
        found.append(texts[place % len(texts)])
        count, place = count + len(found[-1].hidden), place + 1
    return found


def train(
    recipe: EagleRecipe,
    target: Any,
    texts: Sequence[Conversation],
    held_out: Sequence[Conversation],
    checkpoint: Path | None = None,
    log: Any = print,
) -> tuple[EagleDraft, list[dict]]:
    """A draft, and the curve: one entry for each evaluation."""
    torch.manual_seed(recipe.seed)
    ids = frequent_tokens(texts, recipe.vocabulary, target.config.vocab_size)
    draft = new_draft(target, recipe.taps, ids).float().train()
    in_order = sorted(texts, key=lambda text: len(text.ids))

    def loss_of_step(step: int) -> tuple[torch.Tensor, list]:
        batch = Batch.of(rows_of_step(in_order, recipe.schedule.tokens_per_step, recipe.seed, step))
        return loss_of(draft, target, batch, recipe)

    curve = fit_best(
        draft,
        recipe.schedule,
        loss_of_step,
        lambda: agreement(draft, target, held_out, recipe.unrolled),
        every=recipe.evaluate_every,
        patience=recipe.patience,
        checkpoint=checkpoint,
        recipe=asdict(recipe),
        log=log,
    )
    return draft, curve


def held_out_texts(pair: Any, recipe: EagleRecipe, work: Path) -> list[Conversation]:
    """Conversations that the draft does not learn from."""
    return write_conversations(
        pair, work / "text-held-out", recipe.taps, recipe.held_out_batches, recipe.seed + 10_000
    )


def digest_of(model: torch.nn.Module) -> str:
    """sha256 of a model's weights, whatever files they came in."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(
            name.encode() + weight.to(torch.bfloat16).contiguous().view(torch.uint8).numpy().tobytes()
        )
    return digest.hexdigest()


def main(arguments: list[str] | None = None) -> None:
    """Run every stage that is not done yet."""
    parser = argparse.ArgumentParser(prog="python -m specdec_lab.training.eagle", description=__doc__)
    parser.add_argument(
        "--work", type=Path, default=Path("checkpoints"), help="where conversations and the checkpoint go"
    )
    parser.add_argument("--out", required=True, type=Path, help="folder for the draft and its card")
    parser.add_argument(
        "--share", nargs=2, type=int, metavar=("I", "N"), help="only write every N-th batch of conversations, from the "
        "I-th on: to be run on each core before, with one thread"
    )  # fmt: skip
    options = parser.parse_args(arguments)
    recipe, pair = EagleRecipe(), load_pair("smollm2")
    texts = write_conversations(
        pair, options.work / "text", recipe.taps, recipe.batches, recipe.seed, tuple(options.share or (0, 1))
    )
    if options.share:
        return
    held_out = held_out_texts(pair, recipe, options.work)
    draft, curve = train(recipe, pair.target, texts, held_out, options.work / "eagle.pt")
    draft.save(options.out)
    shipped = load_eagle(options.out, dtype=torch.float32)
    answered = torch.cat([text.ids[text.answer :] for text in held_out])
    figures = {
        "held_out_agreement": agreement(shipped, pair.target, held_out, JUDGED),
        "held_out_answers_in_vocabulary": round(torch.isin(answered, shipped.ids).float().mean().item(), 4),
        "parameters": sum(weight.numel() for weight in draft.parameters()),
        "training_tokens": sum(len(text.hidden) for text in texts),
        "conversations": len(texts),
        "curve": curve,
    }
    write_card(
        options.out,
        "smollm2-eagle",
        "EAGLE-style draft for SmolLM2-135M-Instruct, trained by `python -m specdec_lab.training.eagle` on conversations "
        "that the target made up itself; its layer began as the target's last one",
        asdict(recipe),
        figures,
        digest_of(pair.target),
        {"target": "HuggingFaceTB/SmolLM2-135M-Instruct", "licence": "Apache-2.0, as the target"},
    )
    print(json.dumps(figures["held_out_agreement"], indent=1))


if __name__ == "__main__":
    main()
