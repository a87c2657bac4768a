"""Public pairs by memory: what fits where, under which licence, and where that was read. No torch.

Plain Python, loads at once. Sizes are worked out from the shapes in the models' configs, as torch would allocate them, not
copied; nothing is downloaded. `load_pair(target=…, draft=…)` loads a row and compares the two tokenizers itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_lab.decoding.checks import check_count, check_probability

if TYPE_CHECKING:
    import pandas as pd

PROMPT_LOOKUP = "prompt-lookup"
BYTES = 2  # of one number in bfloat16 or float16
GB = 1e9


@dataclass(frozen=True)
class Maker:
    """What a family of models has in common.

    Attributes:
        kind: transformers' `model_type`, which decides on biases and norms.
        licence: as the maker names it.
        gated: whether the Hub asks to accept the licence under a name before it hands out the weights.
        read: the page with sizes, tied embeddings and licence, and what else was read there.
        tokens: how it is known that target and draft read the same tokens.
    """

    kind: str
    licence: str
    gated: bool
    read: str
    tokens: str


@dataclass(frozen=True)
class PublicModel:
    """A decoder-only model of the Hub by its shape.

    Attributes:
        name: Hub id.
        maker: see `Maker`.
        billions: parameters, rounded as the maker prints them.
        layers, width, inner, heads, key_value_heads, head_size, vocabulary: from its config; the vocabulary is that of
            the head, padding included.
        tied: whether the head is the embedding, so that it is there once.
    """

    name: str
    maker: Maker
    billions: float
    layers: int
    width: int
    inner: int
    heads: int
    key_value_heads: int
    head_size: int
    vocabulary: int
    tied: bool

    @property
    def parameters(self) -> int:
        """All weights: embedding and head, and of each layer attention, feed-forward and norms."""
        queries, keys = self.heads * self.head_size, self.key_value_heads * self.head_size
        attention = 2 * self.width * (queries + keys)  # in: q, k, v; out: o
        if self.maker.kind == "qwen2":
            attention += queries + 2 * keys  # biases of q, k, v
        if self.maker.kind == "qwen3":
            attention += 2 * self.head_size  # norms of q and k
        layer = attention + 3 * self.width * self.inner + 2 * self.width
        return self.vocabulary * self.width * (1 if self.tied else 2) + self.layers * layer + self.width

    @property
    def cache_bytes_per_token(self) -> int:
        """2 (keys and values) × layers × key-value heads × head size × 2 bytes."""
        return 2 * self.layers * self.key_value_heads * self.head_size * BYTES


@dataclass(frozen=True)
class PublicPair:
    """A target and what drafts for it; draft None is prompt lookup, which needs no memory to speak of.

    Attributes:
        why: what this pair is good for.
    """

    target: PublicModel
    draft: PublicModel | None
    why: str

    @property
    def models(self) -> tuple[PublicModel, ...]:
        """The one or two models that are loaded."""
        return (self.target,) if self.draft is None else (self.target, self.draft)

    @property
    def weights_gb(self) -> float:
        """Both models' weights, in 10⁹ bytes."""
        return sum(model.parameters for model in self.models) * BYTES / GB

    def needs_gb(self, tokens: int) -> float:
        """Weights and both KV caches of one sequence of `tokens`, in 10⁹ bytes."""
        return self.weights_gb + tokens * sum(model.cache_bytes_per_token for model in self.models) / GB


@dataclass(frozen=True)
class Memory:
    """A kind of machine.

    Attributes:
        gb: as it is sold.
        share: of it that weights and caches may take. The rest is for activations and the CUDA context, on a laptop for
            the system and the browser. A rule of thumb of this package, not measured.
    """

    name: str
    gb: float
    share: float

    def takes(self, needs_gb: float) -> bool:
        """Whether that fits in the share."""
        return needs_gb <= self.gb * self.share


MEMORIES = (
    Memory("laptop, 8 GB of RAM", 8, 0.6),
    Memory("laptop, 16 GB of RAM", 16, 0.6),
    Memory("free Colab GPU, 16 GB", 16, 0.9),  # usually a T4: no native bfloat16, float16 is as large
    Memory("GPU, 24 GB", 24, 0.9),
    Memory("GPU, 80 GB", 80, 0.9),
)

# ---- what was read, in November 2026 ---------------------------------------------------------------------------------

# layers, widths, heads and vocabularies: this file, which names each model's config.json on the Hub beside its numbers
SHAPES = "https://github.com/Lightning-AI/litgpt/blob/main/litgpt/config.py"

_ONE_QWEN_TOKENIZER = "one byte-level BPE of 151,643 tokens for all of Qwen2.5 and Qwen3; the heads are padded, to 151,936 or 152,064"
QWEN25 = Maker(
    "qwen2",
    "Apache-2.0",
    False,
    "https://qwenlm.github.io/blog/qwen2.5-llm/ (table under Model Card; not all sizes are Apache: the 3B has the Qwen "
    "Research License, the 72B the Qwen License)",
    f"{_ONE_QWEN_TOKENIZER} (technical report, arXiv 2412.15115). SGLang's documentation pairs 7B with 1.5B",
)
QWEN25_CODER = Maker(
    "qwen2",
    "Apache-2.0",
    False,
    "https://qwenlm.github.io/blog/qwen2.5-coder-family/ (table under Rich Model Sizes; the 3B has the Qwen Research "
    "License)",
    f"{_ONE_QWEN_TOKENIZER}. llama.cpp's pull request 10455 pairs 32B with 0.5B",
)
QWEN3 = Maker(
    "qwen3",
    "Apache-2.0",
    False,
    "https://qwenlm.github.io/blog/qwen3/ (table of the dense models, all Apache 2.0); sizes on the cards, such as "
    "https://huggingface.co/Qwen/Qwen3-8B (files of 16.4 GB)",
    f"{_ONE_QWEN_TOKENIZER}. vLLM's documentation pairs 8B with 0.6B",
)
_ONE_LLAMA_TOKENIZER = "one vocabulary of 128,256 for 3.1 and 3.2: the card of 3.2 says that logits of 3.1 8B were targets of its training"
LLAMA31 = Maker(
    "llama",
    "Llama 3.1 Community License",
    True,
    "https://github.com/meta-llama/llama-models/blob/main/models/llama3_1/MODEL_CARD.md; that the Hub asks for "
    "acceptance: the README there",
    _ONE_LLAMA_TOKENIZER,
)
LLAMA32 = Maker(
    "llama",
    "Llama 3.2 Community License",
    True,
    "https://github.com/meta-llama/llama-models/blob/main/models/llama3_2/MODEL_CARD.md; that the Hub asks for "
    "acceptance: https://huggingface.co/meta-llama/Llama-3.2-1B",
    _ONE_LLAMA_TOKENIZER,
)
SMOLLM2 = Maker(
    "llama",
    "Apache-2.0",
    False,
    "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct (card; copies of the 135M's and the 1.7B's config.json "
    "agree with the shapes)",
    "one vocabulary of 49,152 for all three sizes. transformers' documentation pairs the 1.7B and the 135M of the family "
    "before, SmolLM",
)

_SMOLLM2_135M = PublicModel(
    "HuggingFaceTB/SmolLM2-135M-Instruct", SMOLLM2, 0.135, 30, 576, 1536, 9, 3, 64, 49152, True
)
_SMOLLM2_360M = PublicModel(
    "HuggingFaceTB/SmolLM2-360M-Instruct", SMOLLM2, 0.36, 32, 960, 2560, 15, 5, 64, 49152, True
)
_SMOLLM2_1B7 = PublicModel(
    "HuggingFaceTB/SmolLM2-1.7B-Instruct", SMOLLM2, 1.7, 24, 2048, 8192, 32, 32, 64, 49152, True
)
_QWEN25_0B5 = PublicModel("Qwen/Qwen2.5-0.5B-Instruct", QWEN25, 0.49, 24, 896, 4864, 14, 2, 64, 151936, True)
_QWEN25_1B5 = PublicModel(
    "Qwen/Qwen2.5-1.5B-Instruct", QWEN25, 1.54, 28, 1536, 8960, 12, 2, 128, 151936, True
)
_QWEN25_32B = PublicModel(
    "Qwen/Qwen2.5-32B-Instruct", QWEN25, 32.5, 64, 5120, 27648, 40, 8, 128, 152064, False
)
_CODER_0B5 = PublicModel(
    "Qwen/Qwen2.5-Coder-0.5B-Instruct", QWEN25_CODER, 0.49, 24, 896, 4864, 14, 2, 64, 151936, True
)
_CODER_7B = PublicModel(
    "Qwen/Qwen2.5-Coder-7B-Instruct", QWEN25_CODER, 7.61, 28, 3584, 18944, 28, 4, 128, 152064, False
)
_QWEN3_0B6 = PublicModel("Qwen/Qwen3-0.6B", QWEN3, 0.6, 28, 1024, 3072, 16, 8, 128, 151936, True)
_QWEN3_1B7 = PublicModel("Qwen/Qwen3-1.7B", QWEN3, 1.7, 28, 2048, 6144, 16, 8, 128, 151936, True)
_QWEN3_4B = PublicModel("Qwen/Qwen3-4B", QWEN3, 4.0, 36, 2560, 9728, 32, 8, 128, 151936, True)
_QWEN3_8B = PublicModel("Qwen/Qwen3-8B", QWEN3, 8.2, 36, 4096, 12288, 32, 8, 128, 151936, False)
_QWEN3_14B = PublicModel("Qwen/Qwen3-14B", QWEN3, 14.8, 40, 5120, 17408, 40, 8, 128, 151936, False)
_QWEN3_32B = PublicModel("Qwen/Qwen3-32B", QWEN3, 32.8, 64, 5120, 25600, 64, 8, 128, 151936, False)
_LLAMA32_1B = PublicModel(
    "meta-llama/Llama-3.2-1B-Instruct", LLAMA32, 1.23, 16, 2048, 8192, 32, 8, 64, 128256, True
)
_LLAMA32_3B = PublicModel(
    "meta-llama/Llama-3.2-3B-Instruct", LLAMA32, 3.21, 28, 3072, 8192, 24, 8, 128, 128256, True
)
_LLAMA31_8B = PublicModel(
    "meta-llama/Llama-3.1-8B-Instruct", LLAMA31, 8.0, 32, 4096, 14336, 32, 8, 128, 128256, False
)

PAIRS = (
    PublicPair(_SMOLLM2_135M, None, "the course's own real model; copy-heavy tasks"),
    PublicPair(_SMOLLM2_360M, _SMOLLM2_135M, "the smallest pair of real models; the draft is hardly cheaper"),
    PublicPair(_SMOLLM2_1B7, _SMOLLM2_135M, "the target shares no key-value heads, so its cache grows fast"),
    PublicPair(_QWEN25_1B5, _QWEN25_0B5, "many languages in little memory; small caches"),
    PublicPair(_QWEN3_1B7, _QWEN3_0B6, "thinking and plain answers from a laptop"),
    PublicPair(_LLAMA32_3B, _LLAMA32_1B, "both were distilled from the same larger models"),
    PublicPair(_QWEN3_4B, _QWEN3_0B6, "the largest target here that a free Colab GPU takes"),
    PublicPair(_CODER_7B, _CODER_0B5, "code; the two heads are padded differently"),
    PublicPair(_QWEN3_8B, _QWEN3_0B6, "the pair of vLLM's documentation"),
    PublicPair(_LLAMA31_8B, _LLAMA32_1B, "two generations with one tokenizer"),
    PublicPair(_QWEN3_14B, _QWEN3_0B6, "a small draft whose cache is no small part of the whole"),
    PublicPair(_QWEN25_32B, _QWEN25_0B5, "a tiny draft for a large target"),
    PublicPair(_QWEN3_32B, _QWEN3_1B7, "a better draft than 0.6B where memory is at hand"),
)


def public_pairs(memory_gb: float | None = None, *, tokens: int = 4096, share: float = 0.9) -> pd.DataFrame:
    """Good public pairs, smallest first; with `memory_gb` those that fit. Taught in notebook 11.

    A pair fits when the weights of both models in bfloat16 and both KV caches of one sequence of `tokens` take at most
    `share` of the memory. Layers with a sliding window would need less; this package keeps full length for all.

    Args:
        memory_gb: of the accelerator, or of a machine without one, in 10⁹ bytes; all pairs unless given.
        tokens: prompt and answer together, 1 or more.
        share: of the memory that weights and caches may take, above 0; 0.6 suits a laptop's RAM.

    Returns:
        target, draft, parameters of both in 10⁹, weights_gb, cache_bytes_per_token (both models), needs_gb, machine (the
        smallest of `MEMORIES` that takes it, "" if none does), vocabularies, licence, gated, why, same_tokens (how that is
        known), source (what was read).

    Raises:
        ValueError, TypeError: no memory, share or tokens to speak of.

    >>> list(public_pairs(8, share=0.6)["draft"])[:2]
    ['prompt-lookup', 'HuggingFaceTB/SmolLM2-135M-Instruct']
    """
    import pandas as pd

    tokens, share = check_count(tokens, "tokens"), check_probability(share, "share")
    if memory_gb is not None and not 0 < memory_gb < float("inf"):
        raise ValueError(f"memory_gb must be above 0, got {memory_gb}")
    if share == 0:
        raise ValueError("share must be above 0, got 0")
    room = float("inf") if memory_gb is None else memory_gb * share
    pairs = sorted(PAIRS, key=lambda pair: pair.needs_gb(tokens))
    rows = [_row(pair, tokens) for pair in pairs if pair.needs_gb(tokens) <= room]
    return pd.DataFrame(rows, columns=list(_row(PAIRS[0], tokens)))


def _row(pair: PublicPair, tokens: int) -> dict[str, object]:
    models, needs = pair.models, pair.needs_gb(tokens)
    makers = list(dict.fromkeys(model.maker for model in models))
    return {
        "target": pair.target.name,
        "draft": pair.draft.name if pair.draft else PROMPT_LOOKUP,
        "target_billions": pair.target.parameters / 1e9,
        "draft_billions": pair.draft.parameters / 1e9 if pair.draft else 0.0,
        "weights_gb": pair.weights_gb,
        "cache_bytes_per_token": sum(model.cache_bytes_per_token for model in models),
        "needs_gb": needs,
        "machine": next((memory.name for memory in MEMORIES if memory.takes(needs)), ""),
        "vocabularies": ", ".join(f"{model.vocabulary:,}" for model in models),
        "licence": "; ".join(dict.fromkeys(maker.licence for maker in makers)),
        "gated": any(maker.gated for maker in makers),
        "why": pair.why,
        "same_tokens": makers[0].tokens,
        "source": "; ".join([*(maker.read for maker in makers), f"shapes: {SHAPES}"]),
    }
