"""An EAGLE-style draft: one layer that reads the target's hidden states and guesses the next token, then the next.

What the target computed about a text says more about its continuation than the tokens alone. The draft has no
vocabulary of its own: it reads the target's embedding and guesses with rows of the target's head. How it is trained
is in `training/eagle.py`, how it drafts in `decoding/eagle.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedModel

from . import saved
from .cache import SlabCache, cut_cache, select_rows
from .taps import layers_of, tapped
from .transformers_adapter import added_mask, cache_keyword


class EagleDraft(nn.Module):
    """The network: (token embedding, feature of the token before) → feature that the head can read.

    A feature is what is known of a place: the target's hidden states there, fused, or where the target has not been
    yet, what this network found.

    Args:
        config: of a transformers decoder with one layer, as a dict with its "model_type".
        taps: where the target is tapped, in layers before each (`tapped`).
        vocabulary: how many tokens it can guess: the ids in `ids`, which are saved with the weights.

    Source: EAGLE, Li et al. 2024 (arXiv 2401.15077), features; EAGLE-3, Li et al. 2025 (arXiv 2503.01840), several
    taps fused, no loss on features, trained on its own guesses; FR-Spec, Zhao et al. 2025 (arXiv 2502.14856), a head of
    frequent tokens.

    Example:
        >>> draft = load_eagle("smollm2")  # doctest: +SKIP
        >>> draft.taps, len(draft.ids)  # doctest: +SKIP
        ((3, 16, 30), 8192)
    """

    def __init__(self, config: dict[str, Any], taps: list[int], vocabulary: int) -> None:
        super().__init__()
        self.sizes = {"config": config, "taps": list(taps), "vocabulary": vocabulary}
        self.taps = tuple(taps)
        made = AutoConfig.for_model(**config)
        self.body = AutoModel.from_config(made)
        self.body.set_input_embeddings(None)
        hidden, self.epsilon = made.hidden_size, made.rms_norm_eps
        self.tap_scales = nn.Parameter(torch.ones(len(taps), hidden))
        self.fuse = nn.Linear(len(taps) * hidden, hidden, bias=False)
        self.join = nn.Linear(2 * hidden, hidden, bias=False)
        self.register_buffer("ids", torch.zeros(vocabulary, dtype=torch.int32))
        self._keyword = cache_keyword(self.body)

    def features(self, hidden: torch.Tensor) -> torch.Tensor:
        """The target's hidden states (…, taps, hidden) → features (…, hidden)."""
        normed = F.rms_norm(hidden, hidden.shape[-1:], eps=self.epsilon).to(self.tap_scales.dtype)
        return self.fuse((normed * self.tap_scales).flatten(-2))

    def forward(
        self,
        embedded: torch.Tensor,
        features: torch.Tensor,
        cache: Any = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Embeddings of tokens and features of the places before them, (batch, n, hidden) each → features there."""
        parts = [F.rms_norm(x, x.shape[-1:], eps=self.epsilon) for x in (embedded, features)]
        joined = self.join(torch.cat([part.to(self.join.weight.dtype) for part in parts], dim=-1))
        more = {self._keyword: cache, "use_cache": cache is not None}
        found = self.body(
            inputs_embeds=joined, attention_mask=attention_mask, position_ids=position_ids, **more
        )
        return found.last_hidden_state

    def save(self, folder: str | Path) -> None:
        """Write weights in bfloat16, ids and sizes; the folder is made."""
        saved.save(self, self.sizes, folder)

    def check_fits(self, target: PreTrainedModel) -> None:
        """`ValueError` unless it was made for a target of this shape."""
        width = target.get_input_embeddings().weight.shape[1]
        own = self.sizes["config"]["hidden_size"]
        count, vocabulary = len(layers_of(target)[2]), target.get_output_embeddings().weight.shape[0]
        if width != own or self.taps[-1] > count or int(self.ids.max()) >= vocabulary:
            raise ValueError(
                f"draft was made for a target of hidden size {own} with {self.taps[-1]} layers or more and "
                f"{int(self.ids.max()) + 1} tokens or more, got {width}, {count} and {vocabulary}"
            )


def load_eagle(folder: str | Path = "smollm2", *, dtype: torch.dtype | None = None) -> EagleDraft:
    """The draft that `EagleDraft.save` wrote into a folder, or the bundled one (`training/eagle.py` makes it).

    Args:
        folder: where it is; "smollm2" for the bundled one, which belongs to the target of `load_pair("smollm2")`.
        dtype: of the loaded weights; bfloat16 unless given.

    Raises:
        ValueError: no draft there.

    Taught in notebook 11.

    Example:
        >>> draft = load_eagle("smollm2")  # doctest: +SKIP
    """
    return saved.load(EagleDraft, folder, "eagle", dtype or torch.bfloat16)


class TapRider:
    """Rides on the target's passes and brings its hidden states, (1, rows, taps, hidden).

    Attributes:
        before: after a pass, those of the tokens before these rows, (tokens, taps, hidden): most of a prompt.
    """

    def __init__(self, taps: tuple[int, ...]) -> None:
        self.taps = taps
        self.before: torch.Tensor | None = None

    @contextmanager
    def riding(self, model: Any, rows: int | None, *_: Any) -> Iterator[list[torch.Tensor]]:
        carried: list[torch.Tensor] = []
        with tapped(model, self.taps) as passes:
            yield carried
        rows = passes[0].shape[1] if rows is None else rows
        carried.append(passes[0][:, -rows:])
        self.before = passes[0][0, :-rows]


class EagleModel:
    """The draft as a model of tokens (`protocol.Model`), so that whatever drafts with a model drafts with it.

    A row needs the feature of the place before it. The target's are told; where they end, the network's own take their
    place. In a tree the place before a node is its parent's.

    Attributes:
        told: how many places the target's features are known of.
    """

    def __init__(self, draft: EagleDraft, target: PreTrainedModel) -> None:
        draft.check_fits(target)
        self.draft, self.told = copy.deepcopy(draft).to(target.device, target.dtype).eval(), 0
        self._embedding = target.get_input_embeddings()
        head = target.get_output_embeddings()
        if getattr(head, "bias", None) is not None:
            raise ValueError("target must have a head without bias")
        self._ids = draft.ids.long().to(head.weight.device)
        self._head = nn.Linear(head.weight.shape[1], len(self._ids), bias=False)
        self._head.weight = nn.Parameter(head.weight.detach()[self._ids], requires_grad=False)
        self.vocab_size: int = head.weight.shape[0]
        config = target.config.get_text_config(decoder=True)
        self.max_position_embeddings: int | None = getattr(config, "max_position_embeddings", None)
        self.name = f"the EAGLE draft of {config.model_type}"
        self._features: list[torch.Tensor] = []

    @property
    def device(self) -> torch.device:
        """Where input ids have to be."""
        return self._embedding.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return self._head.weight.dtype

    def forget(self) -> None:
        """A new text begins."""
        self.told, self._features = 0, []

    def tell(self, hidden: torch.Tensor) -> None:
        """The target's hidden states at the next places, (n, taps, hidden); its own guesses at features go."""
        del self._features[self.told :]
        with torch.inference_mode():
            self._features += self.draft.features(hidden).unbind()
        self.told = len(self._features)

    def forward(
        self,
        input_ids: torch.Tensor,
        use_cache: bool = True,
        past_key_values: Any = None,
        logits_to_keep: int | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> SimpleNamespace:
        """As the target's, over tokens that it may not have read yet. Logits are -inf where nothing can be guessed."""
        cache = SlabCache() if past_key_values is None else past_key_values
        first, count = cache.get_seq_length(), input_ids.shape[1]
        before = range(first - 1, first + count - 1)
        more: dict[str, Any] = {}
        if attention_mask is not None:
            seen = attention_mask[0, 0].clone()
            seen[torch.arange(count), torch.arange(first, first + count)] = False
            places = torch.arange(seen.shape[1], device=seen.device)
            before = (seen * places).amax(-1).tolist()
            more = {"attention_mask": added_mask(attention_mask, self.dtype), "position_ids": position_ids}
        nothing = self._head.weight.new_zeros(self._head.in_features)
        features = torch.stack([self._features[place] if place >= 0 else nothing for place in before])
        found = self.draft(self._embedding(input_ids), features[None], cache, **more)
        del self._features[max(self.told, first) :]
        self._features += found[0, max(self.told, first) - first :].unbind()
        rows = found if logits_to_keep is None else found[:, -logits_to_keep:]
        logits = rows.new_full((*rows.shape[:2], self.vocab_size), float("-inf"))
        logits[..., self._ids] = self._head(rows)
        return SimpleNamespace(logits=logits, past_key_values=cache)

    def truncate_cache(self, past_key_values: Any, valid_length: int) -> Any:
        """Roll back, in place."""
        return cut_cache(past_key_values, valid_length)

    def select_cache(self, past_key_values: Any, first: int, rows: list[int]) -> Any:
        """Keep positions 0…first-1 and then the given later ones, in place."""
        return select_rows(past_key_values, first, rows)
