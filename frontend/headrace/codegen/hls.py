"""The C++ of a design for high-level synthesis: a dataflow top, its constants, a test bench and a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.codegen.cpp import AxisWord
from headrace.codegen.names import Namespace
from headrace.codegen.render import render_text
from headrace.codegen.top import Boundary, Instance, Top
from headrace.errors import FoldingError, UnsupportedError
from headrace.ir import Array, IntRange
from headrace.layers.base import StreamType
from headrace.layers.hls import HlsCall, HlsStream, HlsTable
from headrace.layers.memory import packed_words
from headrace.passes.hardware_design import HardwareDesign
from headrace.resources import hls_templates
from headrace.schedule.tokens import token_times

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
    """An ``hls::stream`` between two functions: the signal it is named after, its words, how many it holds, and in what
    it keeps them (empty: the tool chooses)."""

    name: str
    stream: StreamType
    depth: int
    storage: str = ""


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
        impl = {"block": "bram", "ultra": "uram"}.get(table.storage, "lutram")
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
        ports: name and type of each parameter: a stream of words, or of those of a port.
        signals: argument for each port.
        tables: constants by the name they have in the call.
    """

    name: str
    title: str
    call: HlsCall
    ports: tuple[tuple[str, StreamType | AxisWord], ...]
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
    sideband: bool = True
    """Whether ports have tkeep, tstrb and tlast, as those of a whole design do."""

    def port_word(self, boundary: Boundary) -> AxisWord:
        """The words of a port."""
        return AxisWord(8 * boundary.bytes, self.sideband)

    @property
    def ports(self) -> tuple[Boundary, ...]:
        """Parameters of the top function."""
        return (*self.inputs, *self.outputs)


def assemble_hls(top: Top, sideband: bool = True) -> HlsTop:
    """The top function of the design whose top module is *top*.

    Args:
        top: its layers and the streams between them.
        sideband: whether its ports have tkeep, tstrb and tlast beside tdata.

    Raises:
        UnsupportedError: when a layer has no template; names it.
        FoldingError: when words are wider than HLS accepts.
    """
    calls = {instance.node: _call(instance) for instance in top.instances}
    carriers, depths, storages = _carriers(top, calls)
    identifiers = Namespace((*TAKEN, top.module))
    name = top.module if top.module.lower() not in TAKEN else identifiers.new(f"{top.module}_top")
    ends = _Ends(carriers, identifiers, sideband, "" if sideband else f"{top.module}_")
    processes = [ends.reader(b) for b in top.inputs]
    for instance in top.instances:
        call = calls[instance.node]
        if isinstance(call, HlsCall):
            processes.append(_process(instance, call, carriers, identifiers))
    processes += [ends.writer(b) for b in top.outputs]
    wires = tuple(
        Wire(s, stream, max(depths[s], SHALLOWEST), storages.get(s, ""))
        for s, stream in _streams(top)
        if carriers[s] == s
    )
    for wire in wires:
        _check_width(wire)
    return HlsTop(name, top.inputs, top.outputs, wires, tuple(processes), carriers, sideband)


def _call(instance: Instance) -> HlsCall | HlsStream:
    try:
        return instance.layer.hls()
    except UnsupportedError as error:
        raise UnsupportedError(error.message, node=f"'{instance.node}'") from error


def _streams(top: Top) -> list[tuple[str, StreamType]]:
    return [*((b.wire, b.stream) for b in top.inputs), *((w.signal, w.stream) for w in top.wires)]


def _carriers(
    top: Top, calls: Mapping[str, HlsCall | HlsStream]
) -> tuple[dict[str, str], dict[str, int], dict[str, str]]:
    """By signal, the stream that carries it, and by stream its depth and its storage: FIFOs are no functions.

    A module in RTL may have a buffer before it, which the FIFO depths rely on. What the function's own does not hold of
    that, its stream does.
    """
    carriers = {signal: signal for signal, _ in _streams(top)}
    depths = dict.fromkeys(carriers, 0)
    storages: dict[str, str] = {}
    for instance in top.instances:
        call = calls[instance.node]
        if isinstance(call, HlsStream):
            carrier = carriers[instance.inputs[0]]
            carriers[instance.outputs[0]] = carrier
            depths[carrier] += call.depth
            storages[carrier] = call.storage
            continue
        for signal, room in zip(instance.inputs, token_times(instance.layer).room, strict=True):
            depths[carriers[signal]] += max(room - call.held, 0)
    return carriers, depths, storages


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


@dataclass(frozen=True, eq=False)
class _Ends:
    """The functions between ports and streams."""

    carriers: Mapping[str, str]
    names: Namespace
    sideband: bool
    prefix: str

    def reader(self, boundary: Boundary) -> Process:
        """From a port."""
        signals = boundary.port, self.carriers[boundary.wire]
        return self._process("read", boundary, (self._word(boundary), boundary.stream), signals, "input")

    def writer(self, boundary: Boundary) -> Process:
        """To a port."""
        signals = self.carriers[boundary.wire], boundary.port
        return self._process("write", boundary, (boundary.stream, self._word(boundary)), signals, "output")

    def _word(self, boundary: Boundary) -> AxisWord:
        return AxisWord(8 * boundary.bytes, self.sideband)

    def _process(
        self,
        verb: str,
        boundary: Boundary,
        types: tuple[StreamType | AxisWord, StreamType | AxisWord],
        signals: tuple[str, str],
        what: str,
    ) -> Process:
        function = f"{verb}_{'axis' if self.sideband else 'words'}"
        call = HlsCall("axis.hpp", function, (("words", boundary.stream.words),), boundary.stream.words)
        name = self.names.new(f"{self.prefix}{verb}_{boundary.port}")
        ports = ("in0", types[0]), ("out0", types[1])
        return Process(name, f"{what} {boundary.tensor}", call, ports, signals, {})


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
    feeds = {port.node: random_frames(port.range, port.layout.frame, k) for k, port in enumerate(design.inputs)}
    results = design.graph.run(feeds)
    vectors = render_vectors(
        hls, [feeds[port.node] for port in design.inputs], [results[port.node] for port in design.outputs]
    )
    return hls, render_hls(hls, name) | vectors


def render_hls(hls: HlsTop, name: str, folder: str = "hls") -> dict[str, str]:
    """The files of *folder* but for the test vectors."""
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
        f"{hls.name}.cpp": ("top.cpp.j2", "hls"),
        f"{hls.name}.hpp": ("top.hpp.j2", "hls"),
        "params.hpp": ("params.hpp.j2", "hls"),
        "tb/testbench.cpp": ("testbench.cpp.j2", "hls"),
        "Makefile": ("Makefile.j2", "project"),
        "project/run_hls.tcl": ("run_hls.tcl.j2", "project"),
        "project/hls_config.cfg": ("hls_config.cfg.j2", "project"),
        "project/constraints.xdc": ("constraints.xdc.j2", "project"),
    }
    files = {path: render_text(template, context, home) for path, (template, home) in templates.items()}
    return {f"{folder}/{path}": text for path, text in {**files, **_library(headers)}.items()}


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
    files = {f"headrace/{h}": (folder / "headrace" / h).read_text(encoding="utf-8") for h in sorted(known)}
    sim = sorted(path for path in (folder / "sim").iterdir() if path.suffix == ".h")
    return files | {f"sim/{path.name}": path.read_text(encoding="utf-8") for path in sim}


def random_frames(values: IntRange, frame: tuple[int, ...], seed: int) -> Array:
    """``VECTOR_FRAMES`` frames of integers from a range."""
    rng = np.random.default_rng(seed)
    shape = (VECTOR_FRAMES, *frame)
    if values.bipolar:
        return rng.choice(np.array([-1, 1]), shape)
    return rng.integers(values.lo, values.hi, shape, endpoint=True)


def render_vectors(
    hls: HlsTop, feeds: Sequence[Array], results: Sequence[Array], folder: str = "hls"
) -> dict[str, str]:
    """Input words of a few frames and the words they must give, in hexadecimal, one a line."""
    files = {}
    for k, (frames, boundary) in enumerate(zip(feeds, hls.inputs, strict=True)):
        files[f"{folder}/tb/input{k}.hex"] = hex_words(frames, boundary)
    for k, (frames, boundary) in enumerate(zip(results, hls.outputs, strict=True)):
        files[f"{folder}/tb/expected{k}.hex"] = hex_words(frames, boundary)
    return files


def hex_words(frames: Array, boundary: Boundary) -> str:
    """Frames as the words of an AXI4-Stream port, one a line, padded to whole bytes."""
    words = np.asarray(frames, np.int64).reshape(-1, boundary.stream.elements)
    return "".join(f"{word:0{2 * boundary.bytes}x}\n" for word in packed_words(words, boundary.stream.range))
