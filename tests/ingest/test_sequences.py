"""Sequences of tensors: every operator on them against ONNX Runtime, and what torch's exporters make of lists."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from ingest.onnx_files import Array, model, node, onnxruntime_outputs

from headrace.errors import ModelError
from headrace.ingest import from_proto
from headrace.ingest import sequences as rules
from headrace.passes import to_integer

X = {"x": ["N", 6, 4]}
FRAMES = np.random.default_rng(0).normal(size=(3, 6, 4)).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def split(output: str, *inputs: str, **attributes: int) -> Any:
    return node("SplitToSequence", ["x", *inputs], [output], **attributes)


NETS: dict[str, tuple[list[Any], dict[str, object]]] = {
    "single elements": ([split("s", axis=1), node("SequenceAt", ["s", "k"])], {"k": np.int64(4)}),
    "dropped axis": ([split("s", axis=-1, keepdims=0), node("SequenceAt", ["s", "k"])], {"k": np.int64(-1)}),
    "one size": ([split("s", "n", axis=1), node("SequenceAt", ["s", "k"])], {"n": np.int64(4), "k": np.int64(1)}),
    "size 1": (
        [split("s", "n", axis=2, keepdims=0), node("SequenceAt", ["s", "k"])],
        {"n": np.int64(1), "k": np.int64(2)},
    ),
    "sizes": ([split("s", "n", axis=1), node("SequenceAt", ["s", "k"])], {"n": ints(1, 3, 2), "k": np.int64(1)}),
    "joined": ([split("s", "n", axis=1), node("ConcatFromSequence", ["s"], axis=2)], {"n": np.int64(3)}),
    "stacked": (
        [split("s", axis=1, keepdims=0), node("ConcatFromSequence", ["s"], axis=2, new_axis=1)],
        {},
    ),
    "constructed": (
        [
            node("Neg", ["x"], ["m"]),
            node("SequenceConstruct", ["x", "m"], ["s"]),
            node("SequenceErase", ["s", "k"], ["t"]),
            node("SequenceInsert", ["t", "x"], ["u"]),
            node("SequenceInsert", ["u", "m", "j"], ["v"]),
            node("SequenceErase", ["v"], ["w"]),
            node("ConcatFromSequence", ["w"], axis=1),
        ],
        {"k": np.int64(0), "j": np.int64(-1)},
    ),
    "grown": (
        [
            node("SequenceEmpty", [], ["s"], dtype=1),
            node("SequenceInsert", ["s", "x"], ["t"]),
            node("SequenceInsert", ["t", "x", "k"], ["u"]),
            node("SequenceLength", ["u"], ["n"]),
            node("Cast", ["n"], ["f"], to=1),
            node("ConcatFromSequence", ["u"], ["c"], axis=1),
            node("Mul", ["c", "f"]),
        ],
        {"k": np.int64(0)},
    ),
    "of constants": (
        [
            node("SplitToSequence", ["c"], ["s"], axis=0, keepdims=0),
            node("SequenceAt", ["s", "k"], ["a"]),
            node("ConcatFromSequence", ["s"], ["b"], axis=0, new_axis=1),
            node("Mul", ["x", "a"], ["m"]),
            node("Add", ["m", "b"]),
        ],
        {"c": np.arange(24, dtype=np.float32).reshape(6, 4), "k": np.int64(2)},
    ),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("opset", [11, 17])
def test_operators_on_sequences(name: str, opset: int) -> None:
    nodes, constants = NETS[name]
    proto = model(nodes, X, constants, opset=opset)
    expected = onnxruntime_outputs(proto, {"x": FRAMES})["y"]
    got = from_proto(proto).run({"x": FRAMES})["y"]
    assert got.shape == expected.shape
    assert np.array_equal(got, expected)


def chunks(x: torch.Tensor) -> torch.Tensor:
    a = x.chunk(2, 1)
    return a[0] + 2 * a[1]


def sizes(x: torch.Tensor) -> torch.Tensor:
    a, _, c = torch.split(x, [2, 2, 2], 1)
    return c - a


def unbound(x: torch.Tensor) -> torch.Tensor:
    a = x.unbind(2)
    return torch.stack([a[0], a[-1]], 1)


def halves(x: torch.Tensor) -> torch.Tensor:
    a = torch.split(x, 3, 1)
    return torch.cat([a[1], a[0]], 1) + len(a)


def thirds(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor_split(x, 3, 1)[2] * 2


class Of(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def scripted(function: Callable[[torch.Tensor], torch.Tensor]) -> bytes:
    buffer = io.BytesIO()
    torch.onnx.export(torch.jit.script(function), (torch.zeros(1, 6, 4),), buffer, dynamo=False, input_names=["x"])
    return buffer.getvalue()


def traced(function: Callable[[torch.Tensor], torch.Tensor]) -> bytes:
    buffer = io.BytesIO()
    torch.onnx.export(Of(function), (torch.zeros(1, 6, 4),), buffer, dynamo=False, input_names=["x"])
    return buffer.getvalue()


def captured(function: Callable[[torch.Tensor], torch.Tensor]) -> bytes:
    program = torch.onnx.export(
        Of(function), (torch.zeros(1, 6, 4),), dynamo=True, optimize=False, input_names=["x"], verbose=False
    )
    assert program is not None
    data: bytes = program.model_proto.SerializeToString()
    return data


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("export", "function"),
    [
        *((scripted, function) for function in (chunks, unbound, halves)),
        (traced, thirds),
        *((captured, function) for function in (chunks, sizes, halves)),
    ],
    ids=lambda f: f.__name__,
)
def test_lists_as_torch_exports_them(
    export: Callable[..., bytes], function: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    proto = onnx.load_model_from_string(export(function))
    assert any(n.op_type == "SplitToSequence" for n in proto.graph.node)
    (got,) = from_proto(proto).run({"x": FRAMES}).values()
    assert np.array_equal(got, function(torch.from_numpy(FRAMES)).numpy())


def test_parts_of_quantized_tensors_are_parts_in_the_integer_graph() -> None:
    """Of the data and of weights, whose grid is split with them."""
    nodes = [
        node("Quant", ["x", "s", "z", "bits"], ["q"]),
        node("Quant", ["w", "s", "z", "bits"], ["v"]),
        node("SplitToSequence", ["q", "n"], ["parts"], axis=1),
        node("SplitToSequence", ["v", "n"], ["columns"], axis=1),
        node("SequenceAt", ["parts", "k"], ["a"]),
        node("SequenceAt", ["columns", "k"], ["b"]),
        node("MatMul", ["a", "b"]),
    ]
    w = np.random.default_rng(1).integers(-8, 8, (3, 6)).astype(np.float32)
    constants = {"w": w, "s": 0.5, "z": 0.0, "bits": 4.0, "n": np.int64(3), "k": np.int64(1)}
    source = from_proto(model(nodes, {"x": ["N", 6]}, constants))
    x = FRAMES[:, :, 0] * 4
    lowered = to_integer(source)
    assert not lowered.blockers
    assert np.array_equal(lowered.graph.run({"x": x})["y"], source.run({"x": x})["y"])
    q = np.clip(np.rint(x / np.float32(0.5)), -8, 7)[:, 3:] / 2
    assert np.array_equal(source.run({"x": x})["y"], q @ (np.clip(np.rint(w[:, 3:] * 2), -8, 7) / 2))


REFUSED: dict[str, tuple[list[Any], dict[str, object], str]] = {
    "batch": ([split("s", axis=0), node("SequenceAt", ["s", "k"])], {"k": np.int64(0)}, "along the batch axis"),
    "size": ([split("s", "n", axis=1), node("SequenceLength", ["s"])], {"n": np.int64(0)}, "must be positive, not 0"),
    "sizes": ([split("s", "n", axis=1), node("SequenceLength", ["s"])], {"n": ints(2, 3)}, "do not make up the 6"),
    "position": (
        [split("s", axis=1), node("SequenceAt", ["s", "k"])],
        {"k": np.int64(6)},
        "position 6 of a sequence of 6",
    ),
    "position before the first": (
        [node("SequenceConstruct", ["x", "x"], ["s"]), node("SequenceInsert", ["s", "x", "k"], ["t"])],
        {"k": np.int64(-3)},
        "position -3 of a sequence of 2",
    ),
    "position in an empty sequence": (
        [node("SequenceEmpty", [], ["s"]), node("SequenceErase", ["s"], ["t"])],
        {},
        "position -1 of a sequence of 0",
    ),
    "many": ([split("s", axis=1), node("SequenceLength", ["s"])], {}, "a sequence of 6 tensors; up to 5 are"),
    "tensor": ([node("SequenceAt", ["x", "k"])], {"k": np.int64(0)}, "input 0 must be a sequence of tensors"),
    "read": ([split("s", axis=1), node("Identity", ["s"])], {}, "its input 0 is a sequence of tensors"),
    "empty": (
        [node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["c"], axis=1), node("Add", ["x", "c"])],
        {},
        "a sequence without tensors",
    ),
    "output": ([split("y", axis=1)], {}, "graph output 'y' is a sequence of tensors"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sequences_that_are_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    nodes, constants, message = REFUSED[name]
    monkeypatch.setattr(rules, "MOST_TENSORS", 5 if name == "many" else 6)
    with pytest.raises(ModelError, match=message):
        from_proto(model(nodes, X, constants))
