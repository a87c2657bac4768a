"""Decoders without a label, for those who want to find out by themselves: suspects, innocents, and a line-up of both.

A suspect can be called and printed, and says nothing of itself. Some are exhibits of the museum with the label turned
to the wall; one hangs nowhere else. Nothing is judged here, and what a decoder shows is counted in `symptoms.py`.
"""

from __future__ import annotations

from typing import Any

from specdec_lab.decoding.greedy import speculative_decode

from .audit import Decoder
from .museum import get_exhibit, label
from .plain_loop import PlainLoop, Reader

# ---------------------------------------------------------------- what can be printed


class Suspect:
    """A decoder of which only a title can be seen. Taught in notebook 12.

    Called like `speculative_decode`. Copies of it are the suspect itself, so that one and the same person is counted.

    Args:
        title: what it prints as.
        decode: the decoder.
        name: of the exhibit that it is; "" if it hangs nowhere.

    Attributes:
        calls: how often it was called.
    """

    def __init__(self, title: str, decode: Decoder, name: str = "") -> None:
        self.title, self.__name__, self.calls = title, title, 0
        self._ask = lambda *arguments: decode(*arguments)  # a bound method would print its owner
        self._turn_over = lambda: name

    def __call__(self, *arguments: Any) -> tuple[list[int], float]:
        self.calls += 1
        return self._ask(*arguments)

    def __repr__(self) -> str:
        return self.title

    def __deepcopy__(self, memo: Any) -> Suspect:
        return self

    def turn_over(self) -> str:
        """What stands on its label: name, story, reports, what the grader finds, and the difference to the correct loop."""
        name = self._turn_over()
        return label(name) if name else f"{self.title}: there is nothing on the label."


# ---------------------------------------------------------------- suspects

# The order of the visit in notebook 12. Whoever reads on has seen the labels.
_VISIT = {
    "A": "accepts_past_disagreement",
    "B": "bonus_counted",
    "C": "bonus_lost",
    "D": "hole_in_draft_cache",
    "E": "end_token_only_last",
}


def unlabelled(letter: str = "X") -> Suspect:
    """A suspect: "A" to "E" are exhibits of the museum, "X" hangs nowhere else, "Y" does what X does in another build.
    `ValueError` for any other letter. Taught in notebook 12.

    >>> suspect = unlabelled()
    >>> suspect
    suspect X
    >>> print(suspect.turn_over())
    suspect X: there is nothing on the label.
    """
    title = f"suspect {letter}"
    if letter in _VISIT:
        return Suspect(title, get_exhibit(_VISIT[letter]).decode, _VISIT[letter])
    if letter not in _NOWHERE_ELSE:
        raise ValueError(f"letter must be one of {', '.join([*_VISIT, *_NOWHERE_ELSE])}, got {letter!r}")
    loop = _NOWHERE_ELSE[letter]
    return Suspect(title, lambda *arguments: loop().decode(*arguments))


# ---------------------------------------------------------------- innocents


class DraftsToTheBudget(PlainLoop):
    """K = min(γ, wanted), and no bonus where the budget is used up."""

    def room(self, wanted):
        self.wanted = wanted
        return min(self.gamma, wanted)

    def commit(self, drafted, choices, agreed):
        return super().commit(drafted, choices, agreed)[: self.wanted]


class _ReadsAhead(PlainLoop):
    """Both models are fed the prompt up front, short of its last token, where there is anything to feed."""

    def start(self, target_model, draft_model, input_ids):
        sequence = super().start(target_model, draft_model, input_ids)
        for reader in (self.target, self.draft):
            if sequence[:-1]:
                reader.feed(sequence[:-1])
        return sequence


class _CatchesUp(PlainLoop):
    """The draft reads its own last guess at once, in a pass for that alone."""

    def propose(self, sequence, room):
        drafted = super().propose(sequence, room)
        if drafted:
            self.draft.feed(drafted[-1:])
        return drafted


def _first_from_the_prompt(target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id):
    """The target reads the prompt and names the first token; rounds begin behind it."""
    reader = Reader(target_model)
    first = int(reader.feed(list(input_ids))[-1].argmax())

    class Begun(PlainLoop):
        def start(self, *models_and_ids):
            sequence = super().start(*models_and_ids)
            self.target = reader
            return sequence

    begun = [*input_ids, first]
    if max_new_tokens == 1 or first in PlainLoop().read_end_tokens(eos_token_id):
        return begun, 0.0
    return Begun().decode(target_model, draft_model, begun, max_new_tokens - 1, gamma, eos_token_id)


def innocents() -> list[Suspect]:
    """Correct decoders of five different makes. Taught in notebook 12.

    >>> innocents()[1]
    right (drafts to the budget)
    """
    makes = {
        "the package's": speculative_decode,
        "drafts to the budget": DraftsToTheBudget().decode,
        "reads the prompt up front": _ReadsAhead().decode,
        "catches up at once": _CatchesUp().decode,
        "first token from the prompt": _first_from_the_prompt,
    }
    return [Suspect(f"right ({make})", decode) for make, decode in makes.items()]


def line_up(*names: str) -> list[Suspect]:
    """All innocents, then the exhibits of these names, which they print as. `ValueError` for an unknown name.
    Taught in notebook 12.

    >>> line_up("bonus_lost")[-2:]
    [right (first token from the prompt), bonus_lost]
    """
    return [*innocents(), *(Suspect(name, get_exhibit(name).decode, name) for name in names)]


# ---------------------------------------------------------------- the one without a label: read on when you have a test


class _Unlabelled(PlainLoop):
    def start(self, target_model, draft_model, input_ids):
        self.sequence = super().start(target_model, draft_model, input_ids)
        return self.sequence

    def stop_at_end(self, emitted):
        kept, _ = super().stop_at_end(emitted)
        return kept, any(token in self.ends for token in self.sequence + kept)


class _OtherBuild(_Unlabelled, _ReadsAhead):
    pass


_NOWHERE_ELSE = {"X": _Unlabelled, "Y": _OtherBuild}
