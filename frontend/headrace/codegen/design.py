"""Assembles a design: every layer's module, the top level, memory files, and the manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from headrace.codegen.control import MAP_HEADER, MAP_JSON, PORT, Control
from headrace.codegen.hls import compiled_files, generate_hls
from headrace.codegen.ips import Ip, generate_ip, ip_scripts
from headrace.codegen.plan import Plan, digest, write_plan
from headrace.codegen.render import render_library, render_module, render_text
from headrace.codegen.top import Boundary, Top, assemble
from headrace.errors import FoldingError, InputError
from headrace.layers.base import StreamType
from headrace.passes.hardware_design import HardwareDesign
from headrace.schedule.performance import Performance, performance

__all__ = ["Plan", "generate", "write_plan"]

Backend = Literal["rtl", "hls", "both"]
"""What is generated: SystemVerilog, C++ for high-level synthesis, or both."""

FORMAT = "headrace-design"
VERSION = 1
CONTROL_LIBRARY = ("headrace_axi_lite.sv.j2", "headrace_event_counter.sv.j2", "headrace_frame_mark.sv.j2")
ADAPTERS = ("headrace_axis_input.sv.j2", "headrace_axis_output.sv.j2")


def generate(design: HardwareDesign, name: str = "", backend: Backend = "rtl") -> Plan:
    """The files of a scheduled *design*.

    ``rtl/`` holds the shared modules, one module a layer with its memories, and the top level; ``ip/`` the C++ of the
    layers that the design wants so; ``hls/`` the whole design as C++ for high-level synthesis; ``design.json`` is the
    manifest that the simulator reads. The same design gives the same text, byte for byte.

    Args:
        design: as :func:`headrace.schedule.schedule` returns it.
        name: of the design and its top module; the name of the graph when empty.
        backend: which of ``rtl/`` and ``hls/`` to make.

    Raises:
        UnsupportedError: when a layer has no HLS template and one is needed.
        InputError: when C++ alone is to count what happens on its streams.
        FoldingError: when words are wider than HLS accepts, or a layer is to be RTL in a design that is all C++.
    """
    check_counters(design.counters, backend)
    name = name or design.graph.name
    top = assemble(design, name)
    expected = performance(design.graph, design.counters)
    ips = _ips(design, top, backend)
    sources, memories = _rtl(top, name, expected, ips) if backend != "hls" else ({}, {})
    ip_files = {path: text for ip in ips.values() for path, text in ip.files.items()}
    control = top.control if backend != "hls" else None
    if ips:
        ip_files |= ip_scripts(list(ips.values()), name)
    cpp: dict[str, str] = {}
    carriers: Mapping[str, str] = {}
    if backend != "rtl":
        hls, cpp = generate_hls(design, top, name)
        carriers = hls.carriers
    files = {**sources, **memories, **cpp, **ip_files}
    if control is not None:
        files |= _control_files(control, name, top.module)
    manifest = _manifest(top, name, expected, digest(files), carriers)
    manifest |= {"sources": list(sources), "memories": list(memories), "hls": compiled_files(cpp)}
    manifest["models"] = [path for ip in ips.values() for path in ip.models]
    if control is not None:
        manifest |= {"control": PORT, "control_address_bits": control.address_bits}
    files["design.json"] = json.dumps(manifest, indent=2) + "\n"
    streams = {(wire.source.node, wire.source.port): wire.name for wire in top.wires}
    return Plan(files, expected.latency, streams)


def check_counters(counters: bool, backend: Backend) -> None:
    """Refuse counters in a design that is all C++.

    Raises:
        InputError: names the settings.
    """
    if counters and backend == "hls":
        raise InputError(
            "settings 'performance_counters' and 'backend' exclude each other: C++ for high-level synthesis has no "
            "counters; accepted: backend 'rtl' or 'both'"
        )


def _control_files(control: Control, name: str, prefix: str) -> dict[str, str]:
    """The address map for software; names in C start with *prefix*."""
    data = json.dumps(control.map_data(name), indent=1) + "\n"
    return {MAP_JSON: data, MAP_HEADER: control.header(name, prefix)}


def _ips(design: HardwareDesign, top: Top, backend: Backend) -> dict[str, Ip]:
    """The layers that are C++ between SystemVerilog, by node."""
    wanted = {backend: [node for node, b in design.backends.items() if b == backend] for backend in ("rtl", "hls")}
    if backend == "hls":
        if wanted["rtl"]:
            raise FoldingError(
                f"layer '{wanted['rtl'][0]}' is to be RTL, but the backend 'hls' makes one C++ function of all layers; "
                "use the backend 'rtl', which makes an IP of every layer that is to be HLS, or leave the setting out"
            )
        return {}
    return {i.node: generate_ip(i) for i in top.instances if i.node in wanted["hls"]}


def _rtl(top: Top, name: str, expected: Performance, ips: Mapping[str, Ip]) -> tuple[dict[str, str], dict[str, str]]:
    """Sources and memory files of ``rtl/``."""
    library, sources, memories = dict.fromkeys(ADAPTERS), {}, {}
    for instance in top.instances:
        rtl = ips[instance.node].module if instance.node in ips else instance.layer.rtl()
        library.update(dict.fromkeys(rtl.library))
        text, texts = render_module(rtl, instance.module, f"{instance.node} ({instance.layer.kind})")
        sources[f"rtl/{instance.module}.sv"] = text
        for file, content in texts.items():
            if f"rtl/{file}" in memories:
                raise ValueError(f"two memories are called {file!r}")
            memories[f"rtl/{file}"] = content
    if top.control is not None:
        library.update(dict.fromkeys(CONTROL_LIBRARY))
        context = {"name": name, "control": top.control}
        sources[f"rtl/{top.control.module}.sv"] = render_text("control.sv.j2", context)
    shared = {f"rtl/{module}.sv": text for module, text in map(render_library, sorted(library))}
    return {**shared, **sources, f"rtl/{top.module}.sv": _top_text(top, name, expected)}, memories


def _top_text(top: Top, name: str, expected: Performance) -> str:
    slowest = next(row for row in expected.layers if row.name == expected.bottleneck)
    context = {
        "top": top,
        "name": name,
        "interval": expected.interval,
        "latency": expected.latency,
        "bottleneck": f"{slowest.name} ({slowest.kind})",
        "bus_interfaces": ":".join(top.buses),
    }
    return render_text("top.sv.j2", context)


def _manifest(
    top: Top, name: str, expected: Performance, content: str, carriers: Mapping[str, str]
) -> dict[str, object]:
    """``design.json`` without its lists of files; the schema is documented in ``headrace_sim.manifest``."""
    written: dict[str, list[str]] = {}
    for wire in top.wires:
        written.setdefault(wire.source.node, []).append(wire.name)
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "top": top.module,
        "digest": content,
        "clock": "ap_clk",
        "reset": "ap_rst_n",
        "sources": [],
        "memories": [],
        "inputs": [_port(b) for b in top.inputs],
        "outputs": [_port(b) for b in top.outputs],
        "streams": [
            {
                "name": w.name,
                "layer": w.source.node,
                "signal": w.signal,
                "hls": carriers.get(w.signal, ""),
                **_word_format(w.stream),
            }
            for w in top.wires
        ],
        "interval_cycles": expected.interval,
        "latency_cycles": expected.latency,
        "layers": [
            {"name": row.name, "kind": row.kind, "cycles": row.cycles, "outputs": written[row.name]}
            for row in expected.layers
        ],
    }


def _port(boundary: Boundary) -> dict[str, object]:
    ends = {"port": boundary.port, "tensor": boundary.tensor, "tdata_bits": 8 * boundary.bytes}
    return {**ends, **_word_format(boundary.stream)}


def _word_format(stream: StreamType) -> dict[str, object]:
    return {
        "bits": stream.bits,
        "encoding": stream.range.encoding,
        "elements_per_word": stream.elements,
        "frame_elements": stream.frame_elements,
    }
