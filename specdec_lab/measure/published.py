"""Speed-ups that papers print, each with the place where it stands, to be held against the formulas. No torch.

Plain Python, loads at once. Nothing here was measured by this package, and nothing was worked out: where a source
prints no α, there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from .theory import alpha_from_acceptance_rate


@dataclass(frozen=True)
class Source:
    """Where figures stand.

    Attributes:
        authors, title: of the paper or page.
        place: tables and sections.
        link: arXiv, or the page.
    """

    authors: str
    title: str
    place: str
    link: str


@dataclass(frozen=True)
class Published:
    """One speed-up as printed; one sequence at a time.

    Attributes:
        source: see `Source`.
        setting: task and sampling.
        draft: the draft and its size; the target is the source's own.
        gamma, speedup: as printed.
        cost_ratio: c as printed, or the quotient of two printed times.
        alpha: None where the source prints none.
        expected: what the source itself worked out by the formula with v = 1, or None.
    """

    source: Source
    setting: str
    draft: str
    gamma: int
    speedup: float
    cost_ratio: float
    alpha: float | None = None
    expected: float | None = None


@dataclass(frozen=True)
class Served:
    """Speculation in a server, as printed.

    Attributes:
        source: see `Source`.
        setting: model, text, machine, what drafts.
        quiet: plain ÷ speculative time with one request a second.
        slowdown: speculative ÷ plain time with many.
    """

    source: Source
    setting: str
    quiet: float
    slowdown: float


LEVIATHAN = Source(
    "Leviathan, Kalman and Matias 2023",
    "Fast Inference from Transformers via Speculative Decoding",
    "table 2; c and the expected factor in table 4",
    "https://arxiv.org/abs/2211.17192",
)
CHEN = Source(
    "Chen et al. 2023",
    "Accelerating Large Language Model Decoding with Speculative Sampling",
    "table 1; 14.1 ms a token for the target and 1.8 ms for the draft in the text on the choice of the draft",
    "https://arxiv.org/abs/2302.01318",
)
VLLM = Source(
    "vLLM team 2024",
    "How Speculative Decoding Boosts vLLM Performance by up to 2.8x",
    "the section on performance and its captions",
    "https://github.com/vllm-project/vllm-project.github.io/blob/main/_posts/2024-10-17-spec-decode.md",
)

_SMALL, _BASE, _LARGE = "T5-small, 77M", "T5-base, 250M", "T5-large, 800M"
_TABLES_2_AND_4 = (  # task, draft, temperature, γ, α, c, expected, measured; the target is T5-XXL, 11B
    ("EnDe", _SMALL, 0, 7, 0.75, 0.02, 3.2, 3.4),
    ("EnDe", _BASE, 0, 7, 0.80, 0.04, 3.3, 2.8),
    ("EnDe", _LARGE, 0, 7, 0.82, 0.11, 2.5, 1.7),
    ("EnDe", _SMALL, 1, 7, 0.62, 0.02, 2.3, 2.6),
    ("EnDe", _BASE, 1, 5, 0.68, 0.04, 2.4, 2.4),
    ("EnDe", _LARGE, 1, 3, 0.71, 0.11, 2.0, 1.4),
    ("CNNDM", _SMALL, 0, 5, 0.65, 0.02, 2.4, 3.1),
    ("CNNDM", _BASE, 0, 5, 0.73, 0.04, 2.6, 3.0),
    ("CNNDM", _LARGE, 0, 3, 0.74, 0.11, 2.0, 2.2),
    ("CNNDM", _SMALL, 1, 5, 0.53, 0.02, 1.9, 2.3),
    ("CNNDM", _BASE, 1, 3, 0.55, 0.04, 1.8, 2.2),
    ("CNNDM", _LARGE, 1, 3, 0.56, 0.11, 1.6, 1.7),
)
_CHINCHILLA = "Chinchilla's draft, 4B"
_TABLE_1 = (  # setting and speed-up at K = 4; the target is Chinchilla, 70B
    ("XSum, nucleus", 1.92),
    ("XSum, greedy", 2.01),
    ("HumanEval, nucleus", 2.46),
)

PUBLISHED: tuple[Published, ...] = (
    *(
        Published(LEVIATHAN, f"{task}, temperature {temperature}", draft, gamma, measured, c, alpha, expected)
        for task, draft, temperature, gamma, alpha, c, expected, measured in _TABLES_2_AND_4
    ),
    *(Published(CHEN, setting, _CHINCHILLA, 4, factor, 1.8 / 14.1) for setting, factor in _TABLE_1),
)
SERVED: tuple[Served, ...] = (
    Served(VLLM, "Llama 3 70B, ShareGPT, 4 × H100, a draft of 0.5B", quiet=1.5, slowdown=1.4),
    Served(VLLM, "Llama 3 70B, CNN/DailyMail, 4 × H100, n-grams of the prompt", quiet=2.8, slowdown=1.8),
)


def implied_alpha(result: Published) -> float:
    """The α at which the formula with v = 1 gives the printed speed-up; for sources that print no α.

    It stands for everything that the formula leaves out, so it is no measurement of acceptance. Taught in notebook 06.

    Raises:
        ValueError: no α can give it: it is beyond (γ + 1) ÷ (γ·c + 1), or below that of α = 0.

    >>> round(implied_alpha(Published(CHEN, "", "", gamma=4, speedup=2.0, cost_ratio=0.125)), 2)
    0.74
    """
    rate = (result.speedup * (result.gamma * result.cost_ratio + 1) - 1) / result.gamma
    if not 0 <= rate <= 1:
        raise ValueError(f"no alpha gives {result.speedup} at gamma {result.gamma} and c {result.cost_ratio}")
    return alpha_from_acceptance_rate(rate, result.gamma)
