"""Networks exported by Brevitas, through both of torch's exporters, as QONNX and as QCDQ.

The values are those of another executor: qonnx's of a QONNX file, ONNX Runtime's of a QCDQ file. Rounding errors add up
in both, where integers are exact here; frames on which a quantizer comes near to a tie are left out, and counted.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

pytest.importorskip("brevitas")

import torch
from brevitas.export import export_onnx_qcdq, export_qonnx
from ingest.brevitas_models import MODELS, trained
from onnx import helper, numpy_helper
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.util.cleanup import cleanup_model

from headrace.ingest import from_proto
from headrace.passes import to_integer
from headrace.passes.to_hardware import to_hardware

Array = NDArray[Any]

FRAMES = 24
NEAR = 2e-6
"""Nearer to a tie, relative to the value, another executor may round the other way."""

REFUSED = {
    ("qcdq", "bits_1"): "Binary quant not supported",
    ("qcdq", "signs"): "Binary quant not supported",
    ("qcdq dynamo", "biases"): "does not support quantized bias",
    ("qcdq", "pools"): "",  # the rounding of its floor is lost: exported, but as something else than the network
}
"""What Brevitas does not export, and why."""

IN_TURN = ("depthwise", "residual_of_two_scales", "pools", "functions")
"""Networks that are exported through torch.export in the default suite; that takes seconds each."""


def export(name: str, kind: str, dynamo: bool, path: Path) -> tuple[onnx.ModelProto, torch.nn.Module, Array]:
    """The file, the network, and frames for both."""
    made, shape = trained(name)
    run = export_qonnx if kind == "qonnx" else export_onnx_qcdq
    options = {"dynamo": True, "optimize": True} if dynamo else {"dynamo": False}
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            run(made, args=torch.randn(FRAMES, *shape), export_path=str(path), **options)
    finally:
        logging.disable(logging.NOTSET)
    torch.manual_seed(5)
    return onnx.load(path), made, (torch.randn(FRAMES, *shape) * 1.3).numpy()


def safe(real: Array, scale: Array, zero: Array) -> NDArray[np.bool_]:
    """Frames on which no value is near to a tie of rounding."""
    steps = real / scale + zero
    distance = np.abs(steps - np.floor(steps) - 0.5)
    near = distance <= NEAR * np.maximum(np.abs(steps), 1)
    good: NDArray[np.bool_] = ~near.reshape(len(near), -1).any(axis=1)
    return good


def by_qonnx(proto: onnx.ModelProto, x: Array) -> tuple[Array, NDArray[np.bool_]]:
    wrapped = cleanup_model(ModelWrapper(proto))
    known = execute_onnx(wrapped, {wrapped.graph.input[0].name: x}, return_full_exec_context=True)
    good = np.ones(len(x), bool)
    for node in wrapped.graph.node:
        if node.op_type in ("Quant", "IntQuant") and wrapped.get_initializer(node.input[0]) is None:
            good &= safe(known[node.input[0]], known[node.input[1]], known[node.input[2]])
    return known[wrapped.graph.output[0].name], good


def by_onnxruntime(proto: onnx.ModelProto, x: Array) -> tuple[Array, NDArray[np.bool_]]:
    constants = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    nodes = [n for n in proto.graph.node if n.op_type == "Constant"]
    constants |= {n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in nodes}
    quantizers = [n for n in proto.graph.node if n.op_type == "QuantizeLinear" and n.input[0] not in constants]
    watched = onnx.ModelProto()
    watched.CopyFrom(proto)
    names = [proto.graph.output[0].name, *dict.fromkeys(n.input[0] for n in quantizers)]
    fed = next(info.name for info in proto.graph.input if info.name not in constants)
    inner = [name for name in names[1:] if name != fed]
    watched.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in inner)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(watched.SerializeToString(), options, providers=["CPUExecutionProvider"])
    known = dict(zip([names[0], *inner], session.run([names[0], *inner], {fed: x}), strict=True)) | {fed: x}
    good = np.ones(len(x), bool)
    for node in quantizers:
        scale = constants.get(node.input[1])
        if scale is None:  # a scale that is computed from constants: only a whole network without ties counts
            continue
        view = (-1, *(1,) * (known[node.input[0]].ndim - 2)) if np.size(scale) > 1 else ()
        good &= safe(known[node.input[0]], np.reshape(scale, view), np.zeros(()))
    return known[names[0]], good


def check(name: str, kind: str, dynamo: bool, path: Path) -> None:
    proto, made, x = export(name, kind, dynamo, path)
    expected, good = by_qonnx(proto, x) if kind == "qonnx" else by_onnxruntime(proto, x)
    source = from_proto(proto)
    feeds = {source.inputs[0]: x}
    (output, *_) = source.outputs
    real = source.run(feeds)[output]
    integer = to_integer(source)
    assert np.array_equal(real, integer.graph.run(feeds)[output])
    assert {blocker.operator for blocker in integer.blockers} <= {"Softmax"}, "the rest becomes hardware"
    core = integer.partition().core
    assert to_hardware(core).graph is not None
    with torch.no_grad():
        theirs = made(torch.from_numpy(x))
    torch_values = np.asarray(getattr(theirs, "value", theirs))
    if name == "powers_of_two":
        good[:] = True  # arithmetic is exact everywhere, and so are ties
    assert good.sum() >= FRAMES // 3, "too few frames are left to compare"
    for other in (expected, torch_values):
        assert real.shape == other.shape
        close = np.isclose(real, other, rtol=1e-5, atol=1e-5 * float(np.abs(other).max()))
        frames = close.reshape(FRAMES, -1).all(axis=1)
        assert frames[good].all(), f"{(~frames & good).sum()} frames differ without any tie, {(~frames).sum()} in all"


CASES = [pytest.param(kind, name, False, id=f"{kind}-{name}") for kind in ("qonnx", "qcdq") for name in MODELS]
for name in MODELS:
    for kind in ("qonnx", "qcdq"):
        marks = () if name in IN_TURN and (kind == "qonnx" or name == "depthwise") else pytest.mark.slow
        CASES.append(pytest.param(kind, name, True, id=f"{kind}-{name}-dynamo", marks=marks))


@pytest.mark.parametrize(("kind", "name", "dynamo"), CASES)
def test_exports(kind: str, name: str, dynamo: bool, tmp_path: Path) -> None:
    reason = REFUSED.get((kind, name), REFUSED.get((f"{kind} dynamo", name)) if dynamo else None)
    if reason is not None:
        pytest.skip(f"Brevitas does not export it: {reason or 'rounding is lost'}")
    check(name, kind, dynamo, tmp_path / "model.onnx")
