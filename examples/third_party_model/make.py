"""Makes the file: with Brevitas where it is installed, else with nothing but onnx.

python -m third_party_model.make [MODEL.onnx]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

QONNX = "qonnx.custom_op.general"
CHANNELS, SIZE, CLASSES = 8, 8, 4


def main(path: Path) -> str:
    """Write the model to *path*; returns the name of the tool that made it."""
    try:
        import brevitas.nn  # noqa: F401
    except ImportError:
        onnx.save(by_hand(), path)
        return "onnx.helper"
    by_brevitas(path)
    return "Brevitas"


def by_brevitas(path: Path) -> None:
    """A separable convolution with a branch around it; scales are powers of two, so that any executor is exact."""
    import brevitas.nn as qnn
    import torch
    from brevitas.export import export_qonnx
    from brevitas.quant import Int8ActPerTensorFixedPoint, Int8WeightPerTensorFixedPoint, Uint8ActPerTensorFixedPoint
    from torch import nn

    torch.manual_seed(0)
    weight = {"bias": False, "weight_quant": Int8WeightPerTensorFixedPoint, "weight_bit_width": 4}
    relu = {"act_quant": Uint8ActPerTensorFixedPoint, "bit_width": 4}

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.depthwise = qnn.QuantConv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS, **weight)
            self.first = qnn.QuantReLU(**relu)
            self.pointwise = qnn.QuantConv2d(CHANNELS, CHANNELS, 1, **weight)
            self.second = qnn.QuantReLU(**relu)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.second(self.pointwise(self.first(self.depthwise(x))) + x)
            return y

    network = nn.Sequential(
        qnn.QuantIdentity(act_quant=Int8ActPerTensorFixedPoint),
        qnn.QuantConv2d(1, CHANNELS, 3, padding=1, **weight),
        qnn.QuantReLU(**relu),
        Block(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        qnn.QuantLinear(CHANNELS * (SIZE // 2) ** 2, CLASSES, **weight),
    )
    images = torch.randn(64, 1, SIZE, SIZE)
    network(images)  # the scales of activations follow the data
    export_qonnx(network.eval(), args=images[:1], export_path=str(path))


def by_hand(seed: int = 0) -> onnx.ModelProto:
    """The same network, as nodes of QONNX, with a scale of its own for every channel of the first convolution."""
    build = _Graph()
    rng = np.random.default_rng(seed)

    def weights(shape: tuple[int, ...], scale: ArrayLike) -> str:
        return build.quant(build.constant(rng.integers(-7, 8, shape) * np.asarray(scale)), scale, 4, 1)

    def convolution(x: str, matrix: str, kernel: int, group: int = 1) -> str:
        side = kernel // 2
        return build.node("Conv", [x, matrix], kernel_shape=[kernel] * 2, pads=[side] * 4, group=group)

    def relu(x: str, scale: float) -> str:
        return build.quant(build.node("Relu", [x]), scale, 4, 0)

    by_channel = 2.0 ** rng.integers(-5, -2, (CHANNELS, 1, 1, 1))
    x = build.quant("image", 1 / 32, 8, 1)
    x = relu(convolution(x, weights((CHANNELS, 1, 3, 3), by_channel), 3), 1 / 8)
    y = relu(convolution(x, weights((CHANNELS, 1, 3, 3), 1 / 8), 3, CHANNELS), 1 / 4)
    y = convolution(y, weights((CHANNELS, CHANNELS, 1, 1), 1 / 8), 1)
    x = relu(build.node("Add", [y, x]), 1 / 2)
    x = build.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = build.node("Flatten", [x])
    scores = build.node("MatMul", [x, weights((CHANNELS * (SIZE // 2) ** 2, CLASSES), 1 / 8)])
    return build.model("image", ("N", 1, SIZE, SIZE), scores, ("N", CLASSES))


class _Graph:
    """Nodes and constants, named in order."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: ArrayLike) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(self, operator: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [f"{name}_out"], name, domain=domain, **attributes))
        return f"{name}_out"

    def quant(self, x: str, scale: ArrayLike, bits: int, signed: int) -> str:
        inputs = [x, self.constant(scale), self.constant(0), self.constant(bits)]
        return self.node("Quant", inputs, QONNX, signed=signed, narrow=0, rounding_mode="ROUND")

    def model(
        self, source: str, shape: tuple[int | str, ...], result: str, result_shape: tuple[int | str, ...]
    ) -> onnx.ModelProto:
        source_info = helper.make_tensor_value_info(source, TensorProto.FLOAT, shape)
        result_info = helper.make_tensor_value_info(result, TensorProto.FLOAT, result_shape)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(QONNX, 1)]
        graph = helper.make_graph(self.nodes, "separable", [source_info], [result_info], self.constants)
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


if __name__ == "__main__":
    chosen = Path(sys.argv[1] if len(sys.argv) > 1 else "model.onnx")
    print(f"{chosen}, made with {main(chosen)}")
