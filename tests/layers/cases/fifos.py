"""FIFO in every depth and style that there is, each style forced."""

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.fifo import FIFO

INT3 = IntRange(-4, 3)
BIPOLAR = IntRange(-1, 1, bipolar=True)
STREAM = StreamType((5, 8), INT3, 4)
DEPTHS = {
    "srl": (3, 4, 17, 33, 130),
    "distributed": (3, 4, 17, 70),
    "registers": (3, 5),
    "block": (3, 4, 6, 300),
    "ultra": (3, 40),
}

CASES = {
    **{f"fifo_{depth}": FIFO(STREAM, depth) for depth in (0, 1, 2, 3, 4, 5, 17, 150, 400)},
    "fifo_bipolar": FIFO(StreamType((9,), BIPOLAR), 4),
    "fifo_wide": FIFO(StreamType((40,), INT3, 20), 6),
    "fifo_bit": FIFO(StreamType((9,), BIPOLAR), 4, "srl"),
    **{f"fifo_{style}_{depth}": FIFO(STREAM, depth, style) for style, depths in DEPTHS.items() for depth in depths},
}
