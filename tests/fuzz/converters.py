"""Random graphs as converters write them: quantizers, products and functions for the files of :mod:`fuzz.files`."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz.files import QUANT_DOMAINS, ROUNDING, File
from numpy.typing import NDArray

Array = NDArray[Any]


class Converter:
    """Pieces of a network; every method takes a tensor and gives the next."""

    def __init__(self, file: File) -> None:
        self.f = file
        self.node, self.const, self.ints = file.node, file.const, file.ints
        self.pick, self.chance, self.number, self.shape = file.pick, file.chance, file.number, file.shape
        self.exact = file.chance(0.6)

    # -- quantizers -----------------------------------------------------------------------------------------

    def quantize(self, name: str, channels: bool = True) -> str:
        kinds = ["qonnx"] + ["qdq"] * (self.f.opset >= 10) + ["qcdq"] * (self.f.opset >= 12)
        kind = self.pick(kinds)
        scale = self.step(name, 1 if kind == "qonnx" or self.f.opset >= 13 else 0) if channels else self.step(name, 0)
        if kind == "qonnx":
            return self.quant(name, scale)
        return self.qdq(name, scale, clipped=kind == "qcdq")

    def step(self, name: str, per_channel: int) -> Array:
        """A scale near what the values need: mostly a power of two, one per channel now and then."""
        peak = max(float(np.abs(self.f.values[name]).max()), 0.25)
        one = np.float32(2.0 ** np.round(np.log2(peak / self.pick([2, 4, 8, 64]))))
        one = np.clip(one, np.float32(2.0**-6), np.float32(4))
        rank = self.f.values[name].ndim
        if per_channel and rank > 1 and self.chance(0.12):
            return one * np.exp2(self.f.rng.integers(-1, 2, self.f.values[name].shape[1])).astype(np.float32)
        return np.asarray(one * np.float32(0.7) if not self.exact and self.chance(0.3) else one)

    def quant(self, name: str, scale: Array) -> str:
        """A QONNX node of any domain."""
        rank = self.f.values[name].ndim
        domain = self.pick(QUANT_DOMAINS)
        view = scale.reshape(1, -1, *(1,) * (rank - 2)) if scale.ndim else scale
        if self.chance(0.1):
            return str(self.node("BipolarQuant", [name, self.const(view)], domain=domain))
        bits, signed = self.number(2, 8), int(self.chance(0.7))
        zero = self.pick([0, 0, 0, 0, 1, -2])
        mode = self.pick(["ROUND", "ROUND", "ROUND", "round", *ROUNDING, "Floor"])
        inputs = [name, self.const(view), self.const(zero), self.const(bits)]
        narrow = int(self.chance(0.3) and bool(signed))
        attributes = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
        return str(self.node("Quant", inputs, domain=domain, **attributes))

    def qdq(self, name: str, scale: Array, clipped: bool) -> str:
        kind: Any = self.pick([np.int8, np.uint8, np.int16] if self.f.opset >= 21 else [np.int8, np.uint8])
        limits = np.iinfo(kind)
        zero = np.full(scale.shape, self.pick([0, 0, 0, 3, int(limits.max) // 2 + 1 if limits.min == 0 else -5]), kind)
        extra = {"axis": self.f.axis(name, 1)} if scale.ndim else {}
        parameters = [self.const(scale), self.const(zero, kind)]
        if not np.any(zero) and kind == np.uint8 and self.chance(0.4):
            parameters = parameters[:1]
        codes = self.node("QuantizeLinear", [name, *parameters], **extra)
        if clipped:
            bits = self.number(2, 7)
            lo, hi = (0, 2**bits - 1) if limits.min == 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            codes = self.node("Clip", [codes, self.const(lo, kind), self.const(hi, kind)])
        if self.chance(0.1):
            codes = self.node("Identity", [codes])
        return str(self.node("DequantizeLinear", [codes, *parameters], **extra))

    # -- products -------------------------------------------------------------------------------------------

    def weights(self, shape: tuple[int, ...], out_axis: int) -> str:
        """Constant weights on a grid, one scale for all or one per output channel."""
        many = self.chance(0.4)
        scale = np.exp2(self.f.rng.integers(-3, 1, shape[out_axis] if many else None)).astype(np.float32)
        bits = self.number(2, 6)
        q = self.f.rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), shape)
        view = np.ones(len(shape), int)
        view[out_axis] = -1
        wide = scale.reshape(view) if many else scale
        kinds = ["grid", "quant"] + ["dequantize", "qdq"] * (self.f.opset >= (13 if many else 10))
        kind = self.pick(kinds)
        if kind == "dequantize":
            inputs = [self.const(q, np.int8), self.const(scale)]
            if self.chance(0.7):
                inputs.append(self.const(np.zeros(scale.shape, np.int8), np.int8))
            extra = {"axis": out_axis - (len(shape) if self.chance(0.4) else 0)} if many else {}
            return str(self.node("DequantizeLinear", inputs, **extra))
        if kind == "grid":
            return self.const(q * wide)
        if kind == "qdq":
            extra = {"axis": out_axis} if many else {}
            parameters = [self.const(scale), self.const(np.zeros(scale.shape, np.int8), np.int8)]
            noisy = (q + self.f.rng.uniform(-0.3, 0.3, shape)) * wide
            codes = self.node("QuantizeLinear", [self.const(noisy), *parameters], **extra)
            return str(self.node("DequantizeLinear", [codes, *parameters], **extra))
        inputs = [self.const((q + self.f.rng.uniform(-0.3, 0.3, shape)) * wide), self.const(wide), self.const(0)]
        inputs.append(self.const(bits))
        return str(self.node("Quant", inputs, domain=self.pick(QUANT_DOMAINS), signed=1, narrow=0))

    def product(self, name: str) -> str:
        shape = self.shape(name)
        if self.f.opset >= 10 and self.chance(0.12):
            return self.integers(name)
        if len(shape) in (2, 3) and self.chance(0.8):
            return self.conv(name) if self.chance(0.8) else self.transposed(name)
        return self.dense(name)

    def dense(self, name: str) -> str:
        depth, width = self.shape(name)[-1], self.number(1, 6)
        rank = self.f.values[name].ndim
        if rank == 2 and self.chance(0.6):
            trans = int(self.chance(0.5))
            w = self.weights((width, depth) if trans else (depth, width), 0 if trans else 1)
            inputs = [name, w]
            if self.f.opset < 11 or self.chance(0.6):
                shape = self.pick([(width,), (1, width), (1,), ()])
                inputs.append(self.const(self.f.rng.integers(-8, 9, shape) / 8))
            extra = {"alpha": 0.5} if self.chance(0.2) else {}
            return str(self.node("Gemm", inputs, transB=trans, **extra))
        y = self.node("MatMul", [name, self.weights((depth, width), 1)])
        return self.bias(y, (width,)) if self.chance(0.3) else str(y)

    def integers(self, name: str) -> str:
        """A product in an integer dialect: codes in, codes or accumulators out."""
        image = len(self.shape(name)) == 3
        kind: Any = self.pick([np.uint8] if image else [np.uint8, np.int8])
        zero = int(self.pick([0, 3]))
        scale, point = self.const(self.step(name, 0)), self.const(zero, kind)
        codes = self.node("QuantizeLinear", [name, scale, point])
        c = self.shape(name)[0] if image else self.shape(name)[-1]
        shape = (self.number(1, 4), c, *(self.number(1, min(2, n)) for n in self.shape(name)[1:])) if image else (c, 3)
        w = self.const(self.f.rng.integers(-4, 4, shape), np.int8)
        if self.chance(0.5):
            acc = self.node("ConvInteger" if image else "MatMulInteger", [codes, w, point])
            return str(self.node("Mul", [self.node("Cast", [acc], to=1), self.const(self.f.power())]))
        small, out, zeros = self.const(self.f.power()), self.const(self.f.power(-1, 2)), self.const(0, np.int8)
        head = [codes, scale, point, w, small, zeros, out, self.const(self.pick([0, 5]), kind)]
        if image and self.chance(0.5):
            head.append(self.const(self.f.rng.integers(-20, 20, shape[0]), np.int32))
        codes = self.node("QLinearConv" if image else "QLinearMatMul", head)
        return str(self.node("DequantizeLinear", [codes, out, head[7]]))

    def bias(self, name: str, shape: tuple[int, ...]) -> str:
        parts = [name, self.const(self.f.rng.integers(-8, 9, shape) / 8)]
        return str(self.node("Add", parts if self.chance(0.5) else parts[::-1]))

    def conv(self, name: str) -> str:
        channels, *size = self.shape(name)
        divisors = [g for g in range(1, channels + 1) if channels % g == 0]
        groups = self.pick([1, 1, channels, self.pick(divisors)])
        outputs = groups * self.number(1, 2 if groups > 1 else 4)
        kernel = [self.number(1, min(3, n)) for n in size]
        attributes: dict[str, Any] = {"strides": [self.number(1, 2) for _ in size]} if self.chance(0.6) else {}
        if groups > 1 or self.chance(0.3):
            attributes["group"] = groups
        if self.chance(0.6):
            attributes["kernel_shape"] = kernel
        if self.chance(0.2):
            attributes["auto_pad"] = self.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
        elif self.chance(0.6):
            attributes["pads"] = [self.number(0, k - 1) for k in kernel * 2]
        if "auto_pad" not in attributes and all(k * 2 - 1 <= n for k, n in zip(kernel, size, strict=True)):
            attributes["dilations"] = [self.number(1, 2) for _ in size]
        inputs = [name, self.weights((outputs, channels // groups, *kernel), 0)]
        if self.chance(0.3):
            inputs.append(self.const(self.f.rng.integers(-8, 9, outputs) / 8))
        return str(self.node("Conv", inputs, **attributes))

    def transposed(self, name: str) -> str:
        channels, *size = self.shape(name)
        groups = self.pick([1, 1, channels])
        kernel = [self.number(1, 3) for _ in size]
        attributes: dict[str, Any] = {"group": groups} if groups > 1 else {}
        strides = [self.number(1, 2) for _ in size]
        if self.chance(0.7):
            attributes["strides"] = strides
            attributes["output_padding"] = [self.number(0, s - 1) for s in strides]
        if self.chance(0.4):
            attributes["pads"] = [self.number(0, (k - 1) // 2) for k in kernel * 2]
        inputs = [name, self.weights((channels, self.number(1, 3), *kernel), 1 if groups == 1 else 0)]
        if self.chance(0.3):
            outputs = self.f.values[inputs[1]].shape[1] * groups
            inputs.append(self.const(self.f.rng.integers(-8, 9, outputs) / 8))
        return str(self.node("ConvTranspose", inputs, **attributes))

    # -- functions ------------------------------------------------------------------------------------------

    def arithmetic(self, name: str) -> str:
        """A sum, difference, product or quotient with a constant of any broadcast shape, on either side."""
        shape = self.shape(name)
        rank = len(shape)
        forms: list[tuple[int, ...]] = [(), (1,), (1,) * (rank + 1), (1, *shape), shape]
        forms += [(1, shape[0], *(1,) * (rank - 1)), (shape[0], *(1,) * (rank - 1)), (shape[-1],)]
        op, form = self.pick(["Add", "Sub", "Mul", "Div"]), self.pick(forms)
        if op in ("Mul", "Div"):
            values = np.exp2(self.f.rng.integers(-2, 2, form)) * self.f.rng.choice([-1, 1, 1], form)
        else:
            values = self.f.rng.integers(-16, 17, form) / 8
        parts = [name, self.const(values)]
        return str(self.node(op, parts[::-1] if op != "Div" and self.chance(0.5) else parts))

    def function(self, name: str) -> str:
        f, opset = self.f, self.f.opset
        kinds = ["Relu", "Relu", "LeakyRelu", "PRelu", "Clip", "Abs", "Neg", "Sigmoid", "Tanh", "Sign", "Floor"]
        kinds += ["HardSigmoid", "BatchNormalization", "Max", "Min", "silu", "Elu", "Softsign", "arithmetic"]
        if self.exact:
            kinds = [
                "Relu",
                "Relu",
                "LeakyRelu",
                "PRelu",
                "Clip",
                "Abs",
                "Neg",
                "Sign",
                "Floor",
                "Max",
                "Min",
                "arithmetic",
            ]
        kinds += (
            ["HardSwish"] * (not self.exact) * (opset >= 14)
            + ["Round"] * (opset >= 11)
            + ["ThresholdedRelu"] * (opset >= 10)
        )
        kind = self.pick(kinds)
        if kind == "arithmetic":
            return self.arithmetic(name)
        if kind == "silu":
            gate = self.node(self.pick(["Sigmoid", "HardSigmoid", "Tanh"]), [name])
            return str(self.node("Mul", self.pick([[name, gate], [gate, name]])))
        if kind == "LeakyRelu":
            return str(self.node(kind, [name], alpha=0.25 if self.exact else 0.1))
        if kind == "PRelu":
            rank = len(self.shape(name))
            form = self.pick([(1,), (self.shape(name)[0], *(1,) * (rank - 1))])
            return str(self.node(kind, [name, self.const(f.rng.integers(-2, 8, form) / 8)]))
        if kind == "Clip":
            lo, hi = self.pick([(-1, 1), (0, 6), (-0.5, 2), (0, 1)])
            if opset < 11:
                return str(self.node(kind, [name], min=float(lo), max=float(hi)))
            ends = [self.const(lo), "" if self.chance(0.2) else self.const(hi)]
            return str(self.node(kind, [name, *ends]))
        if kind == "BatchNormalization":
            n = self.shape(name)[0]
            parts = [f.rng.normal(size=n), f.rng.normal(size=n), f.rng.normal(size=n), f.rng.uniform(0.2, 2, n)]
            return str(self.node(kind, [name, *(self.const(p) for p in parts)]))
        if kind in ("Max", "Min"):
            bound = self.const(f.rng.integers(-8, 9, self.pick([(), (1,), self.shape(name)])) / 4)
            return str(self.node(kind, self.pick([[name, bound], [bound, name]])))
        return str(self.node(kind, [name]))
