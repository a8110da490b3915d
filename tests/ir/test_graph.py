"""The graph: names, ports, order, execution and what it keeps in memory."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

from headrace.errors import InputError, ModelError, UnsupportedError
from headrace.ir import Array, Graph, Input, IntRange, Op, Output, TensorType, Value
from headrace.ir.grid import Grid
from headrace.ir.integer import Concat, IntAdd, IntMatMul, Reshape, Slice
from headrace.ir.real import Real

BYTE = TensorType((2,), IntRange(0, 255))


@dataclass(frozen=True, eq=False)
class Halves(Op):
    """Two outputs: the first and the last element."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (TensorType((1,), inputs[0].element),) * 2

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return inputs[0][:, :1], inputs[0][:, 1:]


def test_names_are_made_unique() -> None:
    g = Graph()
    x = g.input("x", BYTE)
    nodes = [g.add(IntAdd(), (x, x), "a").node for _ in range(3)] + [g.add(IntAdd(), (x, x)).node for _ in range(2)]
    assert nodes == ["a", "a_1", "a_2", "IntAdd", "IntAdd_1"]
    assert g.unique_name("x") == "x_1"
    assert len(g) == 6
    assert "a_1" in g
    assert "b" not in g


def test_an_input_and_an_output_may_share_a_name() -> None:
    g = Graph()
    x = g.input("x", BYTE)
    g.output("x", x)
    assert (g.inputs, g.outputs) == (("x",), ("x",))
    assert (g.input_node("x"), g.output_node("x")) == ("x", "x_1")
    assert np.array_equal(g.run({"x": np.array([[1, 2]])})["x"], [[1, 2]])


def test_an_output_may_have_the_name_of_another_node() -> None:
    g = Graph()
    x = g.input("y", BYTE)
    doubled = g.add(IntAdd(), (x, x), "z")
    g.output("z", x)
    g.output("y", doubled)
    result = g.run({"y": np.array([[1, 2]])})
    assert np.array_equal(result["z"], [[1, 2]])
    assert np.array_equal(result["y"], [[2, 4]])


def test_two_ports_of_one_name_are_refused() -> None:
    g = Graph()
    g.input("x", BYTE)
    with pytest.raises(ModelError, match="two graph inputs or two graph outputs are called 'x'"):
        g.input("x", BYTE)


def test_order_is_topological_and_stable() -> None:
    g = Graph()
    b = g.input("b", BYTE)
    a = g.input("a", BYTE)
    last = g.add(IntAdd(), (a, b), "1")
    first = g.add(IntAdd(), (b, b), "0")
    g.add(IntAdd(), (first, last), "end")
    assert list(g) == ["b", "a", "1", "0", "end"]


def test_a_node_may_read_one_tensor_twice_and_two_outputs_of_one_node() -> None:
    g = Graph()
    x = g.input("x", BYTE)
    halves = g.add(Halves(), (x,))
    swapped = g.add(Concat(0), (Value(halves.node, 1), halves, halves))
    g.output("y", swapped)
    assert g.sources(swapped.node) == (Value("Halves", 1), Value("Halves", 0), Value("Halves", 0))
    assert g.consumers(Value("Halves", 0)) == ((swapped.node, 1), (swapped.node, 2))
    assert g.consumers(Value("Halves", 1)) == ((swapped.node, 0),)
    assert g.run({"x": np.array([[7, 9]])})["y"].tolist() == [[9, 7, 7]]


def test_values_of_inner_nodes_and_observe() -> None:
    g = Graph()
    x = g.input("x", BYTE)
    a = g.add(IntAdd((2, 1)), (x, x), "a")
    g.output("a", g.add(IntAdd(), (a, x), "b"))
    seen: list[str] = []
    feeds = {"x": np.array([[1, 2]])}
    inner = g.values(feeds, ["a", "x"], observe=lambda node, outputs: seen.append(node))
    assert {k: v.tolist() for k, v in inner.items()} == {"a": [[3, 6]], "x": [[1, 2]]}
    assert seen == ["x", "a", "b", "a_1"]
    assert g.run(feeds)["a"].tolist() == [[4, 8]], "outputs go by their public names"
    with pytest.raises(InputError, match="no node 'bb' to keep"):
        g.values(feeds, ["bb"])


def test_missing_input_is_named() -> None:
    g = Graph()
    g.input("x", BYTE)
    with pytest.raises(InputError, match=r"no array for graph input 'x'; expected \['x'\]"):
        g.run({"X": np.zeros((1, 2))})


@dataclass(frozen=True, eq=False)
class Fresh(Op):
    """Hands on a new array and remembers whether it still lives."""

    alive: list[weakref.ref[Array]]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return inputs

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        gc.collect()
        y = inputs[0] + 1
        self.alive.append(weakref.ref(y))
        return (y,)


def test_tensors_are_freed_when_nobody_reads_them_any_more() -> None:
    g = Graph()
    alive: list[weakref.ref[Array]] = []
    value = g.input("x", BYTE)
    for k in range(6):
        value = g.add(Fresh(alive), (value,), f"n{k}")
        g.add(Fresh(alive), (value,), f"dead{k}")
    g.output("y", value)
    counts: list[int] = []
    g.run({"x": np.zeros((1, 2), np.int64)}, observe=lambda *_: counts.append(sum(r() is not None for r in alive)))
    assert len(alive) == 12
    assert max(counts) <= 3


def test_live_drops_what_no_output_needs() -> None:
    g = Graph("name", "file.onnx")
    x = g.input("x", BYTE)
    g.input("unused", BYTE)
    g.add(IntAdd(), (g.add(IntAdd(), (x, x), "dead"), x), "dead too")
    g.output("y", g.add(IntAdd(), (x, x), "kept"))
    live = g.live()
    assert list(live) == ["x", "unused", "kept", "y"]
    assert (live.inputs, live.outputs, live.name, live.file) == (("x", "unused"), ("y",), "name", "file.onnx")
    assert len(g) == 6, "the graph itself is left alone"


def test_errors_name_node_operator_and_file() -> None:
    g = Graph(file="net.onnx")
    x = g.input("x", BYTE)
    with pytest.raises(ModelError, match=r"^net.onnx: node 'fc' \(IntMatMul\): cannot multiply frames \[2\] by"):
        g.add(IntMatMul(np.ones((3, 1), np.int64), np.zeros((2, 1), np.int64)), (x,), "fc")
    assert "fc" not in g


@dataclass(frozen=True, eq=False)
class Refusing(Op):
    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return inputs

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        raise UnsupportedError("not today")


def test_errors_at_run_time_name_the_node() -> None:
    g = Graph(file="net.onnx")
    g.output("y", g.add(Refusing(), (g.input("x", BYTE),), "r"))
    with pytest.raises(UnsupportedError, match=r"^net.onnx: node 'r' \(Refusing\): not today$"):
        g.run({"x": np.zeros((1, 2))})


def test_a_graph_prints_types_and_shapes_not_values() -> None:
    g = Graph("net")
    x = g.input("x", BYTE)
    y = g.add(IntMatMul(np.ones((2, 300), np.int64), np.zeros((2, 300), np.int64)), (x,), "fc")
    g.output("y", g.add(Slice(0, 0, 2), (y,), "cut"))
    assert str(g) == (
        "graph net:\n"
        "  x = Input(type=UINT8[0..255][2]) <- [] : UINT8[0..255][2]\n"
        "  fc = IntMatMul(weights=<int64[2, 300]>, ranges=<int64[2, 300]>) <- [x] : UINT1[0..0][300]\n"
        "  cut = Slice(axis=0, start=0, stop=2, step=1) <- [fc] : UINT1[0..0][2]\n"
        "  y = Output(dtype=None) <- [cut] : UINT1[0..0][2]"
    )


def test_output_converts_and_keeps_integers_that_float32_cannot_hold() -> None:
    q = np.array([[2**24 + 1, -(2**31) + 1]])
    one, zero = np.ones((1,)), np.zeros((1,))
    exact: Array = Output("int32").execute(Real(q.astype(np.float32), Grid(q, one, zero)))[0]  # type: ignore[arg-type]
    assert exact.dtype == np.int32
    assert exact.tolist() == q.tolist()
    scaled: Array = Output("float32").execute(Real(np.float32([[0.5]]), None))[0]  # type: ignore[arg-type]
    assert scaled.dtype == np.float32
    assert Output().execute(q)[0] is q
    assert Output("uint8").execute(np.array([[3]]))[0].dtype == np.uint8


def test_input_has_no_execution_of_its_own() -> None:
    g = Graph()
    g.output("y", g.add(Reshape((2, 1)), (g.input("x", BYTE),)))
    assert isinstance(g.op("x"), Input)
    assert g.run({"x": np.array([[1, 2]])})["y"].shape == (1, 2, 1)
