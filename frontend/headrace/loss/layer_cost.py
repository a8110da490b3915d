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

DSP_LUTS = 100.0
BRAM18_LUTS = 120.0
LUT_INPUTS, MAX_WHOLE_BITS = 6, 4
"""Inputs of a lookup table, and most bits of the operand that a product from tables takes whole."""
DSP_A_BITS, DSP_B_BITS, MAX_PACK, DSP_PRODUCT_BITS = 25, 18, 4, 9
"""Operands of a DSP block, most products in one, and bits of a product from which it is one."""


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


def tree(terms: int, bits: Tensor, limit: Tensor) -> Tensor:
    """An adder tree of pairs: a LUT a bit, one more bit a level, never more than *limit*."""
    total = torch.zeros_like(bits)
    while terms > 1:
        total = total + terms // 2 * bits
        terms, bits = (terms + 1) // 2, torch.minimum(bits + 1.0, limit)
    return total


def _number_row(x: Tensor, w: Tensor, x_signed: bool, product: Tensor, simd: int, pe: int, acc: Tensor) -> Tensor:
    """The dot product of numbers of *x* and *w* bits, whose products have *product* bits, for one of *pe* rows.

    All bits are whole; nothing is read from the device.
    """
    whole, part = torch.minimum(x, w), torch.maximum(x, w)
    digit = torch.clamp(LUT_INPUTS - whole, min=1.0)
    digits = torch.ceil(part / digit)
    pairs = (simd + 1) // 2

    def digit_row(k: int) -> Tensor:
        limit = torch.clamp(acc - k * digit, min=1.0)
        term = torch.minimum(whole + torch.minimum(digit, part - k * digit), limit)
        return (simd + simd // 2) * term + tree(pairs, torch.minimum(term + 1.0, limit), limit)

    tables = torch.where(digits == 1, digit_row(0), acc + digit_row(0) + digit_row(1))
    by_tables = (digits == 1) | ((whole <= MAX_WHOLE_BITS) & (digits == 2))
    term = torch.minimum(product, acc)
    pack = torch.clamp(1 + torch.floor((DSP_A_BITS - w - 1) / product), max=float(min(MAX_PACK, pe)))
    packed = (x + float(not x_signed) <= DSP_B_BITS) & (pack > 1)
    blocks = DSP_LUTS * torch.ceil(pe / pack.clamp_min(1.0)) / pe + (pack - 1) / pack.clamp_min(1.0) * (term + w)
    one = torch.where((whole > 1) & (x + w >= DSP_PRODUCT_BITS), torch.full_like(x, DSP_LUTS), 1.6 * x * w)
    multiplied = simd * torch.where(packed, blocks, one) + tree(simd, term, acc)
    return torch.where(by_tables, tables, multiplied)


def _row(x: Operand, w: Operand, simd: int, acc: Tensor, unrolled: bool, pe: int) -> Tensor:
    """The dot product of one of *pe* processing elements, by the arithmetic that fits the operands."""
    pairs = (simd + 1) // 2
    groups = math.ceil(simd / 6)
    gates = 0 if unrolled else simd
    counted = gates + 3.0 * groups + tree(groups, torch.full_like(acc, 3.0), acc)  # a population count
    if x.bipolar and w.bipolar:
        return counted
    low, high = products(x, w)
    if w.bipolar or x.bipolar:
        other = x if w.bipolar else w
        gated = w.bipolar  # the bits of x where the weight is +1, without a sign
        wide = other.bits if gated else bits_of(low, high, other.bits)
        term = torch.minimum(wide, acc)
        first = (pairs if unrolled else 1.2 * simd) * term
        sums = first + tree(pairs, torch.minimum(term + 1.0, acc), acc)
        if not gated or x.signed:
            return sums
        return torch.where(x.bits.detach() == 1, _with_gradient(counted, sums), sums)
    term = torch.minimum(bits_of(low, high, x.bits + w.bits), acc)
    smooth = simd * x.bits * w.bits + tree(simd, term, acc)
    whole = [torch.ceil(bits.detach()) for bits in (x.bits, w.bits, bits_of(low, high, x.bits), acc)]
    value = _number_row(whole[0], whole[1], x.signed, whole[2], simd, pe, whole[3])
    multiplied = _with_gradient(value.to(smooth.dtype), smooth)
    if not (w.signed and w.narrow):
        return multiplied
    per_lane = torch.where(torch.minimum(x.bits, w.bits).detach() > 1, 2.2, 1.2)
    selected = (pairs * term if unrolled else simd * term * per_lane) + tree(pairs, torch.minimum(term + 1.0, acc), acc)
    ternary = (w.bits.detach() == 2) & (x.bits.detach() > LUT_INPUTS - 2)  # weights -1, 0, +1 beyond a table
    return torch.where(ternary, _with_gradient(selected, multiplied), multiplied)


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
    counted_pairs = w.bipolar  # popcounts and gated sums are doubled at the end
    width = torch.clamp(acc - 1.0, min=1.0) if counted_pairs else acc
    gated = w.bipolar and not x.bipolar and pe > 1
    row = _row(x, w, simd, width, unrolled, pe)
    rows = pe + (1 if gated else 0)
    total = 25.0 + rows * (row * (density if unrolled else 1.0) + width) + (pe * acc if counted_pairs else 0.0)
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
    lanes = rows * simd
    low, high = products(x, w)
    tables = 0.6 * x.bits * w.bits
    block = torch.full_like(tables, DSP_LUTS)
    lane = torch.where(torch.minimum(x.bits, w.bits).detach() > 7, _with_gradient(block, tables), tables)
    selected = bits_of(low, high, x.bits + w.bits)
    if x.bipolar or w.bipolar:
        lane = selected
    elif w.signed and w.narrow:
        lane = torch.where(w.bits.detach() == 2, _with_gradient(selected, lane), lane)
    total = 2.0 * rows * acc + lanes * lane + 0.8 * rows * (simd - 1) * acc
    words = shape.channels // pe * (shape.inputs // simd)
    if words > 1:
        total = total + memory(words, lanes * w.bits)
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
            joint = level == 0 and groups < 16
            table = _constants(groups, pe * acc) if joint else pe * _constants(groups << level, acc)
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
    "tree",
]
