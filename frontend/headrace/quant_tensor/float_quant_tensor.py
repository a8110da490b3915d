"""The minifloat quant tensor: a float tensor whose values are numbers of a small format times a scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from headrace.core.float_quant import FloatFormat
from headrace.inject.errors import QuantLayerError
from headrace.quant_tensor.int_quant_tensor import QuantTensor, unpack_quant_tensor


@dataclass(frozen=True, eq=False)
class FloatQuantTensor(QuantTensor):
    """A tensor quantized to a minifloat. Torch functions take its value and return plain tensors.

    Args:
        value: real values.
        scale: broadcastable to *value*.
        zero_point: always 0.
        format: see :class:`headrace.core.float_quant.FloatFormat`.
        training: whether a layer in training mode made it.
    """

    value: Tensor
    scale: Tensor
    zero_point: Tensor
    format: FloatFormat
    training: bool

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return func(*unpack_quant_tensor(args), **unpack_quant_tensor(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("value", "format"):
            raise AttributeError(name)
        if name in ("signed", "saturating", "inf_values", "nan_values"):
            return getattr(self.format, name)
        if name in ("exponent_bit_width", "mantissa_bit_width", "exponent_bias", "bit_width"):
            return torch.tensor(float(getattr(self.format, name)))
        return getattr(self.value, name)

    def set(self, **changes: Any) -> FloatQuantTensor:
        """A copy with fields replaced."""
        return replace(self, **changes)

    @property
    def is_valid(self) -> bool:
        """Whether every value is a number of the format times the scale."""
        with torch.no_grad():
            again = self.format.round(self.value / self.scale) * self.scale
        return torch.equal(again, self.value)

    def minifloat(self) -> Tensor:
        """The numbers of the format.

        Raises:
            QuantLayerError: values that are not in the format.
        """
        if not self.is_valid:
            raise QuantLayerError("QuantTensor not valid: its values are not numbers of its format at its scale")
        return self.format.round(self.value / self.scale)

    def __add__(self, other: Any) -> Tensor:
        out: Tensor = self.value + unpack_quant_tensor(other)
        return out

    __radd__ = __add__

    def __sub__(self, other: Any) -> Tensor:
        out: Tensor = self.value - unpack_quant_tensor(other)
        return out

    def __mul__(self, other: Any) -> Tensor:
        out: Tensor = self.value * unpack_quant_tensor(other)
        return out

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Tensor:
        out: Tensor = self.value / unpack_quant_tensor(other)
        return out

    def __matmul__(self, other: Any) -> Tensor:
        out: Tensor = self.value @ unpack_quant_tensor(other)
        return out
