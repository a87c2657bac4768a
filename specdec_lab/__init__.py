"""specdec_lab: learn, teach and measure speculative decoding.

The public names are imported on first use, so that `import specdec_lab` loads neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "1.0.0"

_HOME = {
    "autoregressive_decode": "decoding.greedy",
    "speculative_decode": "decoding.greedy",
    "speculative_rounds": "decoding.entry",
    "autoregressive_sample": "decoding.sampling",
    "speculative_sample": "decoding.sampling",
    "Sampling": "decoding.sampling",
    "residual_distribution": "decoding.distributions",
    "tree_decode": "decoding.tree_decode",
    "ModelDrafter": "decoding.drafters",
    "PromptLookupDrafter": "decoding.lookup",
    "DialDrafter": "decoding.dial",
    "Proposal": "decoding.drafters",
    "Round": "decoding.rounds",
    "Trace": "decoding.rounds",
    "benchmark_decoding": "measure.benchmark",
    "certify": "measure.exactness",
    "check_speculative_decode": "teach.grader",
    "sweep": "measure.sweep",
    "break_even_alpha": "measure.theory",
    "estimate_alpha": "measure.theory",
    "expected_tokens_per_round": "measure.theory",
    "optimal_gamma": "measure.theory",
    "speedup": "measure.theory",
    "load_pair": "models.pairs",
    "Pair": "models.pairs",
}
__all__ = [
    "DialDrafter",
    "ModelDrafter",
    "Pair",
    "PromptLookupDrafter",
    "Proposal",
    "Round",
    "Sampling",
    "Trace",
    "__version__",
    "autoregressive_decode",
    "autoregressive_sample",
    "benchmark_decoding",
    "break_even_alpha",
    "certify",
    "check_speculative_decode",
    "estimate_alpha",
    "expected_tokens_per_round",
    "load_pair",
    "optimal_gamma",
    "residual_distribution",
    "speculative_decode",
    "speculative_rounds",
    "speculative_sample",
    "speedup",
    "sweep",
    "tree_decode",
]

if TYPE_CHECKING:
    from .decoding.dial import DialDrafter
    from .decoding.distributions import residual_distribution
    from .decoding.drafters import ModelDrafter, Proposal
    from .decoding.entry import speculative_rounds
    from .decoding.greedy import autoregressive_decode, speculative_decode
    from .decoding.lookup import PromptLookupDrafter
    from .decoding.rounds import Round, Trace
    from .decoding.sampling import Sampling, autoregressive_sample, speculative_sample
    from .decoding.tree_decode import tree_decode
    from .measure.benchmark import benchmark_decoding
    from .measure.exactness import certify
    from .measure.sweep import sweep
    from .measure.theory import (
        break_even_alpha,
        estimate_alpha,
        expected_tokens_per_round,
        optimal_gamma,
        speedup,
    )
    from .models.pairs import Pair, load_pair
    from .teach.grader import check_speculative_decode


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
