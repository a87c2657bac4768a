"""EAGLE as a drafter: guesses from the target's own hidden states, as a chain or as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from specdec_lab.models.eagle import EagleDraft, EagleModel, TapRider
from specdec_lab.models.transformers_adapter import TransformersAdapter

from .chance import Chance
from .drafters import ModelDrafter, Proposal
from .tree_drafters import ConfidenceTreeDrafter

if TYPE_CHECKING:
    from .sampling import Sampling


class _ReadsTarget:
    """What makes a drafter of models one that reads the target: a rider, and features that are told.

    What was drafted stood on the draft's own features. The target's are there after its pass, so all of it is cut,
    and the confirmed tokens ride again on the next draft pass. The first round of a run drafts nothing.
    """

    _session: Any
    rider: TapRider

    @staticmethod
    def _model(target: Any, draft: EagleDraft) -> EagleModel:
        if not isinstance(draft, EagleDraft):
            raise TypeError(
                f"draft must be an EagleDraft, from load_eagle or trained, got {type(draft).__name__}"
            )
        return EagleModel(draft, target.model if isinstance(target, TransformersAdapter) else target)

    def start(self, prompt: list[int]) -> None:
        """Begin a run: nothing is known of the target yet."""
        super().start(prompt)
        self._session.model.forget()

    def propose(self, sequence: list[int], limit: int, chance: Chance) -> Proposal:
        """As a draft model's; nothing in the first round."""
        if not self._session.model.told:
            return Proposal()
        return super().propose(sequence, limit, chance)

    def commit(self, sequence: list[int], carried: torch.Tensor) -> None:
        """Keep what stands on the target's features; hear the new ones."""
        model = self._session.model
        self._session.roll_back(min(self._session.length, model.told + 1))
        if len(self.rider.before):
            model.tell(self.rider.before)
        model.tell(carried)


class EagleDrafter(_ReadsTarget, ModelDrafter):
    """Drafts a chain with an `EagleDraft`: one pass of one layer a token. Taught in notebook 11.

    Args:
        target: the transformers model that decodes; its embedding and some rows of its head are used.
        draft: an `EagleDraft` that fits it.
        eos_token_id, vocabulary, sampling: as in `ModelDrafter`.

    Raises:
        ValueError, TypeError: a draft that does not fit.

    Source: Li et al. 2024 (arXiv 2401.15077), 2025 (arXiv 2503.01840).

    Example:
        >>> drafter = EagleDrafter(pair.target, load_eagle("smollm2"))  # doctest: +SKIP
    """

    def __init__(
        self,
        target: Any,
        draft: EagleDraft,
        *,
        eos_token_id: Any = None,
        vocabulary: int | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        model = self._model(target, draft)
        super().__init__(model, eos_token_id=eos_token_id, vocabulary=vocabulary, sampling=sampling)
        self.rider = TapRider(draft.taps)


class EagleTreeDrafter(_ReadsTarget, ConfidenceTreeDrafter):
    """Drafts a tree with an `EagleDraft`, grown where the draft is confident. Taught in notebook 11.

    Args:
        target, draft: as in `EagleDrafter`.
        budget, depth, width, vocabulary: as in `ConfidenceTreeDrafter`.

    Raises:
        ValueError, TypeError: a draft that does not fit; a target that cannot verify trees is refused by the loop.

    Source: EAGLE-2, Li et al. 2024 (arXiv 2406.16858).

    Example:
        >>> drafter = EagleTreeDrafter(
        ...     pair.target, load_eagle("smollm2"), budget=8, depth=4
        ... )  # doctest: +SKIP
    """

    def __init__(
        self,
        target: Any,
        draft: EagleDraft,
        budget: int,
        depth: int,
        width: int = 4,
        *,
        vocabulary: int | None = None,
    ) -> None:
        super().__init__(self._model(target, draft), budget, depth, width, vocabulary=vocabulary)
        self.rider = TapRider(draft.taps)
