"""MVAU: matrix-vector-activation unit without the activation: a constant matrix times the vectors of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, prod
from typing import ClassVar

import numpy as np

from headrace.adder_graph import Pipeline, Rounding
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
    parameter_resources,
    refuse_in_cpp,
    weight_memory,
    weight_settings,
)
from headrace.layers.unrolled import graph_module, graph_resources, rounded_call, shareable, shared_adders
from headrace.numerics import to_hex_text, weight_memory_words, words_to_ints

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

    Arithmetic by the operands (``style``):

    * ``xnor``: weights and inputs -1/+1 as bits: ``2 * popcount(x xnor w) - MW``;
    * ``and``: weights -1/+1: ``2 * (sum of the x with w = +1) - (sum of all x)``, the second sum shared by all PE;
    * ``select``: weights -1/0/+1 or inputs -1/+1 (not both bipolar): the other operand, its negation or zero;
    * ``table``: few bits: products from look-up tables of six inputs, one operand in one or two digits;
    * ``packed``: more bits: two to four products, of the PEs that share an input, from one multiplier of a DSP;
    * ``multiply``: anything else, and what a PE alone has to multiply;
    * ``graph``: with PE = MH and SIMD = MW, adders that the rows share (:mod:`headrace.adder_graph`). Such a layer can
      take over the activation after it, as ``rounding``.

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
            raise ValueError(f"style {self.style!r} does not fit {what}; possible: {self.legal_styles}")

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
        return buffered + 1 + self.pipeline_depth + (self.sf - 1) + 2

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
        x, w = self.stream.range.type_name, self.weight_range.type_name
        return {f"op_mac_{x}_{w}": self.vectors * self.weights.size, f"param_weight_{w}": self.weights.size}

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
    def legal_styles(self) -> tuple[str, ...]:
        """Arithmetic that fits the operands, the preferred first."""
        w, x = self.weight_range, self.stream.range
        number = not (w.bipolar or x.bipolar)
        styles = [
            ("graph", self.constant_weights and shareable(self.weights) and not (w.bipolar and self.stream.bits == 1)),
            ("xnor", w.bipolar and x.bipolar),
            ("and", w.bipolar and not x.bipolar),
            ("table", number and self.digits == 1),
            ("select", x.bipolar != w.bipolar or (not x.bipolar and (w.lo, w.hi) == (-1, 1))),
            ("table", number and min(x.bits, w.bits) <= MAX_WHOLE_BITS and self.digits == 2),
            ("packed", number and self.pack > 1),
            ("multiply", number),
        ]
        return tuple(style for style, fits in styles if fits)

    @cached_property
    def arithmetic(self) -> str:
        """The style in use. ``and`` pays for its shared second sum only with more than one PE."""
        if self.style != "auto":
            return self.style
        styles = self.legal_styles
        return styles[1] if styles[0] == "and" and self.pe == 1 else styles[0]

    @property
    def doubled(self) -> bool:
        """Whether the accumulator is doubled at the end (styles ``xnor`` and ``and``)."""
        return self.arithmetic in ("xnor", "and")

    @property
    def acc_bits(self) -> int:
        """Width of an accumulator: that of the result, less one when it is doubled at the end."""
        return max(self.output.bits - (1 if self.doubled else 0), 1)

    @property
    def lane(self) -> IntRange:
        """Range of what one of SIMD lanes adds."""
        x = self.stream.range
        if self.arithmetic == "xnor":
            return IntRange(0, 1)
        if self.arithmetic == "and":
            return IntRange(min(x.lo, 0), max(x.hi, 0))
        return self.product

    @property
    def product(self) -> IntRange:
        """Range of an input times a weight."""
        x, w = self.stream.range, self.weight_range
        corners = [a * b for a in (x.lo, x.hi) for b in (w.lo, w.hi)]
        return IntRange(min(corners), max(corners))

    @property
    def counted(self) -> bool:
        """Whether lanes are single bits, summed by population counts."""
        return self.doubled and self.lane == IntRange(0, 1)

    @property
    def split_values(self) -> bool:
        """Style ``table``: whether the inputs are taken in digits, not the weights."""
        return self.stream.bits > self.weight_range.bits

    @cached_property
    def digit_bits(self) -> int:
        """Style ``table``: bits of a digit, which the other operand fills up to the inputs of a look-up table."""
        return max(LUT_INPUTS - min(self.stream.bits, self.weight_range.bits), 1)

    @cached_property
    def digits(self) -> int:
        """Style ``table``: digits of the operand that is not taken whole."""
        return ceil(max(self.stream.bits, self.weight_range.bits) / self.digit_bits)

    @cached_property
    def pack(self) -> int:
        """Style ``packed``: products that one multiplier can give; 1 when it is no use."""
        x, w = self.stream.range, self.weight_range
        if x.bits + (not x.signed) > DSP_B_BITS:
            return 1
        spare = DSP_A_BITS - w.bits - 1  # a sign, or what the weights below borrow
        return max(min(1 + spare // self.product.bits, MAX_PACK, self.pe), 1)

    @property
    def pipeline_depth(self) -> int:
        """Registers between the fetched operands and the accumulator."""
        if self.counted:
            return 1 + tree_depth(ceil(self.simd / 6))
        if self.arithmetic in ("multiply", "packed"):
            return 1 + tree_depth(self.simd)
        joined = self.digits - 1 if self.arithmetic == "table" else 0
        return 1 + tree_depth(ceil(self.simd / 2)) + joined

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
        """An estimate, calibrated against yosys in ``benchmarks/resource_model.py``: see :func:`dot_resources`."""
        if self.arithmetic == "graph":
            clamp = self.mh * self.output.bits if self.rounding is not None else 0
            return graph_resources(self.weights, self.stream.bits) + Resources(clamp + 4, self.mh * self.output.bits)
        rows, lanes = self.pe + (1 if self.arithmetic == "and" else 0), self.pe * self.simd
        dot = dot_resources(self)
        doubling = self.output.bits if self.doubled else 0
        total = Resources(
            lut=CONTROL_LUTS + rows * (dot.lut + self.acc_bits) + self.pe * doubling,
            ff=CONTROL_FFS + rows * (dot.ff + self.acc_bits) + self.pe * self.output.bits + self.inputs[0].word_bits,
            dsp=ceil(self.pe / self.pack) * self.simd if self.arithmetic == "packed" else rows * dot.dsp,
        )
        if self.writable is not None:
            total += parameter_resources(self.parameters, self.ram_style)
        elif not self.constant_weights:
            total += rom_resources(self.nf * self.sf, lanes * self.weight_range.bits, self.ram_style)
        if self.nf > 1:
            total += memory_resources(2 * self.sf, self.inputs[0].word_bits)
        return total

    def rtl(self) -> RtlModule:
        if self.arithmetic == "graph":
            return graph_module(self, self.adders)
        weight_words = weight_memory_words(self.weights.T, element_type(self.weight_range), self.pe, self.simd)
        weight_bits = self.pe * self.simd * self.weight_range.bits
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
            "style": self.arithmetic,
            "x": self.stream.range,
            "w": self.weight_range,
            "in_bits": self.inputs[0].word_bits,
            "out_bits": self.output.bits,
            "weight_bits": weight_bits,
            "acc_bits": self.acc_bits,
            "lane_bits": min(self.lane.bits, self.acc_bits),
            "product_bits": self.product.bits,
            "split_values": self.split_values,
            "digit_bits": self.digit_bits,
            "pack": self.pack,
            "counted": self.counted,
            "depth": self.pipeline_depth,
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
            return RtlModule("mvau.sv.j2", context, memories, (*self._library, PARAMETER_RAM))
        memories = {} if self.constant_weights else {"weights": to_hex_text(weight_words, weight_bits)}
        return RtlModule("mvau.sv.j2", context, memories, self._library)

    def hls(self) -> HlsCall:
        refuse_in_cpp(self)
        folded = self.weights.T.reshape(self.nf, self.pe, self.sf, self.simd).transpose(0, 2, 1, 3)
        weights = HlsTable(
            folded.reshape(-1, self.pe, self.simd),
            self.weight_range,
            together=(2, 3),
            storage=ram_style(self.nf * self.sf, self.pe * self.simd * self.weight_range.bits, self.ram_style),
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

    @property
    def _library(self) -> tuple[str, ...]:
        tree = ("headrace_adder_tree.sv.j2", "headrace_sum2.sv.j2")
        if self.counted:
            return ("headrace_popcount.sv.j2", *tree)
        if self.arithmetic == "table":
            return ("headrace_dot_table.sv.j2", "headrace_dot_digit.sv.j2", *tree)
        return ({"and": "headrace_dot_gate.sv.j2"}.get(self.arithmetic, f"headrace_dot_{self.arithmetic}.sv.j2"), *tree)


def dot_resources(layer: MVAU) -> Resources:
    """Estimate of one row's dot product, what synthesis by yosys for 7-series devices takes: a bit of an adder is a
    LUT; a lane of a population count one and half another, of a gate a LUT a bit, of a ternary factor two; a bit of a
    product from a table a LUT; a multiplier without a table is a DSP block."""
    n, x, w, limit = layer.simd, layer.stream.bits, layer.weight_range.bits, layer.acc_bits
    if layer.constant_weights:  # what is multiplied by 0 is not there
        n = ceil(np.count_nonzero(layer.weights) / layer.mh)
    term = min(layer.lane.bits, limit)
    if layer.counted:
        groups = ceil(n / 6)
        gates = 0 if layer.constant_weights else n
        return Resources(lut=gates + 3.0 * groups, ff=3.0 * groups) + tree_resources(groups, 3, limit)
    if layer.arithmetic == "table":
        return _table_resources(layer, n)
    if layer.arithmetic == "packed":
        shared = (layer.pack - 1) / layer.pack  # of the products, those that give back and whose weights are added
        return Resources(lut=n * shared * (term + w)) + tree_resources(n, term, limit)
    if layer.arithmetic == "multiply":
        dsp = min(x, w) > 1 and x + w >= DSP_PRODUCT_BITS
        lanes = Resources(lut=0.0 if dsp else 1.6 * n * x * w, ff=0.0 if dsp else n * term, dsp=n if dsp else 0.0)
        return lanes + tree_resources(n, term, limit)
    bit_luts = 2.2 if layer.arithmetic == "select" and min(x, w) > 1 else 1.2
    pairs = (n + 1) // 2
    lut = pairs * term if layer.constant_weights else n * term * bit_luts
    first = Resources(lut=lut, ff=pairs * min(term + 1, limit))
    return first + tree_resources(pairs, min(term + 1, limit), limit)


def _table_resources(layer: MVAU, n: int) -> Resources:
    """Style ``table``: a tree for every digit, and what joins two."""
    whole, part = sorted((layer.stream.bits, layer.weight_range.bits))
    pairs, total = (n + 1) // 2, Resources()
    for k in range(layer.digits):
        bits = min(layer.digit_bits, part - k * layer.digit_bits)
        limit = max(layer.acc_bits - k * layer.digit_bits, 1)
        term = min(whole + bits, limit)
        grown = min(term + 1, limit)
        total += Resources(lut=n * term + n // 2 * term, ff=pairs * grown) + tree_resources(pairs, grown, limit)
    joined = (layer.digits - 1) * layer.acc_bits
    return total + Resources(lut=joined, ff=joined)


def tree_resources(terms: int, bits: int, limit: int) -> Resources:
    """Adder tree of pairs with a register after each."""
    total = Resources()
    while terms > 1:
        lut = terms // 2 * bits
        terms, bits = (terms + 1) // 2, min(bits + 1, limit)
        total += Resources(lut=lut, ff=terms * bits)
    return total


def tree_depth(terms: int) -> int:
    """Stages of an adder tree that sums pairs."""
    return (terms - 1).bit_length()


@lowers(IntMatMul)
def lower_matmul(op: IntMatMul, stream: StreamType) -> Sequence[Layer]:
    """A dense product on the last axis is one MVAU."""
    output = IntRange(int(op.ranges[0].min()), int(op.ranges[1].max()))
    return (MVAU(op.weights, stream, output, writable=op.writable),)
