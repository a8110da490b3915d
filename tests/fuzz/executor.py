"""Another executor: onnx's reference implementation, with the quantizers as the qonnx package defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from fuzz.elementary import Tensor
from fuzz.oracle import Oracle
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from qonnx.custom_op.general.bipolar_quant import binary_quant
from qonnx.custom_op.general.intquant import int_quant
from qonnx.custom_op.general.multithreshold import multithreshold
from qonnx.custom_op.general.trunc import trunc_v1, trunc_v2

Array = NDArray[Any]
DOMAIN = "qonnx.custom_op.general"


class Quant(OpRun):
    op_domain = DOMAIN

    def _run(
        self,
        x: Array,
        scale: Array,
        zero: Array,
        bits: Array,
        signed: int = 1,
        narrow: int = 0,
        rounding_mode: str = "ROUND",
    ) -> tuple[Array]:
        return (np.asarray(int_quant(x, scale, zero, bits, signed, narrow, rounding_mode), np.float32),)


class BipolarQuant(OpRun):
    op_domain = DOMAIN

    def _run(self, x: Array, scale: Array) -> tuple[Array]:
        return (np.asarray(binary_quant(x, scale), np.float32),)


class Trunc(OpRun):
    op_domain = DOMAIN

    def _run(
        self,
        x: Array,
        scale: Array,
        zero: Array,
        bits: Array,
        *rest: Array,
        rounding_mode: str = "FLOOR",
        narrow: int = 0,
        signed: int = 1,
    ) -> tuple[Array]:
        if len(rest) == 1:
            return (np.asarray(trunc_v1(x, scale, zero, bits, rest[0], rounding_mode), np.float32),)
        step, width = rest
        return (np.asarray(trunc_v2(x, scale, zero, bits, narrow, signed, step, width, rounding_mode), np.float32),)


class MultiThreshold(OpRun):
    op_domain = DOMAIN

    def _run(
        self,
        x: Array,
        thresholds: Array,
        out_dtype: str = "",
        out_scale: float = 1.0,
        out_bias: float = 0.0,
        data_layout: str = "",
    ) -> tuple[Array]:
        layout = data_layout or {2: "NC", 3: "NWC", 4: "NCHW"}[x.ndim]
        moved = x.swapaxes(layout.index("C"), 1)
        y = multithreshold(moved, thresholds, out_scale, out_bias).swapaxes(layout.index("C"), 1)
        return (np.asarray(y, np.float32),)


class GlobalMaxPool(OpRun):
    """The reference implementation drops an axis of one-dimensional images."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class MaxPool(OpRun):
    """The reference implementation fails on some padding that differs between the ends."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array]:
        return (Oracle().run_maxpool({k: v for k, v in attributes.items() if v is not None}, Tensor(x)).value,)


def execute(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """The graph outputs by name. Operators of before opset 19 mean the same there, but not all are implemented."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for opset in model.opset_import:
        opset.version = max(opset.version, 19) if not opset.domain else opset.version
    _sort(model.graph)
    session = ReferenceEvaluator(model, new_ops=[Quant, BipolarQuant, Trunc, MultiThreshold, GlobalMaxPool, MaxPool])
    names = [output.name for output in model.graph.output]
    with np.errstate(all="ignore"):
        return dict(zip(names, session.run(names, feeds), strict=True))


def _sort(graph: onnx.GraphProto) -> None:
    """Bring the nodes into the order of their dependencies."""
    known = {"", *(i.name for i in graph.input), *(i.name for i in graph.initializer)}
    waiting, order = list(graph.node), []
    while waiting:
        node = next(n for n in waiting if known.issuperset(n.input))
        waiting.remove(node)
        order.append(node)
        known.update(node.output)
    del graph.node[:]
    graph.node.extend(order)
