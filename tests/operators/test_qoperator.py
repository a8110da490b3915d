"""Operators on integers, those of ONNX and of com.microsoft, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from operators.models import MICROSOFT, Model, frames, operators, same_as_onnxruntime, same_in_both_modes

from headrace.errors import UnsupportedError
from headrace.ingest import from_proto
from headrace.ir.integer import Activation

RNG = np.random.default_rng(0)


def codes(*shape: int, dtype: Any = np.uint8, count: int = 50) -> Any:
    limits = np.iinfo(dtype)
    x = RNG.integers(limits.min, limits.max + 1, (count, *shape)).astype(dtype)
    x[0], x[1] = limits.min, limits.max
    return x


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("pads", [[0] * 4, [1, 0, 2, 1]])
def test_conv_integer(dtype: Any, pads: list[int]) -> None:
    """onnxruntime has no signed inputs here; there, mode float and integer are held to each other and to plain sums."""
    m = Model(3, 5, 4, dtype=dtype)
    w = RNG.integers(-128, 128, (4, 3, 3, 2))
    zero = 17 if dtype is np.uint8 else -5
    inputs = [m.x, m.constant(w, np.int8), m.constant(zero, dtype), m.constant(np.int8(0), np.int8)]
    m.output(m.node("ConvInteger", *inputs, pads=pads, strides=[2, 1]), TensorProto.INT32)
    run = same_as_onnxruntime if dtype is np.uint8 else same_in_both_modes
    integer = run(m, {"x": codes(3, 5, 4, dtype=dtype)})
    assert operators(integer) == ["IntPad", "IntConv", "IntAffine"] if any(pads) else ["IntConv", "IntAffine"]


def test_accumulators_past_2_to_the_24_stay_integers() -> None:
    m = Model(3000, dtype=np.uint8)
    w = m.constant(np.full((3000, 2), [127, -128]), np.int8)
    m.output(m.node("MatMulInteger", m.x, w, m.constant(1, np.uint8)), TensorProto.INT32)
    same_as_onnxruntime(m, {"x": codes(3000)})


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("groups", [1, 3])
def test_qlinear_conv(per_channel: bool, groups: int) -> None:
    m = Model(3, 6, 5, dtype=np.uint8)
    w = RNG.integers(-20, 21, (6, 3 // groups, 3, 3))
    w_scale = RNG.uniform(0.01, 0.05, 6) if per_channel else 0.0213
    w_zero = np.zeros(6) if per_channel else 3
    y_scale = 0.31
    inputs = [
        m.x, m.constant(0.0217), m.constant(121, np.uint8),
        m.constant(w, np.int8), m.constant(w_scale), m.constant(w_zero, np.int8),
        m.constant(y_scale), m.constant(13, np.uint8), m.constant(RNG.integers(-999, 999, 6), np.int32),
    ]  # fmt: skip
    y = m.node("QLinearConv", *inputs, pads=[1, 1, 1, 1], group=groups)
    m.output(y, TensorProto.UINT8)
    integer = same_as_onnxruntime(m, {"x": codes(3, 6, 5)})
    assert operators(integer) == ["IntPad", "IntConv", "Activation"]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_qlinear_matmul(dtype: Any) -> None:
    m = Model(7, dtype=dtype)
    w = m.constant(RNG.integers(-128, 128, (7, 5)), np.int8)
    inputs = [
        m.x, m.constant(0.011), m.constant(9, dtype), w, m.constant(0.013), m.constant(-2, np.int8),
        m.constant(0.17), m.constant(101 if dtype is np.uint8 else 1, dtype),
    ]  # fmt: skip
    kind = TensorProto.UINT8 if dtype is np.uint8 else TensorProto.INT8
    m.output(m.node("QLinearMatMul", *inputs), kind)
    integer = same_as_onnxruntime(m, {"x": codes(7, dtype=dtype)})
    assert operators(integer) == ["IntMatMul", "Activation"]


@pytest.mark.parametrize("real", [False, True])
def test_qgemm(real: bool) -> None:
    m = Model(7, dtype=np.uint8)
    inputs = [
        m.x, m.constant(0.011), m.constant(9, np.uint8),
        m.constant(RNG.integers(-128, 128, (5, 7)), np.int8), m.constant(RNG.uniform(0.01, 0.02, 5)),
        m.constant(np.zeros(5), np.int8), m.constant(RNG.integers(-99, 99, 5), np.int32),
    ]  # fmt: skip
    if not real:
        inputs += [m.constant(0.17), m.constant(101, np.uint8)]
    y = m.node("QGemm", *inputs, domain=MICROSOFT, transB=1)
    m.output(y, TensorProto.FLOAT if real else TensorProto.UINT8)
    run = same_in_both_modes if real else same_as_onnxruntime
    run(m, {"x": codes(7)})


@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("constant", [False, True])
def test_binary_operators(operator: str, constant: bool) -> None:
    """onnxruntime multiplies by quotients of scales; powers of two make that exact too."""
    m = Model(4, dtype=np.uint8)
    other = m.constant([[3, 200, 0, 255]], np.uint8) if constant else m.input("y", 4, dtype=np.uint8)
    operands = [m.x, m.constant(0.5), m.constant(7, np.uint8), other, m.constant(0.25), m.constant(200, np.uint8)]
    z = m.node(operator, *operands, m.constant(8.0), m.constant(100, np.uint8), domain=MICROSOFT)
    m.output(z, TensorProto.UINT8)
    feeds = {"x": codes(4)} | ({} if constant else {"y": codes(4)})
    same_as_onnxruntime(m, feeds)


def test_concat_average_and_functions() -> None:
    m = Model(3, 4, 4, dtype=np.uint8)
    c = [m.constant(0.5), m.constant(10, np.uint8)]
    fine = [m.constant(0.125), m.constant(90, np.uint8)]
    leaky = m.node("QLinearLeakyRelu", m.x, *c, *fine, domain=MICROSOFT, alpha=0.25)
    joined = m.node("QLinearConcat", *c, m.x, *c, leaky, *fine, domain=MICROSOFT, axis=1)
    mean = m.node("QLinearGlobalAveragePool", joined, *c, *fine, domain=MICROSOFT, channels_last=0)
    m.output(mean, TensorProto.UINT8)
    sigmoid = m.node("QLinearSigmoid", m.x, *c, m.constant(1 / 256), m.constant(0, np.uint8), domain=MICROSOFT)
    m.output(sigmoid, TensorProto.UINT8)
    same_in_both_modes(m, {"x": codes(3, 4, 4)})


def test_a_network_of_integer_operators_has_one_activation_each() -> None:
    m = Model(3, 6, 6)
    scale, zero = m.constant(0.021), m.constant(120, np.uint8)
    x = m.node("QuantizeLinear", m.x, scale, zero)
    for channels in (3, 4):
        w = [m.constant(RNG.integers(-99, 99, (4, channels, 3, 3)), np.int8), m.constant(0.013), m.constant(0, np.int8)]
        y_scale, y_zero = m.constant(0.23), m.constant(3, np.uint8)
        x = m.node("QLinearConv", x, scale, zero, *w, y_scale, y_zero, pads=[1] * 4)
        scale, zero = y_scale, y_zero
    m.output(m.node("DequantizeLinear", x, scale, zero))
    integer = same_as_onnxruntime(m, {"x": frames(3, 6, 6, size=2.0)})
    assert operators(integer) == ["IntPad", "IntConv", "Activation", "IntPad", "IntConv", "Activation"]


def test_clipped_codes_are_one_quantizer() -> None:
    """QuantizeLinear, Clip, DequantizeLinear: 4 bits from the start, in the input and after the convolution."""
    m = Model(2, 4, 4)
    s, z = m.constant(0.3), m.constant(0, np.int8)
    bounds = m.constant(-8, np.int8), m.constant(7, np.int8)
    x = m.node("DequantizeLinear", m.node("Clip", m.node("QuantizeLinear", m.x, s, z), *bounds), s, z)
    y = m.node("Conv", x, m.weights(RNG.integers(-7, 8, (3, 2, 3, 3))))
    m.output(m.node("DequantizeLinear", m.node("Clip", m.node("QuantizeLinear", y, s, z), *bounds), s, z))
    integer = same_in_both_modes(m, {"x": frames(2, 4, 4)})
    assert operators(integer) == ["IntConv", "Activation"]
    core = integer.partition().core
    activation = core.op(list(core)[-2])
    assert isinstance(activation, Activation)
    assert activation.thresholds.shape[1] <= 15
    assert str(core.types(core.inputs[0])[0].element) == "INT4[-8..7]"


def test_what_is_refused() -> None:
    m = Model(4, dtype=np.uint8)
    other = m.input("y", 4, dtype=np.uint8)
    m.output(m.node("MatMulInteger", m.x, other), TensorProto.INT32)
    with pytest.raises(UnsupportedError, match="multiplies two tensors that both depend on the input"):
        from_proto(m.proto())
