"""Quantizers that do not quantize."""

from headrace.inject.enum import QuantType
from headrace.quant.solver import ActQuantSolver, BiasQuantSolver, ClampQuantSolver, TruncQuantSolver, WeightQuantSolver

__all__ = ["NoneActQuant", "NoneBiasQuant", "NoneClampQuant", "NoneTruncQuant", "NoneWeightQuant"]


class NoneWeightQuant(WeightQuantSolver):
    """``weight_quant=None``."""

    quant_type = QuantType.FP


class NoneActQuant(ActQuantSolver):
    """``act_quant=None``, ``input_quant=None`` or ``output_quant=None``."""

    quant_type = QuantType.FP
    min_val = -1.0  # of a hard tanh that is not quantized
    max_val = 1.0


class NoneBiasQuant(BiasQuantSolver):
    """``bias_quant=None``."""

    quant_type = QuantType.FP
    requires_input_scale = False


class NoneTruncQuant(TruncQuantSolver):
    """``trunc_quant=None``."""

    quant_type = QuantType.FP


class NoneClampQuant(ClampQuantSolver):
    """``clamp_quant=None``."""

    quant_type = QuantType.FP
