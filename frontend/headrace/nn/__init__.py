"""Quantized layers for training, with the keyword surface of Brevitas, and their exact deployed form."""

from headrace.nn.finalize import Finalized, FinalizeReport, OutputDifference, finalize
from headrace.nn.quant_activation import QuantHardTanh, QuantIdentity, QuantReLU, QuantSigmoid, QuantTanh
from headrace.nn.quant_conv import QuantConv1d, QuantConv2d, QuantConv3d
from headrace.nn.quant_linear import QuantLinear

__all__ = [
    "FinalizeReport",
    "Finalized",
    "OutputDifference",
    "QuantConv1d",
    "QuantConv2d",
    "QuantConv3d",
    "QuantHardTanh",
    "QuantIdentity",
    "QuantLinear",
    "QuantReLU",
    "QuantSigmoid",
    "QuantTanh",
    "finalize",
]
