"""Quantized activations."""

from __future__ import annotations

from typing import Any

from torch import nn

from headrace.nn.elementwise import Hardswish, Sigmoid, Tanh
from headrace.nn.quant_layer import QuantNonLinearActLayer
from headrace.quant import Int8ActPerTensorFloat, Int8ActPerTensorFloatMinMaxInit, Uint8ActPerTensorFloat


class QuantReLU(QuantNonLinearActLayer):
    """ReLU, then quantization to unsigned integers. For arguments see the base class."""

    def __init__(
        self,
        act_quant: Any = Uint8ActPerTensorFloat,
        input_quant: Any = None,
        return_quant_tensor: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(nn.ReLU, True, input_quant, act_quant, return_quant_tensor, kwargs)


class QuantSigmoid(QuantNonLinearActLayer):
    """Sigmoid, then quantization to unsigned integers. For arguments see the base class."""

    def __init__(
        self,
        act_quant: Any = Uint8ActPerTensorFloat,
        input_quant: Any = None,
        return_quant_tensor: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(Sigmoid, False, input_quant, act_quant, return_quant_tensor, kwargs)


class QuantTanh(QuantNonLinearActLayer):
    """Hyperbolic tangent, then quantization to signed integers. For arguments see the base class."""

    def __init__(
        self,
        act_quant: Any = Int8ActPerTensorFloat,
        input_quant: Any = None,
        return_quant_tensor: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(Tanh, False, input_quant, act_quant, return_quant_tensor, kwargs)


class QuantHardSwish(QuantNonLinearActLayer):
    """Hard swish, then quantization to unsigned integers (negative results become 0). For arguments see the base class.

    A quantizer with a zero point, such as :class:`headrace.quant.ShiftedUint8ActPerTensorFloat`, keeps them.
    """

    def __init__(
        self,
        act_quant: Any = Uint8ActPerTensorFloat,
        input_quant: Any = None,
        return_quant_tensor: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(Hardswish, False, input_quant, act_quant, return_quant_tensor, kwargs)


class QuantHardTanh(QuantNonLinearActLayer):
    """Clamping between ``min_val`` and ``max_val`` by the range of the quantizer, whose scale starts from them."""

    def __init__(
        self,
        act_quant: Any = Int8ActPerTensorFloatMinMaxInit,
        input_quant: Any = None,
        return_quant_tensor: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(nn.Hardtanh, True, input_quant, act_quant, return_quant_tensor, kwargs)


class QuantIdentity(QuantNonLinearActLayer):
    """Quantization to signed integers, nothing else. For arguments see the base class."""

    def __init__(
        self, act_quant: Any = Int8ActPerTensorFloat, return_quant_tensor: bool = False, **kwargs: object
    ) -> None:
        super().__init__(None, True, None, act_quant, return_quant_tensor, kwargs)
