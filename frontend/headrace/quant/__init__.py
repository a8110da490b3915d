"""Ready-made quantizers, to pass to layers as they are or to inherit from."""

from headrace.quant.accumulator import (
    AccumulatorAwareWeightQuant,
    AccumulatorAwareZeroCenterWeightQuant,
    Int8AccumulatorAwareWeightQuant,
    Int8AccumulatorAwareZeroCenterWeightQuant,
)
from headrace.quant.binary import (
    SignedBinaryActPerTensorConst,
    SignedBinaryWeightPerTensorConst,
)
from headrace.quant.dynamic import (
    ShiftedUint8DynamicActPerTensorFloat,
)
from headrace.quant.fixed_point import (
    Int8ActPerTensorFixedPoint,
    Int8ActPerTensorFixedPointMinMaxInit,
    Int8BiasPerTensorFixedPointInternalScaling,
    Int8WeightPerChannelFixedPoint,
    Int8WeightPerTensorFixedPoint,
    Uint8ActPerTensorFixedPoint,
    Uint8ActPerTensorFixedPointMaxInit,
)
from headrace.quant.groupwise import (
    Int8WeightPerGroupFloat,
)
from headrace.quant.mse import (
    Int8ActPerTensorFixedPointMSE,
    Int8ActPerTensorFloatMSE,
    Int8WeightPerChannelFixedPointMSE,
    Int8WeightPerChannelFloatMSE,
    Int8WeightPerTensorFixedPointMSE,
    Int8WeightPerTensorFloatMSE,
    Uint8ActPerTensorFixedPointMSE,
    Uint8ActPerTensorFloatMSE,
)
from headrace.quant.none import (
    NoneActQuant,
    NoneBiasQuant,
    NoneTruncQuant,
    NoneWeightQuant,
)
from headrace.quant.scaled_int import (
    Int8ActPerTensorFloat,
    Int8ActPerTensorFloatBatchQuant1d,
    Int8ActPerTensorFloatBatchQuant2d,
    Int8ActPerTensorFloatMinMaxInit,
    Int8Bias,
    Int8BiasPerTensorFloatInternalScaling,
    Int8WeightPerChannelFloat,
    Int8WeightPerTensorFloat,
    Int16Bias,
    Int24Bias,
    Int32Bias,
    IntBias,
    RoundTo8bit,
    TruncTo8bit,
    Uint8ActPerTensorFloat,
    Uint8ActPerTensorFloatBatchQuant1d,
    Uint8ActPerTensorFloatBatchQuant2d,
    Uint8ActPerTensorFloatMaxInit,
)
from headrace.quant.shifted_scaled_int import (
    ShiftedUint8ActPerTensorFixedPoint,
    ShiftedUint8ActPerTensorFloat,
    ShiftedUint8WeightPerChannelFloat,
    ShiftedUint8WeightPerTensorFloat,
)
from headrace.quant.ternary import (
    SignedTernaryActPerTensorConst,
    SignedTernaryWeightPerTensorConst,
)

__all__ = [
    "AccumulatorAwareWeightQuant",
    "AccumulatorAwareZeroCenterWeightQuant",
    "Int8AccumulatorAwareWeightQuant",
    "Int8AccumulatorAwareZeroCenterWeightQuant",
    "Int8ActPerTensorFixedPoint",
    "Int8ActPerTensorFixedPointMSE",
    "Int8ActPerTensorFixedPointMinMaxInit",
    "Int8ActPerTensorFloat",
    "Int8ActPerTensorFloatBatchQuant1d",
    "Int8ActPerTensorFloatBatchQuant2d",
    "Int8ActPerTensorFloatMSE",
    "Int8ActPerTensorFloatMinMaxInit",
    "Int8Bias",
    "Int8BiasPerTensorFixedPointInternalScaling",
    "Int8BiasPerTensorFloatInternalScaling",
    "Int8WeightPerChannelFixedPoint",
    "Int8WeightPerChannelFixedPointMSE",
    "Int8WeightPerChannelFloat",
    "Int8WeightPerChannelFloatMSE",
    "Int8WeightPerGroupFloat",
    "Int8WeightPerTensorFixedPoint",
    "Int8WeightPerTensorFixedPointMSE",
    "Int8WeightPerTensorFloat",
    "Int8WeightPerTensorFloatMSE",
    "Int16Bias",
    "Int24Bias",
    "Int32Bias",
    "IntBias",
    "NoneActQuant",
    "NoneBiasQuant",
    "NoneTruncQuant",
    "NoneWeightQuant",
    "RoundTo8bit",
    "ShiftedUint8ActPerTensorFixedPoint",
    "ShiftedUint8ActPerTensorFloat",
    "ShiftedUint8DynamicActPerTensorFloat",
    "ShiftedUint8WeightPerChannelFloat",
    "ShiftedUint8WeightPerTensorFloat",
    "SignedBinaryActPerTensorConst",
    "SignedBinaryWeightPerTensorConst",
    "SignedTernaryActPerTensorConst",
    "SignedTernaryWeightPerTensorConst",
    "TruncTo8bit",
    "Uint8ActPerTensorFixedPoint",
    "Uint8ActPerTensorFixedPointMSE",
    "Uint8ActPerTensorFixedPointMaxInit",
    "Uint8ActPerTensorFloat",
    "Uint8ActPerTensorFloatBatchQuant1d",
    "Uint8ActPerTensorFloatBatchQuant2d",
    "Uint8ActPerTensorFloatMSE",
    "Uint8ActPerTensorFloatMaxInit",
]
