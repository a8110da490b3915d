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
from headrace.inject.errors import QuantizerTypeError
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

    proxy_class = ActQuantProxyFromInjector

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
    def scaling_shape(scaling_per_output: object) -> Any:
        kind = directive(ScalingPerOutputType, "scaling_per_output", scaling_per_output)
        return this.per_channel_broadcastable_shape if kind is ScalingPerOutputType.CHANNEL else SCALAR_SHAPE

    @value
    def permute_dims(scaling_stats_permute_dims: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        return scaling_stats_permute_dims
