"""What a design and the package that builds it say of themselves; arithmetic at the ends of float32 stays silent."""

from __future__ import annotations

import numpy as np
import pytest
from ingest.onnx_files import model, node
from models import quantized_mlp
from numpy.typing import NDArray

import headrace
from headrace.errors import (
    HeadraceError,
    InputError,
    ModelError,
    ToolError,
    UnsupportedError,
    VerificationError,
    did_you_mean,
    printable,
)


def test_a_design_in_one_line() -> None:
    design = headrace.load(quantized_mlp((12, 8, 5), 3, seed=1))
    text = repr(design)
    assert text.startswith("<headrace.Design ")
    assert "x -> label" in text
    assert "not built" in text
    assert "\n" not in text


def test_the_package_tells_how_to_call_it() -> None:
    assert callable(headrace.build)
    assert 'headrace.build("model.onnx", "out"' in str(headrace.build.__doc__)


def test_feeds_must_be_named() -> None:
    design = headrace.load(quantized_mlp((12, 8, 5), 3, seed=1))
    with pytest.raises(InputError, match=r"expected a dict of arrays by input name: \{'x': array\}, not ndarray"):
        design.run(np.ones((1, 12), np.float32))  # type: ignore[arg-type]


HUGE = np.full(3, 1e300)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("op", "constants"),
    [
        ("Pow", {"k": HUGE}),
        ("Mul", {"k": np.full(3, 3e38, np.float32)}),
        ("Div", {"k": np.full(3, 1e-45, np.float32)}),
    ],
)
def test_numbers_past_float32_do_not_warn(op: str, constants: dict[str, NDArray[np.floating]]) -> None:
    nodes = [node("Quant", ["x", "s", "z", "b"], ["q"], signed=1, narrow=0), node(op, ["q", "k"], ["y"])]
    proto = model(nodes, {"x": ["N", 3]}, {"s": 0.5, "z": 0.0, "b": 4.0, **constants})
    design = headrace.load(proto)
    design.info()
    design.run({"x": np.float32([[1, -1, 3e38]])}, mode="integer")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("op", ["Mul", "Add", "Max"])
def test_constants_past_float32_are_refused_without_a_warning(op: str) -> None:
    nodes = [node("Quant", ["x", "s", "z", "b"], ["q"], signed=1, narrow=0), node(op, ["q", "k"], ["y"])]
    proto = model(nodes, {"x": ["N", 3]}, {"s": 0.5, "z": 0.0, "b": 4.0, "k": HUGE})
    with pytest.raises(ModelError, match="its constant holds values that are not finite"):
        headrace.load(proto)


@pytest.mark.filterwarnings("error")
def test_weights_past_float32_are_refused_without_a_warning() -> None:
    weights = node("Quant", ["v", "h", "z", "b"], ["k"], signed=1, narrow=0)
    v = np.full((3, 2), 3e38, np.float32)
    proto = model(
        [weights, node("MatMul", ["x", "k"], ["y"])], {"x": ["N", 3]}, {"v": v, "h": 2e38, "z": 0.0, "b": 4.0}
    )
    with pytest.raises(ModelError, match="at least one value, and finite numbers only"):
        headrace.load(proto)


@pytest.mark.filterwarnings("error")
def test_log_of_zero_on_the_host_does_not_warn() -> None:
    headrace.load(model([node("Log", ["x"])], {"x": ["N", 3]})).info()


def test_printable_names() -> None:
    assert printable("fc1 é×") == "fc1 é×"
    assert printable("\x1b[31m\r\n\x7f\x9b\u202e\u2028\udc80") == r"\x1b[31m\r\n\x7f\x9b\u202e\u2028\udc80"
    assert printable("a\nb\x00", keep="\n") == "a\nb\\x00"
    assert printable("abcdefghij", 10) == "abcdefghij"
    assert printable("abcdefghijk", 10) == "abcde…hijk"
    assert printable("abcdefghijk", 5) == "ab…jk"


@pytest.mark.parametrize("kind", [InputError, ModelError, VerificationError])
def test_errors_are_one_printable_line(kind: type[HeadraceError]) -> None:
    assert str(kind("no input 'a\x1b\n'")) == r"no input 'a\x1b\n'"
    assert str(ToolError("make failed:\na\x07")) == "make failed:\na\\x07"


def test_only_close_names_are_meant() -> None:
    assert did_you_mean("SMID", ["SIMD", "PE"]) == " (did you mean 'SIMD'?)"
    assert did_you_mean("LSTM", ["GlobalLpPool", "Sum"]) == ""
    assert did_you_mean("depth", ["width"]) == ""


def test_a_mere_order_of_elements_is_no_hardware() -> None:
    quant = node("Quant", ("x", "s", "z", "b"), ("q",), signed=1, narrow=0, rounding_mode="ROUND")
    constants = {"s": 0.5, "z": 0.0, "b": 4.0, "back": np.arange(4)[::-1].copy()}
    net = model([quant, node("Gather", ("q", "back"), axis=1)], {"x": ("N", 4, 5)}, constants)
    with pytest.raises(UnsupportedError, match="only puts elements in another order"):
        headrace.build(net, "out")
    x = np.random.default_rng(0).normal(0, 2, (3, 4, 5)).astype(np.float32)
    design = headrace.load(net)
    assert np.array_equal(design.run({"x": x}, mode="integer")["y"], design.run({"x": x}, mode="float")["y"])
