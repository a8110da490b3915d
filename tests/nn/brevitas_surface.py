"""What of Brevitas's public names is somewhere else in Headrace, or left out, and why."""

from __future__ import annotations

from fnmatch import fnmatch

PARTS = ("quant", "core", "nn", "inject", "proxy", "loss")
"""Packages whose every module is compared."""

MOVED = {
    "core.bit_width.float.ComputeExponentBias": "core.float_quant.FloatFormat",
    "core.bit_width.float.ComputeMaxMantissa": "core.float_quant.FloatFormat",
    "core.bit_width.float.StaticExponentBias": "core.float_quant.FloatFormat",
    "core.bit_width.float.StaticMaxMantissa": "core.float_quant.FloatFormat",
    "core.function_wrapper.clamp.FloatClamp": "core.float_quant.FloatFormat",
    "core.function_wrapper.shape.dynamic_over_sub_channel_block_view": "core.groupwise.grouped",
    "core.quant.float.FloatQuant": "core.float_quant.FloatQuant",
    "core.quant.float.min_internal_scale": "core.float_quant.FloatFormat",
    "core.quant.int.DecoupledRescalingIntQuantWithInput": "core.accumulator.AccumulatorAwareIntQuant",
    "core.scaling.float_scaling.FloatScaling": "core.float_quant.FloatScaling",
    "core.scaling.float_scaling.RoundMidMaxSte": "core.float_quant.SharedExponentFloatScaling",
    "core.scaling.pre_scaling.AccumulatorAware*": "core.accumulator.AccumulatorAwareIntQuant",
    "core.scaling.runtime.RuntimeDynamicGroupStatsScaling": "core.dynamic.RuntimeDynamicGroupStatsScaling",
    "core.stats.stats_op.HalfQuadraticOptimizerScale": "core.half_quadratic.HalfQuadraticOptimizerScale",
    "core.stats.stats_op.HalfQuadraticOptimizerZeroPoint": "core.half_quadratic.HalfQuadraticOptimizerZeroPoint",
    "core.stats.stats_op.masked_median": "core.half_quadratic.masked_median",
    "core.stats.stats_op.shrink_lp_op": "core.half_quadratic.shrink_lp_op",
    "core.stats.stats_op.MSE": "core.search.MSEThreshold",
    "core.stats.stats_op.MSEUniformStepBase": "core.search.grid_search",
    "core.stats.stats_op.mse_grid_search": "core.search.grid_search",
    "core.utils.StatelessBuffer": "core.stateless.StatelessBuffer",
    "core.utils.SingleArgStatelessBuffer": "core.scaling.UnitIntScaling",
    "core.utils.inplace_momentum_update": "core.stats.momentum_update",
    "core.zero_point.PreZeroCenterZeroPoint": "core.accumulator.AccumulatorAwareIntQuant",
    "core.zero_point.RuntimeDynamicGroupZeroPoint": "core.dynamic.RuntimeDynamicGroupZeroPoint",
    "loss.base_loss.SimpleBaseLoss": "loss.BitWidthWeighted",
    "nn.quant_layer.QuantInputOutputLayer": "nn.quant_eltwise.QuantInputOutputLayer",
    "nn.quant_rnn.GateParams": "nn.recurrent_cells.GateParams",
    "nn.quant_rnn.GateWeight": "nn.recurrent_cells.GateWeight",
    "nn.utils.merge_bn": "graph.fold.fold_batch_norms",
    "nn.utils.mul_add_from_bn": "nn.elementwise.batch_norm_constants",
    "proxy.*.DecoupledWeightQuantWithInputProxyFromInjector": "proxy.InputAwareWeightQuantProxyFromInjector",
    "quant.base.PerChannelL[12]Norm": "quant.decoupled.PerChannelL2Norm",
    "quant.base.MSE*SubInjector": "quant.base.MSESymmetricScale",
    "quant.base.Weight*Decoupled*": "quant.decoupled.WeightPerChannelFloatDecoupled",
}
"""``{pattern of Brevitas's name: what does that in Headrace}``, both without the name of the package."""

LEFT_OUT = {
    "*.register_stats_implementation": "no registry: whether a statistic is signed is checked where it matters",
    "core.function_wrapper.misc.Inplace*": "in-place variants for TorchScript; use Abs and LogTwo",
    "core.function_wrapper.stochastic_round.stochastic_round_ste_fn": "makes an autograd class; use StochasticRoundSte",
    "core.restrict_val.QuantRestrictValue": "scales that are quantized themselves have no file format and no hardware",
    "core.stats.stats_op.KLMinimizerThreshold": "no quantizer of Brevitas uses it; percentiles and MSE are there",
    "core.stats.stats_op.mse_fib_search": "no quantizer of Brevitas uses it; the grid search is there",
    "core.utils.*": "TorchScript wrappers of parameters and of in-place operations",
    "core.quant.int.Decoupled*WithInput": "see MOVED",
    "loss.*Float*": "exponent and mantissa bits are not learned: their formats are fixed",
    "nn.equalized_layer.*": "wrappers in front of layers of language models; headrace.graph.equalize scales weights",
    "nn.mixin.*": "mixins of layers; a layer of one's own derives from nn.quant_layer",
    "nn.quant_rnn.QuantRecurrentStackBase": "base class; QuantRNN and QuantLSTM are the layers",
    "nn.target.*": "layers of one vendor's other compiler",
    "nn.utils.*": "helpers of graph transformations that headrace.graph has in one piece",
    "proxy.*Protocol": "typing protocols of TorchScript proxies",
    "proxy.*Base": "base classes; the classes that are used are there",
    "proxy.float_parameter_quant.BiasFloatQuantProxyFromInjector": "no quantizer of Brevitas uses it",
    "proxy.parameter_quant.ParameterQuantProxyFromInjector": "base class",
    "proxy.utils.*": "converts state dictionaries of Brevitas before 0.2",
    "quant.base.*PreNorm": "nested injectors; the fragments of quant.decoupled are flat",
    "quant.base.SolvePostScaleGranularity": "part of a solver",
    "quant.solver.*": "parts of Brevitas's solvers; they are methods of headrace.quant.solver's four",
}
"""``{pattern of Brevitas's name: why it is not in Headrace}``."""


def place(name: str) -> str | None:
    """Where the name *name* of Brevitas (without its package) has moved to, or ``None``."""
    return next((target for pattern, target in MOVED.items() if fnmatch(name, pattern)), None)


def reason(name: str) -> str | None:
    """Why the name *name* of Brevitas is left out, or ``None``."""
    return next((why for pattern, why in LEFT_OUT.items() if fnmatch(name, pattern)), None)
