"""Width converter and DuplicateStreams: the layers that only move words."""

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.duplicate_streams import DuplicateStreams
from headrace.layers.width_converter import StreamingDataWidthConverter

INT3 = IntRange(-4, 3)


def dwc(channels: int, elements: int, out_elements: int) -> StreamingDataWidthConverter:
    """A converter on two rows of *channels*."""
    return StreamingDataWidthConverter(StreamType((2, channels), INT3, elements), out_elements)


CASES = {
    **{
        f"dwc_{a}_to_{b}": dwc(12, a, b)
        for a, b in ((1, 2), (1, 12), (2, 1), (12, 1), (2, 3), (3, 2), (4, 6), (6, 4), (3, 4))
    },
    "dwc_30_to_20": dwc(60, 30, 20),
    "dwc_same": dwc(4, 2, 2),
    **{f"duplicate_{n}": DuplicateStreams(StreamType((3, 6), INT3), n, 2) for n in (1, 2, 3)},
}
