"""Rounding, clamping and view functions as modules, so that a quantizer can be assembled from them."""

from headrace.core.function_wrapper.clamp import ClampMin, ScalarClamp, TensorClamp
from headrace.core.function_wrapper.learned_round import (
    LearnedRoundHardSigmoid,
    LearnedRoundIdentity,
    LearnedRoundSigmoid,
    LearnedRoundSte,
)
from headrace.core.function_wrapper.misc import Abs, Identity, LogTwo, PowerOfTwo
from headrace.core.function_wrapper.ops_ste import (
    CeilSte,
    DPURoundSte,
    FloorSte,
    InplaceTensorClampSte,
    RoundSte,
    RoundToZeroSte,
    ScalarClampMinSte,
    ScalarClampSte,
    ScalarSignedClampMinSte,
    TensorClampSte,
)
from headrace.core.function_wrapper.shape import (
    DynamicOverSubChannelBlockView,
    OverBatchOverOutputChannelView,
    OverBatchOverTensorView,
    OverOutputChannelView,
    OverOutputFeaturesView,
    OverSubChannelBlockView,
    OverTensorView,
    PermuteDims,
    StatsInputViewShapeImpl,
)
from headrace.core.function_wrapper.stochastic_round import StochasticRoundSte

__all__ = [
    "Abs",
    "CeilSte",
    "ClampMin",
    "DPURoundSte",
    "DynamicOverSubChannelBlockView",
    "FloorSte",
    "Identity",
    "InplaceTensorClampSte",
    "LearnedRoundHardSigmoid",
    "LearnedRoundIdentity",
    "LearnedRoundSigmoid",
    "LearnedRoundSte",
    "LogTwo",
    "OverBatchOverOutputChannelView",
    "OverBatchOverTensorView",
    "OverOutputChannelView",
    "OverOutputFeaturesView",
    "OverSubChannelBlockView",
    "OverTensorView",
    "PermuteDims",
    "PowerOfTwo",
    "RoundSte",
    "RoundToZeroSte",
    "ScalarClamp",
    "ScalarClampMinSte",
    "ScalarClampSte",
    "ScalarSignedClampMinSte",
    "StatsInputViewShapeImpl",
    "StochasticRoundSte",
    "TensorClamp",
    "TensorClampSte",
]
