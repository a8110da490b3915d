"""Rounding, clamping and view functions as modules, so that a quantizer can be assembled from them."""

from headrace.core.function_wrapper.clamp import ScalarClamp, TensorClamp
from headrace.core.function_wrapper.misc import Identity, LogTwo, PowerOfTwo
from headrace.core.function_wrapper.ops_ste import (
    CeilSte,
    DPURoundSte,
    FloorSte,
    InplaceTensorClampSte,
    RoundSte,
    RoundToZeroSte,
    ScalarClampMinSte,
    TensorClampSte,
)
from headrace.core.function_wrapper.shape import (
    OverBatchOverOutputChannelView,
    OverBatchOverTensorView,
    OverOutputChannelView,
    OverOutputFeaturesView,
    OverTensorView,
    PermuteDims,
    StatsInputViewShapeImpl,
)

__all__ = [
    "CeilSte",
    "DPURoundSte",
    "FloorSte",
    "Identity",
    "InplaceTensorClampSte",
    "LogTwo",
    "OverBatchOverOutputChannelView",
    "OverBatchOverTensorView",
    "OverOutputChannelView",
    "OverOutputFeaturesView",
    "OverTensorView",
    "PermuteDims",
    "PowerOfTwo",
    "RoundSte",
    "RoundToZeroSte",
    "ScalarClamp",
    "ScalarClampMinSte",
    "StatsInputViewShapeImpl",
    "TensorClamp",
    "TensorClampSte",
]
