"""Standard operators without a rule of their own: the host runs them with onnx's reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from headrace.errors import ModelError, UnsupportedError
from headrace.ingest.constants import evaluate
from headrace.ingest.operands import Node, Operand
from headrace.ir import Graph, TensorType, Value
from headrace.ir.grid import Constant
from headrace.ir.op import Array
from headrace.ir.ops import SourceOp
from headrace.ir.real import Real

_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
"""Operators whose first axis is time, unless their ``layout`` says otherwise."""


@dataclass(frozen=True, eq=False)
class HostOp(SourceOp):
    """One ONNX node, run as it is on real data; its outputs must keep the batch axis first.

    Args:
        operator: its name.
        proto: the node as it is written in the file.
        opset: version of its operator set.
        constants: its inputs by position, None where one depends on data or is left out.
        shapes: frame shapes of its outputs.
    """

    operator: str
    proto: bytes
    opset: int
    constants: tuple[Array | None, ...]
    shapes: tuple[tuple[int, ...], ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return tuple(TensorType(shape) for shape in self.shapes)

    def evaluate(self, *inputs: Real) -> tuple[Real, ...]:
        proto = onnx.NodeProto.FromString(self.proto)
        node = Node(proto, self.operator, (), Graph(), self.opset, 1, {}, frozenset())
        try:
            results = _run(node, self.constants, [x.value for x in inputs])
        except ModelError as error:
            raise type(error)(error.message) from error  # whoever runs the graph knows the node and the file
        return tuple(Real(r.astype(np.float32)) for r in results)

    def __str__(self) -> str:
        return self.operator


def _run(node: Node, constants: Sequence[Array | None], dynamic: Sequence[Array]) -> Sequence[Array]:
    fed = iter(dynamic)
    values = [
        None if not name else next(fed).astype(np.float32) if known is None else known
        for name, known in zip(node.proto.input, constants, strict=True)
    ]
    return evaluate(node, values)


def host_operator(node: Node) -> Sequence[Operand]:
    """Keep a standard operator on the host; its output shapes are found by running it on two batches.

    Raises:
        UnsupportedError: when it cannot be run, or does not keep frames apart.
    """
    if node.proto.op_type == "DynamicQuantizeLinear":
        raise node.unsupported(
            "its scale is not constant: it is computed from the data at run time; only a static scale can become "
            "hardware, so put QuantizeLinear with a constant scale in its place"
        )
    if node.proto.op_type in _RECURRENT and not node.integer("layout", 0):
        raise node.unsupported("it reads axis 0 as time, but axis 0 holds independent frames")
    sources = [x for x in node.inputs if isinstance(x, Value)]
    constants = tuple(x.value if isinstance(x, Constant) else None for x in node.inputs)
    rng = np.random.default_rng(0)
    data = [rng.uniform(0.1, 0.9, (3, *node.shape(x))).astype(np.float32) for x in sources]
    for x in data:  # the frame that the second batch lacks is larger and smaller than all others
        x[0] += rng.choice(np.asarray([-1, 1], np.float32), x[0].shape)
    trials = []
    for first in (1, 0):
        try:
            trials.append(_run(node, constants, [x[first:] for x in data]))
        except UnsupportedError:
            raise
        except Exception as error:
            frames = ", ".join(str(list(node.shape(x))) for x in sources)
            raise node.unsupported(
                f"it is not supported: it has no hardware, and cannot be run on the host for frames of shape {frames}"
            ) from error
    for two, three in zip(*trials, strict=True):
        if two.shape[:1] != (2,) or three.shape[:1] != (3,) or two.shape[1:] != three.shape[1:]:
            raise node.unsupported(
                f"{node.proto.op_type} does not keep frames apart: a batch of 2 gives shape {list(two.shape)}, "
                f"one of 3 {list(three.shape)}"
            )
        if not _alike(two, three[1:]):
            raise node.unsupported(
                f"{node.proto.op_type} does not keep frames apart: what it makes of one depends on the others of the "
                "batch (axis 0); choose an axis of the frame"
            )
    shapes = tuple(tuple(r.shape[1:]) for r in trials[0])
    made = node.add(HostOp(node.proto.op_type, node.proto.SerializeToString(), node.opset, constants, shapes), *sources)
    return [Value(made.node, port) for port in range(len(shapes))]


def _alike(one: Array, other: Array) -> bool:
    """Whether two results are the same but for the rounding of products that batches of other sizes may add."""
    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    with np.errstate(all="ignore"):
        return bool(np.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True))
