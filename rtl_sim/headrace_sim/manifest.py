"""The design manifest: the only thing headrace_sim knows about a design.

`design.json` lies in the root folder of a generated design::

    {"format": "headrace-design", "version": 1, "name": "tfc", "top": "tfc", "digest": "<hex>",
     "clock": "ap_clk", "reset": "ap_rst_n",
     "sources": ["rtl/a.sv", ...],       relative to the manifest's folder, in compile order
     "memories": ["rtl/x.hex", ...],     $readmemh files, opened by base name at run time
     "inputs":  [{"port": "s_axis_0", "tensor": "x", "bits": 2, "encoding": "signed",
                  "elements_per_word": 4, "frame_elements": 784, "tdata_bits": 8}, ...],
     "outputs": [the same fields, "port": "m_axis_0", ...],
     "streams": [{"name": "fc1_out", "layer": "fc1", "signal": "s_fc1_out", "bits": 2,
                  "encoding": "signed", "elements_per_word": 2, "frame_elements": 64}, ...],
     "interval_cycles": 128, "latency_cycles": 300,
     "layers": [{"name": "fc1", "kind": "MVAU", "cycles": 128, "outputs": ["fc1_out"]}, ...],
     "hls": ["hls/tfc.cpp", ...],        the same design in C++, with its test bench; may be left out
     "control": "s_axi_control", "control_address_bits": 14,          an AXI4-Lite slave; may be left out
     "models": ["ip/a_hls/model/a_hls.sv", "ip/a_hls/a_hls.cpp", ...]}    simulated in place of IPs; may be left out

Contract with the code generator:

* The top module has the ports `<clock>`, `<reset>` (synchronous, active low) and, for every stream
  port P, `P_tdata` (exactly tdata_bits wide), `P_tvalid`, `P_tready`, `P_tlast`.
* A word carries elements_per_word elements of `bits` bits, element 0 in the least significant bits
  and no padding between elements; zeros fill it up to tdata_bits. A frame is
  frame_elements / elements_per_word words; tlast marks the last word of every frame.
* `encoding` is "signed" (two's complement), "unsigned", or "bipolar" (one bit: -1 is 0, +1 is 1).
* An internal stream S is observed as three signals declared in the scope of the top module:
  `<signal>_tdata` (a packed vector of exactly bits * elements_per_word bits, or one bit),
  `<signal>_tvalid` and `<signal>_tready`. **They need no mark in the RTL**: when a simulation traces,
  headrace_sim writes a Verilator control file (`public_flat_rd -module <top> -var <signal>_tdata`)
  beside the model, so that the sources stay free of simulator pragmas and a simulation that does not trace
  runs at full speed. The names must be plain identifiers (no escaped names), not
  inside a generate block, and not arrays of streams.
* `sources` may be empty when `hls` is not. Every file of `hls` that ends in .cpp is compiled, with the folders of
  files that end in .h as include folders. A stream's `hls` is the name of the `hls::stream` that carries
  its words.
* `models` stand in for modules that the RTL instantiates and another tool makes. Every file that ends in .sv is
  compiled with `sources`, and calls what is in those that end in .cpp (DPI-C); these are compiled with
  HEADRACE_DATAFLOW, the folders of files that end in .h as include folders, and linked to the simulator.
* With `control` the top module is an AXI4-Lite slave of 32 data bits too, whose signals are `<control>_awaddr`,
  `_awvalid` and so on, without protection signals. It must answer every access, and not need any to work on frames.
* `layers` is in topological order. A layer's `outputs` name internal streams, or output tensors or ports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path, PurePosixPath
from typing import TypeVar

from headrace_sim.errors import ManifestError

FORMAT = "headrace-design"
VERSION = 1
ENCODINGS = ("signed", "unsigned", "bipolar")
LARGEST = 2**28  # bytes of a manifest
MAX_BITS = 63  # an element must fit in int64 in every encoding

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class WordFormat:
    """How the elements of a tensor lie in the words of a stream."""

    bits: int
    encoding: str
    elements_per_word: int
    frame_elements: int

    @property
    def word_bits(self) -> int:
        """Bits of a word that carry elements."""
        return self.bits * self.elements_per_word

    @property
    def words_per_frame(self) -> int:
        return self.frame_elements // self.elements_per_word

    @property
    def word_bytes(self) -> int:
        """Bytes that a word takes in the files exchanged with a simulator."""
        return (self.word_bits + 7) // 8


@dataclass(frozen=True, kw_only=True)
class Port(WordFormat):
    """An AXI4-Stream port of the top module."""

    port: str
    tensor: str
    tdata_bits: int

    @property
    def name(self) -> str:
        return self.tensor

    @property
    def signal(self) -> str:
        return self.port

    @property
    def word_bytes(self) -> int:
        return self.tdata_bits // 8


@dataclass(frozen=True, kw_only=True)
class Stream(WordFormat):
    """A stream between two layers, visible in the top module's scope."""

    name: str
    layer: str
    signal: str
    hls: str = ""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A hardware layer, for reports: `cycles` is its folded cycle count for one frame."""

    name: str
    kind: str
    cycles: int
    outputs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A checked design manifest; `root` is the folder that its relative paths start from."""

    root: Path
    name: str
    top: str
    sources: tuple[str, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    digest: str = ""
    clock: str = "ap_clk"
    reset: str = "ap_rst_n"
    memories: tuple[str, ...] = ()
    streams: tuple[Stream, ...] = ()
    interval_cycles: int = 0
    latency_cycles: int = 0
    layers: tuple[Layer, ...] = ()
    hls: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    control: str = ""
    control_address_bits: int = 0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def source_paths(self) -> tuple[Path, ...]:
        return tuple(self.root / source for source in self.sources)

    @property
    def model_paths(self) -> tuple[Path, ...]:
        return tuple(self.root / model for model in self.models)

    @property
    def simulated(self) -> tuple[str, ...]:
        """The SystemVerilog that a simulator compiles, relative to `root`: sources, and models of IPs."""
        return (*self.sources, *(model for model in self.models if model.endswith(".sv")))

    @property
    def memory_paths(self) -> tuple[Path, ...]:
        return tuple(self.root / memory for memory in self.memories)

    def to_json(self) -> str:
        """The text of the design.json that `load` reads back as an equal manifest."""
        data = asdict(self)
        del data["root"]
        if not self.control:
            del data["control"], data["control_address_bits"]
        return json.dumps({"format": FORMAT, "version": VERSION, **data}, indent=2) + "\n"

    def write(self) -> Path:
        """Write design.json into `root` and return its path."""
        path = self.root / "design.json"
        path.write_text(self.to_json())
        return path


def load(path: Path | str) -> Manifest:
    """Read and check the manifest `path` (a design.json, or the folder that contains one).

    Raises:
        ManifestError: the file is missing, is not JSON, or breaks the schema above.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "design.json"
    try:
        if file.exists() and (not file.is_file() or file.stat().st_size > LARGEST):
            raise ManifestError(f"{file}: expected a design manifest, a file of at most {LARGEST:,} bytes")
        data = json.loads(file.read_text())
    except OSError as error:
        raise ManifestError(f"{file}: cannot read the design manifest ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{file}: not a JSON file ({error})") from error
    try:
        manifest = from_dict(data, file.resolve().parent)
    except ManifestError as error:
        raise ManifestError(f"{file}: {error}") from error
    paths = (*manifest.source_paths, *manifest.memory_paths, *manifest.model_paths)
    for entry in (*paths, *(manifest.root / name for name in manifest.hls)):
        if not entry.is_file():
            raise ManifestError(f"{file}: file {entry.relative_to(manifest.root)} does not exist")
    return manifest


def channel_groups(manifest: Manifest, trace: bool) -> dict[str, Sequence[Port | Stream]]:
    """The streams that a run observes, by group and in the order of their index."""
    return {
        "input": manifest.inputs,
        "output": manifest.outputs,
        "stream": manifest.streams if trace else (),
    }


def from_dict(data: object, root: Path) -> Manifest:
    if not isinstance(data, Mapping):
        raise ManifestError("expected a JSON object")
    rest = dict(data)
    kind, version = rest.pop("format", None), rest.pop("version", None)
    if kind != FORMAT or version != VERSION:
        raise ManifestError(f"expected format {FORMAT!r} version {VERSION}, got format {kind!r} version {version!r}")
    nested: dict[str, type[Port] | type[Stream] | type[Layer]] = {
        "inputs": Port,
        "outputs": Port,
        "streams": Stream,
        "layers": Layer,
    }
    for key, cls in nested.items():
        entries = rest.get(key, [])
        if not isinstance(entries, list):
            raise ManifestError(f"{key}: expected a list")
        rest[key] = tuple(_record(cls, entry, f"{key}[{i}]") for i, entry in enumerate(entries))
    rest["root"] = root
    return _record(Manifest, rest, "manifest")


def _record(cls: type[_T], data: object, where: str) -> _T:
    """Build a dataclass from a JSON object; every key must be a field and have the field's type."""
    if not isinstance(data, Mapping):
        raise ManifestError(f"{where}: expected an object")
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for key in data:
        if key not in known:
            raise ManifestError(f"{where}: unknown key {key!r}; accepted: {', '.join(known)}")
    values: dict[str, object] = {}
    for name, field in known.items():
        if name not in data:
            if field.default is MISSING:
                raise ManifestError(f"{where}: key {name!r} is missing")
            continue
        values[name] = _typed(data[name], str(field.type), f"{where}.{name}")
    return cls(**values)


def _typed(value: object, annotation: str, where: str) -> object:
    if annotation == "int" and (not isinstance(value, int) or isinstance(value, bool)):
        raise ManifestError(f"{where}: expected an integer, got {value!r}")
    if annotation == "str" and not isinstance(value, str):
        raise ManifestError(f"{where}: expected a string, got {value!r}")
    if annotation == "tuple[str, ...]":
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ManifestError(f"{where}: expected a list of strings, got {value!r}")
        return tuple(value)
    return value


def _check(manifest: Manifest) -> None:
    for what, name in (("top", manifest.top), ("clock", manifest.clock), ("reset", manifest.reset)):
        _check_identifier(name, what)
    if manifest.control:
        _check_identifier(manifest.control, "control")
        if not 3 <= manifest.control_address_bits <= 64:
            raise ManifestError(f"control_address_bits={manifest.control_address_bits} is outside 3..64")
    if not manifest.sources and not manifest.hls:
        raise ManifestError("sources: expected at least one file")
    if not manifest.inputs or not manifest.outputs:
        raise ManifestError("a design needs at least one input and one output")
    for path in (*manifest.sources, *manifest.memories, *manifest.hls, *manifest.models):
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts:
            raise ManifestError(f"path {path!r} must be relative and stay inside the design's folder")
        if path.startswith(("-", "+")):  # simulators are called in that folder, and would read an option
            raise ManifestError(f"path {path!r} must start with neither '-' nor '+'")
    _check_unique([PurePosixPath(path).name for path in manifest.memories], "base name of a memory file")
    for port in (*manifest.inputs, *manifest.outputs):
        _check_format(port, f"port {port.port!r}")
        _check_identifier(port.port, "port")
        if port.tdata_bits % 8 or port.tdata_bits < port.word_bits:
            raise ManifestError(
                f"port {port.port!r}: tdata_bits={port.tdata_bits} must be a multiple of 8 and at least "
                f"bits * elements_per_word = {port.word_bits}"
            )
    for stream in manifest.streams:
        _check_format(stream, f"stream {stream.name!r}")
        _check_identifier(stream.signal, "signal")
    _check_unique([port.port for port in (*manifest.inputs, *manifest.outputs)], "port")
    named: tuple[Port | Stream, ...] = (*manifest.inputs, *manifest.outputs, *manifest.streams)
    _check_unique([stream.name for stream in named], "tensor or stream name")
    known = {stream.name for stream in manifest.streams}
    known |= {name for port in manifest.outputs for name in (port.tensor, port.port)}
    for layer in manifest.layers:
        for name in layer.outputs:
            if name not in known:
                raise ManifestError(f"layer {layer.name!r}: output {name!r} is not a stream or an output")


def _check_format(fmt: WordFormat, where: str) -> None:
    if fmt.encoding not in ENCODINGS:
        raise ManifestError(f"{where}: encoding {fmt.encoding!r} is not one of {', '.join(ENCODINGS)}")
    if not 1 <= fmt.bits <= MAX_BITS:
        raise ManifestError(f"{where}: bits={fmt.bits} is outside 1..{MAX_BITS}")
    if fmt.encoding == "bipolar" and fmt.bits != 1:
        raise ManifestError(f"{where}: a bipolar element has 1 bit, not {fmt.bits}")
    if fmt.elements_per_word < 1 or fmt.frame_elements < 1:
        raise ManifestError(f"{where}: elements_per_word and frame_elements must be at least 1")
    if fmt.frame_elements % fmt.elements_per_word:
        raise ManifestError(
            f"{where}: elements_per_word={fmt.elements_per_word} does not divide frame_elements={fmt.frame_elements}"
        )


def _check_identifier(name: str, what: str) -> None:
    if not _IDENTIFIER.match(name):
        raise ManifestError(f"{what} {name!r} is not a plain SystemVerilog identifier")


def _check_unique(names: Sequence[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ManifestError(f"{what} {name!r} occurs twice")
        seen.add(name)
