"""Finding out cheaply whether the parameters and buffers of modules are still what they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_WHOLE = 1024
_SAMPLES = 64
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class TrackedState:
    """A snapshot of modules and tensors; :meth:`is_current` compares without walking the module tree again.

    Changes through ``tensor.data`` have no version: on the CPU, samples of the elements find changes of the whole
    tensor. (Reading them on a GPU would wait for it.) This runs at every call of a layer, with caches that the layer
    has just filled with its operands: the elements are read through numpy, which touches less than an operator does.

    Args:
        module: its parameters, buffers and submodules are tracked, with Python attributes that count steps.
        tensors: ``(owner, name)`` of further parameters.
    """

    def __init__(self, module: nn.Module, *tensors: tuple[nn.Module, str]) -> None:
        self._slots: list[tuple[dict[str, Any], str, object]] = []
        self._tensors: list[tuple[dict[str, Any], str, Tensor, int, int | None]] = []
        self._samples: list[tuple[Callable[[], bytes], bytes]] = []
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
                continue
            version = None if tensor.is_inference() else tensor._version
            self._tensors.append((table, name, tensor, tensor.data_ptr(), version))
            sample = _sampled_bits(tensor)
            if sample is not None:
                self._samples.append((sample.tobytes, sample.tobytes()))

    def is_current(self) -> bool:
        """Whether everything is the same as at construction."""
        for table, name, value in self._slots:
            if table.get(name) is not value:
                return False
        for table, name, tensor, pointer, version in self._tensors:
            if table.get(name) is not tensor or tensor.data_ptr() != pointer:
                return False
            if version is not None and tensor._version != version:
                return False
        # The memory that samples look at is still that of the tensors.
        return all(read() == seen for read, seen in self._samples)


_COUNTERS = ("counter", "training", "observer_only", "quant_delay_steps", "init_done")


def _sampled_bits(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """A view of a few elements of *tensor* as integers, spread over all of it; ``None`` where it is not to be read."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.element_size() not in _BITS:
        return None
    bits = tensor.detach().view(_BITS[tensor.element_size()])
    in_memory_order = bits.permute(sorted(range(bits.dim()), key=bits.stride, reverse=True))
    if not in_memory_order.is_contiguous():
        return np.from_dlpack(bits[tuple(slice(0, 1) for _ in range(bits.dim() - 1))])
    flat: np.ndarray[Any, Any] = np.from_dlpack(in_memory_order.view(-1))
    return flat if flat.size <= _WHOLE else flat[:: flat.size // _SAMPLES | 1]  # odd: leaves out no column of a matrix


__all__ = ["TrackedState"]
