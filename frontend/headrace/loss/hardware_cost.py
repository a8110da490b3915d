"""A differentiable estimate of what a model costs as hardware.

For a layer with ``MW`` inputs and ``MH`` outputs of a vector and ``V`` vectors a frame (1 for a dense layer, the
positions of a convolution), with inputs of ``x`` bits and weights of ``w`` bits::

    bit operations = V * MW * MH * x * w

The lookup tables are those that the compiler estimates for the layer at the frame interval that is asked for: its
matrix unit with the window before it, or its depthwise unit, with the accumulator that the current weights need
(:mod:`headrace.loss.layer_cost`); and those of the thresholds of the activation that follows. Bit widths may be
learned: both estimates pass gradients to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from headrace.core.quant import BinaryQuant, TernaryQuant
from headrace.loss.layer_cost import Operand, Shape, bits_of, depthwise_luts, matrix_luts, threshold_luts
from headrace.loss.weighted_bit_width import BitWidthLossError
from headrace.nn.geometry import ConvGeometry, ConvTransposeGeometry
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.proxy import ActQuantProxyFromInjector
from headrace.quant_tensor import IntQuantTensor
from headrace.quant_tensor.constants import fact


@dataclass(frozen=True, eq=False)
class HardwareEstimate:
    """The cost of one layer, scalars with gradients.

    Args:
        bit_operations: one-bit products a frame.
        luts: lookup tables at the frame interval that was asked for; DSP blocks and block RAMs count as the tables
            that they replace.
        accumulator_bits: width of a sum.
    """

    bit_operations: Tensor
    luts: Tensor
    accumulator_bits: Tensor


def layer_estimate(
    shape: Shape, x: Operand, w: Operand, cycles: int, weights: Tensor | None = None
) -> HardwareEstimate:
    """The cost of a layer with weights.

    Args:
        shape: of the layer.
        x, w: formats of inputs and weights.
        cycles: clock cycles that a frame may take.
        weights: the integer weights, ``(outputs, products of an output)``, which tell how wide sums get and how many
            products there are not; ``None`` for the widest sums and no zeros.
    """
    (low, high), smooth = _sums(shape, x, w, weights), x.bits + w.bits + math.log2(shape.inputs)
    acc = bits_of(low, high, smooth)
    if shape.channels:
        luts = depthwise_luts(shape, x, w, cycles, acc)
    else:
        places = shape.outputs * shape.inputs
        density = 1.0 if weights is None else ((weights != 0).sum() / places).clamp(max=1.0)
        luts = matrix_luts(shape, x, w, cycles, acc, density)
    products = shape.vectors * shape.outputs * shape.inputs
    return HardwareEstimate(products * x.bits * w.bits, luts, acc)


def _sums(shape: Shape, x: Operand, w: Operand, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """The smallest and the largest sum."""
    x_low, x_high = (bound.detach() for bound in x.bounds())
    if weights is None:
        w_low, w_high = (bound.detach() for bound in w.bounds())
        above, below = shape.inputs * w_high, shape.inputs * -w_low
        return (
            torch.minimum(x_low * above, -x_high * below),
            torch.maximum(x_high * above, -x_low * below),
        )
    above, below = weights.clamp(min=0).sum(1), -weights.clamp(max=0).sum(1)
    return (x_low * above - x_high * below).min(), (x_high * above - x_low * below).max()


class HardwareCost:
    """Estimates the cost of all layers of a model from its latest forward pass.

    ::

        cost = HardwareCost(model, cycles=100)
        loss = F.cross_entropy(model(images), labels) + 1e-5 * cost.luts()

    Args:
        model: a model whose layers with weights get quantized inputs (``input_quant``, or ``return_quant_tensor=True``
            in the layer before).
        cycles: clock cycles between frames that the hardware is folded for; 1 builds every multiplier.

    Raises:
        BitWidthLossError: *cycles* below 1, or a model without layers.
    """

    def __init__(self, model: nn.Module, cycles: int = 1) -> None:
        if isinstance(cycles, bool) or not isinstance(cycles, int) or cycles < 1:
            raise BitWidthLossError(f"cycles must be an integer of at least 1, got {cycles!r}")
        self.cycles = cycles
        self.layers: dict[str, HardwareEstimate] = {}
        self.activations: dict[str, Tensor] = {}
        """Lookup tables of the thresholds, by the name of the quantizer."""
        self._handles: list[RemovableHandle] = []
        self._quantized: dict[nn.Module, IntQuantTensor] = {}
        self._last: tuple[Any, int, int, Tensor] | None = None
        inputs = {m.input_quant for m in model.modules() if isinstance(m, QuantWeightBiasInputOutputLayer)}
        for name, module in model.named_modules():
            if isinstance(module, QuantWeightBiasInputOutputLayer):
                self._watch(name or "model", module)
            elif isinstance(module, ActQuantProxyFromInjector) and module not in inputs:
                self._handles.append(module.register_forward_hook(self._thresholds(name)))
        if not any(isinstance(m, QuantWeightBiasInputOutputLayer) for m in model.modules()):
            self.remove_hooks()
            raise BitWidthLossError(f"{type(model).__name__} holds no quantized layer with a weight")

    def _watch(self, name: str, layer: Any) -> None:
        def keep(proxy: nn.Module, inputs: Any, out: Any) -> None:
            if isinstance(out, IntQuantTensor):
                self._quantized[proxy] = out

        def estimate(module: Any, inputs: tuple[Any, ...], out: Any) -> None:
            weight, input = self._quantized.get(module.weight_quant), self._quantized.get(module.input_quant)
            if weight is None or input is None:
                missing = "weight" if weight is None else "input"
                raise BitWidthLossError(
                    f"{name}: its {missing} is not quantized, so it has no cost in hardware; set {missing}_quant"
                    + (", or return_quant_tensor=True in the layer before" if missing == "input" else "")
                )
            self.layers[name] = self._estimate(module, input, weight, tuple(out.shape))
            outputs = module.geometry.output_channels(module.weight)
            self._last = module, outputs, math.prod(out.shape[1:]), self.layers[name].accumulator_bits

        self._handles += [
            layer.weight_quant.register_forward_hook(keep),
            layer.input_quant.register_forward_hook(keep),
            layer.register_forward_hook(estimate),
        ]

    def _estimate(
        self, layer: Any, input: IntQuantTensor, weight: IntQuantTensor, out: tuple[int, ...]
    ) -> HardwareEstimate:
        proxy = layer.weight_quant
        binary, ternary = (isinstance(proxy.tensor_quant, kind) for kind in (BinaryQuant, TernaryQuant))
        x = Operand(_scalar(input.bit_width), input.signed, bipolar=input.signed and _is_one_bit(input.bit_width))
        w = Operand(_scalar(weight.bit_width), weight.signed, bool(proxy.is_narrow_range) or ternary, binary)
        shape = layer_shape(layer, tuple(input.shape), out)
        with torch.no_grad():
            integers = torch.round(weight.value.detach() / weight.scale.detach())
            if isinstance(layer.geometry, ConvTransposeGeometry):
                integers = layer.geometry.turned(integers)
        return layer_estimate(shape, x, w, self.cycles, integers.reshape(shape.outputs, -1))

    def _thresholds(self, name: str) -> Any:
        """A hook that takes what follows a layer, element for element, for thresholds on its sums."""

        def estimate(proxy: Any, inputs: Any, out: Any) -> None:
            if not proxy.is_quant_enabled:
                return
            last, self._last = self._last, None
            if last is None or not isinstance(out, IntQuantTensor) or math.prod(out.shape[1:]) != last[2]:
                return
            _, channels, elements, acc = last
            self.activations[name] = threshold_luts(channels, elements, _scalar(out.bit_width), acc, self.cycles)

        return estimate

    def _total(self, parts: list[Tensor]) -> Tensor:
        if not self.layers:
            raise BitWidthLossError("no cost yet: run the model forward, in training mode, first")
        return torch.stack([part.reshape(()) for part in parts]).sum()

    def bit_operations(self) -> Tensor:
        """One-bit products a frame, of all layers; differentiable."""
        return self._total([cost.bit_operations for cost in self.layers.values()])

    def luts(self) -> Tensor:
        """Lookup tables of all layers and activations; differentiable."""
        return self._total([*(cost.luts for cost in self.layers.values()), *self.activations.values()])

    def remove_hooks(self) -> None:
        """Stop watching."""
        for handle in self._handles:
            handle.remove()
        self._handles = []


def layer_shape(layer: Any, input: tuple[int, ...], out: tuple[int, ...]) -> Shape:
    """What *layer* computes a frame, for inputs and outputs of these shapes."""
    geometry = layer.geometry
    outputs, terms = geometry.output_channels(layer.weight), geometry.terms(layer.weight)
    vectors = max(1, math.prod(out[1:]) // outputs)
    if not isinstance(geometry, ConvGeometry):
        return Shape(terms, outputs, vectors)
    channels, image, kernel = input[-geometry.ndim - 1], input[-geometry.ndim :], layer.weight.shape[2:]
    reach = 0
    for size, taps, dilation in zip(image, kernel, geometry.dilation, strict=True):
        reach = reach * size + (taps - 1) * dilation
    window = reach + 1 if math.prod(kernel) > 1 else 0
    if geometry.groups == channels > 1:
        return Shape(terms, outputs, vectors, channels, window, channels)
    return Shape(terms * geometry.groups, outputs, vectors, 0, window, channels)  # groups run as zeros of a dense one


def _scalar(bits: Tensor) -> Tensor:
    return bits.reshape(())


def _is_one_bit(bits: Tensor) -> bool:
    return not bits.requires_grad and fact(bits, float) == 1.0


__all__ = ["HardwareCost", "HardwareEstimate", "layer_estimate", "layer_shape"]
