"""A right decoder that counts K at the end of the budget in the other way that is allowed."""

from __future__ import annotations

from specdec_lab.teach.plain_loop import PlainLoop


class DraftsToTheBudget(PlainLoop):
    """K = min(γ, wanted), and no bonus where the budget is used up."""

    def room(self, wanted):
        self.wanted = wanted
        return min(self.gamma, wanted)

    def commit(self, drafted, choices, agreed):
        return [*drafted[:agreed], choices[agreed]][: self.wanted]
