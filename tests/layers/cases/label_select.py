"""LabelSelect: k from 1 to all, largest and smallest, with many ties."""

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.label_select import LabelSelect

INT3 = IntRange(-4, 3)


def top(
    channels: int, k: int, pe: int, largest: bool = True, x: IntRange = INT3, lead: tuple[int, ...] = ()
) -> LabelSelect:
    """A selection among values with many equal ones."""
    return LabelSelect(StreamType((*lead, channels), x), k, largest, pe)


CASES = {
    "argmax": top(10, 1, 1),
    "argmax_pe2": top(10, 1, 2),
    "argmax_all_lanes": top(10, 1, 10),
    "argmin": top(10, 1, 5, largest=False),
    "top3": top(12, 3, 1),
    "top5_pe4": top(12, 5, 4),
    "bottom4_pe3": top(12, 4, 3, largest=False),
    "all": top(6, 6, 1),
    "all_lanes": top(6, 6, 6),
    "all_smallest_pe2": top(6, 6, 2, largest=False),
    "unsigned": top(9, 2, 3, x=IntRange(0, 5)),
    "bipolar": top(9, 3, 3, x=IntRange(-1, 1, bipolar=True)),
    "wide": top(7, 2, 1, x=IntRange(-(2**40), 2**40)),
    "one_channel": top(1, 1, 1),
    "rows": top(4, 2, 2, lead=(3, 2)),
}
