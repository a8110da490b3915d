"""Integer quantizers with their scale, zero point and bit width."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headrace.core import autograd, functional
from headrace.core.function_wrapper import Identity
from headrace.core.functional import Rounding
from headrace.core.quant.int_base import IntQuant, check_range
from headrace.core.scaling import StatsFromParameterScaling
from headrace.core.stateless import StatelessBuffer
from headrace.core.zero_point import ZeroZeroPoint

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
        check_range(int_quant, bit_width_impl)
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
