"""Whether a decoder is exact: a greedy run against plain decoding (`certify`), a sampler against the law of the
target (`law`, from `law.py`).

Nothing is excused in advance, and no noise is taken from the run that is being judged: `divergence.py`, `margins.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specdec_lab.decoding.checks import check_count, check_end_tokens, check_fits, check_input_ids
from specdec_lab.decoding.greedy import autoregressive_decode, speculative_decode
from specdec_lab.models.protocol import as_model, model_dtype

from .divergence import FAULT, TIE, Divergence, Judge, first_difference, first_divergence
from .law import Law, law, speculative_sampler, target_law
from .margins import Margins, measure_margins

__all__ = [
    "Certificate",
    "Divergence",
    "Law",
    "Margins",
    "PromptVerdict",
    "certify",
    "first_difference",
    "first_divergence",
    "law",
    "measure_margins",
    "speculative_sampler",
    "target_law",
]


@dataclass(frozen=True)
class PromptVerdict:
    """What `certify` found for one prompt.

    Attributes:
        prompt: its number, from 0.
        new_tokens: how many plain decoding produced.
        divergences: all of them in order, up to the first fault; empty if the two outputs are equal.
    """

    prompt: int
    new_tokens: int
    divergences: tuple[Divergence, ...]

    @property
    def verdict(self) -> str:
        """ "equal", "tie" (rounding explains every difference) or "fault"."""
        kinds = {divergence.kind for divergence in self.divergences}
        return FAULT if FAULT in kinds else TIE if kinds else "equal"

    def __str__(self) -> str:
        if not self.divergences:
            return f"prompt {self.prompt}: equal, {self.new_tokens} tokens"
        found = "; ".join(map(str, self.divergences))
        return f"prompt {self.prompt}: {self.verdict}, {self.new_tokens} tokens; {found}"


@dataclass(frozen=True)
class Certificate:
    """The verdicts on all prompts. `str` of it is the whole report.

    Attributes:
        prompts: one verdict each, in order.
        dtype: of the target's weights, "float32" and so on; None for a model without weights.
        gamma, max_new_tokens: as given.
    """

    prompts: tuple[PromptVerdict, ...]
    dtype: str | None
    gamma: int
    max_new_tokens: int

    @property
    def equal(self) -> int:
        """How many prompts came out equal, token for token."""
        return self._count("equal")

    @property
    def ties(self) -> int:
        """How many differ, and rounding explains every difference."""
        return self._count(TIE)

    @property
    def faults(self) -> int:
        """How many differ where rounding cannot be the reason."""
        return self._count(FAULT)

    @property
    def lossless(self) -> bool:
        """Whether there is no fault."""
        return self.faults == 0

    def to_frame(self):
        """A pandas DataFrame with one row for each divergence, and one for each prompt without any."""
        import pandas as pd

        rows = []
        for prompt in self.prompts:
            rows += [
                {
                    "prompt": prompt.prompt,
                    "verdict": found.kind if found else "equal",
                    "index": found.index if found else None,
                    "token": found.token if found else None,
                    "plain_token": found.plain_token if found else None,
                    "gap": found.gap if found else float("nan"),
                    "gap_block": found.gap_block if found else float("nan"),
                    "gap_float64": found.gap_float64 if found else float("nan"),
                    "noise": found.noise if found else float("nan"),
                }
                for found in prompt.divergences or (None,)
            ]
        whole = {"index": "Int64", "token": "Int64", "plain_token": "Int64"}
        return pd.DataFrame(rows).astype(whole)

    def __str__(self) -> str:
        head = (
            f"{len(self.prompts)} prompts{f' in {self.dtype}' if self.dtype else ''}, gamma {self.gamma}, up to "
            f"{self.max_new_tokens} new tokens: {self.equal} equal, {self.ties} differ by ties, {self.faults} by faults"
        )
        return "\n".join([head, *(str(prompt) for prompt in self.prompts if prompt.divergences)])

    def _count(self, verdict: str) -> int:
        return sum(prompt.verdict == verdict for prompt in self.prompts)


def certify(
    target_model: Any,
    draft_model: Any,
    prompts: Sequence[Any],
    max_new_tokens: int,
    gamma: int,
    eos_token_id: Any,
    *,
    decoder: Callable[..., tuple[list[int], float]] = speculative_decode,
    float64: bool = True,
) -> Certificate:
    """Compare a speculative decoder with plain greedy decoding, and judge every difference. Taught in notebook 08.

    Behind a tie the comparison goes on from plain decoding's text, so that one tie does not hide the rest; it
    ends at the first fault, or where plain decoding ends.

    Args:
        target_model, draft_model, max_new_tokens, gamma, eos_token_id: as in `speculative_decode`.
        prompts: one or more prompts of ids.
        decoder: what is judged, called as `speculative_decode` is and returning the same.
        float64: whether to evaluate a difference once more in float64; takes a copy of the target of twice to
            four times its size, and only where there is a difference.

    Returns:
        a `Certificate`.

    Raises:
        ValueError, TypeError: bad input, before the first pass.

    Example:
        >>> from specdec_lab.models.scripted import ScriptedModel, hash_of_prefix, last_token
        >>> models = ScriptedModel(hash_of_prefix(50), 50), ScriptedModel(last_token(1, 50), 50)
        >>> print(certify(*models, [[1, 2], [3]], 20, 4, None))
        2 prompts, gamma 4, up to 20 new tokens: 2 equal, 0 differ by ties, 0 by faults
    """
    target = as_model(target_model, "target_model")
    max_new_tokens, gamma = check_count(max_new_tokens, "max_new_tokens"), check_count(gamma, "gamma")
    check_end_tokens(eos_token_id)
    checked = [check_input_ids(prompt, f"prompts[{i}]") for i, prompt in enumerate(prompts)]
    if not checked:
        raise ValueError("prompts must hold at least one prompt, got none")
    for i, prompt in enumerate(checked):
        check_fits(target, prompt, max_new_tokens, f"prompts[{i}]")
    judge = Judge(target_model, gamma + 1, float64)
    verdicts = []
    for number, prompt in enumerate(checked):
        plain = autoregressive_decode(target_model, prompt, max_new_tokens, eos_token_id)[len(prompt) :]
        divergences: list[Divergence] = []
        known = 0  # so much of plain decoding's text is given to the decoder
        while known < len(plain):
            forced = [*prompt, *plain[:known]]
            output, _ = decoder(
                target_model, draft_model, forced, max_new_tokens - known, gamma, eos_token_id
            )
            index = first_difference(output[len(forced) :], plain[known:])
            if index is None:
                break
            divergences.append(judge(prompt, [*plain[:known], *output[len(forced) :]], plain, known + index))
            if divergences[-1].kind == FAULT:
                break
            known += index + 1
        verdicts.append(PromptVerdict(number, len(plain), tuple(divergences)))
    dtype = model_dtype(target)
    return Certificate(
        tuple(verdicts), None if dtype is None else str(dtype).removeprefix("torch."), gamma, max_new_tokens
    )
