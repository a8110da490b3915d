"""MVAU: every arithmetic, folded, unrolled, over images, and at the edges of ranges."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headrace.adder_graph import Rounding
from headrace.ir import IntRange
from headrace.ir.exact import accumulator_range
from headrace.layers import StreamType
from headrace.layers.mvau import MVAU

RNG = np.random.default_rng(1)
BIPOLAR = IntRange(-1, 1, bipolar=True)
BITS = IntRange(0, 1)


def mvau(
    x: IntRange, weights: NDArray[np.int64], pe: int, simd: int, style: str = "auto", lead: tuple[int, ...] = ()
) -> MVAU:
    """A layer whose output range is exactly what can be reached."""
    low, high = accumulator_range(weights, -1 if x.bipolar else x.lo, x.hi)
    stream = StreamType((*lead, weights.shape[0]), x)
    return MVAU(weights, stream, IntRange(int(low.min()), int(high.max())), pe, simd, style)


def signs(k: int, m: int) -> NDArray[np.int64]:
    """Weights -1 and +1."""
    return RNG.choice(np.array([-1, 1]), (k, m))


def integers(lo: int, hi: int, k: int, m: int) -> NDArray[np.int64]:
    """Weights lo..hi."""
    return RNG.integers(lo, hi, (k, m), endpoint=True)


def rounded(x: IntRange, weights: NDArray[np.int64], shift: int, bits: int, base: int = 0) -> MVAU:
    """An unrolled layer with its activation."""
    plain = mvau(x, weights, weights.shape[1], weights.shape[0])
    bias = RNG.integers(-30, 30, weights.shape[1])
    top = (1 << bits) - 1
    return replace(plain, output=IntRange(base, base + top), bias=bias, rounding=Rounding(shift, bits, base))


CASES = {
    "graph_uint3": mvau(IntRange(0, 7), integers(-4, 3, 16, 16), 16, 16),
    "graph_image": mvau(IntRange(-8, 7), integers(-7, 7, 18, 8), 8, 18, lead=(2, 3)),
    "graph_wide": mvau(IntRange(0, 255), integers(-128, 127, 5, 4), 4, 5),
    "graph_bipolar": mvau(BIPOLAR, integers(-7, 7, 12, 5), 5, 12),
    "graph_zero_columns": mvau(IntRange(-8, 7), integers(-3, 3, 6, 4) * np.array([0, 1, 0, 1]), 4, 6),
    "graph_of_zeros": mvau(IntRange(0, 0), integers(-48, 47, 6, 2), 2, 6),
    "graph_of_a_multiple": mvau(IntRange(-3, 9), np.array([[3], [-3]]), 1, 2),
    "graph_of_multiples": mvau(IntRange(-3, 9), np.array([[3, -7], [-1, -7]]), 2, 2),
    "graph_late_ones": mvau(IntRange(-8, 7), np.array([[-13, 83, 91], [2, 13, -38]]), 3, 2),
    "graph_late_ones_unsigned": mvau(IntRange(0, 255), np.array([[-1, -6, -5, -6], [7, 3, -6, -3]]), 4, 2),
    "graph_rounded": rounded(IntRange(0, 15), integers(-7, 7, 20, 6), 4, 4),
    "graph_rounded_signed": rounded(IntRange(-8, 7), integers(-7, 7, 9, 5), 2, 3, base=-4),
    "graph_rounded_to_bits": rounded(IntRange(0, 3), integers(-2, 1, 9, 5), 0, 1),
    "graph_never_clamped": rounded(IntRange(0, 1), integers(0, 1, 3, 2), 0, 7),
    "unrolled_multiply": mvau(IntRange(-8, 7), integers(-8, 7, 9, 5), 5, 9, "multiply"),
    "packed_powers_of_two": mvau(IntRange(-2, 1), np.tile(integers(0, 1, 5, 3), 2), 3, 5, "packed"),
    "packed_lowest_products": mvau(IntRange(-8, 7), integers(0, 2, 6, 8) * 4, 4, 3, "packed"),
    "packed_lowest_weights": mvau(IntRange(0, 8), integers(-8, 7, 6, 8), 8, 6, "packed"),
    "unrolled_select": mvau(IntRange(0, 3), integers(-1, 1, 8, 6), 6, 8, "select"),
    "unrolled_and": mvau(IntRange(0, 3), signs(8, 6), 6, 8, "and"),
    "int4_folded": mvau(IntRange(-8, 7), integers(-8, 7, 24, 12), 3, 4),
    "int4_serial": mvau(IntRange(-8, 7), integers(-8, 7, 6, 4), 1, 1),
    "int4_all_rows": mvau(IntRange(-8, 7), integers(-8, 7, 24, 6), 6, 4),
    "int4_all_columns": mvau(IntRange(-8, 7), integers(-8, 7, 10, 12), 4, 10),
    "int4_unrolled": mvau(IntRange(-8, 7), integers(-8, 7, 9, 5), 5, 9),
    "int2_image": mvau(IntRange(0, 3), integers(-2, 1, 18, 8), 2, 9, lead=(3, 2)),
    "uint8_int8": mvau(IntRange(0, 255), integers(-128, 127, 7, 3), 3, 7),
    "asymmetric": mvau(IntRange(-3, 11), integers(-5, 2, 12, 4), 2, 3),
    "positive": mvau(IntRange(2, 5), integers(1, 3, 12, 4), 4, 2),
    "negative": mvau(IntRange(-5, -2), integers(1, 3, 12, 4), 2, 12),
    "xnor": mvau(BIPOLAR, signs(48, 8), 4, 16),
    "xnor_wide": mvau(BIPOLAR, signs(130, 4), 2, 65),
    "xnor_unrolled": mvau(BIPOLAR, signs(13, 7), 7, 13),
    "xnor_one": mvau(BIPOLAR, signs(1, 3), 1, 1),
    "and_as_select": mvau(IntRange(-8, 7), signs(12, 6), 3, 4, "select"),
    "ternary_as_multiply": mvau(IntRange(-8, 7), integers(-1, 1, 12, 6), 3, 4, "multiply"),
    **{
        f"{style}_{name}": mvau(x, integers(*w, 12, 6), 3, 4, style)
        for name, x, w, styles in (
            ("int4_int4", IntRange(-8, 7), (-8, 7), ("pairs", "table", "packed", "multiply")),
            ("uint4_int4", IntRange(0, 15), (-8, 7), ("pairs", "table", "packed", "multiply")),
            ("uint3_uint3", IntRange(0, 7), (0, 7), ("pairs", "table", "packed", "multiply")),
            ("int2_uint6", IntRange(-2, 1), (0, 63), ("pairs", "table", "packed", "multiply")),
            ("uint6_int3", IntRange(0, 63), (-4, 3), ("pairs", "table", "packed", "multiply")),
            ("uint1_int7", BITS, (-64, 63), ("pairs", "table", "packed", "multiply")),
            ("int5_int5", IntRange(-16, 15), (-16, 15), ("pairs", "packed", "multiply")),
            ("uint8_int8", IntRange(0, 255), (-128, 127), ("pairs", "packed", "multiply")),
            ("int8_uint5", IntRange(-128, 127), (0, 31), ("pairs", "packed", "multiply")),
        )
        for style in styles
    },
    **{
        f"pairs_{lanes}_lanes": mvau(IntRange(-8, 7), integers(-4, 3, lanes * 2, 6), 3, lanes, "pairs")
        for lanes in (1, 2, 3, 7)
    },
    "pairs_one_vector": mvau(IntRange(0, 3), integers(-8, 7, 6, 4), 2, 6, "pairs"),
    "pairs_unrolled": mvau(IntRange(0, 3), integers(-16, 15, 6, 4), 4, 6, "pairs"),
    "pairs_one_bit": mvau(IntRange(-4, 3), integers(0, 1, 12, 6), 3, 4, "pairs"),
    "pairs_lowest": mvau(IntRange(-8, 7), np.full((6, 4), -8), 2, 3, "pairs"),
    "select_one_lane": mvau(IntRange(-8, 7), integers(-1, 1, 6, 4), 2, 1, "select"),
    "select_one_word": mvau(IntRange(-8, 7), integers(-1, 1, 7, 4), 2, 7, "select"),
    "select_lowest": mvau(IntRange(-8, 7), np.full((6, 4), -1), 2, 3, "select"),
    "select_by_inputs": mvau(IntRange(-1, 1), integers(-8, 7, 12, 6), 3, 4, "select"),
    "select_by_bits": mvau(BIPOLAR, integers(-1, 1, 10, 6), 3, 5, "select"),
    "table_one_lane": mvau(IntRange(0, 15), integers(-8, 7, 6, 4), 2, 1, "table"),
    "packed_lowest": mvau(IntRange(-128, 127), np.full((4, 4), -128), 2, 2, "packed"),
    "packed_rows_left": mvau(IntRange(0, 255), integers(-128, 127, 6, 5), 5, 3, "packed"),
    "and_bits": mvau(BITS, signs(40, 6), 3, 20),
    "and_bits_unrolled": mvau(BITS, signs(11, 6), 6, 11),
    "and_uint2": mvau(IntRange(0, 3), signs(24, 6), 3, 6),
    "and_int4": mvau(IntRange(-8, 7), signs(24, 6), 2, 8),
    "and_minus_bit": mvau(IntRange(-1, 0), signs(24, 6), 2, 8),
    "and_positive": mvau(IntRange(2, 5), signs(8, 4), 4, 8),
    "and_negative": mvau(IntRange(-7, -3), signs(8, 4), 2, 4),
    "bipolar_weights_one_pe": mvau(IntRange(-8, 7), signs(12, 4), 1, 3),
    "ternary": mvau(IntRange(0, 3), integers(-1, 1, 24, 6), 3, 8, "select"),
    "ternary_inputs": mvau(IntRange(-1, 1), integers(-1, 1, 24, 6), 2, 12, "select"),
    "ternary_wide": mvau(IntRange(0, 63), integers(-1, 1, 24, 6), 2, 12),
    "ternary_table": mvau(IntRange(0, 3), integers(-1, 1, 24, 6), 3, 8),
    "minus_one_or_zero": mvau(IntRange(0, 3), -RNG.integers(0, 2, (8, 4)), 2, 4),
    "zero_or_one": mvau(IntRange(-4, 3), RNG.integers(0, 2, (8, 4)), 2, 4),
    "bipolar_inputs": mvau(BIPOLAR, integers(-8, 7, 24, 6), 3, 8),
    "bipolar_inputs_ternary": mvau(BIPOLAR, integers(-1, 1, 24, 6), 3, 8),
    "zero_weights": mvau(IntRange(-8, 7), np.zeros((4, 4), np.int64), 2, 2),
    "one_output": mvau(IntRange(-2, 1), integers(-2, 1, 16, 1), 1, 4),
    "one_by_one": mvau(IntRange(-8, 7), np.array([[-3]]), 1, 1),
    "wide": mvau(IntRange(-(2**20), 2**20), integers(-(2**10), 2**10, 6, 4), 2, 3),
    "graph_signs": mvau(IntRange(0, 15), signs(24, 12), 12, 24),
}
