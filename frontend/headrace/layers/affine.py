"""Affine: a constant factor and a constant term per channel, exact or rounded as float32 rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headrace.arithmetic import in_dsp
from headrace.ir import Array, IntRange
from headrace.ir.per_channel import IntAffine
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, lowers
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import Int, constants_range, index_bits, memory_text, packed_words, ram_style, rom_resources
from headrace.layers.pointwise import Pointwise

SIGNIFICAND = 24
"""Bits that float32 keeps."""


@dataclass(frozen=True, eq=False)
class Affine(Pointwise):
    """``y = factor[c] * x + term[c]``; with ``significand``, product and sum are rounded to 24 bits, ties to even.

    Args:
        stream: the input; its ``elements`` are replaced by ``pe``.
        factor, term: ``(C,)`` or ``(1,)``.
        output: range of the results, which must be proven by the caller.

    Raises:
        FoldingError: when ``pe`` does not divide the channels.
    """

    kind: ClassVar[str] = "Affine"

    stream: StreamType
    factor: Int
    term: Int
    output: IntRange
    significand: bool = False
    pe: int = 1

    def __post_init__(self) -> None:
        self.check_pe()

    @property
    def latency(self) -> int:
        return 4 if self.rounds_product else 3

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return IntAffine(self.factor, self.term, self.output, inputs[0].ndim - 2, self.significand).execute(*inputs)

    # -- widths -----------------------------------------------------------------------------------------------------

    @property
    def product(self) -> IntRange:
        """Range of the products, before they are rounded."""
        corners = [int(end) * int(f) for end in (self.stream.range.lo, self.stream.range.hi) for f in self.factor]
        return IntRange(min(corners), max(corners))

    @property
    def total(self) -> IntRange:
        """Range that holds the sums, before they are rounded; a rounded product may be a little larger."""
        grown = [v + (v >> 22) if self.rounds_product else v for v in (self.product.lo, self.product.hi)]
        return IntRange(min(grown[0], 0) + int(self.term.min()), max(grown[1], 0) + int(self.term.max()))

    @property
    def rounds_product(self) -> bool:
        """Whether some product has more bits than are kept."""
        return self.significand and max(-self.product.lo, self.product.hi) > 1 << SIGNIFICAND

    @property
    def rounds_sum(self) -> bool:
        """Whether some sum has more bits than are kept."""
        return self.significand and max(-self.total.lo, self.total.hi) > 1 << SIGNIFICAND

    @property
    def width(self) -> int:
        """Width of the arithmetic: what is not rounded is exact modulo a power of two that holds the results."""
        operands = max(
            r.bits for r in (self.stream.range, constants_range(self.factor), constants_range(self.term), self.output)
        )
        if not (self.rounds_product or self.rounds_sum):
            return operands
        return max(operands, *(r.bits + 1 for r in (self.product, self.total))) + 1

    # -- hardware ---------------------------------------------------------------------------------------------------

    def _constants(self, values: Int) -> Int:
        """Constants as words ``(folds, pe)``, or one word when every word is the same."""
        words = np.broadcast_to(values, (self.channels,)).reshape(-1, self.pe)
        return words[:1] if (words == words[0]).all() else words

    def resources(self) -> Resources:
        """An estimate: a DSP block multiplies, and adds where nothing is rounded; a rounding is two shifters."""
        bits, xb, fb = self.width, self.stream.bits, constants_range(self.factor).bits
        dsp = self.pe if in_dsp(xb, fb) else 0
        roundings = self.rounds_product + self.rounds_sum
        excess = max(max(-r.lo, r.hi) >> SIGNIFICAND for r in (self.product, self.total)).bit_length()
        levels = excess.bit_length()  # of the shifters
        lut = self.pe * (roundings * 2.1 * levels * bits + (0 if dsp else 0.6 * xb * fb + bits)) + 6
        total = Resources(lut=lut, ff=self.pe * bits * (1 + 1.6 * roundings), dsp=dsp)
        tables = [(self._constants(values), constants_range(values).bits) for values in (self.factor, self.term)]
        deep = [(words.shape[0], self.pe * width) for words, width in tables if words.shape[0] > 1]
        return total + rom_resources(deep[0][0], sum(width for _, width in deep)) if deep else total

    def rtl(self) -> RtlModule:
        memories: dict[str, str] = {}
        constants: dict[str, object] = {}
        for name, values in (("factor", self.factor), ("term", self.term)):
            words, r = self._constants(values), constants_range(values)
            constants[name] = {
                "range": r,
                "bits": self.pe * r.bits,
                "words": words.shape[0],
                "value": packed_words(words, r)[0] if words.shape[0] == 1 else None,
            }
            if words.shape[0] > 1:
                memories[name] = memory_text(words, r)
        context = {
            "x": self.stream.range,
            "y": self.output,
            "pe": self.pe,
            "channels": self.channels,
            "folds": self.channels // self.pe,
            "fold_bits": index_bits(self.channels // self.pe),
            "constants": constants,
            "width": self.width,
            "rounds_product": self.rounds_product,
            "rounds_sum": self.rounds_sum,
            "in_bits": self.inputs[0].word_bits,
            "out_bits": self.outputs[0].word_bits,
            "cycles": self.cycles,
            "latency": self.latency,
        }
        return RtlModule("affine.sv.j2", context, memories)

    def hls(self) -> HlsCall:
        tables = {}
        for name, values in (("factor", self.factor), ("term", self.term)):
            words, r = self._constants(values), constants_range(values)
            storage = ram_style(words.shape[0], self.pe * r.bits)
            tables[name] = HlsTable(words, r, together=(2,), storage=storage)
        ranges = (
            self.stream.range,
            self.product,
            self.total,
            self.output,
            constants_range(self.factor),
            constants_range(self.term),
        )
        spare = 2 if self.rounds_product or self.rounds_sum else 1  # a sign, and a carry of rounding
        parameters = (
            ("words", self.cycles),
            ("folds", self.channels // self.pe),
            ("acc_bits", max(r.bits for r in ranges) + spare),
            ("round_product", int(self.rounds_product)),
            ("round_sum", int(self.rounds_sum)),
        )
        return HlsCall("affine.hpp", "affine", parameters, self.cycles, tables)


@lowers(IntAffine)
def lower_affine(op: IntAffine, stream: StreamType) -> Sequence[Layer]:
    """Constants per channel of the last axis are one Affine."""
    if max(op.factor.size, op.term.size) > 1 and op.axis != len(stream.shape) - 1:
        raise ValueError(f"a stream of {stream.shape} has its constants along the last axis, not {op.axis}")
    return (Affine(stream, op.factor, op.term, op.output, op.significand),)
