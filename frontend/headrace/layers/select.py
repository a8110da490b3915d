"""Select: elements of a word in another order, each the largest of some: movement and maxima among whole pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from headrace.ir import Array, IntRange
from headrace.ir.integer import IntSelect
from headrace.ir.resampling import with_fill
from headrace.ir.windows import largest_selected
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors, lowers
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import Int, packed_words
from headrace.layers.recode import Recode
from headrace.layers.swg import SWG, unread

TERMS_A_STAGE = 4
"""Most elements that are compared between two registers, in two levels."""


@dataclass(frozen=True)
class Group:
    """``width`` neighbouring elements from ``at`` on, each the largest of as many neighbours from each of ``terms``.

    A term past the elements of the input is the constant.
    """

    at: int
    width: int
    terms: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Select(Layer):
    """``y[..., o] = max_k x[..., index[o, k]]``, the constant ``fill`` where the index is -1.

    A word is a whole vector of the last axis on either side, one a cycle.

    Args:
        stream: the input; its ``elements`` are replaced by all of the last axis.
        index: ``(O, K)``; the elements of a short row are repeated.
    """

    kind: ClassVar[str] = "Select"

    stream: StreamType
    index: Int
    fill: int = 0

    def __post_init__(self) -> None:
        if self.index.min() < -1 or self.index.max() >= self.stream.shape[-1]:
            raise ValueError(f"elements {self.index.min()} to {self.index.max()} of {self.stream.shape[-1]}")

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (replace(self.stream, elements=self.stream.shape[-1]),)

    @property
    def output(self) -> IntRange:
        """Range of the results."""
        return with_fill(self.stream.range, np.array([self.fill])) if self.index.min() < 0 else self.stream.range

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        made = int(self.index.shape[0])
        return (StreamType((*self.stream.shape[:-1], made), self.output, made),)

    @property
    def cycles(self) -> int:
        return self.inputs[0].words

    @property
    def latency(self) -> int:
        return len(self.stages)

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        return (largest_selected(inputs[0].astype(np.int64), self.index, self.fill),)

    # -- hardware ---------------------------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The elements of the output, neighbours that move alike together."""
        made = int(self.index.shape[0])
        for width in reversed(divisors(made)):
            blocks = self.index.reshape(-1, width, self.index.shape[1])
            first = blocks[:, :1]
            alike = np.where(first < 0, -1, first + np.arange(width)[:, None])
            if (blocks == alike).all():
                break
        found = np.where(first[:, 0] < 0, self.stream.shape[-1], first[:, 0]).tolist()
        rows = (tuple(dict.fromkeys(row)) for row in found)
        return tuple(Group(k * width, width, terms) for k, terms in enumerate(rows))

    @cached_property
    def stages(self) -> tuple[tuple[Group, ...], ...]:
        """One after the other with registers behind each; all but the last leave several elements for one."""
        stages = []
        groups = self.groups
        while max(len(group.terms) for group in groups) > TERMS_A_STAGE:
            partial: list[Group] = []
            rest = []
            for group in groups:
                cut = [group.terms[k : k + TERMS_A_STAGE] for k in range(0, len(group.terms), TERMS_A_STAGE)]
                places = [(len(partial) + k) * group.width for k in range(len(cut))]
                partial += [Group(at, group.width, terms) for at, terms in zip(places, cut, strict=True)]
                rest.append(replace(group, terms=tuple(places)))
            stages.append(tuple(partial))
            groups = tuple(rest)
        return (*stages, groups)

    @property
    def constants(self) -> int:
        """Copies of the constant that stand behind the elements of the input, as many as are taken at once."""
        return max((g.width for g in self.groups if max(g.terms) == self.stream.shape[-1]), default=0)

    def resources(self) -> Resources:
        """A comparison and a multiplexer a bit for every term but the first, and the registers of the stages."""
        bits = self.output.bits
        compared = sum(group.width * (len(group.terms) - 1) for stage in self.stages for group in stage)
        registers = sum(group.width * bits for stage in self.stages for group in stage)
        return Resources(lut=1.5 * bits * compared + 2.0, ff=float(registers + len(self.stages)))

    def rtl(self) -> RtlModule:
        context = {
            "x": self.stream.range,
            "y": self.output,
            "elements": self.stream.shape[-1],
            "stages": self.stages,
            "recode": Recode(self.stream.range, self.output),
            "constants": self.constants,
            "fill": packed_words(np.array([[self.fill]]), self.output)[0] if self.constants else 0,
            "terms": max(len(group.terms) for stage in self.stages for group in stage),
            "unused": len(np.unique(self.index[self.index >= 0])) < self.stream.shape[-1],
            "in_bits": self.inputs[0].word_bits,
            "out_bits": self.outputs[0].word_bits,
            "cycles": self.cycles,
            "latency": self.latency,
        }
        return RtlModule("select.sv.j2", context)

    def hls(self) -> HlsCall:
        table = HlsTable(self.index, IntRange(-1, self.stream.shape[-1]), together=(1, 2))
        parameters = (("words", self.cycles), ("fill", self.fill))
        return HlsCall("select.hpp", "select_largest", parameters, self.cycles, {"index": table})


@lowers(IntSelect)
def lower_select(op: IntSelect, stream: StreamType) -> Sequence[Layer]:
    """Elements of windows are a SWG, where a window is more than a pixel, and a Select."""
    none = not any(p for pair in op.pads for p in pair)
    if set(op.kernel) == {1} and none:
        return (Select(stream, op.index, op.fill),)
    ones = (1,) * len(op.kernel)
    swg = SWG(stream.shape, stream.range, op.kernel, ones, ones, op.pads, fill=op.fill)
    used = np.zeros(swg.kept.size, bool)
    used[op.index[op.index >= 0]] = True
    swg = swg.cropped_to(unread(used.reshape(*op.kernel, -1)))
    place = np.full(used.size + 1, -1)
    place[swg.kept] = np.arange(swg.kept.size)
    return (swg, Select(swg.outputs[0], place[op.index], op.fill))
