"""Binary quantizers: -scale or +scale."""

from headrace.core.function_wrapper import InplaceTensorClampSte, TensorClamp
from headrace.quant.base import SignedBinaryClampedConst
from headrace.quant.solver import ActQuantSolver, WeightQuantSolver

__all__ = ["SignedBinaryActPerTensorConst", "SignedBinaryWeightPerTensorConst"]


class SignedBinaryWeightPerTensorConst(SignedBinaryClampedConst, WeightQuantSolver):
    """Constant scale 0.1; training keeps the float weights within it."""

    tensor_clamp_impl = InplaceTensorClampSte
    scaling_const = 0.1


class SignedBinaryActPerTensorConst(SignedBinaryClampedConst, ActQuantSolver):
    """Constant scale ``max(|min_val|, |max_val|)``, 1 by default; no gradient outside."""

    tensor_clamp_impl = TensorClamp
    min_val = -1.0
    max_val = 1.0
