"""Names and wires of the top level: what the template of the top module and the manifest both need to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.codegen.control import PORT, Control, CountedStream, Region, make_control
from headrace.codegen.names import Namespace, identifier
from headrace.codegen.render import library_modules
from headrace.ir import Graph, Input, Output, Value
from headrace.layers.base import Layer, StreamType
from headrace.passes.hardware_design import HardwareDesign
from headrace.schedule.streams import Link, boundary_stream, layers, links

CONTROL = "control"
"""What the control module is called after the design's name."""

PREFIX_LENGTH = 16
"""Longest part of the design's name that stands before every module's name."""


@dataclass(frozen=True)
class Boundary:
    """A stream port of the top module: the tensor that it carries, and the stream inside."""

    port: str
    tensor: str
    stream: StreamType
    wire: str

    @property
    def bytes(self) -> int:
        """Bytes of tdata: a word, padded with zero bits."""
        return (self.stream.word_bits + 7) // 8


@dataclass(frozen=True)
class Wire:
    """An internal stream: its signals are ``<signal>_tdata``, ``_tvalid``, ``_tready``."""

    signal: str
    name: str
    source: Value
    stream: StreamType


@dataclass(frozen=True, eq=False)
class Instance:
    """A layer in the top module: names of its module and instance, and the signals at its ports."""

    node: str
    layer: Layer
    module: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Top:
    """The top module of a design.

    Attributes:
        module: its name.
        inputs, outputs: stream ports, ``s_axis_<k>`` and ``m_axis_<k>``.
        wires: what the layers write, in topological order.
        instances: the layers, in topological order.
        control: the AXI4-Lite slave, where there is something to control.
    """

    module: str
    inputs: tuple[Boundary, ...]
    outputs: tuple[Boundary, ...]
    wires: tuple[Wire, ...]
    instances: tuple[Instance, ...]
    control: Control | None = None

    def region_of(self, instance: Instance) -> tuple[int, Region] | None:
        """The window of a layer in the control interface, and its number."""
        regions = self.control.regions if self.control is not None else ()
        return next(((k, r) for k, r in enumerate(regions) if r.node == instance.node), None)

    @property
    def buses(self) -> tuple[str, ...]:
        """Interfaces at the ports."""
        return (*(b.port for b in (*self.inputs, *self.outputs)), *((PORT,) if self.control is not None else ()))


def assemble(design: HardwareDesign, name: str) -> Top:
    """The top module of a folded *design* called *name*; every name in it is a legal and unique identifier.

    Raises:
        ValueError: when two words that meet differ in width, or an input is wired straight to an output: the graph
            was not scheduled.
    """
    graph = design.graph
    edges = links(graph)
    for link in edges:
        _check_link(graph, link)
    identifiers = Namespace()
    ids = {node: identifiers.new(node) for node in layers(graph)}
    module = identifier(name)
    own = identifiers.new(CONTROL)
    modules = _module_names((*ids.values(), own), module)
    tensors = [p.name for p in (*design.inputs, *design.outputs)]
    wires = _wires(graph, ids, tensors)
    by_source = {wire.source: wire.signal for wire in wires}
    inputs = tuple(
        Boundary(f"s_axis_{k}", port.name, boundary_stream(graph, _link(edges, graph, port.node)), f"input{k}")
        for k, port in enumerate(design.inputs)
    )
    by_source |= {Value(p.node): b.wire for p, b in zip(design.inputs, inputs, strict=True)}
    outputs = []
    for k, port in enumerate(design.outputs):
        link = _link(edges, graph, port.node)
        outputs.append(Boundary(f"m_axis_{k}", port.name, boundary_stream(graph, link), by_source[link.source]))
    reads = {(link.target.node, link.target.port): by_source[link.source] for link in edges}
    instances = tuple(
        Instance(
            node,
            layer,
            modules[ids[node]],
            f"i_{ids[node]}",
            tuple(reads[node, k] for k in range(len(layer.inputs))),
            tuple(by_source[Value(node, k)] for k in range(len(layer.outputs))),
        )
        for node, layer in layers(graph).items()
    )
    control = _control(design, modules[own], inputs, wires, outputs, instances)
    return Top(module, inputs, tuple(outputs), wires, instances, control)


def _control(
    design: HardwareDesign,
    module: str,
    inputs: Sequence[Boundary],
    wires: Sequence[Wire],
    outputs: Sequence[Boundary],
    instances: Sequence[Instance],
) -> Control | None:
    """The control module, which watches all streams."""
    port_of = {b.wire: b.port for b in outputs}
    taken = [CountedStream(b.tensor, "", b.wire, b.stream.words, b.port) for b in inputs]
    written = [CountedStream(w.name, w.source.node, w.signal, w.stream.words, port_of.get(w.signal, "")) for w in wires]
    return make_control(module, [(i.node, i.layer) for i in instances], taken, written, design.counters)


def _module_names(ids: Iterable[str], top: str) -> dict[str, str]:
    """Module by layer identifier: the design's name before it, so that several designs fit into one project."""
    taken = {name.lower() for name in (top, *library_modules())}
    prefix = top[:PREFIX_LENGTH].rstrip("_")
    result = {}
    for name in ids:
        candidate, number = f"{prefix}_{name}", 0
        while candidate.lower() in taken:
            number += 1
            candidate = f"{prefix}_{name}_{number}"
        taken.add(candidate.lower())
        result[name] = candidate
    return result


def _wires(graph: Graph, ids: dict[str, str], tensors: Iterable[str]) -> tuple[Wire, ...]:
    names = Namespace(tensors)
    wires = []
    for node, layer in layers(graph).items():
        for port, stream in enumerate(layer.outputs):
            local = f"{ids[node]}_out{port if len(layer.outputs) > 1 else ''}"
            wires.append(Wire(f"s_{local}", names.new(local), Value(node, port), stream))
    return tuple(wires)


def _link(edges: Iterable[Link], graph: Graph, node: str) -> Link:
    """The one link at a graph input or output."""
    is_input = isinstance(graph.op(node), Input)
    return next(e for e in edges if node == (e.source.node if is_input else e.target.node))


def _check_link(graph: Graph, link: Link) -> None:
    source, target = graph.op(link.source.node), graph.op(link.target.node)
    if isinstance(source, Input) and isinstance(target, Output):
        raise ValueError(f"input '{link.source.node}' is wired straight to output '{link.target.node}'")
    if isinstance(source, Layer) and isinstance(target, Layer):
        written, read = source.outputs[link.source.port], target.inputs[link.target.port]
        if (written.elements, written.range, written.words) != (read.elements, read.range, read.words):
            raise ValueError(f"'{link.source.node}' writes {written}, '{link.target.node}' reads {read}")
