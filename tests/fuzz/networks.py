"""Random quantized networks as ONNX models, with the outputs that the oracle computes while they are built.

*Exact* networks use only scales and constants that are powers of two, so any correct executor gives the same bits;
*free* ones use whatever scales, batch norms and functions a training may have left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from fuzz.elementary import Tensor
from fuzz.pieces import FRAMES, QONNX, Builder
from fuzz.rationals import Array
from onnx import TensorProto, helper


@dataclass(frozen=True)
class Network:
    """A model, a batch for it, and what must come out."""

    model: onnx.ModelProto
    feeds: dict[str, Array]
    expected: dict[str, Array]
    margin: float
    exact: bool


def random_network(seed: int) -> Network:
    """The network of a seed: MLP- or CNN-shaped, a few layers with forks, joins and pools between them."""
    return _Structure(np.random.default_rng(seed)).build()


class _Structure(Builder):
    """How the pieces are put together."""

    # -- structure ------------------------------------------------------------------------------------------

    def pool(self, name: str) -> str:
        shape = self.shape(name)
        if len(shape) < 2 or self.spatial != len(shape) - 1:
            return self.elementwise(name)
        kind = self.pick(["MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
        if kind.startswith("Global"):
            exact_mean = int(np.prod(shape[1:])) in (1, 2, 4, 8, 16, 32, 64)
            if kind == "GlobalMaxPool" or exact_mean or not self.exact:
                return str(self.node(kind, [name]))
            kind = "MaxPool"
        kernel = [min(n, self.pick([1, 2] if self.exact else [1, 2, 3])) for n in shape[1:]]
        attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": [self.pick([1, 2]) for _ in kernel]}
        if kind == "MaxPool" or not self.exact:
            pads = [int(self.rng.integers(0, k)) for k in kernel * 2] if self.chance(0.4) else [0] * 2 * len(kernel)
            attributes["pads"] = pads
        if kind == "AveragePool":
            attributes["count_include_pad"] = int(self.chance(0.5))
        return str(self.node(kind, [name], **attributes))

    def residual(self, name: str) -> str:
        scale = self.scale_near(self.peak(name) / 8)
        shared = self.chance(0.5)
        left = self.quant(name, scale if shared else None)
        right = self.quant(self.linear(left, same=True), scale if shared else None)
        if self.chance(0.2):
            right = left
        if self.shape(left) != self.shape(right):
            return right
        return str(self.node(self.pick(["Add", "Add", "Sub"]), self.pick([[left, right], [right, left]])))

    def two(self, name: str) -> str:
        """Product, maximum or minimum of two branches, or a sum of one with its own maximum."""
        left = self.quantize(name)
        kind = self.pick(["Mul", "Max", "Min", "broadcast"])
        if kind == "broadcast" and self.is_image(left):
            return str(self.node("Add", [left, self.quantize(self.node("GlobalMaxPool", [left]))]))
        right = self.quantize(self.elementwise(name))
        return str(self.node("Mul" if kind == "broadcast" else kind, [left, right]))

    def is_image(self, name: str) -> bool:
        return self.spatial > 0 and self.spatial == len(self.shape(name)) - 1

    def resampled(self, name: str) -> str:
        """Something that changes the size of an image, or the order of its channels."""
        shape = self.shape(name)
        channels = [int(c) for c in self.rng.integers(0, shape[0], int(self.rng.integers(1, 6)))]
        kind = self.pick(["pad", "upsample", "transposed", "gather", "reduce"]) if self.is_image(name) else "gather"
        if kind == "gather":
            return str(self.node("Gather", [name, self.const(channels, np.int64)], axis=1))
        if kind == "pad":
            return self.padded(name)
        if kind == "upsample":
            scales = [1, 1, *self.rng.integers(1, 4, self.spatial).tolist()]
            attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            return str(self.node("Resize", [name, "", self.const(scales)], **attributes))
        if kind == "reduce":
            return self.reduced(name)
        return self.transposed_conv(self.quantize(name))

    def padded(self, name: str) -> str:
        pads = self.rng.integers(0, 3, (2, len(self.shape(name)) + 1))
        pads[:, 0] = 0
        if self.chance(0.7):
            pads[:, 1] = 0
        inputs = [name, self.const(pads.ravel(), np.int64)]
        if self.chance(0.3):
            inputs.append(self.const(self.oracle.env[name].value.flat[0]))
        return str(self.node("Pad", inputs))

    def reduced(self, name: str) -> str:
        axes = list(range(2, 2 + self.spatial))
        op = self.pick(["ReduceSum", "ReduceMax"] + ([] if self.exact else ["ReduceMean"]))
        keep = int(self.chance(0.5))
        if op == "ReduceSum" or self.opset >= 18:
            return str(self.node(op, [name, self.const(axes, np.int64)], keepdims=keep))
        return str(self.node(op, [name], axes=axes, keepdims=keep))

    def transposed_conv(self, name: str) -> str:
        channels, *size = self.shape(name)
        groups = self.pick([g for g in range(1, channels + 1) if channels % g == 0]) if self.chance(0.3) else 1
        kernel = [self.pick([1, 2, 3]) for _ in size]
        strides = [self.pick([1, 2, 3]) for _ in size]
        dilations = [self.pick([1, 1, 2]) for _ in size]
        reach = [s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)]
        pads = [int(self.rng.integers(0, 1 + min(2, (r - 1) // 2))) for r in reach * 2]
        extra = [int(self.rng.integers(0, max(s, d))) for s, d in zip(strides, dilations, strict=True)]
        attributes = {
            "group": groups,
            "strides": strides,
            "dilations": dilations,
            "pads": pads,
            "output_padding": extra,
        }
        w = self.weights((channels, int(self.rng.integers(1, 4)), *kernel), 1)
        return str(self.node("ConvTranspose", [name, w], **attributes))

    def join(self, name: str) -> str:
        left = self.quantize(name)
        right = self.quantize(self.elementwise(name))
        axis = int(self.rng.integers(1, 1 + len(self.shape(name)))) if self.chance(0.2) else 1
        return str(self.node("Concat", [left, right], axis=axis))

    def move(self, name: str) -> str:
        shape = self.shape(name)
        kind = self.pick(["flatten", "transpose", "slice", "split", "identity"])
        if kind == "flatten" and len(shape) > 1:
            return str(self.node("Flatten", [name]))
        if kind == "transpose" and len(shape) > 2:
            return str(self.node("Transpose", [name], perm=[0, *(1 + self.rng.permutation(len(shape))).tolist()]))
        if kind == "slice" and shape[0] > 1:
            first = int(self.rng.integers(0, shape[0] - 1))
            ends = [self.const([v], np.int64) for v in (first, int(self.rng.integers(first + 1, shape[0] + 1)), 1)]
            return str(self.node("Slice", [name, *ends]))
        if kind == "split" and shape[0] > 1:
            cut = int(self.rng.integers(1, shape[0]))
            sizes = self.const([cut, shape[0] - cut], np.int64)
            parts = self.node("Split", [name, sizes], outputs=2, axis=1)
            return str(parts[int(self.rng.integers(2))])
        return str(self.node("Identity", [name]))

    def add_input(self, shape: tuple[int, ...]) -> str:
        name = f"in{len(self.inputs)}" if self.chance(0.8) else f"in put/{len(self.inputs)}"
        batch: object = self.pick(["N", FRAMES])
        if self.chance(0.15):
            x: Array = self.rng.integers(0, 256, (FRAMES, *shape)).astype(np.uint8)
            x[0], x[1] = 0, 255
            self.inputs.append(helper.make_tensor_value_info(name, TensorProto.UINT8, [batch, *shape]))
            self.feeds[name], self.oracle.env[name] = x, Tensor(x)
            real = self.node("Cast", [name], to=TensorProto.FLOAT)
            return str(self.node("Mul", [real, self.const(1 / 256 if self.exact else np.float32(1 / 255))]))
        x = self.rng.normal(size=(FRAMES, *shape)) * 2
        x[0], x[1], x[2] = np.round(x[0] * 4) / 4, np.round(x[1] * 4) / 8, self.rng.choice([-100.0, 0.0, 100.0], shape)
        if self.exact:
            x = np.round(x * 64) / 64
        x = x.astype(np.float32)
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *shape]))
        self.feeds[name], self.oracle.env[name] = x, Tensor(x)
        return name

    def end(self, name: str) -> None:
        kind = self.pick(["real", "real", "quant", "argmax", "topk"])
        if kind == "quant":
            name = self.quantize(name)
        elif kind == "argmax":
            name = self.node("ArgMax", [name], axis=1, keepdims=int(self.chance(0.5)))
        elif kind == "topk":
            k = self.const([int(self.rng.integers(1, self.shape(name)[-1] + 1))], np.int64)
            name = self.node("TopK", [name, k], outputs=2, largest=int(self.chance(0.7)))[1]
        if name not in self.results and name not in self.feeds:
            self.results.append(name)

    def build(self) -> Network:
        self.opset = int(self.pick([13, 15, 17, 19, 21]))
        size = [int(n) for n in self.rng.integers(3, 8, self.spatial)]
        shape = (int(self.rng.integers(1, 5)), *size) if self.spatial else (int(self.rng.integers(1, 13)),)
        if not self.spatial and self.chance(0.15):
            shape = (int(self.rng.integers(1, 5)), *shape)
        name = self.quantize(self.add_input(shape))
        if self.chance(0.12):
            name = str(self.node("Add", [name, self.quantize(self.add_input(shape))]))
        steps: list[Callable[[str], str]] = [self.layer] * 5 + [
            self.residual,
            self.join,
            self.pool,
            self.pool,
            self.move,
        ]
        for _ in range(int(self.rng.integers(1, 5))):
            name = self.pick(steps)(name)
            if self.chance(0.15):
                self.end(name)
        if self.chance(0.5):
            name = self.linear(self.quantize(name))
        self.end(name)
        return self.finish()

    def layer(self, name: str) -> str:
        if self.oracle.env[name].q is None or self.chance(0.5):
            name = self.quantize(name)
        name = self.linear(name)
        for _ in range(int(self.rng.integers(0, 4))):
            name = self.elementwise(name)
        return self.quantize(name) if self.chance(0.85) else name

    def finish(self) -> Network:
        outputs, expected = [], {}
        for name in self.results:
            value = self.oracle.env[name].value
            kind = TensorProto.INT64 if value.dtype.kind == "i" else TensorProto.FLOAT
            outputs.append(helper.make_tensor_value_info(name, kind, ["N", *value.shape[1:]]))
            expected[name] = value
        if self.chance(0.2):
            self.rng.shuffle(self.nodes)  # type: ignore[arg-type]
        graph = helper.make_graph(self.nodes, "random", self.inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(QONNX, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        margin = min(self.oracle.margins, default=1.0)
        return Network(model, self.feeds, expected, margin, self.exact)
