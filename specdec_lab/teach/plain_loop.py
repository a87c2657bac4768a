"""The correct loop once more, in its plainest form, so that the bug museum can spoil it one method at a time.

It is there to be read beside its spoilt copies, not to be used: it checks no input, leaves the mode of the models
alone, and cannot do without a draft that reads every token of the target. The package decodes with
`decoding/loop.py`.
"""

from __future__ import annotations

from typing import Any

import torch

from specdec_lab.decoding.checks import check_end_tokens
from specdec_lab.models.protocol import as_model, model_device, vocabulary_size


class Reader:
    """A model and its cache.

    Attributes:
        read: how many tokens of the sequence the model has been fed and still remembers.
    """

    def __init__(self, model: Any) -> None:
        self.model = as_model(model)
        self.device = model_device(self.model)
        self.cache = None
        self.read = 0

    def feed(self, tokens: list[int]) -> torch.Tensor:
        """One pass over `tokens`, which follow what the model has read. Row i, (n, vocab), scores what comes
        behind token i."""
        with torch.inference_mode():
            ids = torch.tensor([tokens], device=self.device)
            output = self.model.forward(ids, use_cache=True, past_key_values=self.cache)
        self.cache = output.past_key_values
        self.read += len(tokens)
        return output.logits[0]

    def cut(self, length: int) -> None:
        """Forget everything behind the first `length` positions."""
        if length < self.read:
            kept = self.model.truncate_cache(self.cache, length)
            self.cache = self.cache if kept is None else kept
            self.read = length


class PlainLoop:
    """Greedy speculative decoding, one method a step. Taught in notebook 04 (roll-back).

    Every exhibit of the museum is this class with one method replaced. In the words of the problem statement:

    1. `room` and `propose`: the draft guesses up to γ tokens one after another, up to an end token;
    2. `verify`: one pass of the target over what it has not read and all guesses, one choice more than guesses;
    3. `agree`: the guesses up to the first difference; `commit`: those, then the target's own token;
    4. `commit` again: that own token is the bonus where all agreed;
    5. `roll_back_target`, `roll_back_draft`: both caches keep the sequence short of its last token, which has
       been chosen but not fed;
    6. `stop_at_end`: nothing follows an end token.

    `start` sets up the run, `read_end_tokens` takes an id, several or None, and `count` and `rate` keep the
    acceptance rate.

    Example:
        >>> from specdec_lab.models.scripted import ScriptedModel, last_token
        >>> target, draft = (ScriptedModel(last_token(1, 10), 10) for _ in range(2))
        >>> PlainLoop().decode(target, draft, [3], 4, 2, None)
        ([3, 4, 5, 6, 7], 1.0)
    """

    def decode(
        self,
        target_model: Any,
        draft_model: Any,
        input_ids: list[int],
        max_new_tokens: int,
        gamma: int,
        eos_token_id: Any,
    ) -> tuple[list[int], float]:
        """Return the prompt followed by the new tokens, and the acceptance rate: what `speculative_decode` does.

        Arguments are those of `specdec_lab.speculative_decode`. Errors are whatever the models raise.
        """
        self.gamma, self.ends = gamma, self.read_end_tokens(eos_token_id)
        self.vocabulary = vocabulary_size(as_model(target_model))
        self.total_drafted = self.total_accepted = 0
        sequence = self.start(target_model, draft_model, input_ids)
        full, ended = len(sequence) + max_new_tokens, False
        while len(sequence) < full and not ended:
            drafted = self.propose(sequence, self.room(full - len(sequence)))
            choices = self.verify(sequence, drafted)
            agreed = self.agree(drafted, choices)
            emitted, ended = self.stop_at_end(self.commit(drafted, choices, agreed))
            self.count(drafted, agreed)
            sequence += emitted
            self.roll_back_target(sequence)
            self.roll_back_draft(sequence)
        return sequence, self.rate()

    # ------------------------------------------------------------ the steps that exhibits replace

    def read_end_tokens(self, eos_token_id):
        return check_end_tokens(eos_token_id)

    def start(self, target_model, draft_model, input_ids):
        self.target, self.draft = Reader(target_model), Reader(draft_model)
        return list(input_ids)

    def room(self, wanted):
        return min(self.gamma, wanted - 1)

    def propose(self, sequence, room):
        drafted = []
        unread = sequence[self.draft.read :]
        while len(drafted) < room:
            scores = self.draft.feed(unread)[-1]
            token = int(scores[: self.vocabulary].argmax())
            drafted.append(token)
            if token in self.ends:
                break
            unread = [token]
        return drafted

    def verify(self, sequence, drafted):
        unread = sequence[self.target.read :]
        rows = self.target.feed(unread + drafted)
        return rows[-1 - len(drafted) :].argmax(dim=-1).tolist()

    def agree(self, drafted, choices):
        agreed = 0
        while agreed < len(drafted) and drafted[agreed] == choices[agreed]:
            agreed += 1
        return agreed

    def commit(self, drafted, choices, agreed):
        return [*drafted[:agreed], choices[agreed]]

    def stop_at_end(self, emitted):
        kept = []
        for token in emitted:
            kept.append(token)
            if token in self.ends:
                return kept, True
        return kept, False

    def count(self, drafted, agreed):
        self.total_drafted += len(drafted)
        self.total_accepted += agreed

    def rate(self):
        if not self.total_drafted:
            return 0.0
        return self.total_accepted / self.total_drafted

    def roll_back_target(self, sequence):
        self.target.cut(len(sequence) - 1)

    def roll_back_draft(self, sequence):
        self.draft.cut(len(sequence) - 1)
