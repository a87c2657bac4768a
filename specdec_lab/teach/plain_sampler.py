"""Speculative sampling in its plainest form, so that the bug museum can spoil it one method at a time.

It is there to be read beside its spoilt copies, not to be used: like `PlainLoop` it checks no input and cannot do
without a draft that reads every token of the target. The package draws with `decoding/sampling.py`.
"""

from __future__ import annotations

from typing import Any

import torch

from specdec_lab.decoding.chance import Chance
from specdec_lab.decoding.distributions import keep_top_k, residual, softmax
from specdec_lab.decoding.sampling import Sampling

from .plain_loop import PlainLoop


class PlainSampler(PlainLoop):
    """Speculative sampling, one method a step. Taught in notebook 07.

    The round is that of `PlainLoop`: the draft guesses, one target pass verifies, what holds is committed, both
    caches are rolled back. What is new:

    1. `probabilities`, with `nucleus`: temperature, top-k and top-p, the same for target and draft;
    2. `propose`, with `guess`: each guess is drawn from q, and q is kept;
    3. `verify`: rows of p, one more than guesses;
    4. `judge`: a guess x is kept with probability min(1, p(x) ÷ q(x)), else replaced from what p has more than q;
    5. `agree`: the guesses are judged up to the first that is replaced;
    6. `bonus`: where none is, one more token comes from p.

    All randomness comes from `self.chance`. After `sample`, `total_accepted`, `total_drafted` and `rate()` say how
    many guesses were kept.

    Example:
        >>> from specdec_lab.decoding.chance import GeneratorChance
        >>> from specdec_lab.models.scripted import ScriptedModel, fixed
        >>> target, draft = (ScriptedModel(fixed([0.0, 0.5, 0.5]), 3) for _ in range(2))
        >>> sampler, chance = PlainSampler(), GeneratorChance(torch.Generator().manual_seed(0))
        >>> len(sampler.sample(target, draft, [0], 6, 2, None, Sampling(), chance)), sampler.rate()
        (6, 1.0)
    """

    def sample(
        self,
        target_model: Any,
        draft_model: Any,
        input_ids: list[int],
        max_new_tokens: int,
        gamma: int,
        eos_token_id: Any,
        sampling: Sampling,
        chance: Chance,
    ) -> list[int]:
        """The new tokens. Arguments are those of `specdec_lab.speculative_decode`, then how to draw and from what.
        Errors are whatever the models raise."""
        self.sampling, self.chance = sampling, chance
        sequence, _ = super().decode(
            target_model, draft_model, input_ids, max_new_tokens, gamma, eos_token_id
        )
        return sequence[len(input_ids) :]

    def decode(self, *arguments: Any) -> tuple[list[int], float]:
        """Not for a sampler: `TypeError`."""
        raise TypeError("a sampler needs a Sampling and a Chance: call sample(...), not decode(...)")

    # ------------------------------------------------------------ the steps that exhibits replace

    def probabilities(self, scores):
        p = softmax(scores, self.sampling.temperature)
        p = keep_top_k(p, self.sampling.top_k or 0)
        return self.nucleus(p)

    def nucleus(self, p):
        if self.sampling.top_p is None:
            return p
        ordered, ids = p.sort(dim=-1, descending=True, stable=True)
        reached = ordered.cumsum(dim=-1) >= self.sampling.top_p
        beyond = reached.roll(1, dims=-1)  # the token that crosses the threshold stays
        beyond[..., 0] = False
        kept = torch.zeros_like(p).scatter(-1, ids, ordered.masked_fill(beyond, 0.0))
        return kept / kept.sum(dim=-1, keepdim=True)

    def propose(self, sequence, room):
        drafted, self.q = [], []
        unread = sequence[self.draft.read :]
        while len(drafted) < room:
            scores = self.draft.feed(unread)[-1, : self.vocabulary]
            token, q = self.guess(scores)
            drafted.append(token)
            self.q.append(q)
            if token in self.ends:
                break
            unread = [token]
        return drafted

    def guess(self, scores):
        q = self.probabilities(scores)
        return self.chance.draw(q), q

    def verify(self, sequence, drafted):
        unread = sequence[self.target.read :]
        rows = self.target.feed(unread + drafted)
        return self.probabilities(rows[-1 - len(drafted) :])

    def judge(self, token, p, q):
        if self.chance.accept(min(1.0, float(p[token] / q[token]))):
            return True, token
        return False, self.chance.draw(residual(p, q))

    def agree(self, drafted, p):
        for agreed, token in enumerate(drafted):
            kept, self.own = self.judge(token, p[agreed], self.q[agreed])
            if not kept:
                return agreed
        self.own = self.bonus(p[-1])
        return len(drafted)

    def bonus(self, p):
        return self.chance.draw(p)

    def commit(self, drafted, p, agreed):
        return [*drafted[:agreed], self.own]
