"""Dynamic quantizers: scale and zero point of every input anew."""

from headrace.core.dynamic import RuntimeDynamicStatsScaling, RuntimeDynamicStatsZeroPoint, ZeroBasedRange
from headrace.core.function_wrapper import OverTensorView
from headrace.core.stats import NegativeMinOrZero
from headrace.inject import this
from headrace.proxy import DynamicActQuantProxyFromInjector
from headrace.quant.base import PerTensorFloatScaling8bit, UintQuant
from headrace.quant.solver import ActQuantSolver

__all__ = ["ShiftedUint8DynamicActPerTensorFloat"]


class ShiftedUint8DynamicActPerTensorFloat(UintQuant, PerTensorFloatScaling8bit, ActQuantSolver):
    """8-bit unsigned activations, scale and zero point from the range of each input; see DynamicQuantizeLinear."""

    proxy_class = DynamicActQuantProxyFromInjector
    scaling_impl = RuntimeDynamicStatsScaling
    scaling_stats_impl = ZeroBasedRange
    scaling_stats_input_view_shape_impl = OverTensorView
    scaling_min_val = 1e-10
    quantize_zero_point = True
    zero_point_impl = RuntimeDynamicStatsZeroPoint
    zero_point_stats_impl = NegativeMinOrZero
    zero_point_stats_input_view_shape_impl = this.scaling_stats_input_view_shape_impl
