"""Ready-made quantizers, to pass to layers as they are or to inherit from."""

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
    "Int8ActPerTensorFixedPoint",
    "Int8ActPerTensorFixedPointMinMaxInit",
    "Int8ActPerTensorFloat",
    "Int8ActPerTensorFloatBatchQuant1d",
    "Int8ActPerTensorFloatBatchQuant2d",
    "Int8ActPerTensorFloatMinMaxInit",
    "Int8Bias",
    "Int8BiasPerTensorFixedPointInternalScaling",
    "Int8BiasPerTensorFloatInternalScaling",
    "Int8WeightPerChannelFixedPoint",
    "Int8WeightPerChannelFloat",
    "Int8WeightPerTensorFixedPoint",
    "Int8WeightPerTensorFloat",
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
    "Uint8ActPerTensorFixedPointMaxInit",
    "Uint8ActPerTensorFloat",
    "Uint8ActPerTensorFloatBatchQuant1d",
    "Uint8ActPerTensorFloatBatchQuant2d",
    "Uint8ActPerTensorFloatMaxInit",
]
