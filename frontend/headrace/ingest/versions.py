"""Versions of operator sets: what a node means depends on them, so that one which is not known is refused."""

from __future__ import annotations

import onnx

from headrace.errors import ModelError

NEWEST_OPSET = 28
"""Of ONNX: the rules of import were written with the operators up to this one in mind."""

_ONNX = ("", "ai.onnx")


def opset_versions(model: onnx.ModelProto, file: str | None) -> dict[str, int]:
    """The version of the operator set of every domain; ``""`` is that of ONNX, under either of its names.

    Raises:
        ModelError: when the file is of a format that the installed package cannot know, or of operators that nobody
            here knows, or has none or two versions of one operator set.
    """
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"has IR version {model.ir_version}, which is newer than {onnx.IR_VERSION}, the newest that onnx "
            f"{onnx.__version__} reads; update onnx, or export the model with an older one",
            file=file,
        )
    found: dict[str, int] = {}
    for entry in model.opset_import:
        domain, version = "" if entry.domain in _ONNX else entry.domain, int(entry.version)
        if found.setdefault(domain, version) != version:
            raise ModelError(
                f"imports versions {found[domain]} and {version} of the operators of '{domain or 'ai.onnx'}'; expected "
                "one",
                file=file,
            )
    if "" not in found and any(node.domain in _ONNX for node in model.graph.node):
        raise ModelError(
            f"does not say of which opset its operators are; expected a version of 'ai.onnx', 1 to {NEWEST_OPSET}, in "
            "its opset_import",
            file=file,
        )
    opset = found.setdefault("", NEWEST_OPSET)
    if not 1 <= opset <= NEWEST_OPSET:
        raise ModelError(
            f"is of opset {opset}; opsets 1 to {NEWEST_OPSET} are known, and what a node means depends on it: export "
            f"the model with opset_version={NEWEST_OPSET} or lower",
            file=file,
        )
    return found
