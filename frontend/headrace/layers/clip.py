"""Clip: values held between two constants per channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headrace.ir import Array, IntRange
from headrace.ir.per_channel import IntClip
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, lowers
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import Int, constants_range, index_bits, memory_text, packed_words, ram_style, rom_resources
from headrace.layers.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Clip(Pointwise):
    """``y = min(max(x, lo[c]), hi[c])``.

    Args:
        stream: the input; its ``elements`` are replaced by ``pe``.
        lo, hi: ``(C,)`` or ``(1,)``.
        output: range of the results, which must be proven by the caller.

    Raises:
        FoldingError: when ``pe`` does not divide the channels.
    """

    kind: ClassVar[str] = "Clip"

    stream: StreamType
    lo: Int
    hi: Int
    output: IntRange
    pe: int = 1

    def __post_init__(self) -> None:
        self.check_pe()

    @property
    def latency(self) -> int:
        return 2

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return IntClip(self.lo, self.hi, self.output, inputs[0].ndim - 2).execute(*inputs)

    # -- hardware ---------------------------------------------------------------------------------------------------

    def _bounds(self) -> dict[str, tuple[Int, IntRange]]:
        """Both bounds as words ``(folds, pe)``, or one word when all are the same, and their ranges.

        A bound outside the input's range never takes effect and becomes the end of the range.
        """
        x = self.stream.range
        bounds = {}
        for name, values in (("lo", self.lo), ("hi", self.hi)):
            words = np.broadcast_to(np.clip(values, x.lo, x.hi), (self.channels,)).reshape(-1, self.pe)
            words = words[:1] if (words == words[0]).all() else words
            bounds[name] = (words, constants_range(words))
        return bounds

    def resources(self) -> Resources:
        """An estimate: comparators with constants are small, those with a bound from a memory are two chains and what
        chooses."""
        deep = [(words.shape[0], self.pe * r.bits) for words, r in self._bounds().values() if words.shape[0] > 1]
        each = (1.4, 2.25, 3.1)[len(deep)]
        ff = self.pe * (self.stream.bits + self.output.bits) + 2.0
        total = Resources(lut=each * self.pe * self.stream.bits + 2, ff=ff)
        return total + rom_resources(deep[0][0], sum(width for _, width in deep)) if deep else total

    def rtl(self) -> RtlModule:
        memories: dict[str, str] = {}
        constants: dict[str, object] = {}
        bounds = self._bounds()
        for name, (words, r) in bounds.items():
            value = packed_words(words, r)[0] if words.shape[0] == 1 else None
            constants[name] = {"range": r, "bits": self.pe * r.bits, "value": value}
            if words.shape[0] > 1:
                memories[name] = memory_text(words, r)
        ranges = (self.stream.range, self.output, *(r for _, r in bounds.values()))
        context = {
            "x": self.stream.range,
            "y": self.output,
            "pe": self.pe,
            "channels": self.channels,
            "folds": self.channels // self.pe,
            "fold_bits": index_bits(self.channels // self.pe),
            "constants": constants,
            "width": max(r.bits for r in ranges) + 1,
            "in_bits": self.inputs[0].word_bits,
            "out_bits": self.outputs[0].word_bits,
            "cycles": self.cycles,
            "latency": self.latency,
        }
        return RtlModule("clip.sv.j2", context, memories)

    def hls(self) -> HlsCall:
        bounds = self._bounds()
        tables = {
            name: HlsTable(words, r, together=(2,), storage=ram_style(words.shape[0], self.pe * r.bits))
            for name, (words, r) in bounds.items()
        }
        ranges = (self.stream.range, self.output, *(r for _, r in bounds.values()))
        parameters = (
            ("words", self.cycles),
            ("folds", self.channels // self.pe),
            ("acc_bits", max(r.bits for r in ranges) + 1),
        )
        return HlsCall("clip.hpp", "clip", parameters, self.cycles, tables)


@lowers(IntClip)
def lower_clip(op: IntClip, stream: StreamType) -> Sequence[Layer]:
    """Bounds per channel of the last axis are one Clip."""
    if max(op.lo.size, op.hi.size) > 1 and op.axis != len(stream.shape) - 1:
        raise ValueError(f"a stream of {stream.shape} has its bounds along the last axis, not {op.axis}")
    return (Clip(stream, op.lo, op.hi, op.output),)
