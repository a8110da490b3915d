"""Quantized layers for training, with the keyword surface of Brevitas, and their exact deployed form."""

from headrace.nn.finalize import Finalized, FinalizeReport, OutputDifference, finalize
from headrace.nn.hadamard_classifier import HadamardClassifier
from headrace.nn.quant_accumulator import ClampQuantAccumulator, TruncQuantAccumulator
from headrace.nn.quant_activation import (
    QuantHardSwish,
    QuantHardTanh,
    QuantIdentity,
    QuantReLU,
    QuantSigmoid,
    QuantTanh,
)
from headrace.nn.quant_conv import QuantConv1d, QuantConv2d, QuantConv3d
from headrace.nn.quant_conv_transpose import QuantConvTranspose1d, QuantConvTranspose2d, QuantConvTranspose3d
from headrace.nn.quant_eltwise import QuantCat, QuantEltwiseAdd
from headrace.nn.quant_embedding import QuantEmbedding
from headrace.nn.quant_linear import QuantLinear
from headrace.nn.quant_mha import QuantMultiheadAttention
from headrace.nn.quant_pool import (
    QuantMaxPool1d,
    QuantMaxPool2d,
    QuantUpsample,
    QuantUpsamplingBilinear2d,
    QuantUpsamplingNearest2d,
    TruncAdaptiveAvgPool2d,
    TruncAvgPool2d,
)
from headrace.nn.quant_rnn import QuantLSTM, QuantRNN
from headrace.nn.quant_scale_bias import (
    BatchNorm1dToQuantScaleBias,
    BatchNorm2dToQuantScaleBias,
    QuantScaleBias,
    ScaleBias,
)
from headrace.nn.quant_sdpa import QuantScaledDotProductAttention, ScaledDotProductAttention

__all__ = [
    "BatchNorm1dToQuantScaleBias",
    "BatchNorm2dToQuantScaleBias",
    "ClampQuantAccumulator",
    "FinalizeReport",
    "Finalized",
    "HadamardClassifier",
    "OutputDifference",
    "QuantCat",
    "QuantConv1d",
    "QuantConv2d",
    "QuantConv3d",
    "QuantConvTranspose1d",
    "QuantConvTranspose2d",
    "QuantConvTranspose3d",
    "QuantEltwiseAdd",
    "QuantEmbedding",
    "QuantHardSwish",
    "QuantHardTanh",
    "QuantIdentity",
    "QuantLSTM",
    "QuantLinear",
    "QuantMaxPool1d",
    "QuantMaxPool2d",
    "QuantMultiheadAttention",
    "QuantRNN",
    "QuantReLU",
    "QuantScaleBias",
    "QuantScaledDotProductAttention",
    "QuantSigmoid",
    "QuantTanh",
    "QuantUpsample",
    "QuantUpsamplingBilinear2d",
    "QuantUpsamplingNearest2d",
    "ScaleBias",
    "ScaledDotProductAttention",
    "TruncAdaptiveAvgPool2d",
    "TruncAvgPool2d",
    "TruncQuantAccumulator",
    "finalize",
]
