"""Finding out cheaply whether the parameters and buffers of modules are still what they were."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_WHOLE = 1024
_SAMPLES = 128


class TrackedState:
    """A snapshot of modules and tensors; :meth:`is_current` compares without walking the module tree again.

    Changes through ``tensor.data`` have no version: on the CPU, samples of the elements find changes of the whole
    tensor. (Reading them on a GPU would wait for it.)

    Args:
        module: its parameters, buffers and submodules are tracked, with Python attributes that count steps.
        tensors: ``(owner, name)`` of further parameters.
    """

    def __init__(self, module: nn.Module, *tensors: tuple[nn.Module, str]) -> None:
        self._slots: list[tuple[dict[str, Any], str, object]] = []
        self._tensors: list[tuple[dict[str, Any], str, Tensor, int, int | None, object]] = []
        for part in module.modules():
            self._slots += [(part._modules, name, child) for name, child in part._modules.items()]
            self._slots += [(part.__dict__, name, part.__dict__[name]) for name in _COUNTERS if name in part.__dict__]
            for table in (part._parameters, part._buffers):
                self._track(table, *table)
        for owner, name in tensors:
            self._track(owner._parameters, name)

    def _track(self, table: dict[str, Any], *names: str) -> None:
        for name in names:
            tensor = table[name]
            if tensor is None:
                self._slots.append((table, name, None))
            else:
                self._tensors.append((table, name, tensor, tensor.data_ptr(), _version(tensor), _sample(tensor)))

    def is_current(self) -> bool:
        """Whether everything is the same as at construction."""
        for table, name, value in self._slots:
            if table.get(name) is not value:
                return False
        return all(
            table.get(name) is tensor
            and tensor.data_ptr() == pointer
            and _version(tensor) == version
            and (sample is None or _sample(tensor) == sample)
            for table, name, tensor, pointer, version, sample in self._tensors
        )


_COUNTERS = ("counter", "training", "observer_only", "quant_delay_steps", "init_done")


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _sample(tensor: Tensor) -> object:
    """A few of the bits of *tensor*, spread over all of it."""
    if tensor.device.type != "cpu":
        return None
    if tensor.numel() == 1:
        return tensor.item()
    flat = tensor.detach().reshape(-1)
    if flat.numel() > _WHOLE:
        flat = flat[:: flat.numel() // _SAMPLES | 1]  # odd: no column of a matrix is left out
    if flat.dtype != torch.float32:
        return flat.tolist()
    return int(flat.contiguous().view(torch.int32).sum(dtype=torch.int32))


__all__ = ["TrackedState"]
