"""Cleaning of what torch's exporter writes: readable names, no traces of this machine, no shape arithmetic."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from headrace import __version__
from headrace.export.errors import ExportError
from headrace.export.opset import at_opset
from headrace.export.writing import LARGEST_FILE

_SCOPES = "pkg.torch.onnx.name_scopes"
_WITH_BIAS = ("Conv", "ConvTranspose")
_INT32, _INT64 = onnx.TensorProto.INT32, onnx.TensorProto.INT64
_PASSED_THROUGH = ("Identity", "Dropout")


def clean(
    model: onnx.ModelProto,
    opset_version: int,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> onnx.ModelProto:
    """*model* with readable names, constants as initializers, fixed shapes folded, nothing private left.

    Raises:
        ExportError: the operators cannot be expressed at *opset_version*, or the names do not fit.
    """
    if model.ByteSize() <= LARGEST_FILE:  # inference takes a serialized model
        model = onnx.shape_inference.infer_shapes(model)  # other executors need every shape
    _constants_to_initializers(model.graph)
    _remove_made_up_biases(model.graph)
    _fold_constants(model.graph)
    _fold_shape_arithmetic(model.graph)
    _name_global_pools(model.graph)
    _remove_pass_through(model.graph)
    remove_unused(model.graph)
    _rename(model.graph, input_names, output_names)
    _strip(model)
    imports = sorted(model.opset_import, key=lambda entry: entry.domain)  # some readers take the first for ONNX's own
    del model.opset_import[:]
    model.opset_import.extend(imports)
    model = at_opset(model, opset_version)
    if model.ByteSize() <= LARGEST_FILE:  # the checker takes a serialized model
        onnx.checker.check_model(model)
    return model


def _constants_to_initializers(graph: onnx.GraphProto) -> None:
    for node in [n for n in graph.node if n.op_type == "Constant"]:
        attribute = node.attribute[0]
        if attribute.name == "value":
            tensor = onnx.TensorProto()
            tensor.CopyFrom(attribute.t)
        else:
            dtype = np.int64 if "int" in attribute.name else np.float32
            tensor = numpy_helper.from_array(np.array(helper.get_attribute_value(attribute), dtype))
        tensor.name = node.output[0]
        graph.initializer.append(tensor)
        graph.node.remove(node)


def _remove_made_up_biases(graph: onnx.GraphProto) -> None:
    """The exporter gives a convolution without bias zeros that it computes from the shape of the weight."""
    producer = {out: node for node in graph.node for out in node.output}
    constants = {i.name: i for i in graph.initializer}
    for node in graph.node:
        expand = producer.get(node.input[2]) if node.op_type in _WITH_BIAS and len(node.input) > 2 else None
        if expand is None or expand.op_type != "Expand":
            continue
        name = expand.input[0]
        while name in producer and producer[name].op_type in ("Cast", "CastLike"):
            name = producer[name].input[0]
        if name in constants and not np.any(numpy_helper.to_array(constants[name])):
            del node.input[2]


def _fold_constants(graph: onnx.GraphProto) -> None:
    """Without casts and reshapes of small integer constants (bounds of slices, axes), or casts to what they are."""
    _fold_casts(graph)
    constants = {i.name: i for i in graph.initializer if i.data_type in (_INT64, _INT32) and len(i.dims) < 2}
    for node in list(graph.node):
        if node.op_type not in ("Cast", "Reshape") or any(name not in constants for name in node.input):
            continue
        value = numpy_helper.to_array(constants[node.input[0]])
        if node.op_type == "Reshape":
            value = value.reshape(numpy_helper.to_array(constants[node.input[1]]))
        elif node.attribute[0].i not in (_INT64, _INT32):
            continue
        else:
            value = value.astype(helper.tensor_dtype_to_np_dtype(node.attribute[0].i))
        constants[node.output[0]] = numpy_helper.from_array(value, node.output[0])
        graph.initializer.append(constants[node.output[0]])
        graph.node.remove(node)


def _fold_casts(graph: onnx.GraphProto) -> None:
    """``CastLike`` of a number, which the exporter writes for the bounds of a ``Clip``, is the number."""
    types = {v.name: v.type.tensor_type.elem_type for v in [*graph.input, *graph.value_info, *graph.output]}
    types |= {i.name: i.data_type for i in graph.initializer}
    constants = {i.name: i for i in graph.initializer if not i.dims}
    for node in list(graph.node):
        if node.op_type != "CastLike" or node.input[0] not in constants or not types.get(node.input[1]):
            continue
        value = numpy_helper.to_array(constants[node.input[0]])
        value = value.astype(helper.tensor_dtype_to_np_dtype(types[node.input[1]]))
        graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
        graph.node.remove(node)


def _fold_shape_arithmetic(graph: onnx.GraphProto) -> None:
    """``Reshape`` to a shape that depends on the batch size only: one -1 in a constant."""
    producer = {out: node for node in graph.node for out in node.output}
    constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:
        if node.op_type not in ("Reshape", "Expand") or node.input[1] in constants:
            continue
        shape = _shape_with_unknowns(node.input[1], producer, constants)
        if shape is None or node.op_type == "Expand" or sum(s == -1 for s in shape) > 1 or 0 in shape:
            continue
        name = node.output[0] + "_shape"
        graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), name))
        node.input[1] = name
    for node in graph.node:
        if node.op_type == "Reshape":
            kept = [a for a in node.attribute if a.name != "allowzero"]
            del node.attribute[:]
            node.attribute.extend(kept)


def _name_global_pools(graph: onnx.GraphProto) -> None:
    """A mean over the whole image is a ``GlobalAveragePool``, which more readers know."""
    values = [*graph.input, *graph.value_info, *graph.output]
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in values if v.type.tensor_type.HasField("shape")}
    constants = {i.name: i for i in graph.initializer}
    for node in graph.node:
        if node.op_type != "ReduceMean" or len(node.input) < 2 or node.input[1] not in constants:
            continue
        rank = ranks.get(node.input[0], 0)
        axes = {int(a) % rank for a in numpy_helper.to_array(constants[node.input[1]])} if rank > 2 else set()
        keeps = all(a.i == 1 for a in node.attribute if a.name == "keepdims")
        if keeps and axes == set(range(2, rank)):
            node.op_type = "GlobalAveragePool"
            del node.input[1:]
            del node.attribute[:]


def _shape_with_unknowns(
    name: str, producer: dict[str, onnx.NodeProto], constants: dict[str, np.ndarray]
) -> list[int] | None:
    """The shape tensor *name* with -1 for sizes of inputs; ``None`` if it is computed in another way."""
    if name in constants:
        return [int(v) for v in constants[name].reshape(-1)]
    node = producer.get(name)
    if node is None:
        return None
    if node.op_type == "Concat":
        parts = [_shape_with_unknowns(i, producer, constants) for i in node.input]
        return None if any(p is None for p in parts) else [v for p in parts if p is not None for v in p]
    if node.op_type in ("Reshape", "Squeeze", "Unsqueeze", "Cast"):
        inner = _shape_with_unknowns(node.input[0], producer, constants)
        return inner if inner is not None and len(inner) == 1 else None
    if node.op_type == "Shape":
        bounds = {a.name: a.i for a in node.attribute}
        return [-1] if bounds.get("end", 0) - bounds.get("start", 0) == 1 else None
    return None


def _remove_pass_through(graph: onnx.GraphProto) -> None:
    """Without identities, except from an input or initializer straight to an output."""
    outputs = {o.name for o in graph.output}
    alias: dict[str, str] = {}
    kept: list[onnx.NodeProto] = []
    producers = {out: node for node in graph.node for out in node.output}
    for node in graph.node:
        node.input[:] = [alias.get(i, i) for i in node.input]
        if node.op_type in _PASSED_THROUGH and node.domain == "" and node.output[0] not in outputs:
            alias[node.output[0]] = node.input[0]
            continue
        if node.op_type in _PASSED_THROUGH and node.domain == "" and node.input[0] in producers:
            _redirect(graph, kept, node.input[0], node.output[0])
            alias[node.input[0]] = node.output[0]
            continue
        kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)


def _redirect(graph: onnx.GraphProto, nodes: list[onnx.NodeProto], old: str, new: str) -> None:
    for node in nodes:
        node.output[:] = [new if o == old else o for o in node.output]
        node.input[:] = [new if i == old else i for i in node.input]


def remove_unused(graph: onnx.GraphProto) -> None:
    """Without nodes and initializers that no output depends on."""
    used = {o.name for o in graph.output}
    kept = []
    for node in reversed(graph.node):
        if any(out in used for out in node.output):
            kept.append(node)
            used.update(node.input)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    initializers = [i for i in graph.initializer if i.name in used]
    del graph.initializer[:]
    graph.initializer.extend(initializers)


def _module_path(node: onnx.NodeProto) -> str:
    """Path of the module that the node comes from."""
    for prop in node.metadata_props:
        if prop.key == _SCOPES:
            scopes = ast.literal_eval(prop.value)
            return str(scopes[-2]) if len(scopes) > 1 else ""
    return ""


class _Names:
    """Unique names."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = set(taken)

    def fresh(self, wanted: str) -> str:
        """*wanted*, or the first of ``wanted_1``, ``wanted_2``, ... that is free."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


def _rename(graph: onnx.GraphProto, input_names: Sequence[str] | None, output_names: Sequence[str] | None) -> None:
    new: dict[str, str] = {}
    initializers = {i.name for i in graph.initializer}
    data_inputs = [i for i in graph.input if i.name not in initializers]
    names = _Names({n for n in initializers if not _is_generated(n)})
    for kind, values, given in (("input", data_inputs, input_names), ("output", list(graph.output), output_names)):
        if given is not None and len(given) != len(values):
            raise ExportError(f"{kind}_names has {len(given)} names for {len(values)} {kind}s")
        for index, value in enumerate(values):
            wanted = given[index] if given is not None else (value.name if kind == "input" else "output")
            new.setdefault(value.name, names.fresh(wanted))
    node_names = _Names(set())
    for node in graph.node:
        path = _module_path(node)
        node.name = node_names.fresh(f"{path}.{node.op_type}" if path else node.op_type)
        for index, out in enumerate(node.output):
            suffix = "_out" if index == 0 else f"_out{index}"
            if out and out not in new:
                new[out] = names.fresh(node.name + suffix)
    _rename_constants(graph, new, names)
    _apply_names(graph, lambda n: new.get(n, n))


def _is_generated(name: str) -> bool:
    """Whether the exporter made up the name (``val_3``, ``linear_shape``)."""
    return re.fullmatch(r"val_\d+|.*_shape|.*_lifted_tensor_\d+|scalar_tensor.*", name) is not None


def _rename_constants(graph: onnx.GraphProto, new: dict[str, str], names: _Names) -> None:
    """Constants without a name of their own are called after the node that uses them."""
    constants = {i.name for i in graph.initializer}
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in constants and _is_generated(name) and name not in new:
                new[name] = names.fresh(f"{node.name}_param{index}")


def _apply_names(graph: onnx.GraphProto, rename: Callable[[str], str]) -> None:
    for node in graph.node:
        node.input[:] = [rename(i) for i in node.input]
        node.output[:] = [rename(o) for o in node.output]
    for value in [*graph.initializer, *graph.input, *graph.output, *graph.value_info]:
        value.name = rename(value.name)


def _strip(model: onnx.ModelProto) -> None:
    """Without stack traces, paths and other remarks of the exporter."""
    graph = model.graph
    known = {i.name for i in graph.initializer} | {i.name for i in graph.input} | {o.name for o in graph.output}
    produced = {out for node in graph.node for out in node.output}
    infos = [v for v in graph.value_info if v.name in produced and v.name not in known]
    del graph.value_info[:]
    graph.value_info.extend(infos)
    inputs = [i for i in graph.input if i.name not in {t.name for t in graph.initializer}]
    del graph.input[:]
    graph.input.extend(inputs)
    for item in [model, graph, *graph.node, *graph.initializer, *graph.value_info, *graph.input, *graph.output]:
        item.ClearField("doc_string")
        item.ClearField("metadata_props")
    graph.name = "headrace"
    model.producer_name = "headrace"
    model.producer_version = __version__
