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
from headrace.graph.activations import activation_of, quantized_activation
from headrace.graph.capture import NotTraceableError, capture
from headrace.graph.config import QuantizeConfig
from headrace.graph.equalize import equalize
from headrace.graph.fold import fold_batch_norms, module_of, replace_module
from headrace.graph.layerwise import LINEAR, NothingToQuantizeError, quantize_, quantized_layer
from headrace.graph.sharing import SharedQuantIdentity
from headrace.nn.quant_layer import QuantWeightBiasInputOutputLayer

_ADD: frozenset[Callable[..., Any] | str] = frozenset({operator.add, operator.iadd, torch.add, "add", "add_"})
_CAT: frozenset[Callable[..., Any]] = frozenset({torch.cat, torch.concat, torch.concatenate})
_MOVING_MODULES = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.Flatten, nn.Dropout, nn.Dropout2d, nn.Identity)
_MOVING: frozenset[Callable[..., Any] | str] = frozenset(
    {
        F.max_pool1d,
        F.max_pool2d,
        torch.flatten,
        F.dropout,
        torch.reshape,
        torch.permute,
        torch.transpose,
        torch.unsqueeze,
        torch.squeeze,
        "flatten",
        "view",
        "reshape",
        "permute",
        "transpose",
        "contiguous",
    }
)
_MEANS: frozenset[Callable[..., Any] | str] = frozenset({F.adaptive_avg_pool2d, F.avg_pool2d, torch.mean, "mean"})
_MEAN_MODULES = (nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)


class _Quantization:
    """The replacement of one traced model, step by step."""

    def __init__(self, traced: fx.GraphModule, config: QuantizeConfig) -> None:
        self.traced, self.config = traced, config
        self.graph = traced.graph
        self.on_grid: set[fx.Node] = set()
        self.never_negative: set[fx.Node] = set()
        self._requantized: dict[fx.Node, fx.Node] = {}
        self._made = 0

    def add_module(self, module: nn.Module, stem: str) -> str:
        """Register *module* under a free name."""
        while hasattr(self.traced, name := f"{stem}_{self._made}"):
            self._made += 1
        self._made += 1
        self.traced.add_submodule(name, module)
        return name

    def _options(self, bits: int | None, never_negative: bool) -> dict[str, Any]:
        """Keyword arguments of a quantizer of activations."""
        options: dict[str, Any] = {"bit_width": bits, "return_quant_tensor": True}
        return {**options, "act_quant": self.config.unsigned} if never_negative else options

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
        quantizer = qnn.QuantIdentity(**self._options(bits, False))
        quantized = self._call_after(node, self.add_module(quantizer, "input_quant"))
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
        elif act and (activation := activation_of(self.traced, node)) is not None:
            self._activation(node, activation)
        elif act and node.target in _ADD:
            self._share(node, [a for a in node.args if isinstance(a, fx.Node)])
        elif act and node.target in _CAT:
            tensors: Any = node.args[0] if node.args else node.kwargs["tensors"]
            self._share(node, list(tensors))
            self.on_grid.add(node)
        else:
            moves = isinstance(module, _MOVING_MODULES) or node.target in _MOVING
            self._pass_on(node, moves, moves or isinstance(module, _MEAN_MODULES) or node.target in _MEANS)

    def _pass_on(self, node: fx.Node, moves: bool, keeps_sign: bool) -> None:
        """What only moves or selects elements stays on the grid of its input; means keep its sign."""
        source = node.args[0] if node.args else None
        if moves and source in self.on_grid:
            self.on_grid.add(node)
        if keeps_sign and source in self.never_negative:
            self.never_negative.add(node)

    def _activation(self, node: fx.Node, activation: nn.Module) -> None:
        """The node becomes a call of a quantized activation of its own, behind what stays in floating point."""
        before, quantizer, never_negative = quantized_activation(activation, self.config)
        source = node.args[0]
        with self.graph.inserting_before(node):
            if before is not None:
                source = self.graph.call_module(self.add_module(before, "activation"), (source,))
            stem = "relu_quant" if isinstance(quantizer, qnn.QuantReLU) else "activation_quant"
            new = self.graph.call_module(self.add_module(quantizer, stem), (source,))
        node.replace_all_uses_with(new)
        self.graph.erase_node(node)
        self.on_grid.add(new)
        if never_negative:
            self.never_negative.add(new)

    def _quantize_input(self, node: fx.Node) -> None:
        source = node.args[0]
        if not isinstance(source, fx.Node) or source in self.on_grid:
            return
        if source not in self._requantized:
            options = self._options(self.config.act_bit_width, source in self.never_negative)
            name = self.add_module(qnn.QuantIdentity(**options), "act_quant")
            self._requantized[source] = self._call_after(source, name)
            self.on_grid.add(self._requantized[source])
        node.replace_input_with(source, self._requantized[source])

    def _share(self, node: fx.Node, operands: list[fx.Node]) -> None:
        """One quantizer for all operands, so that their integers have the same scale."""
        if len(operands) < 2:
            return
        different = list(dict.fromkeys(operands))
        never_negative = all(operand in self.never_negative for operand in different)
        quantizer = SharedQuantIdentity(**self._options(self.config.act_bit_width, never_negative))
        name = self.add_module(quantizer, "shared_quant")
        with self.graph.inserting_before(node):
            shared = self.graph.call_module(name, tuple(different))
            for index, operand in enumerate(different):
                node.replace_input_with(operand, self.graph.call_function(operator.getitem, (shared, index)))
        if never_negative:
            self.never_negative.add(node)


def quantize(
    model: nn.Module, config: QuantizeConfig | None = None, *, example: Any = None, **options: Any
) -> fx.GraphModule:
    """The quantized form of a float model: same function, up to quantization.

    Batch norms are folded, consecutive layers equalized; inputs, activations and whatever else enters a layer are
    quantized; the operands of an addition or concatenation share one quantizer, so that hardware adds integers. Scales
    of activations are not known yet: calibrate, then correct biases (:mod:`headrace.graph.calibrate`).

    Args:
        model: a float model; not changed.
        config: bit widths.
        example: an input of the model, or a tuple of inputs: for :func:`torch.export.export`, where
            :func:`torch.fx.symbolic_trace` cannot trace the model.
        options: fields of :class:`QuantizeConfig`, instead of *config*.

    Returns:
        A graph module of :mod:`headrace.nn` layers, in evaluation mode.

    Raises:
        NotTraceableError: the graph cannot be captured.
        NothingToQuantizeError: the graph calls no layer with weights.
    """
    config = config or QuantizeConfig(**options)
    traced = capture(copy.deepcopy(model).eval(), example)
    fold_batch_norms(traced)
    equalize(traced, config.equalize_iterations)
    if not any(type(module_of(traced, node)) in LINEAR for node in traced.graph.nodes):
        raise NothingToQuantizeError(f"the graph of {type(model).__name__} calls no linear or convolutional layer")
    _Quantization(traced, config).run()
    traced.delete_all_unused_submodules()
    traced.graph.lint()
    traced.recompile()
    return traced.eval()


__all__ = ["NotTraceableError", "NothingToQuantizeError", "QuantizeConfig", "quantize", "quantize_"]
