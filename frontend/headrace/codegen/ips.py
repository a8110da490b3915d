"""Layers in C++ between layers in SystemVerilog: each an IP of its own for high-level synthesis, with a model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.codegen.hls import assemble_hls, compiled_files, random_frames, render_hls, render_vectors
from headrace.codegen.render import render_text
from headrace.codegen.top import Boundary, Instance, Top, Wire
from headrace.errors import UnsupportedError
from headrace.ir import Value
from headrace.layers.base import RtlModule, StreamType
from headrace.layers.hls import HlsStream

FOLDER = "ip"
"""Where the IPs of a design are."""


@dataclass(frozen=True)
class PortWidth:
    """Words of a port in the RTL, and at the IP, where zeros fill them up to whole bytes."""

    word_bits: int

    @property
    def bytes(self) -> int:
        """Bytes of TDATA."""
        return (self.word_bits + 7) // 8

    @property
    def padding(self) -> int:
        """Bits of TDATA above the word."""
        return 8 * self.bytes - self.word_bits


@dataclass(frozen=True, eq=False)
class Ip:
    """One layer as an IP.

    Attributes:
        name: of the top function, and of the module that high-level synthesis makes of it.
        module: the SystemVerilog module around it.
        files: texts below ``ip/<name>/``: sources, test bench, vendor projects, and a model for simulation.
    """

    name: str
    module: RtlModule
    files: dict[str, str]

    @property
    def models(self) -> list[str]:
        """What a simulator needs in place of the IP."""
        sources = [path for path in compiled_files(self.files) if "/tb/" not in path]
        return [*(path for path in self.files if path.endswith(".sv")), *sources]


def generate_ip(instance: Instance) -> Ip:
    """The layer of *instance* as an IP, ``<module>_hls``.

    Its ports are ``in<k>`` and ``out<k>``, streams of words padded to whole bytes, without sideband signals.

    Raises:
        UnsupportedError: when the layer has no template, or is no function of its own.
        FoldingError: when its words are wider than HLS accepts.
    """
    layer, node = instance.layer, instance.node
    inputs = [Boundary(f"in{k}", f"{node}.in{k}", s, f"input{k}") for k, s in enumerate(layer.inputs)]
    outputs = [Boundary(f"out{k}", f"{node}.out{k}", s, f"output{k}") for k, s in enumerate(layer.outputs)]
    alone = replace(instance, inputs=tuple(b.wire for b in inputs), outputs=tuple(b.wire for b in outputs))
    wires = tuple(Wire(b.wire, b.tensor, Value(node, k), b.stream) for k, b in enumerate(outputs))
    hls = assemble_hls(Top(f"{instance.module}_hls", tuple(inputs), tuple(outputs), wires, (alone,)), sideband=False)
    if isinstance(layer.hls(), HlsStream):
        raise UnsupportedError(f"layer kind {layer.kind} is a stream in C++, no function of its own", node=f"'{node}'")
    folder = f"{FOLDER}/{hls.name}"
    feeds = [random_frames(s.range, s.shape, k) for k, s in enumerate(layer.inputs)]
    vectors = render_vectors(hls, feeds, layer.execute(*feeds), folder)
    context = {"top": hls, "name": node}
    models = {
        f"{folder}/model/{hls.name}.sv": render_text("ip_model.sv.j2", context, "hls"),
        f"{folder}/model/{hls.name}_model.cpp": render_text("ip_model.cpp.j2", context, "hls"),
    }
    files = {**render_hls(hls, node, folder), **vectors, **models}
    return Ip(hls.name, _module(hls.name, layer.inputs, layer.outputs), files)


def _module(ip: str, inputs: tuple[StreamType, ...], outputs: tuple[StreamType, ...]) -> RtlModule:
    context = {
        "ip": ip,
        "inputs": [PortWidth(s.word_bits) for s in inputs],
        "outputs": [PortWidth(s.word_bits) for s in outputs],
    }
    return RtlModule("hls_ip.sv.j2", context)


def ip_scripts(ips: list[Ip], name: str) -> dict[str, str]:
    """What makes all IPs of a design: a Makefile, and a script that adds them to a Vivado project."""
    context = {"names": [ip.name for ip in ips], "name": name}
    return {
        f"{FOLDER}/Makefile": render_text("ips.mk.j2", context, "project"),
        f"{FOLDER}/add_ips.tcl": render_text("add_ips.tcl.j2", context, "project"),
    }
