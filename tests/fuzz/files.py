"""Another generator of random models: files as converters write them, every node run by ONNX Runtime while it is added.

Where the networks of :mod:`fuzz.networks` explore numerics, these explore the ways to write a graph: quantizers as
QuantizeLinear, Clip and DequantizeLinear or as QONNX nodes of any domain, axes counted from either end, constants as
initializers, as inputs with a default or as Constant nodes, shapes computed from shapes, attributes left out or stated,
operator sets 9 to 25. Scales are powers of two as far as a network is *exact*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

FRAMES = 5
QUANT_DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
OPSETS = tuple(range(9, 26))


@dataclass
class File:
    """A model under construction.

    Attributes:
        values: of every tensor on a batch of :data:`FRAMES`, by name; constants too.
        inexact: tensors whose values another executor may round otherwise.
    """

    rng: np.random.Generator
    opset: int
    fixed_batch: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)
    inexact: set[str] = field(default_factory=set)
    domains: set[str] = field(default_factory=set)

    # -- choices --------------------------------------------------------------------------------------------

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: int, high: int) -> int:
        """From *low* to *high*, both included."""
        return int(self.rng.integers(low, high + 1))

    def power(self, low: int = -4, high: int = 1) -> np.float32:
        return np.float32(2.0 ** self.number(low, high))

    # -- tensors --------------------------------------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a frame."""
        return tuple(self.values[name].shape[1:])

    def axis(self, name: str, axis: int) -> int:
        """*axis* (batch axis counted), from either end."""
        return axis - self.values[name].ndim if self.chance(0.4) else axis

    def fresh(self, stem: str) -> str:
        return f"{self.pick(['', '/', 'm.'])}{stem}_{len(self.nodes)}_{len(self.initializers)}"

    def const(self, value: object, dtype: Any = np.float32) -> str:
        """A constant: an initializer, one that is listed as an input too, or a Constant node."""
        array = np.asarray(value, dtype)
        name = self.fresh("c")
        self.values[name] = array
        kind = self.pick(["initializer", "initializer", "input", "node"])
        if kind == "node":
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
            return name
        self.initializers.append(numpy_helper.from_array(array, name))
        if kind == "input" and array.dtype == np.float32:
            self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape))
        return name

    def ints(self, *value: int) -> str:
        return self.const(np.array(value), np.int64)

    def input(self, shape: Sequence[int]) -> str:
        """Real numbers, or the bytes of a picture."""
        name = self.pick(["x", "global_in", "input.1"]) + ("" if not self.feeds else str(len(self.feeds)))
        batch = FRAMES if self.fixed_batch else "N"
        if self.chance(0.15):
            self.feeds[name] = self.values[name] = self.rng.integers(0, 256, (FRAMES, *shape)).astype(np.uint8)
            self.inputs.append(helper.make_tensor_value_info(name, TensorProto.UINT8, [batch, *shape]))
            real = self.node("Cast", [name], to=TensorProto.FLOAT)
            return str(self.node(self.pick(["Mul", "Div"]), [real, self.const(2.0 ** self.pick([-4, 4]))]))
        x = np.round(self.rng.normal(size=(FRAMES, *shape)) * 24) / 16
        self.feeds[name] = self.values[name] = x.astype(np.float32)
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *shape]))
        return name

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add a node and run it; the name of its output, or the list of them."""
        stem = self.fresh(op.lower())
        names = [stem if k == 0 else f"{stem}.{k}" for k in range(outputs)]
        if not domain and self.chance(0.3):
            attributes = _defaults(op, self.opset) | attributes
        label = self.pick([stem, f"{op}_{len(self.nodes)}", ""])
        node = helper.make_node(op, list(inputs), names, label, domain=domain, **attributes)
        self.nodes.append(node)
        self.domains.add(domain)
        for name, value in zip(names, self._run(node, attributes), strict=True):
            self.values[name] = value
        for name in names:
            if self.inexact.intersection(inputs) or not _is_short(self.values[name]):
                self.inexact.add(name)
        return names[0] if outputs == 1 else names

    def _run(self, node: onnx.NodeProto, attributes: dict[str, Any]) -> list[Array]:
        operands = [self.values[name] if name else None for name in node.input]
        if node.domain:
            return [_quant(node.op_type, *operands, **attributes)]
        if node.op_type == "Clip" and operands[0].dtype == np.int16:  # onnxruntime has no kernel for it
            return [np.clip(*operands)]
        infos = [
            helper.make_tensor_value_info(f"i{k}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for k, x in enumerate(operands)
            if x is not None
        ]
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        plain.ClearField("input")
        plain.input.extend(f"i{k}" if x is not None else "" for k, x in enumerate(operands))
        plain.ClearField("output")
        plain.output.extend(f"o{k}" for k in range(len(node.output)))
        ends = [helper.make_empty_tensor_value_info(name) for name in plain.output]
        graph = helper.make_graph([plain], "one", infos, ends)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        if self.opset >= 21:
            model.ir_version = 10
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, {f"i{k}": x for k, x in enumerate(operands) if x is not None}))

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The whole file; nodes in any order now and then."""
        ends = []
        for name in outputs:
            kind = helper.np_dtype_to_tensor_dtype(self.values[name].dtype)
            ends.append(
                helper.make_tensor_value_info(name, kind, ["N", *self.shape(name)] if self.chance(0.5) else None)
            )
        if self.chance(0.1):
            self.rng.shuffle(self.nodes)  # type: ignore[arg-type]
        graph = helper.make_graph(self.nodes, "net", self.inputs, ends, self.initializers)
        opsets = [helper.make_opsetid(d, self.opset if not d else 1) for d in sorted({"", *self.domains})]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10 if self.opset >= 21 else 8)


def _is_short(value: Array) -> bool:
    """Whether all numbers are multiples of 2^-12 below 2^11: what is not was rounded, or soon will be."""
    if value.dtype.kind != "f":
        return True
    scaled = value.astype(np.float64) * 2.0**12
    return bool(np.all(scaled == np.rint(scaled)) and np.all(np.abs(scaled) < 2.0**23))


def _defaults(op: str, opset: int) -> dict[str, Any]:
    """The attributes of an operator that have a default, with it."""
    found = {}
    for name, attribute in onnx.defs.get_schema(op, opset, "").attributes.items():
        if attribute.default_value.name:
            found[name] = helper.get_attribute_value(attribute.default_value)
    return found


def _quant(
    op: str, x: Array, scale: Array, zero: Array | float = 0, bits: Array | float = 1, **attributes: Any
) -> Array:
    """The QONNX quantizers, by their definition."""
    if op == "BipolarQuant":
        return np.where(x >= 0, scale, -scale).astype(np.float32)
    signed, width = attributes["signed"], int(bits)
    lo = -(2 ** (width - 1)) + attributes["narrow"] if signed else 0
    hi = 2 ** (width - 1) - 1 if signed else 2**width - 1 - attributes["narrow"]
    codes = ROUNDING[attributes.get("rounding_mode", "ROUND").upper()](np.clip(x / scale + zero, lo, hi))
    return ((codes - zero) * scale).astype(np.float32)


ROUNDING: dict[str, Callable[[Array], Array]] = {
    "ROUND": np.rint,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ROUND_TO_ZERO": np.trunc,
    "UP": lambda y: np.sign(y) * np.ceil(np.abs(y)),
    "HALF_UP": lambda y: np.sign(y) * np.floor(np.abs(y) + 0.5),
    "HALF_DOWN": lambda y: np.sign(y) * np.ceil(np.abs(y) - 0.5),
}
"""Rounding modes of QONNX."""
