"""AddStreams: factors, mixed encodings, and the edges of ranges."""

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.add_streams import AddStreams

BIPOLAR = IntRange(-1, 1, bipolar=True)


def add(x: IntRange, y: IntRange, factors: tuple[int, int] = (1, 1), pe: int = 2) -> AddStreams:
    """Sums of two rows of six channels."""
    return AddStreams((StreamType((2, 6), x), StreamType((2, 6), y)), factors, pe)


CASES = {
    "equal": add(IntRange(-4, 3), IntRange(-4, 3)),
    "serial": add(IntRange(-4, 3), IntRange(-4, 3), pe=1),
    "parallel": add(IntRange(-4, 3), IntRange(-4, 3), pe=6),
    "mixed": add(IntRange(0, 15), IntRange(-2, 1)),
    "scaled": add(IntRange(-8, 7), IntRange(0, 3), (3, 20)),
    "difference": add(IntRange(0, 7), IntRange(0, 7), (1, -1)),
    "negative": add(IntRange(0, 7), IntRange(-3, 2), (-5, -1)),
    "bipolar": add(BIPOLAR, BIPOLAR),
    "bipolar_scaled": add(BIPOLAR, IntRange(-2, 1), (7, -2)),
    "narrow_result": add(IntRange(-9, -8), IntRange(0, 0), (-1, 1)),
    "one_dropped": add(IntRange(-100, 100), IntRange(0, 3), (0, 1)),
    "wide": add(IntRange(-(2**30), 2**30 - 1), IntRange(0, 2**20), (5, 1000)),
}
