"""Tensors that know their scale, zero point and bit width."""

from headrace.quant_tensor.int_quant_tensor import IntQuantTensor, unpack_quant_tensor

QuantTensor = IntQuantTensor

__all__ = ["IntQuantTensor", "QuantTensor", "unpack_quant_tensor"]
