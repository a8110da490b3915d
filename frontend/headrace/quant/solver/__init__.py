"""Solvers: translate directives (enums) to the parts of :mod:`headrace.core`.

A quantizer inherits from the solver of its kind, placed last among its bases.
"""

from headrace.quant.solver.act import ActQuantSolver
from headrace.quant.solver.bias import BiasQuantSolver
from headrace.quant.solver.trunc import ClampQuantSolver, TruncQuantSolver
from headrace.quant.solver.weight import WeightQuantSolver

__all__ = ["ActQuantSolver", "BiasQuantSolver", "ClampQuantSolver", "TruncQuantSolver", "WeightQuantSolver"]
