"""Concat: streams joined along the channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd
from typing import ClassVar

import numpy as np

from headrace.errors import FoldingError
from headrace.ir import Array, IntRange
from headrace.ir import integer as ops
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors, lowers
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import index_bits
from headrace.layers.programme import Programme
from headrace.layers.recode import Recode


@dataclass(frozen=True, eq=False)
class Concat(Layer):
    """The pixels of several streams, one after the other, as the channels of one.

    ``simd`` elements travel a word: a divisor of the channels of every input, so that the inputs take turns; or all
    channels of the output, so that every input gives a whole pixel at once. Elements are rewritten for the range that
    holds those of all inputs; bits for -1 and +1 stay bits only when all inputs have them.

    Args:
        streams: the inputs; their ``elements`` are replaced.

    Raises:
        ValueError: when the inputs differ in more than their channels.
        FoldingError: when ``simd`` is none of the legal values.
    """

    kind: ClassVar[str] = "Concat"

    streams: tuple[StreamType, ...]
    simd: int = 1

    def __post_init__(self) -> None:
        if len({stream.shape[:-1] for stream in self.streams}) != 1:
            raise ValueError(f"cannot join streams of {[stream.shape for stream in self.streams]}")
        if self.simd not in self.folding_choices["SIMD"]:
            valid = ", ".join(map(str, self.folding_choices["SIMD"]))
            raise FoldingError(f"Concat: SIMD={self.simd} fits not all of {self.channels} channels; valid: {valid}")

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels of each input."""
        return tuple(stream.shape[-1] for stream in self.streams)

    @property
    def parallel(self) -> bool:
        """Whether a word is a whole pixel."""
        return self.simd == sum(self.channels)

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return tuple(replace(s, elements=s.shape[-1] if self.parallel else self.simd) for s in self.streams)

    @property
    def output(self) -> IntRange:
        """The range that holds the elements of all inputs."""
        ranges = [stream.range for stream in self.streams]
        return IntRange(min(r.lo for r in ranges), max(r.hi for r in ranges), all(r.bipolar for r in ranges))

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return (StreamType((*self.streams[0].shape[:-1], sum(self.channels)), self.output, self.simd),)

    @property
    def cycles(self) -> int:
        return self.outputs[0].words

    @property
    def latency(self) -> int:
        return 1

    @property
    def folding(self) -> dict[str, int]:
        return {"SIMD": self.simd}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        return {"SIMD": tuple(sorted({*divisors(gcd(*self.channels)), sum(self.channels)}))}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.concatenate(inputs, axis=-1),)

    def programme(self) -> Programme:
        """When words move in steady state."""
        words = np.arange(self.cycles)
        if self.parallel:
            return Programme((words,) * len(self.streams), (words,))
        turns = words.reshape(-1, sum(self.channels) // self.simd)
        ends = np.cumsum(self.channels) // self.simd
        reads = [part.ravel() for part in np.split(turns, ends[:-1], axis=1)]
        return Programme(reads, (words,))

    def resources(self) -> Resources:
        """An estimate: two to four words to choose from take a look-up table a bit; counters of words and turns."""
        word, ways = self.outputs[0].word_bits, len(self.streams)
        if self.parallel:
            return Resources(lut=2.0 + ways, ff=word + 1.0)
        position, turn = index_bits(max(self.channels) // self.simd), index_bits(ways)
        return Resources(lut=word * ceil((ways - 1) / 3) + 3.0 * ways + 1.5 * position, ff=word + 1.0 + position + turn)

    def rtl(self) -> RtlModule:
        words = [channels // self.simd for channels in self.channels]
        context = {
            "inputs": self.inputs,
            "recodes": [Recode(stream.range, self.output) for stream in self.streams],
            "parallel": self.parallel,
            "channels": self.channels,
            "words": words,
            "word_bits": index_bits(max(words)),
            "turn_bits": index_bits(len(self.streams)),
            "output": self.output,
            "simd": self.simd,
            "out_bits": self.outputs[0].word_bits,
            "cycles": self.cycles,
        }
        return RtlModule("concat.sv.j2", context)

    def hls(self) -> HlsCall:
        ins = tuple(f"in{k}" for k in range(len(self.streams)))
        parameters = (("words", self.cycles),)
        if self.parallel:
            return HlsCall("concat.hpp", "concat_pixels", parameters, self.cycles, arguments=("out0", *ins))
        words = np.array(self.channels) // self.simd
        tables = {"words": HlsTable(words, IntRange(0, int(words.max())))}
        return HlsCall("concat.hpp", "concat", parameters, self.cycles, tables, ("out0", "words", *ins))


@lowers(ops.Concat)
def lower_concat(op: ops.Concat, *streams: StreamType) -> Sequence[Layer]:
    """Streams joined along the last axis are one Concat."""
    if op.axis != len(streams[0].shape) - 1:
        raise ValueError(f"a stream of {streams[0].shape} is joined along its last axis, not {op.axis}")
    return (Concat(streams),)
