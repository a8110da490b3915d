"""Files of versions that are not known are refused: what a node means depends on the version of its operator set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from ingest.onnx_files import model, node

from headrace.errors import ModelError
from headrace.ingest import from_proto
from headrace.ingest.versions import NEWEST_OPSET


def relu(*versions: tuple[str, int], ir: int = 9) -> onnx.ModelProto:
    proto = model([node("Relu", ["x"])], {"x": ["N", 3]})
    del proto.opset_import[:]
    proto.opset_import.extend(onnx.helper.make_opsetid(*version) for version in versions)
    proto.ir_version = ir
    return proto


@pytest.mark.parametrize("version", [1, 6, 13, 22, NEWEST_OPSET])
@pytest.mark.parametrize("name", ["", "ai.onnx"])
def test_what_is_known(version: int, name: str) -> None:
    graph = from_proto(relu((name, version), ("com.example", 99)))
    assert graph.run({"x": np.array([[-1, 0, 2]], np.float32)})["y"].tolist() == [[0, 0, 2]]


def test_the_newest_opset_is_that_of_the_package_tested_with() -> None:
    """A new release of onnx has new operators, and attributes of old ones, to look through."""
    assert onnx.defs.onnx_opset_version() == NEWEST_OPSET


REFUSED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "newer": (lambda: relu(("", NEWEST_OPSET + 1)), f"is of opset {NEWEST_OPSET + 1}; opsets 1 to {NEWEST_OPSET} are"),
    "newest": (
        lambda: relu(("", 2**63 - 1)),
        "is of opset 9223372036854775807; .* export the model with opset_version",
    ),
    "none": (lambda: relu(("", 0)), "is of opset 0; opsets 1 to"),
    "negative": (lambda: relu(("ai.onnx", -5)), "is of opset -5; opsets 1 to"),
    "two": (
        lambda: relu(("", 13), ("ai.onnx", 11)),
        "imports versions 13 and 11 of the operators of 'ai.onnx'; expect",
    ),
    "two of others": (lambda: relu(("", 13), ("a", 1), ("a", 2)), "imports versions 1 and 2 of the operators of 'a'"),
    "unsaid": (lambda: relu(), "does not say of which opset its operators are; expected a version of 'ai.onnx', 1 to"),
    "format": (lambda: relu(("", 17), ir=2**40), "has IR version 1099511627776, which is newer than .* update onnx"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        from_proto(make(), "net.onnx")


def test_one_version_under_both_names() -> None:
    from_proto(relu(("", 13), ("ai.onnx", 13)))
