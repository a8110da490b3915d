"""Exact evaluation of layers: integers are accumulated as integers, the scale is applied once (rule E1).

With input integers ``n_x`` (zero point subtracted) at scale ``s_x`` and weight integers ``n_w`` at ``s_w``::

    accumulator = sum n_x * n_w                       exact
    y = float32(accumulator) * float32(float64(s_x) * float64(s_w))
    y = y + bias                                      one more float32 addition

Integers are held in float32 while every partial sum stays below 2**24, in float64 below 2**53, in int64 otherwise.
Float kernels are exact on such integers as long as they only multiply and add, in any order and with or without
fused multiply-adds; kernels that transform (Winograd, FFT) or shorten the mantissa (TF32, bfloat16) are kept out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headrace.core import functional
from headrace.core.tracked_state import TrackedState
from headrace.nn.geometry import Geometry
from headrace.nn.joined import aligned, scale_per_input
from headrace.quant_tensor import IntQuantTensor, unpack_quant_tensor
from headrace.quant_tensor.constants import fact, is_whole, is_zero, largest_magnitude

FLOAT32_EXACT = 2**24
FLOAT64_EXACT = 2**53
MAX_INPUT_BITS = 22
_GRID = "_headrace_grid"


# A plain tensor that came out of a quantizer in evaluation remembers its grid, so that the next layer can accumulate
# integers although return_quant_tensor is False. The version tells whether it was changed in place since.


def plain(out: Any) -> Any:
    """The value of a quant tensor as a plain tensor; in evaluation it remembers its grid."""
    if not isinstance(out, IntQuantTensor):
        return unpack_quant_tensor(out)
    value = out.value
    if not out.training and not value.is_inference():
        grid = (value._version, out.scale, out.zero_point, out.bit_width, out.signed, out.integers_if_known)
        setattr(value, _GRID, grid)
    return value


def quantized(x: Any) -> IntQuantTensor | None:
    """*x* as a quant tensor: if it is one, or if it remembers its grid; else ``None``."""
    if isinstance(x, IntQuantTensor):
        return x
    grid = getattr(x, _GRID, None)
    if grid is None or x.is_inference() or x._version != grid[0]:
        return None
    _, scale, zero_point, bit_width, signed, known = grid
    if known is not None:
        return IntQuantTensor.of_integers(known, scale, zero_point, bit_width, signed, x)
    return IntQuantTensor(x, scale, zero_point, bit_width, signed, False)


def integers(x: Tensor, scale: Tensor) -> Tensor:
    """The integers ``x / scale`` of a tensor on the grid of *scale*, exact below 2**22 (float32) in magnitude."""
    return torch.round(x / scale)


@dataclass(frozen=True)
class WeightIntegers:
    """A quantized weight, ready for exact accumulation.

    Args:
        integers: float64, zero point subtracted, shape of the weight.
        scale: a scalar or one an output channel, float32, flat.
        largest_sum: largest sum of magnitudes over the inputs of an output channel.
    """

    integers: Tensor
    scale: Tensor
    largest_sum: float
    narrow: Tensor


def weight_integers(weight: IntQuantTensor, geometry: Geometry) -> WeightIntegers | None:
    """The integers of *weight*; ``None`` if its values are on no grid of at most one scale an output channel."""
    scale = weight.scale.detach()
    per_output = geometry.weight_scale_per_output(scale, weight.value)
    if per_output is None or weight.value.numel() == 0:
        return None
    n = torch.round(weight.value.detach().double() / scale.double())
    if not bool((n.to(weight.value.dtype) * scale == weight.value).all()):
        return None
    largest = float(geometry.sums_per_output(n.abs()).max())
    return WeightIntegers(n, per_output, largest, n.float())


def _float32_is_exact(device: torch.device) -> bool:
    """Whether float32 matrix products use the whole mantissa."""
    return device.type == "cpu" and torch.get_float32_matmul_precision() == "highest"


def accumulate(x: Tensor, weight: WeightIntegers, bound: float, geometry: Geometry) -> Tensor:
    """The exact accumulator of integers *x* and *weight*, in a dtype that holds it.

    Args:
        x: integers held in a float type.
        weight: see :class:`WeightIntegers`.
        bound: no partial sum is larger in magnitude.
        geometry: the operation.
    """
    if bound < FLOAT32_EXACT and _float32_is_exact(x.device):
        return geometry.integer(x.float(), weight.narrow)
    if bound < FLOAT64_EXACT:
        return geometry.integer(x.double(), weight.integers)
    return geometry.integer(x.to(torch.int64), weight.integers.to(torch.int64))


def apply(layer: Any, input: Any, weight: Any, bias: Tensor | None, geometry: Geometry) -> Tensor | None:
    """The exact output of *layer*, or ``None`` where it is not integer arithmetic.

    That is: the input or the weight is not quantized, scales of the input vary along more than its channels, or it
    is the sum of a layer with a bias off the grid, or of more than 22 bits.
    """
    x = quantized(input)
    if x is None or not isinstance(weight, IntQuantTensor) or x.content.dtype != torch.float32:
        return None
    plan = layer._weight_cache.plan(layer, x, weight, geometry)
    if plan is None:
        return None
    if plan.of_values:
        acc = geometry.integer(x.value.detach().double(), plan.weight.integers)
    else:
        acc = accumulate(_integers_of(x, plan), plan.weight, plan.bound, geometry)
    out = acc.to(torch.float32).mul_(plan.scale.view(geometry.channel_shape(acc)))
    if bias is not None:
        out.add_(bias.detach().view(geometry.channel_shape(acc)))
    if torch.is_grad_enabled() and (x.value.requires_grad or weight.value.requires_grad):
        fake = geometry(x.value, weight.value, bias)
        return functional.substitute(fake, out)
    return out


def _integers_of(x: IntQuantTensor, plan: Plan) -> Tensor:
    if x.integers_if_known is not None:
        return x.integers_if_known
    value, scale = x.value.detach(), x.scale.detach()
    return integers(value.double(), scale.double()) if plan.wide_input else integers(value, scale)


def product(a: Any, b: Any) -> Tensor | None:
    """The exact matrix product of two quantized activations, ``fl32(fl32(acc) * fl32(s_a * s_b))``.

    ``None`` where it is not integer arithmetic: training, an operand that is not quantized, or more than one scale.
    """
    x, y = quantized(a), quantized(b)
    if x is None or y is None or x.training or y.training:
        return None
    fits = all(
        q.value.dtype == torch.float32 and q.scale.numel() == 1 and fact(q.bit_width, float) <= MAX_INPUT_BITS
        for q in (x, y)
    )
    if not fits or not all(fact(q.zero_point, is_whole) for q in (x, y)):
        return None
    bound = largest_magnitude(x) * largest_magnitude(y) * x.value.shape[-1]
    if bound >= FLOAT64_EXACT:
        return None
    n_x, n_y = (torch.round(q.value.detach().double() / q.scale.detach().double()) for q in (x, y))
    if bound < FLOAT32_EXACT and _float32_is_exact(x.value.device):
        n_x, n_y = n_x.float(), n_y.float()
    scale = (x.scale.detach().double() * y.scale.detach().double()).float().reshape(())
    out = torch.matmul(n_x, n_y).float() * scale
    if torch.is_grad_enabled() and (x.value.requires_grad or y.value.requires_grad):
        return functional.substitute(torch.matmul(x.value, y.value), out)
    return out


@dataclass(frozen=True, eq=False)
class Plan:
    """How a layer accumulates inputs of one format.

    Args:
        weight: its integers.
        bound: no partial sum is larger in magnitude.
        scale: of the accumulator, a scalar or one an output channel, flat.
        wide_input: whether integers must be recovered from values in float64.
        of_values: whether values are accumulated, because their scales share no grid.
    """

    weight: WeightIntegers
    bound: float
    scale: Tensor
    wide_input: bool
    of_values: bool = False


def _plan(layer: Any, x: IntQuantTensor, weight: IntQuantTensor, geometry: Geometry) -> Plan | None:
    bits = fact(x.bit_width, float)
    if bits > MAX_INPUT_BITS or not fact(x.zero_point, is_whole):
        return None  # a sum that was never quantized: its float32 values do not tell the integers
    cached = layer._weight_cache.integers(layer, weight)
    input_scale = geometry.input_scale_per_output(x.scale.detach(), x.content)
    if cached is None:
        return None
    if input_scale is None:
        return _plan_of_channels(x, cached, geometry, bits > 20)
    scale = (input_scale.double() * cached.scale.double()).float()
    return Plan(cached, cached.largest_sum * largest_magnitude(x), scale, bits > 20)


def _plan_of_channels(x: IntQuantTensor, weight: WeightIntegers, geometry: Geometry, wide: bool) -> Plan | None:
    """How a layer accumulates input channels of different scales."""
    scales = scale_per_input(x.scale.detach(), x.content, geometry)
    if scales is None:
        return None
    found = aligned(weight.integers, scales, geometry)
    if found is None:
        return Plan(weight, 0.0, weight.scale, wide, of_values=True)
    n, unit = found
    largest = float(geometry.sums_per_output(n.abs()).max())
    scale = (unit * weight.scale.double()).float()
    return Plan(WeightIntegers(n, scale, largest, n.float()), largest * largest_magnitude(x), scale, wide)


class WeightCache:
    """The quantized weight of a layer in evaluation, computed once while its parameters stay the same."""

    def __init__(self) -> None:
        self._state: TrackedState | None = None
        self._weight: Any = None
        self._planned: tuple[Plan | None, tuple[Tensor, ...], tuple[object, ...]] | None = None
        self._integers: WeightIntegers | None = None
        self._has_integers = False
        self._input_format: tuple[object, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return WeightCache().__dict__  # copies and pickles start empty

    def clear(self) -> None:
        """Forget the weight."""
        self.__init__()  # type: ignore[misc]

    def weight(self, layer: Any, input: Any = None) -> Any:
        """The quantized weight of *layer*, from the cache in evaluation without gradients.

        *input* is the quantized input, for a weight that depends on its format.
        """
        arguments: tuple[Any, ...] = (layer.weight,)
        input_format: tuple[object, ...] = ()
        if getattr(layer.weight_quant, "requires_quant_input", False):
            grid = quantized(input)
            arguments = layer.weight, unpack_quant_tensor(input) if grid is None else grid
            input_format = () if grid is None else (fact(grid.bit_width, float), grid.signed)
        idle = layer.training or torch.is_grad_enabled() or not layer.weight_quant.is_quant_enabled
        if idle or "weight" not in layer._parameters or torch.compiler.is_compiling():
            if self._state is not None:
                self.clear()
            return layer.weight_quant(*arguments)
        if self._state is None or self._input_format != input_format or not self._state.is_current():
            self.clear()
            self._weight = layer.weight_quant(*arguments)
            self._input_format = input_format
            self._state = TrackedState(layer.weight_quant, (layer, "weight"))
        return self._weight

    def plan(self, layer: Any, x: IntQuantTensor, weight: IntQuantTensor, geometry: Geometry) -> Plan | None:
        """How *layer* accumulates *x*, remembered for a format that comes from a quantizer's constants."""
        if weight is not self._weight or x.integers_if_known is None:
            return _plan(layer, x, weight, geometry)
        tensors = (x.scale, x.zero_point, x.bit_width)
        key = (x.signed, geometry, x.content.dim(), *(None if t.is_inference() else t._version for t in tensors))
        if self._planned is not None:
            plan, known, known_key = self._planned
            if known_key == key and all(a is b for a, b in zip(known, tensors, strict=True)):
                return plan
        plan = _plan(layer, x, weight, geometry)
        self._planned = plan, tensors, key
        return plan

    def integers(self, layer: Any, weight: IntQuantTensor) -> WeightIntegers | None:
        """The integers of *weight*, which :meth:`weight` has returned."""
        if weight is not self._weight:
            return weight_integers(weight, layer.geometry)
        if not self._has_integers:
            self._integers = weight_integers(weight, layer.geometry)
            self._has_integers = True
        return self._integers


def output_quant_tensor(
    geometry: Geometry, value: Tensor, input: IntQuantTensor, weight: IntQuantTensor, bias: Any
) -> Any:
    """*value* as a quant tensor with the scale and bit width of the accumulator; plain if there is none.

    There is none when an operand has a zero point, or a scale a channel that the sum runs over.
    """
    if not (fact(input.zero_point, is_zero) and fact(weight.zero_point, is_zero)):
        return value
    input_scale = geometry.input_scale_per_output(input.scale, input.content)
    weight_scale = geometry.weight_scale_per_output(weight.scale, weight.value)
    if input_scale is None or weight_scale is None:
        return value
    shape = geometry.channel_shape(value)
    scale = input_scale.reshape(shape) * weight_scale.reshape(shape)
    bit_width = _accumulator_bits(geometry, input, weight)
    zero_point = torch.zeros(1, dtype=value.dtype, device=value.device)
    if isinstance(bias, IntQuantTensor):
        # One scale for all: the bias is part of the integer. One scale a channel: the zero point carries it.
        if bias.scale.numel() > 1 or not bool(torch.allclose(bias.scale, scale)):
            zero_point = -bias.value.view(shape) / scale
        bit_width = torch.maximum(bias.bit_width, bit_width) + 1.0
    elif bias is not None:
        zero_point = -bias.view(shape) / scale
    return IntQuantTensor(
        value, scale, zero_point, bit_width, input.signed or weight.signed, input.training or weight.training
    )


def _accumulator_bits(geometry: Geometry, input: IntQuantTensor, weight: IntQuantTensor) -> Tensor:
    """Bits of the accumulator from bit widths alone, differentiable in learned bit widths."""
    largest_input = functional.max_int(False, False, input.bit_width)
    largest_weight = functional.max_int(False, False, weight.bit_width)
    terms = geometry.terms(weight.value)
    return functional.ceil_ste(torch.log2(largest_input * largest_weight * terms))


__all__ = ["WeightCache", "accumulate", "apply", "output_quant_tensor", "plain", "product", "quantized"]
