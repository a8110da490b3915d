"""Losses that make bits cost something, for learned bit widths."""

from headrace.loss.hardware_cost import HardwareCost, HardwareEstimate
from headrace.loss.weighted_bit_width import (
    ActivationBitWidthWeightedBySize,
    BitWidthLossError,
    BitWidthWeighted,
    QuantLayerOutputBitWidthWeightedByOps,
    WeightBitWidthWeightedBySize,
)

__all__ = [
    "ActivationBitWidthWeightedBySize",
    "BitWidthLossError",
    "BitWidthWeighted",
    "HardwareCost",
    "HardwareEstimate",
    "QuantLayerOutputBitWidthWeightedByOps",
    "WeightBitWidthWeightedBySize",
]
