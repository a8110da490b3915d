"""Several pixels a cycle: convolutions on images whose neighbouring pixels are seen as channels of one.

A row of ``W`` pixels with ``C`` channels is, in the same stream order, ``W / B`` blocks with ``B * C`` channels.
A convolution that makes ``M`` neighbouring pixels at once is a convolution over blocks of ``B = M * stride`` pixels:
output pixel ``j * M + m`` reads the input pixels ``(j * M + m) * stride + k * dilation - pad``, which lie in blocks
``j + q`` at places ``b``; so the weights of each of the M pixels stand in their rows, shifted, among zeros. Nothing in
the layers changes: a folding of the blocked convolution reads and writes words of several pixels, and zero weights cost
nothing where they are constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headrace.errors import FoldingError
from headrace.ir import Graph, Shape, Value
from headrace.ir.integer import Int, IntConv, PerChannel, Reshape, Transpose
from headrace.passes.forks import fresh_name
from headrace.passes.hardware_design import Place


@dataclass(frozen=True)
class Blocked:
    """A core whose convolutions make several pixels at once.

    Attributes:
        graph: computes the same as the core.
        shapes: by node whose frames are blocks now, the frame that the core has.
        pixels: by node, how many pixels it makes at once.
    """

    graph: Graph
    shapes: Mapping[str, Shape]
    pixels: Mapping[str, int]

    def place(self, node: str, found: Place) -> Place:
        """Where the tensor of the core's *node* is, given where that of this graph's is."""
        if node not in self.shapes:
            return found
        layout = found.layout
        for op in _unblocking(self.shapes[node], self.pixels[node]):
            layout = layout.reshaped(op.shape) if isinstance(op, Reshape) else layout.transposed(op.perm)
        return Place(found.value, layout)


def pixel_choices(core: Graph, node: str) -> tuple[int, ...]:
    """How many pixels the convolution at *node* can make at once, ascending; 1 is always among them."""
    op = core.op(node)
    if not isinstance(op, IntConv) or op.groups != 1:
        return (1,)
    read, made = core.type(core.sources(node)[0]).shape[-1], core.types(node)[0].shape[-1]
    fits = (m for m in range(1, made + 1) if made % m == 0 and read % (m * op.strides[-1]) == 0)
    return tuple(m for m in fits if m == 1 or _blocks(op, m, read, made).end >= 0)


def pixels_for(core: Graph, cycles: int) -> dict[str, int]:
    """For each convolution that makes or reads more pixels than *cycles*, the fewest at once that suffice.

    Where no number fits, none is given: the layer is then found to be too slow.
    """
    found = {}
    for node in core:
        op = core.op(node)
        if not isinstance(op, IntConv):
            continue
        made = math.prod(core.types(node)[0].shape[1:])
        read = math.prod(core.type(core.sources(node)[0]).shape[1:])
        for m in pixel_choices(core, node)[1:] if max(made, read) > cycles else ():
            if made <= m * cycles and read <= m * op.strides[-1] * cycles:
                found[node] = m
                break
    return found


def block_pixels(core: Graph, pixels: Mapping[str, int]) -> Blocked:
    """*core* with each convolution of *pixels* making so many pixels at once, and the functions behind it with it.

    Raises:
        FoldingError: when a number does not fit the convolution; names the node and those that do.
    """
    wanted = {node: m for node, m in pixels.items() if m != 1}
    for node, m in wanted.items():
        choices = pixel_choices(core, node) if node in core.nx else (1,)
        if m not in choices:
            valid = ", ".join(map(str, choices))
            raise FoldingError(f"layer '{node}': M={m} pixels at once do not fit; valid: {valid}")
    return _Blocking(core, wanted).run() if wanted else Blocked(core, {}, {})


@dataclass(frozen=True)
class _Blocks:
    """Offsets of the blocks that a blocked convolution reads, and the padding that it needs at the end."""

    size: int
    first: int
    last: int
    end: int


def _blocks(op: IntConv, m: int, read: int, made: int) -> _Blocks:
    size, begin = m * op.strides[-1], op.pads[-1][0]
    first = -begin // size
    last = ((m - 1) * op.strides[-1] + op.dilations[-1] * (op.kernel[-1] - 1) - begin) // size
    return _Blocks(size, first, last, made // m + last - read // size)


class _Blocking:
    def __init__(self, core: Graph, pixels: Mapping[str, int]) -> None:
        self.core, self.pixels = core, dict(pixels)
        self.graph = Graph(core.name, core.file)
        self.values: dict[Value, Value] = {}
        self.shapes: dict[str, Shape] = {}
        ports = [(core.input_node(name), name) for name in core.inputs]
        self.public = dict([*ports, *((core.output_node(name), name) for name in core.outputs)])

    def run(self) -> Blocked:
        for node in self.core:
            op, sources = self.core.op(node), self.core.sources(node)
            if node in self.pixels:
                assert isinstance(op, IntConv)
                self._convolution(node, op, sources[0])
            elif isinstance(op, PerChannel) and (at := self._follows(op, sources[0])):
                m = self.pixels[at]
                tiled = op.with_constants(lambda c, m=m: _tiled(c, m), op.axis)  # type: ignore[misc]
                self._blocked(node, self.graph.add(tiled, (self._raw(sources[0]),), node), m)
            else:
                inputs = [self._plain(value) for value in sources]
                result = self.graph.add(op, inputs, node, self.public.get(node))
                for port in range(len(self.core.types(node))):
                    self.values[Value(node, port)] = Value(result.node, port)
        return Blocked(self.graph, self.shapes, self.pixels)

    def _follows(self, op: PerChannel, source: Value) -> str:
        """The blocked node that *op* reads alone, channel by channel; else an empty string."""
        alone = len(self.core.consumers(source)) == 1
        by_channel = op.axis == 0 or op.channels == 1
        return source.node if source.node in self.shapes and alone and by_channel else ""

    def _convolution(self, node: str, op: IntConv, source: Value) -> None:
        m = self.pixels[node]
        shape = self.core.type(source).shape
        blocks = _blocks(op, m, shape[-1], self.core.types(node)[0].shape[-1])
        value = self._plain(source)
        for step in _blocking(shape, blocks.size):
            value = self.graph.add(step, (value,), self._name(f"{node}_blocks"))
        self._blocked(node, self.graph.add(_widened(op, m, blocks), (value,), node), m)

    def _blocked(self, node: str, value: Value, m: int) -> None:
        self.shapes[node], self.pixels[node] = self.core.types(node)[0].shape, m
        self.values[Value(node)] = value

    def _raw(self, value: Value) -> Value:
        return self.values[value]

    def _plain(self, value: Value) -> Value:
        """*value* in the frames of the core."""
        result = self.values[value]
        if value.node not in self.shapes:
            return result
        for step in _unblocking(self.shapes[value.node], self.pixels[value.node]):
            result = self.graph.add(step, (result,), self._name(f"{value.node}_pixels"))
        return result

    def _name(self, name: str) -> str:
        return fresh_name(name, self.graph, self.core)


def _blocking(shape: Shape, size: int) -> tuple[Reshape | Transpose, ...]:
    """``(C, ..., W)`` to ``(size * C, ..., W / size)``, channel ``b * C + c``."""
    channels, *rows, width = shape
    last = len(shape)
    return (
        Reshape((channels, *rows, width // size, size)),
        Transpose((last, *range(last))),
        Reshape((size * channels, *rows, width // size)),
    )


def _unblocking(shape: Shape, size: int) -> tuple[Reshape | Transpose, ...]:
    """The inverse, to *shape*."""
    channels, *rows, width = shape
    return (
        Reshape((size, channels, *rows, width // size)),
        Transpose((*range(1, len(shape) + 1), 0)),
        Reshape(shape),
    )


def _widened(op: IntConv, m: int, blocks: _Blocks) -> IntConv:
    outputs, inputs, *kernel = op.weights.shape
    count = blocks.last - blocks.first + 1
    weights = np.zeros((m, outputs, blocks.size, inputs, *kernel[:-1], count), np.int64)
    for pixel in range(m):
        for tap in range(kernel[-1]):
            at = pixel * op.strides[-1] + tap * op.dilations[-1] - op.pads[-1][0]
            block, place = divmod(at, blocks.size)
            weights[pixel, :, place, ..., block - blocks.first] = op.weights[..., tap]
    return replace(
        op,
        weights=weights.reshape(m * outputs, blocks.size * inputs, *kernel[:-1], count),
        ranges=np.tile(op.ranges, (1, m)),
        strides=(*op.strides[:-1], 1),
        dilations=(*op.dilations[:-1], 1),
        pads=(*op.pads[:-1], (-blocks.first, blocks.end)),
    )


def _tiled(constant: Int, m: int) -> Int:
    """Constants for each of *m* pixels; those that all channels share stay."""
    return constant if constant.shape[0] == 1 else np.tile(constant, (m, *(1,) * (constant.ndim - 1)))
