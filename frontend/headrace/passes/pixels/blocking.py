"""A graph in which operators work on blocks of pixels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.ir import Graph, Op, Shape, Value
from headrace.ir.integer import Reshape, Transpose
from headrace.passes.forks import fresh_name
from headrace.passes.hardware_design import Place
from headrace.passes.pixels.planning import chosen, offered
from headrace.passes.pixels.rules import Block, Choice, blocked, follows


@dataclass(frozen=True)
class Blocked:
    """A core whose operators make several pixels at once.

    Attributes:
        graph: computes the same as the core.
        shapes: by node whose frames are blocks now, the frame that the core has.
        blocks: by node, the pixels of a block.
    """

    graph: Graph
    shapes: Mapping[str, Shape]
    blocks: Mapping[str, Block]

    def place(self, node: str, found: Place) -> Place:
        """Where the tensor of the core's *node* is, given where that of this graph's is."""
        if node not in self.shapes:
            return found
        layout = found.layout
        for op in _unblocking(self.shapes[node], self.blocks[node]):
            layout = layout.reshaped(op.shape) if isinstance(op, Reshape) else layout.transposed(op.perm)
        return Place(found.value, layout)


def block_pixels(core: Graph, pixels: Mapping[str, int]) -> Blocked:
    """*core* with each operator of *pixels* making so many pixels at once, and functions behind it with it.

    Raises:
        FoldingError: when a number does not fit the operator; names the node and those that do.
    """
    wanted = {node: chosen(core, node, m) for node, m in pixels.items() if m != 1}
    return _Blocking(core, wanted, set(pixels) - set(wanted)).run() if wanted else Blocked(core, {}, {})


class _Blocking:
    def __init__(self, core: Graph, wanted: Mapping[str, Choice], single: set[str]) -> None:
        """*single*: nodes that are to stay as they are, whatever comes to them."""
        self.core, self.wanted, self.single = core, wanted, single
        self.graph = Graph(core.name, core.file)
        self.values: dict[tuple[Value, Block], Value] = {}  # tensors of the core, in blocks of pixels
        self.made: dict[Value, Block] = {}  # the blocks in which they were made
        self.shapes: dict[str, Shape] = {}
        ports = [(core.input_node(name), name) for name in core.inputs]
        self.public = dict([*ports, *((core.output_node(name), name) for name in core.outputs)])

    def run(self) -> Blocked:
        for node in self.core:
            op, sources = self.core.op(node), self.core.sources(node)
            choice = self._choice(node, op, sources)
            if choice is not None:
                self._blocked(node, op, sources, choice)
                continue
            inputs = [self._in_blocks(value, _single(self.core.type(value).shape)) for value in sources]
            result = self.graph.add(op, inputs, node, self.public.get(node))
            for port, type_ in enumerate(self.core.types(node)):
                self._keep(Value(node, port), _single(type_.shape), Value(result.node, port))
        return Blocked(self.graph, self.shapes, {node: self.made[Value(node)] for node in self.shapes})

    def _choice(self, node: str, op: Op, sources: Sequence[Value]) -> Choice | None:
        """The blocks in which *node* works: those that are wanted, or those that come to it."""
        if node in self.wanted or node in self.single or not sources or not follows(op):
            return self.wanted.get(node)
        block = self.made[sources[0]]
        if math.prod(block) == 1:
            return None
        return next((choice for choice in offered(self.core, node) if choice.read[0] == block), None)

    def _blocked(self, node: str, op: Op, sources: Sequence[Value], choice: Choice) -> None:
        values = [self._in_blocks(value, block) for value, block in zip(sources, choice.read, strict=True)]
        types = [self.core.type(value) for value in sources]
        chain = blocked(op, choice, types, self.core.types(node)[0])
        for step in chain[:-1]:
            values = [self.graph.add(step, values, self._name(f"{node}_{_word(step)}"))]
        self._keep(Value(node), choice.made, self.graph.add(chain[-1], values, node))
        self.shapes[node] = self.core.types(node)[0].shape

    def _keep(self, value: Value, block: Block, found: Value) -> None:
        self.values[value, block] = found
        self.made.setdefault(value, block)

    def _in_blocks(self, value: Value, block: Block) -> Value:
        """The tensor *value* of the core in blocks of pixels: the same stream, whatever blocks it was made in."""
        if (value, block) in self.values:
            return self.values[value, block]
        shape, made = self.core.type(value).shape, self.made[value]
        result = self.values[value, made]
        for step in (*_unblocking(shape, made), *_blocking(shape, block)):
            result = self.graph.add(step, (result,), self._name(f"{value.node}_blocks"))
        self.values[value, block] = result
        return result

    def _name(self, name: str) -> str:
        return fresh_name(name, self.graph, self.core)


def _word(op: Op) -> str:
    """What a part of an operator is called after."""
    return type(op).__name__.removeprefix("Int").lower()


def _single(shape: Shape) -> Block:
    """The block of one pixel."""
    return (1,) * (len(shape) - 1)


def _blocking(shape: Shape, block: Block) -> tuple[Reshape | Transpose, ...]:
    """``(C, *size)`` to ``(block * C, *blocks)``, elements of a block ordered (place, channel)."""
    if math.prod(block) == 1:
        return ()
    channels, *size = shape
    blocks = [n // b for n, b in zip(size, block, strict=True)]
    rank = len(size)
    split = [n for pair in zip(blocks, block, strict=True) for n in pair]
    inner, outer = range(2, 2 * rank + 1, 2), range(1, 2 * rank, 2)
    return (
        Reshape((channels, *split)),
        Transpose((*inner, 0, *outer)),
        Reshape((math.prod(block) * channels, *blocks)),
    )


def _unblocking(shape: Shape, block: Block) -> tuple[Reshape | Transpose, ...]:
    """The inverse, to *shape*."""
    if math.prod(block) == 1:
        return ()
    channels, *size = shape
    blocks = [n // b for n, b in zip(size, block, strict=True)]
    rank = len(size)
    paired = [axis for k in range(rank) for axis in (rank + 1 + k, k)]
    return (Reshape((*block, channels, *blocks)), Transpose((rank, *paired)), Reshape(shape))
