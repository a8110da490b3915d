"""Scales at both ends of float32, wide quantizers, odd functions: both modes agree, or one sentence says why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from fuzz.pieces import QONNX
from fuzz.rationals import Array
from onnx import TensorProto, helper, numpy_helper

from headrace.errors import HeadraceError
from headrace.ingest import from_proto
from headrace.passes import to_integer

SCALES = (1e-45, 1e-40, 1.2e-38, 1e-30, 1e-10, 0.1, 1.0, 3.0, 1e10, 1e30, 3e38)
WIDTH = 3
FEEDS = np.float32(
    [[0.3, -1, 2.2], [0, 3e38, -3e38], [1e-45, -1e-45, 1], [1e30, -7e29, 0], [-0.0, 0.5, 1.5], [5e9, -5e9, 300]]
)


class Chain:
    """A random chain of operators on frames of three numbers."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([99, seed])
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.kind = TensorProto.FLOAT

    def const(self, value: object, kind: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        out = f"t{len(self.nodes)}"
        domain = QONNX if op == "Quant" else ""
        self.nodes.append(helper.make_node(op, inputs, [out], out, domain=domain, **attributes))
        return out

    def scale(self, count: int | None = None) -> Array:
        return np.asarray(self.rng.choice(SCALES, count) * self.rng.choice([-1, 1], count))

    def quant(self, x: str) -> str:
        bits = int(self.rng.choice([1, 2, 4, 8, 16, 24, 32]))
        zero = 0 if bits == 1 else float(self.rng.choice([0, 0, 0, 1, -3, 2**20, -(2**31)]))
        parameters = (self.const(abs(self.scale())), self.const(zero), self.const(bits))
        mode = str(self.rng.choice(["ROUND", "FLOOR", "HALF_UP"]))
        return self.node("Quant", x, *parameters, signed=int(self.rng.integers(2)), narrow=0, rounding_mode=mode)

    def step(self, x: str, first: str) -> str:
        op = str(self.rng.choice(STEPS))
        if op in ("Mul", "Add", "Div"):
            return self.node(op, x, self.const(self.scale()))
        if op == "Reciprocal":
            return self.node("Div", self.const(1), x)
        if op == "Clip":
            return self.node("Clip", x, self.const(-abs(self.scale())), self.const(abs(self.scale())))
        if op == "MatMul":
            w = self.rng.integers(-3, 4, (WIDTH, WIDTH)) * self.rng.choice([1, 1e-30, 1e20, 0.5])
            return self.node("MatMul", x, self.const(w))
        if op in ("Sum", "Product"):
            return self.node("Add" if op == "Sum" else "Mul", x, first)
        if op == "Concat":
            ends = [self.const([v], np.int64) for v in (1, 1 + WIDTH, 1)]
            return self.node("Slice", self.node("Concat", x, first, axis=1), *ends)
        if op == "ReduceSum":
            return self.node("Add", self.node("ReduceSum", x, self.const([1], np.int64)), x)
        if op == "BatchNormalization":
            variance = self.const(np.abs(self.scale(WIDTH)))
            return self.node(op, x, *(self.const(self.scale(WIDTH)) for _ in range(3)), variance)
        return self.quant(x) if op == "Quant" else self.node(op, x)

    def build(self) -> onnx.ModelProto:
        first = x = self.quant("x")
        for _ in range(int(self.rng.integers(1, 5))):
            x = self.step(x, first)
        if self.rng.random() < 0.15:
            x, self.kind = self.node("ArgMax", x, axis=1), TensorProto.INT64
        graph = helper.make_graph(
            self.nodes,
            "extreme",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", WIDTH])],
            [helper.make_tensor_value_info(x, self.kind, None)],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(QONNX, 1)])


STEPS = (
    *("Mul", "Add", "Div", "Relu", "Sigmoid", "Exp", "Sqrt", "Abs", "Reciprocal", "Clip", "MatMul", "Quant", "Sum"),
    *("Product", "Concat", "ReduceSum", "BatchNormalization"),
)


def _check_block(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        source = from_proto(Chain(seed).build())
        model = to_integer(source)
        try:
            real = source.run({"x": FEEDS})
        except HeadraceError as error:
            message = str(error)
            if "not a number" not in message and "62 bits" not in message:
                raise
            continue
        integer = model.graph.run({"x": FEEDS})
        for name, values in real.items():
            assert np.array_equal(values, integer[name], equal_nan=True), f"seed {seed}"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("block", range(4))
def test_extremes(block: int) -> None:
    _check_block(block)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("block", range(4, 80))
def test_more_extremes(block: int) -> None:
    _check_block(block)
