"""The conformance suite's machinery: many layers side by side in one simulated design.

Every layer becomes one instance between its own AXI4-Stream ports, so that a whole table of cases costs one
compilation. A case is a name and a layer; ``layer.execute`` is the specification that the RTL must equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.codegen.names import Namespace
from headrace.codegen.render import library_modules, render_library, render_module
from headrace.ir import IntRange
from headrace.layers import Layer, StreamType
from headrace.layers.parameter import address_bits
from headrace_sim.manifest import Manifest, Port
from layers.telling import telling_frames

Int = NDArray[np.int64]
RANDOM_FRAMES = 5
CYCLES = 20_000
ADAPTERS = ("headrace_axis_input.sv.j2", "headrace_axis_output.sv.j2")


@dataclass(frozen=True)
class Bench:
    """A generated design that holds every case: its folder, and the ports of each."""

    manifest: Manifest
    layers: Mapping[str, Layer]
    modules: Mapping[str, str]

    @property
    def sources(self) -> dict[str, list[Path]]:
        """By case, the files that its layer needs, library first: what a lint of it alone reads."""
        library = [p for p in self.manifest.source_paths if p.name.startswith("headrace_")]
        return {case: [*library, self.manifest.root / "rtl" / f"{name}.sv"] for case, name in self.modules.items()}


def input_names(case: str, layer: Layer) -> list[str]:
    """Tensor names of a case's inputs in its bench."""
    return [f"{case}.in{k}" for k in range(len(layer.inputs))]


def output_names(case: str, layer: Layer) -> list[str]:
    """Tensor names of a case's outputs in its bench."""
    return [f"{case}.out{k}" for k in range(len(layer.outputs))]


def build_bench(layers: Mapping[str, Layer], folder: Path) -> Bench:
    """Write the design of all *layers* into *folder*."""
    rtl = folder / "rtl"
    rtl.mkdir(parents=True)
    names = Namespace((*library_modules(), "bench"))
    modules = {case: names.new(f"{layer.kind}_{case}") for case, layer in layers.items()}
    memories: list[str] = []
    libraries = set(ADAPTERS)
    for case, layer in layers.items():
        module = layer.rtl()
        text, files = render_module(module, modules[case], f"{case} ({layer.kind})")
        (rtl / f"{modules[case]}.sv").write_text(text)
        for name, content in files.items():
            (rtl / name).write_text(content)
        memories += files
        libraries.update(module.library)
    for template in libraries:
        name, text = render_library(template)
        (rtl / f"{name}.sv").write_text(text)
    top, inputs, outputs = _top(layers, modules)
    (rtl / "bench.sv").write_text(top)
    sources = [*sorted(t.removesuffix(".sv.j2") for t in libraries), *modules.values(), "bench"]
    manifest = Manifest(
        root=folder,
        name="bench",
        top="bench",
        sources=tuple(f"rtl/{name}.sv" for name in sources),
        memories=tuple(f"rtl/{name}" for name in memories),
        inputs=inputs,
        outputs=outputs,
        interval_cycles=max(layer.cycles for layer in layers.values()),
        latency_cycles=max(layer.latency for layer in layers.values()),
    )
    manifest.write()
    return Bench(manifest, layers, modules)


def _top(layers: Mapping[str, Layer], modules: Mapping[str, str]) -> tuple[str, tuple[Port, ...], tuple[Port, ...]]:
    ports: list[str] = []
    body: list[str] = []
    inputs: list[Port] = []
    outputs: list[Port] = []
    for case, layer in layers.items():
        connections = [".ap_clk(ap_clk)", ".ap_rst_n(ap_rst_n)"]
        for k, stream in enumerate(layer.inputs):
            port = f"s_axis_{len(inputs)}"
            inputs.append(_port(port, input_names(case, layer)[k], stream))
            ports += _port_lines(port, inputs[-1].tdata_bits, "input ", "output")
            body += _wires(f"w_{port}", stream.word_bits)
            body.append(_adapter("headrace_axis_input", port, "s_axis", "out0", inputs[-1], stream))
            connections += [f".in{k}_{s}(w_{port}_{s})" for s in ("tdata", "tvalid", "tready")]
        for k, stream in enumerate(layer.outputs):
            port = f"m_axis_{len(outputs)}"
            outputs.append(_port(port, output_names(case, layer)[k], stream))
            ports += _port_lines(port, outputs[-1].tdata_bits, "output", "input ")
            body += _wires(f"w_{port}", stream.word_bits)
            body.append(_adapter("headrace_axis_output", port, "m_axis", "in0", outputs[-1], stream))
            connections += [f".out{k}_{s}(w_{port}_{s})" for s in ("tdata", "tvalid", "tready")]
        if layer.parameters:
            widths = {"access": 1, "restore": 1, "write": 1, "address": address_bits(layer.parameters), "wdata": 32}
            connections += [f".cfg_{name}({bits}'d0)" for name, bits in widths.items()]
            connections.append(f".cfg_rdata(rdata_{modules[case]})")
            body.append(f"  logic [31:0] rdata_{modules[case]};")
            body.append(f"  logic unused_{modules[case]};\n  assign unused_{modules[case]} = &rdata_{modules[case]};")
        body.append(f"  {modules[case]} u_{modules[case]} ({', '.join(connections)});")
    header = ",\n".join(["  input  logic ap_clk", "  input  logic ap_rst_n", *ports])
    text = f"module bench (\n{header}\n);\n" + "\n".join(body) + "\nendmodule\n"
    return text, tuple(inputs), tuple(outputs)


def _port(port: str, tensor: str, stream: StreamType) -> Port:
    return Port(
        port=port,
        tensor=tensor,
        bits=stream.bits,
        encoding=stream.range.encoding,
        elements_per_word=stream.elements,
        frame_elements=stream.frame_elements,
        tdata_bits=(stream.word_bits + 7) // 8 * 8,
    )


def _port_lines(port: str, width: int, forward: str, backward: str) -> list[str]:
    return [
        f"  {forward} logic [{width - 1}:0] {port}_tdata",
        f"  {forward} logic {port}_tvalid",
        f"  {backward} logic {port}_tready",
        f"  {forward} logic {port}_tlast",
    ]


def _wires(name: str, width: int) -> list[str]:
    return [f"  logic [{width - 1}:0] {name}_tdata;", f"  logic {name}_tvalid;", f"  logic {name}_tready;"]


def _adapter(module: str, port: str, outside: str, inside: str, description: Port, stream: StreamType) -> str:
    parameters = f".BITS({stream.word_bits}), .BYTES({description.tdata_bits // 8})"
    connections = [f".{outside}_{s}({port}_{s})" for s in ("tdata", "tvalid", "tready", "tlast")]
    connections += [f".{inside}_{s}(w_{port}_{s})" for s in ("tdata", "tvalid", "tready")]
    if module == "headrace_axis_output":
        parameters += f", .WORDS({stream.words})"
        connections += [".ap_clk(ap_clk)", ".ap_rst_n(ap_rst_n)"]
    return f"  {module} #({parameters}) a_{port} ({', '.join(connections)});"


def random_frames(stream: StreamType, frames: int, rng: np.random.Generator) -> Int:
    """Frames of *stream*: the first all at the lower bound, the second all at the upper one, the third the two in
    turn, the rest uniformly random."""
    r: IntRange = stream.range
    shape = (frames, *stream.shape)
    values = rng.integers(r.lo, r.hi, size=shape, endpoint=True, dtype=np.int64)
    if r.bipolar:
        values = np.where(rng.integers(0, 2, size=shape) == 1, 1, -1)
    ends = np.where(np.indices(stream.shape).sum(axis=0) % 2 == 0, r.lo, r.hi)
    for frame, value in zip(values, (r.lo, r.hi, ends), strict=False):
        frame[...] = value
    return values


def input_frames(layers: Mapping[str, Layer], seed: int) -> dict[str, Int]:
    """Frames of every input of every case, by tensor name: those at the ends, telling ones and random ones.

    All inputs have as many: :data:`RANDOM_FRAMES` random ones or more beside the others, of which there are no more
    than make :data:`CYCLES` together.
    """
    rng = np.random.default_rng(seed)
    most = CYCLES // max(layer.cycles for layer in layers.values())
    telling = {case: [_evenly(frames, most) for frames in telling_frames(layer)] for case, layer in layers.items()}
    count = 3 + RANDOM_FRAMES + max(len(frames[0]) for frames in telling.values())
    inputs = {}
    for case, layer in layers.items():
        for name, stream, frames in zip(input_names(case, layer), layer.inputs, telling[case], strict=True):
            inputs[name] = random_frames(stream, count, rng)
            inputs[name][3 : 3 + len(frames)] = frames
    return inputs


def _evenly(frames: Int, most: int) -> Int:
    """At most so many of *frames*, from everywhere among them."""
    return frames[np.linspace(0, len(frames) - 1, most).astype(np.int64)] if len(frames) > most else frames
