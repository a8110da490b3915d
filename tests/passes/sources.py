"""Short ways to write source graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ir import Graph, IntRange, TensorType, Value
from headrace.ir.grid import Constant, Grid
from headrace.ir.ops import Conv, IntQuant, MatMul, Quantizer

Array = NDArray[Any]


def quantizer(step: object = 0.5, bits: int = 4, rank: int = 1, signed: bool = True) -> IntQuant:
    """Round half even, no zero point; *step* a number or an array of *rank* axes."""
    scale = np.asarray(step, np.float32)
    lo = -(2 ** (bits - 1)) if signed else 0
    return IntQuant(
        scale.reshape((1,) * (rank - scale.ndim) + scale.shape), np.zeros((1,) * rank, np.float32), lo, lo + 2**bits - 1
    )


def weights(q: object, scale: float = 1.0) -> Constant:
    """Quantized constants with one scale."""
    integers = np.asarray(q, np.int64)
    shape = (1,) * integers.ndim
    return Constant(
        integers.astype(np.float32) * np.float32(scale), Grid(integers, np.full(shape, scale), np.zeros(shape))
    )


class Source:
    """A source graph under construction with one real input."""

    def __init__(self, *shape: int, integers: IntRange | None = None) -> None:
        self.graph = Graph("net", "net.onnx")
        type_ = TensorType(shape) if integers is None else TensorType(shape, integers)
        self.x = self.graph.input("x", type_)

    def add(self, op: Any, *inputs: Value, name: str = "") -> Value:
        return self.graph.add(op, inputs or (self.x,), name)

    def quantized(self, value: Value | None = None, step: object = 0.5, bits: int = 4, name: str = "") -> Value:
        source = value or self.x
        rank = len(self.graph.type(source).shape)
        return self.add(quantizer(step, bits, rank), source, name=name)

    def matmul(self, value: Value, q: object, scale: float = 1.0, name: str = "") -> Value:
        return self.add(MatMul(weights(q, scale)), value, name=name)

    def conv(self, value: Value, q: object, pad: int = 0, name: str = "") -> Value:
        rank = np.ndim(q) - 2  # type: ignore[arg-type]
        return self.add(Conv(weights(q), (1,) * rank, (1,) * rank, ((pad, pad),) * rank), value, name=name)

    def output(self, value: Value, name: str = "y", dtype: str | None = "float32") -> Graph:
        self.graph.output(name, value, dtype)
        return self.graph


def random_frames(*shape: int, count: int = 50, seed: int = 0) -> Array:
    """Floats, many of them on halves and quarters."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, *shape)).astype(np.float32) * 3
    x[::2] = np.round(x[::2] * 4) / 4
    return x


def identity(n: int) -> Sequence[Sequence[int]]:
    return np.eye(n, dtype=np.int64).tolist()


__all__ = ["Quantizer", "Source", "identity", "quantizer", "random_frames", "weights"]
