"""A hardware graph together with what its streams mean in terms of the integer graph it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.errors import InputError, did_you_mean
from headrace.ir import Array, Graph, IntRange, Value
from headrace.passes.layout import Layout


@dataclass(frozen=True, eq=False)
class Port:
    """A stream into or out of the design.

    Attributes:
        name: of the tensor in the integer graph.
        node: the Input or Output node of the hardware graph.
        layout: which element of the tensor is at which position of the stream.
        range: the integers that travel.
    """

    name: str
    node: str
    layout: Layout
    range: IntRange


@dataclass(frozen=True, eq=False)
class Place:
    """Where the result of a node of the integer graph is found: a value of the hardware graph, and its layout."""

    value: Value
    layout: Layout


@dataclass(frozen=True, eq=False)
class HardwareDesign:
    """A graph of layers and its ports.

    Attributes:
        graph: nodes are Input, Output, layers, and Reshape where a stream is only seen in other frames.
        inputs: ports in the order of the integer graph; an input that no output needs has none.
        outputs: ports in the order of the integer graph.
        places: by node of the integer graph, where its first output is; for comparing stage by stage.
        notes: what the user asked for without effect, one sentence each.
        backends: ``"rtl"`` or ``"hls"`` for the layers of which one was asked for.
        pixels: how many pixels an operator makes at once, by its node, where it is more than one.
        fifos: settings of FIFOs that are put in later, by kind and number, or by kind for those that have none.
        large_fifos: ``ram_style`` of large FIFOs of which nothing else is said.
        counters: whether the design counts what happens on its streams.
    """

    graph: Graph
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    places: Mapping[str, Place]
    notes: tuple[str, ...] = ()
    backends: Mapping[str, str] = field(default_factory=dict)
    pixels: Mapping[str, int] = field(default_factory=dict)
    fifos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    large_fifos: str = "auto"
    counters: bool = False

    def with_graph(self, graph: Graph) -> HardwareDesign:
        """The same ports and places on a refolded or otherwise transformed graph, which keeps the node names."""
        return replace(self, graph=graph)

    def pack_frames(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Batches of integer tensors in stream order.

        Args:
            feeds: ``(frames, *shape)`` by input name; names that have no port are ignored.

        Returns:
            ``(frames, elements)`` by input name.

        Raises:
            InputError: when an input is missing, has another shape, or holds a value that cannot travel.
        """
        packed = {}
        for port in self.inputs:
            if port.name not in feeds:
                known = sorted(p.name for p in self.inputs)
                raise InputError(f"no array for input '{port.name}'{did_you_mean(port.name, feeds)}; expected {known}")
            values = feeds[port.name]
            _check_values(port, values)
            packed[port.name] = port.layout.pack(values).reshape(values.shape[0], -1)
        return packed

    def unpack_frames(self, streams: Mapping[str, Array]) -> dict[str, Array]:
        """The inverse for outputs: ``(frames, elements)`` in stream order to ``(frames, *shape)``, by output name."""
        return {port.name: port.layout.unpack(streams[port.name]) for port in self.outputs}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """What the hardware computes for a batch of integer tensors: arguments and results as in the integer graph."""
        packed = self.pack_frames(feeds)
        frames = {p.node: packed[p.name].reshape(-1, *p.layout.frame) for p in self.inputs}
        results = self.graph.run(frames)
        return self.unpack_frames({p.name: results[p.node] for p in self.outputs})


def _check_values(port: Port, values: Array) -> None:
    if not np.issubdtype(values.dtype, np.integer):
        raise InputError(f"input '{port.name}' holds {values.dtype}; integers are expected")
    if values.size == 0:
        return
    low, high = int(values.min()), int(values.max())
    if low < port.range.lo or high > port.range.hi:
        raise InputError(f"input '{port.name}' holds values from {low} to {high}; only {port.range} can travel")
    if port.range.bipolar and bool((values == 0).any()):
        raise InputError(f"input '{port.name}' holds 0; only -1 and 1 can travel")
