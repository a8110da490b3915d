"""Gather: the channels of a stream in another order, some of them perhaps repeated or left out.

A whole frame seen as one vector is transposed by it: hence channel shuffles, and streams whose order has to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np

from headrace.errors import FoldingError
from headrace.ir import Array, IntRange
from headrace.ir import integer as ops
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors, lowers
from headrace.layers.hls import HlsCall, HlsTable, buffered_cycles
from headrace.layers.memory import Int, index_bits, ram_resources, ram_style
from headrace.layers.programme import Programme
from headrace.layers.ring import Loop, signed_bits, steady_times

MAX_LOOPS = 6
"""Most nested loops that take the place of a table of positions."""


def nested_loops(positions: Int) -> tuple[Loop, ...] | None:
    """Loops, outermost first, that visit *positions* from the first one on; None when more would be needed."""
    loops: list[Loop] = []
    while positions.size > 1:
        stride = int(positions[1] - positions[0])
        breaks = np.flatnonzero(np.diff(positions) != stride)
        count = int(breaks[0]) + 1 if breaks.size else positions.size
        if positions.size % count:
            return None
        groups = positions.reshape(-1, count)
        if len(loops) == MAX_LOOPS or (groups != groups[:, :1] + stride * np.arange(count)).any():
            return None
        loops.append(Loop(f"loop{len(loops)}", count, stride))
        positions = groups[:, 0]
    return tuple(reversed(loops))


@dataclass(frozen=True, eq=False)
class Gather(Layer):
    """``y[..., k] = x[..., indices[k]]``, from a buffer of two pixels; or by wires alone, a whole pixel a word.

    ``simd`` elements travel a word: a number of channels that stay together in multiples of it, or all channels of the
    input, of which those wanted leave in one word.

    Args:
        stream: the input; its ``elements`` are replaced.
        indices: channel of the input per channel of the output.

    Raises:
        FoldingError: when ``simd`` is none of the legal values.
    """

    kind: ClassVar[str] = "Gather"

    stream: StreamType
    indices: tuple[int, ...]
    simd: int = 1

    def __post_init__(self) -> None:
        if self.simd not in self.folding_choices["SIMD"]:
            valid = ", ".join(map(str, self.folding_choices["SIMD"]))
            raise FoldingError(f"Gather: SIMD={self.simd} tears apart what stays together; valid: {valid}")

    @property
    def channels(self) -> int:
        """Channels of the input."""
        return self.stream.shape[-1]

    @property
    def parallel(self) -> bool:
        """Whether a word is a whole pixel."""
        return self.simd == self.channels

    @property
    def pixels(self) -> int:
        """Pixels of a frame."""
        return prod(self.stream.shape[:-1])

    @property
    def in_words(self) -> int:
        """Words of a pixel that arrive."""
        return self.channels // self.simd

    @property
    def out_words(self) -> int:
        """Words of a pixel that leave."""
        return 1 if self.parallel else len(self.indices) // self.simd

    @cached_property
    def positions(self) -> Int:
        """Word of the input per word of the output, in a pixel."""
        if self.parallel:
            return np.zeros(1, np.int64)
        return np.array(self.indices)[:: self.simd] // self.simd

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (replace(self.stream, elements=self.simd),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        shape = (*self.stream.shape[:-1], len(self.indices))
        return (StreamType(shape, self.stream.range, len(self.indices) if self.parallel else self.simd),)

    @property
    def cycles(self) -> int:
        return self.pixels * max(self.in_words, self.out_words)

    @property
    def latency(self) -> int:
        return 1 if self.parallel else int(self.positions[0]) + 2

    @property
    def folding(self) -> dict[str, int]:
        return {"SIMD": self.simd}

    @cached_property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        indices = np.array(self.indices)
        choices = [d for d in divisors(self.channels) if indices.size % d == 0 and _together(indices, d)]
        return {"SIMD": tuple(sorted({*choices, self.channels}))}

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0][..., np.array(self.indices)],)

    def programme(self) -> Programme:
        """When words move in steady state."""
        starts = np.arange(self.pixels)[:, None] * self.in_words
        newest = np.maximum.accumulate((starts + self.positions).ravel())
        taken, read = steady_times(newest, self.pixels * self.in_words)
        return Programme((taken,), (read,))

    def resources(self) -> Resources:
        word = self.outputs[0].word_bits
        if self.parallel:
            return Resources(lut=3, ff=word + 1)
        bits = index_bits(2 * self.in_words)
        table = 0.0 if nested_loops(self.positions) else self.out_words * index_bits(self.in_words) / 64
        control = Resources(lut=20 + 3.5 * bits + table, ff=4 * bits + word + 2)
        return control + ram_resources(2 * self.in_words, word)

    def rtl(self) -> RtlModule:
        loops = nested_loops(self.positions)
        bits = index_bits(self.in_words)
        context = {
            "x": self.stream.range,
            "channels": self.channels,
            "simd": self.simd,
            "indices": self.indices,
            "parallel": self.parallel,
            "in_words": self.in_words,
            "out_words": self.out_words,
            "positions": self.positions.tolist(),
            "position_bits": bits,
            "loops": None if loops is None else _moves(loops, bits),
            "word_bits": index_bits(self.out_words),
            "address_bits": index_bits(2 * self.in_words),
            "level_bits": signed_bits(-self.in_words, 2 * self.in_words),
            "in_bits": self.inputs[0].word_bits,
            "out_bits": self.outputs[0].word_bits,
            "buffer_style": ram_style(2 * self.in_words, self.inputs[0].word_bits),
            "cycles": self.cycles,
            "latency": self.latency,
        }
        digits = -(-bits // 4)
        table = "".join(f"{p:0{digits}x}\n" for p in self.positions)
        return RtlModule("gather.sv.j2", context, {} if loops is not None or self.parallel else {"positions": table})

    def hls(self) -> HlsCall:
        pixels = ("pixels", self.pixels)
        if self.parallel:
            indices = HlsTable(np.array(self.indices), IntRange(0, self.channels - 1), together=(1,))
            return HlsCall("gather.hpp", "gather_pixels", (pixels,), self.cycles, {"indices": indices})
        starts = np.arange(self.pixels)[:, None] * self.in_words
        newest = (starts + self.positions).ravel()
        oldest = np.repeat(starts, self.out_words)
        cycles = buffered_cycles(newest, oldest, 1, 2 * self.in_words, self.pixels * self.in_words)
        storage = ram_style(self.out_words, index_bits(self.in_words))
        tables = {"positions": HlsTable(self.positions, IntRange(0, self.in_words - 1), storage=storage)}
        parameters = (pixels, ("words", self.in_words), ("cycles", cycles))
        return HlsCall("gather.hpp", "gather", parameters, cycles, tables, held=2 * self.in_words)


def _together(indices: Int, block: int) -> bool:
    """Whether *indices* come in runs of *block* neighbours, each from a multiple of it."""
    runs = indices.reshape(-1, block)
    return bool((runs[:, 0] % block == 0).all() and (runs == runs[:, :1] + np.arange(block)).all())


def _moves(loops: Sequence[Loop], bits: int) -> list[tuple[Loop, int]]:
    """Loops, innermost first, each with what an iteration adds to the position, modulo ``2**bits``."""
    moves, inside = [], 0
    for loop in reversed(loops):
        moves.append((loop, (loop.words - inside) % 2**bits))
        inside += loop.last * loop.words
    return moves


@lowers(ops.Gather)
def lower_gather(op: ops.Gather, stream: StreamType) -> Sequence[Layer]:
    """Elements of the last axis in another order are one Gather."""
    if op.axis != len(stream.shape) - 1:
        raise ValueError(f"a stream of {stream.shape} is gathered along its last axis, not {op.axis}")
    return (Gather(stream, op.indices),)
