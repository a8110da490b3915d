"""Expressing a model at another opset.

onnx's own converter has no adapters for operators that merely gained data types (Relu at 14), so a node whose form is
legal at the requested version is kept as it is; the few operators that changed their form are rewritten here, and what
is left goes to the converter.
"""

from __future__ import annotations

import onnx
from onnx import defs, helper, numpy_helper

from headrace.export.errors import ExportError

_AXES_BECAME_INPUT = {
    "ReduceMean": 18,
    "ReduceMax": 18,
    "ReduceMin": 18,
    "ReduceProd": 18,
    "ReduceL1": 18,
    "ReduceL2": 18,
    "ReduceSumSquare": 18,
}
_OLDEST_IR = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9}


def at_opset(model: onnx.ModelProto, opset_version: int) -> onnx.ModelProto:
    """*model* with its standard operators at *opset_version*.

    Raises:
        ExportError: an operator has no equivalent there.
    """
    standard = next((o for o in model.opset_import if o.domain == ""), None)
    if standard is None or standard.version == opset_version:
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    _axes_to_attributes(changed.graph, opset_version)
    obstacle = next((n for n in changed.graph.node if n.domain == "" and not _is_legal(n, opset_version)), None)
    if obstacle is None:
        next(o for o in changed.opset_import if o.domain == "").version = opset_version
        changed.ir_version = min(changed.ir_version, _OLDEST_IR.get(opset_version, changed.ir_version))
        return changed
    try:
        converted: onnx.ModelProto = onnx.version_converter.convert_version(model, opset_version)
    except Exception as error:  # the converter raises its own types without a common base
        raise ExportError(
            f"opset_version={opset_version}: node {obstacle.name} ({obstacle.op_type}) has no equivalent there; "
            f"the model was built for opset {standard.version}"
        ) from error
    return converted


def _is_legal(node: onnx.NodeProto, version: int) -> bool:
    """Whether the operator existed at *version* with these inputs and attributes."""
    try:
        schema = defs.get_schema(node.op_type, version)
    except defs.SchemaError:
        return False
    attributes = set(schema.attributes)
    if any(a.name not in attributes for a in node.attribute):
        return False
    return schema.min_input <= len(node.input) <= schema.max_input and len(node.output) <= schema.max_output


def _axes_to_attributes(graph: onnx.GraphProto, version: int) -> None:
    """Reductions took their axes as an attribute once."""
    constants = {i.name: i for i in graph.initializer}
    for node in graph.node:
        if version < _AXES_BECAME_INPUT.get(node.op_type, 0) and len(node.input) > 1 and node.input[1] in constants:
            axes = numpy_helper.to_array(constants[node.input[1]]).reshape(-1).tolist()
            del node.input[1]
            kept = [a for a in node.attribute if a.name != "noop_with_empty_axes"]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute("axes", axes)])
