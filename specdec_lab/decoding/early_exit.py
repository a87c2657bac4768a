"""The target's own first layers as its draft: no second model, no second cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdec_lab.models.early_exit import CacheLender, exit_after
from specdec_lab.models.transformers_adapter import TransformersAdapter

from .chance import Chance
from .drafters import ModelDrafter, Proposal

if TYPE_CHECKING:
    from .sampling import Sampling


class EarlyExitDrafter(ModelDrafter):
    """Drafts with the target's first layers and its own head, in the target's own cache. Taught in notebook 11.

    Keys and values of the confirmed text are there already, so drafting costs a part of a target pass for each token
    and no prompt is read twice. The rows that drafting writes are cut before the target verifies: its pass writes all
    layers of them. The first round of a run drafts nothing, since the target has not read the prompt yet.

    Args:
        target: the transformers model that decodes.
        layers: how many of its layers, 1 or more and fewer than it has.
        eos_token_id, vocabulary, sampling: as in `ModelDrafter`.

    Raises:
        TypeError, ValueError: no such exit.

    Source: Elhoushi et al. 2024, LayerSkip (arXiv 2404.16710), which trains the model to be left early; here it is used
    as it is. Draft & Verify (Zhang et al. 2023, arXiv 2309.08168) drafts with the same model too, but skips chosen
    layers in the middle instead of leaving early.

    Example:
        >>> drafter = EarlyExitDrafter(pair.target, layers=4)  # doctest: +SKIP
    """

    def __init__(
        self,
        target: Any,
        layers: int,
        *,
        eos_token_id: Any = None,
        vocabulary: int | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        target = target.model if isinstance(target, TransformersAdapter) else target
        shallow = exit_after(target, layers)
        super().__init__(shallow, eos_token_id=eos_token_id, vocabulary=vocabulary, sampling=sampling)
        self.layers, self.rider = layers, CacheLender(target)

    @property
    def cache_length(self) -> None:
        """None: it has no cache of its own."""

    def start(self, prompt: list[int]) -> None:
        """Begin a run: the target has read nothing yet."""
        super().start(prompt)
        self.rider.forget()

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """As a draft model's; nothing in the first round."""
        cache, held = self.rider.first(self.layers), len(sequence) - 1
        if cache is None:
            return Proposal()
        self._session.continue_in(cache, held)
        try:
            return super().propose(sequence, limit, chance)
        finally:
            self._session.roll_back(held)
            self._session.continue_in(None, 0)

    def commit(self, sequence: list[int], carried: Any = None) -> None:
        """Nothing to do: the target rolls its cache back itself."""
