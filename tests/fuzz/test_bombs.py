"""Small files that ask for terabytes or for work without an end: refused in a process of bounded memory and time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fuzz.sandbox import outcomes
from ingest.onnx_files import model, node
from onnx import TensorProto, helper

HUGE = (2**31 + 11, 2**40, 2**62)
"""More than fits, in memory that could be had and in memory that could not."""


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def weights(nodes: Sequence[Any], constants: dict[str, Any]) -> onnx.ModelProto:
    """*nodes* compute ``w`` from constants, which is then used."""
    return model([*nodes, node("MatMul", ["x", "w"])], {"x": ["N", 3]}, constants)


def on_frames(op: str, inputs: Sequence[str], constants: dict[str, Any], **attributes: Any) -> onnx.ModelProto:
    return model([node(op, inputs, **attributes)], {"x": ["N", 1, 4, 4]}, constants)


def declared(*shape: int) -> onnx.ModelProto:
    return model([node("Relu", ["x"])], {"x": ["N", *shape]})


def initializer(*shape: int) -> onnx.ModelProto:
    proto = weights([], {"w": [[1.0]] * 3})
    proto.graph.initializer[0].dims[:] = shape
    return proto


def doubling(levels: int) -> onnx.ModelProto:
    """Functions that each call the next one twice."""
    proto = model([helper.make_node("f0", ["x"], ["y"], domain="d")], {"x": ["N", 3]})
    proto.opset_import.append(helper.make_opsetid("d", 1))
    own = [helper.make_opsetid("d", 1), helper.make_opsetid("", 17)]
    for k in range(levels):
        inner = ("Relu", "") if k == levels - 1 else (f"f{k + 1}", "d")
        body = [helper.make_node(inner[0], [a], [b], domain=inner[1]) for a, b in (("a", "b"), ("b", "c"))]
        proto.functions.append(helper.make_function("d", f"f{k}", ["a"], ["c"], body, own))
    return proto


def loop() -> onnx.ModelProto:
    """A loop on constants that does not end in this century."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["v"], ["u"])],
        "body",
        [helper.make_tensor_value_info(n, k, []) for n, k in (("i", 7), ("c", 9), ("v", 1))],
        [helper.make_tensor_value_info(n, k, []) for n, k in (("d", 9), ("u", 1))],
    )
    constants = {"trips": ints(2**62)[0], "yes": np.array(True), "w0": np.ones((3, 2), np.float32)}
    return weights([node("Loop", ["trips", "yes", "w0"], ["w"], body=body)], constants)


def nested(levels: int) -> bytes:
    """Graphs in graphs, as bytes: the library does not make deep ones."""
    proto = model([node("Relu", ["x"])], {"x": ["N", 3]})
    graph = helper.make_node("Identity", ["x"], ["z"]).SerializeToString()
    for _ in range(levels):
        attribute = b"\x0a\x01b" + field(6, field(1, graph)) + b"\xa0\x01\x05"  # "b", a graph
        graph = b"\x0a\x01x" + field(4, b"If") + field(5, attribute)
    return proto.SerializeToString() + field(7, field(1, graph))


def field(number: int, data: bytes) -> bytes:
    """A field of a protobuf message."""
    size, head = len(data), [number << 3 | 2]
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes([*head, size]) + data


def growing(count: int) -> onnx.ModelProto:
    """Constants that are each just small enough."""
    nodes = [node("ConstantOfShape", ["s"], [f"w{k}"]) for k in range(count)]
    nodes += [node("Sum", [f"w{k}" for k in range(count)], ["w"])]
    return weights(nodes, {"s": ints(2**25)})


def chain(count: int, op: str = "Relu", backwards: bool = False) -> onnx.ModelProto:
    nodes = [node(op, [f"t{k}"], [f"t{k + 1}"], "same") for k in range(count)]
    return model(nodes[::-1] if backwards else nodes, {"t0": ["N", 3]}, outputs=(f"t{count}",))


def quantized(scale: Any, **values: Any) -> onnx.ModelProto:
    constants = {"s": scale, "z": 0.0, "b": 4.0, "w": np.ones((3, 2), np.float32), **values}
    quants = [node("Quant", [a, "s", "z", "b"], [b], signed=1, narrow=0) for a, b in (("x", "q"), ("w", "v"))]
    return model([*quants, node("MatMul", ["q", "v"])], {"x": ["N", 3]}, constants)


def doubled(count: int) -> onnx.ModelProto:
    """Sums of a sum with itself, which are functions of 2 ** count operands."""
    nodes = [node("Quant", [a, "s", "z", "b"], [b], signed=1, narrow=0) for a, b in (("x", "q"), ("w", "v"))]
    nodes += [node("MatMul", ["q", "v"], ["t0"])]
    nodes += [node("Add", [f"t{k}", f"t{k}"], [f"t{k + 1}"]) for k in range(count)]
    nodes += [node("Quant", [f"t{count}", "s", "z", "b"], ["y"], signed=1, narrow=0)]
    return model(nodes, {"x": ["N", 3]}, {"s": 0.25, "z": 0.0, "b": 4.0, "w": np.ones((3, 2), np.float32)})


BOMBS: dict[str, tuple[onnx.ModelProto | bytes, str]] = {
    **{f"declared {n}": (declared(n), "elements; up to 67,108,864 are supported") for n in HUGE},
    "declared product": (declared(2**20, 2**20, 2**20), "elements; up to 67,108,864"),
    **{f"initializer {n}": (initializer(n), "initializer 'w' cannot be read") for n in (*HUGE, -1, 0)},
    **{
        f"ConstantOfShape {n}": (weights([node("ConstantOfShape", ["s"], ["w"])], {"s": ints(3, n)}), "a constant of")
        for n in HUGE
    },
    "Expand": (weights([node("Expand", ["a", "s"], ["w"])], {"a": [1.0], "s": ints(3, 2**33)}), "a constant of shape"),
    "Tile": (weights([node("Tile", ["a", "s"], ["w"])], {"a": [[1.0]], "s": ints(3, 2**33)}), "a constant of shape"),
    "Range": (
        weights([node("Range", ["a", "b", "c"], ["w"])], {"a": ints(0)[0], "b": ints(2**40)[0], "c": ints(1)[0]}),
        "a constant of shape",
    ),
    "Range without an end": (
        weights([node("Range", ["a", "b", "c"], ["w"])], {"a": ints(0)[0], "b": ints(9)[0], "c": ints(0)[0]}),
        "cannot be told|could not be evaluated",
    ),
    "Pad": (weights([node("Pad", ["a", "s"], ["w"])], {"a": [1.0], "s": ints(0, 2**33)}), "a constant of shape"),
    "Resize": (
        weights([node("Resize", ["a", "", "", "s"], ["w"])], {"a": [[1.0]], "s": ints(3, 2**33)}),
        "a constant of shape",
    ),
    "OneHot": (
        weights([node("OneHot", ["a", "d", "v"], ["w"])], {"a": ints(0, 1, 2), "d": ints(2**33)[0], "v": [0.0, 1.0]}),
        "a constant of shape",
    ),
    "HannWindow": (weights([node("HannWindow", ["n"], ["w"])], {"n": ints(2**33)[0]}), "constant of shape|cannot be"),
    "outer sum": (
        weights([node("Add", ["a", "b"], ["w"])], {"a": np.ones((1, 2**15)), "b": np.ones((2**15, 1))}),
        "a constant of shape",
    ),
    "outer product": (
        weights([node("MatMul", ["a", "b"], ["w"])], {"b": np.ones((1, 2**15)), "a": np.ones((2**15, 1))}),
        "a constant of shape",
    ),
    "outer scale": (quantized(np.ones((2**15, 1, 1)), w=np.ones((1, 2**15), np.float32)), "a constant of shape"),
    "many constants": (growing(40), "a constant of shape"),
    "frames expanded": (on_frames("Expand", ["x", "s"], {"s": ints(1, 1, 4, 2**33, 1)}), "Expand"),
    "frames expanded along": (on_frames("Expand", ["x", "s"], {"s": ints(1, 2**33, 4, 4)}), "up to 67,108,864"),
    "frames tiled": (on_frames("Tile", ["x", "s"], {"s": ints(1, 1, 1, 2**33)}), "up to 67,108,864"),
    "frames padded": (on_frames("Pad", ["x", "s"], {"s": ints(*[0] * 7, 2**33)}), "up to 67,108,864"),
    "frames reflected": (
        on_frames("Pad", ["x", "s"], {"s": ints(*[0] * 7, 2**33)}, mode="reflect"),
        "up to 67,108,864|up to 1,048,576",
    ),
    "frames resized": (
        on_frames("Resize", ["x", "", "c"], {"c": [1.0, 1.0, 1.0, 1e30]}),
        "up to 67,108,864",
    ),
    "frames resized by NaN": (on_frames("Resize", ["x", "", "c"], {"c": [1.0, 1.0, np.nan, 2.0]}), "needs scales"),
    "frames with a window": (
        on_frames("MaxPool", ["x"], {}, kernel_shape=[1, 2**40], pads=[0, 2**40, 0, 2**40]),
        "MaxPool",
    ),
    "frames convolved": (
        on_frames("Conv", ["x", "w"], {"w": np.ones((1, 1, 1, 1), np.float32)}, pads=[0, 2**40, 0, 2**40]),
        "up to 67,108,864",
    ),
    "frames dilated": (
        on_frames("Conv", ["x", "w"], {"w": np.ones((1, 1, 1, 2), np.float32)}, dilations=[1, 2**40]),
        "does not fit an image axis",
    ),
    "frames on the host": (on_frames("OneHot", ["x", "d", "v"], {"d": ints(2**33)[0], "v": [0.0, 1.0]}), "OneHot"),
    "functions": (doubling(60), "stand for more than 10.15 nodes; up to 1,000,000"),
    "loop": (loop(), "control flow"),
    "nested graphs": (nested(20), "cannot be run on the host"),
    "deeply nested graphs": (nested(1000), "not a readable ONNX file"),
    "scale NaN": (quantized(np.nan), "finite and positive"),
    "scale infinite": (quantized(np.inf), "finite and positive"),
    "scale denormal": (quantized(np.float32(1e-45)), ""),
    "scale largest": (quantized(np.float32(3.4e38)), ""),
    "doubled": (doubled(100), ""),
    "chain": (chain(3000), ""),
    "chain backwards": (chain(3000, "Sigmoid", backwards=True), ""),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What became of each, in one process after the other."""
    folder = tmp_path_factory.mktemp("bombs")
    files = []
    for k, (proto, _) in enumerate(BOMBS.values()):
        files.append(folder / f"{k}.onnx")
        files[-1].write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    done = [(outcome.kind, outcome.text) for outcome in outcomes(files, folder)]
    return dict(zip(BOMBS, done, strict=True))


@pytest.mark.parametrize("case", BOMBS)
def test_bombs(case: str, found: dict[str, tuple[str, str]]) -> None:
    kind, text = found[case]
    expected = BOMBS[case][1]
    assert kind in (("refused",) if expected else ("ok", "refused")), text
    if expected:
        assert any(part in text.replace("10^15", "10.15") for part in expected.split("|")), text


def test_external_data(tmp_path: Path) -> None:
    """A hundred tensors of one large file, a hole of a terabyte, a link out of the folder, a name listed twice."""
    (tmp_path / "secret").write_bytes(b"\0" * 24)
    place = tmp_path / "models"
    place.mkdir()
    (place / "link").symlink_to(tmp_path / "secret")
    (place / "w.bin").write_bytes(b"\0" * 2**20)
    with (place / "hole.bin").open("wb") as file:
        file.truncate(2**42)
    cases: dict[str, list[tuple[str, str]]] = {
        "link": [("location", "link")],
        "twice": [("location", "w.bin"), ("location", "../secret")],
        "hole": [("location", "hole.bin")],
        "null": [("location", "w\0.bin")],
        "long": [("location", "w" * 5000)],
        "far": [("location", "w.bin"), ("offset", str(2**62))],
        "large": [("location", "w.bin"), ("length", str(2**62))],
        "text": [("location", "w.bin"), ("length", "9" * 5000)],
    }
    files = []
    for name, entries in cases.items():
        proto = weights([], {"w": np.zeros((3, 2))})
        refer(proto.graph.initializer[0], entries)
        files.append(place / f"{name}.onnx")
        files[-1].write_bytes(proto.SerializeToString())
    proto = weights([], {f"w{k or ''}": np.zeros((3, 2)) for k in range(100)})
    for tensor in proto.graph.initializer:
        refer(tensor, [("location", "w.bin")])
    files.append(place / "shared.onnx")
    files[-1].write_bytes(proto.SerializeToString())
    for outcome in outcomes(files, place):
        assert outcome.kind == "refused", outcome
        assert "external data of tensor" in outcome.text


def refer(tensor: TensorProto, entries: Sequence[tuple[str, str]]) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries:
        tensor.external_data.add(key=key, value=value)
