"""SWG: kernels, strides, dilations and paddings of every shape, serial and parallel."""

from headrace.ir import IntRange
from headrace.layers.swg import SWG

INT3 = IntRange(-4, 3)
BIPOLAR = IntRange(-1, 1, bipolar=True)
NONE = ((0, 0), (0, 0))
SAME = ((1, 1), (1, 1))

CASES = {
    "3x3": SWG((6, 5, 4), INT3, (3, 3), (1, 1), (1, 1), NONE, simd=2),
    "3x3_same": SWG((6, 5, 4), INT3, (3, 3), (1, 1), (1, 1), SAME, simd=2),
    "3x3_pixels": SWG((5, 7, 3), INT3, (3, 3), (1, 1), (1, 1), SAME, simd=3),
    "3x3_serial": SWG((4, 4, 3), INT3, (3, 3), (1, 1), (1, 1), SAME),
    "3x3_row": SWG((5, 6, 2), INT3, (3, 3), (1, 1), (1, 1), SAME, simd=6),
    "3x3_window": SWG((5, 6, 2), INT3, (3, 3), (1, 1), (1, 1), SAME, simd=18),
    "3x3_window_valid": SWG((6, 6, 2), INT3, (3, 3), (1, 1), (1, 1), NONE, simd=18),
    "stride_2": SWG((7, 6, 2), INT3, (3, 3), (2, 2), (1, 1), SAME),
    "stride_2_window": SWG((8, 8, 1), INT3, (3, 3), (2, 2), (1, 1), SAME, simd=9),
    "stride_uneven": SWG((7, 9, 2), INT3, (2, 3), (3, 2), (1, 1), NONE, simd=2),
    "stride_past_kernel": SWG((8, 7, 2), INT3, (1, 2), (3, 3), (1, 1), NONE),
    "1x1_stride_2": SWG((5, 6, 4), INT3, (1, 1), (2, 2), (1, 1), NONE, simd=4),
    "1x1": SWG((3, 3, 2), INT3, (1, 1), (1, 1), (1, 1), NONE),
    "2x2_whole_rows_left": SWG((5, 5, 2), INT3, (2, 2), (2, 2), (1, 1), NONE),
    "dilation": SWG((7, 8, 2), INT3, (3, 2), (1, 1), (2, 3), NONE, simd=2),
    "dilation_same": SWG((6, 6, 2), INT3, (3, 3), (1, 1), (2, 2), ((2, 2), (2, 2)), simd=2),
    "dilation_window": SWG((6, 6, 1), INT3, (3, 3), (1, 1), (2, 2), ((2, 2), (2, 2)), simd=9),
    "pads_uneven": SWG((4, 5, 2), INT3, (3, 4), (1, 2), (1, 1), ((0, 2), (3, 1)), simd=2),
    "pads_past_kernel": SWG((3, 3, 2), INT3, (2, 1), (1, 1), (1, 1), ((3, 2), (2, 3)), simd=2),
    "pads_past_image": SWG((4, 4, 1), INT3, (1, 1), (1, 1), (1, 1), ((8, 8), (8, 8))),
    "pads_far_past_image": SWG((2, 3, 2), INT3, (2, 1), (3, 2), (1, 1), ((21, 4), (5, 37)), simd=2),
    "whole_image": SWG((3, 4, 2), INT3, (3, 4), (1, 1), (1, 1), NONE),
    "one_pixel_same": SWG((1, 1, 2), INT3, (3, 3), (1, 1), (1, 1), SAME, simd=2),
    "tall": SWG((9, 2, 2), INT3, (4, 1), (2, 1), (1, 1), ((1, 0), (0, 0)), simd=2),
    "bipolar": SWG((4, 5, 3), BIPOLAR, (3, 3), (1, 1), (1, 1), NONE, simd=3),
    "bipolar_same": SWG((4, 5, 4), BIPOLAR, (3, 3), (1, 1), (1, 1), SAME, simd=2),
    "bipolar_same_window": SWG((4, 4, 2), BIPOLAR, (3, 3), (1, 1), (1, 1), SAME, simd=18),
    "positive_same": SWG((4, 4, 2), IntRange(1, 3), (3, 3), (1, 1), (1, 1), SAME, simd=2),
    "negative_same": SWG((4, 4, 2), IntRange(-4, -1), (3, 3), (1, 1), (1, 1), SAME, simd=2),
    "1d": SWG((9, 4), INT3, (3,), (1,), (1,), ((0, 0),), simd=2),
    "1d_same": SWG((9, 4), INT3, (5,), (1,), (1,), ((2, 2),), simd=4),
    "1d_stride_dilation": SWG((13, 2), INT3, (3,), (2,), (3,), ((1, 2),)),
    "lines_stride": SWG((9, 8, 2), INT3, (3, 2), (2, 3), (1, 1), NONE, simd=12),
    "lines_dilation": SWG((8, 9, 1), INT3, (3, 2), (1, 2), (2, 3), NONE, simd=6),
    "lines_column": SWG((5, 4, 2), INT3, (3, 1), (1, 1), (1, 1), NONE, simd=6),
    "lines_whole_image": SWG((3, 4, 2), INT3, (3, 4), (1, 1), (1, 1), NONE, simd=24),
    "lines_bipolar": SWG((5, 5, 2), BIPOLAR, (2, 2), (1, 1), (1, 1), NONE, simd=8),
    "lines_in_block_memory": SWG((4, 140, 12), INT3, (2, 2), (1, 1), (1, 1), NONE, simd=48),
    "1d_lines": SWG((9, 2), INT3, (3,), (2,), (2,), ((0, 0),), simd=6),
    "1d_window": SWG((9, 2), INT3, (3,), (1,), (1,), ((1, 1),), simd=6),
    "filled": SWG((4, 5, 2), INT3, (1, 3), (1, 1), (1, 1), ((0, 0), (1, 1)), simd=6, fill=-4),
    "filled_wider": SWG((4, 5, 2), INT3, (1, 2), (1, 1), (1, 1), ((1, 2), (0, 1)), simd=2, fill=-9),
    "filled_bipolar": SWG((4, 5, 2), BIPOLAR, (1, 3), (1, 1), (1, 1), ((0, 0), (1, 1)), simd=6, fill=-1),
    "filled_number": SWG((4, 5, 2), BIPOLAR, (1, 1), (1, 1), (1, 1), ((1, 0), (0, 1)), simd=2, fill=3),
    "cropped": SWG((4, 5, 6), INT3, (2, 3), (1, 1), (1, 1), NONE, crop=(4, 2), simd=24),
    "cropped_same": SWG((4, 5, 6), INT3, (3, 3), (1, 1), (1, 1), SAME, crop=(5, 3), simd=30),
    "cropped_bipolar": SWG((4, 3, 4), BIPOLAR, (3, 2), (1, 1), (1, 1), SAME, crop=(1, 0), simd=21),
    "cropped_column": SWG((6, 1, 8), INT3, (3, 1), (1, 1), (1, 1), ((1, 1), (0, 0)), crop=(6, 5), simd=13),
    "cropped_column_filled": SWG(
        (6, 2, 8), INT3, (2, 1), (1, 1), (1, 1), ((0, 1), (0, 0)), crop=(0, 5), simd=11, fill=-4
    ),
    "cropped_below_a_pixel": SWG((7, 6), INT3, (2,), (1,), (1,), ((1, 0),), crop=(5, 4), simd=3),
}
