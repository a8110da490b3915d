"""Requantization of sums without a pool."""

from __future__ import annotations

from typing import Any

from headrace.nn.keywords import split_keywords
from headrace.nn.quant_layer import QuantLayer, _build_quantizer, _flag
from headrace.quant import NoneClampQuant, NoneTruncQuant


class TruncQuantAccumulator(QuantLayer):
    """Keeps the most significant bits of a quant tensor; a plain tensor passes.

    Args:
        trunc_quant: quantizer such as :class:`headrace.quant.TruncTo8bit`; ``None`` passes everything.
        return_quant_tensor: return a quant tensor; needs one as input.
        kwargs: attributes of *trunc_quant* (``bit_width=4``).
    """

    def __init__(self, trunc_quant: Any = None, return_quant_tensor: bool = True, **kwargs: object) -> None:
        super().__init__()
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)
        groups = split_keywords(type(self).__name__, kwargs, ("",))
        self.trunc_quant = _build_quantizer(self, "trunc_quant", trunc_quant, NoneTruncQuant, groups[""], {}, "")

    def forward(self, input: Any) -> Any:
        return self._pack(self.trunc_quant(input), self.return_quant_tensor)


class ClampQuantAccumulator(QuantLayer):
    """Clamps the integers of a quant tensor to fewer bits, at the same scale; a plain tensor passes.

    Args:
        clamp_quant: quantizer such as :class:`headrace.quant.ClampTo8bit`; ``None`` passes everything.
        return_quant_tensor: return a quant tensor; needs one as input.
        kwargs: attributes of *clamp_quant* (``bit_width=12``).
    """

    def __init__(self, clamp_quant: Any = None, return_quant_tensor: bool = True, **kwargs: object) -> None:
        super().__init__()
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)
        groups = split_keywords(type(self).__name__, kwargs, ("",))
        self.clamp_quant = _build_quantizer(self, "clamp_quant", clamp_quant, NoneClampQuant, groups[""], {}, "")

    def forward(self, input: Any) -> Any:
        return self._pack(self.clamp_quant(input), self.return_quant_tensor)
