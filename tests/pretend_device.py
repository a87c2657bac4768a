"""Devices that are not there: tensors that say they are on `meta:0`, `meta:1`, … and hold their numbers on the CPU.

What would go wrong beside an accelerator goes wrong here: an operation over tensors of two devices raises, and every
read by the host is counted. Nothing is asynchronous, and `inference_mode`, under which such tensors cannot be viewed,
is `no_grad` meanwhile.
"""

from __future__ import annotations

from collections import Counter
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

MOVES = {"aten::to", "aten::_to_copy", "aten::copy_"}
HERE = torch.device("cpu")


class Away(torch.Tensor):
    """A tensor on a device that is not there; `held` is the real one."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor, device: torch.device, reads: Counter):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=device,
        )

    def __init__(self, held: torch.Tensor, device: torch.device, reads: Counter) -> None:
        self.held, self.reads = held, reads

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        leaves = tree_leaves((args, kwargs or {}))
        home = next(leaf for leaf in leaves if isinstance(leaf, Away))
        name = func._schema.name
        # a single number on the CPU may meet any device
        devices = {leaf.device for leaf in leaves if isinstance(leaf, Away)}
        devices |= {leaf.device for leaf in leaves if type(leaf) is torch.Tensor and leaf.dim()}
        if len(devices) > 1 and name not in MOVES:
            raise RuntimeError(f"{name} over tensors on {', '.join(sorted(map(str, devices)))}")
        device = next((leaf for leaf in leaves if isinstance(leaf, torch.device)), home.device)
        if (
            name in ("aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::equal")
            or device == HERE
        ):
            home.reads[str(home.device)] += 1
        result = func(*tree_map(_really, args), **tree_map(_really, kwargs or {}))
        if name.endswith("_"):
            return args[0]
        if device == HERE:
            return result
        return tree_map(
            lambda leaf: cls(leaf, device, home.reads) if type(leaf) is torch.Tensor else leaf, result
        )


def _really(leaf):
    """What the operation is done with: numbers and devices of the CPU."""
    if isinstance(leaf, Away):
        return leaf.held
    return HERE if isinstance(leaf, torch.device) else leaf


class _Made(TorchDispatchMode):
    """What is made on such a device, inside torch or by us, becomes an `Away`."""

    def __init__(self, reads: Counter) -> None:
        super().__init__()
        self.reads = reads

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        device = next((leaf for leaf in leaves if isinstance(leaf, torch.device)), HERE)
        if device.type != "meta" or any(isinstance(leaf, Away) for leaf in leaves):
            return func(*args, **kwargs)
        return Away(func(*tree_map(_really, args), **tree_map(_really, kwargs)), device, self.reads)


class PretendDevices(TorchFunctionMode):
    """`with PretendDevices() as there:` and `meta:0`, `meta:1`, … can be computed on.

    Attributes:
        reads: device → how often the host read a value, which on a real one waits for all work in its queue.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter = Counter()
        self._made = _Made(self.reads)
        self._views = mock.patch.object(torch, "inference_mode", torch.no_grad)

    def __enter__(self) -> PretendDevices:
        self._views.start()
        self._made.__enter__()
        return super().__enter__()

    def __exit__(self, *error) -> None:
        super().__exit__(*error)
        self._made.__exit__(*error)
        self._views.stop()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.tolist and isinstance(args[0], Away):  # torch knows none for such tensors
            self.reads[str(args[0].device)] += 1
            return args[0].held.tolist()
        if func is torch.Tensor.__getitem__ and isinstance(args[0], Away) and isinstance(args[1], list):
            args = (
                args[0],
                Away(torch.tensor(args[1]), args[0].device, self.reads),
            )  # torch would lose the indices
        if func is torch.tensor and torch.device(kwargs.get("device") or HERE) != HERE:
            return Away(
                torch.tensor(*args, **{**kwargs, "device": HERE}), torch.device(kwargs["device"]), self.reads
            )
        return func(*args, **kwargs)

    def send(self, module: torch.nn.Module, device: str) -> torch.nn.Module:
        """Move a module there, in place."""
        for part in module.modules():
            for kept, wrap in ((part._parameters, _parameter), (part._buffers, lambda tensor: tensor)):
                for name, tensor in kept.items():
                    if tensor is not None and not isinstance(tensor, Away):
                        kept[name] = wrap(Away(tensor.data, torch.device(device), self.reads))
        return module


def _parameter(tensor: Away) -> torch.nn.Parameter:
    return torch.nn.Parameter(tensor, requires_grad=False)
