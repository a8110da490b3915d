"""Uniform integer quantization with given scale, zero point and bit width."""

from __future__ import annotations

from torch import Tensor, nn

from headrace.core import autograd, functional
from headrace.core.function_wrapper import Identity, RoundSte, TensorClamp, TensorClampSte
from headrace.core.functional import Rounding
from headrace.core.quant.delay import DelayWrapper, _NoDelay
from headrace.inject.errors import QuantizerValueError

NARROW_AT_ONE_BIT = (
    "narrow_range=True at 1 bit leaves no value but 0; set narrow_range=False, or use a binary quantizer "
    "(headrace.quant.SignedBinary...)"
)


def check_range(int_quant: nn.Module, bit_width_impl: nn.Module) -> None:
    """Raise if the integers are 0 and nothing else.

    Raises:
        QuantizerValueError: a narrow range at 1 bit.
    """
    if getattr(bit_width_impl, "static_bit_width", None) == 1 and getattr(int_quant, "narrow_range", False):
        raise QuantizerValueError(NARROW_AT_ONE_BIT)


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
        y = self.float_to_int_impl(self.input_view_impl(x) / scale + zero_point)
        return self.clamped(y, bit_width)

    def clamped(self, y: Tensor, bit_width: Tensor) -> Tensor:
        """*y* within the integers of *bit_width* bits."""
        out: Tensor = self.tensor_clamp_impl(y, min_val=self.min_int(bit_width), max_val=self.max_int(bit_width))
        return out

    def integers_of(self, y: Tensor, bit_width: Tensor) -> Tensor:
        """*y* rounded as the elements are (to nearest, where each element has its own way) and clamped."""
        own = getattr(self.float_to_int_impl, "per_element", False)
        return self.clamped(functional.round_ste(y) if own else self.float_to_int_impl(y), bit_width)

    def forward(self, scale: Tensor, zero_point: Tensor, bit_width: Tensor, x: Tensor) -> Tensor:
        y = (self.to_int(scale, zero_point, bit_width, x) - zero_point) * scale
        out: Tensor = self.delay_wrapper(self.input_view_impl(x), y)
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
