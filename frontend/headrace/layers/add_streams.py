"""AddStreams: the join of two branches, ``a * x0 + b * x1`` with constant integer factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from headrace.adder_graph.digits import signed_digits
from headrace.errors import FoldingError
from headrace.ir import Array, IntRange
from headrace.ir.integer import IntAdd
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors, lowers
from headrace.layers.hls import HlsCall


@dataclass(frozen=True, eq=False)
class AddStreams(Layer):
    """Elementwise ``factors[0] * x0 + factors[1] * x1`` of two streams of equal shape; ``pe`` elements a cycle.

    Sums are exact in the width of the result: it holds the final value, and arithmetic modulo a power of two does not
    depend on what the products were.

    Args:
        streams: the two inputs; their ``elements`` are replaced by ``pe``.
        factors: one constant per input.

    Raises:
        ValueError: when the shapes differ.
        FoldingError: when ``pe`` does not divide the channels.
    """

    kind: ClassVar[str] = "AddStreams"

    streams: tuple[StreamType, StreamType]
    factors: tuple[int, int] = (1, 1)
    pe: int = 1

    def __post_init__(self) -> None:
        if self.streams[0].shape != self.streams[1].shape:
            raise ValueError(f"cannot add streams of {self.streams[0].shape} and {self.streams[1].shape}")
        if self.pe not in self.folding_choices["PE"]:
            valid = ", ".join(map(str, self.folding_choices["PE"]))
            raise FoldingError(f"AddStreams: PE={self.pe} does not divide {self.streams[0].shape[-1]}; valid: {valid}")

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return tuple(replace(stream, elements=self.pe) for stream in self.streams)

    @property
    def output(self) -> IntRange:
        """Range of the sums."""
        x, y = (
            sorted((factor * stream.range.lo, factor * stream.range.hi))
            for factor, stream in zip(self.factors, self.streams, strict=True)
        )
        return IntRange(x[0] + y[0], x[1] + y[1])

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return (StreamType(self.streams[0].shape, self.output, self.pe),)

    @property
    def cycles(self) -> int:
        return self.outputs[0].words

    @property
    def latency(self) -> int:
        return 1

    @property
    def folding(self) -> dict[str, int]:
        return {"PE": self.pe}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        return {"PE": divisors(self.streams[0].shape[-1])}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        x, y = inputs
        return (self.factors[0] * x.astype(np.int64) + self.factors[1] * y.astype(np.int64),)

    @property
    def digits(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Per factor its signed digits, ``(shift, sign)``, a positive one first where there is one: what is added."""
        return tuple(tuple(sorted(signed_digits(f), key=lambda d: -d[1])) for f in self.factors)

    def resources(self) -> Resources:
        """One carry chain a sum, and one for every further digit of a factor, longer where it subtracts."""
        bits = max(self.output.bits - 1.0, 1.0)
        for stream, digits in zip(self.inputs, self.digits, strict=True):
            bits += sum(stream.bits + 1 + (shift if sign < 0 else 0) for shift, sign in digits[1:])
        return Resources(lut=self.pe * bits + 2, ff=self.outputs[0].word_bits + 1)

    def rtl(self) -> RtlModule:
        context = {
            "inputs": self.inputs,
            "used_bits": [min(stream.bits, self.output.bits) for stream in self.inputs],
            "factors": self.factors,
            "digits": self.digits,
            "output": self.output,
            "pe": self.pe,
            "out_bits": self.outputs[0].word_bits,
            "cycles": self.cycles,
            "channels": self.streams[0].shape[-1],
        }
        return RtlModule("add_streams.sv.j2", context)

    def hls(self) -> HlsCall:
        ends = [sorted((f * s.range.lo, f * s.range.hi)) for f, s in zip(self.factors, self.streams, strict=True)]
        values = [v for pair in ends for v in pair] + [self.output.lo, self.output.hi, *self.factors]
        values += [v for stream in self.streams for v in (stream.range.lo, stream.range.hi)]
        parameters = (
            ("words", self.cycles),
            ("factor0", self.factors[0]),
            ("factor1", self.factors[1]),
            ("factor_bits", IntRange(min(-1, *self.factors), max(self.factors)).bits),
            ("acc_bits", IntRange(min(-1, *values), max(values)).bits),
        )
        return HlsCall("add_streams.hpp", "add_streams", parameters, self.cycles)


@lowers(IntAdd)
def lower_add(op: IntAdd, left: StreamType, right: StreamType) -> Sequence[Layer]:
    """The sum of two integers is one AddStreams."""
    return (AddStreams((left, right), op.factors),)
