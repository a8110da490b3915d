"""A differentiable estimate of what a model costs as hardware.

For a layer with ``MW`` inputs and ``MH`` outputs of a vector and ``V`` vectors a frame (1 for a dense layer, the
positions of a convolution), with inputs of ``x`` bits and weights of ``w`` bits::

    bit operations = V * MW * MH * x * w
    lanes          = ceil(V * MW * MH / cycles)          multipliers that reach the frame interval *cycles*
    SIMD, PE       = min(MW, lanes), lanes / SIMD
    LUTs           = 40 + 0.6 * lanes * x * w            multipliers
                        + 0.8 * PE * (SIMD - 1) * (x + w + 1)      adder trees
                        + PE * acc                        accumulators, acc = x + w + log2(MW)
                        + ceil(MW * MH / lanes / 64) * lanes * w           weight memory, when folded
                        + ceil(2 * MW / SIMD / 64) * SIMD * x              input buffer, when MH is folded

The form follows ``headrace.layers.mvau.MVAU`` (arithmetic ``multiply`` in LUTs), with round constants: it ranks bit
widths and is no substitute for the resource estimate of a build. Block RAM and DSP
blocks are counted as the LUTs that they replace, and PE and SIMD need not divide MH and MW, so that the estimate has no
steps. Bit widths may be learned: both estimates pass gradients to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from headrace.loss.weighted_bit_width import BitWidthLossError
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.quant_tensor import IntQuantTensor

LUT_BASE = 40.0
LUT_PER_PRODUCT_BIT = 0.6
LUT_PER_ADDER_BIT = 0.8
MEMORY_DEPTH_PER_LUT = 64


@dataclass(frozen=True, eq=False)
class HardwareEstimate:
    """The cost of one layer, scalars with gradients.

    Args:
        bit_operations: one-bit products a frame.
        luts: lookup tables at the frame interval that was asked for.
    """

    bit_operations: Tensor
    luts: Tensor


def layer_estimate(
    matrix: tuple[int, int], vectors: int, input_bits: Tensor, weight_bits: Tensor, cycles: int
) -> HardwareEstimate:
    """The formulas above.

    Args:
        matrix: ``(MW, MH)``; for grouped convolutions the inputs of one output, and all outputs.
        vectors: vectors a frame.
        input_bits, weight_bits: scalars.
        cycles: clock cycles that a frame may take.
    """
    mw, mh = matrix
    products = vectors * mw * mh
    lanes = math.ceil(products / cycles)
    simd = min(mw, lanes)
    pe = lanes / simd
    product_bits = input_bits + weight_bits
    luts = LUT_BASE + LUT_PER_PRODUCT_BIT * lanes * input_bits * weight_bits
    luts = luts + LUT_PER_ADDER_BIT * pe * (simd - 1) * (product_bits + 1) + pe * (product_bits + math.log2(mw))
    if lanes < mw * mh:
        luts = luts + math.ceil(mw * mh / lanes / MEMORY_DEPTH_PER_LUT) * lanes * weight_bits
    if pe < mh:
        luts = luts + math.ceil(2 * mw / simd / MEMORY_DEPTH_PER_LUT) * simd * input_bits
    return HardwareEstimate(products * input_bits * weight_bits, luts)


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
        self._handles: list[RemovableHandle] = []
        self._bits: dict[nn.Module, Tensor] = {}
        for name, module in model.named_modules():
            if isinstance(module, QuantWeightBiasInputOutputLayer):
                self._watch(name or "model", module)
        if not self._handles:
            raise BitWidthLossError(f"{type(model).__name__} holds no quantized layer with a weight")

    def _watch(self, name: str, layer: Any) -> None:
        def keep(proxy: nn.Module, inputs: Any, out: Any) -> None:
            if isinstance(out, IntQuantTensor):
                self._bits[proxy] = out.bit_width

        def estimate(module: Any, inputs: tuple[Any, ...], out: Any) -> None:
            weight_bits, input_bits = self._bits.get(module.weight_quant), self._bits.get(module.input_quant)
            if weight_bits is None or input_bits is None:
                missing = "weight" if weight_bits is None else "input"
                raise BitWidthLossError(
                    f"{name}: its {missing} is not quantized, so it has no cost in hardware; set {missing}_quant"
                    + (", or return_quant_tensor=True in the layer before" if missing == "input" else "")
                )
            outputs = module.geometry.output_channels(module.weight)
            vectors = max(1, math.prod(out.shape[1:]) // outputs)
            matrix = module.geometry.terms(module.weight), outputs
            self.layers[name] = layer_estimate(matrix, vectors, input_bits, weight_bits, self.cycles)

        self._handles += [
            layer.weight_quant.register_forward_hook(keep),
            layer.input_quant.register_forward_hook(keep),
            layer.register_forward_hook(estimate),
        ]

    def _total(self, field: str) -> Tensor:
        if not self.layers:
            raise BitWidthLossError("no cost yet: run the model forward, in training mode, first")
        return torch.stack([getattr(cost, field).reshape(()) for cost in self.layers.values()]).sum()

    def bit_operations(self) -> Tensor:
        """One-bit products a frame, of all layers; differentiable."""
        return self._total("bit_operations")

    def luts(self) -> Tensor:
        """Lookup tables of all layers; differentiable."""
        return self._total("luts")

    def remove_hooks(self) -> None:
        """Stop watching."""
        for handle in self._handles:
            handle.remove()
        self._handles = []


__all__ = ["HardwareCost", "HardwareEstimate", "layer_estimate"]
