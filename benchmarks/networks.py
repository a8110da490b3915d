"""Networks of real size as QONNX files, with random weights and batch norms that are not trivial.

Shared by the benchmarks and by the slow tests; made with ``onnx.helper``: nothing is trained or exported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

QONNX = "qonnx.custom_op.general"


class Builder:
    """A quantized network as a list of ONNX nodes; tensors are named by number.

    Args:
        weight_bits, act_bits: of weights and activations; 1 is bipolar.
        quantized: without, the plain float network of the same shape (for comparisons with float executors).
    """

    def __init__(self, weight_bits: int = 4, act_bits: int = 4, quantized: bool = True, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.weight_bits, self.act_bits, self.quantized = weight_bits, act_bits, quantized
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.count = 0

    def constant(self, values: object) -> str:
        self.count += 1
        name = f"c{self.count}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        self.count += 1
        name = f"t{self.count}"
        self.nodes.append(helper.make_node(operator, inputs, [name], f"n{self.count}", domain=domain, **attributes))
        return name

    def quant(self, x: str, scale: object, bits: int, signed: bool) -> str:
        if not self.quantized:
            return x
        if bits == 1:
            return self.node("BipolarQuant", x, self.constant(scale), domain=QONNX)
        parameters = [self.constant(scale), self.constant(0), self.constant(bits)]
        return self.node("Quant", x, *parameters, domain=QONNX, signed=int(signed), narrow=int(signed))

    def weights(self, values: Any, per_channel: bool = True, bits: int | None = None) -> str:
        """Quantized weights ``(out, ...)``, the scale from the largest of each output channel."""
        bits = self.weight_bits if bits is None else bits
        size = np.abs(values)
        axes = tuple(range(1, values.ndim))
        largest = size.max(axis=axes, keepdims=True) if per_channel else size.max()
        return self.quant(self.constant(values), largest / max(2 ** (bits - 1) - 1, 1), bits, True)

    def conv(
        self, x: str, channels: tuple[int, int], kernel: int, stride: int = 1, groups: int = 1, pad: int | None = None
    ) -> str:
        """Convolution with weights of one scale per output channel, then a batch norm."""
        out, each = channels[1], channels[0] // groups
        weights = self.rng.normal(size=(out, each, kernel, kernel)).astype(np.float32)
        y = self.node(
            "Conv",
            x,
            self.weights(weights),
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2 if pad is None else pad] * 4,
            group=groups,
        )
        return self.batch_norm(y, out, each * kernel * kernel)

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """Product with weights of one scale, without a bias."""
        return self.node("MatMul", x, self.weights(self.rng.normal(size=(inputs, outputs)), per_channel=False))

    def batch_norm(self, x: str, channels: int, fan: int) -> str:
        """Batch norm of sums of *fan* terms."""
        parameters = (
            self.rng.uniform(0.5, 1.5, channels),
            self.rng.normal(size=channels) * 0.3,
            self.rng.normal(size=channels),
            self.rng.uniform(0.5, 1.5, channels) * fan,
        )
        return self.node("BatchNormalization", x, *(self.constant(p) for p in parameters), epsilon=1e-5)

    def activation(self, x: str, scale: float = 0.21) -> str:
        if self.act_bits == 1 and self.quantized:
            return self.quant(x, 1.0, 1, True)
        return self.quant(self.node("Relu", x), scale * 15 / (2**self.act_bits - 1), self.act_bits, False)

    def pool(self, x: str, kernel: int, stride: int, pad: int = 0) -> str:
        return self.node("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def model(self, shape: tuple[int, ...], output: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid(QONNX, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def head(self, x: str, channels: int, classes: int = 1000) -> str:
        """Global average, quantized again, and a classifier with 8-bit weights."""
        y = self.quant(self.node("GlobalAveragePool", x), 0.1, 4, False)
        weights = self.rng.normal(size=(channels, classes))
        y = self.node("Flatten", y, axis=1)
        return self.node("MatMul", y, self.weights(weights, per_channel=False, bits=8))


def tfc(weight_bits: int = 2, act_bits: int = 2, quantized: bool = True) -> onnx.ModelProto:
    """784-64-64-64-10, as in FINN's examples."""
    b = Builder(weight_bits, act_bits, quantized)
    y = b.quant("x", 1.0 if act_bits == 1 else 0.9, act_bits, True)
    for inputs, outputs in ((784, 64), (64, 64), (64, 64)):
        y = b.activation(b.batch_norm(b.linear(y, inputs, outputs), outputs, inputs))
    return b.model((784,), b.linear(y, 64, 10))


def cnv(weight_bits: int = 2, act_bits: int = 2, quantized: bool = True, width: int = 64) -> onnx.ModelProto:
    """CNV for images of 3 x 32 x 32, as in FINN's examples: six convolutions without padding, two pools, three dense
    layers. *width* is the number of channels of the first convolutions."""
    b = Builder(weight_bits, act_bits, quantized)
    y = b.quant("x", 2**-7, 8, True)
    channels = 3
    for out, pooled in ((1, False), (1, True), (2, False), (2, True), (4, False), (4, False)):
        y = b.activation(b.conv(y, (channels, out * width), 3, pad=0))
        channels = out * width
        if pooled:
            y = b.pool(y, 2, 2)
    y = b.node("Flatten", y, axis=1)
    for inputs, outputs in ((channels, 8 * width), (8 * width, 8 * width)):
        y = b.activation(b.batch_norm(b.linear(y, inputs, outputs), outputs, inputs))
    return b.model((3, 32, 32), b.linear(y, 8 * width, 10))


MOBILENET = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
"""Output channels and strides of the depthwise separable blocks of MobileNetV1."""


def mobilenet(
    size: int = 224, divided: int = 1, blocks: int = 13, classes: int = 1000, quantized: bool = True
) -> onnx.ModelProto:
    """MobileNetV1, 4 bits: images of *size*, channels divided by *divided*, the first *blocks* blocks."""
    b = Builder(4, 4, quantized)
    channels = 32 // divided
    y = b.activation(b.conv(b.quant("x", 0.0157, 8, True), (3, channels), 3, 2))
    for out, stride in MOBILENET[:blocks]:
        y = b.activation(b.conv(y, (channels, channels), 3, stride, groups=channels))
        y = b.activation(b.conv(y, (channels, out // divided), 1))
        channels = out // divided
    return b.model((3, size, size), b.head(y, channels, classes))


def resnet50(size: int = 224, divided: int = 1, quantized: bool = True) -> onnx.ModelProto:
    """ResNet-50, 4 bits: images of *size*, channels divided by *divided*; every other block adds branches of different
    scales."""
    b = Builder(4, 4, quantized)
    channels = 64 // divided
    y = b.activation(b.conv(b.quant("x", 0.0157, 8, True), (3, channels), 7, 2))
    y = b.pool(y, 3, 2, 1)
    for whole, count, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        width = whole // divided
        for block in range(count):
            stride = first if block == 0 else 1
            z = b.activation(b.conv(y, (channels, width), 1))
            z = b.activation(b.conv(z, (width, width), 3, stride))
            z = b.quant(b.conv(z, (width, 4 * width), 1), 0.23, 4, True)
            if block == 0:
                y = b.conv(y, (channels, 4 * width), 1, stride)
            y = b.quant(y, 0.23 if block % 2 else 0.17, 4, True)
            y = b.activation(b.node("Add", z, y))
            channels = 4 * width
    return b.model((3, size, size), b.head(y, channels))


def unet(size: int = 64, width: int = 16, levels: int = 3, classes: int = 4) -> onnx.ModelProto:
    """U-Net for images of *size*, 4 bits: on each of *levels* two convolutions and a pool on the way down; on the way
    up the nearest neighbour, a concat with the level's own result, and a convolution."""
    b = Builder(4, 4)
    y, channels, kept = b.quant("x", 0.0157, 8, True), 3, []
    for level in range(levels):
        out = width << level
        for inputs in (channels, out):
            y = b.activation(b.conv(y, (inputs, out), 3))
        kept.append((y, out))
        y, channels = b.pool(y, 2, 2), out
    y = b.activation(b.conv(y, (channels, channels), 3))
    for other, out in reversed(kept):
        scales = b.constant([1, 1, 2, 2])
        wide = b.node(
            "Resize", y, "", scales, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
        )
        y = b.activation(b.conv(b.node("Concat", wide, other, axis=1), (channels + out, out), 3))
        channels = out
    return b.model((3, size, size), b.conv(y, (channels, classes), 1))


def keyword_spotting(size: tuple[int, int] = (49, 10), width: int = 64, blocks: int = 4) -> onnx.ModelProto:
    """DS-CNN for keyword spotting on spectrograms of *size*, 4 bits: a strided convolution and *blocks* depthwise
    separable ones of *width* channels, twelve classes."""
    b = Builder(4, 4)
    y = b.activation(b.conv(b.quant("x", 0.0157, 8, True), (1, width), 3, 2))
    for _ in range(blocks):
        y = b.activation(b.conv(y, (width, width), 3, groups=width))
        y = b.activation(b.conv(y, (width, width), 1))
    return b.model((1, *size), b.head(y, width, 12))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "tfc-w2a2": tfc,
    "cnv-w2a2": cnv,
    "mobilenet-w4a4": mobilenet,
    "resnet50-w4a4": resnet50,
    "unet-w4a4": unet,
    "keyword-spotting-w4a4": keyword_spotting,
    "cnv-w1a1": partial(cnv, 1, 1),
    "cnv-w1a2": partial(cnv, 1, 2),
}
