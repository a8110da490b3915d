"""Solver for weights: statistics come from the parameters, channels are output channels."""

from __future__ import annotations

from typing import Any

import torch

from headrace.core.function_wrapper import TensorClamp, TensorClampSte
from headrace.core.groupwise import group_axis
from headrace.core.quant import BinaryQuant, RescalingIntQuant, TernaryQuant
from headrace.core.scaling import (
    SCALAR_SHAPE,
    ConstScaling,
    ParameterFromStatsFromParameterScaling,
    ParameterScaling,
    StatsFromParameterScaling,
)
from headrace.inject import this, value
from headrace.inject.enum import BitWidthImplType, QuantType, ScalingImplType, ScalingPerOutputType
from headrace.inject.errors import QuantizerValueError
from headrace.proxy.parameter_quant import WeightQuantProxyFromInjector
from headrace.quant.solver.common import QuantSolver, choose, directive

_SCALING: dict[ScalingImplType, Any] = {
    ScalingImplType.PARAMETER: ParameterScaling,
    ScalingImplType.PARAMETER_FROM_STATS: ParameterFromStatsFromParameterScaling,
    ScalingImplType.CONST: ConstScaling,
    ScalingImplType.HE: ConstScaling,
    ScalingImplType.STATS: StatsFromParameterScaling,
    ScalingImplType.AFFINE_STATS: StatsFromParameterScaling,
}
_TENSOR_QUANT: dict[QuantType, Any] = {
    QuantType.FP: None,
    QuantType.INT: RescalingIntQuant,
    QuantType.TERNARY: TernaryQuant,
    QuantType.BINARY: BinaryQuant,
}


def _first(module: Any) -> Any:
    """The layer itself, or the first of those that share a quantizer."""
    return module[0] if isinstance(module, tuple) else module


class ParameterQuantSolver(QuantSolver):
    """Shared by weights and biases."""

    @value
    def scaling_impl(scaling_impl_type: object) -> Any:
        return choose(_SCALING, ScalingImplType, "scaling_impl_type", scaling_impl_type)

    @value
    def scaling_init(scaling_impl_type: object, tracked_parameter_list: list[Any], scaling_const: float = 1.0) -> float:
        if directive(ScalingImplType, "scaling_impl_type", scaling_impl_type) is not ScalingImplType.HE:
            return scaling_const
        fans = [p.view(p.shape[0], -1).shape[1] for p in tracked_parameter_list]
        return float(sum((2.0 / fan) ** 0.5 for fan in fans) / len(fans))

    @value
    def tensor_clamp_impl(scaling_impl_type: object, bit_width_impl_type: object = BitWidthImplType.CONST) -> Any:
        learned = scaling_impl_type in ("AFFINE_STATS", "PARAMETER_FROM_STATS", "PARAMETER")
        return TensorClamp if learned or bit_width_impl_type == BitWidthImplType.PARAMETER else TensorClampSte

    @value
    def scaling_shape(scaling_per_output: object) -> Any:
        kind = directive(ScalingPerOutputType, "scaling_per_output", scaling_per_output)
        if kind is ScalingPerOutputType.GROUP:
            return this.group_scaling_shape
        return this.scaling_per_output_channel_shape if kind is ScalingPerOutputType.CHANNEL else SCALAR_SHAPE

    @value
    def group_dim(output_channel_dim: int) -> int:
        return 1 - output_channel_dim

    @value
    def group_scaling_shape(tracked_parameter_list: list[Any], group_dim: int, group_size: int) -> tuple[int, ...]:
        if len(tracked_parameter_list) > 1:
            raise QuantizerValueError("a quantizer with scales for groups cannot be shared between layers")
        shape = list(tracked_parameter_list[0].shape)
        shape[group_dim] = -(-shape[group_dim] // group_size)
        shape.insert(group_axis(group_dim), 1)
        return tuple(shape)

    @value
    def learned_round_init(tracked_parameter_list: list[Any]) -> Any:
        if len(tracked_parameter_list) > 1:
            raise QuantizerValueError("a quantizer with LEARNED_ROUND cannot be shared between layers")
        return torch.zeros_like(tracked_parameter_list[0].detach())

    @value
    def dtype(tracked_parameter_list: list[Any]) -> Any:
        return tracked_parameter_list[0].dtype if tracked_parameter_list else None

    @value
    def device(tracked_parameter_list: list[Any]) -> Any:
        return tracked_parameter_list[0].device if tracked_parameter_list else None


class WeightQuantSolver(ParameterQuantSolver):
    """Base of weight quantizers that are declared by directives."""

    proxy_class = WeightQuantProxyFromInjector

    @value
    def tensor_quant(quant_type: object) -> Any:
        return choose(_TENSOR_QUANT, QuantType, "quant_type", quant_type)

    @value
    def output_channel_dim(module: Any) -> int:
        dim: int = _first(module).output_channel_dim
        return dim

    @value
    def scaling_per_output_channel_shape(module: Any, output_channel_dim: int) -> tuple[int, ...]:
        layer = _first(module)
        shape = [1] * layer.weight.dim()
        shape[output_channel_dim] = layer.weight.shape[output_channel_dim]
        return tuple(shape)

    @value
    def scaling_stats_input_concat_dim(scaling_per_output: object) -> int:
        return 1 if scaling_per_output == ScalingPerOutputType.CHANNEL else 0

    @value
    def permute_dims(module: Any, output_channel_dim: int) -> tuple[int, ...] | None:
        if output_channel_dim == 0:
            return None
        dims = list(range(_first(module).weight.dim()))
        dims[0], dims[output_channel_dim] = dims[output_channel_dim], dims[0]
        return tuple(dims)
