"""Head, core and tail: run one after the other they are the whole, whatever the tensors are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from passes.sources import Source, random_frames

from headrace.errors import UnsupportedError
from headrace.ir import Array as AnyArray
from headrace.ir import Graph, IntRange, TensorType, Value
from headrace.ir import integer as integer_ops
from headrace.ir.ops import AddTensors, Concat, Elementwise, Function, Move, Mul, SourceOp, TopK
from headrace.ir.real import Real
from headrace.passes import Partition, partition, to_integer

Array = NDArray[Any]


def check(graph: Graph, *frames: Array) -> Partition:
    model = to_integer(graph)
    parts = model.partition()
    feeds = dict(zip(graph.inputs, frames or [random_frames(*graph.type(Value("x")).shape)], strict=True))
    known: dict[str, AnyArray] = {}
    known |= parts.head.run({name: feeds[name] for name in parts.head.inputs})
    assert set(parts.core.inputs) <= set(known)
    known |= parts.core.run({name: known[name] for name in parts.core.inputs})
    assert set(parts.tail.inputs) <= set(known)
    result = parts.tail.run({name: known[name] for name in parts.tail.inputs})
    whole = model.graph.run(feeds)
    assert list(parts.tail.outputs) == list(graph.outputs)
    for name in graph.outputs:
        assert np.array_equal(whole[name], result[name])
        assert whole[name].dtype == result[name].dtype
    for node in parts.core:
        assert all(type_.is_integer for type_ in parts.core.types(node))
    return parts


def test_a_dense_network() -> None:
    s = Source(3)
    hidden = s.quantized(s.matmul(s.quantized(name="in"), [[1, 0], [2, -1], [0, 3]], name="fc"), name="act")
    parts = check(s.output(s.matmul(hidden, [[1], [1]], name="out")))
    assert (parts.head.inputs, parts.head.outputs) == (("x",), ("in",))
    assert (parts.core.inputs, parts.core.outputs) == (("in",), ("out",))
    assert (parts.tail.inputs, parts.tail.outputs) == (("out",), ("y",))
    assert list(parts.core) == ["in", "fc", "act", "out", "out_1"]
    assert (parts.head.name, parts.core.name, parts.core.file) == ("net_head", "net_core", "net.onnx")


def test_one_quantizer_for_two_branches_and_two_outputs() -> None:
    s = Source(2)
    q = s.quantized(name="q")
    left, right = s.matmul(q, [[1], [1]], name="left"), s.matmul(q, [[2], [1]], name="right")
    s.output(right, "first")
    graph = s.output(s.add(AddTensors(), left, right), "second")
    parts = check(graph)
    assert parts.core.inputs == ("q",)
    assert parts.core.outputs == ("right", "AddTensors")


def test_tensors_around_the_hardware() -> None:
    """A real skip connection, a quantizer whose real value is an output, and an output that is an input."""
    s = Source(2)
    q = s.quantized(name="q")
    y = s.matmul(q, [[1, 0], [1, 1]], name="fc")
    s.output(q, "quantized")
    s.output(s.x, "same")
    s.output(s.add(Function("Tanh"), s.x, name="tanh"), "aside")
    parts = check(s.output(s.add(AddTensors(), y, s.x), "sum"))
    assert set(parts.tail.inputs) == {"q_real", "fc", "x", "tanh"}
    assert set(parts.head.outputs) == {"q", "q_real", "x", "tanh"}


def test_integer_inputs_pass_through_the_head() -> None:
    s = Source(2, integers=IntRange(0, 9))
    x = np.arange(10).reshape(5, 2)
    parts = check(s.output(s.matmul(s.x, [[1], [-1]]), dtype="int32"), x)
    assert (parts.head.outputs, parts.core.inputs) == (("x",), ("x",))


@pytest.mark.parametrize("names", [("q", "q"), ("y", "x_1"), ("a.1", "a"), ("../../x", "module"), ("x", "y")], ids=str)
def test_names_that_clash(names: tuple[str, str]) -> None:
    s = Source(2)
    first = s.quantized(name=names[0])
    y = s.matmul(first, [[1, 2], [3, 4]], name=names[1])
    s.output(s.quantized(y, step=2.0, name=names[0]), "y")
    check(s.output(s.add(Mul(np.array([2.0])), first, name="y"), "x"))


class Twice(SourceOp):
    """Two real outputs, kept on the host."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return inputs * 2

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        return Real(inputs[0].value * 2), Real(inputs[0].value * 3)


def test_second_outputs_of_a_node_keep_apart_from_a_node_of_their_name() -> None:
    s = Source(2)
    two = s.add(Twice(), name="a")
    other = s.add(Function("Tanh"), name="a.1")
    cat = s.add(Concat(0), s.matmul(s.quantized(), [[1], [1]]), Value(two.node, 1), other, two)
    check(s.output(cat))


def test_inputs_that_are_declared_late() -> None:
    graph = Graph()
    x = graph.input("x", TensorType((2,)))
    inner = graph.add(Function("Tanh"), (x,), "z")
    late = graph.input("z", TensorType((2,)))
    s = Source(2)
    s.graph = graph
    graph.output("y", s.matmul(s.quantized(graph.add(AddTensors(), (inner, late))), [[1], [2]]), "float32")
    check(graph, random_frames(2), random_frames(2, seed=1))


def test_several_inputs() -> None:
    s = Source(2)
    other = s.graph.input("x2", TensorType((2,)))
    both = s.add(Concat(0), s.quantized(step=0.5), s.quantized(other, step=0.25))
    parts = check(s.output(s.matmul(both, [[1], [2], [3], [4]])), random_frames(2), random_frames(2, seed=1))
    assert len(parts.core.inputs) == 2


def test_nothing_to_build() -> None:
    s = Source(2)
    with pytest.raises(UnsupportedError, match="no part of the model can become hardware: it has no quantizer"):
        to_integer(s.output(s.add(Function("Tanh")))).partition()
    s = Source(4)
    moved = s.add(Move(integer_ops.Reshape((2, 2))), s.quantized())
    with pytest.raises(UnsupportedError, match=r"^net.onnx: no part of the model can become hardware"):
        to_integer(s.output(moved)).partition()


class Host(Elementwise):
    """Something only the host can do."""

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        return (Real(inputs[0].value * 2),)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return inputs

    lower = SourceOp.lower


def test_the_host_in_the_middle() -> None:
    s = Source(2)
    first = s.matmul(s.quantized(), [[1, 2], [3, 4]])
    second = s.matmul(s.quantized(s.add(Host(), first, name="middle")), [[1], [1]])
    model = to_integer(s.output(second))
    with pytest.raises(UnsupportedError) as error:
        model.partition()
    text = str(error.value)
    assert "wait for the host in the middle of the network, at" in text
    assert "node 'middle' (Host): Host is not supported in hardware" in text


def test_head_core_and_tail_are_properties() -> None:
    s = Source(2)
    model = to_integer(s.output(s.add(TopK(), s.quantized()), dtype="int64"))
    assert (model.head.outputs, model.core.outputs, model.tail.outputs) == (("IntQuant",), ("TopK",), ("y",))
    assert partition(model.graph).core.inputs == model.core.inputs
