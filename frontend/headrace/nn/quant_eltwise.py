"""Elementwise addition and concatenation on a common grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from headrace.inject.errors import QuantizerTypeError
from headrace.nn.keywords import split_keywords
from headrace.nn.quant_layer import QuantLayer, _build_quantizer, _flag
from headrace.quant import Int8ActPerTensorFloat, NoneActQuant


class QuantInputOutputLayer(QuantLayer):
    """Several inputs through one quantizer, and an output quantizer.

    Args:
        input_quant: quantizer that all inputs share, so that they are on one grid.
        output_quant: quantizer of the result.
        tie_input_output_quant: use one quantizer for both; enable only one of the two.
        return_quant_tensor: return a quant tensor instead of a plain one.
        kwargs: attributes of the quantizers, prefixed by ``input_`` or ``output_``.
    """

    def __init__(
        self,
        input_quant: Any = Int8ActPerTensorFloat,
        output_quant: Any = Int8ActPerTensorFloat,
        tie_input_output_quant: bool = False,
        return_quant_tensor: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__()
        self.return_quant_tensor = _flag("return_quant_tensor", return_quant_tensor)
        groups: Mapping[str, Mapping[str, object]] = split_keywords(type(self).__name__, kwargs, ("input_", "output_"))
        self.input_quant: Any = _build_quantizer(
            self, "input_quant", input_quant, NoneActQuant, groups["input_"], {}, "input_"
        )
        self.output_quant: Any = _build_quantizer(
            self, "output_quant", output_quant, NoneActQuant, groups["output_"], {}, "output_"
        )
        if _flag("tie_input_output_quant", tie_input_output_quant):
            self._tie()

    def _tie(self) -> None:
        if self.input_quant.is_quant_enabled and self.output_quant.is_quant_enabled:
            raise QuantizerTypeError("tie_input_output_quant=True takes one quantizer: set the other to None")
        if self.input_quant.is_quant_enabled:
            self.output_quant = self.input_quant
        else:
            self.input_quant = self.output_quant


class QuantEltwiseAdd(QuantInputOutputLayer):
    """``a + b``, both on the grid of one quantizer. For arguments see the base class."""

    def forward(self, input: Any, other: Any) -> Any:
        total = self.input_quant(input) + self.input_quant(other)
        return self._pack(self.output_quant(total), self.return_quant_tensor)


class QuantCat(QuantInputOutputLayer):
    """``torch.cat``, all on the grid of one quantizer. For arguments see the base class."""

    def forward(self, tensor_list: Any, dim: int = 1) -> Any:
        joined = torch.cat([self.input_quant(t) for t in tensor_list], dim=dim)
        return self._pack(self.output_quant(joined), self.return_quant_tensor)
