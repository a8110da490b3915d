"""Graphs in files: a zip archive of one JSON text, ``graph.json``, and the arrays in NumPy's own format.

Operators are written by module and class, their fields by name; reading builds them again through their constructors
and type rules. Nothing in a file is executed, nothing is unpacked to disk: only operators of Headrace, and the frozen
dataclasses that they are made of, can come out.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import InputError, ModelError
from headrace.ir.graph import Graph, Value
from headrace.ir.op import Array, Op, told_fields
from headrace.whole_files import output_file

FORMAT = "headrace-graph"
VERSION = 1

TEXT = "graph.json"

PACKAGES = ("adder_graph", "ir", "layers", "ingest")
"""Parts of Headrace whose classes a file may name."""

_CLASS = re.compile(r"(?P<module>[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*)\.(?P<name>[A-Z][A-Za-z0-9]*)")

_PLAIN = (bool, int, str, type(None))


def save_graph(graph: Graph, path: str | Path) -> None:
    """Write *graph*; equal graphs give equal bytes.

    Raises:
        InputError: when the file cannot be written; nothing is left of it then.
        TypeError: when an operator has a field that cannot be written, which is a fault of the operator.
    """
    target = Path(path)
    arrays = _Arrays()
    text = {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "inputs": {name: graph.input_node(name) for name in graph.inputs},
        "outputs": {name: graph.output_node(name) for name in graph.outputs},
        "constant_outputs": {name: arrays.written(value) for name, value in graph.constant_outputs.items()},
        "nodes": [_written_node(graph, node, arrays) for node in graph],
    }
    try:
        with output_file(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(zipfile.ZipInfo(TEXT), json.dumps(text, indent=1))
            for k, array in enumerate(arrays.kept):
                archive.writestr(zipfile.ZipInfo(_member(k)), _array_bytes(array))
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror})") from error


def load_graph(path: str | Path) -> Graph:
    """Read a graph that :func:`save_graph` wrote.

    Raises:
        ModelError: when *path* is no such file, or one of another version, or does not fit together; names the node.
    """
    file = str(path)
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            if sum(sizes.values()) > os.path.getsize(path):
                raise ModelError("holds packed members; a saved graph has none", file=file)
            text = json.loads(archive.read(TEXT))
            count = sum(name.startswith("arrays/") for name in sizes)
            kept = [
                np.lib.format.read_array(io.BytesIO(archive.read(_member(k))), allow_pickle=False) for k in range(count)
            ]
    except OSError as error:
        raise ModelError(f"cannot be read ({error.strerror or error})", file=file) from error
    except MemoryError as error:
        raise ModelError("there is not enough memory for the arrays of the saved graph", file=file) from error
    except ModelError:
        raise
    except Exception as error:  # damaged files make numpy and zipfile raise anything
        raise ModelError("is not a saved graph", file=file) from error
    if not isinstance(text, dict) or text.get("format") != FORMAT:
        raise ModelError("is not a saved graph", file=file)
    if text.get("version") != VERSION:
        raise ModelError(f"is a saved graph of version {text.get('version')!r}; expected {VERSION}", file=file)
    return _Reader(file, kept).graph(text)


class _Arrays:
    """The arrays of a graph, each once."""

    def __init__(self) -> None:
        self.kept: list[Array] = []
        self._known: dict[int, tuple[Array, int]] = {}

    def written(self, array: Array) -> dict[str, object]:
        """What stands for *array* in the text; integers are kept in as few bytes as hold them."""
        if id(array) not in self._known:
            self._known[id(array)] = (array, len(self.kept))  # which also keeps its id
            self.kept.append(_narrowed(array))
        number = self._known[id(array)][1]
        same = self.kept[number].dtype == array.dtype
        return {"array": number} if same else {"array": number, "type": str(array.dtype)}


def _narrowed(array: Array) -> Array:
    if array.dtype != np.int64 or array.size == 0:
        return array
    kinds = (np.min_scalar_type(int(end)) for end in (min(array.min(), -1), array.max()))
    return array.astype(np.promote_types(*kinds), copy=False)


def _member(number: int) -> str:
    return f"arrays/{number}.npy"


def _array_bytes(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def _written_node(graph: Graph, node: str, arrays: _Arrays) -> dict[str, object]:
    try:
        op = _written(graph.op(node), arrays)
    except TypeError as error:
        raise TypeError(f"node '{node}': {error}") from error
    return {"name": node, "op": op, "reads": [[v.node, v.port] for v in graph.sources(node)]}


def _written(value: object, arrays: _Arrays) -> object:
    """*value* as JSON: numbers, texts and None as they are, everything else as an object with one telling key."""
    if isinstance(value, Enum):
        return {"choice": _class_name(type(value)), "name": value.name}
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        return arrays.written(value)
    if isinstance(value, np.generic):
        return {"number": arrays.written(np.asarray(value))}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, tuple | list):
        items = [_written(item, arrays) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, Mapping):
        return {"map": [[_written(k, arrays), _written(v, arrays)] for k, v in value.items()]}
    if is_dataclass(value) and not isinstance(value, type):
        own = {f.name: _written(getattr(value, f.name), arrays) for f in told_fields(value) if f.init}
        return {"class": _class_name(type(value)), "fields": own}
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def _class_name(kind: type) -> str:
    """Module and name, without the name of the distribution."""
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("headrace.")
    if not _CLASS.fullmatch(name) or name.split(".")[0] not in PACKAGES:
        raise TypeError(f"a {kind.__qualname__} of {kind.__module__} cannot be saved")
    return name


def _find_class(name: object) -> type:
    """The operator, frozen dataclass or enumeration of that name.

    Raises:
        ValueError: when there is none.
    """
    match = _CLASS.fullmatch(name) if isinstance(name, str) else None
    if match is not None and match["module"].split(".")[0] in PACKAGES:
        full = f"headrace.{match['module']}"
        try:
            importlib.import_module(full)
        except ImportError:
            full = ""
        kind = getattr(sys.modules.get(full), match["name"], None)
        if isinstance(kind, type) and kind.__module__ == full and (_is_record(kind) or issubclass(kind, Enum)):
            return kind
    raise ValueError(f"there is no operator {name!r} in this version of Headrace")


def _is_record(kind: type) -> bool:
    """Whether *kind* is a frozen dataclass: one that holds values and does nothing when it is made."""
    return is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


class _Reader:
    """Reads the text of one file."""

    def __init__(self, file: str, arrays: list[Array]) -> None:
        self.file = file
        self.arrays = arrays
        self._typed: dict[tuple[int, str | None], Array] = {}

    def graph(self, text: Mapping[str, Any]) -> Graph:
        """The graph that *text* describes."""
        graph = Graph("", self.file)
        try:
            graph.name = str(text["name"])
            public = {node: name for ends in (text["inputs"], text["outputs"]) for name, node in ends.items()}
            nodes = list(text["nodes"])
            graph.constant_outputs = {str(k): self._array(v) for k, v in text["constant_outputs"].items()}
        except (KeyError, TypeError, ValueError, AttributeError, MemoryError) as error:
            raise ModelError(f"is a saved graph that lacks a part ({error!r})", file=self.file) from error
        for entry in nodes:
            self._node(graph, entry, public)
        made = {graph.input_node(n): n for n in graph.inputs} | {graph.output_node(n): n for n in graph.outputs}
        if made != public:
            raise ModelError("is a saved graph whose inputs and outputs are not those of its nodes", file=self.file)
        return graph

    def _node(self, graph: Graph, entry: Any, public: Mapping[str, str]) -> None:
        name = entry.get("name") if isinstance(entry, dict) else None
        try:
            op = self._value(entry["op"])
            sources = [Value(str(node), int(port)) for node, port in entry["reads"]]
            if not isinstance(op, Op):
                raise ValueError(f"{type(op).__name__} is no operator")
            if any(v.node not in graph or not 0 <= v.port < len(graph.types(v.node)) for v in sources):
                raise ValueError("it reads a tensor that no node before it makes")
            if not isinstance(name, str) or name in graph:
                raise ValueError("its name is missing or taken")
            graph.add(op, sources, name, public.get(name))
        except ModelError:
            raise
        except Exception as error:  # constructors and type rules given anything may raise anything
            raise ModelError(
                f"is a saved graph that does not fit together: {error}", node=f"'{name}'", file=self.file
            ) from error

    def _array(self, entry: Any) -> Array:
        number, kind = entry["array"], entry.get("type")
        if not isinstance(number, int) or not 0 <= number < len(self.arrays):
            raise ValueError(f"there is no array {number!r}")
        if kind not in (None, "int64"):
            raise ValueError(f"there are no arrays of type {kind!r}")
        if (number, kind) not in self._typed:
            array = self.arrays[number]
            self._typed[number, kind] = array if kind is None else array.astype(np.int64)
        return self._typed[number, kind]

    def _value(self, entry: Any) -> Any:
        if isinstance(entry, list):
            return [self._value(item) for item in entry]
        if not isinstance(entry, dict):
            return entry
        if "class" in entry:
            kind = _find_class(entry["class"])
            given = {str(k): self._value(v) for k, v in entry["fields"].items()}
            for f in fields(kind):
                if f.name in given and not isinstance(given[f.name], _EXPECTED.get(str(f.type), object)):
                    raise ValueError(f"{kind.__name__} has no {f.name} of type {type(given[f.name]).__name__}")
            return kind(**given)
        if "array" in entry:
            return self._array(entry)
        if "choice" in entry:
            return _find_class(entry["choice"])[entry["name"]]  # type: ignore[index]
        (key, inner), *more = entry.items()
        if more or key not in _READERS:
            raise ValueError(f"an entry {sorted(entry)} is of no known kind")
        return _READERS[key](self, inner)


_EXPECTED: dict[str, type | tuple[type, ...]] = {
    "int": (int, np.integer),
    "float": (float, int, np.number),
    "str": str,
    "bool": (bool, np.bool_),
    **dict.fromkeys(("Array", "Int", "Single", "Double"), np.ndarray),
}
"""Types of fields that are checked, by how they are annotated."""

_READERS: dict[str, Any] = {
    "number": lambda reader, inner: reader._array(inner)[()],
    "float": lambda reader, inner: float(inner),
    "bytes": lambda reader, inner: base64.b64decode(inner, validate=True),
    "tuple": lambda reader, inner: tuple(reader._value(item) for item in inner),
    "map": lambda reader, inner: {reader._value(k): reader._value(v) for k, v in inner},
}
"""How the values that are no classes are read, by the key that tells them."""
