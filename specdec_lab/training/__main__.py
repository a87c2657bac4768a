"""`python -m specdec_lab.training --corpus FILE`: makes the bundled pair, stage by stage, resumable.

Stages: tokenizer, target, self-generated text, draft, weak draft, assets. Finished stages and checkpoints
are kept in the work folder. Takes hours rather than minutes on two CPU cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .corpus import encode_groups, read_corpus, split_corpus
from .distill import distill
from .fit import rounded
from .recipe import CORPUS_URL, Recipe
from .selftext import SelfText, annotate_corpus, write_self_text
from .ship import ship
from .target import held_out_loss, train_on_corpus, train_tokenizer


def main(arguments: list[str] | None = None) -> None:
    """Run every stage that is not done yet."""
    parser = argparse.ArgumentParser(prog="python -m specdec_lab.training", description=__doc__)
    parser.add_argument("--corpus", required=True, type=Path, help=f"Tiny Shakespeare, from {CORPUS_URL}")
    parser.add_argument("--work", type=Path, default=Path("checkpoints"), help="where checkpoints go")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "assets" / "tiny")
    options = parser.parse_args(arguments)
    recipe, work = Recipe(), options.work
    work.mkdir(parents=True, exist_ok=True)

    training_groups, held_out_groups = split_corpus(read_corpus(options.corpus), recipe)
    tokenizer = train_tokenizer(training_groups, recipe)
    training, held_out = encode_groups(tokenizer, training_groups), encode_groups(tokenizer, held_out_groups)

    corpora = (training, held_out)
    target = train_on_corpus(recipe.target, recipe.target_schedule, recipe, 0, *corpora, work / "target.pt")
    rounded(target)  # what is shipped is what the draft learns from
    text = write_self_text(target, training, recipe, work / "selftext", recipe.seed * 7, recipe.windows)
    check = write_self_text(
        target, held_out, recipe, work / "selftext-held-out", recipe.seed * 11, recipe.held_out_windows
    )
    text = SelfText.joined(
        [text, annotate_corpus(target, training, recipe, recipe.seed * 13, recipe.corpus_windows)]
    )
    draft = distill(recipe.draft, recipe.draft_schedule, recipe, 1, text, check, work / "draft.pt")
    weak = train_on_corpus(recipe.weak, recipe.weak_schedule, recipe, 2, *corpora, work / "weak.pt")

    models = {"target": target, "draft": draft, "weak": weak}
    losses = {name: held_out_loss(model, held_out) for name, model in models.items()}
    card = ship(options.out, recipe, tokenizer, models, held_out_groups, held_out, losses)
    print(card["figures"])


if __name__ == "__main__":
    main()
