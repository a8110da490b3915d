"""CPU seconds of the compiler from an ONNX file to the integer graph, on networks of real size with random weights.

Builds QONNX files of MobileNetV1 (4-bit weights and activations) and ResNet-50 (4-bit, residual additions of equal and
of different scales) with ``onnx.helper``, then times import, lowering and partition:

    python benchmarks/compile_speed.py [mobilenet|resnet50 ...] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from headrace.ingest import from_proto
from headrace.passes import to_integer

QONNX = "qonnx.custom_op.general"


class Builder:
    """A quantized network as a list of ONNX nodes; tensors are named by number."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.count = 0

    def constant(self, values: object) -> str:
        self.count += 1
        name = f"c{self.count}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        self.count += 1
        name = f"t{self.count}"
        self.nodes.append(helper.make_node(operator, inputs, [name], f"n{self.count}", domain=domain, **attributes))
        return name

    def quant(self, x: str, scale: object, bits: int, signed: bool) -> str:
        parameters = [self.constant(scale), self.constant(0), self.constant(bits)]
        return self.node("Quant", x, *parameters, domain=QONNX, signed=int(signed), narrow=int(signed))

    def conv(self, x: str, channels: tuple[int, int], kernel: int, stride: int = 1, groups: int = 1) -> str:
        """Convolution with 4-bit weights of one scale per output channel, then a batch norm."""
        out, each = channels[1], channels[0] // groups
        weights = self.rng.normal(size=(out, each, kernel, kernel)).astype(np.float32)
        scale = np.abs(weights).max(axis=(1, 2, 3), keepdims=True) / 7
        y = self.node(
            "Conv",
            x,
            self.quant(self.constant(weights), scale, 4, True),
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
            group=groups,
        )
        fan = each * kernel * kernel
        parameters = (
            self.rng.uniform(0.5, 1.5, out),
            self.rng.normal(size=out) * 0.3,
            self.rng.normal(size=out),
            self.rng.uniform(0.5, 1.5, out) * fan,
        )
        return self.node("BatchNormalization", y, *(self.constant(p) for p in parameters), epsilon=1e-5)

    def activation(self, x: str, scale: float = 0.21) -> str:
        return self.quant(self.node("Relu", x), scale, 4, False)

    def model(self, size: int, output: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, size, size])]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid(QONNX, 1)])

    def head(self, x: str, channels: int) -> str:
        """Global average, 4-bit again, and a classifier of 1000."""
        y = self.quant(self.node("GlobalAveragePool", x), 0.1, 4, False)
        weights = self.rng.normal(size=(channels, 1000))
        y = self.node("Flatten", y, axis=1)
        return self.node("MatMul", y, self.quant(self.constant(weights), np.abs(weights).max() / 127, 8, True))


def mobilenet() -> onnx.ModelProto:
    """MobileNetV1 at full width, images of 224 x 224."""
    b = Builder()
    y = b.activation(b.conv(b.quant("x", 0.0157, 8, True), (3, 32), 3, 2))
    channels = 32
    small = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for out, stride in (*small, *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        y = b.activation(b.conv(y, (channels, channels), 3, stride, groups=channels))
        y = b.activation(b.conv(y, (channels, out), 1))
        channels = out
    return b.model(224, b.head(y, channels))


def resnet50() -> onnx.ModelProto:
    """ResNet-50, images of 224 x 224; every other block adds branches of different scales."""
    b = Builder()
    y = b.activation(b.conv(b.quant("x", 0.0157, 8, True), (3, 64), 7, 2))
    y = b.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width, count, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
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
    return b.model(224, b.head(y, channels))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {"mobilenet": mobilenet, "resnet50": resnet50}


def measure(name: str, profile: bool) -> None:
    """Print the CPU seconds of every stage for one network."""
    data = NETWORKS[name]().SerializeToString()
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    seconds = [time.process_time()]
    model = onnx.load_model_from_string(data)
    seconds.append(time.process_time())
    source = from_proto(model)
    seconds.append(time.process_time())
    integer = to_integer(source)
    seconds.append(time.process_time())
    parts = integer.partition()
    seconds.append(time.process_time())
    profiler.disable()
    stages = zip(("parse", "import", "integers", "partition"), np.diff(seconds), strict=True)
    total = seconds[-1] - seconds[0]
    print(
        f"{name}: {len(data) / 2**20:.0f} MiB, {len(source)} nodes -> {len(parts.core)} in hardware, {total:.2f} s: "
        + ", ".join(f"{stage} {cost:.2f}" for stage, cost in stages)
        + f"; {len(integer.blockers)} blockers"
    )
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", help=f"any of {', '.join(NETWORKS)}; all when none is given")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.networks if name not in NETWORKS]
    if unknown:
        parser.error(f"no network '{unknown[0]}'; there are: {', '.join(NETWORKS)}")
    for name in arguments.networks or NETWORKS:
        measure(name, arguments.profile)


if __name__ == "__main__":
    main()
