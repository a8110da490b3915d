"""Pieces of random networks: constants, quantizers, layers, elementwise operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from fuzz.elementary import ROUND, Tensor
from fuzz.oracle import Oracle
from fuzz.rationals import Array
from onnx import helper, numpy_helper

QONNX = "qonnx.custom_op.general"
FRAMES = 6
HOSTILE = ("a/b; rm -rf", "module", "../../x", "x", "end", "wire", "y 0", "%s{{}}", "quant", "a.1", "_", "0")


class Builder:
    """A network under construction; every node is run by the oracle as it is added."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.exact = bool(rng.random() < 0.4)
        self.spatial = int(rng.choice([0, 0, 1, 2, 2]))
        self.standard = bool(rng.random() < 0.15)  # QDQ only: an executor of standard operators can run it
        self.oracle = Oracle()
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.feeds: dict[str, Array] = {}
        self.results: list[str] = []
        self.count = 0

    # -- pieces of ONNX -------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def const(self, values: object, kind: type = np.float32) -> str:
        array = np.asarray(values, kind)
        name = self.fresh("c")
        tensor = numpy_helper.from_array(array, name)
        if self.chance(0.1):
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants.append(tensor)
        self.oracle.env[name] = Tensor(array, constant=True)
        return name

    def node(self, op: str, inputs: Sequence[str], domain: str = "", outputs: int = 1, **attributes: Any) -> Any:
        names = [self.fresh(op.lower()) for _ in range(outputs)]
        label = self.pick(HOSTILE) if self.chance(0.1) else "" if self.chance(0.1) else f"{op}_{self.count}"
        proto = helper.make_node(op, list(inputs), names, label, domain=domain, **attributes)
        self.nodes.append(proto)
        self.oracle.apply(proto)
        return names[0] if outputs == 1 else names

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.oracle.env[name].value.shape[1:])

    def peak(self, name: str) -> float:
        value = self.oracle.env[name].value.astype(np.float64)
        return float(np.quantile(np.abs(value), 0.98)) or 1.0

    def scale_near(self, size: float) -> float:
        """A scale of about *size*: a power of two in exact networks."""
        wanted = size * float(self.rng.uniform(0.5, 1.5))
        return float(2.0 ** round(np.log2(wanted))) if self.exact else float(np.float32(wanted))

    def channel_shape(self, name: str, batch: bool = True) -> tuple[int, ...]:
        shape = self.shape(name)
        channels = (shape[-1],) if not self.spatial or len(shape) == 1 else (shape[0], *(1,) * (len(shape) - 1))
        return ((1,) if batch else ()) + channels

    # -- quantizers -----------------------------------------------------------------------------------------

    def quantize(self, name: str, scale: float | None = None) -> str:
        if self.standard:
            return self.qdq(name)
        kind = self.pick(["quant"] * 8 + ["bipolar", "threshold", "qdq"])
        if kind == "qdq" or (kind == "threshold" and self.exact and self.peak(name) > 2**20):
            return self.qdq(name)
        if kind == "bipolar" and scale is None:
            step = self.scale_near(self.peak(name))
            return str(self.node("BipolarQuant", [name, self.const(step)], QONNX))
        if kind == "threshold" and scale is None:
            return self.multi_threshold(name)
        return self.quant(name, scale)

    def quant(self, name: str, scale: float | None = None) -> str:
        bits = int(self.rng.integers(1, 9))
        signed = int(self.chance(0.7))
        narrow = int(self.chance(0.3) and bits > 1)
        step: object = scale
        if scale is None:
            step = self.scale_near(self.peak(name) / 2 ** max(bits - signed, 0))
            if self.chance(0.2):
                shape = self.channel_shape(name)
                step = np.array([self.scale_near(float(step)) for _ in range(int(np.prod(shape)))]).reshape(shape)
        zero = 0
        if self.chance(0.15) and bits > 1:
            zero = int(self.rng.integers(0 if not signed else -(2 ** (bits - 1)) + narrow, 2 ** (bits - 1)))
        inputs = [name, self.const(step), self.const(zero), self.const(bits)]
        mode = self.pick([m for m in ROUND if m != "ROUND_TO_ZERO"] + ["ROUND"] * 6)
        return str(self.node("Quant", inputs, QONNX, signed=signed, narrow=narrow, rounding_mode=mode))

    def multi_threshold(self, name: str) -> str:
        levels = int(self.rng.integers(1, 16))
        rows = self.pick([1, self.channel_shape(name)[1] if not self.spatial else self.shape(name)[0]])
        grid = np.sort(self.rng.uniform(-1, 1, (rows, levels)) * self.peak(name), axis=1)
        if self.exact:
            grid = np.round(grid * 64 / self.peak(name)) * 2.0 ** round(np.log2(self.peak(name))) / 64
        out = self.scale_near(1.0) * self.pick([1, 1, 1, -1])
        if self.chance(0.8):
            out = np.ceil(out * 64) / 64  # its multiples are float32 numbers
        attributes = {"out_scale": out, "out_bias": float(self.rng.integers(-8, 8)) * out, "out_dtype": "INT8"}
        if len(self.shape(name)) == 2:
            attributes["data_layout"] = "NCW" if self.spatial else "NWC"
        elif self.chance(0.5):
            attributes["data_layout"] = "NCHW" if len(self.shape(name)) == 3 else "NC"
        return str(self.node("MultiThreshold", [name, self.const(grid)], QONNX, **attributes))

    def qdq(self, name: str) -> str:
        kind = self.pick([np.int8, np.uint8])
        low = float(self.oracle.env[name].value.min())
        step = self.const(self.scale_near(self.peak(name) / 100))
        zero = int(self.rng.integers(0, 200)) if kind is np.uint8 and low < 0 and self.chance(0.5) else 0
        point = self.const(zero, kind)
        return str(self.node("DequantizeLinear", [self.node("QuantizeLinear", [name, step, point]), step, point]))

    # -- products -------------------------------------------------------------------------------------------

    def weights(self, shape: tuple[int, ...], out_axis: int) -> str:
        """A constant of *shape*, quantized one way or another."""
        kind = self.pick(["quant"] * 6 + ["bipolar", "raw", "scaled", "qdq"])
        if self.standard:
            kind = self.pick(["qdq", "raw"])
        per = [1] * len(shape)
        per[out_axis] = shape[out_axis]
        if kind == "raw":
            return self.const(self.rng.integers(-4, 5, shape))
        if kind == "scaled":
            return self.const(self.rng.integers(-7, 8, shape) * 2.0 ** int(self.rng.integers(-6, 3)))
        if kind == "qdq":
            channels = shape[out_axis]
            step = self.const([self.scale_near(0.05) for _ in range(channels)])
            point = self.const(np.zeros(channels), np.int8)
            values = self.const(self.rng.integers(-128, 128, shape), np.int8)
            return str(self.node("DequantizeLinear", [values, step, point], axis=out_axis))
        values = self.const(self.rng.normal(size=shape))
        size = np.ones(()) if self.chance(0.6) else np.ones(per)
        if kind == "bipolar":
            step = np.array([self.scale_near(0.5) for _ in range(size.size)]).reshape(size.shape)
            return str(self.node("BipolarQuant", [values, self.const(step)], QONNX))
        bits = int(self.rng.integers(2, 9))
        step = np.array([self.scale_near(2.0 ** (1 - bits)) for _ in range(size.size)]).reshape(size.shape)
        inputs = [values, self.const(step), self.const(0), self.const(bits)]
        narrow, mode = int(self.chance(0.5)), self.pick(["ROUND", "FLOOR", "CEIL", "HALF_UP"])
        return str(self.node("Quant", inputs, QONNX, signed=1, narrow=narrow, rounding_mode=mode))

    def linear(self, name: str, same: bool = False) -> str:
        shape = self.shape(name)
        if len(shape) >= 2 and self.spatial == len(shape) - 1:
            return self.conv(name, same)
        width = shape[-1] if same else int(self.rng.integers(1, 9))
        if len(shape) == 1 and self.chance(0.3):
            transposed = int(self.chance(0.5))
            w = self.weights((width, shape[-1]) if transposed else (shape[-1], width), 1 - transposed)
            bias = [self.bias(width)] if self.chance(0.6) else []
            return str(self.node("Gemm", [name, w, *bias], transB=transposed))
        if self.chance(0.15):
            w = self.node("Transpose", [self.weights((width, shape[-1]), 0)], perm=[1, 0])
        else:
            w = self.weights((shape[-1], width), 1)
        return str(self.node("MatMul", [name, w]))

    def bias(self, size: int) -> str:
        values = self.rng.normal(size=size)
        return self.const(np.round(values * 16) / 16 if self.exact else values)

    def conv(self, name: str, same: bool) -> str:
        channels, *size = self.shape(name)
        divisors = [g for g in range(1, channels + 1) if channels % g == 0]
        groups = self.pick(divisors) if self.chance(0.4) else 1
        out = channels if same else groups * int(self.rng.integers(1, 4))
        kernel, attributes = [], {"group": groups}
        dilations, strides, begin, end = [], [], [], []
        for n in size:
            k = self.pick([1, 3] if same else [1, 2, 3])
            d = self.pick([1, 1, 2]) if not same else 1
            b, e = ((k - 1) // 2,) * 2 if same else (int(self.rng.integers(0, 3)), int(self.rng.integers(0, 3)))
            if n + b + e < d * (k - 1) + 1:
                k = d = 1
            kernel.append(k)
            dilations.append(d)
            strides.append(1 if same else self.pick([1, 1, 2, 3]))
            begin.append(b)
            end.append(e)
        if any(begin + end) and not self.safe_to_pad(name):
            begin, end = [0] * len(size), [0] * len(size)
            kernel = [min(k, n) for k, n in zip(kernel, size, strict=True)]
            dilations = [1] * len(size)
            if same:
                kernel = [1] * len(size)
        attributes |= {"dilations": dilations, "strides": strides, "pads": begin + end}
        w = self.weights((out, channels // groups, *kernel), 0)
        bias = [self.bias(out)] if self.chance(0.4) else []
        return str(self.node("Conv", [name, w, *bias], **attributes))

    def safe_to_pad(self, name: str) -> bool:
        """Padding an offset tensor has no integer: kept rare, since it ends the hardware."""
        bias = self.oracle.env[name].bias
        return bias is None or not np.any(bias != 0) or self.chance(0.05)

    # -- elementwise ----------------------------------------------------------------------------------------

    def elementwise(self, name: str) -> str:
        kinds = ["relu", "relu", "clip", "mul", "add", "sub", "div", "leaky", "prelu", "abs", "neg", "norm", "norm"]
        if not self.exact:
            kinds += ["sigmoid", "tanh", "softplus", "elu", "gelu", "hard"]
        kind = self.pick(kinds)
        channels = self.channel_shape(name)
        if kind == "norm":
            return self.batch_norm(name)
        if kind in ("mul", "add", "sub", "div"):
            return self.with_constant(name, kind, channels)
        if kind == "clip":
            lo, hi = sorted(self.rng.integers(-8, 9, 2).tolist())
            inputs = [name, self.const(lo / 2) if self.chance(0.8) else "", self.const(hi / 2)]
            return str(self.node("Clip", inputs))
        if kind == "leaky":
            return str(self.node("LeakyRelu", [name], alpha=self.pick([0.125, 0.5]) if self.exact else 0.01))
        if kind == "prelu":
            slopes = self.rng.integers(-1, 4, channels[1:]) / 4 if self.exact else self.rng.normal(size=channels[1:])
            return str(self.node("PRelu", [name, self.const(slopes)]))
        if kind == "gelu":
            return str(self.node("Elu", [name], alpha=0.7)) if self.opset < 20 else str(self.node("Gelu", [name]))
        names = {"relu": "Relu", "abs": "Abs", "neg": "Neg", "sigmoid": "Sigmoid", "tanh": "Tanh", "elu": "Elu"}
        names |= {"softplus": "Softplus", "hard": "HardSigmoid"}
        return str(self.node(names[kind], [name]))

    def with_constant(self, name: str, kind: str, channels: tuple[int, ...]) -> str:
        shape = self.pick([(), channels, channels[1:]])
        if kind in ("mul", "div"):
            values = self.rng.choice([-2.0, -0.5, 0.25, 0.5, 1.0, 2.0, 4.0], shape)
            if not self.exact:
                values = values * self.rng.uniform(0.5, 1.5, shape)
            if kind == "mul" and self.chance(0.1):
                values = values * 0
        else:
            values = np.round(self.rng.normal(size=shape) * 32) / 16
            if not self.exact:
                values = values * 0.999
        c = self.const(values)
        left = self.chance(0.5) and kind in ("mul", "add")
        return str(self.node(kind.capitalize(), [c, name] if left else [name, c]))

    def batch_norm(self, name: str) -> str:
        shape = self.shape(name)
        if len(shape) == 2 and not self.spatial:
            return str(self.node("Relu", [name]))
        channels = shape[0]
        gamma = self.rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 1.0], channels)
        if self.exact:
            beta, mean = (np.round(self.rng.normal(size=channels) * 8) / 8 for _ in range(2))
            parts, epsilon = (gamma, beta, mean, self.rng.choice([0.25, 1.0, 4.0], channels)), 0.0
        else:
            gamma = gamma * self.rng.uniform(0.8, 1.2, channels)
            parts = (gamma, *self.rng.normal(size=(2, channels)), self.rng.uniform(0.1, 2, channels))
            epsilon = 1e-5
        inputs = [name, *(self.const(p) for p in parts)]
        return str(self.node("BatchNormalization", inputs, epsilon=epsilon))
