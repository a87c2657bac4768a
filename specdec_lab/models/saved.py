"""A folder with a small network that sits on a target: its weights, and the sizes that it is made with."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specdec_lab.files import ASSETS


def save(network: nn.Module, sizes: dict[str, Any], folder: str | Path) -> None:
    """Write the weights in bfloat16 (whole numbers as they are), and the arguments of the network's class; the folder is made."""
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: (weight.to(torch.bfloat16) if weight.is_floating_point() else weight).detach().contiguous()
        for name, weight in network.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")


def load(made: type, folder: str | Path, what: str, dtype: torch.dtype | None) -> Any:
    """What `save` wrote, in eval mode; a plain name is a bundled one, `assets/<name>-<what>`.

    Raises:
        ValueError: nothing there that the class can be made of.
    """
    from safetensors.torch import load_file

    bundled = ASSETS / f"{folder}-{what}"
    folder = bundled if str(folder).isidentifier() and bundled.is_dir() else Path(folder)
    config, weights = folder / "config.json", folder / "model.safetensors"
    sizes = json.loads(config.read_text(encoding="utf-8")) if config.is_file() and weights.is_file() else None
    if not isinstance(sizes, dict) or set(sizes) != set(inspect.signature(made).parameters):
        raise ValueError(
            f"folder must hold {made.__name__}, as their `save` writes them, got {str(folder)!r}"
        )
    network = made(**sizes)
    network.load_state_dict(load_file(weights))
    return network.to(dtype or torch.float32).eval()
