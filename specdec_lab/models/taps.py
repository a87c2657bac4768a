"""What a model computes inside: hidden states tapped between its layers, on every pass and for every token.

Drafts that read the target's mind (EAGLE) are fed with them. A tap changes nothing in the pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel


def layers_of(model: PreTrainedModel) -> tuple[nn.Module, str, nn.ModuleList]:
    """The decoder of a model, the name of its list of layers there, and the list.

    Raises:
        ValueError: a family whose layers cannot be found.
    """
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    decoder = model.get_decoder()
    if decoder is model:  # a family that does not say
        decoder = getattr(model, "model", model)
    stacks = [
        (name, part)
        for name, part in decoder.named_children()
        if isinstance(part, nn.ModuleList) and len(part) == count
    ]
    if len(stacks) != 1:
        raise ValueError(f"model must have one list of layers, {type(decoder).__name__} has {len(stacks)}")
    return decoder, *stacks[0]


@contextmanager
def tapped(model: PreTrainedModel, taps: Sequence[int]) -> Iterator[list[torch.Tensor]]:
    """While it lasts, every pass adds one tensor to the list, (batch, tokens, taps, hidden).

    Args:
        taps: how many layers lie before each tap, in rising order; with all of them before it, a tap is behind the
            final norm and reads what the head reads.
    """
    decoder, _, layers = layers_of(model)
    if not taps or list(taps) != sorted(set(taps)) or not 1 <= taps[0] <= taps[-1] <= len(layers):
        raise ValueError(f"taps must be rising numbers from 1 to the {len(layers)} layers, got {tuple(taps)}")
    passes: list[torch.Tensor] = []
    caught: list[torch.Tensor] = []

    def layer_out(module: nn.Module, args: Any, output: Any) -> None:
        caught.append(output if isinstance(output, torch.Tensor) else output[0])

    def decoder_out(module: nn.Module, args: Any, output: Any) -> None:
        if taps[-1] == len(layers):
            caught.append(output[0])
        passes.append(torch.stack(caught, dim=2))
        caught.clear()

    with ExitStack() as hooks:
        for tap in taps:
            if tap < len(layers):
                hooks.callback(layers[tap - 1].register_forward_hook(layer_out).remove)
        hooks.callback(decoder.register_forward_hook(decoder_out).remove)
        yield passes
