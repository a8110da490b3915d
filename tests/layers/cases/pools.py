"""MaxPool and SumPool: windows of every shape, the whole image, and ranges without a zero."""

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.max_pool import MaxPool
from headrace.layers.pool import Pool
from headrace.layers.sum_pool import SumPool

INT3 = IntRange(-4, 3)
BIPOLAR = IntRange(-1, 1, bipolar=True)
NONE = ((0, 0), (0, 0))
SAME = ((1, 1), (1, 1))
ONE = (1, 1)


def both(kind: type[Pool]) -> dict[str, Pool]:
    """The same windows for either kind."""
    name = kind.kind.lower()
    return {
        f"{name}_2x2": kind(StreamType((6, 4, 4), INT3), (2, 2), (2, 2), ONE, NONE, 2),
        f"{name}_2x2_rest": kind(StreamType((5, 7, 2), INT3), (2, 2), (2, 2), ONE, NONE, 1),
        f"{name}_3x3_stride_2": kind(StreamType((7, 6, 4), INT3), (3, 3), (2, 2), ONE, SAME, 4),
        f"{name}_3x3": kind(StreamType((5, 5, 2), INT3), (3, 3), ONE, ONE, SAME, 1),
        f"{name}_row": kind(StreamType((7, 6, 4), INT3), (3, 3), (2, 2), ONE, SAME, 4, 3),
        f"{name}_taps": kind(StreamType((7, 6, 4), INT3), (3, 3), (2, 2), ONE, SAME, 4, 9),
        f"{name}_taps_folded": kind(StreamType((5, 7, 4), INT3), (2, 2), ONE, ONE, NONE, 2, 4),
        f"{name}_row_dilated": kind(StreamType((6, 6, 2), INT3), (2, 3), ONE, (2, 2), ((0, 1), (1, 0)), 2, 3),
        f"{name}_taps_1d": kind(StreamType((9, 2), BIPOLAR), (3,), (2,), (1,), ((1, 1),), 2, 3),
        f"{name}_dilation": kind(StreamType((6, 6, 2), INT3), (2, 3), ONE, (2, 2), ((0, 1), (1, 0)), 2),
        f"{name}_stride_past_kernel": kind(StreamType((8, 8, 2), INT3), (2, 2), (3, 3), ONE, NONE, 2),
        f"{name}_1x1": kind(StreamType((3, 3, 2), INT3), ONE, (2, 2), ONE, NONE, 1),
        f"{name}_whole": kind(StreamType((3, 4, 6), INT3), (3, 4), ONE, ONE, NONE, 2),
        f"{name}_whole_pixels": kind(StreamType((3, 2, 3), INT3), (3, 2), ONE, ONE, NONE, 3),
        f"{name}_whole_1d": kind(StreamType((5, 2), INT3), (5,), (1,), (1,), ((0, 0),), 1),
        f"{name}_1d": kind(StreamType((9, 2), INT3), (3,), (2,), (1,), ((1, 1),), 2),
        f"{name}_negative": kind(StreamType((4, 4, 2), IntRange(-7, -2)), (2, 2), (2, 2), ONE, SAME, 2),
        f"{name}_positive": kind(StreamType((4, 4, 2), IntRange(3, 6)), (2, 2), (2, 2), ONE, SAME, 2),
        f"{name}_bipolar": kind(StreamType((4, 4, 4), BIPOLAR), (2, 2), (2, 2), ONE, NONE, 2),
        f"{name}_bipolar_same": kind(StreamType((4, 4, 4), BIPOLAR), (3, 3), ONE, ONE, SAME, 4),
        f"{name}_bipolar_whole": kind(StreamType((3, 3, 2), BIPOLAR), (3, 3), ONE, ONE, NONE, 2),
        f"{name}_unsigned": kind(StreamType((4, 4, 2), IntRange(0, 255)), (2, 2), (2, 2), ONE, NONE, 2),
    }


CASES = {**both(MaxPool), **both(SumPool)}
