"""From a float model to a quantized one by its graph.

::

    model = quantize(float_model, QuantizeConfig(weight_bit_width=4, act_bit_width=4))
    with torch.no_grad(), calibration_mode(model):
        for images, _ in loader:
            model(images)
    with torch.no_grad(), bias_correction_mode(model):
        ...
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

import headrace.nn as qnn
from headrace.graph.config import QuantizeConfig
from headrace.graph.equalize import equalize
from headrace.graph.fold import fold_batch_norms, module_of, replace_module
from headrace.graph.layerwise import LINEAR, SATURATION, NothingToQuantizeError, quantize_, quantized_layer
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer

_ADD: frozenset[Callable[..., Any] | str] = frozenset({operator.add, operator.iadd, torch.add, "add", "add_"})
_CAT: frozenset[Callable[..., Any]] = frozenset({torch.cat, torch.concat})
_RELU: dict[Callable[..., Any] | str, float | None] = {
    F.relu: None,
    torch.relu: None,
    "relu": None,
    "relu_": None,
    F.relu6: 6.0,
}
_MOVING_MODULES = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.Flatten, nn.Dropout, nn.Dropout2d, nn.Identity)
_MOVING: frozenset[Callable[..., Any] | str] = frozenset(
    {F.max_pool1d, F.max_pool2d, torch.flatten, F.dropout, torch.reshape, "flatten", "view", "reshape", "contiguous"}
)


class _Quantization:
    """The replacement of one traced model, step by step."""

    def __init__(self, traced: fx.GraphModule, config: QuantizeConfig) -> None:
        self.traced, self.config = traced, config
        self.graph = traced.graph
        self.on_grid: set[fx.Node] = set()
        self._requantized: dict[fx.Node, fx.Node] = {}
        self._made = 0

    def add_module(self, module: nn.Module, stem: str) -> str:
        """Register *module* under a free name."""
        while hasattr(self.traced, name := f"{stem}_{self._made}"):
            self._made += 1
        self._made += 1
        self.traced.add_submodule(name, module)
        return name

    def identity(self, bits: int | None) -> nn.Module:
        """A quantizer of signed activations."""
        return qnn.QuantIdentity(bit_width=bits, return_quant_tensor=True)

    def _call_after(self, node: fx.Node, name: str) -> fx.Node:
        with self.graph.inserting_after(node):
            return self.graph.call_module(name, (node,))

    def run(self) -> None:
        """Quantize inputs, activations and layers in the order of the graph."""
        for node in list(self.graph.nodes):
            if node.op == "placeholder":
                self._input(node)
            elif node.op in ("call_module", "call_function", "call_method"):
                self._operation(node)

    def _input(self, node: fx.Node) -> None:
        if self.config.act_bit_width is None:
            return
        users = list(node.users)
        bits = self.config.input_bit_width or self.config.act_bit_width
        quantized = self._call_after(node, self.add_module(self.identity(bits), "input_quant"))
        for user in users:
            user.replace_input_with(node, quantized)
        self.on_grid.add(quantized)

    def _operation(self, node: fx.Node) -> None:
        module = module_of(self.traced, node)
        act = self.config.act_bit_width is not None
        if type(module) in LINEAR or isinstance(module, QuantWeightBiasInputOutputLayer):
            if act:
                self._quantize_input(node)
            if type(module) in LINEAR:  # not yet replaced at an earlier call
                replace_module(self.traced, str(node.target), quantized_layer(module, self.config))
        elif act and module is not None and type(module) in SATURATION:
            self._relu(node, SATURATION[type(module)])
        elif act and node.op != "call_module" and node.target in _RELU:
            self._relu(node, _RELU[node.target])
        elif act and node.target in _ADD:
            self._share(node, [a for a in node.args if isinstance(a, fx.Node)])
        elif act and node.target in _CAT:
            tensors: Any = node.args[0]
            self._share(node, list(tensors))
            self.on_grid.add(node)
        elif isinstance(module, _MOVING_MODULES) or node.target in _MOVING:
            self._move(node)

    def _move(self, node: fx.Node) -> None:
        """What only moves or selects elements stays on the grid of its input."""
        if node.args and node.args[0] in self.on_grid:
            self.on_grid.add(node)

    def _relu(self, node: fx.Node, largest: float | None) -> None:
        """The node becomes a call of a quantized ReLU of its own."""
        relu = qnn.QuantReLU(return_quant_tensor=True, **self.config.relu_options(largest))
        with self.graph.inserting_before(node):
            new = self.graph.call_module(self.add_module(relu, "relu_quant"), (node.args[0],))
        node.replace_all_uses_with(new)
        self.graph.erase_node(node)
        self.on_grid.add(new)

    def _quantize_input(self, node: fx.Node) -> None:
        source = node.args[0]
        if not isinstance(source, fx.Node) or source in self.on_grid:
            return
        if source not in self._requantized:
            name = self.add_module(self.identity(self.config.act_bit_width), "act_quant")
            self._requantized[source] = self._call_after(source, name)
            self.on_grid.add(self._requantized[source])
        node.replace_input_with(source, self._requantized[source])

    def _share(self, node: fx.Node, operands: list[fx.Node]) -> None:
        """One quantizer for all operands, so that their integers have the same scale."""
        if len(operands) < 2:
            return
        name = self.add_module(self.identity(self.config.act_bit_width), "shared_quant")
        for operand in dict.fromkeys(operands):
            node.replace_input_with(operand, self._call_after(operand, name))


def quantize(model: nn.Module, config: QuantizeConfig | None = None, **options: Any) -> fx.GraphModule:
    """The quantized form of a float model: same function, up to quantization.

    Batch norms are folded, consecutive layers equalized; inputs, ReLUs and whatever else enters a layer are quantized;
    the operands of an addition or concatenation share one quantizer, so that hardware adds integers. Scales of
    activations are not known yet: calibrate, then correct biases (:mod:`headrace.graph.calibrate`).

    Args:
        model: a float model that :func:`torch.fx.symbolic_trace` can trace; not changed.
        config: bit widths.
        options: fields of :class:`QuantizeConfig`, instead of *config*.

    Returns:
        A graph module of :mod:`headrace.nn` layers, in evaluation mode.

    Raises:
        NothingToQuantizeError: the graph calls no layer with weights.
    """
    config = config or QuantizeConfig(**options)
    traced = fx.symbolic_trace(copy.deepcopy(model).eval())
    fold_batch_norms(traced)
    equalize(traced, config.equalize_iterations)
    if not any(type(module_of(traced, node)) in LINEAR for node in traced.graph.nodes):
        raise NothingToQuantizeError(f"the graph of {type(model).__name__} calls no linear or convolutional layer")
    _Quantization(traced, config).run()
    traced.delete_all_unused_submodules()
    traced.graph.lint()
    traced.recompile()
    return traced.eval()


__all__ = ["NothingToQuantizeError", "QuantizeConfig", "quantize", "quantize_"]
