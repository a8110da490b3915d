"""Integer graphs made by hand, and random integers for them."""

from __future__ import annotations

import numpy as np

from headrace.ir import Array, Graph, IntRange, TensorType, Value
from headrace.ir.exact import accumulator_range
from headrace.ir.integer import Activation, IntConv, IntMatMul, Lookup

UINT2 = IntRange(0, 3)
INT4 = IntRange(-8, 7)
BIPOLAR = IntRange(-1, 1, bipolar=True)


class Core:
    """Builds an integer graph with random constants."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = Graph("core")
        self.rng = np.random.default_rng(seed)

    def input(self, shape: tuple[int, ...], element: IntRange = UINT2, name: str = "x") -> Value:
        return self.graph.input(name, TensorType(shape, element))

    def output(self, value: Value, name: str = "y") -> Value:
        return self.graph.output(name, value)

    def weights(self, shape: tuple[int, ...], low: int = -2, high: int = 1) -> Array:
        return self.rng.integers(low, high, shape, endpoint=True)

    def matmul(self, x: Value, outputs: int, name: str = "fc", low: int = -2, high: int = 1) -> Value:
        type_ = self.graph.type(x)
        weights = self.weights((type_.shape[-1], outputs), low, high)
        r = type_.int_range
        ranges = np.array(accumulator_range(weights, r.lo, r.hi))
        return self.graph.add(IntMatMul(weights, ranges), (x,), name)

    def conv(
        self,
        x: Value,
        outputs: int,
        kernel: tuple[int, ...],
        name: str = "conv",
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
    ) -> Value:
        type_ = self.graph.type(x)
        weights = self.weights((outputs, type_.shape[0] // groups, *kernel))
        r = type_.int_range
        flat = weights.reshape(outputs, -1).T
        ranges = np.array(accumulator_range(flat, min(r.lo, 0), max(r.hi, 0)))
        rank = len(kernel)
        op = IntConv(weights, ranges, (stride,) * rank, (1,) * rank, ((pad, pad),) * rank, groups)
        return self.graph.add(op, (x,), name)

    def activation(
        self, x: Value, axis: int = 0, channels: int | None = None, name: str = "act", output: IntRange = UINT2
    ) -> Value:
        """Random thresholds, one row per channel of *axis* unless *channels* is 1."""
        type_ = self.graph.type(x)
        rows = type_.shape[axis] if channels is None else channels
        r = type_.int_range
        steps = 1 if output.bipolar else output.hi - output.lo
        thresholds = np.sort(self.rng.integers(r.lo + 1, r.hi + 1, (rows, steps), endpoint=True), axis=1)
        base, step = np.full(rows, output.lo), np.full(rows, 2 if output.bipolar else 1)
        return self.graph.add(Activation(thresholds, base, step, output, axis), (x,), name)

    def rounding(self, x: Value, shift: int, output: IntRange, name: str = "act") -> Value:
        """``clip(x >> shift, 0, output.hi)`` as thresholds."""
        steps = np.arange(1, output.hi + 1)[None] << shift
        return self.graph.add(Activation(steps, np.zeros(1, np.int64), np.ones(1, np.int64), output, 0), (x,), name)

    def lookup(self, x: Value, axis: int = 0, channels: int | None = None, name: str = "table") -> Value:
        type_ = self.graph.type(x)
        rows = type_.shape[axis] if channels is None else channels
        r = type_.int_range
        table = self.rng.integers(INT4.lo, INT4.hi, (rows, r.count), endpoint=True)
        return self.graph.add(Lookup(table, r.lo, INT4, axis), (x,), name)


def random_frames(graph: Graph, frames: int, seed: int = 1) -> dict[str, Array]:
    """Random integers for the inputs of *graph*, the first frames at the ends of the range."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for name in graph.inputs:
        (type_,) = graph.types(name)
        r = type_.int_range
        if r.bipolar:
            x = rng.choice(np.array([-1, 1]), (frames, *type_.shape))
        else:
            x = rng.integers(r.lo, r.hi, (frames, *type_.shape), endpoint=True)
        x[0] = r.lo
        x[min(1, frames - 1)] = r.hi
        feeds[name] = x
    return feeds


def mlp(sizes: tuple[int, ...] = (12, 8, 6, 4), seed: int = 0) -> Graph:
    """A chain of matrix products with activations between them."""
    core = Core(seed)
    x = core.input((sizes[0],))
    for k, size in enumerate(sizes[1:]):
        x = core.matmul(x, size, f"fc{k}")
        if k < len(sizes) - 2:
            x = core.activation(x, name=f"act{k}")
    core.output(x)
    return core.graph
