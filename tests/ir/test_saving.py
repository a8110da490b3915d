"""Saved graphs: the same graph comes back, whatever its operators, and nothing else can."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import pkgutil
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.graphs import random_file
from fuzz.networks import random_network
from ingest.onnx_files import model, node
from layers import cases

import headrace
from headrace.errors import InputError, ModelError
from headrace.ingest import from_proto
from headrace.ir import Graph, IntRange, Op, TensorType
from headrace.ir.integer import IntSelect
from headrace.ir.ops import (
    Celu,
    Clip,
    Codes,
    HardSigmoid,
    IntQuant,
    Mul,
    Offset,
    Power,
    Reciprocal,
    TopValues,
    ToReal,
    Trunc,
)
from headrace.ir.ops.blocks import WeightedSum
from headrace.ir.ops.joins import Arithmetic, Branches
from headrace.layers import Layer
from headrace.passes import to_integer
from headrace.passes.to_hardware import to_hardware

ONE = np.ones(1, np.float32)
RARE: list[tuple[Op, tuple[TensorType, ...]]] = [
    (Reciprocal(np.float32([2.0])), (TensorType((3,)),)),
    (Branches(Arithmetic("*"), (Clip(),), (Mul(np.array([0.5])),)), (TensorType((3,)),)),
    (Celu(0.5), (TensorType((3,)),)),
    (HardSigmoid(0.2, 0.5), (TensorType((3,)),)),
    (Power(np.float32([2.0])), (TensorType((3,)),)),
    (WeightedSum((3, 128)), (TensorType((3,)), TensorType((3,)))),
    (Offset(np.array([1, -2, 3])), (TensorType((3,)),)),
    (Trunc(ONE, 2, 4 * ONE, "FLOOR", 0, 15), (TensorType((3,)),)),
    (TopValues(2), (TensorType((3,)),)),
    (IntSelect(np.array([[0, 5], [-1, 2]]), (2,), ((1, 0),), 3), (TensorType((3, 4), IntRange(0, 7)),)),
    (Codes(IntQuant(ONE, 0 * ONE, -8, 7)), (TensorType((3,)),)),
    (ToReal((Clip(-1.0, float("inf")), Mul(np.array([0.1])))), (TensorType((3,), IntRange(-4, 3)),)),
]


def lone(op: Op, types: tuple[TensorType, ...]) -> Graph:
    graph = Graph("one")
    value = graph.add(op, [graph.input(f"x{k}", type_) for k, type_ in enumerate(types)])
    graph.output("y", value)
    return graph


def of_layers() -> Iterator[Graph]:
    """Every layer of the conformance suite; its other outputs stay unread."""
    for module in pkgutil.iter_modules(cases.__path__):
        table: dict[str, Layer] = importlib.import_module(f"layers.cases.{module.name}").CASES
        yield from (lone(layer, tuple(s.tensor for s in layer.inputs)) for layer in table.values())


@cache
def graphs() -> tuple[Graph, ...]:
    """Source, integer and hardware graphs that together hold every operator."""
    found = [lone(op, types) for op, types in RARE] + list(of_layers())
    found.append(from_proto(model([node("Softmax", ["x"], axis=1), node("Neg", ["y"], ["z"])], {"x": ["N", 3]})))
    for seed in range(30):
        for proto in (random_file(seed).model, random_network(seed).model):
            source = from_proto(proto)
            integer = to_integer(source)
            found += [source, integer.graph]
            if not integer.blockers:
                found.append(to_hardware(integer.partition().core).graph)
    return tuple(found)


def operators(kind: type[Op] = Op) -> Iterator[type[Op]]:
    for inner in kind.__subclasses__():
        yield inner
        yield from operators(inner)


def test_every_operator_is_saved_and_loaded(tmp_path: Path) -> None:
    """Equal files mean equal graphs: the text holds every field, the arrays every element."""
    first, again = tmp_path / "first.graph", tmp_path / "again.graph"
    seen: set[type[Op]] = set()
    for graph in graphs():
        graph.save(first)
        loaded = Graph.load(first)
        loaded.save(again)
        assert first.read_bytes() == again.read_bytes()
        assert str(loaded) == str(graph)
        assert (loaded.inputs, loaded.outputs) == (graph.inputs, graph.outputs)
        assert [loaded.types(n) for n in loaded] == [graph.types(n) for n in graph]
        seen |= {type(graph.op(n)) for n in graph}
    own = {op for op in operators() if op.__module__.startswith("headrace.") and not inspect.isabstract(op)}
    bases = {"SourceOp", "Elementwise", "Join", "Quantizer", "PerChannel", "IntPool", "Layer", "Pool"}
    bases |= {"Pointwise", "StyledPointwise"}
    stand_in = {"StandIn"}  # only behind what was refused
    missing = {op.__name__ for op in own - seen} - bases - stand_in
    assert not missing, f"no graph here holds {sorted(missing)}"


def test_loaded_graphs_compute_the_same(tmp_path: Path) -> None:
    for seed in range(20):
        case = random_file(seed)
        source = from_proto(case.model)
        for graph in (source, to_integer(source).graph):
            graph.save(tmp_path / "g")
            loaded = Graph.load(tmp_path / "g")
            expected, got = graph.run(case.feeds), loaded.run(case.feeds)
            assert expected.keys() == got.keys()
            assert all(np.array_equal(values, got[name]) for name, values in expected.items())


def test_constant_outputs_and_names_that_differ_are_kept(tmp_path: Path) -> None:
    nodes = [node("Mul", ["x", "s"], name="y"), node("Relu", ["y"], ["z"], name="x")]
    source = from_proto(model(nodes, {"x": ["N", 2]}, {"s": np.float32([2, 3])}, ("y", "z", "s")))
    source.save(tmp_path / "g")
    loaded = Graph.load(tmp_path / "g")
    assert (loaded.inputs, loaded.outputs) == (("x",), ("y", "z"))
    got = loaded.run({"x": np.float32([[-1, 1]])})
    assert {name: np.asarray(getattr(v, "value", v)).tolist() for name, v in got.items()} == {
        "y": [[-2, 3]],
        "z": [[0, 3]],
        "s": [2, 3],
    }


def simple() -> Graph:
    return lone(Mul(np.array([0.5])), (TensorType((3,)),))


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The file of a simple graph with its text changed."""
    simple().save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = json.loads(members["graph.json"])
    change(text)
    members["graph.json"] = json.dumps(text).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


BAD: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "version": (lambda t: t.update(version=99), "is a saved graph of version 99; expected 1"),
    "format": (lambda t: t.update(format="x"), "is not a saved graph"),
    "no nodes": (lambda t: t.pop("nodes"), "lacks a part"),
    "nodes of numbers": (lambda t: t.update(nodes=[1]), "does not fit together"),
    "unknown class": (
        lambda t: t["nodes"][1]["op"].update({"class": "ir.ops.elementwise.Mull"}),
        "node 'Mul': is a saved graph that does not fit together: there is no operator 'ir.ops.elementwise.Mull'",
    ),
    "class of elsewhere": (lambda t: t["nodes"][1]["op"].update({"class": "build.api.Build"}), "there is no operator"),
    "function": (lambda t: t["nodes"][1]["op"].update({"class": "ir.saving.Load_graph"}), "there is no operator"),
    "imported class": (lambda t: t["nodes"][1]["op"].update({"class": "ir.saving.Path"}), "there is no operator"),
    "mutable class": (lambda t: t["nodes"][1]["op"].update({"class": "ir.graph.Graph"}), "there is no operator"),
    "module": (lambda t: t["nodes"][1]["op"].update({"class": "ir.os..System"}), "there is no operator"),
    "no operator": (
        lambda t: t["nodes"][1].update(op={"class": "ir.types.FloatType", "fields": {}}),
        "FloatType is no operator",
    ),
    "field": (lambda t: t["nodes"][1]["op"]["fields"].update(extra=1), "does not fit together: .*extra"),
    "array": (lambda t: t["nodes"][1]["op"]["fields"].update(factor={"array": 7}), "there is no array 7"),
    "kind": (lambda t: t["nodes"][1]["op"]["fields"].update(factor={"code": "1"}), "of no known kind"),
    "shape": (lambda t: t["nodes"][1]["op"]["fields"].update(factor={"tuple": [1]}), "Mul has no factor of type tuple"),
    "reads nothing": (lambda t: t["nodes"][1].update(reads=[["gone", 0]]), "it reads a tensor that no node before"),
    "reads a port": (lambda t: t["nodes"][1].update(reads=[["x0", 5]]), "it reads a tensor that no node before"),
    "cycle": (lambda t: t["nodes"][1].update(reads=[["Mul", 0]]), "it reads a tensor that no node before"),
    "twice": (lambda t: t["nodes"][1].update(name="x0"), "its name is missing or taken"),
    "ends": (lambda t: t["outputs"].update(z="Mul"), "whose inputs and outputs are not those of its nodes"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_by_name(case: str, tmp_path: Path) -> None:
    change, message = BAD[case]
    path = changed(tmp_path / "net.graph", change)
    with pytest.raises(ModelError, match=message) as error:
        Graph.load(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 broken"])
def test_other_files_are_no_graphs(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "g").write_bytes(content)
    with pytest.raises(ModelError, match="is not a saved graph"):
        Graph.load(tmp_path / "g")
    with pytest.raises(ModelError, match="cannot be read"):
        Graph.load(tmp_path / "missing")


def test_pickles_and_packed_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "g"
    simple().save(path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("graph.json")
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("graph.json", text)
        archive.writestr("arrays/0.npy", buffer.getvalue())
    with pytest.raises(ModelError, match="is not a saved graph"):
        Graph.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("graph.json", text)
        archive.writestr("arrays/0.npy", bytes(10**6))
    with pytest.raises(ModelError, match="holds packed members"):
        Graph.load(path)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        simple().save(tmp_path / "folder")
    with pytest.raises(InputError, match="cannot be written"):
        simple().save(tmp_path / "missing" / "g")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_fields_that_cannot_be_saved_are_faults_of_the_operator(tmp_path: Path) -> None:
    graph = lone(Arithmetic(max), (TensorType((3,)), TensorType((3,))))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="node 'Arithmetic': a builtin_function_or_method cannot be saved"):
        graph.save(tmp_path / "g")
    assert headrace.__name__
