"""Quantizers assembled from the parts of :mod:`headrace.core`.

A *tensor quantizer* returns ``(value, scale, zero_point, bit_width)``, the value in dequantized form.
"""

from headrace.core.quant.binary import BinaryQuant, ClampedBinaryQuant
from headrace.core.quant.decoupled import DecoupledIntQuant, DecoupledRescalingIntQuant
from headrace.core.quant.delay import DelayWrapper
from headrace.core.quant.int import IntegerGrid, PrescaledRestrictIntQuant, RescalingIntQuant, TensorQuantOutput
from headrace.core.quant.int_base import IntQuant
from headrace.core.quant.requantization import PrescaledRestrictIntQuantWithInputBitWidth, TruncIntQuant
from headrace.core.quant.ternary import TernaryQuant
from headrace.inject.enum import QuantType

__all__ = [
    "BinaryQuant",
    "ClampedBinaryQuant",
    "DecoupledIntQuant",
    "DecoupledRescalingIntQuant",
    "DelayWrapper",
    "IntQuant",
    "IntegerGrid",
    "PrescaledRestrictIntQuant",
    "PrescaledRestrictIntQuantWithInputBitWidth",
    "QuantType",
    "RescalingIntQuant",
    "TensorQuantOutput",
    "TernaryQuant",
    "TruncIntQuant",
]
