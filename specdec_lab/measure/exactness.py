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
from specdec_lab.decoding.session import Session
from specdec_lab.models.protocol import as_model, model_dtype

from .divergence import (
    FAULT,
    TIE,
    Divergence,
    first_difference,
    first_divergence,
    in_float64,
    judge,
    one_ends,
)
from .law import Law, law, speculative_sampler, target_law
from .margins import Margins, choosing_rows, evaluate, gap_between, measure_margins

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
        new_tokens: how many the run produced.
        divergences: all of them in order, up to the first fault; empty if it equals plain decoding.
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
    max_new_tokens: int = 96,
    gamma: int = 4,
    eos_token_id: Any = None,
    *,
    decoder: Callable[..., tuple[list[int], float]] = speculative_decode,
    float64: bool = True,
) -> Certificate:
    """Compare a speculative decoder with plain greedy decoding, and judge every difference. Taught in notebook 08.

    Every token of the run is held against the choice of a plain cached step behind the run's own text (teacher
    forcing), so that one tie does not hide the rest, and nothing that a decoder carries along is reset. A run without
    a difference is plain decoding's output. It is examined up to the first fault.

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
    examine = _Examiner(target_model, max_new_tokens, gamma + 1, eos_token_id, float64)
    verdicts = []
    for number, prompt in enumerate(checked):
        output, _ = decoder(target_model, draft_model, list(prompt), max_new_tokens, gamma, eos_token_id)
        if list(output[: len(prompt)]) != prompt:
            raise ValueError(f"decoder must return the prompt followed by the new tokens, got {output!r:.80}")
        text = [int(token) for token in output[len(prompt) :]]
        verdicts.append(PromptVerdict(number, len(text), tuple(examine(prompt, text))))
    dtype = model_dtype(target)
    return Certificate(
        tuple(verdicts), None if dtype is None else str(dtype).removeprefix("torch."), gamma, max_new_tokens
    )


class _Examiner:
    """Looks at every token of a run. The text before it is taken as it is, so that one tie does not hide the rest."""

    def __init__(self, target: Any, wanted: int, block: int, eos_token_id: Any, float64: bool) -> None:
        self._target, self._wanted, self._block = target, wanted, block
        self._eos_token_id, self._ends = eos_token_id, check_end_tokens(eos_token_id)
        self._float64, self._twin = float64, None

    def __call__(self, prompt: list[int], text: list[int]) -> list[Divergence]:
        """All divergences, up to the first fault."""
        right, other_length = self._choices(prompt, text)
        indices = [i for i, (token, choice) in enumerate(zip(text, right, strict=False)) if token != choice]
        divergences: list[Divergence] = []
        if indices:
            plain = autoregressive_decode(self._target, prompt, self._wanted, self._eos_token_id)
            reference = evaluate(self._target, prompt, plain[len(prompt) :], self._block)
            found = evaluate(self._target, prompt, text[: len(right)], self._block)
        for index in indices:
            gap = self._gap_in_float64([*prompt, *text[:index]], right[index], text[index])
            divergences.append(judge(found, index, text[index], right[index], reference, gap))
            if divergences[-1].kind == FAULT:
                return divergences
        return divergences if other_length is None else [*divergences, other_length]

    def _choices(self, prompt: list[int], text: list[int]) -> tuple[list[int], Divergence | None]:
        """What a plain cached step chooses behind the run's own text, token by token, as far as the run should have
        gone; and a divergence if it went less far or further."""
        right: list[int] = []
        for row in choosing_rows(self._target, prompt, [*text, 0][: self._wanted], 1):
            place = len(right)
            if place == len(text):
                return right, one_ends(place, None, int(row.argmax()))
            right.append(int(row.argmax()))
            if text[place] in self._ends or not 0 <= text[place] < len(row):
                break  # nothing may follow an end token, and nothing can follow an id that the target does not have
        if len(text) > len(right):
            return right, one_ends(len(right), text[len(right)], None)
        return right, None

    def _gap_in_float64(self, sequence: list[int], plain_token: int, token: int) -> float:
        if self._float64 and self._twin is None:
            self._twin = in_float64(self._target)
        if self._twin is None:
            return float("nan")
        row = Session(self._twin).feed(sequence, rows=1)[0]
        return gap_between(row, plain_token, token) if 0 <= token < len(row) else float("nan")
