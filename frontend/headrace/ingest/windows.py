"""Import rule of qonnx's ``Im2Col``: with the ``MatMul`` behind it, it is the convolution that it was made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from headrace.ingest.linear import as_matrix, rearranged, with_grid
from headrace.ingest.operands import Node, Operand
from headrace.ingest.rules import DOMAINS, ONNX, QONNX, imports
from headrace.ir import Value
from headrace.ir.grid import Constant
from headrace.ir.integer import Transpose
from headrace.ir.ops import Conv, Move


def with_products(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes of *graph*, in which an ``Im2Col`` that only MatMuls read is a part of each of them.

    Such a node is an ``Im2Col`` with the weights as its second input, and the name and the output of the MatMul.
    """
    readers: dict[str, list[int]] = {}
    for place, node in enumerate(graph.node):
        for name in node.input:
            readers.setdefault(name, []).append(place)
    outputs = {value.name for value in graph.output}
    found: list[onnx.NodeProto | None] = list(graph.node)
    for place, node in enumerate(graph.node):
        if node.op_type != "Im2Col" or DOMAINS.get(node.domain) != QONNX or len(node.output) != 1 or not node.input:
            continue
        made = node.output[0]
        products = readers.get(made, [])
        if made in outputs or not products or not all(_multiplies(graph.node[k], made) for k in products):
            continue
        found[place] = None
        for k in products:
            merged = onnx.NodeProto()
            merged.CopyFrom(node)
            merged.name = graph.node[k].name or node.name
            merged.input[:] = [node.input[0], graph.node[k].input[1]]
            merged.output[:] = graph.node[k].output
            found[k] = merged
    return [node for node in found if node is not None]


def _multiplies(node: onnx.NodeProto, left: str) -> bool:
    plain = node.op_type == "MatMul" and DOMAINS.get(node.domain) == ONNX
    return plain and len(node.input) == 2 and node.input[0] == left != node.input[1]


@imports("Im2Col", domain=QONNX, ignores=("input_shape", "depthwise"))
def im2col(node: Node) -> Sequence[Operand]:
    """A convolution of images with their channels last, its weights a matrix ``(KH * KW * C, O)``."""
    x = node.value(0)
    if not node.has(1):
        raise node.unsupported("it is a part of a convolution where it is read by MatMuls alone, and by nothing else")
    weights = node.operand(1)
    if isinstance(weights, Value):
        raise node.unsupported("the weights of the MatMul behind it depend on the input; constant ones are supported")
    if node.integer("pad_value", 0):
        raise node.unsupported("it pads with another number than 0")
    kernel, strides, dilations = (_pair(node, name) for name in ("kernel_size", "stride", "dilations"))
    pads = _pads(node)
    shape, matrix = node.shape(x), as_matrix(node, weights)
    if len(shape) != 3 or matrix.value.shape[0] != kernel[0] * kernel[1] * shape[2]:
        raise node.error(
            f"its windows {list(kernel)} of frames {list(shape)} do not fit weights {list(matrix.value.shape)}"
        )
    by_channel, groups = _by_channel(matrix, kernel, shape[2])
    first = node.add(Move(Transpose((2, 0, 1))), x, suffix="in")
    y = node.add(Conv(with_grid(by_channel, 0), strides, dilations, pads, groups), first)
    return [node.add(Move(Transpose((1, 2, 0))), y, suffix="out")]


def _by_channel(matrix: Constant, kernel: tuple[int, int], channels: int) -> tuple[Constant, int]:
    """Weights ``(O, C, KH, KW)`` and the number of groups: those of a depthwise convolution are a diagonal."""
    outputs = matrix.value.shape[1]
    whole = rearranged(matrix, lambda a: a.reshape(*kernel, channels, outputs).transpose(3, 2, 0, 1))
    own = np.arange(channels)
    if not 1 < channels == outputs or np.any(whole.value[own[:, None] != own]):
        return whole, 1
    return rearranged(whole, lambda a: a[own, own][:, None]), channels


def _pair(node: Node, name: str) -> tuple[int, int]:
    """Two positive numbers, or one for both axes, as in early files of FINN; 1 where nothing is said."""
    found = node.attribute(name)
    numbers = [1] if found is None else found if isinstance(found, list) else [found]
    if len(numbers) not in (1, 2) or not all(isinstance(n, int) and n > 0 for n in numbers):
        raise node.error(f"attribute '{name}' must be one or two positive numbers, not {found!r}")
    return numbers[0], numbers[-1]


def _pads(node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
    """Begin and end of both axes, from ``[top, left, bottom, right]`` or one number for all."""
    found = node.attribute("pad_amount")
    numbers = [0] if found is None else found if isinstance(found, list) else [found]
    if len(numbers) not in (1, 4) or not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise node.error(f"attribute 'pad_amount' must be one number or four, none negative, not {found!r}")
    top, left, bottom, right = numbers if len(numbers) == 4 else numbers * 4
    return (top, bottom), (left, right)
