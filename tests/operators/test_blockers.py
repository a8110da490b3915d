"""Everything that stands in the way of hardware is listed at once, each with its node and a way out."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from operators.models import Model, frames, same_in_both_modes

from headrace.errors import ModelError, UnsupportedError
from headrace.ingest import from_proto


def test_all_refused_nodes_of_a_file() -> None:
    """Behind a refused node the import goes on, as far as shapes are known."""
    m = Model(4, 6, 6)
    x = m.quant(m.x)
    square = m.node("MatMul", x, x)
    flat = m.node("Reshape", m.node("Relu", square), m.constant([4, 36], np.int64))
    pooled = m.node("MaxPool", m.quant(square, [0.5, 0.25, 0.125]), kernel_shape=[2, 2])
    m.output(pooled)
    m.output(flat)
    m.output(m.node("Concat", x, m.constant(np.ones((1, 1, 6, 6))), axis=1))
    strange = m.node("Fancy", x, domain="my.company.ops")
    m.output(m.node("Conv", strange, m.constant(np.ones((2, 3, 3, 3)))))
    with pytest.raises(ModelError) as error:
        from_proto(m.proto(), "net.onnx")
    text = str(error.value)
    assert text.startswith("net.onnx: node 'n_fancy")
    for name in ("n_fancy", "n_matmul", "n_reshape", "n_quant", "n_concat"):
        assert f"node '{name}" in text
    assert "n_conv" not in text, "nothing is known of what an unknown operator gives"
    assert "MatMul is supported with constant weights on one side" in text


def test_one_refused_node_keeps_its_own_error() -> None:
    m = Model(4)
    x = m.quant(m.x)
    m.output(m.node("MatMul", x, x))
    with pytest.raises(UnsupportedError) as error:
        from_proto(m.proto(), "net.onnx")
    assert error.value.node is not None
    assert ";" not in str(error.value).removeprefix("net.onnx").replace("on the input; MatMul", "")


def test_all_parts_that_stay_on_the_host() -> None:
    m = Model(4)
    x = m.quant(m.x)
    for operator in ("Softmax", "LogSoftmax"):
        x = m.quant(m.node(operator, x, axis=1), 0.1)
        x = m.node("MatMul", x, m.quant(m.constant(np.eye(4)), 1.0))
    m.output(x)
    integer = same_in_both_modes(m, {"x": frames(4)}, blockers=4)
    with pytest.raises(UnsupportedError) as error:
        integer.partition()
    text = str(error.value)
    assert "Softmax is not supported in hardware; as the last operators of the model the host runs it" in text
    assert "LogSoftmax is not supported in hardware" in text


def test_preprocessing_of_bytes_is_part_of_the_first_quantizer() -> None:
    """uint8 image, /255, mean and deviation: a table of 256 entries per channel, in front of the convolution."""
    rng = np.random.default_rng(0)
    m = Model(3, 6, 6, dtype=np.uint8)
    x = m.node("Div", m.node("Cast", m.x, to=TensorProto.FLOAT), m.constant(255.0))
    mean, deviation = np.reshape([0.485, 0.456, 0.406], (3, 1, 1)), np.reshape([0.229, 0.224, 0.225], (3, 1, 1))
    x = m.node("Div", m.node("Sub", x, m.constant(mean)), m.constant(deviation))
    w = m.quant(m.constant(rng.normal(size=(4, 3, 3, 3))), 0.3)
    for quantized in (True, False):
        y = m.node("Conv", m.quant(x, 0.02, 8) if quantized else x, w, pads=[1, 1, 1, 1])
        m.output(m.quant(m.node("Relu", y), 0.7, 4, signed=False))
    pixels = rng.integers(0, 256, (30, 3, 6, 6)).astype(np.uint8)
    pixels[0], pixels[1] = 0, 255
    integer = same_in_both_modes(m, {"x": pixels})
    core = integer.partition().core
    assert core.inputs == ("x",)
    widths = [core.types(node)[0].int_range.bits for node in core]
    assert max(widths) < 48


@pytest.mark.parametrize("padded", [False, True])
def test_preprocessing_with_one_deviation_for_all_channels(padded: bool) -> None:
    """Without padding only an offset: the weights stay as narrow as they are."""
    rng = np.random.default_rng(1)
    m = Model(3, 6, 6, dtype=np.uint8)
    x = m.node("Div", m.node("Cast", m.x, to=TensorProto.FLOAT), m.constant(255.0))
    x = m.node("Mul", m.node("Sub", x, m.constant(np.reshape([0.485, 0.456, 0.406], (3, 1, 1)))), m.constant(4.42))
    w = m.quant(m.constant(rng.normal(size=(4, 3, 3, 3))), 0.3)
    m.output(m.quant(m.node("Conv", x, w, pads=[int(padded)] * 4), 0.7))
    pixels = rng.integers(0, 256, (30, 3, 6, 6)).astype(np.uint8)
    core = same_in_both_modes(m, {"x": pixels}).partition().core
    widest = max(core.types(node)[0].int_range.bits for node in core)
    assert widest < 20 if not padded else widest < 48
