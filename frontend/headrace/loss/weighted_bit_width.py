"""Average bit widths, weighted by what they cost.

::

    weight_bits = WeightBitWidthWeightedBySize(model)
    for images, labels in loader:
        weight_bits.zero_accumulated_values()
        loss = F.cross_entropy(model(images), labels) + 0.01 * weight_bits.retrieve()
        ...

A loss watches the forward passes of its model and adds up bit widths until it is told to forget them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from headrace.core.bit_width import BitWidthParameter
from headrace.errors import HeadraceError
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer
from headrace.proxy import ActQuantProxyFromInjector, WeightQuantProxyFromInjector
from headrace.quant_tensor import IntQuantTensor


class BitWidthLossError(HeadraceError):
    """Nothing whose bits could be counted."""


def learns_bit_width(proxy: nn.Module) -> bool:
    """Whether a quantizer holds a learned bit width."""
    return any(isinstance(part, BitWidthParameter) for part in proxy.modules())


class BitWidthWeighted:
    """Base: sums weighted bit widths over forward passes.

    Args:
        model: the model to watch.
        dtype: of the sums; ``None`` for that of the parameters.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype | None = None) -> None:
        self.model = model
        self.dtype = dtype
        self.weighted_bit_width_list: list[Tensor] = []
        self.tot_num_elements: float = 0.0
        self.list_of_hooks: list[RemovableHandle] = []
        self.register_hooks()

    def register_hooks(self) -> None:
        """Watch the modules that this loss is about."""
        raise NotImplementedError

    def _add(self, bit_width: Tensor, weight: float) -> None:
        self.weighted_bit_width_list.append(weight * (bit_width if self.dtype is None else bit_width.to(self.dtype)))
        self.tot_num_elements += weight

    def zero_accumulated_values(self) -> None:
        """Forget what was added up."""
        self.weighted_bit_width_list = []
        self.tot_num_elements = 0.0

    def retrieve(self, as_average: bool = True) -> Any:
        """The weighted average, a scalar with gradient; or the parts that sum up to it, a list.

        Raises:
            BitWidthLossError: no forward pass since the last reset met anything to weigh.
        """
        if not self.weighted_bit_width_list or self.tot_num_elements == 0:
            raise BitWidthLossError(
                f"{type(self).__name__} has seen no bit widths: run the model forward first, and give it what this "
                f"loss counts ({self.counts})"
            )
        parts = [part / self.tot_num_elements for part in self.weighted_bit_width_list]
        return torch.stack([part.reshape(()) for part in parts]).sum() if as_average else parts

    counts = "learned bit widths"

    def log(self) -> Tensor:
        """The average without gradient."""
        out: Tensor = self.retrieve(as_average=True).detach().clone()
        return out

    def remove_hooks(self) -> None:
        """Stop watching."""
        for handle in self.list_of_hooks:
            handle.remove()
        self.list_of_hooks = []


class WeightBitWidthWeightedBySize(BitWidthWeighted):
    """Bits of weights, weighted by the number of weights: the average size of a weight in memory."""

    counts = "weight quantizers with bit_width_impl_type=PARAMETER"

    def register_hooks(self) -> None:
        for module in self.model.modules():
            if isinstance(module, WeightQuantProxyFromInjector) and learns_bit_width(module):
                self.list_of_hooks.append(module.register_forward_hook(self._weight))

    def _weight(self, module: nn.Module, inputs: Any, out: Any) -> None:
        if isinstance(out, IntQuantTensor):
            self._add(out.bit_width, out.value.numel())


class ActivationBitWidthWeightedBySize(BitWidthWeighted):
    """Bits of activations, weighted by the number of activations of one sample."""

    counts = "activation quantizers with bit_width_impl_type=PARAMETER"

    def register_hooks(self) -> None:
        for module in self.model.modules():
            if isinstance(module, ActQuantProxyFromInjector) and learns_bit_width(module):
                self.list_of_hooks.append(module.register_forward_hook(self._activation))

    def _activation(self, module: nn.Module, inputs: Any, out: Any) -> None:
        if isinstance(out, IntQuantTensor):
            self._add(out.bit_width, math.prod(out.shape[1:]))


class QuantLayerOutputBitWidthWeightedByOps(BitWidthWeighted):
    """Bits of the outputs of layers (accumulators, or quantized outputs), weighted by multiplications and additions.

    Args:
        model: the model to watch.
        layer_types: kinds of layers that count.
        dtype: of the sums.
    """

    counts = "layers with return_quant_tensor=True"

    def __init__(
        self,
        model: nn.Module,
        layer_types: tuple[type[nn.Module], ...] = (QuantWeightBiasInputOutputLayer,),
        dtype: torch.dtype | None = None,
    ) -> None:
        self.layer_types = layer_types
        super().__init__(model, dtype)

    def register_hooks(self) -> None:
        for module in self.model.modules():
            counted = isinstance(module, self.layer_types) and isinstance(module, QuantWeightBiasInputOutputLayer)
            if counted and module.return_quant_tensor:
                self.list_of_hooks.append(module.register_forward_hook(self._output))

    def _output(self, module: Any, inputs: Any, out: Any) -> None:
        if isinstance(out, IntQuantTensor):
            operations = 2 * module.geometry.terms(module.weight)  # a multiplication and an addition each
            self._add(out.bit_width, math.prod(out.shape[1:]) * operations / 1e6)


__all__ = [
    "ActivationBitWidthWeightedBySize",
    "BitWidthLossError",
    "BitWidthWeighted",
    "QuantLayerOutputBitWidthWeightedByOps",
    "WeightBitWidthWeightedBySize",
    "learns_bit_width",
]
