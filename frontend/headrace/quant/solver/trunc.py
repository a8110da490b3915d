"""Solver for truncation: requantization of an accumulator to fewer bits."""

from __future__ import annotations

from typing import Any

from headrace.core.quant import TruncIntQuant
from headrace.inject import value
from headrace.inject.enum import QuantType
from headrace.inject.errors import QuantizerValueError
from headrace.proxy.runtime_quant import TruncQuantProxyFromInjector
from headrace.quant.solver.common import QuantSolver, directive


class TruncQuantSolver(QuantSolver):
    """Base of truncating quantizers that are declared by directives."""

    proxy_class = TruncQuantProxyFromInjector

    @value
    def tensor_quant(quant_type: object) -> Any:
        kind = directive(QuantType, "quant_type", quant_type)
        if kind is QuantType.FP:
            return None
        if kind is not QuantType.INT:
            raise QuantizerValueError(f"quant_type={kind.value} is not supported for truncation; accepted: INT, FP")
        return TruncIntQuant
