"""Quantizers assembled from the parts of this package.

A *tensor quantizer* returns ``(value, scale, zero_point, bit_width)``, the value in dequantized form.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headrace.core import autograd, functional
from headrace.core.bit_width import BitWidthConst
from headrace.core.function_wrapper import Identity, InplaceTensorClampSte, RoundSte, TensorClamp, TensorClampSte
from headrace.core.functional import Rounding
from headrace.core.scaling import StatsFromParameterScaling
from headrace.core.stateless import StatelessBuffer
from headrace.core.zero_point import ZeroZeroPoint
from headrace.inject.enum import QuantType
from headrace.inject.errors import QuantizerValueError

__all__ = [
    "BinaryQuant",
    "ClampedBinaryQuant",
    "DelayWrapper",
    "IntQuant",
    "IntegerGrid",
    "PrescaledRestrictIntQuant",
    "QuantType",
    "RescalingIntQuant",
    "TensorQuantOutput",
    "TernaryQuant",
    "TruncIntQuant",
]

TensorQuantOutput = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class IntegerGrid:
    """The constants of a quantizer whose scale and zero point do not depend on its input.

    Args:
        scale, zero_point, bit_width: as the quantizer returns them.
        shift: the zero point, or ``None`` for 0.
        low, high: integer range.
        rounding: elementwise function to integers.
    """

    scale: Tensor
    zero_point: Tensor
    bit_width: Tensor
    shift: Tensor | None
    low: int
    high: int
    rounding: Rounding

    def integers(self, x: Tensor) -> Tensor:
        """``integer - zero_point`` of every element of *x*, in one new tensor."""
        q = x / self.scale
        if self.shift is not None:
            q.add_(self.shift)
        q = q.round_() if self.rounding is torch.round else self.rounding(q)
        q.clamp_(self.low, self.high)
        return q if self.shift is None else q.sub_(self.shift)


class _NoDelay(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return y


class _DelayQuant(nn.Module):
    """Passes the unquantized tensor for the first training steps."""

    def __init__(self, quant_delay_steps: int) -> None:
        super().__init__()
        self.quant_delay_steps = quant_delay_steps

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if self.training and self.quant_delay_steps > 0:
            self.quant_delay_steps -= 1
            return x
        return y


class DelayWrapper(nn.Module):
    """Delays quantization by a number of training steps."""

    def __init__(self, quant_delay_steps: int | None) -> None:
        super().__init__()
        self.delay_impl: nn.Module = _DelayQuant(quant_delay_steps) if quant_delay_steps else _NoDelay()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.delay_impl(x, y)
        return out


class IntQuant(nn.Module):
    """Uniform integer quantization with given scale, zero point and bit width.

    Args:
        narrow_range: drop the lowest (signed) or highest (unsigned) integer.
        signed: signed or unsigned integers.
        input_view_impl: view of the input before quantization, a module or a module class.
        float_to_int_impl: rounding.
        tensor_clamp_impl: clamping.
        quant_delay_steps: training steps before quantization starts.
    """

    def __init__(
        self,
        narrow_range: bool,
        signed: bool,
        input_view_impl: nn.Module | type[nn.Module] = Identity,
        float_to_int_impl: nn.Module | None = None,
        tensor_clamp_impl: nn.Module | None = None,
        quant_delay_steps: int = 0,
    ) -> None:
        super().__init__()
        self.float_to_int_impl = float_to_int_impl or RoundSte()
        self.tensor_clamp_impl = tensor_clamp_impl or TensorClamp()
        self.signed = signed
        self.narrow_range = narrow_range
        self.delay_wrapper = DelayWrapper(quant_delay_steps)
        self.input_view_impl = input_view_impl() if isinstance(input_view_impl, type) else input_view_impl

    def min_int(self, bit_width: Tensor) -> Tensor:
        """Smallest integer at *bit_width*."""
        return functional.min_int(self.signed, self.narrow_range, bit_width)

    def max_int(self, bit_width: Tensor) -> Tensor:
        """Largest integer at *bit_width*."""
        return functional.max_int(self.signed, self.narrow_range, bit_width)

    def to_int(self, scale: Tensor, zero_point: Tensor, bit_width: Tensor, x: Tensor) -> Tensor:
        """``clamp(round(x / scale + zero_point))``, straight-through."""
        y = self.input_view_impl(x) / scale + zero_point
        y = self.float_to_int_impl(y)
        out: Tensor = self.tensor_clamp_impl(y, min_val=self.min_int(bit_width), max_val=self.max_int(bit_width))
        return out

    def forward(self, scale: Tensor, zero_point: Tensor, bit_width: Tensor, x: Tensor) -> Tensor:
        y = (self.to_int(scale, zero_point, bit_width, x) - zero_point) * scale
        out: Tensor = self.delay_wrapper(x, y)
        return out

    def fused_rounding(self) -> Rounding | None:
        """The plain rounding function if the built-in parts allow the fused path, else ``None``."""
        fusable = type(self.tensor_clamp_impl) in (TensorClamp, TensorClampSte)
        if fusable and isinstance(self.delay_wrapper.delay_impl, _NoDelay) and type(self) is IntQuant:
            rounding: Rounding | None = getattr(type(self.float_to_int_impl), "rounding", None)
            return rounding
        return None

    def fused(
        self,
        scale: Tensor,
        zero_point: Tensor | None,
        bit_width: int,
        x: Tensor,
        rounding: Rounding,
        rectify: bool = False,
    ) -> Tensor:
        """The same as :meth:`forward` in one pass, for a constant integer bit width; of ``relu(x)`` with *rectify*."""
        low, high = functional.integer_range(bit_width, self.signed, self.narrow_range)
        return autograd.fake_quantize(
            self.input_view_impl(x), scale, zero_point, low, high, rounding, self.clamps_straight_through, rectify
        )

    @property
    def clamps_straight_through(self) -> bool:
        """Whether clamped elements get the gradient, too."""
        return type(self.tensor_clamp_impl) is TensorClampSte


class RescalingIntQuant(nn.Module):
    """Integer quantization with ``scale = scaling_impl(x) / int_scaling_impl(bit_width)``.

    Args:
        int_quant: integer quantization, see :class:`IntQuant`.
        scaling_impl: the real threshold of the range.
        int_scaling_impl: the integer that the threshold maps to.
        zero_point_impl: the zero point.
        bit_width_impl: the bit width.
    """

    def __init__(
        self,
        int_quant: IntQuant,
        scaling_impl: nn.Module,
        int_scaling_impl: nn.Module,
        zero_point_impl: nn.Module,
        bit_width_impl: nn.Module,
    ) -> None:
        super().__init__()
        if getattr(bit_width_impl, "static_bit_width", None) == 1 and getattr(int_quant, "narrow_range", False):
            raise QuantizerValueError(
                "narrow_range=True at 1 bit leaves no value but 0; set narrow_range=False, or use a binary quantizer "
                "(headrace.quant.SignedBinary...)"
            )
        self.int_quant = int_quant
        self.scaling_impl = scaling_impl
        self.int_scaling_impl = int_scaling_impl
        self.zero_point_impl = zero_point_impl
        self.msb_clamp_bit_width_impl = bit_width_impl
        self.observer_only = False

    def forward(self, x: Tensor, rectify: bool = False) -> TensorQuantOutput:
        """Quantize *x*, or ``relu(x)`` with *rectify*; the latter in one pass where that is possible."""
        if rectify and self._needs_whole_input():
            x, rectify = torch.relu(x), False
        fused = self._fused_with_abs_max(x)
        if fused is not None:
            return fused
        bit_width: Tensor = self.msb_clamp_bit_width_impl()
        scale: Tensor = self.scaling_impl(x, self.int_scaling_impl(bit_width))
        zero_point: Tensor = self.zero_point_impl(x, scale, bit_width)
        if self.observer_only:
            return x, scale, zero_point, bit_width
        return self._quantize(x, scale, zero_point, bit_width, rectify), scale, zero_point, bit_width

    def _needs_whole_input(self) -> bool:
        """Whether a ReLU before this quantizer cannot be left to its kernel."""
        parts = (self.scaling_impl, self.zero_point_impl)
        return (
            self.observer_only
            or any(getattr(part, "follows_input", True) for part in parts)
            or self.int_quant.fused_rounding() is None
            or getattr(self.msb_clamp_bit_width_impl, "static_bit_width", None) is None
        )

    def constants(self, x: Tensor) -> IntegerGrid | None:
        """What quantizes any input like *x*, if that does not depend on the input and the parts are built in."""
        static: int | None = getattr(self.msb_clamp_bit_width_impl, "static_bit_width", None)
        if static is None or self._needs_whole_input() or type(self.int_quant.input_view_impl) is not Identity:
            return None
        rounding = self.int_quant.fused_rounding()
        bit_width: Tensor = self.msb_clamp_bit_width_impl()
        scale: Tensor = self.scaling_impl(x, self.int_scaling_impl(bit_width))
        zero_point: Tensor = self.zero_point_impl(x, scale, bit_width)
        low, high = functional.integer_range(static, self.int_quant.signed, self.int_quant.narrow_range)
        if rounding is None or scale.dtype != torch.float32 or not bool((scale > 0).all()):
            return None
        shift = None if type(self.zero_point_impl) is ZeroZeroPoint else zero_point
        return IntegerGrid(scale, zero_point, bit_width, shift, low, high, rounding)

    def _fused_with_abs_max(self, x: Tensor) -> TensorQuantOutput | None:
        """Everything in one pass, for integers without zero point at the scale of the largest magnitude."""
        static: int | None = getattr(self.msb_clamp_bit_width_impl, "static_bit_width", None)
        rounding = self.int_quant.fused_rounding()
        scaling = self.scaling_impl
        if static is None or rounding is None or not isinstance(scaling, StatsFromParameterScaling):
            return None
        per_row = scaling.abs_max_of_rows()
        plain = type(self.zero_point_impl) is ZeroZeroPoint and type(self.int_quant.input_view_impl) is Identity
        if per_row is None or not plain or self.observer_only or x.dim() == 0:
            return None
        bit_width: Tensor = self.msb_clamp_bit_width_impl()
        low, high = functional.integer_range(static, self.int_quant.signed, self.int_quant.narrow_range)
        value, scale = autograd.abs_max_fake_quantize(
            x,
            self.int_scaling_impl(bit_width),
            scaling.stats_scaling_impl.clamp_scaling.min_val,
            per_row,
            low,
            high,
            rounding,
            self.int_quant.clamps_straight_through,
        )
        return value, scale, self.zero_point_impl(x, scale, bit_width), bit_width

    def _quantize(
        self, x: Tensor, scale: Tensor, zero_point: Tensor, bit_width: Tensor, rectify: bool = False
    ) -> Tensor:
        static: int | None = getattr(self.msb_clamp_bit_width_impl, "static_bit_width", None)
        rounding = self.int_quant.fused_rounding()
        if static is not None and rounding is not None:
            shift = None if type(self.zero_point_impl) is ZeroZeroPoint else zero_point
            return self.int_quant.fused(scale, shift, static, x, rounding, rectify)
        out: Tensor = self.int_quant(scale, zero_point, bit_width, x)
        return out


class PrescaledRestrictIntQuant(nn.Module):
    """Integer quantization whose scale comes from outside (a bias at input scale times weight scale)."""

    def __init__(self, int_quant: IntQuant, bit_width_impl: nn.Module) -> None:
        super().__init__()
        self.int_quant = int_quant
        self.msb_clamp_bit_width_impl = bit_width_impl
        self.zero_point = StatelessBuffer(torch.tensor(0.0))

    def forward(self, x: Tensor, scale: Tensor) -> TensorQuantOutput:
        bit_width: Tensor = self.msb_clamp_bit_width_impl()
        zero_point = self.zero_point.value
        return self.int_quant(scale, zero_point, bit_width, x), scale, zero_point, bit_width


class BinaryQuant(nn.Module):
    """``scale`` where ``x >= 0``, otherwise ``-scale``; the gradient passes everywhere."""

    def __init__(self, scaling_impl: nn.Module, signed: bool = True, quant_delay_steps: int = 0) -> None:
        super().__init__()
        if not signed:
            raise QuantizerValueError("binary quantization has the values -scale and +scale: signed must be True")
        self.scaling_impl = scaling_impl
        self.bit_width = BitWidthConst(1)
        self.zero_point = StatelessBuffer(torch.tensor(0.0))
        self.delay_wrapper = DelayWrapper(quant_delay_steps)

    def clamp(self, x: Tensor, scale: Tensor) -> Tensor:
        """What happens to *x* before its sign is taken; the identity here."""
        return x

    def forward(self, x: Tensor) -> TensorQuantOutput:
        scale: Tensor = self.scaling_impl(x)
        y = functional.binary_sign_ste(self.clamp(x, scale)) * scale
        return self.delay_wrapper(x, y), scale, self.zero_point.value, self.bit_width()


class ClampedBinaryQuant(BinaryQuant):
    """:class:`BinaryQuant` of ``clamp(x, -scale, scale)``: no gradient outside."""

    def __init__(
        self, scaling_impl: nn.Module, tensor_clamp_impl: nn.Module | None = None, quant_delay_steps: int = 0
    ) -> None:
        super().__init__(scaling_impl, True, quant_delay_steps)
        self.tensor_clamp_impl = tensor_clamp_impl or TensorClamp()

    def clamp(self, x: Tensor, scale: Tensor) -> Tensor:
        in_place = isinstance(self.tensor_clamp_impl, InplaceTensorClampSte)
        if in_place and not self.training:  # evaluation never changes the weights
            return x
        out: Tensor = self.tensor_clamp_impl(x, -scale, scale)
        return out


class TernaryQuant(nn.Module):
    """``sign(x) * scale`` where ``|x| > threshold * scale``, otherwise 0; the gradient passes the kept elements."""

    def __init__(self, scaling_impl: nn.Module, threshold: float, quant_delay_steps: int | None = None) -> None:
        super().__init__()
        self.scaling_impl = scaling_impl
        self.threshold = threshold
        self.bit_width = BitWidthConst(2)
        self.zero_point = StatelessBuffer(torch.tensor(0.0))
        self.delay_wrapper = DelayWrapper(quant_delay_steps)

    def forward(self, x: Tensor) -> TensorQuantOutput:
        scale: Tensor = self.scaling_impl(x)
        kept = (x.abs() > self.threshold * scale).to(x.dtype)
        y = kept * functional.straight_through(x, torch.sign) * scale
        return self.delay_wrapper(x, y), scale, self.zero_point.value, self.bit_width()


class TruncIntQuant(nn.Module):
    """Keeps the most significant bits of integers: ``clamp(round(integer / 2 ** (bits_in - bits_out)))``.

    Args:
        float_to_int_impl: rounding.
        bit_width_impl: bits to keep.
        narrow_range: drop the lowest (signed) or highest (unsigned) integer.
        tensor_clamp_impl: clamping.
        quant_delay_steps: training steps before quantization starts.
    """

    def __init__(
        self,
        float_to_int_impl: nn.Module,
        bit_width_impl: nn.Module,
        narrow_range: bool = False,
        tensor_clamp_impl: nn.Module | None = None,
        quant_delay_steps: int = 0,
    ) -> None:
        super().__init__()
        self.narrow_range = narrow_range
        self.msb_clamp_bit_width_impl = bit_width_impl
        self.float_to_int_impl = float_to_int_impl
        self.tensor_clamp_impl = tensor_clamp_impl or TensorClamp()
        self.delay_wrapper = DelayWrapper(quant_delay_steps)

    def forward(
        self, x: Tensor, scale: Tensor, zero_point: Tensor, input_bit_width: Tensor, signed: bool
    ) -> TensorQuantOutput:
        bit_width: Tensor = self.msb_clamp_bit_width_impl()
        integers = functional.round_ste(x / scale + zero_point)
        step = 2.0 ** (input_bit_width - bit_width)
        y = self.tensor_clamp_impl(
            self.float_to_int_impl(integers / step),
            min_val=functional.min_int(signed, self.narrow_range, bit_width),
            max_val=functional.max_int(signed, self.narrow_range, bit_width),
        )
        output_scale, output_zero_point = scale * step, zero_point / step
        y = (y - output_zero_point) * output_scale
        return self.delay_wrapper(x, y), output_scale, output_zero_point, bit_width
