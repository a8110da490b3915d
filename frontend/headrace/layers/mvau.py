"""MVAU: matrix-vector-activation unit without the activation: a constant matrix times the vectors of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, prod
from typing import ClassVar

import numpy as np

from headrace.adder_graph import Pipeline, Rounding
from headrace.arithmetic import DotProduct
from headrace.errors import FoldingError
from headrace.ir import Array, IntRange
from headrace.ir.exact import Columns
from headrace.ir.integer import IntMatMul
from headrace.ir.op import QUIET
from headrace.layers.base import Layer, Resources, RtlModule, StreamType, divisors, lowers
from headrace.layers.hls import HlsCall, HlsTable
from headrace.layers.memory import (
    Int,
    check_ram_style,
    element_type,
    index_bits,
    memory_resources,
    partial_sums,
    ram_style,
    rom_attribute,
    rom_resources,
    value_range,
)
from headrace.layers.parameter import WORD, Parameter, slots
from headrace.layers.programme import Programme
from headrace.layers.runtime import (
    PARAMETER_RAM,
    not_in_cpp,
    parameter_resources,
    weight_memory,
    weight_settings,
)
from headrace.layers.unrolled import graph_module, graph_resources, rounded_call, shareable, shared_adders
from headrace.numerics import to_hex_text, weight_memory_words, words_to_ints

CONTROL_LUTS, CONTROL_FFS = 25.0, 30.0
"""Estimate of the counters and the handshake."""


@dataclass(frozen=True, eq=False)
class MVAU(Layer):
    """``y[..., m] = sum_k x[..., k] * weights[k, m]``.

    In cycle ``nf * SF + sf`` of a vector, processing element ``pe`` adds the products of row ``nf * PE + pe`` with the
    SIMD inputs ``sf * SIMD ...``, where NF = MH / PE and SF = MW / SIMD. With NF > 1 the input vector is kept in a
    buffer of two vectors and read NF times, so that the next vector arrives while this one is worked on.

    All sums are kept modulo ``2**output.bits``. A running sum may leave the output range, but the final one cannot,
    and sums modulo a power of two do not depend on what their intermediate values were: the width of the result is
    enough for every intermediate sum.

    ``style`` is one of those of :class:`headrace.arithmetic.DotProduct`, of PE rows and SIMD lanes, or ``graph``: with
    PE = MH and SIMD = MW, adders that the rows share (:mod:`headrace.adder_graph`); such a layer can take over the
    activation after it, as ``rounding``. ``auto`` is ``graph`` where that is possible, else the cheapest.

    Args:
        weights: ``(MW, MH)``, rows in stream order.
        stream: input frames ``(..., MW)``; its ``elements`` are replaced by ``simd``.
        output: range of the results, which must be proven by the caller.
        bias: ``(MH,)``, added to the sums before ``rounding``.
        rounding: what is applied to the sums, in style ``graph``.
        ram_style: where weights are: ``auto``, ``distributed``, ``block`` or ``ultra``.
        writable: integers that may take the place of any weight at run time; None for constants.
    """

    kind: ClassVar[str] = "MVAU"
    replaceable: ClassVar[bool] = True

    weights: Int
    stream: StreamType
    output: IntRange
    pe: int = 1
    simd: int = 1
    style: str = "auto"
    bias: Int | None = None
    rounding: Rounding | None = None
    writable: IntRange | None = field(default=None, metadata=QUIET)
    ram_style: str = field(default="auto", metadata=QUIET)

    def __post_init__(self) -> None:
        if self.weights.shape[0] != self.stream.shape[-1]:
            raise ValueError(f"weights {self.weights.shape} for frames {self.stream.shape}")
        for name, value, whole in (("PE", self.pe, self.mh), ("SIMD", self.simd, self.mw)):
            if value < 1 or whole % value:
                valid = ", ".join(map(str, divisors(whole)))
                raise FoldingError(f"MVAU: {name}={value} does not divide {whole}; valid: {valid}")
        check_ram_style(self.ram_style, "MVAU")
        if self.style != "auto" and self.style not in self.legal_styles:
            what = "weights that are written at run time" if self.writable else "the operands"
            raise ValueError(f"style {self.style!r} does not fit {what}; possible: {', '.join(self.legal_styles)}")

    # -- shape and folding ------------------------------------------------------------------------------------------

    @property
    def mw(self) -> int:
        """Matrix width: inputs of a vector."""
        return int(self.weights.shape[0])

    @property
    def mh(self) -> int:
        """Matrix height: outputs of a vector."""
        return int(self.weights.shape[1])

    @property
    def vectors(self) -> int:
        """Vectors in a frame."""
        return prod(self.stream.shape[:-1])

    @property
    def nf(self) -> int:
        """Neuron fold: passes over a vector."""
        return self.mh // self.pe

    @property
    def sf(self) -> int:
        """Synapse fold: words of a vector."""
        return self.mw // self.simd

    @property
    def inputs(self) -> tuple[StreamType, ...]:
        return (replace(self.stream, elements=self.simd),)

    @property
    def outputs(self) -> tuple[StreamType, ...]:
        return (StreamType((*self.stream.shape[:-1], self.mh), self.output, self.pe),)

    @property
    def cycles(self) -> int:
        return self.vectors * self.nf * self.sf

    @property
    def latency(self) -> int:
        if self.arithmetic == "graph":
            return self.adders.stages
        buffered = 1 if self.nf > 1 else 0
        return buffered + 1 + self.dot.registers + (self.sf - 1) + 1

    def programme(self) -> Programme:
        """When words move in steady state: a vector is read in its first pass, a word a pass is written; a place of the
        buffer is free the cycle after the word is fetched in the last pass, which takes a cycle more than reading."""
        start = np.arange(self.vectors, dtype=np.int64)[:, None] * (self.nf * self.sf)
        reads = start + np.arange(self.sf)
        writes = start + (np.arange(self.nf) + 1) * self.sf - 1
        if self.nf == 1:
            return Programme((reads.ravel(),), (writes.ravel(),))
        frees = reads + (self.nf - 1) * self.sf + 2
        return Programme((reads.ravel(),), (writes.ravel(),), (frees.ravel(),), (2 * self.sf,))

    @property
    def folding(self) -> dict[str, int]:
        return {"PE": self.pe, "SIMD": self.simd}

    @property
    def folding_choices(self) -> dict[str, tuple[int, ...]]:
        return {"PE": divisors(self.mh), "SIMD": divisors(self.mw)}

    @property
    def counts(self) -> dict[str, int]:
        x, w = self.stream.range.bits, self.weight_range.bits
        return {
            f"op_mac_{min(x, w)}bx{max(x, w)}b": self.vectors * self.weights.size,
            f"param_weight_{w}b": self.weights.size,
        }

    @property
    def weight_bits_a_pe(self) -> int:
        return self.simd * self.weight_range.bits

    def execute(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        sums = self._columns.product(x)
        if self.rounding is None:
            return (sums,)
        bias = 0 if self.bias is None else self.bias
        return (self.rounding.execute(np.asarray(sums, np.int64) + bias),)

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.weights)

    # -- arithmetic -------------------------------------------------------------------------------------------------

    @cached_property
    def weight_range(self) -> IntRange:
        """Range of the weights; bipolar when only -1 and +1 occur."""
        return self.writable or value_range(self.weights)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        if self.writable is None:
            return ()
        split, stride = (self.nf, self.pe, self.sf, self.simd), slots(ceil(self.weight_word_bits / WORD))
        strides = (self.sf * stride, stride)
        return (Parameter("weights", self.weights.T, self.writable, split, (0, 2, 1, 3), strides),)

    @property
    def runtime_settings(self) -> dict[str, object]:
        return weight_settings(self.writable)

    @property
    def weight_word_bits(self) -> int:
        """Bits of all weights that are read in a cycle."""
        return self.pe * self.simd * self.weight_range.bits

    @cached_property
    def dot(self) -> DotProduct:
        """The dot products of a word with PE rows, in the style in use, whatever ``graph`` would do instead."""
        used = -(-int(np.count_nonzero(self.weights)) // self.mh) if self.constant_weights else None
        dot = DotProduct.of_sums(
            self.pe, self.simd, self.stream.range, self.weight_range, self.output.bits, self.sf, used
        )
        return dot.chosen if self.style in ("auto", "graph") else replace(dot, style=self.style)

    @cached_property
    def legal_styles(self) -> tuple[str, ...]:
        """Arithmetic that fits the operands."""
        bits = self.weight_range.bipolar and self.stream.bits == 1
        graph = self.constant_weights and not bits and shareable(self.weights)
        return ("graph", *self.dot.legal_styles) if graph else self.dot.legal_styles

    @cached_property
    def arithmetic(self) -> str:
        """The style in use."""
        if self.style != "auto":
            return self.style
        return "graph" if self.legal_styles[0] == "graph" else self.dot.style

    @property
    def style_in_use(self) -> str:
        return self.arithmetic

    # -- hardware ---------------------------------------------------------------------------------------------------

    @cached_property
    def adders(self) -> Pipeline:
        """The shared adders of style ``graph``."""
        bias = np.zeros(self.mh, np.int64) if self.bias is None else self.bias
        return shared_adders(self.weights, self.stream.range, bias, self.rounding, self.output)

    def absorb(self, after: Layer) -> MVAU | None:
        form = after.as_rounding() if self.arithmetic == "graph" and self.rounding is None else None
        if form is None:
            return None
        bias, rounding = form
        return replace(self, output=after.outputs[0].range, bias=np.broadcast_to(bias, (self.mh,)), rounding=rounding)

    @property
    def constant_weights(self) -> bool:
        """Whether every weight has its own place: no memory."""
        return self.nf * self.sf == 1 and self.writable is None

    def resources(self) -> Resources:
        """An estimate, calibrated against yosys in ``benchmarks/resource_model.py``."""
        if self.arithmetic == "graph":
            found = graph_resources(self.weights, self.stream.bits)
            return found + Resources(self._beside_graph, self.mh * self.output.bits)
        acc = self.dot.bits
        dot = self.dot.resources()
        registers = self.output.bits + (acc if self.sf > 1 else 0)
        total = Resources(
            lut=CONTROL_LUTS + dot.lut + self.pe * acc,
            ff=CONTROL_FFS + dot.ff + self.pe * registers + self.inputs[0].word_bits,
            dsp=dot.dsp,
        )
        if self.writable is not None:
            total += parameter_resources(self.parameters, self.ram_style)
        elif not self.constant_weights:
            total += rom_resources(self.nf * self.sf, self.weight_word_bits, self.ram_style)
        if self.nf > 1:
            total += memory_resources(2 * self.sf, self.inputs[0].word_bits)
        return total

    def counted_resources(self) -> Resources:
        """Those of a shared adder graph counted in it, which the latency asks for anyway."""
        if self.arithmetic != "graph":
            return self.resources()
        found = self.adders
        return Resources(found.graph.luts + self._beside_graph, found.register_bits + found.stages)

    @property
    def _beside_graph(self) -> int:
        """LUTs of the clamps and the handshake."""
        return (self.mh * self.output.bits if self.rounding is not None else 0) + 4

    def rtl(self) -> RtlModule:
        if self.arithmetic == "graph":
            return graph_module(self, self.adders)
        weight_words = weight_memory_words(self.weights.T, element_type(self.weight_range), self.pe, self.simd)
        weight_bits = self.weight_word_bits
        context: dict[str, object] = {
            "config": None,
            "mw": self.mw,
            "mh": self.mh,
            "pe": self.pe,
            "simd": self.simd,
            "nf": self.nf,
            "sf": self.sf,
            "cycles": self.cycles,
            "latency": self.latency,
            "x": self.stream.range,
            "w": self.weight_range,
            "dot": self.dot,
            "start": -((self.mw + 1) // 2) if self.dot.halved else 0,
            "in_bits": self.inputs[0].word_bits,
            "out_bits": self.output.bits,
            "weight_bits": weight_bits,
            "acc_bits": self.dot.bits,
            "depth": self.dot.registers,
            "nf_bits": index_bits(self.nf),
            "fold_bits": index_bits(self.nf * self.sf),
            "sf_bits": index_bits(self.sf),
            "buffer_bits": index_bits(2 * self.sf),
            "constant": words_to_ints(weight_words)[0] if self.constant_weights else None,
            "rom_style": rom_attribute(self.nf * self.sf, weight_bits, self.ram_style),
            "ram_style": ram_style(2 * self.sf, self.inputs[0].word_bits),
        }
        if self.parameters:
            context["config"], memories = weight_memory(self.parameters[0], self.ram_style)
            return RtlModule("mvau.sv.j2", context, memories, (*self.dot.library, PARAMETER_RAM))
        memories = {} if self.constant_weights else {"weights": to_hex_text(weight_words, weight_bits)}
        return RtlModule("mvau.sv.j2", context, memories, self.dot.library)

    def hls(self) -> HlsCall:
        if self.writable is not None:
            raise not_in_cpp(self)
        folded = self.weights.T.reshape(self.nf, self.pe, self.sf, self.simd).transpose(0, 2, 1, 3)
        weights = HlsTable(
            folded.reshape(-1, self.pe, self.simd),
            self.weight_range,
            together=(2, 3),
            storage=ram_style(self.nf * self.sf, self.weight_word_bits, self.ram_style),
        )
        parameters = (
            ("vectors", self.vectors),
            ("nf", self.nf),
            ("sf", self.sf),
            ("acc_bits", partial_sums(self.weights, self.stream.range).bits),
        )
        if self.rounding is None:
            return HlsCall("mvau.hpp", "mvau", parameters, self.cycles, {"weights": weights})
        return rounded_call(self, self.rounding, weights)


@lowers(IntMatMul)
def lower_matmul(op: IntMatMul, stream: StreamType) -> Sequence[Layer]:
    """A dense product on the last axis is one MVAU."""
    output = IntRange(int(op.ranges[0].min()), int(op.ranges[1].max()))
    return (MVAU(op.weights, stream, output, writable=op.writable),)
