"""Reading a clock honestly: wait for the accelerator first. No timing policy lives here."""

from __future__ import annotations

import time

import torch


def synchronise(device: torch.device) -> None:
    """Wait until `device` has finished its work; nothing to wait for on the CPU."""
    if device.type == "cpu":
        return
    backend = getattr(torch, device.type, None)  # torch.cuda, torch.mps, torch.xpu, …
    if not hasattr(backend, "synchronize"):
        return
    if device.type == "mps":  # there is one, and it takes no argument
        backend.synchronize()
    else:
        backend.synchronize(device)


def read_clock(devices: set[torch.device]) -> float:
    """Seconds on `time.perf_counter`, read once every device has finished (bigscience-workshop/petals PR 456)."""
    for device in devices:
        synchronise(device)
    return time.perf_counter()
