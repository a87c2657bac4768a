"""One run of a decoder on scripted models, written down: what it was asked, what came, what the models saw.

Also the truth about it, found by following the target's rule without any decoding, and the counts that a correct
decoder may show. It judges nothing; `judgements.py` does.
"""

from __future__ import annotations

import ctypes
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from specdec_lab.decoding.checks import check_end_tokens
from specdec_lab.models.scripted import NextToken, ScriptedModel, hash_of_prefix, wrong_when

# A decoder has the signature and the answer of `specdec_lab.speculative_decode`; arguments come by position.
Decoder = Callable[..., tuple[list[int], float]]

VOCABULARY = 53
HASH = hash_of_prefix(VOCABULARY)  # depends on every token before, so a wrong cache shows
PROMPT = (3, 1, 4, 1, 5)
DRAFTS: dict[str, Callable[[int], bool]] = {  # where the draft errs, by position of the predicted token
    "always agrees": lambda position: False,
    "agrees about half the time": lambda position: position % 11 in (0, 2, 3, 4, 6),
    "never agrees": lambda position: True,
}
AGREES, HALF, NEVER = DRAFTS
_PACKAGE = Path(__file__).resolve().parents[1]
SECONDS = 10.0  # a run takes milliseconds; one that is silent for so long is in an endless loop


class TooManyCalls(RuntimeError):
    """A decoder called a model so often that it cannot be on its way to an answer."""


class AuditedModel(ScriptedModel):
    """A scripted model that notes what its cache held before each pass, and stops a decoder that calls it forever.

    Args:
        order: a list that models share; each pass adds the name of its model.

    Attributes:
        passes_seen: for each pass (tokens in the cache before it, tokens fed).
    """

    def __init__(
        self,
        name: str,
        rule: NextToken,
        vocab_size: int,
        most_calls: int,
        order: list[str] | None = None,
    ) -> None:
        super().__init__(rule, vocab_size)
        self.name, self.most_calls = name, most_calls
        self.order = [] if order is None else order
        self.passes_seen: list[tuple[list[int], list[int]]] = []

    def forward(
        self, input_ids: Any, use_cache: bool = True, past_key_values: list[int] | None = None
    ) -> Any:
        """As `ScriptedModel.forward`; `TooManyCalls` where it cannot be called for."""
        if len(self.calls) >= self.most_calls:
            raise TooManyCalls(f"it called the {self.name} {self.most_calls} times and was not done")
        if not isinstance(input_ids, torch.Tensor):
            raise TypeError(f"forward takes a tensor of shape (1, n), got a {type(input_ids).__name__}")
        held = list(past_key_values or ())
        output = super().forward(input_ids, use_cache, past_key_values)
        self.passes_seen.append((held, input_ids[0].tolist()))
        self.order.append(self.name)
        return output

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Not what a model here is for; the words are for whoever knows models from elsewhere."""
        raise TypeError(
            f"the {self.name} was called as model(…), and has to be as model.forward(tensor of shape (1, n), "
            "use_cache=True, past_key_values=cache)"
        )

    def truncate_cache(self, past_key_values: list[int], valid_length: int) -> list[int]:
        """Cuts in place and returns the cache as well, so that it does not matter which of the two is relied on."""
        super().truncate_cache(past_key_values, valid_length)
        return past_key_values


@dataclass(frozen=True)
class Case:
    """What a decoder is asked, and the truth about it. `ends` is handed over as `eos_token_id`, as it stands; with
    `end_at` it is the new token of that number, 1 for the first. `special_draft` makes the draft's rule from the case,
    and `draft` then only says what it does."""

    new_tokens: int
    gamma: int
    draft: str = AGREES
    prompt: tuple[int, ...] = PROMPT
    ends: Any = None
    rule: NextToken = HASH
    special_draft: Callable[[Case], NextToken] | None = None
    draft_vocabulary: int = VOCABULARY
    end_at: int | None = None

    def __post_init__(self) -> None:
        if self.end_at is not None:
            object.__setattr__(self, "ends", follow(self.rule, self.prompt, self.end_at)[-1])

    @cached_property
    def draft_rule(self) -> NextToken:
        """prefix → the draft's guess."""
        if self.special_draft:
            return self.special_draft(self)
        return wrong_when(self.rule, VOCABULARY, DRAFTS[self.draft])

    def models(self) -> tuple[AuditedModel, AuditedModel]:
        """Target and draft, new. They share one `order`."""
        most, order = 20 + 3 * self.new_tokens * (self.gamma + 2), []
        return (
            AuditedModel("target", self.rule, VOCABULARY, most, order),
            AuditedModel("draft", self.draft_rule, self.draft_vocabulary, most, order),
        )

    def truth(self) -> list[int]:
        """The prompt and the target's own greedy text, by following its rule."""
        return follow(self.rule, self.prompt, self.new_tokens, check_end_tokens(self.ends))

    def __str__(self) -> str:
        end = "" if self.ends is None else f", eos_token_id={self.ends}"
        return (
            f"prompt {short(self.prompt)}, max_new_tokens={self.new_tokens}, gamma={self.gamma}{end} and a draft "
            f"that {self.draft}"
        )


@dataclass(frozen=True)
class Run:
    """What came of a case. `problem` says in words why there is no answer to look at, if there is none, and `where` the
    line of the decoder's own code that was the last to run before an error."""

    case: Case
    given: list[int]
    sequence: list[int]
    rate: float
    target: AuditedModel
    draft: AuditedModel
    problem: str | None = None
    error: BaseException | None = None
    where: str = ""


def run_case(decoder: Decoder, case: Case, seconds: float | None = None) -> Run:
    """Call the decoder on the scripted pair of a case; whatever it does, a `Run` comes back, at the latest after
    `seconds` (None: `SECONDS`)."""
    seconds = SECONDS if seconds is None else seconds
    target, draft = case.models()
    given = list(case.prompt)
    answer, error = call_within(
        seconds, lambda: decoder(target, draft, given, case.new_tokens, case.gamma, case.ends)
    )
    sequence, rate, problem, where = [], 0.0, None, ""
    if error is not None:
        problem, where = error_in_words(error, seconds), last_line(error)
        error.with_traceback(None)  # it would hold on to all that the call had
    else:
        try:
            sequence, rate = answer
            sequence, rate = [int(token) for token in sequence], float(rate)
        except (TypeError, ValueError):
            shown = repr(answer)
            shown = shown if len(shown) <= 60 else shown[:57] + "..."
            problem = f"it returned {shown}, not a pair (list of token ids, acceptance rate)."
            sequence, rate = [], 0.0
    return Run(case, given, sequence, rate, target, draft, problem, error, where)


def error_in_words(error: BaseException, seconds: float) -> str:
    if isinstance(error, TooManyCalls):
        return f"{error}; is there a round that adds nothing?"
    if isinstance(error, TimeoutError):
        return f"no answer after {seconds:g} seconds; is there a loop without an end?"
    said = f"{type(error).__name__}: {error}".rstrip(": .")
    return f"it raised {said}."


def last_line(error: BaseException) -> str:
    """The innermost line of an error's way that is neither of this package nor installed."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [f for f in frames if _PACKAGE not in Path(f.filename).resolve().parents]
    own = [f for f in foreign if not {"site-packages", "dist-packages"} & set(Path(f.filename).parts)]
    return f"line {own[-1].lineno} of {Path(own[-1].filename).name}" if own else ""


def call_within(seconds: float, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """(answer, None) or (None, the error), `TimeoutError` after so many seconds. The call has a thread of its own,
    because only a thread can be told to stop from outside, on every system."""
    answer: list[Any] = []
    error: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(call())
        except BaseException as caught:
            error.append(caught)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        worker.join(seconds)
    finally:
        if worker.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(worker.ident), ctypes.py_object(SystemExit)
            )
            error.insert(0, TimeoutError())
    return (None, error[0]) if error else (answer[0], None)


# ---------------------------------------------------------------- what a correct decoder may do


@dataclass(frozen=True)
class Counts:
    """Rounds, drafted and accepted tokens of one correct way to decode a case."""

    rounds: int
    drafted: int
    accepted: int

    @property
    def rate(self) -> float:
        """accepted ÷ drafted, 0.0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0


def allowed_counts(case: Case) -> list[Counts]:
    """The correct ways: K = min(γ, wanted - 1) or min(γ, wanted), and the first token speculated upon like any other
    or taken from a prefill of the target."""
    return [_counts(case, spare, from_prefill) for spare in (1, 0) for from_prefill in (0, 1)]


def _counts(case: Case, spare: int, from_prefill: int) -> Counts:
    text, ends = case.truth(), check_end_tokens(case.ends)
    full, position = len(case.prompt) + case.new_tokens, len(case.prompt) + from_prefill
    rounds = drafted = accepted = 0
    while position < len(text):
        room = min(case.gamma, full - position - spare)
        guesses = follow(case.draft_rule, text[:position], room, ends)[position:]
        agreed = common_length(guesses, text[position:])
        rounds, drafted, accepted = rounds + 1, drafted + len(guesses), accepted + agreed
        position += agreed + 1
    return Counts(rounds, drafted, accepted)


# ---------------------------------------------------------------- sequences


def follow(
    rule: NextToken, prefix: Sequence[int], count: int, ends: frozenset[int] = frozenset()
) -> list[int]:
    """`prefix` and up to `count` tokens by the rule, none behind an end token."""
    sequence = list(prefix)
    for _ in range(count):
        sequence.append(int(rule(sequence)))
        if sequence[-1] in ends:
            break
    return sequence


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many items two sequences have in common from the start."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def short(tokens: Sequence[int], most: int = 6) -> str:
    """The first few tokens, for a sentence."""
    return f"[{', '.join(map(str, tokens[:most]))}{', …' if len(tokens) > most else ''}]"
