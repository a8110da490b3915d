"""Facts about scales, zero points and bit widths, read once: on a GPU, reading a value waits for the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from headrace.quant_tensor.int_quant_tensor import IntQuantTensor

_Fact = TypeVar("_Fact")
_KNOWN = "_headrace_known"


def fact(tensor: Tensor, question: Callable[[Tensor], _Fact]) -> _Fact:
    """``question(tensor)``, asked once while *tensor* is the same object and has not been changed in place.

    A quantizer whose zero point and bit width are constants returns the same tensors at every call. Parameters and
    what is computed from them have no facts to remember.
    """
    if isinstance(tensor, nn.Parameter) or tensor.requires_grad or tensor.is_inference():
        return question(tensor)
    version, facts = getattr(tensor, _KNOWN, (None, None))
    if facts is None or version != tensor._version:
        facts = {}
        setattr(tensor, _KNOWN, (tensor._version, facts))
    if question not in facts:
        facts[question] = question(tensor)
    found: _Fact = facts[question]
    return found


def is_zero(tensor: Tensor) -> bool:
    """Whether every element is 0."""
    return not bool((tensor != 0).any())


def is_whole(tensor: Tensor) -> bool:
    """Whether every element is an integer."""
    return bool((tensor == torch.round(tensor)).all())


def extremes(tensor: Tensor) -> tuple[float, float]:
    """The smallest and the largest element."""
    return float(tensor.min()), float(tensor.max())


def largest_magnitude(x: IntQuantTensor) -> float:
    """Largest magnitude of ``integer - zero_point`` that the format of *x* has."""
    bits: float = fact(x.bit_width, float)
    if x.signed:
        half: float = 2.0 ** (bits - 1.0)
        low, high = -half, max(half - 1.0, 1.0)  # one bit: -1 and +1
    else:
        low, high = 0.0, float(2.0**bits) - 1.0
    least, most = fact(x.zero_point, extremes)
    return max(abs(low - most), abs(high - least), abs(low - least), abs(high - most))


__all__ = ["extremes", "fact", "is_whole", "is_zero", "largest_magnitude"]
