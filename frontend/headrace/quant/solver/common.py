"""What all solvers share: rounding, bit width, restriction and statistics of the scale, granularity."""

from __future__ import annotations

from typing import Any, TypeVar

from torch import nn

from headrace.core.bit_width import BitWidthConst, BitWidthParameter, BitWidthStatefulConst
from headrace.core.function_wrapper import (
    CeilSte,
    DPURoundSte,
    FloorSte,
    Identity,
    LearnedRoundHardSigmoid,
    LearnedRoundIdentity,
    LearnedRoundSigmoid,
    LearnedRoundSte,
    RoundSte,
    RoundToZeroSte,
    StatsInputViewShapeImpl,
    StochasticRoundSte,
)
from headrace.core.groupwise import group_axis
from headrace.core.quant import IntQuant
from headrace.core.restrict_val import (
    FloatRestrictValue,
    IntRestrictValue,
    LogFloatRestrictValue,
    PowerOfTwoRestrictValue,
    SignedFloatRestrictValue,
)
from headrace.core.scaling import SCALING_STATS_REDUCE_DIM, IntScaling, PowerOfTwoIntScaling
from headrace.core.stats import (
    AbsAve,
    AbsMax,
    AbsMaxAve,
    AbsMinMax,
    AbsPercentile,
    MeanLearnedSigmaStd,
    MeanSigmaStd,
    PercentileInterval,
    SignedAbsMax,
)
from headrace.inject import ExtendedInjector, this, value
from headrace.inject.enum import (
    BitWidthImplType,
    Directive,
    FloatToIntImplType,
    LearnedRoundImplType,
    QuantType,
    RestrictValueType,
    ScalingPerOutputType,
    StatsOp,
)
from headrace.inject.errors import QuantizerTypeError, QuantizerValueError

D = TypeVar("D", bound=Directive)

ROUNDING: dict[FloatToIntImplType, type[nn.Module]] = {
    FloatToIntImplType.ROUND: RoundSte,
    FloatToIntImplType.FLOOR: FloorSte,
    FloatToIntImplType.CEIL: CeilSte,
    FloatToIntImplType.ROUND_TO_ZERO: RoundToZeroSte,
    FloatToIntImplType.DPU: DPURoundSte,
    FloatToIntImplType.LEARNED_ROUND: LearnedRoundSte,
    FloatToIntImplType.STOCHASTIC_ROUND: StochasticRoundSte,
}
LEARNED_ROUND: dict[LearnedRoundImplType, type[nn.Module]] = {
    LearnedRoundImplType.HARD_SIGMOID: LearnedRoundHardSigmoid,
    LearnedRoundImplType.SIGMOID: LearnedRoundSigmoid,
    LearnedRoundImplType.IDENTITY: LearnedRoundIdentity,
}
BIT_WIDTH: dict[BitWidthImplType, type[nn.Module]] = {
    BitWidthImplType.CONST: BitWidthConst,
    BitWidthImplType.PARAMETER: BitWidthParameter,
    BitWidthImplType.STATEFUL_CONST: BitWidthStatefulConst,
}
RESTRICTION: dict[RestrictValueType, type[nn.Module]] = {
    RestrictValueType.FP: FloatRestrictValue,
    RestrictValueType.SIGNED_FP: SignedFloatRestrictValue,
    RestrictValueType.LOG_FP: LogFloatRestrictValue,
    RestrictValueType.POWER_OF_TWO: PowerOfTwoRestrictValue,
    RestrictValueType.INT: IntRestrictValue,
}
STATISTIC: dict[StatsOp, type[nn.Module]] = {
    StatsOp.MAX: AbsMax,
    StatsOp.AVE: AbsAve,
    StatsOp.MAX_AVE: AbsMaxAve,
    StatsOp.MEAN_SIGMA_STD: MeanSigmaStd,
    StatsOp.MEAN_LEARN_SIGMA_STD: MeanLearnedSigmaStd,
    StatsOp.SIGNED_MAX: SignedAbsMax,
    StatsOp.PERCENTILE: AbsPercentile,
    StatsOp.MIN_MAX: AbsMinMax,
    StatsOp.PERCENTILE_INTERVAL: PercentileInterval,
}


def directive(kind: type[D], name: str, given: object) -> D:
    """*given* as a member of *kind*; a string of the same letters will do.

    Raises:
        QuantizerTypeError: neither a member nor a string.
        QuantizerValueError: no member of that name.
    """
    if not isinstance(given, kind | str):
        names = ", ".join(member.value for member in kind)
        raise QuantizerTypeError(f"{name} must be a {kind.__name__} ({names}), got {given!r}")
    return kind(given)


def choose(table: dict[D, Any], kind: type[D], name: str, given: object) -> Any:
    """The entry of *table* for the directive *given*.

    Raises:
        QuantizerValueError: a directive that has no entry.
    """
    member = directive(kind, name, given)
    if member not in table:
        accepted = ", ".join(key.value for key in table)
        raise QuantizerValueError(f"{name}={member.value} is not supported here; accepted: {accepted}")
    return table[member]


class QuantSolver(ExtendedInjector):
    """Base of the solvers."""

    @value
    def float_to_int_impl(float_to_int_impl_type: object) -> Any:
        return choose(ROUNDING, FloatToIntImplType, "float_to_int_impl_type", float_to_int_impl_type)

    @value
    def learned_round_impl(learned_round_impl_type: object = LearnedRoundImplType.HARD_SIGMOID) -> Any:
        return choose(LEARNED_ROUND, LearnedRoundImplType, "learned_round_impl_type", learned_round_impl_type)

    @value
    def bit_width_impl(bit_width_impl_type: object) -> Any:
        return choose(BIT_WIDTH, BitWidthImplType, "bit_width_impl_type", bit_width_impl_type)

    @value
    def restrict_scaling_impl(restrict_scaling_type: object) -> Any:
        return choose(RESTRICTION, RestrictValueType, "restrict_scaling_type", restrict_scaling_type)

    @value
    def int_scaling_impl(restrict_scaling_type: object) -> Any:
        kind = directive(RestrictValueType, "restrict_scaling_type", restrict_scaling_type)
        return PowerOfTwoIntScaling if kind is RestrictValueType.POWER_OF_TWO else IntScaling

    @value
    def int_quant(quant_type: object) -> Any:
        return IntQuant if directive(QuantType, "quant_type", quant_type) is QuantType.INT else None

    @value
    def scaling_per_output(
        scaling_per_output_type: object = None, scaling_per_output_channel: bool | None = None
    ) -> ScalingPerOutputType:
        if scaling_per_output_channel is not None:
            return ScalingPerOutputType.CHANNEL if scaling_per_output_channel else ScalingPerOutputType.TENSOR
        if scaling_per_output_type is None:
            return ScalingPerOutputType.TENSOR
        return directive(ScalingPerOutputType, "scaling_per_output_type", scaling_per_output_type)

    @value
    def scaling_stats_impl(scaling_stats_op: object = None, restrict_scaling_type: object = None) -> Any:
        if scaling_stats_op is None:
            return None
        if scaling_stats_op == StatsOp.SIGNED_MAX and restrict_scaling_type != RestrictValueType.SIGNED_FP:
            raise QuantizerValueError(
                f"scaling_stats_op=SIGNED_MAX makes negative scales, which restrict_scaling_type="
                f"{restrict_scaling_type} does not allow; accepted: SIGNED_FP"
            )
        return choose(STATISTIC, StatsOp, "scaling_stats_op", scaling_stats_op)

    stats_output_shape = this.scaling_shape

    @value
    def stats_reduce_dim(scaling_per_output: ScalingPerOutputType, scaling_stats_op: object = None) -> Any:
        if scaling_per_output is ScalingPerOutputType.GROUP:
            return this.group_axis
        per_channel = scaling_per_output is ScalingPerOutputType.CHANNEL or scaling_stats_op == StatsOp.MAX_AVE
        return SCALING_STATS_REDUCE_DIM if per_channel else None

    @value
    def group_axis(group_dim: int) -> int:
        return group_axis(group_dim)

    @value
    def keepdim(scaling_per_output: ScalingPerOutputType) -> bool:
        return scaling_per_output is ScalingPerOutputType.GROUP

    @value
    def scaling_stats_input_view_shape_impl(
        scaling_per_output: ScalingPerOutputType, scaling_stats_op: object = None
    ) -> Any:
        if scaling_per_output is ScalingPerOutputType.CHANNEL or scaling_stats_op == StatsOp.MAX_AVE:
            return StatsInputViewShapeImpl.OVER_OUTPUT_CHANNELS
        if scaling_per_output is ScalingPerOutputType.GROUP:
            return StatsInputViewShapeImpl.OVER_SUBCHANNEL_BLOCK
        return StatsInputViewShapeImpl.OVER_TENSOR

    @value
    def input_view_impl(scaling_per_output: ScalingPerOutputType) -> Any:
        grouped = scaling_per_output is ScalingPerOutputType.GROUP
        return StatsInputViewShapeImpl.OVER_SUBCHANNEL_BLOCK if grouped else Identity

    @value
    def scaling_affine_rescaling_init(affine_rescaling: bool) -> float | None:
        return 1.0 if affine_rescaling else None

    @value
    def scaling_affine_shifting_init(affine_shift_scale: bool = False) -> float | None:
        return 0.0 if affine_shift_scale else None

    @value
    def affine_rescaling(scaling_impl_type: object) -> bool:
        return scaling_impl_type == "AFFINE_STATS"
