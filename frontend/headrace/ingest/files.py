"""ONNX files on disk, with the weights that lie in files of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path, PurePosixPath

import onnx
from onnx.external_data_helper import uses_external_data

from headrace.errors import ModelError

SHARED = 16
"""How often, on average, the bytes of external data may be referred to by several tensors."""


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


def refuse_external_data(model: onnx.ModelProto, file: str | None) -> None:
    """Refuse a model in memory whose weights lie in files: nothing says in which folder.

    Raises:
        ModelError: names the tensor.
    """
    for tensor in _all_tensors(model):
        if uses_external_data(tensor):
            raise ModelError(
                f"the data of tensor '{tensor.name}' lies in a file of its own; give the path of the model's file, or "
                "load the model with its data",
                file=file,
            )


def _load_external_data(model: onnx.ModelProto, file: Path) -> None:
    """Weights in files of their own: only beside the model or below, whatever the model says."""
    sizes: dict[Path, int] = {}
    total = 0
    for tensor in _all_tensors(model):
        if not uses_external_data(tensor):
            continue
        target, offset, length = _place(tensor, file)
        sizes[target] = target.stat().st_size
        total += length
        if total > SHARED * sum(sizes.values()):
            raise ModelError(f"external data of tensor '{tensor.name}' is shared by too many others", file=str(file))
        try:
            with target.open("rb") as source:
                source.seek(offset)
                tensor.raw_data = source.read(length)
        except (OSError, MemoryError, ValueError) as error:
            raise _external(tensor, file, f"cannot be read ({first_line(error)})") from error
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _external(tensor: onnx.TensorProto, file: Path, what: str) -> ModelError:
    return ModelError(f"external data of tensor '{tensor.name}' {what}", file=str(file))


def _place(tensor: onnx.TensorProto, file: Path) -> tuple[Path, int, int]:
    """The file with the data of *tensor*, and where in it.

    Raises:
        ModelError: when it is outside the folder of *file*, missing, or too short.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(entries) < len(tensor.external_data):
        raise _external(tensor, file, "is described twice")
    location = entries.get("location", "")
    relative, folder = PurePosixPath(location), file.parent.resolve()
    try:
        target = (folder / location).resolve()
        inside = bool(location) and not relative.is_absolute() and target.is_relative_to(folder)
        found = inside and target.is_file()
    except (OSError, ValueError, RuntimeError):  # a name too long, with a null character, or links in a circle
        inside = found = False
    if not inside:
        raise _external(tensor, file, f"lies outside the model's folder ({location!r})")
    if not found:
        raise ModelError(f"external data file {location!r} of tensor '{tensor.name}' is missing", file=str(file))
    size = target.stat().st_size
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries["length"]) if "length" in entries else size - offset
    except ValueError as error:
        raise _external(tensor, file, "has an offset or a length that is no integer") from error
    if not (0 <= offset <= size and 0 <= length <= size - offset):
        where = f"{length} bytes from {offset}" if "length" in entries else f"from {offset} on"
        raise _external(tensor, file, f"cannot be read ({where}, but {location!r} has {size} bytes)")
    return target, offset, length


def _all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Initializers and tensors in attributes, those of subgraphs and functions too."""
    yield from _graph_tensors(model.graph)
    yield from _node_tensors(chain.from_iterable(function.node for function in model.functions))


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graph_tensors(inner)


def first_line(error: Exception) -> str:
    """What an error of another package says, as part of a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
