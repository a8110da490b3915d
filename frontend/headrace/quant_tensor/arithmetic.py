"""Arithmetic on quant tensors, with the scale, zero point and bit width of the result.

Operands of an addition (and of a concatenation) must share their scale in evaluation; in training, while scales
still follow statistics, the result carries their average.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.core import functional
from headrace.inject.errors import QuantLayerError
from headrace.quant_tensor.constants import fact, is_zero
from headrace.quant_tensor.int_quant_tensor import IntQuantTensor, unpack_quant_tensor


def check_same(what: str, a: Tensor, b: Tensor) -> None:
    """Raise unless *a* equals *b*.

    Raises:
        QuantLayerError: naming *what* and both values.
    """
    if a is b:  # the constant of one quantizer: nothing to read
        return
    same = False if a.shape != b.shape and (a.numel() == 1) != (b.numel() == 1) else bool(torch.allclose(a, b))
    if not same:
        raise QuantLayerError(
            f"{what} are different: {a.flatten()[:4].tolist()} and {b.flatten()[:4].tolist()}; pass both operands "
            "through the same quantizer (e.g. one QuantIdentity, or QuantEltwiseAdd, QuantCat) first"
        )


def bits_for(low: Tensor, high: Tensor, signed: bool) -> Tensor:
    """Bits that hold every integer from *low* to *high*, differentiable."""
    if signed:
        return functional.ceil_ste(torch.log2(torch.maximum(high + 1.0, -low))) + 1.0
    return functional.ceil_ste(torch.log2(high + 1.0))


def _range(x: IntQuantTensor) -> tuple[Tensor, Tensor]:
    return functional.min_int(x.signed, False, x.bit_width), functional.max_int(x.signed, False, x.bit_width)


def add(a: IntQuantTensor, other: Any) -> Any:
    """``a + other``. A plain tensor or number moves the zero point.

    Raises:
        QuantLayerError: different scales in evaluation.
    """
    if not isinstance(other, IntQuantTensor):
        return a.set(value=a.value + other, zero_point=a.zero_point - other / a.scale)
    (low_a, high_a), (low_b, high_b) = _range(a), _range(other)
    return _combined(a, other, a.value + other.value, a.zero_point + other.zero_point, low_a + low_b, high_a + high_b)


def subtract(a: IntQuantTensor, other: Any) -> Any:
    """``a - other``; see :func:`add`."""
    if not isinstance(other, IntQuantTensor):
        return add(a, -other)
    (low_a, high_a), (low_b, high_b) = _range(a), _range(other)
    return _combined(a, other, a.value - other.value, a.zero_point - other.zero_point, low_a - high_b, high_a - low_b)


def _combined(
    a: IntQuantTensor, b: IntQuantTensor, value: Tensor, zero_point: Tensor, low: Tensor, high: Tensor
) -> IntQuantTensor:
    """A sum or difference on the common grid, with the bits that hold *low* to *high*."""
    training = a.training or b.training
    if not training:
        check_same("Scaling factors", a.scale, b.scale)
    signed = bool(a.signed or b.signed or float(low.detach()) < 0)
    return IntQuantTensor(value, (a.scale + b.scale) / 2, zero_point, bits_for(low, high, signed), signed, training)


def _check_no_zero_point(a: IntQuantTensor, b: IntQuantTensor, operation: str) -> None:
    if not (fact(a.zero_point, is_zero) and fact(b.zero_point, is_zero)):
        raise QuantLayerError(f"Zero-points of {operation} operands are non-zero, not supported.")


def multiply(a: IntQuantTensor, other: Any) -> Any:
    """``a * other``; with a plain tensor or number the result is plain.

    Raises:
        QuantLayerError: an operand with a zero point.
    """
    if not isinstance(other, IntQuantTensor):
        return a.value * unpack_quant_tensor(other)
    _check_no_zero_point(a, other, "mul")
    return IntQuantTensor(
        a.value * other.value,
        a.scale * other.scale,
        a.zero_point * other.zero_point,
        a.bit_width + other.bit_width,
        a.signed or other.signed,
        a.training or other.training,
    )


def divide(a: IntQuantTensor, other: Any) -> Any:
    """``a / other``; the quotient of two quant tensors is not on a grid in general.

    Raises:
        QuantLayerError: an operand with a zero point.
    """
    if not isinstance(other, IntQuantTensor):
        return a.value / unpack_quant_tensor(other)
    _check_no_zero_point(a, other, "div")
    return IntQuantTensor(
        a.value / other.value,
        a.scale / (other.scale * 2.0 ** (other.bit_width - float(other.signed))),
        a.zero_point * other.zero_point,
        a.bit_width + other.bit_width,
        a.signed or other.signed,
        a.training or other.training,
    )


def matmul(a: IntQuantTensor, other: Any) -> Any:
    """``a @ other``; plain unless both are quantized per tensor without zero points."""
    if not isinstance(other, IntQuantTensor):
        return a.value @ unpack_quant_tensor(other)
    value = a.value @ other.value
    if a.scale.numel() > 1 or other.scale.numel() > 1:
        return value
    _check_no_zero_point(a, other, "matmul")
    (low_a, high_a), (low_b, high_b) = _range(a), _range(other)
    products = torch.stack([low_a * low_b, low_a * high_b, high_a * low_b, high_a * high_b])
    terms = a.value.shape[-1]
    signed = a.signed or other.signed
    return IntQuantTensor(
        value,
        (a.scale * other.scale).reshape(()),
        torch.zeros_like(a.zero_point),
        bits_for(products.min() * terms, products.max() * terms, signed),
        signed,
        a.training or other.training,
    )


def negate(a: IntQuantTensor) -> IntQuantTensor:
    """``-a``, signed, one bit more: the lowest integer has no counterpart."""
    return a.set(value=-a.value, zero_point=-a.zero_point, bit_width=a.bit_width + 1, signed=True)


def absolute(a: IntQuantTensor) -> IntQuantTensor:
    """``|a|``, unsigned.

    Raises:
        QuantLayerError: *a* has a zero point.
    """
    if not a.signed:
        return a
    _check_no_zero_point(a, a, "abs")
    return a.set(value=a.value.abs(), bit_width=a.bit_width, signed=False)


def concatenate(tensors: list[Any], dim: int = 0) -> Any:
    """``torch.cat``; quantized if all are, with the same sign, and bit width, scale and zero point in evaluation.

    Constant bit widths are compared in training too; of learned ones the first is taken, as comparing would read them.

    Raises:
        QuantLayerError: the operands differ.
    """
    quantized = [t for t in tensors if isinstance(t, IntQuantTensor)]
    value = torch.cat([unpack_quant_tensor(t) for t in tensors], dim=dim)
    if len(quantized) < len(tensors):
        return value
    first = quantized[0]
    training = any(t.training for t in quantized)
    for other in quantized[1:]:
        if first.signed != other.signed:
            raise QuantLayerError(f"Signs are different: signed={first.signed} and signed={other.signed}")
        if not (training and (first.bit_width.requires_grad or other.bit_width.requires_grad)):
            check_same("Bit widths", first.bit_width, other.bit_width)
        if not training:
            check_same("Scaling factors", first.scale, other.scale)
            check_same("Zero points", first.zero_point, other.zero_point)
    if not training:
        return first.set(value=value)
    count = len(quantized)
    return first.set(
        value=value,
        scale=torch.stack([t.scale for t in quantized]).sum(0) / count,
        zero_point=torch.stack([t.zero_point for t in quantized]).sum(0) / count,
        training=True,
    )
