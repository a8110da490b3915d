"""Random integer graphs of everything that has a layer: chains and branches of small images that may end in vectors."""

from __future__ import annotations

import math

from headrace.ir import Graph, IntRange, Value
from headrace.ir.integer import Concat, Gather, IntAdd, IntMaxPool, IntSumPool, IntTopK, Reshape, Slice, Transpose

from .cores import BIPOLAR, INT4, UINT2, Core

ELEMENTS = (UINT2, INT4, BIPOLAR)


class RandomNetwork(Core):
    """Builds one graph from a seed: ``RandomNetwork(seed).graph``."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.count = 0
        x = self.input(tuple(self.pick(1, high) for high in (4, 6, 6)), ELEMENTS[self.pick(0, 2)])
        steps = (self.convolve, self.convolve, self.residual, self.join, self.pool, self.cut, self.turn, self.choose)
        for _ in range(self.pick(1, 4)):
            x = steps[self.pick(0, len(steps) - 1)](self.narrow(x))
            if self.pick(0, 4) == 0:
                self.output(x, self.name("inner"))
        if self.pick(0, 3):
            x = self.graph.add(Reshape((math.prod(self.shape(x)),)), (x,))
            x = self.matmul(x, self.pick(1, 6), self.name("fc"))
            if self.pick(0, 1):
                x = self.graph.add(IntTopK(1), (x,), self.name("top"))
        self.output(x)

    def pick(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def shape(self, x: Value) -> tuple[int, ...]:
        return self.graph.type(x).shape

    def range(self, x: Value) -> IntRange:
        return self.graph.type(x).int_range

    # -- steps ------------------------------------------------------------------------------------------------------

    def narrow(self, x: Value) -> Value:
        return self.quantize(x) if self.range(x).bits > 8 else x

    def quantize(self, x: Value) -> Value:
        if self.pick(0, 5) == 0:
            return self.lookup(x, name=self.name("table"))
        return self.activation(x, name=self.name("act"), output=ELEMENTS[self.pick(0, 2)])

    def convolve(self, x: Value, outputs: int = 0, same: bool = False) -> Value:
        channels, height, width = self.shape(x)
        size = 2 * self.pick(0, 1) + 1 if same else min(self.pick(1, 3), height, width)
        groups = channels if self.pick(0, 3) == 0 else 1
        outputs = outputs or (channels * self.pick(1, 2) if groups > 1 else self.pick(1, 6))
        groups = groups if outputs % groups == 0 else 1
        stride = 1 if same or min(height, width) <= 3 else self.pick(1, 2)
        pad = size // 2 if same else self.pick(0, min(size - 1, 1))
        return self.quantize(self.conv(x, outputs, (size, size), self.name("conv"), stride, pad, groups))

    def residual(self, x: Value) -> Value:
        y = self.convolve(x, self.shape(x)[0], same=True)
        pair = (x, y) if self.pick(0, 1) else (y, x)
        return self.quantize(self.graph.add(IntAdd((self.pick(1, 2), -1)), pair, self.name("add")))

    def join(self, x: Value) -> Value:
        y = self.convolve(x, self.pick(1, 4), same=True)
        axis = self.pick(0, 2)
        z = self.quantize(y) if axis or self.pick(0, 1) else x
        return self.graph.add(Concat(axis), (y, z) if self.pick(0, 1) else (z, y), self.name("concat"))

    def pool(self, x: Value) -> Value:
        if self.range(x).bipolar:
            return x
        size = self.pick(1, min(2, *self.shape(x)[1:]))
        kind = (IntMaxPool, IntSumPool)[self.pick(0, 1)]
        op = kind((size, size), (size, size), (1, 1), ((0, 0), (0, 0)))
        return self.graph.add(op, (x,), self.name("pool"))

    def cut(self, x: Value) -> Value:
        axis = self.pick(0, 2)
        size = self.shape(x)[axis]
        return x if size == 1 else self.graph.add(Slice(axis, self.pick(0, 1), size), (x,), self.name("slice"))

    def turn(self, x: Value) -> Value:
        perm = ((0, 2, 1), (1, 0, 2), (2, 1, 0))[self.pick(0, 2)]
        return self.graph.add(Transpose(perm), (x,), self.name("turn"))

    def choose(self, x: Value) -> Value:
        channels = self.shape(x)[0]
        indices = tuple(self.pick(0, channels - 1) for _ in range(self.pick(1, 4)))
        return self.graph.add(Gather(0, indices), (x,), self.name("gather"))


def random_network(seed: int) -> Graph:
    """The graph of *seed*."""
    return RandomNetwork(seed).graph
