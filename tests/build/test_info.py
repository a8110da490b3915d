"""What ``headrace info`` knows of every tensor."""

from __future__ import annotations

import numpy as np
from ingest.onnx_files import model, node

import headrace
from headrace.build.info import ModelInfo


def info(*nodes: object) -> ModelInfo:
    constants = {"s": 0.3, "t": 0.7, "z": 0.0, "b": 4.0}
    first = [node("Quant", ["x", "s", "z", "b"], ["a"], "left", signed=1, narrow=0)]
    first.append(node("Quant", ["x", "t", "z", "b"], ["c"], "right", signed=0, narrow=0))
    return headrace.load(model([*first, *nodes], {"x": ["N", 3]}, constants)).info()


def test_a_join_that_is_part_of_an_activation_has_a_row() -> None:
    """It has no integers of its own; those of its operands are named."""
    nodes = [node("Mul", ["a", "c"], ["m"], "product"), node("Relu", ["m"], ["r"], "relu")]
    shown = info(*nodes, node("Quant", ["r", "t", "z", "b"], ["y"], "last", signed=0, narrow=0))
    assert [t.name for t in shown.tensors] == ["x", "left", "right", "product", "relu", "last"]
    rows = {t.name: t for t in shown.tensors}
    assert rows["left"].element == "INT4[-8..7]"
    assert rows["product"].element == rows["relu"].element == "INT4[-8..7], UINT4[0..15] joined"
    assert (rows["product"].operator, rows["product"].shape, rows["product"].scale) == ("Arithmetic", (3,), None)
    assert shown.blockers == []
    assert (rows["left"].scale, rows["left"].offset) == (float(np.float32(0.3)), 0.0)


def test_scales_of_channels_are_a_list() -> None:
    scales = np.array([[0.5, 0.25, 2.0]], np.float32)
    nodes = [node("Mul", ["a", "k"], ["m"], "scaled"), node("Quant", ["m", "t", "z", "b"], ["y"], "last", signed=1)]
    constants = {"s": 0.5, "t": 0.5, "z": 0.0, "b": 4.0, "k": scales}
    first = node("Quant", ["x", "s", "z", "b"], ["a"], "first", signed=1, narrow=0)
    found = headrace.load(model([first, *nodes], {"x": ["N", 3]}, constants)).info()
    assert {t.name: t.scale for t in found.tensors}["scaled"] == [0.25, 0.125, 1.0]


def test_all_blockers_are_listed_with_what_would_help() -> None:
    """A file's problems are found together, whatever comes first."""
    nodes = [
        node("Softmax", ["a"], ["p"], "soft", axis=1),
        node("Quant", ["p", "s", "z", "b"], ["q"], "again", signed=1),
    ]
    nodes += [node("LogSoftmax", ["c"], ["l"], "log", axis=1), node("Add", ["q", "l"], ["y"], "sum")]
    found = info(*nodes).blockers
    assert [text.split(" ")[1] for text in found] == ["'soft'", "'again'", "'log'", "'sum'"]
    assert all(";" in text or ":" in text for text in found)
