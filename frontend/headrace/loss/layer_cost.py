"""What layers cost as hardware, as functions of bit widths that gradients flow through.

The values are those of the resource estimates of the compiler (``headrace.layers.mvau.MVAU``, ``VVAU``,
``Thresholding``) at whole bit widths, in LUT equivalents: lookup tables, with DSP blocks and block RAMs counted as the
tables that they replace (the usual weights of ``headrace.schedule.cost``). A matrix that is unfolded completely costs
less in the compiler, which shares sums between rows by what the weights are; here it costs what it does without.

Where an estimate jumps or rounds, the gradient is that of the smooth formula beside it: a multiplier that has become a
DSP block has the gradient of one in tables, so that bit widths can still find their way to where tables are cheaper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from headrace.arithmetic import WIRED, DotProduct, wired_constant_luts

DSP_LUTS = 100.0
BRAM18_LUTS = 120.0
MOST_BITS = 24
"""Widest operands that are told apart."""


@dataclass(frozen=True, eq=False)
class Operand:
    """The format of inputs or weights.

    Args:
        bits: bit width, a scalar.
        signed: signed or unsigned integers.
        narrow: without the lowest (signed) integer.
        bipolar: only -1 and +1, in one bit.
    """

    bits: Tensor
    signed: bool
    narrow: bool = False
    bipolar: bool = False

    def bounds(self) -> tuple[Tensor, Tensor]:
        """The smallest and the largest integer."""
        if self.bipolar:
            one = torch.ones_like(self.bits)
            return -one, one
        if not self.signed:
            return torch.zeros_like(self.bits), 2.0**self.bits - 1.0
        half = 2.0 ** (self.bits - 1.0)
        return (1.0 if self.narrow else 0.0) - half, half - 1.0


@dataclass(frozen=True)
class Shape:
    """What a layer computes a frame.

    Args:
        inputs: products in an output; of a depthwise convolution the taps.
        outputs: outputs of a vector.
        vectors: vectors a frame, 1 for a dense layer, the positions of a convolution.
        channels: of a depthwise convolution; 0 for any other layer.
        window: elements that the sliding window remembers a channel; 0 without one.
        image_channels: channels of what the window slides over.
    """

    inputs: int
    outputs: int
    vectors: int = 1
    channels: int = 0
    window: int = 0
    image_channels: int = 1


@lru_cache
def folding(shape: Shape, cycles: int) -> tuple[int, int]:
    """``(PE, SIMD)`` with the fewest lanes that need at most *cycles* a frame; all of them where that is too few.

    Among equals the squarest: adder trees and accumulators are balanced.
    """
    rows, columns = (shape.channels, shape.inputs) if shape.channels else (shape.outputs, shape.inputs)
    best = rows, columns
    for pe in _divisors(rows):
        for simd in _divisors(columns):
            if shape.vectors * (rows // pe) * (columns // simd) > cycles:
                continue
            if (pe * simd, abs(pe - simd)) < (best[0] * best[1], abs(best[0] - best[1])):
                best = pe, simd
    return best


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _with_gradient(value: Tensor, smooth: Tensor) -> Tensor:
    """The value of *value*, the gradient of *smooth*."""
    return smooth + (value - smooth).detach()


def bits_of(low: Tensor, high: Tensor, smooth: Tensor) -> Tensor:
    """Bits that hold every integer from *low* to *high*, signed where *low* is below 0; gradient of *smooth*."""
    low, high = low.detach().double(), high.detach().double()
    magnitude = torch.maximum(-low, high + 1.0).clamp_min(1.0)
    bits = torch.ceil(torch.log2(magnitude)) + (low < 0)
    return _with_gradient(bits.clamp_min(1.0).to(smooth.dtype), smooth)


def products(a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """The smallest and the largest product."""
    (a_low, a_high), (b_low, b_high) = a.bounds(), b.bounds()
    corners = torch.stack([(x * y).reshape(()) for x in (a_low, a_high) for y in (b_low, b_high)])
    return corners.min(), corners.max()


def memory(depth: int, width: Tensor) -> Tensor:
    """A memory of *depth* words: 64 bits a LUT, or block RAMs of 18 kbit from 4 kbit and 128 words on."""
    tables = math.ceil(depth / 64) * width
    if depth <= 128:
        return tables
    choices = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192))
    word, rows = next(((w, d) for w, d in choices if depth <= d), (1, 0))
    blocks = BRAM18_LUTS * (1 if rows else math.ceil(depth / 16384)) * torch.ceil(width.detach() / word)
    smooth = torch.minimum(tables, tables * (BRAM18_LUTS * 64 / 18432))
    return torch.where(depth * width.detach() > 4096, _with_gradient(blocks, smooth), tables)


def _constants(depth: int, width: Tensor) -> Tensor:
    """A memory of constants: of a short one few columns differ."""
    if depth >= 16:
        return memory(depth, width)
    columns = 1 << depth
    return memory(depth, _with_gradient(torch.ceil(columns * (1 - (1 - 1 / columns) ** width.detach())), width))


@dataclass(frozen=True)
class _Range:
    """The integers of an operand, as :class:`headrace.arithmetic.Range`."""

    lo: int
    hi: int
    bipolar: bool

    @property
    def signed(self) -> bool:
        return self.lo < 0 and not self.bipolar

    @property
    def bits(self) -> int:
        if self.bipolar:
            return 1
        return max((max(self.hi, -self.lo - 1)).bit_length() + self.signed, 1)

    @staticmethod
    def of(bits: int, signed: bool, narrow: bool, bipolar: bool) -> _Range:
        """As :meth:`Operand.bounds`."""
        if bipolar:
            return _Range(-1, 1, True)
        half = 1 << (bits - 1)
        return _Range(int(narrow) - half, half - 1, False) if signed else _Range(0, 2 * half - 1, False)


@lru_cache(maxsize=4096)
def _dot_table(
    rows: int, lanes: int, x: tuple[bool, bool, bool], w: tuple[bool, bool, bool], accumulated: bool, constant: bool
) -> Tensor:
    """LUT equivalents of dot products for every width of values and of weights, ``(MOST_BITS, MOST_BITS)``.

    Args:
        rows, lanes, accumulated, constant: as of :class:`headrace.arithmetic.DotProduct`.
        x, w: whether values and weights are signed, narrow, bipolar.
    """

    def cost(x_bits: int, w_bits: int) -> float:
        operands = _Range.of(x_bits, *x), _Range.of(w_bits, *w)
        dot = DotProduct(rows, lanes, *operands, 64, accumulated, constant, lanes if constant else 0)
        lut, _, dsp = dot.resources()
        return lut + DSP_LUTS * dsp

    some = [range(1, 2 if operand[2] else MOST_BITS + 1) for operand in (x, w)]
    grid = torch.tensor([[cost(a, b) for b in some[1]] for a in some[0]])
    return grid.expand(MOST_BITS, MOST_BITS) if grid.numel() == 1 else grid


def _dots(x: Operand, w: Operand, rows: int, lanes: int, accumulated: bool, constant: bool = False) -> Tensor:
    """The dot products of *lanes* values with *rows* rows of weights, by the arithmetic that the compiler takes."""
    kinds = [(o.signed, o.narrow, o.bipolar) for o in (x, w)]
    table = _dot_table(rows, lanes, kinds[0], kinds[1], accumulated, constant).to(x.bits.device)
    for axis, operand in enumerate((x, w)):  # selected, not indexed: that reads the number, and waits for a GPU
        at = torch.ceil(operand.bits.detach()).long().clamp(1, table.shape[axis]).reshape(1) - 1
        table = table.index_select(axis, at)
    value = table.reshape(()).to(x.bits.dtype)
    low, high = products(x, w)
    width = bits_of(low, high, x.bits + w.bits)
    return _with_gradient(value, rows * lanes * (x.bits * w.bits + width))


def matrix_luts(
    shape: Shape, x: Operand, w: Operand, cycles: int, acc: Tensor, density: Tensor | float = 1.0
) -> Tensor:
    """LUT equivalents of an MVAU and the window before it.

    Args:
        shape: of the layer.
        x, w: formats of inputs and weights.
        cycles: clock cycles that a frame may take.
        acc: bits of the accumulator.
        density: part of the weights that is not 0; what is multiplied by 0 costs nothing where every weight has its
            own place.
    """
    pe, simd = folding(shape, cycles)
    passes, words = shape.outputs // pe, shape.inputs // simd
    unrolled = passes * words == 1
    both = x.bipolar and w.bipolar  # counts of equal bits, which the result doubles
    accumulated = words > 1 or x.bipolar or w.bipolar
    dots = _dots(x, w, pe, simd, accumulated, unrolled) * (density if unrolled else 1.0)
    total = 25.0 + dots + pe * (torch.clamp(acc - 1.0, min=1.0) if both else acc)
    if not unrolled:
        total = total + _constants(passes * words, pe * simd * w.bits)
    if passes > 1:
        total = total + memory(2 * words, simd * x.bits)
    return total + _window(shape, x, simd)


def _window(shape: Shape, x: Operand, elements: int) -> Tensor:
    """The ring of a sliding window, in words of *elements*."""
    if not shape.window:
        return torch.zeros_like(x.bits)
    elements = min(elements, shape.image_channels)
    return memory(math.ceil(shape.window * shape.image_channels / elements), elements * x.bits)


def depthwise_luts(shape: Shape, x: Operand, w: Operand, cycles: int, acc: Tensor) -> Tensor:
    """LUT equivalents of a VVAU; arguments as of :func:`matrix_luts`."""
    pe, simd = folding(shape, cycles)
    rows = pe * (shape.outputs // shape.channels)
    passes = shape.inputs // simd
    words = shape.channels // pe * passes
    accumulated = passes > 1 or x.bipolar or w.bipolar
    total = pe * _dots(x, w, rows // pe, simd, accumulated, words == 1) + rows * acc
    if words > 1:
        total = total + _constants(words, rows * simd * w.bits)
    return total + _window(shape, x, pe)


def threshold_luts(channels: int, elements: int, bits: Tensor, acc: Tensor, cycles: int) -> Tensor:
    """LUT equivalents of a Thresholding with a row of thresholds a channel: comparators, or a binary search.

    Args:
        channels: of a frame.
        elements: of a frame.
        bits: of the result.
        acc: bits of the input.
        cycles: clock cycles that a frame may take.
    """
    pe = next((d for d in _divisors(channels) if elements // d <= cycles), channels)
    groups = channels // pe
    steps = 2.0**bits - 1.0
    index = max((groups - 1).bit_length(), 1)
    parallel = pe * (steps * acc * (0.3 if groups == 1 else 0.5) + bits + 3.0 * (steps - bits))
    if groups > 1:
        width = pe * steps * acc
        shared = 1 + min(groups, 64) / 64 * torch.clamp(width.detach(), max=256.0) / 256
        parallel = parallel + 2.0 * index + shared * _constants(groups, width)
    search = pe * (bits * acc * 0.5 + bits) + (index if groups > 1 else 0)
    for level in range(int(math.log2(4096))):
        if groups << level > 1:
            depth = groups << level
            table = pe * (acc * wired_constant_luts(depth) if depth <= WIRED else _constants(depth, acc))
            search = search + torch.where(bits.detach() > level, table, 0.0)
    # The tables double with every level: their gradient is that of the last one.
    smooth = pe * acc * (bits * 0.5 + groups * steps / 64)
    return 8.0 + torch.minimum(parallel, _with_gradient(search, smooth))


__all__ = [
    "BRAM18_LUTS",
    "DSP_LUTS",
    "Operand",
    "Shape",
    "bits_of",
    "depthwise_luts",
    "folding",
    "matrix_luts",
    "memory",
    "products",
    "threshold_luts",
]
