"""`python -m specdec_lab.training --corpus FILE`: makes the bundled pair, stage by stage, resumable.

Stages: tokenizer, target, speakers' names as tokens, its text, a first draft as guide, the target finished towards
it, its text again, draft, weak draft, assets. Finished stages and checkpoints are kept in the work folder. Takes
hours rather than minutes on two CPU cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torch import Tensor

from specdec_lab.files import ASSETS

from .corpus import encode_groups, read_corpus, split_corpus
from .distill import distill
from .finish import between, move_towards
from .fit import build, rounded
from .labels import frequent_labels, start_labels, with_labels
from .recipe import CORPUS_URL, Recipe
from .selftext import SelfText, annotate_corpus, write_self_text
from .ship import ship
from .target import held_out_loss, train_on_corpus, train_tokenizer


def main(arguments: list[str] | None = None) -> None:
    """Run every stage that is not done yet."""
    parser = argparse.ArgumentParser(prog="python -m specdec_lab.training", description=__doc__)
    parser.add_argument("--corpus", required=True, type=Path, help=f"Tiny Shakespeare, from {CORPUS_URL}")
    parser.add_argument("--work", type=Path, default=Path("checkpoints"), help="where checkpoints go")
    parser.add_argument("--out", type=Path, default=ASSETS / "tiny")
    options = parser.parse_args(arguments)
    recipe, work = Recipe(), options.work
    work.mkdir(parents=True, exist_ok=True)

    training_groups, held_out_groups = split_corpus(read_corpus(options.corpus), recipe)
    pieces = train_tokenizer(training_groups, recipe)
    corpora = (encode_groups(pieces, training_groups), encode_groups(pieces, held_out_groups))
    first = build(recipe.target, recipe, 0, vocabulary=recipe.vocabulary)
    train_on_corpus(first, recipe.target_schedule, recipe, 0, *corpora, work / "first.pt")

    labels = frequent_labels(training_groups, recipe.labels)
    tokenizer = with_labels(pieces, labels)
    training, held_out = corpora = (
        encode_groups(tokenizer, training_groups),
        encode_groups(tokenizer, held_out_groups),
    )
    target = build(recipe.target, recipe, 0)
    start_labels(target, first, pieces, labels)
    train_on_corpus(target, recipe.labels_schedule, recipe, 4, *corpora, work / "target.pt")
    rounded(target)
    drafts = (recipe, work, training, held_out)
    _, text, check = _text(target, "first", recipe.guide_windows, *drafts)
    guide = distill(recipe.draft, recipe.guide_schedule, recipe, 1, text, check, work / "guide.pt")
    finished = move_towards(target, guide, recipe, text, training, check, work / "finished.pt")
    writer = rounded(between(target, finished, recipe.text_share))
    own, text, check = _text(writer, "finished", recipe.windows, *drafts)
    draft = distill(recipe.draft, recipe.draft_schedule, recipe, 3, text, check, work / "draft.pt", guide)
    draft = distill(recipe.draft, recipe.polish_schedule, recipe, 5, own, check, work / "polished.pt", draft)
    target = rounded(between(target, finished, recipe.finish_share))
    weak = build(recipe.weak, recipe, 2)
    train_on_corpus(weak, recipe.weak_schedule, recipe, 2, *corpora, work / "weak.pt")

    models = {"target": target, "draft": draft, "weak": weak}
    losses = {name: held_out_loss(model, held_out) for name, model in models.items()}
    card = ship(options.out, recipe, tokenizer, models, held_out_groups, held_out, losses)
    print(card["figures"])


def _text(
    target, name: str, windows: int, recipe: Recipe, work: Path, training: Tensor, held_out: Tensor
) -> tuple[SelfText, SelfText, SelfText]:
    """What the target wrote, that with corpus text added, and the held-out stretches that a draft is watched on."""
    text = write_self_text(target, training, recipe, work / f"text-{name}", recipe.seed * 7, windows)
    check = write_self_text(
        target, held_out, recipe, work / f"text-{name}-held-out", recipe.seed * 11, recipe.held_out_windows
    )
    corpus = annotate_corpus(target, training, recipe, recipe.seed * 13, recipe.corpus_windows)
    return text, SelfText.joined([text, corpus]), check


if __name__ == "__main__":
    main()
