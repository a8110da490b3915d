"""Solver for activations: statistics come from the tensors that pass by."""

from __future__ import annotations

from typing import Any

from headrace.core.quant import ClampedBinaryQuant, RescalingIntQuant, TernaryQuant
from headrace.core.scaling import (
    SCALAR_SHAPE,
    ConstScaling,
    ParameterFromRuntimeStatsScaling,
    ParameterScaling,
    RuntimeStatsScaling,
)
from headrace.inject import this, value
from headrace.inject.enum import QuantType, ScalingImplType, ScalingPerOutputType
from headrace.inject.errors import QuantizerTypeError, QuantizerValueError
from headrace.proxy.runtime_quant import ActQuantProxyFromInjector
from headrace.quant.solver.common import QuantSolver, choose, directive

_SCALING: dict[ScalingImplType, Any] = {
    ScalingImplType.PARAMETER: ParameterScaling,
    ScalingImplType.PARAMETER_FROM_STATS: ParameterFromRuntimeStatsScaling,
    ScalingImplType.CONST: ConstScaling,
    ScalingImplType.STATS: RuntimeStatsScaling,
    ScalingImplType.AFFINE_STATS: RuntimeStatsScaling,
}
_TENSOR_QUANT: dict[QuantType, Any] = {
    QuantType.FP: None,
    QuantType.INT: RescalingIntQuant,
    QuantType.TERNARY: TernaryQuant,
    QuantType.BINARY: ClampedBinaryQuant,
}


class ActQuantSolver(QuantSolver):
    """Base of activation quantizers that are declared by directives."""

    proxy_class: Any = ActQuantProxyFromInjector

    @value
    def tensor_quant(quant_type: object) -> Any:
        return choose(_TENSOR_QUANT, QuantType, "quant_type", quant_type)

    @value
    def scaling_impl(scaling_impl_type: object) -> Any:
        return choose(_SCALING, ScalingImplType, "scaling_impl_type", scaling_impl_type)

    @value
    def scaling_init(
        scaling_impl_type: object, min_val: float | None, max_val: float | None, scaling_const: float | None = None
    ) -> float:
        if scaling_const is not None:
            return scaling_const
        if max_val is None or min_val is None:
            raise QuantizerTypeError(
                "the scale of this activation quantizer starts from min_val and max_val: give both"
            )
        return max(abs(float(min_val)), abs(float(max_val)))

    @value
    def min_val(signed: bool) -> float | None:
        return None if signed else 0.0

    max_val: float | None = None

    @value
    def learned_round_init() -> Any:
        raise QuantizerValueError(
            "float_to_int_impl_type=LEARNED_ROUND decides for every element of a weight; activations accept: ROUND, "
            "FLOOR, CEIL, ROUND_TO_ZERO, DPU, STOCHASTIC_ROUND"
        )

    @value
    def group_dim(module: Any) -> int:
        layer = module[0] if isinstance(module, tuple) else module
        if getattr(layer, "weight", None) is None:
            raise QuantizerTypeError(
                f"the dimension that groups divide is not known for {type(layer).__name__}: give group_dim (-1 for "
                "features last, 1 for channels of images)"
            )
        return -1 if layer.weight.dim() == 2 else 1

    @value
    def scaling_shape(scaling_per_output: object) -> Any:
        kind = directive(ScalingPerOutputType, "scaling_per_output", scaling_per_output)
        if kind is ScalingPerOutputType.GROUP:
            raise QuantizerValueError(
                "scaling_per_output_type=GROUP: groups of activations have dynamic scales only; use "
                "headrace.quant.MXInt8Act or MXFloat8e4m3Act, or scaling_impl = RuntimeDynamicGroupStatsScaling"
            )
        return this.per_channel_broadcastable_shape if kind is ScalingPerOutputType.CHANNEL else SCALAR_SHAPE

    @value
    def permute_dims(scaling_stats_permute_dims: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        return scaling_stats_permute_dims
