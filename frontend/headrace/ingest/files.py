"""ONNX files on disk, with the weights that lie in files of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import onnx
from onnx.external_data_helper import load_external_data_for_model, uses_external_data

from headrace.errors import ModelError


def read_onnx(path: str | Path) -> onnx.ModelProto:
    """Read an ONNX file, with the weights that lie in files of their own.

    Raises:
        ModelError: when the file is missing or corrupt.
    """
    file = Path(path)
    if file.is_dir():
        raise ModelError(
            "is a folder, and no earlier build (it has no build.json); expected an ONNX model or a build's folder",
            file=str(path),
        )
    if not file.is_file():
        raise ModelError("no such file; expected an ONNX model", file=str(path))
    try:
        model = onnx.load(str(file), load_external_data=False)
    except Exception as error:  # protobuf raises several unrelated types
        raise ModelError(f"not a readable ONNX file ({first_line(error)})", file=str(path)) from error
    _load_external_data(model, file)
    return model


def unwrapped(model: onnx.ModelProto) -> onnx.ModelProto:
    """*model*, or what a ``ModelWrapper`` of qonnx holds."""
    inner = getattr(model, "model", None)
    return inner if isinstance(inner, onnx.ModelProto) else model


def _load_external_data(model: onnx.ModelProto, file: Path) -> None:
    """Weights in files of their own: only beside the model or below, whatever the model says."""
    folder = file.parent.resolve()
    tensors = [t for t in _all_tensors(model.graph) if uses_external_data(t)]
    for tensor in tensors:
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        relative = PurePosixPath(location)
        target = (folder / location).resolve()
        if not location or relative.is_absolute() or not target.is_relative_to(folder):
            raise ModelError(
                f"external data of tensor '{tensor.name}' lies outside the model's folder ({location!r})",
                file=str(file),
            )
        if not target.is_file():
            raise ModelError(f"external data file {location!r} of tensor '{tensor.name}' is missing", file=str(file))
    if tensors:
        try:
            load_external_data_for_model(model, str(folder))
        except Exception as error:
            raise ModelError(f"external data cannot be read ({first_line(error)})", file=str(file)) from error


def _all_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Initializers and tensors in attributes, those of subgraphs too: everything that the loader would fetch."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _all_tensors(inner)


def first_line(error: Exception) -> str:
    """What an error of another package says, as part of a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
