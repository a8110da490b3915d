"""What a design and the package that builds it say of themselves; arithmetic at the ends of float32 stays silent."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest
from models import quantized_mlp

import headrace
from headrace.errors import HeadraceError, InputError, did_you_mean, printable


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


@pytest.mark.parametrize("factor", [1e30, 1e38, 1e-38, 1e-45])
def test_huge_and_tiny_scales_do_not_warn(factor: float) -> None:
    model = quantized_mlp((12, 8, 5), 3, seed=1)
    for tensor in model.graph.initializer:
        values = np.frombuffer(tensor.raw_data, np.float32) if tensor.data_type == 1 and tensor.raw_data else None
        if values is not None and "scale" in tensor.name:
            tensor.raw_data = (values * np.float32(factor)).astype(np.float32).tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(HeadraceError):
            headrace.load(model).info()


def test_printable_names() -> None:
    assert printable("fc1 é×") == "fc1 é×"
    assert printable("\x1b[31m\r\n\x7f\x9b\u202e\u2028\udc80") == r"\x1b[31m\r\n\x7f\x9b\u202e\u2028\udc80"
    assert printable("a\nb\x00", keep="\n") == "a\nb\\x00"
    assert printable("abcdefghij", 10) == "abcdefghij"
    assert printable("abcdefghijk", 10) == "abcde…hijk"
    assert printable("abcdefghijk", 5) == "ab…jk"


def test_only_close_names_are_meant() -> None:
    assert did_you_mean("SMID", ["SIMD", "PE"]) == " (did you mean 'SIMD'?)"
    assert did_you_mean("LSTM", ["GlobalLpPool", "Sum"]) == ""
    assert did_you_mean("depth", ["width"]) == ""
