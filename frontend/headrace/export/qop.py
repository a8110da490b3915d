"""Export to ONNX with integer operators ("QOps").

* A convolution with quantized input and output (and quantized bias or none) is ``QLinearConv``; a linear layer with
  quantized input and output and no bias is ``QLinearMatMul``; both where input and output are of the same data type.
* Every other layer with quantized input and weight is ``ConvInteger`` or ``MatMulInteger``, whose int32 accumulator is
  multiplied by the scale in float32, as the layer does in evaluation; then come the bias and the output quantizer.
* Activations and everything that is not quantized are as in QCDQ. A quantized tensor is not dequantized and quantized
  again between two integer operators.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from headrace.export.cleanup import remove_unused
from headrace.export.description import Quantizer
from headrace.export.errors import ExportError
from headrace.export.preparation import LayerPlan, prepare
from headrace.export.qcdq import DEFAULT_OPSET, QcdqActivation, check_opset, make_activation, make_qcdq, standard
from headrace.export.tracing import example_arguments, trace
from headrace.export.writing import write
from headrace.nn.geometry import ConvGeometry, LinearGeometry


class _QopLayer(nn.Module):
    """A convolution or linear layer in integer operators."""

    weight: Tensor
    weight_scale: Tensor
    weight_zero_point: Tensor
    accumulator_scale: Tensor

    def __init__(self, plan: LayerPlan) -> None:
        super().__init__()
        _check(plan)
        self.geometry: Any = plan.layer.geometry
        self.quantizes_input = plan.quantizes_input
        self.input_quant = QcdqActivation(plan.input)
        self.output_quant: Any = make_activation(plan.output, "QOp") if plan.output is not None else None
        self.weight = plan.layer.weight
        self.linear = isinstance(self.geometry, LinearGeometry)
        if self.linear:
            self.weight = nn.Parameter(self.weight.t().contiguous(), requires_grad=False)
        scale = plan.weight.scale.reshape(-1)
        self.register_buffer("weight_scale", scale.reshape(()) if scale.numel() == 1 else scale)
        zero_point = torch.round(plan.weight.zero_point.reshape(-1)).to(self.weight.dtype)
        self.register_buffer("weight_zero_point", zero_point.reshape(()) if zero_point.numel() == 1 else zero_point)
        product = (plan.input.scale.reshape(-1).double() * scale.double()).float()
        self.register_buffer("accumulator_scale", product.reshape(self._per_channel(product)))
        self._take_bias(plan)

    def _per_channel(self, values: Tensor) -> tuple[int, ...]:
        spatial = 0 if self.linear else self.geometry.ndim
        return () if values.numel() == 1 else (values.numel(), *[1] * spatial)

    def _take_bias(self, plan: LayerPlan) -> None:
        """The bias as int32 at the scale of the accumulator, or as it is."""
        bias = plan.layer.bias
        self.bias: Any = None
        self.integer_bias = False
        if bias is None:
            return
        if plan.bias is not None:
            same = torch.equal(
                plan.bias.scale.reshape(-1).expand(self.accumulator_scale.numel()), self.accumulator_scale.reshape(-1)
            )
            if not same:
                raise ExportError(
                    f"{plan.name}: integer operators add the bias at input scale times weight scale; use a bias "
                    "quantizer such as Int32Bias"
                )
            self.integer_bias = True
            bias = bias.to(torch.int32)
        self.bias = nn.Parameter(bias.detach(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        q = self.input_quant.quantized(x) if self.quantizes_input else self._as_integers(x)
        shape = self._output_shape(q)
        if self.output_quant is not None and self._has_fused_operator():
            return self._fused(q, shape)
        y = self._scaled(self._accumulated(q, shape))
        return y if self.output_quant is None else self.output_quant(y)

    def _as_integers(self, x: Tensor) -> Tensor:
        quant = self.input_quant
        return standard("QuantizeLinear", [x, quant.scale, quant.zero_point], quant.quantized_dtype, x.shape)

    def _output_shape(self, q: Tensor) -> Any:
        weight = self.weight.t() if self.linear else self.weight
        return self.geometry(q.float(), weight.float(), None).shape

    def _has_fused_operator(self) -> bool:
        same_type = self.output_quant.quantized_dtype == self.input_quant.quantized_dtype  # runtimes have no others
        if self.output_quant.rounding is not None or not same_type:
            return False
        return self.bias is None if self.linear else self.bias is None or self.integer_bias

    def _fused(self, q: Tensor, shape: Any) -> Tensor:
        """``QLinearConv`` or ``QLinearMatMul``, clipped, dequantized."""
        a, y = self.input_quant, self.output_quant
        inputs = [q, a.scale, a.zero_point, self.weight, self.weight_scale, self.weight_zero_point]
        inputs += [y.scale, y.zero_point]
        if self.linear:
            out = standard("QLinearMatMul", inputs, y.quantized_dtype, shape)
        else:
            inputs += [] if self.bias is None else [self.bias]
            out = self._convolution("QLinearConv", inputs, y.quantized_dtype, shape)
        result: Tensor = y.dequantized(y.clipped(out))
        return result

    def _accumulated(self, q: Tensor, shape: Any) -> Tensor:
        """The int32 accumulator."""
        inputs = [q, self.weight, self.input_quant.zero_point, self.weight_zero_point]
        if self.linear:
            acc = standard("MatMulInteger", inputs, torch.int32, shape)
        else:
            acc = self._convolution("ConvInteger", inputs, torch.int32, shape)
        return acc + self._broadcast(self.bias) if self.integer_bias else acc

    def _broadcast(self, bias: Tensor) -> Tensor:
        return bias.reshape(-1, *[1] * (0 if self.linear else self.geometry.ndim))

    def _scaled(self, acc: Tensor) -> Tensor:
        y = acc.to(torch.float32) * self.accumulator_scale
        return y if self.bias is None or self.integer_bias else y + self._broadcast(self.bias)

    def _convolution(self, op: str, inputs: list[Tensor], dtype: torch.dtype, shape: Any) -> Tensor:
        geometry: ConvGeometry = self.geometry
        before, after = zip(*geometry.padding, strict=True)
        attributes: dict[str, Any] = {
            "strides": list(geometry.stride),
            "pads": [*before, *after],
            "dilations": list(geometry.dilation),
            "group": geometry.groups,
            "kernel_shape": list(self.weight.shape[2:]),
        }
        return torch.onnx.ops.symbolic(op, inputs, attrs=attributes, dtype=dtype, shape=shape)


def _check(plan: LayerPlan) -> None:
    geometry = plan.layer.geometry
    if not isinstance(geometry, LinearGeometry | ConvGeometry):
        raise ExportError(
            f"{plan.name}: {type(plan.layer).__name__} has no integer operator in ONNX; use QCDQ or QONNX"
        )
    if isinstance(geometry, ConvGeometry) and geometry.padding_mode != "constant":
        raise ExportError(f"{plan.name}: integer convolutions pad with zeros only, got {geometry.padding_mode}")
    for quantizer in (plan.input, plan.weight):
        if quantizer.bit_width > 8:
            raise ExportError(f"{quantizer.name}: integer operators take at most 8 bits, got {quantizer.bit_width}")
    if plan.input.scale.numel() > 1:
        raise ExportError(f"{plan.input.name}: integer operators take one input scale, not one a channel")


def _make(quantizer: Quantizer) -> nn.Module:
    return make_activation(quantizer, "QOp") if quantizer.role == "act" else make_qcdq(quantizer)


def export_onnx_qop(
    module: nn.Module,
    args: Any = None,
    export_path: str | os.PathLike[str] | None = None,
    input_shape: tuple[int, ...] | None = None,
    input_t: Any = None,
    *,
    opset_version: int = DEFAULT_OPSET,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_batch: bool = False,
    external_data: bool = False,
) -> onnx.ModelProto:
    """Export *module* to ONNX with integer operators.

    Args and errors as for :func:`headrace.export.export_onnx_qcdq`.

    Returns:
        The model as written.
    """
    check_opset(opset_version)
    example = example_arguments(args, input_t, input_shape)
    prepared = prepare(module, example, _make, "QOp", integer_parameters=True, make_layer=_QopLayer)
    model = trace(prepared, example, opset_version, input_names, output_names, dynamic_batch)
    _remove_requantization(model.graph)
    write(model, export_path, external_data)
    return model


def _remove_requantization(graph: onnx.GraphProto) -> None:
    """``QuantizeLinear(DequantizeLinear(q))`` at the same scale and zero point is ``q``."""
    constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    producer = {out: node for node in graph.node for out in node.output}
    alias: dict[str, str] = {}
    for node in graph.node:
        node.input[:] = [alias.get(i, i) for i in node.input]
        source = producer.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        if source is None or source.op_type != "DequantizeLinear" or len(source.input) != len(node.input):
            continue
        if all(
            _same(constants.get(a), constants.get(b)) for a, b in zip(source.input[1:], node.input[1:], strict=True)
        ):
            alias[node.output[0]] = source.input[0]
    remove_unused(graph)


def _same(a: np.ndarray[Any, Any] | None, b: np.ndarray[Any, Any] | None) -> bool:
    return a is not None and b is not None and a.dtype == b.dtype and np.array_equal(a, b)
