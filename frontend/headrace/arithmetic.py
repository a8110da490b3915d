"""Dot products of a vector with rows of weights: arithmetic by the operands, and what it takes.

Plain integers: the hardware layers make modules of it, the cost of training asks for its estimates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import NamedTuple, Protocol

LUT_INPUTS = 6
"""Inputs of a look-up table."""
MAX_WHOLE_BITS = 4
"""Most bits of the operand that style ``table`` takes whole."""
DSP_A_BITS, DSP_B_BITS = 25, 18
"""Signed operands of the multipliers of a DSP48E1; later blocks take more."""
MAX_PACK = 4
"""Most products in one multiplier."""
DSP_PRODUCT_BITS = 9
"""Bits of a product from which synthesis takes a DSP block for it."""
WIRED = 64
"""Most constants of a level of a binary search that are look-up tables, one a bit."""
_WIRED_LUTS = ((1, 0.0), (4, 0.05), (8, 0.2), (16, 0.4), (32, 1.1), (WIRED, 1.2))

STYLES = ("xnor", "and", "select", "pairs", "table", "packed", "multiply")
"""Arithmetic, the preferred first among equals."""


class Range(Protocol):
    """The integers that an operand can be; :class:`headrace.ir.IntRange` is one."""

    @property
    def lo(self) -> int: ...
    @property
    def hi(self) -> int: ...
    @property
    def bipolar(self) -> bool: ...
    @property
    def bits(self) -> int: ...
    @property
    def signed(self) -> bool: ...


class Estimate(NamedTuple):
    """Resources, as estimated for yosys."""

    lut: float
    ff: float
    dsp: float = 0.0

    @property
    def weight(self) -> float:
        """One number to choose by: a flip-flop is half a LUT, a DSP 100."""
        return self.lut + 0.5 * self.ff + 100 * self.dsp


@dataclass(frozen=True)
class DotProduct:
    """``sums[r] = sum_i x[i] * w[r, i]`` for ``rows`` rows and ``lanes`` lanes, modulo ``2**bits``, as hardware.

    Arithmetic by the operands (``style``):

    * ``xnor``: both -1/+1 as bits: the number of equal ones, which is ``(sum + lanes) / 2``;
    * ``and``: weights -1/+1, several rows: ``2 * (sum of the x with w = +1) - (sum of all x)``;
    * ``select``: one operand -1/0/+1 or -1/+1 (not both -1/+1): the other, its negation or zero;
    * ``pairs``: numbers: for two lanes and a bit of their weights one of 0, x, x', x + x', the sums shared by the rows;
    * ``table``: few bits: products from look-up tables of six inputs, one operand in one or two digits;
    * ``packed``: more bits, several rows: two to four products from one multiplier of a DSP;
    * ``multiply``: a multiplier for every product;
    * ``auto``: the cheapest of those that fit, by :meth:`resources`.

    Adders are in levels of two operands; a register is behind every second level, counted from the operands, but
    the last, which is that of what follows: an accumulator, when the sums are accumulated (then its adder is a level
    too), or the result. A product by ``multiply`` or ``packed`` counts as two levels.

    Attributes:
        rows, lanes: rows of weights that share the vector, and its length.
        x, w: ranges of values and weights.
        bits: of a sum.
        accumulated: whether an adder comes after the sums.
        constant: whether the weights are constants, not the words of a memory.
        used: lanes of a row whose weight is not 0, on average; for the estimate.
    """

    rows: int
    lanes: int
    x: Range
    w: Range
    bits: int
    accumulated: bool
    constant: bool = False
    used: int = 0
    style: str = "auto"

    @classmethod
    def of_sums(
        cls, rows: int, lanes: int, x: Range, w: Range, total_bits: int, passes: int, used: int | None
    ) -> DotProduct:
        """The dot products of a layer whose sums, of *total_bits*, take *passes* words.

        With both operands -1/+1 equal bits are counted, which is half of the sum; with one or both of them the sums
        are completed by an adder behind. *used* is None for weights in a memory, else as the attribute.
        """
        ends = x.bipolar or w.bipolar
        bits = max(total_bits - (x.bipolar and w.bipolar), 1)
        return cls(rows, lanes, x, w, bits, passes > 1 or ends, used is not None, used or 0)

    # -- which ------------------------------------------------------------------------------------------------------

    @property
    def legal_styles(self) -> tuple[str, ...]:
        """Arithmetic that fits the operands."""
        w, x = self.w, self.x
        number = not (w.bipolar or x.bipolar)
        least = min(x.bits, w.bits)
        fits = {
            "xnor": w.bipolar and x.bipolar,
            "and": w.bipolar and not x.bipolar and self.rows > 1,
            "select": x.bipolar != w.bipolar or (number and ((w.lo, w.hi) == (-1, 1) or (x.lo, x.hi) == (-1, 1))),
            "pairs": number and (w.bits > 1 or not w.signed),
            "table": number and (self.digits == 1 or (least <= MAX_WHOLE_BITS and self.digits == 2)),
            "packed": number and self.pack > 1,
            "multiply": number,
        }
        return tuple(style for style in STYLES if fits[style])

    @property
    def chosen(self) -> DotProduct:
        """This dot product in the style in use."""
        return _cheapest(self) if self.style == "auto" else self

    # -- shape of each ----------------------------------------------------------------------------------------------

    @property
    def product_bits(self) -> int:
        """Width of a value times a weight, with a sign where one of them has one: two that are never positive give none
        below 0, but what adds the products takes them as signed."""
        lowest, highest = self._product_ends
        return self._width(lowest, highest)

    @property
    def field_bits(self) -> int:
        """Style ``packed``: width of a product less the 1 that a negative one below has taken from it."""
        lowest, highest = self._product_ends
        return self._width(lowest - (self.x.signed or self.w.signed), highest)

    @property
    def _product_ends(self) -> tuple[int, int]:
        corners = [a * b for a in (self.x.lo, self.x.hi) for b in (self.w.lo, self.w.hi)]
        return min(corners), max(corners)

    def _width(self, lowest: int, highest: int) -> int:
        return max(max(highest, -lowest - 1).bit_length() + (self.x.signed or self.w.signed), 1)

    @property
    def halved(self) -> bool:
        """Whether the sums are numbers of equal bits, half of the dot product and of ``lanes``."""
        return self.style == "xnor"

    @property
    def carries(self) -> bool:
        """Whether a bit a row is left to be added to the sums."""
        return self.style == "select"

    @property
    def x_selects(self) -> bool:
        """Style ``select``: whether the values are the factors -1, 0 and +1, not the weights."""
        return self.x.bipolar or not (self.w.bipolar or (self.w.lo, self.w.hi) == (-1, 1))

    @property
    def counted(self) -> bool:
        """Whether lanes are single bits, summed by population counts."""
        return self.style == "xnor" or (self.style == "and" and self.x.bits == 1 and not self.x.signed)

    @property
    def split_values(self) -> bool:
        """Style ``table``: whether the values are taken in digits, not the weights."""
        return self.x.bits > self.w.bits

    @property
    def digit_bits(self) -> int:
        """Style ``table``: bits of a digit, which the other operand fills up to the inputs of a look-up table."""
        return max(LUT_INPUTS - min(self.x.bits, self.w.bits), 1)

    @property
    def digits(self) -> int:
        """Style ``table``: digits of the operand that is not taken whole."""
        return ceil(max(self.x.bits, self.w.bits) / self.digit_bits)

    @property
    def pack(self) -> int:
        """Style ``packed``: products that one multiplier can give; 1 when it is no use."""
        if self.x.bits + (not self.x.signed) > DSP_B_BITS:
            return 1
        spare = DSP_A_BITS - self.w.bits - 1  # a sign, or what the weights below borrow
        return max(min(1 + spare // self.field_bits, MAX_PACK, self.rows), 1)

    @property
    def levels(self) -> int:
        """Levels of adders, without the accumulator."""
        pairs = tree_depth(ceil(self.lanes / 2))
        if self.counted:
            return 1 + tree_depth(ceil(self.lanes / 6)) + (self.style == "and")
        if self.style in ("and", "pairs"):
            return (self.lanes > 1) + pairs + (1 if self.style == "and" else tree_depth(self.w.bits))
        if self.style == "select":
            return tree_depth(self.lanes)
        if self.style == "table":
            return 1 + pairs + self.digits - 1
        return (3 if self.style == "packed" else 2) + tree_depth(self.lanes)

    @property
    def registers(self) -> int:
        """Registers in the dot product."""
        return self.levels // 2 if self.accumulated else max(self.levels - 1, 0) // 2

    @property
    def library(self) -> tuple[str, ...]:
        """Shared template files that it instantiates."""
        tree = ("headrace_adder_tree.sv.j2", "headrace_sum2.sv.j2")
        join = ("headrace_dot_pairs.sv.j2", "headrace_join_planes.sv.j2")
        own = {
            "xnor": ("headrace_popcount.sv.j2",),
            "and": ("headrace_dot_signs.sv.j2", "headrace_popcount.sv.j2", *join),
            "pairs": join,
            "table": ("headrace_dot_table.sv.j2", "headrace_dot_digit.sv.j2"),
        }
        return (*own.get(self.style, (f"headrace_dot_{self.style}.sv.j2",)), *tree)

    # -- what it takes ----------------------------------------------------------------------------------------------

    def resources(self) -> Estimate:
        """An estimate of all rows, of what synthesis by yosys takes (``benchmarks/resource_model.py``)."""
        return _estimate(self.chosen)


def in_dsp(x_bits: int, w_bits: int) -> bool:
    """Whether synthesis takes a DSP block for a product of operands of so many bits."""
    return min(x_bits, w_bits) > 1 and x_bits + w_bits >= DSP_PRODUCT_BITS


def tree_depth(terms: int) -> int:
    """Levels of an adder tree that sums pairs."""
    return (terms - 1).bit_length()


@lru_cache(maxsize=1 << 16)
def _cheapest(dot: DotProduct) -> DotProduct:
    styles = [replace(dot, style=style) for style in dot.legal_styles]
    return min(styles, key=lambda x: _estimate(x).weight)


@lru_cache(maxsize=1 << 16)
def _estimate(dot: DotProduct) -> Estimate:
    n = dot.used if dot.constant else dot.lanes
    adders = _Adders(dot.registers)
    if dot.counted:
        groups = ceil(n / 6)
        adders.lut += (0 if dot.constant else n) + 3 * groups
        adders.level(groups, 3)
        bits = adders.tree(groups, 3)
        if dot.style == "and":
            adders.lut += bits
            adders.level(1, bits + 1)
        return adders.of(dot.rows)
    if dot.style in ("and", "pairs"):
        return _pairs(dot, n, adders)
    if dot.style == "select":
        value = dot.w if dot.x_selects else dot.x
        term = value.bits + (not value.signed)
        adders.lut += 0.9 * (n // 2) * term
        adders.tree(n, term, signed=True)
        return adders.of(dot.rows)
    if dot.style == "table":
        return _table(dot, n)
    return _multiplied(dot, n, adders)


def _pairs(dot: DotProduct, n: int, adders: _Adders) -> Estimate:
    """Of the terms of two neighbours one costs tables, the other is in those of their adder."""
    pairs, planes = (n + 1) // 2, 1 if dot.style == "and" else dot.w.bits
    both = dot.x.bits + (n > 1)
    adders.done = int(n > 1)
    adders.lut += 0.95 * both * (planes * (pairs // 2) if pairs > 1 else (planes + 1) // 2)
    bits = adders.tree(pairs, both, signed=dot.x.signed, copies=planes)
    shift = 1
    while planes > 1:
        adders.lut += planes // 2 * (bits + 1)
        planes, bits, shift = (planes + 1) // 2, bits + shift + 1, 2 * shift
        adders.level(planes, bits)
    shared = n // 2 * (dot.x.bits + dot.x.signed)
    if dot.style == "and":
        adders.lut += bits
        adders.level(1, bits + 1)
        shared += pairs * (both + 1)
    lut, ff, _ = adders.of(dot.rows)
    return Estimate(lut + shared, ff)


def _table(dot: DotProduct, n: int) -> Estimate:
    """A tree for every digit, and what joins two."""
    whole, part = sorted((dot.x.bits, dot.w.bits))
    pairs, lut, ff, bits = (n + 1) // 2, 0.0, 0.0, 0
    for k in range(dot.digits):
        term = whole + min(dot.digit_bits, part - k * dot.digit_bits)
        adders = _Adders(dot.registers)
        adders.lut += 0.85 * (n + n // 2) * term
        adders.level(pairs, term + 1)
        bits = adders.tree(pairs, term + 1)
        lut, ff = lut + adders.lut, ff + adders.ff
    if dot.digits == 2:
        lut += bits
        if dot.levels % 2 == 0 and dot.levels // 2 <= dot.registers:
            ff += bits + dot.digit_bits
    return Estimate(dot.rows * lut, dot.rows * ff)


def _multiplied(dot: DotProduct, n: int, adders: _Adders) -> Estimate:
    x, w, term = dot.x.bits, dot.w.bits, dot.field_bits if dot.style == "packed" else dot.product_bits
    adders.done, blocks = 2, 0.0
    if dot.style == "packed":
        adders.done = 3
        adders.lut += n * (dot.pack - 1) / dot.pack * (term + w)  # what is given back, and weights that are added
        blocks = ceil(dot.rows / dot.pack) * n
    elif in_dsp(x, w):
        blocks = dot.rows * n
    else:
        adders.lut += 1.6 * n * x * w
        adders.ff += n * term if dot.registers else 0
    adders.tree(n, term, signed=dot.x.signed or dot.w.signed)
    return Estimate(*adders.of(dot.rows)[:2], blocks)


class _Adders:
    """Levels of adders of one row: the look-up tables, and the flip-flops behind every second level."""

    def __init__(self, registers: int) -> None:
        self.lut = self.ff = 0.0
        self.registers, self.done = registers, 0

    def level(self, values: int, bits: int) -> None:
        """A level that ends with *values* values of *bits* bits."""
        self.done += 1
        if self.done % 2 == 0 and self.done // 2 <= self.registers:
            self.ff += values * bits

    def tree(self, terms: int, bits: int, signed: bool = False, copies: int = 1) -> int:
        """A tree of pairs, *copies* times side by side; the bits of its sum."""
        while terms > 1:
            self.lut += copies * (terms // 2) * (bits + signed)
            terms, bits = (terms + 1) // 2, bits + 1
            self.level(copies * terms, bits)
        return bits

    def of(self, rows: int) -> Estimate:
        """*rows* of them."""
        return Estimate(rows * self.lut, rows * self.ff)


def wired_constant_luts(depth: int) -> float:
    """LUTs that a bit of *depth* constants (at most :data:`WIRED`) adds to its bit of a comparison, which takes the
    address of a small table in itself."""
    return next(lut for most, lut in _WIRED_LUTS if depth <= most)
