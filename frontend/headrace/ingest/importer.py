"""ONNX files to source graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
import onnx
from onnx.inliner import inline_local_functions

from headrace.errors import ModelError, UnsupportedError, did_you_mean
from headrace.ingest.batch import BatchConstants
from headrace.ingest.bounds import GROWTH, check_broadcast, check_functions, check_numbers, too_large
from headrace.ingest.constants import fold
from headrace.ingest.files import first_line, read_onnx, refuse_external_data, unwrapped
from headrace.ingest.host import host_operator
from headrace.ingest.operands import Node, Operand, Tensors
from headrace.ingest.refusals import stand_ins, together
from headrace.ingest.rules import (
    DOMAINS,
    ONNX,
    find_rule,
    ignored_attributes,
    operators,
    sequence_operators,
    takes_constants,
)
from headrace.ingest.versions import opset_versions
from headrace.ingest.windows import with_products
from headrace.ir import FloatType, Graph, IntRange, TensorType
from headrace.ir.grid import Constant
from headrace.ir.types import MOST_ELEMENTS

_FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16}
_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What rules may raise on a damaged node, besides the errors that they know."""

_QUANTIZERS = {"Quant", "IntQuant", "BipolarQuant", "Trunc", "QuantizeLinear", "DequantizeLinear"}


def load_onnx(path: str | Path) -> Graph:
    """Read an ONNX file as a source graph.

    Raises:
        ModelError: when the file is missing, corrupt, or not a model that can be read; names file and node.
    """
    return from_proto(read_onnx(path), str(path))


def from_proto(model: onnx.ModelProto, file: str | None = None) -> Graph:
    """Turn an ONNX model in memory into a source graph.

    Raises:
        ModelError: see :func:`load_onnx`.
    """
    model = unwrapped(model)
    if not isinstance(model, onnx.ModelProto):
        raise ModelError(f"expected an onnx.ModelProto or a path, not {type(model).__name__}", file=file)
    if not model.HasField("graph") or not model.graph.output:
        raise ModelError("not an ONNX model: it holds no graph with outputs", file=file)
    if not all(isinstance(text, str) for text in _texts(model.graph)):
        raise ModelError("not an ONNX model: one of its names is not UTF-8 text", file=file)
    refuse_external_data(model, file)
    if model.functions:
        check_functions(model, file)
        try:
            model = inline_local_functions(model)
        except Exception as error:  # the inliner is compiled code with exceptions of its own
            raise ModelError(f"its local functions cannot be inlined ({first_line(error)})", file=file) from error
    return _Import(model, file).run()


def from_bytes(data: bytes, file: str | None = None) -> Graph:
    """Turn a serialised ONNX model, without files beside it, into a source graph.

    Raises:
        ModelError: see :func:`load_onnx`.
    """
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf raises several unrelated types
        raise ModelError(f"not a readable ONNX model ({first_line(error)})", file=file) from error
    return from_proto(model, file)


def _texts(graph: onnx.GraphProto) -> Iterator[object]:
    """Every name in a graph; the protobuf library hands out bytes where a damaged file has no text."""
    yield graph.name
    for named in (*graph.input, *graph.output, *graph.initializer, *graph.node):
        yield named.name
    for node in graph.node:
        yield from (node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _label(node: onnx.NodeProto) -> str:
    """How errors call a node: by its name, or by what it makes."""
    return f"'{node.name or next((out for out in node.output if out), '')}' ({node.op_type})"


class _Import:
    """One import: tensor names to operands, filled node by node."""

    def __init__(self, model: onnx.ModelProto, file: str | None) -> None:
        self.proto = model.graph
        self.nodes = with_products(model.graph)
        self.file = file
        self.graph = Graph(model.graph.name or "model", file)
        self.env: dict[str, Operand | Tensors | None] = {"": None}
        self.skipped: set[str] = set()
        self.opsets = opset_versions(model, file)
        self.batch = 1
        self.symbolic = False
        self.by_batch = BatchConstants()
        self.computable = MOST_ELEMENTS  # elements that all constants yet to be computed may have
        self.producers = {out: n.name or n.op_type for n in self.nodes for out in n.output if out}
        reads = {name for n in self.nodes for name in n.input}
        self.readers = frozenset(reads | {o.name for o in self.proto.output})

    def run(self) -> Graph:
        """Build the graph."""
        self._parameters()
        self._inputs()
        nodes = self._sorted()
        refused = {**self._unknown(nodes), **self._computed_parameters(nodes)}
        problems = list(refused.values())
        for k, proto in enumerate(nodes):
            if any(name in self.skipped for name in proto.input):
                self.skipped.update(out for out in proto.output if out)
                continue
            node = self._view(proto)
            try:
                if k not in refused:
                    with np.errstate(all="ignore"):  # infinities and NaN among constants are judged where used
                        self._node(node)
                    continue
            except ModelError as error:
                problems.append(error)
            except MemoryError:
                problems.append(node.error("there is not enough memory for its constants"))
            except _MALFORMED as error:
                reason = f"{type(error).__name__}: {first_line(error)}"
                problems.append(node.error(f"its operands and attributes do not fit its operator ({reason})"))
            self._stand_in(node)
        if problems:
            raise together(problems, self.file)
        for info in self.proto.output:
            self._output(info)
        if not self.graph.outputs:
            raise self._error(f"graph output '{self.proto.output[0].name}' does not depend on the input")
        return self.graph.live()

    def _stand_in(self, node: Node) -> None:
        """Let the import go on behind a refused node, to find what else is wrong; what cannot be is skipped."""
        for out, found in zip(node.proto.output, stand_ins(node), strict=True):
            if out and found is None:
                self.skipped.add(out)
            elif out:
                self.env[out] = found

    def _error(self, message: str, node: onnx.NodeProto | None = None) -> ModelError:
        return ModelError(message, node=None if node is None else _label(node), file=self.file)

    # -- graph ends -----------------------------------------------------------------------------------------

    def _parameters(self) -> None:
        if self.proto.sparse_initializer:
            raise self._error("sparse initializers are not supported")
        for tensor in self.proto.initializer:
            if any(n < 0 for n in tensor.dims):
                raise self._error(f"initializer '{tensor.name}' cannot be read (its shape is {list(tensor.dims)})")
            try:
                array = np.asarray(onnx.numpy_helper.to_array(tensor))
            except Exception as error:
                raise self._error(f"initializer '{tensor.name}' cannot be read ({first_line(error)})") from error
            self.env[tensor.name] = Constant(array)
            self.computable += GROWTH * array.size

    def _inputs(self) -> None:
        real = [info for info in self.proto.input if info.name not in self.env]
        for info in real:
            if info.name in self.graph.inputs:
                raise self._error(f"two graph inputs are called '{info.name}'")
            shape, batch = self._declared_shape(info)
            self.symbolic |= batch is None
            self.batch = batch or 1
            self.env[info.name] = self.graph.input(info.name, TensorType(shape, self._element(info)))

    def _declared_shape(self, info: onnx.ValueInfoProto) -> tuple[tuple[int, ...], int | None]:
        kind = info.type.tensor_type
        if not info.type.HasField("tensor_type") or not kind.HasField("shape") or not kind.shape.dim:
            raise self._error(
                f"graph input '{info.name}' needs a tensor type with a shape whose first axis is the batch"
            )
        dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        frame = dims[1:]
        if any(n is None or n < 1 for n in frame):
            raise self._error(
                f"graph input '{info.name}' has shape {[n or '?' for n in dims]}; only the first axis (the batch) "
                "may be symbolic"
            )
        return tuple(int(n) for n in frame if n is not None), dims[0] or None

    def _element(self, info: onnx.ValueInfoProto) -> FloatType | IntRange:
        code = info.type.tensor_type.elem_type
        if code in _FLOATS:
            return FloatType()
        try:
            kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
            limits = np.iinfo(kind)
        except (KeyError, ValueError, TypeError) as error:
            raise self._error(f"graph input '{info.name}' is neither of a float nor of an integer type") from error
        if kind.itemsize > 4:
            return IntRange(-(2**31), 2**31 - 1)
        return IntRange(int(limits.min), int(limits.max))

    def _output(self, info: onnx.ValueInfoProto) -> None:
        if info.name in self.graph.outputs or info.name in self.graph.constant_outputs:
            raise self._error(f"two graph outputs are called '{info.name}'")
        operand = self.env.get(info.name)
        if operand is None:
            raise self._error(f"graph output '{info.name}' is made by no node")
        if isinstance(operand, Tensors):
            raise self._error(f"graph output '{info.name}' is a sequence of tensors; give each an output of its own")
        code = info.type.tensor_type.elem_type or onnx.TensorProto.FLOAT
        try:
            kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
        except KeyError as error:
            raise self._error(f"graph output '{info.name}' has unknown element type {code}") from error
        if isinstance(operand, Constant):
            self.by_batch.check_output(info.name, self.file)
            self.graph.constant_outputs[info.name] = np.asarray(operand.value, kind)
        else:
            self.graph.output(info.name, operand, kind.name)

    # -- nodes ----------------------------------------------------------------------------------------------

    def _sorted(self) -> list[onnx.NodeProto]:
        """Nodes in an order in which every operand comes first; files need not be sorted.

        Raises:
            ModelError: for a tensor that nothing makes, one that two nodes make, or a cycle.
        """
        known = set(self.env)
        made: set[str] = set(known)
        nodes = self.nodes
        readers: dict[str, list[int]] = {}
        missing = []
        for k, node in enumerate(nodes):
            for out in node.output:
                if out and out in made:
                    raise self._error(f"tensor '{out}' is made twice", node)
                made.add(out)
            reads = {name for name in node.input if name not in known}
            missing.append(len(reads))
            for name in reads:
                readers.setdefault(name, []).append(k)
        ready, order = [k for k, count in enumerate(missing) if not count], []
        while ready:
            order.append(heappop(ready))
            for name in {*nodes[order[-1]].output}:
                for k in readers.pop(name, ()):
                    missing[k] -= 1
                    if not missing[k]:
                        heappush(ready, k)
        if len(order) < len(nodes):
            node = next(node for node, count in zip(nodes, missing, strict=True) if count)
            name = next(n for n in node.input if n in readers)
            why = "is made by no node" if name not in made else "depends on itself (the graph has a cycle)"
            raise self._error(f"its input '{name}' {why}", node)
        return [nodes[k] for k in order]

    def _unknown(self, nodes: Sequence[onnx.NodeProto]) -> dict[int, ModelError]:
        """Operators and domains that are unknown, by position."""
        problems: dict[int, ModelError] = {}

        def refuse(k: int, message: str) -> None:
            problems[k] = UnsupportedError(message, node=_label(nodes[k]), file=self.file)

        for k, node in enumerate(nodes):
            if node.domain not in DOMAINS:
                listed = ", ".join(sorted(d for d in DOMAINS if d))
                refuse(k, f"operator domain '{node.domain}' is unknown; known: {listed}")
                continue
            domain = DOMAINS[node.domain]
            if find_rule(domain, node.op_type) is not None or (domain == ONNX and _is_standard(node.op_type)):
                continue
            known = operators(domain)
            hint = did_you_mean(node.op_type, known)
            if domain == ONNX:
                refuse(k, f"'{node.op_type}' is no operator of ONNX{hint}")
            else:
                text = f"operator '{node.op_type}' of domain '{node.domain}' is unknown{hint}; known: "
                refuse(k, text + ", ".join(known))
        return problems

    def _computed_parameters(self, nodes: Sequence[onnx.NodeProto]) -> dict[int, ModelError]:
        """Quantizers whose parameters are computed from the data, by position."""
        fixed = {name for name, x in self.env.items() if x is None or isinstance(x, Constant)}
        problems: dict[int, ModelError] = {}
        names = {1: "scale", 2: "zero point", 3: "bit width", 4: "output parameter", 5: "output bit width"}
        for k, node in enumerate(nodes):
            if all(name in fixed for name in node.input):
                fixed.update(node.output)
            elif node.op_type in _QUANTIZERS:
                computed = [position for position, name in enumerate(node.input) if position and name not in fixed]
                if computed:
                    what = names.get(computed[0], "parameter")
                    source = self.producers.get(node.input[computed[0]], node.input[computed[0]])
                    problems[k] = UnsupportedError(
                        f"its {what} is not constant: it is computed from the data at run time by node '{source}'; "
                        f"only a static {what} can become hardware",
                        node=_label(node),
                        file=self.file,
                    )
        return problems

    def _view(self, proto: onnx.NodeProto) -> Node:
        """What rules see of a node."""
        found = [self.env[name] for name in proto.input]
        inputs = tuple(None if isinstance(x, Tensors) else x for x in found)
        sequences = {k: x for k, x in enumerate(found) if isinstance(x, Tensors)}
        opset = self.opsets.get("" if proto.domain == "ai.onnx" else proto.domain, self.opsets[""])
        name = proto.name or next((out for out in proto.output if out), proto.op_type)
        return Node(proto, name, inputs, self.graph, opset, self.batch, self.producers, self.readers, sequences)

    def _node(self, node: Node) -> None:
        proto, inputs, domain = node.proto, node.inputs, DOMAINS[node.proto.domain]
        constant = all(x is None or isinstance(x, Constant) for x in inputs)
        results: Sequence[Operand | Tensors | None]
        rule = find_rule(domain, proto.op_type)
        if node.sequences and (domain != ONNX or proto.op_type not in sequence_operators()):
            raise node.unsupported(
                f"its input {min(node.sequences)} is a sequence of tensors, which it does not take here; "
                f"only {', '.join(sequence_operators())} do"
            )
        if constant and self.computable < 0:
            raise node.error("the constants before it are too large")
        if constant and not takes_constants(domain, proto.op_type):
            if domain != ONNX:
                raise node.error("it only has constant inputs, which this operator does not take")
            results = folded = fold(node, [x for x in inputs if x is None or isinstance(x, Constant)])
            self.by_batch.folded(node, folded)
        elif proto.op_type == "Shape" and domain == ONNX:
            x = node.value(0)
            full = np.array([self.batch, *node.shape(x)], np.int64)
            selected = slice(node.integer("start", 0), node.integer("end", len(full)))
            results = [Constant(full[selected])]
            if self.symbolic:
                self.by_batch.shape_of(node, full, selected)
        elif rule is not None:
            self.by_batch.check(node)
            check_numbers(node)
            if constant:
                check_broadcast(node, [x.value for x in inputs if isinstance(x, Constant)])
            results = rule(node)
            _check_attributes(node, domain)
        else:
            self.by_batch.check(node)
            results = host_operator(node)
        for made in results:
            self.computable -= made.value.size if isinstance(made, Constant) else 0
            if isinstance(made, Constant) and self.computable < 0:
                raise too_large(node, made.value.shape)
        for position, out in enumerate(proto.output):
            if out and position < len(results):
                self.env[out] = results[position]
            elif node.used(position):
                raise node.unsupported(f"its output {position} ('{out}') is read; only {len(results)} are supported")


def _check_attributes(node: Node, domain: str) -> None:
    """Refuse attributes that the rule has not asked for, unless they are known to change nothing, as defaults do.

    Raises:
        UnsupportedError: names the attribute.
    """
    known = node.seen | ignored_attributes(domain, node.proto.op_type)
    for attribute in node.proto.attribute:
        if attribute.name not in known and not _is_default(node, attribute):
            hint = did_you_mean(attribute.name, known)
            raise node.unsupported(f"its attribute '{attribute.name}' is not supported{hint}")


def _is_default(node: Node, attribute: onnx.AttributeProto) -> bool:
    """Whether an attribute of a standard operator has the value that it has when it is left out."""
    try:
        schema = onnx.defs.get_schema(node.proto.op_type, node.opset, node.proto.domain)
    except onnx.defs.SchemaError:
        return False
    stated = schema.attributes.get(attribute.name)
    if stated is None or not stated.default_value.name:
        return False
    default = onnx.helper.get_attribute_value(stated.default_value)
    return bool(default == onnx.helper.get_attribute_value(attribute))


def _is_standard(operator: str) -> bool:
    try:
        onnx.defs.get_schema(operator)
    except onnx.defs.SchemaError:
        return False
    return True


__all__ = ["from_proto", "load_onnx"]
