"""The C++ of a design for high-level synthesis: a dataflow top, its constants, a test bench and a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.codegen.names import Namespace
from headrace.codegen.render import render_text
from headrace.codegen.top import Boundary, Instance, Top
from headrace.errors import FoldingError, UnsupportedError
from headrace.ir import Array
from headrace.layers.base import StreamType
from headrace.layers.hls import HlsCall, HlsStream, HlsTable
from headrace.layers.memory import packed_words
from headrace.passes.hardware_design import HardwareDesign
from headrace.resources import hls_templates

MAX_WORD_BITS = 4096
"""Widest word of an ``hls::stream`` and of an AXI4-Stream port that Vitis HLS accepts."""

SHALLOWEST = 2
"""Words that every ``hls::stream`` holds, its own default."""

VECTOR_FRAMES = 4
"""Frames of the test vectors that come with the project."""

PART = "xczu3eg-sbva484-1-e"
"""Part that the project files name; any other that the tool knows may take its place."""

PERIOD_PS = 5000
"""Clock period that the project files ask for."""

TAKEN = frozenset(
    (
        *("main", "std", "hls", "headrace", "headrace_sim", "ap_int", "ap_uint", "ap_axiu", "pragma_hls"),
        *("params", "testbench", "makefile", "sim", "tb", "project"),
        *("assert", "errno", "null", "eof", "stdin", "stdout", "stderr", "nan", "infinity", "offsetof", "signgam"),
        *("environ", "timezone", "daylight", "unix", "linux"),
    )
)
"""Names that the C++ of a design gives another meaning."""


@dataclass(frozen=True)
class Wire:
    """An ``hls::stream`` between two functions: the signal it is named after, its words, and how many it holds."""

    name: str
    stream: StreamType
    depth: int


@dataclass(frozen=True, eq=False)
class Table:
    """A constant array and its name."""

    name: str
    table: HlsTable

    @property
    def pragmas(self) -> tuple[str, ...]:
        """How the array becomes memories, or registers when nothing is left to address."""
        table = self.table
        if table.depth == 1:
            return (f"ARRAY_PARTITION variable={self.name} type=complete dim=0",)
        kind = "rom_1p" if table.ports == 1 else "rom_np"
        impl = "bram" if table.storage == "block" else "lutram"
        storage = f"BIND_STORAGE variable={self.name} type={kind} impl={impl}"
        partition = [f"ARRAY_PARTITION variable={self.name} type=complete dim={dim}" for dim in table.apart]
        reshape = [f"ARRAY_RESHAPE variable={self.name} type=complete dim={dim}" for dim in table.together]
        return (*partition, *reshape, storage)


@dataclass(frozen=True, eq=False)
class Process:
    """One function of the dataflow region.

    Attributes:
        name: of the function, unique in the design.
        title: what it is, for comments.
        call: the template behind it.
        ports: name and type of each parameter: a stream of words, or of AXI4-Stream words of so many bits.
        signals: argument for each port.
        tables: constants by the name they have in the call.
    """

    name: str
    title: str
    call: HlsCall
    ports: tuple[tuple[str, StreamType | int], ...]
    signals: tuple[str, ...]
    tables: Mapping[str, Table]

    @property
    def config(self) -> str:
        """Name of the configuration."""
        return f"{self.name}_config"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the template is called with."""
        names = self.call.arguments or (*(name for name, _ in self.ports), *self.tables)
        return tuple(self.tables[name].name if name in self.tables else name for name in names)


@dataclass(frozen=True, eq=False)
class HlsTop:
    """The top function: its name, ports, streams, and functions in topological order."""

    name: str
    inputs: tuple[Boundary, ...]
    outputs: tuple[Boundary, ...]
    wires: tuple[Wire, ...]
    processes: tuple[Process, ...]
    carriers: Mapping[str, str]
    """By signal of the RTL, the ``hls::stream`` that carries the same words."""

    @property
    def ports(self) -> tuple[Boundary, ...]:
        """Parameters of the top function."""
        return (*self.inputs, *self.outputs)


def assemble_hls(top: Top) -> HlsTop:
    """The top function of the design whose top module is *top*.

    Raises:
        UnsupportedError: when a layer has no template; names it.
        FoldingError: when words are wider than HLS accepts.
    """
    calls = {instance.node: _call(instance) for instance in top.instances}
    carriers, depths = _carriers(top, calls)
    identifiers = Namespace((*TAKEN, top.module))
    name = top.module if top.module.lower() not in TAKEN else identifiers.new(f"{top.module}_top")
    processes = [_reader(b, carriers, identifiers) for b in top.inputs]
    for instance in top.instances:
        call = calls[instance.node]
        if isinstance(call, HlsCall):
            processes.append(_process(instance, call, carriers, identifiers))
    processes += [_writer(b, carriers, identifiers) for b in top.outputs]
    wires = tuple(Wire(s, stream, max(depths[s], SHALLOWEST)) for s, stream in _streams(top) if carriers[s] == s)
    for wire in wires:
        _check_width(wire)
    return HlsTop(name, top.inputs, top.outputs, wires, tuple(processes), carriers)


def _call(instance: Instance) -> HlsCall | HlsStream:
    try:
        return instance.layer.hls()
    except UnsupportedError as error:
        raise UnsupportedError(error.message, node=f"'{instance.node}'") from error


def _streams(top: Top) -> list[tuple[str, StreamType]]:
    return [*((b.wire, b.stream) for b in top.inputs), *((w.signal, w.stream) for w in top.wires)]


def _carriers(top: Top, calls: Mapping[str, HlsCall | HlsStream]) -> tuple[dict[str, str], dict[str, int]]:
    """By signal, the stream that carries it, and by stream its depth: FIFOs are no functions."""
    carriers = {signal: signal for signal, _ in _streams(top)}
    depths = dict.fromkeys(carriers, 0)
    for instance in top.instances:
        call = calls[instance.node]
        if isinstance(call, HlsStream):
            carrier = carriers[instance.inputs[0]]
            carriers[instance.outputs[0]] = carrier
            depths[carrier] += call.depth
    return carriers, depths


def _check_width(wire: Wire) -> None:
    if wire.stream.word_bits > MAX_WORD_BITS:
        raise FoldingError(
            f"stream '{wire.name}' has words of {wire.stream.word_bits} bits ({wire.stream.elements} elements); HLS "
            f"accepts at most {MAX_WORD_BITS}: fold the layers at its ends more, or use the backend 'rtl'"
        )


def _process(instance: Instance, call: HlsCall, carriers: Mapping[str, str], names: Namespace) -> Process:
    layer = instance.layer
    name = names.new(instance.module)
    folding = "".join(f", {key}={value}" for key, value in layer.folding.items())
    title = f"{instance.node} ({layer.kind}{folding}): {call.cycles} cycles a frame"
    ins = [(f"in{k}", stream) for k, stream in enumerate(layer.inputs)]
    outs = [(f"out{k}", stream) for k, stream in enumerate(layer.outputs)]
    signals = tuple(carriers[s] for s in (*instance.inputs, *instance.outputs))
    tables = {key: Table(names.new(f"{name}_{key}"), table) for key, table in call.tables.items()}
    return Process(name, title, call, (*ins, *outs), signals, tables)


def _reader(boundary: Boundary, carriers: Mapping[str, str], names: Namespace) -> Process:
    call = HlsCall("axis.hpp", "read_axis", (("words", boundary.stream.words),), boundary.stream.words)
    ports = (("in0", 8 * boundary.bytes), ("out0", boundary.stream))
    signals = boundary.port, carriers[boundary.wire]
    return Process(names.new(f"read_{boundary.port}"), f"input {boundary.tensor}", call, ports, signals, {})


def _writer(boundary: Boundary, carriers: Mapping[str, str], names: Namespace) -> Process:
    call = HlsCall("axis.hpp", "write_axis", (("words", boundary.stream.words),), boundary.stream.words)
    ports = (("in0", boundary.stream), ("out0", 8 * boundary.bytes))
    signals = carriers[boundary.wire], boundary.port
    return Process(names.new(f"write_{boundary.port}"), f"output {boundary.tensor}", call, ports, signals, {})


# -- files ----------------------------------------------------------------------------------------------------------


def generate_hls(design: HardwareDesign, top: Top, name: str) -> tuple[HlsTop, dict[str, str]]:
    """The top function of a scheduled *design* and the files of ``hls/``.

    Args:
        design: as :func:`headrace.schedule.schedule` returns it.
        top: its top module, which gives the names.
        name: of the design, for comments.

    Raises:
        UnsupportedError, FoldingError: as :func:`assemble_hls`.
    """
    hls = assemble_hls(top)
    return hls, render_hls(hls, name) | _vectors(design, hls)


def render_hls(hls: HlsTop, name: str) -> dict[str, str]:
    """The files of ``hls/`` but for the test vectors."""
    headers = sorted({process.call.header for process in hls.processes})
    context = {
        "top": hls,
        "name": name,
        "headers": headers,
        "interval": max(process.call.cycles for process in hls.processes),
        "ap_int_max_w": max(1024, *(8 * b.bytes for b in hls.ports), *(w.stream.word_bits for w in hls.wires)),
        "part": PART,
        "period_ps": PERIOD_PS,
    }
    templates = {
        f"hls/{hls.name}.cpp": ("top.cpp.j2", "hls"),
        f"hls/{hls.name}.hpp": ("top.hpp.j2", "hls"),
        "hls/params.hpp": ("params.hpp.j2", "hls"),
        "hls/tb/testbench.cpp": ("testbench.cpp.j2", "hls"),
        "hls/Makefile": ("Makefile.j2", "project"),
        "hls/project/run_hls.tcl": ("run_hls.tcl.j2", "project"),
        "hls/project/hls_config.cfg": ("hls_config.cfg.j2", "project"),
        "hls/project/constraints.xdc": ("constraints.xdc.j2", "project"),
    }
    files = {path: render_text(template, context, folder) for path, (template, folder) in templates.items()}
    return {**files, **_library(headers)}


def compiled_files(files: Mapping[str, str]) -> list[str]:
    """Those of the files of ``hls/`` that a C simulation depends on."""
    return [path for path in files if path.endswith((".cpp", ".hpp", ".h"))]


def _library(headers: Sequence[str]) -> dict[str, str]:
    """The header files that a design includes, and those for C simulation."""
    folder = hls_templates() / "hls"
    wanted, known = list(headers), {"types.hpp"}
    while wanted:
        header = wanted.pop()
        known.add(header)
        text = (folder / "headrace" / header).read_text(encoding="utf-8")
        wanted += [h for h in ("window.hpp",) if f'"{h}"' in text and h not in known]
    files = {f"hls/headrace/{h}": (folder / "headrace" / h).read_text(encoding="utf-8") for h in sorted(known)}
    sim = sorted(path for path in (folder / "sim").iterdir() if path.suffix == ".h")
    return files | {f"hls/sim/{path.name}": path.read_text(encoding="utf-8") for path in sim}


def _vectors(design: HardwareDesign, hls: HlsTop) -> dict[str, str]:
    """Input words of a few random frames and the words they must give, in hexadecimal, one a line."""
    rng = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for port in design.inputs:
        shape = (VECTOR_FRAMES, *port.layout.frame)
        if port.range.bipolar:
            feeds[port.node] = rng.choice(np.array([-1, 1]), shape)
        else:
            feeds[port.node] = rng.integers(port.range.lo, port.range.hi, shape, endpoint=True)
    results = design.graph.run(feeds)
    files = {}
    for k, (port, boundary) in enumerate(zip(design.inputs, hls.inputs, strict=True)):
        files[f"hls/tb/input{k}.hex"] = hex_words(feeds[port.node], boundary)
    for k, (port, boundary) in enumerate(zip(design.outputs, hls.outputs, strict=True)):
        files[f"hls/tb/expected{k}.hex"] = hex_words(results[port.node], boundary)
    return files


def hex_words(frames: Array, boundary: Boundary) -> str:
    """Frames as the words of an AXI4-Stream port, one a line, padded to whole bytes."""
    words = np.asarray(frames, np.int64).reshape(-1, boundary.stream.elements)
    return "".join(f"{word:0{2 * boundary.bytes}x}\n" for word in packed_words(words, boundary.stream.range))
