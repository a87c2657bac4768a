"""The exact bias of a sampler: how far the law of its text is from the target's, and how much it accepts.

Every path of draws and tosses is walked; nothing is counted. What is right or wrong is left to `sampling_checks.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from specdec_lab.decoding.chance import Chance
from specdec_lab.decoding.sampling import Sampling
from specdec_lab.measure.law import law, target_law
from specdec_lab.models.scripted import ScriptedModel, fixed

from .exhibit import Exhibit
from .sampling_audit import P, Q


class Bias(NamedTuple):
    """What a sampler does to the law of the text. Taught in notebook 07.

    Attributes:
        name: of the exhibit.
        first_token: total variation distance of the law of the first new token from the target's.
        outputs: the same of whole outputs.
        acceptance: the chance that the first guess is kept. Σ min(p, q) is the most there is without a bias.
    """

    name: str
    first_token: float
    outputs: float
    acceptance: float


def bias_of(
    exhibit: Exhibit,
    p: Sequence[float] = P,
    q: Sequence[float] = Q,
    gamma: int = 1,
    sampling: Sampling | None = None,
) -> Bias:
    """The exact bias of one exhibit that draws. Taught in notebook 07.

    Outputs have gamma + 2 tokens: a full round, its bonus and one more.

    Args:
        p, q: distributions of target and draft, the same in every place.
        gamma: guesses in a round. The number of paths grows as the vocabulary to the power of all that is drawn.
        sampling: temperature and filters; None is `Sampling()`.

    Raises:
        ValueError: p and q of different lengths; a temperature of 0, which leaves nothing to chance; too many paths.
        TypeError: an exhibit that does not draw.
    """
    sampling = sampling or Sampling()
    if sampling.greedy:
        raise ValueError(
            f"a temperature of {sampling.temperature} leaves nothing to chance, so there is no bias"
        )
    if len(p) != len(q):
        raise ValueError(f"p and q must have the same length, got {len(p)} and {len(q)}")
    target, draft = (ScriptedModel(fixed(values), len(p), logits_dtype=torch.float64) for values in (p, q))

    def first_kept(target: Any, draft: Any, prompt: list[int], n: int, chance: Chance) -> list[float]:
        return [exhibit.sample(target, draft, prompt, n, 1, None, sampling, chance)[1]]

    found = law(exhibit.sampler(gamma, sampling), target, draft, [0], gamma + 2)
    right = target_law(target, [0], gamma + 2, sampling)
    rates = law(first_kept, target, draft, [0], 2)  # two tokens wanted: one guess in all
    return Bias(
        exhibit.name,
        found.of_token(0).total_variation(right.of_token(0)),
        found.total_variation(right),
        sum(rate * probability for (rate,), probability in rates.items()),
    )


def bias_table(rows: Iterable[Bias], sampling: Sampling | None = None) -> str:
    """Biases as plain text, under a line that names the temperature and the filters. Taught in notebook 07."""
    rows, sampling = list(rows), sampling or Sampling()
    filters = [
        f"{name} {value}" for name in ("top_k", "top_p") if (value := getattr(sampling, name)) is not None
    ]
    width = max(len(row.name) for row in rows)
    head = ", ".join([f"temperature {sampling.temperature:g}", *filters])
    return "\n".join(
        [
            f"Total variation from the target's law, and the chance that the first guess is kept ({head})",
            "",
            f"{'':<{width}}  first token  outputs  acceptance",
            *(
                f"{name:<{width}}  {first:11.4f}  {outputs:7.4f}  {kept:10.4f}"
                for name, first, outputs, kept in rows
            ),
        ]
    )
