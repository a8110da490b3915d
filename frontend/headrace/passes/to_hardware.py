"""From the integer graph to a graph of hardware layers.

Data movement costs nothing here: reshapes and transposes only change the layout that is kept for every tensor, and the
operator that reads it takes the stream as it comes (:mod:`headrace.passes.placement`); where it cannot, a layer puts
the stream in order. What remains is lowered, operator by operator, by the rules that the layers register; layers come
out folded as little as possible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import networkx as nx

from headrace.errors import ModelError, UnsupportedError
from headrace.ir import Graph, Input, IntRange, Op, Output, Value
from headrace.ir.integer import Transpose
from headrace.layers.base import Layer, StreamType, lower
from headrace.passes.forks import duplicate_forks, framed, fresh_name
from headrace.passes.hardware_design import HardwareDesign, Place, Port
from headrace.passes.layout import Layout
from headrace.passes.pixels import Blocked, block_pixels
from headrace.passes.placement import OrderError, Placed, place, reordered, wanted_axes


def to_hardware(core: Graph, pixels: Mapping[str, int] | None = None) -> HardwareDesign:
    """The layers that compute *core*, an integer graph of :mod:`headrace.ir.integer`.

    Every value has one reader afterwards: forks have become layers of their own. What no output needs is left out.

    Args:
        core: the integer graph.
        pixels: by node, how many pixels it is to make at once (:mod:`headrace.passes.pixels`).

    Raises:
        UnsupportedError: for an operator without a layer; names the node.
        FoldingError: when a number of *pixels* does not fit.
    """
    blocked = block_pixels(core, pixels or {})
    design = _Lowering(blocked, core).design()
    places = {node: blocked.place(node, place) for node, place in design.places.items()}
    return replace(design, places=places, pixels={n: m for n, m in (pixels or {}).items() if m != 1})


class _Lowering:
    """The state of one run: the hardware graph as far as it is built."""

    def __init__(self, blocked: Blocked, before: Graph) -> None:
        """*blocked* is lowered; *before*, the same with every pixel for itself, says how inputs should arrive."""
        core = blocked.graph
        self.core, self.before, self.in_blocks = core, before, blocked.shapes
        self.graph = Graph(core.name, core.file)
        self.places: dict[Value, Place] = {}
        self.inputs: list[Port] = []
        self.outputs: list[Port] = []
        self._public = {core.input_node(n): n for n in core.inputs} | {core.output_node(n): n for n in core.outputs}

    def design(self) -> HardwareDesign:
        ends = [self.core.output_node(name) for name in self.core.outputs]
        alive = {*ends, *(a for node in ends for a in nx.ancestors(self.core.nx, node))}
        for node in self.core:
            op = self.core.op(node)
            if node not in alive:
                continue
            if isinstance(op, Input):
                self._input(node)
            elif isinstance(op, Output):
                self._output(node)
            else:
                self._operator(node, op)
        self._check_outputs()
        order = {name: k for k, name in enumerate((*self.before.inputs, *self.before.outputs))}
        inputs = tuple(sorted(self.inputs, key=lambda p: order[p.name]))
        outputs = tuple(sorted(self.outputs, key=lambda p: order[p.name]))
        places = {value.node: where for value, where in self.places.items() if value.port == 0}
        return HardwareDesign(duplicate_forks(self.graph), inputs, outputs, places)

    def _input(self, node: str) -> None:
        value = Value(node)
        type_ = self.core.type(value)
        layout = Layout.by_axes(type_.shape, _input_axes(self.before, value, self.in_blocks))
        if len(layout.frame) > 3:
            layout = layout.reframed((layout.size // layout.frame[-1], layout.frame[-1]))
        stream = StreamType(layout.frame, type_.int_range)
        where = self.graph.input(node, stream.tensor)
        self.places[value] = Place(where, layout)
        self.inputs.append(Port(self._public[node], where.node, layout, type_.int_range))

    def _output(self, node: str) -> None:
        (source,) = self.core.sources(node)
        where = self.places[source]
        value = self.graph.output(node, where.value)
        self.places[Value(node)] = Place(value, where.layout)
        self.outputs.append(Port(self._public[node], value.node, where.layout, self.core.type(source).int_range))

    def _operator(self, node: str, op: Op) -> None:
        sources = self.core.sources(node)
        places = [self.places[value] for value in sources]
        ranges = [self.core.type(value).int_range for value in sources]
        where = f"'{node}' ({type(op).__name__})"
        try:
            placed = self._placed(node, op, places, ranges)
            if placed.op is None:
                self.places[Value(node)] = Place(places[0].value, placed.layout)
                return
            value = self._lowered(placed, places, ranges, node, where)
        except ModelError as error:
            if error.node is not None:
                raise
            raise type(error)(error.message, node=where, file=self.core.file) from error
        self.places[Value(node)] = Place(value, placed.layout.reframed(self.graph.type(value).shape))

    def _placed(self, node: str, op: Op, places: list[Place], ranges: Sequence[IntRange]) -> Placed:
        """*op* in physical order; operands in an order that it cannot read are put into one that it can."""
        for _ in range(len(places) + 1):
            try:
                return place(op, [p.layout for p in places], self.core.types(node)[0].shape)
            except OrderError as error:
                odd, wanted = error.operand, error.wanted
                reorder = reordered(places[odd].layout, wanted)
                name = self._derived(f"{node}_order")
                value = self._lowered(reorder, [places[odd]], [ranges[odd]], name, f"'{name}'")
                places[odd] = Place(value, wanted.reframed(self.graph.type(value).shape))
        raise RuntimeError(f"{type(op).__name__} '{node}' cannot read any order")

    def _lowered(
        self, placed: Placed, places: Sequence[Place], ranges: Sequence[IntRange], node: str, where: str
    ) -> Value:
        """The layers for *placed*, added under the name *node*."""
        assert placed.op is not None
        streams = [StreamType(f, r) for f, r in zip(placed.frames, ranges, strict=True)]
        chain = lower(placed.op, streams, where)
        pairs = zip(places, streams, strict=True)
        values = [framed(self.graph, p.value, stream.shape, self.core) for p, stream in pairs]
        return self._append(chain, values, node)

    def _append(self, chain: Sequence[Layer], values: list[Value], node: str) -> Value:
        """Add *chain*, the last layer under the name *node*, the others under that name and their kind."""
        for k, layer in enumerate(chain):
            last = k == len(chain) - 1
            name = node if last else self._derived(f"{node}_{layer.kind.lower()}")
            for value, stream in zip(values, layer.inputs, strict=True):
                if self.graph.type(value) != stream.tensor:
                    raise RuntimeError(f"{layer.kind} of '{node}' reads {stream.tensor}, gets {self.graph.type(value)}")
            values = [self.graph.add(layer, values, name)]
        return values[0]

    def _derived(self, name: str) -> str:
        """*name*, numbered until no node of either graph has it: layers keep the names of their nodes."""
        return fresh_name(name, self.graph, self.core)

    def _check_outputs(self) -> None:
        if not self.inputs or not self.outputs:
            what = "input" if not self.inputs else "output"
            raise UnsupportedError(f"graph '{self.core.name}' has no {what} that hardware could stream")


def _input_axes(core: Graph, value: Value, in_blocks: Collection[str]) -> tuple[int, ...]:
    """The order in which a graph input should arrive: as its first reader with a preference wants it.

    Readers without one (element by element) hand the question on to theirs; those that read blocks of pixels (the nodes
    *in_blocks*) want an image.
    """
    rank = len(core.type(value).shape)
    queue: list[tuple[Value, tuple[int, ...]]] = [(value, tuple(range(rank)))]
    seen: set[Value] = set()
    while queue:
        current, names = queue.pop(0)  # names[k]: which axis of the input is axis k of the current tensor
        if current in seen:
            continue
        seen.add(current)
        for reader, _ in core.consumers(current):
            op = core.op(reader)
            wanted = (*range(1, len(names)), 0) if reader in in_blocks else wanted_axes(op, len(names))
            if wanted is not None:
                return tuple(names[a] for a in wanted)
            result = Value(reader)
            if isinstance(op, Transpose):
                queue.append((result, tuple(names[p] for p in op.perm)))
            elif len(core.type(result).shape) == len(names):
                queue.append((result, names))
    return tuple(range(rank))
