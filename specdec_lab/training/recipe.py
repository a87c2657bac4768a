"""The numbers of the recipe, in one place. Schedules count steps, never seconds.

Changing any of them changes the weights; the card in `assets/tiny` records them all.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

END_TOKEN = "<|endoftext|>"
CORPUS_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
CORPUS_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"


@dataclass(frozen=True)
class Shape:
    """Layers, width, feed-forward width and heads of one Llama-type model."""

    layers: int
    width: int
    feed_forward: int
    heads: int


@dataclass(frozen=True)
class Schedule:
    """Optimiser steps of `tokens_per_step` tokens: linear warm-up, cosine down to a tenth of the peak, and
    `tail` further steps from there down to nothing."""

    steps: int
    peak_lr: float
    warmup: int = 100
    weight_decay: float = 0.1
    tokens_per_step: int = 2048
    tail: int = 0

    @property
    def total(self) -> int:
        """All steps."""
        return self.steps + self.tail


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the bundled weights."""

    seed: int = 20261129
    vocabulary: int = 512  # of the byte-level BPE; `labels` tokens for speakers' names come on top
    labels: int = 160
    context: int = 4096
    speeches_per_group: int = 40
    held_out_every: int = 20
    target: Shape = Shape(layers=16, width=160, feed_forward=432, heads=5)
    draft: Shape = Shape(layers=1, width=256, feed_forward=1024, heads=8)
    weak: Shape = Shape(layers=1, width=128, feed_forward=352, heads=4)
    target_schedule: Schedule = Schedule(steps=3800, peak_lr=2e-3, tail=400)
    labels_schedule: Schedule = Schedule(steps=500, peak_lr=6e-4, warmup=50, tail=100)
    guide_schedule: Schedule = Schedule(steps=2400, peak_lr=3e-3, tail=100, tokens_per_step=4096)
    finish_schedule: Schedule = Schedule(steps=700, peak_lr=5e-4, warmup=50, weight_decay=0.0, tail=100)
    draft_share: float = 0.4  # weight of the guide in what the finished target learns
    # how far from the weights before to those after; more is easier to guess and loopier. The draft learns from text
    # written at `text_share`; the share that ships was chosen afterwards, the largest of those tried that passed
    text_share: float = 0.4
    finish_share: float = 0.38
    draft_schedule: Schedule = Schedule(steps=5700, peak_lr=2e-3, tail=300, tokens_per_step=4096)
    polish_schedule: Schedule = Schedule(steps=3500, peak_lr=1.2e-3, tail=300, tokens_per_step=4096)
    weak_schedule: Schedule = Schedule(steps=500, peak_lr=4e-3)
    # what the draft learns from: text that the target writes, begun with a corpus window and a sampled stretch
    # that leaves what was memorised, and corpus text with the target's opinion of it
    guide_windows: int = 6_000
    windows: int = 31_500
    corpus_windows: int = 6_000
    held_out_windows: int = 500
    window_tokens: int = 32
    sampled_tokens: tuple[int, ...] = (0, 8, 24)
    new_tokens: int = 96

    def as_dict(self) -> dict:
        """The recipe as plain JSON values, for the card."""
        return asdict(self)
