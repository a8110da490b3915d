"""Tensors that know their scale, zero point and bit width."""

from headrace.quant_tensor.float_quant_tensor import FloatQuantTensor
from headrace.quant_tensor.int_quant_tensor import IntQuantTensor, QuantTensor, unpack_quant_tensor

__all__ = ["FloatQuantTensor", "IntQuantTensor", "QuantTensor", "unpack_quant_tensor"]
