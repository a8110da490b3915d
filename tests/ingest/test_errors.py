"""Bad models: one sentence that names the file, the node, what is wrong and what would be accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ingest.onnx_files import QONNX, model, node
from onnx import TensorProto, helper

from headrace.errors import ModelError, UnsupportedError
from headrace.ingest import from_proto

NAN, INF = float("nan"), float("inf")
IMAGE = ["N", 3, 5, 6]
INT64 = TensorProto.INT64


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def bad(
    op: str,
    inputs: tuple[str, ...] = ("x",),
    constants: dict[str, Any] | None = None,
    shape: tuple[Any, ...] = ("N", 3),
    opset: int = 17,
    outputs: tuple[str, ...] = ("y",),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node called 'culprit'."""
    return model([node(op, inputs, outputs, "culprit", **attributes)], {"x": shape}, constants, outputs, opset)


def quant(**constants: Any) -> onnx.ModelProto:
    attributes = {"signed": constants.pop("signed", 1), "narrow": constants.pop("narrow", 0)}
    attributes["rounding_mode"] = constants.pop("mode", "ROUND")
    return bad("Quant", ("x", "s", "z", "b"), {"s": 0.5, "z": 0.0, "b": 4.0} | constants, **attributes)


def linear(op: str = "QuantizeLinear", scale: Any = 0.5, zero: Any = None, **attributes: Any) -> onnx.ModelProto:
    zero = np.int8(0) if zero is None else zero
    return bad(
        op, ("x", "s", "z"), {"s": np.float32(scale), "z": zero}, opset=attributes.pop("opset", 21), **attributes
    )


W = np.ones((3, 2), np.float32)
KERNEL = np.ones((4, 3, 3, 3), np.float32)

NODES: dict[str, tuple[onnx.ModelProto, str]] = {
    # quantizers
    "bits 0": (quant(b=0.0), "its bit width is 0; whole numbers from 1 to 32 are accepted"),
    "bits 3.5": (quant(b=3.5), r"its bit width is 3\.5; whole numbers"),
    "bits 33": (quant(b=33.0), "its bit width is 33;"),
    "bits negative": (quant(b=-4.0), "its bit width is -4;"),
    "bits NaN": (quant(b=NAN), "its bit width is nan;"),
    "bits infinite": (quant(b=INF), "its bit width is inf;"),
    "bits per channel": (quant(b=[4.0, 4.0, 4.0]), r"a bit width per channel \(3 values\); one for the whole tensor"),
    "scale 0": (quant(s=0.0), "its scale holds 0; a scale must be positive"),
    "scale negative": (quant(s=-0.5), "its scale must be finite and positive"),
    "scale NaN": (quant(s=NAN), "its scale must be finite and positive"),
    "scale infinite": (quant(s=[0.5, INF, 0.5]), "its scale must be finite and positive"),
    "scale length": (
        quant(s=[0.5, 0.5]),
        r"its scale has shape \[2\], which does not broadcast with frames of shape \[3\]",
    ),
    "scale over the batch": (
        quant(s=[[0.5], [0.25]]),
        r"its scale of shape \[2, 1\] does not fit frames of shape \[3\]",
    ),
    "zero point 0.5": (quant(z=0.5), "its zero point must be a whole number"),
    "zero point NaN": (quant(z=NAN), "its zero point must be a whole number"),
    "zero point infinite": (quant(z=INF), "its zero point must be a whole number"),
    "zero point huge": (quant(z=1e30), "its zero point must be a whole number of at most 32 bits"),
    "zero point at 1 bit": (quant(b=1.0, z=1.0), "a signed 1-bit quantizer with a zero point"),
    "narrow 1 bit": (quant(b=1.0, narrow=1, signed=0), "a narrow range needs at least 2 bits"),
    "rounding": (
        quant(mode="HALF_UPP"),
        r"unknown rounding mode 'HALF_UPP' \(did you mean 'HALF_UP'\?\); accepted: ROUND,",
    ),
    "inputs missing": (bad("Quant", ("x", "s", "z"), {"s": 0.5, "z": 0.0}, signed=1), "input 3 is missing"),
    "attribute typed wrong": (quant(signed=0.5), "attribute 'signed' must be an integer, not 0.5"),
    "attribute unknown": (
        bad("Quant", ("x", "s", "z", "b"), {"s": 0.5, "z": 0.0, "b": 4.0}, signed=1, narow=1),
        r"its attribute 'narow' is not supported \(did you mean 'narrow'\?\)",
    ),
    "bipolar scale": (bad("BipolarQuant", ("x", "s"), {"s": 0.0}), "its scale holds 0"),
    "trunc zero point": (
        bad("Trunc", ("x", "s", "z", "i", "o"), {"s": 0.5, "z": 1.0, "i": 8.0, "o": 4.0}),
        "Trunc with a zero point",
    ),
    "trunc shifts": (
        bad("Trunc", ("x", "s", "z", "i", "t", "o"), {"s": 0.5, "z": 0.0, "i": 8.0, "t": [1.0, 2.0, 1.0], "o": 4.0}),
        "a different shift per channel",
    ),
    "thresholds NaN": (bad("MultiThreshold", ("x", "t"), {"t": [[NAN]]}), "its thresholds hold NaN"),
    "thresholds shape": (
        bad("MultiThreshold", ("x", "t"), {"t": [[0.0], [1.0]]}),
        r"its thresholds have shape \[2, 1\], but its input has 3 channels",
    ),
    "thresholds scale": (bad("MultiThreshold", ("x", "t"), {"t": [[0.0]]}, out_scale=0.0), "its out_scale is 0"),
    "constant complex": (quant(s=np.complex64(0.5)), "its constant 's' holds complex numbers; real numbers are read"),
    "constant text": (bad("Mul", ("x", "c"), {"c": np.array(["1"], object)}), "its constant 'c' holds text"),
    "QDQ scale 0": (linear(scale=0.0), "its scale must be finite and positive"),
    "QDQ scale NaN": (linear("DequantizeLinear", NAN), "its scale must be finite and positive"),
    "QDQ scale length": (
        linear(scale=[0.5, 0.5], zero=np.zeros(2, np.int8)),
        "its scale has 2 entries, but axis 1 of its input has size 3",
    ),
    "QDQ axis": (
        linear(scale=[0.5] * 3, zero=np.zeros(3, np.int8), axis=2),
        "axis 2 is out of range for a tensor of rank 2",
    ),
    "QDQ batch axis": (linear(scale=[0.5] * 3, zero=np.zeros(3, np.int8), axis=0), "works along the batch axis"),
    "QDQ blocks": (linear(block_size=2), "block quantization"),
    "QDQ float8": (linear(zero=np.float32(0)), "quantization to a type that is not an integer"),
    "QDQ types": (linear(output_dtype=TensorProto.UINT8), "its output_dtype contradicts the type of its zero point"),
    "QDQ precision": (linear(precision=TensorProto.FLOAT16, opset=23), "a precision other than float32"),
    # elementwise
    "divide by 0": (bad("Div", ("x", "c"), {"c": [1.0, 0.0, 1.0]}), "it divides by zero"),
    "constant NaN": (bad("Add", ("x", "c"), {"c": NAN}), "its constant holds values that are not finite numbers"),
    "constant shape": (bad("Mul", ("x", "c"), {"c": [1.0, 2.0]}), "which does not broadcast with frames"),
    "constant per frame": (
        bad("Mul", ("x", "c"), {"c": W.T}, ("N", 3)),
        r"its constant of shape \[2, 3\] does not fit",
    ),
    "old broadcasting": (
        bad("Add", ("x", "c"), {"c": [1.0]}, opset=6, broadcast=1, axis=1),
        "its attribute 'axis' is not",
    ),
    "clip NaN": (bad("Clip", ("x", "lo"), {"lo": NAN}), r"its lower bound must be one number, not \[nan\]"),
    "clip several": (
        bad("Clip", ("x", "", "hi"), {"hi": [1.0, 2.0]}),
        r"its upper bound must be one number, not \[1\.0, 2\.0\]",
    ),
    "alpha NaN": (bad("LeakyRelu", alpha=NAN), "attribute 'alpha' must be a finite number, not nan"),
    "alpha text": (bad("LeakyRelu", alpha="a"), "attribute 'alpha' must be a finite number, not b'a'"),
    "celu 0": (bad("Celu", alpha=0.0), "its alpha is 0, which it divides by"),
    "gelu": (bad("Gelu", opset=20, approximate="erf"), "its approximate 'erf' is none of none, tanh"),
    "swish": (bad("Swish", opset=24, alpha=2.0), "Swish with alpha other than 1"),
    "relu attribute": (bad("Relu", alpha=0.5), "its attribute 'alpha' is not supported"),
    "slope infinite": (bad("PRelu", ("x", "s"), {"s": INF}), "its slope holds values that are not finite"),
    "slope too large": (bad("PRelu", ("x", "s"), {"s": [[1.0] * 3] * 2}, ("N", 1, 3)), "is larger than its input"),
    "slope computed": (
        bad("PRelu", ("x", "x")),
        "its slope is not constant: it is computed from the data at run time by",
    ),
    "power NaN": (bad("Pow", ("x", "c"), {"c": NAN}), "its exponent holds values that are not finite"),
    "norm length": (
        bad(
            "BatchNormalization",
            ("x", "g", "b", "m", "v"),
            {"g": [1.0], "b": [0.0] * 3, "m": [0.0] * 3, "v": [1.0] * 3},
        ),
        r"its scale has shape \[1\], but its input has 3 channels",
    ),
    "norm variance": (
        bad(
            "BatchNormalization",
            ("x", *"gbmv"),
            {"g": [1.0] * 3, "b": [0.0] * 3, "m": [0.0] * 3, "v": [1.0, -1.0, 1.0]},
        ),
        "its variance plus epsilon must be positive",
    ),
    "norm training": (
        bad("BatchNormalization", ("x", *"gbmv"), dict.fromkeys("gbmv", [1.0] * 3), training_mode=1),
        "it is in training mode; export the model in eval mode",
    ),
    "norm training by its outputs": (
        bad("BatchNormalization", ("x", *"gbmv"), dict.fromkeys("gbmv", [1.0] * 3), opset=9, outputs=("y", "m2", "v2")),
        "it is in training mode",
    ),
    "norm per position": (
        bad("BatchNormalization", ("x", *"gbmv"), dict.fromkeys("gbmv", [1.0] * 3), opset=7, spatial=0),
        "statistics per position",
    ),
    "dropout training": (bad("Dropout", ("x", "", "t"), {"t": np.bool_(True)}), "it is in training mode"),
    "dropout training by default": (bad("Dropout", opset=6), "it is in training mode"),
    "dropout mask": (bad("Dropout", outputs=("y", "mask")), r"its output 1 \('mask'\) is read; only 1 are supported"),
    "cast to integers": (bad("Cast", to=TensorProto.INT8), "a cast of real data to INT8"),
    "cast to bool": (bad("Cast", to=TensorProto.BOOL), "a cast of real data to BOOL"),
    "cast to bfloat16": (bad("Cast", to=TensorProto.BFLOAT16), "a cast of real data to BFLOAT16"),
    # products
    "two tensors": (
        bad("MatMul", ("x", "x"), shape=("N", 3, 3)),
        "it multiplies two tensors that both depend on the input",
    ),
    "weights NaN": (bad("MatMul", ("x", "w"), {"w": W * NAN}), "must hold at least one value, and finite numbers only"),
    "weights infinite": (bad("Conv", ("x", "w"), {"w": KERNEL * INF}, IMAGE), "finite numbers only"),
    "no weights": (bad("MatMul", ("x", "w"), {"w": W[:, :0]}), r"its weights \[3, 0\] must hold at least one value"),
    "weights shape": (bad("MatMul", ("x", "w"), {"w": W.T}), r"cannot multiply frames \[3\] by weights \[2, 3\]"),
    "weights per frame": (
        bad("MatMul", ("x", "w"), {"w": np.stack([W, W])}, ("N", 2, 3)),
        "a different matrix per batch",
    ),
    "weights on the left": (bad("MatMul", ("w", "x"), {"w": W}), "would sum over the batch axis"),
    "gemm transA": (bad("Gemm", ("x", "w"), {"w": W}, transA=1), "transA=1 would sum over the batch axis"),
    "gemm computed": (bad("Gemm", ("x", "x")), "its B depends on the input; constant weights are supported"),
    "gemm rank": (bad("Gemm", ("x", "w"), {"w": W}, ("N", 2, 3)), "matrices are needed"),
    "gemm bias": (bad("Gemm", ("x", "w", "c"), {"w": W, "c": [1.0] * 3}), "its bias has shape"),
    "gemm bias NaN": (
        bad("Gemm", ("x", "w", "c"), {"w": W, "c": [NAN, 0.0]}),
        "its bias holds values that are not finite",
    ),
    "conv computed": (
        model([node("Conv", ["x", "x"], name="culprit")], {"x": IMAGE}),
        "its weights depend on the input; constant weights are supported",
    ),
    "conv rank": (bad("Conv", ("x", "w"), {"w": KERNEL}, ("N", 3, 5)), "1-D and 2-D ones are supported"),
    "conv 3-D": (bad("Conv", ("x", "w"), {"w": KERNEL[..., None]}, (*IMAGE, 2)), "1-D and 2-D ones are supported"),
    "conv channels": (bad("Conv", ("x", "w"), {"w": KERNEL[:, :2]}, IMAGE), "cannot convolve frames"),
    "conv groups": (
        bad("Conv", ("x", "w"), {"w": KERNEL[:, :1]}, IMAGE, group=3),
        "group=3 does not divide its 4 output",
    ),
    "conv kernel_shape": (
        bad("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, kernel_shape=[3, 2]),
        "contradicts its weights",
    ),
    "conv strides": (bad("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, strides=[0, 1]), "must be 2 positive numbers"),
    "conv strides length": (bad("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, strides=[1]), "must be 2 positive numbers"),
    "conv strides typed wrong": (
        bad("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, strides=1),
        "must be a list of integers",
    ),
    "conv pads": (bad("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, pads=[0, 0, -1, 0]), "none negative"),
    "conv auto_pad": (
        bad("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, auto_pad="SAME"),
        "is none of NOTSET, VALID, SAME_UPPER",
    ),
    "conv bias": (
        bad("Conv", ("x", "w", "b"), {"w": KERNEL, "b": [0.0]}, IMAGE),
        r"its bias has shape \[1\] for 4 output",
    ),
    "conv too small": (
        bad("Conv", ("x", "w"), {"w": KERNEL}, ("N", 3, 2, 6)),
        "a window of 3 does not fit an image axis of 2",
    ),
    # pools, movement, selection
    "pool kernel": (bad("MaxPool", shape=IMAGE, kernel_shape=[2]), "1-D and 2-D are supported"),
    "pool kernel 0": (
        bad("MaxPool", shape=IMAGE, kernel_shape=[0, 2]),
        r"its kernel \[0, 2\] must hold positive numbers",
    ),
    "conv padded beyond memory": (
        bad("Conv", ("x", "w"), {"w": KERNEL}, IMAGE, pads=[2**35] * 4, strides=[2**35] * 2),
        r"its padded frames of shape \[3, 68719476741, 68719476742\] have",
    ),
    "pool padded beyond memory": (
        bad("MaxPool", shape=IMAGE, kernel_shape=[2**35] * 2, pads=[2**34] * 4, strides=[2**35] * 2),
        "its padded frames of shape",
    ),
    "transposed conv spread beyond memory": (
        bad("ConvTranspose", ("x", "w"), {"w": KERNEL[:3]}, IMAGE, strides=[2**35] * 2, pads=[0, 0, 2**37, 5 * 2**35]),
        "its spread frames of shape",
    ),
    "transposed conv padded beyond memory": (
        bad("ConvTranspose", ("x", "w"), {"w": KERNEL[:3]}, IMAGE, dilations=[2**35] * 2, pads=[2**35] * 4),
        "its padded frames of shape",
    ),
    "cropped to nothing": (
        bad("Pad", ("x", "p"), {"p": ints(0, -2, 0, -1)}),
        r"its pads \[-2, -1\] leave nothing of frame axis 0, which has 3 elements",
    ),
    "pool padding": (bad("MaxPool", shape=IMAGE, kernel_shape=[1, 2], pads=[1, 0, 0, 0]), "without any pixel"),
    "pool indices": (
        bad("MaxPool", shape=IMAGE, kernel_shape=[2, 2], outputs=("y", "i")),
        r"its output 1 \('i'\) is read",
    ),
    "reshape between frames": (bad("Reshape", ("x", "s"), {"s": ints(3, -1)}), "would move elements between frames"),
    "reshape size": (bad("Reshape", ("x", "s"), {"s": ints(-1, 4)}), "would move elements between frames"),
    "reshape twice -1": (bad("Reshape", ("x", "s"), {"s": ints(0, -1, -1)}), "would move elements between frames"),
    "reshape scalar": (bad("Reshape", ("x", "s"), {"s": ints()}), "a reshape to a scalar"),
    "reshape computed": (bad("Reshape", ("x", "x")), "its target shape is not constant"),
    "transpose batch": (bad("Transpose"), r"perm \[1, 0\] moves the batch axis"),
    "transpose perm": (bad("Transpose", perm=[0, 0]), "is no permutation of 2 axes"),
    "flatten batch": (bad("Flatten", axis=0), "Flatten from axis 0; axis 1 keeps frames apart"),
    "flatten axis": (bad("Flatten", axis=3), "Flatten from axis 3"),
    "squeeze": (bad("Squeeze", ("x", "a"), {"a": ints(1)}), "which are not all of length 1"),
    "squeeze batch": (bad("Squeeze", ("x", "a"), {"a": ints(0)}), "squeezing the batch axis"),
    "squeeze axis": (bad("Squeeze", ("x", "a"), {"a": ints(5)}), "must be different ones of a tensor of rank 2"),
    "unsqueeze twice": (
        bad("Unsqueeze", ("x", "a"), {"a": ints(1, 1)}),
        "must be different ones of a tensor of rank 4",
    ),
    "unsqueeze batch": (bad("Unsqueeze", ("x", "a"), {"a": ints(0)}), "an axis before the batch axis"),
    "concat constant": (bad("Concat", ("x", "c"), {"c": [[1.0]]}, axis=1), "joining a tensor with a constant"),
    "concat batch": (bad("Concat", ("x", "x"), axis=0), "it works along the batch axis"),
    "concat axis": (bad("Concat", ("x", "x"), axis=2), "axis 2 is out of range for a tensor of rank 2"),
    "slice lengths": (
        bad("Slice", ("x", "s", "e"), {"s": ints(0, 0), "e": ints(1)}),
        "must be as many, each axis once",
    ),
    "slice axis twice": (
        bad("Slice", ("x", "s", "e", "a"), {"s": ints(0, 0), "e": ints(1, 1), "a": ints(1, -1)}),
        "must be as many, each axis once",
    ),
    "slice without a step": (
        bad("Slice", ("x", "s", "e", "a", "t"), {"s": ints(2), "e": ints(0), "a": ints(1), "t": ints(0)}),
        "its step must not be 0",
    ),
    "slice frames": (
        bad("Slice", ("x", "s", "e", "a"), {"s": ints(1), "e": ints(9), "a": ints(0)}),
        "along the batch axis",
    ),
    "slice empty": (bad("Slice", ("x", "s", "e", "a"), {"s": ints(2), "e": ints(2), "a": ints(1)}), "is empty"),
    "slice without bounds": (bad("Slice", opset=9, axes=[1]), "its starts and ends are missing"),
    "split sizes": (
        bad("Split", ("x", "p"), {"p": ints(1, 1)}, outputs=("y", "z"), axis=1),
        "do not make up the 3 elements",
    ),
    "split counts": (bad("Split", outputs=("y", "z"), axis=1, num_outputs=3, opset=18), "contradicts its 2 outputs"),
    "argmax batch": (bad("ArgMax"), "it works along the batch axis"),
    "argmax last": (bad("ArgMax", axis=1, select_last_index=1), "select_last_index=1"),
    "top 0": (bad("TopK", ("x", "k"), {"k": ints(0)}, outputs=("y", "i")), "k=0 of 3 values; 1 to 3 are accepted"),
    "top 4": (bad("TopK", ("x", "k"), {"k": ints(4)}, outputs=("y", "i")), "k=4 of 3 values; 1 to 3 are accepted"),
    # host
    "mixes frames": (bad("ReduceL2", axes=[0], keepdims=1, opset=13), "does not keep frames apart"),
    "cannot be run": (bad("Scan", ("x", "x", "x")), "it is not supported: it has no hardware"),
    "random": (bad("RandomNormalLike"), "it draws random numbers"),
}


@pytest.mark.parametrize("case", NODES)
def test_nodes(case: str) -> None:
    proto, message = NODES[case]
    with pytest.raises(ModelError, match=message) as error:
        from_proto(proto, "net.onnx")
    text = str(error.value)
    assert text.startswith("net.onnx: ")
    assert "'culprit' (" in text
    assert "\n" not in text


def test_negative_weight_scale_of_a_pruned_channel() -> None:
    """A scale of 0 is accepted exactly where every weight is 0 anyway."""
    values = np.float32([[1.0, 0.0], [2.0, 0.0]])
    nodes = [node("Quant", ["v", "s", "z", "b"], ["w"], "culprit", signed=1, narrow=0), node("MatMul", ["x", "w"])]
    constants = {"v": values, "s": [[1.0, 0.0]], "z": 0.0, "b": 4.0}
    source = from_proto(model(nodes, {"x": ["N", 2]}, constants))
    assert source.run({"x": np.float32([[1, 1]])})["y"].tolist() == [[3.0, 0.0]]
    constants["v"] = values + np.float32([[0, 1]])
    with pytest.raises(ModelError, match="its scale holds 0"):
        from_proto(model(nodes, {"x": ["N", 2]}, constants))


def test_quantized_constants_must_be_numbers() -> None:
    nodes = [node("Quant", ["v", "s", "z", "b"], ["w"], "culprit", signed=1), node("MatMul", ["x", "w"])]
    constants = {"v": [[NAN]], "s": 1.0, "z": 0.0, "b": 4.0}
    with pytest.raises(
        ModelError, match=r"'culprit' .* the constant that it quantizes holds values that are not finite"
    ):
        from_proto(model(nodes, {"x": ["N", 1]}, constants))


# -- graphs -------------------------------------------------------------------------------------------------------


def relu(**changes: Any) -> onnx.ModelProto:
    proto = model([node("Relu", ["x"], name="culprit")], {"x": ["N", 3]}, {"c": [1.0]})
    for name, value in changes.items():
        getattr(proto.graph, name).extend(value)
    return proto


def without(field: str) -> onnx.ModelProto:
    proto = relu()
    proto.graph.ClearField(field)
    return proto


def typed(shape: object, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    proto = relu()
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", kind, shape))
    return proto


def constant_output() -> onnx.ModelProto:
    proto = without("output")
    proto.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, None))
    return proto


def sequence_input() -> onnx.ModelProto:
    proto = relu()
    info = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    proto.graph.input[0].CopyFrom(info)
    return proto


CYCLE = [node("Add", ["x", "b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second")]
GRAPHS: dict[str, tuple[onnx.ModelProto, str]] = {
    "cycle": (relu(node=CYCLE), r"node 'first' \(Add\): its input 'b' depends on itself \(the graph has a cycle\)"),
    "self": (relu(node=[node("Relu", ["a"], ["a"], "me")]), r"node 'me' \(Relu\): its input 'a' depends on itself"),
    "missing tensor": (relu(node=[node("Relu", ["gone"], ["a"], "me")]), "its input 'gone' is made by no node"),
    "made twice": (relu(node=[node("Relu", ["x"], ["y"], "me")]), r"node 'me' \(Relu\): tensor 'y' is made twice"),
    "makes an input": (relu(node=[node("Relu", ["x"], ["x"], "me")]), "tensor 'x' is made twice"),
    "makes a constant": (relu(node=[node("Relu", ["x"], ["c"], "me")]), "tensor 'c' is made twice"),
    "output missing": (
        relu(output=[helper.make_tensor_value_info("gone", TensorProto.FLOAT, None)]),
        "graph output 'gone' is made by no node",
    ),
    "output constant": (
        constant_output(),
        "graph output 'c' does not depend on the input",
    ),
    "output twice": (
        relu(output=[helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]),
        "two graph outputs are called 'y'",
    ),
    "input twice": (
        relu(input=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])]),
        "two graph inputs are called 'x'",
    ),
    "no outputs": (without("output"), "it holds no graph with outputs"),
    "no inputs": (without("input"), r"node 'culprit' \(Relu\): its input 'x' is made by no node"),
    "no shape": (typed(None), "graph input 'x' needs a tensor type with a shape whose first axis is the batch"),
    "no axes": (typed([]), "graph input 'x' needs a tensor type with a shape"),
    "sequence": (sequence_input(), "graph input 'x' needs a tensor type"),
    "symbolic axis": (
        typed(["N", "M"]),
        r"graph input 'x' has shape \['\?', '\?'\]; only the first axis \(the batch\)",
    ),
    "axis 0": (typed(["N", 0]), "only the first axis"),
    "text input": (typed(["N", 3], TensorProto.STRING), "graph input 'x' is neither of a float nor of an integer type"),
    "bool input": (typed(["N", 3], TensorProto.BOOL), "neither of a float nor of an integer type"),
    "unknown domain": (
        relu(node=[helper.make_node("Fancy", ["x"], ["z"], "me", domain="my.company")]),
        r"node 'me' \(Fancy\): operator domain 'my.company' is unknown; known: ai.onnx, com.microsoft, finn",
    ),
    "unknown QONNX operator": (
        relu(node=[helper.make_node("BipolarQant", ["x"], ["z"], "me", domain=QONNX)]),
        r"operator 'BipolarQant' of domain '.*' is unknown \(did you mean 'BipolarQuant'\?\); known: BipolarQuant",
    ),
    "unknown ONNX operator": (
        relu(node=[helper.make_node("Rellu", ["x"], ["z"], "me")]),
        r"node 'me' \(Rellu\): 'Rellu' is no operator of ONNX \(did you mean 'P?Relu'\?\)",
    ),
    "nameless": (relu(node=[helper.make_node("Rellu", ["x"], ["z"])]), r"node 'z' \(Rellu\): 'Rellu' is no operator"),
    "without outputs": (
        relu(node=[helper.make_node("Rellu", ["x"], [])]),
        r"node '' \(Rellu\): 'Rellu' is no operator",
    ),
    "no data": (relu(initializer=[TensorProto(name="t", dims=[2], data_type=1)]), "initializer 't' cannot be read"),
    "too little data": (
        relu(initializer=[TensorProto(name="t", dims=[9], data_type=1, raw_data=b"1234")]),
        "initializer 't' cannot be read",
    ),
    "sparse": (
        relu(sparse_initializer=[onnx.SparseTensorProto(dims=[4])]),
        "sparse initializers are not supported",
    ),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_graphs(case: str) -> None:
    proto, message = GRAPHS[case]
    with pytest.raises(ModelError, match=message) as error:
        from_proto(proto, "net.onnx")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("net.onnx: ")


def test_all_unknown_operators_are_listed_at_once() -> None:
    nodes = [helper.make_node(op, ["x"], [op], f"n{op}", domain="a.b") for op in ("P", "Q")]
    with pytest.raises(UnsupportedError, match=r"'nP' .*; node 'nQ' "):
        from_proto(relu(node=nodes))


@pytest.mark.parametrize(("position", "what"), [(1, "scale"), (2, "zero point"), (3, "bit width")])
def test_parameters_computed_from_the_data(position: int, what: str) -> None:
    inputs = ["x", "s", "z", "b"]
    inputs[position] = "dynamic"
    nodes = [
        node("ReduceMax", ["x"], ["dynamic"], "where_from", keepdims=0),
        node("Quant", inputs, ["y"], "culprit", signed=1),
    ]
    proto = model(nodes, {"x": ["N", 3]}, {"s": 0.5, "z": 0.0, "b": 4.0})
    message = (
        rf"node 'culprit' \(Quant\): its {what} is not constant: it is computed from the data .* node 'where_from'"
    )
    with pytest.raises(UnsupportedError, match=message):
        from_proto(proto, "net.onnx")


def test_recursive_functions() -> None:
    body = [helper.make_node("Loop", ["a"], ["b"], domain="my.domain")]
    function = helper.make_function("my.domain", "Loop", ["a"], ["b"], body, [helper.make_opsetid("my.domain", 1)])
    proto = model([helper.make_node("Loop", ["x"], ["y"], domain="my.domain")], {"x": ["N", 4]})
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("my.domain", 1))
    with pytest.raises(ModelError):
        from_proto(proto, "net.onnx")


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_operators(op: str, gates: int) -> None:
    """Axis 0 is time to them: running them would mix frames."""
    constants = {"w": np.ones((1, gates * 2, 4), np.float32), "r": np.ones((1, gates * 2, 2), np.float32)}
    proto = bad(op, ("x", "w", "r"), constants, ("N", 3, 4), hidden_size=2)
    with pytest.raises(UnsupportedError, match="it reads axis 0 as time"):
        from_proto(proto, "net.onnx")


def test_what_the_host_cannot_run_is_named_once() -> None:
    """One place, one reason, and nothing of the evaluator's own words."""
    with pytest.raises(UnsupportedError) as error:
        from_proto(bad("Einsum", ("x", "x"), equation="nij,nij->n"), "net.onnx")
    text = str(error.value)
    assert [text.count(part) for part in ("net.onnx", "'culprit'", "frames of shape [3]")] == [1, 1, 1]
    assert "einsum" not in text


def test_random_constants() -> None:
    nodes = [node("RandomNormal", [], ["w"], "culprit", shape=[3, 2]), node("MatMul", ["x", "w"])]
    with pytest.raises(UnsupportedError, match="it draws random numbers"):
        from_proto(model(nodes, {"x": ["N", 3]}))


@pytest.mark.parametrize("thing", [b"bytes", None, 3, {}], ids=repr)
def test_what_is_no_model(thing: object) -> None:
    with pytest.raises(ModelError, match=r"expected an onnx\.ModelProto or a path, not"):
        from_proto(thing)  # type: ignore[arg-type]
