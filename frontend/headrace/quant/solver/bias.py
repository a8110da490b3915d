"""Solver for biases: their own scale, or input scale times weight scale."""

from __future__ import annotations

from typing import Any

from headrace.core.quant import PrescaledRestrictIntQuant, RescalingIntQuant
from headrace.inject import value
from headrace.inject.enum import QuantType
from headrace.inject.errors import QuantizerValueError
from headrace.proxy.parameter_quant import BiasQuantProxyFromInjector
from headrace.quant.solver.common import directive
from headrace.quant.solver.weight import ParameterQuantSolver


class BiasQuantSolver(ParameterQuantSolver):
    """Base of bias quantizers that are declared by directives."""

    proxy_class = BiasQuantProxyFromInjector
    scaling_stats_input_concat_dim = 0

    @value
    def tensor_quant(quant_type: object, requires_input_scale: bool) -> Any:
        kind = directive(QuantType, "quant_type", quant_type)
        if kind is QuantType.FP:
            return None
        if kind is not QuantType.INT:
            raise QuantizerValueError(f"quant_type={kind.value} is not supported for a bias; accepted: INT, FP")
        return PrescaledRestrictIntQuant if requires_input_scale else RescalingIntQuant

    @value
    def scaling_per_output_channel_shape(module: Any) -> tuple[int, ...]:
        layer = module[0] if isinstance(module, tuple) else module
        return (layer.out_channels,)
