"""Models made by others, from the folder `shared` beside the checkout: their own results, exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.util.cleanup import cleanup_model

from headrace.errors import HeadraceError
from headrace.ingest import load_onnx
from headrace.ir import Graph, Value
from headrace.passes import IntegerModel, to_integer

Array = NDArray[Any]

SHARED = Path(__file__).resolve().parents[3] / "shared"
CASES = SHARED / "cases" / "cases"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="no folder 'shared' beside the checkout")


def run_parts(model: IntegerModel, feeds: dict[str, Array]) -> dict[str, Array]:
    """Head, core and tail in turn."""
    parts = model.partition()
    known = dict(feeds)
    for part in (parts.head, parts.core, parts.tail):
        known |= (last := part.run({name: known[name] for name in part.inputs}))
    return last


def check_stages(source: Graph, model: IntegerModel, feeds: dict[str, Array]) -> dict[str, Array]:
    """Mode float, mode integer and the parts agree; their outputs."""
    real, whole = source.run(feeds), model.graph.run(feeds)
    for results in (whole, run_parts(model, feeds)):
        for name, values in real.items():
            assert np.array_equal(values, results[name])
    return real


@needs_shared
@pytest.mark.parametrize("name", ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A"])
def test_fully_connected_networks_equal_qonnx(name: str) -> None:
    path = SHARED / "models" / f"{name}.onnx"
    source = load_onnx(path)
    model = to_integer(source)
    assert model.blockers == ()
    rng = np.random.default_rng(0)
    frame = source.type(Value(source.input_node(source.inputs[0]))).shape
    x = rng.random((24, *frame)).astype(np.float32)
    x[8:16] = np.round(x[8:16] * 255) / 255
    x[16:] = rng.integers(-1, 2, (8, *frame))
    got = check_stages(source, model, {source.inputs[0]: x})[source.outputs[0]]
    theirs = cleanup_model(ModelWrapper(str(path)))
    ends = theirs.graph.input[0].name, theirs.graph.output[0].name
    for k in range(len(x)):
        assert np.array_equal(execute_onnx(theirs, {ends[0]: x[k : k + 1]})[ends[1]], got[k : k + 1])
    assert sum(model.disagreements.values()) == 0


@needs_shared
def test_the_example_of_finn() -> None:
    folder = SHARED / "finn_build_dataflow"
    source = load_onnx(folder / "model.onnx")
    x = np.load(folder / "input.npy").astype(np.float32)
    expected = np.load(folder / "expected_output.npy")
    got = check_stages(source, to_integer(source), {source.inputs[0]: x})[source.outputs[0]]
    assert got.ravel().tolist() == expected.ravel().tolist()


def _cases() -> list[dict[str, Any]]:
    index = SHARED / "cases" / "index.json"
    return json.loads(index.read_text(encoding="utf-8")) if index.is_file() else []


def _error_words(folder: Path) -> list[list[str]]:
    """Alternatives of which a message must hold one each."""
    lines = (folder / "expected_error.txt").read_text(encoding="utf-8").splitlines()
    named = [line.split(":", 1)[1] for line in lines if line.startswith(("must_name:", "must_say:"))]
    return [[word.strip().lower() for word in text.split("|") if word.strip()] for text in named]


@needs_shared
@pytest.mark.parametrize("case", _cases(), ids=lambda case: str(case["id"]))
def test_case(case: dict[str, Any]) -> None:
    folder = CASES / case["id"]
    try:
        source = load_onnx(folder / "model.onnx")
    except HeadraceError as error:
        assert case["outcome"] != "value"
        text = str(error).lower()
        assert all(any(word in text for word in words) for words in _error_words(folder))
        return
    assert case["outcome"] != "error"
    with np.load(folder / "input.npz") as archive:
        feeds = dict(archive)
    real, whole = source.run(feeds), to_integer(source).graph.run(feeds)
    with np.load(folder / "expected.npz") as expected:
        assert sorted(expected) == sorted(real)
        for name in expected:
            _compare(expected[name], real[name])
            assert np.array_equal(real[name], whole[name])


def _compare(expected: Array, got: Array) -> None:
    """Whole numbers equal, others to the five digits of a float executor."""
    assert got.shape == expected.shape
    if np.array_equal(expected, np.round(expected)):
        assert np.array_equal(expected, got)
    else:
        limit = 1e-5 * np.maximum(np.abs(expected), 1e-2 * np.abs(expected).max())
        assert np.all(np.abs(expected - got) <= limit)
