"""Solvers for accumulators: truncation to fewer bits, and clamping."""

from __future__ import annotations

from typing import Any

from headrace.core.bit_width import BitWidthConst, CappedBitWidth, MsbClampBitWidth, RemoveBitwidthParameter
from headrace.core.quant import PrescaledRestrictIntQuantWithInputBitWidth, TruncIntQuant
from headrace.core.scaling import PowerOfTwoIntScaling, TruncMsbScaling, TruncScalingWrapper
from headrace.inject import this, value
from headrace.inject.enum import BitWidthImplType, QuantType, RestrictValueType, TruncScalingImplType
from headrace.inject.errors import QuantizerValueError
from headrace.proxy.runtime_quant import ClampQuantProxyFromInjector, TruncQuantProxyFromInjector
from headrace.quant.solver.act import ActQuantSolver
from headrace.quant.solver.common import QuantSolver, choose, directive

_TRUNC_SCALING: dict[TruncScalingImplType, Any] = {
    TruncScalingImplType.MSB: TruncMsbScaling,
    TruncScalingImplType.WRAPPER: TruncScalingWrapper,
}


def _integers_only(quant_type: object, implementation: type, purpose: str) -> Any:
    kind = directive(QuantType, "quant_type", quant_type)
    if kind is QuantType.FP:
        return None
    if kind is not QuantType.INT:
        raise QuantizerValueError(f"quant_type={kind.value} is not supported for {purpose}; accepted: INT, FP")
    return implementation


class TruncQuantSolver(ActQuantSolver):
    """Base of truncating quantizers that are declared by directives."""

    proxy_class = TruncQuantProxyFromInjector

    @value
    def tensor_quant(quant_type: object) -> Any:
        return _integers_only(quant_type, TruncIntQuant, "truncation")

    @value
    def trunc_scaling_impl(trunc_scaling_impl_type: object = TruncScalingImplType.MSB) -> Any:
        return choose(_TRUNC_SCALING, TruncScalingImplType, "trunc_scaling_impl_type", trunc_scaling_impl_type)

    @value
    def trunc_int_scaling_impl(restrict_scaling_type: object) -> Any:
        kind = directive(RestrictValueType, "restrict_scaling_type", restrict_scaling_type)
        if kind is not RestrictValueType.POWER_OF_TWO:
            raise QuantizerValueError(
                f"restrict_scaling_type={kind.value} is not supported for truncation; accepted: POWER_OF_TWO"
            )
        return PowerOfTwoIntScaling


class ClampQuantSolver(QuantSolver):
    """Base of clamping quantizers: integers keep their scale and get fewer bits.

    ``bit_width`` is the largest number of bits; a quantizer with ``bit_width_to_remove`` removes that many instead.
    """

    proxy_class = ClampQuantProxyFromInjector
    bit_width_to_remove: int | None = None
    min_overall_bit_width = 2
    max_overall_bit_width = 32

    @value
    def tensor_quant(quant_type: object) -> Any:
        return _integers_only(quant_type, PrescaledRestrictIntQuantWithInputBitWidth, "clamping")

    @value
    def bit_width_impl(bit_width_to_remove: int | None) -> Any:
        return CappedBitWidth if bit_width_to_remove is None else MsbClampBitWidth

    @value
    def bit_width_to_remove_impl(bit_width_impl_type: object) -> Any:
        kind = directive(BitWidthImplType, "bit_width_impl_type", bit_width_impl_type)
        return RemoveBitwidthParameter if kind is BitWidthImplType.PARAMETER else this.constant_bit_width_to_remove

    @value
    def constant_bit_width_to_remove(bit_width_to_remove: int) -> Any:
        return BitWidthConst(bit_width_to_remove)
