"""What FPGA parts have, and which part is on which board. From the vendors' product tables."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import FoldingError, did_you_mean
from headrace.layers.base import Resources


@dataclass(frozen=True)
class Part:
    """One device: its ordering code up to the package, and its resources (block RAM in halves of 18 kbit)."""

    name: str
    resources: Resources


PARTS: dict[str, Part] = {
    name: Part(name, Resources(lut=lut, ff=2 * lut, bram18=bram18, dsp=dsp, uram=uram))
    for name, lut, bram18, dsp, uram in (
        # 7 Series and Zynq-7000: overviews DS180 and DS190; of the 134,600 LUTs of the xc7a200t Vivado gives 133,800
        ("xc7a35t", 20_800, 100, 90, 0),
        ("xc7a100t", 63_400, 270, 240, 0),
        ("xc7a200t", 133_800, 730, 740, 0),
        ("xc7z010", 17_600, 120, 80, 0),
        ("xc7z020", 53_200, 280, 220, 0),
        ("xc7z045", 218_600, 1_090, 900, 0),
        # Zynq UltraScale+ MPSoC and RFSoC: overviews DS891 and DS889; xck26, of the Kria K26, is a XCZU5EV
        ("xczu3eg", 70_560, 432, 360, 0),
        ("xczu7ev", 230_400, 624, 1_728, 96),
        ("xczu9eg", 274_080, 1_824, 2_520, 0),
        ("xczu28dr", 425_280, 2_160, 4_272, 80),
        ("xczu48dr", 425_280, 2_160, 4_272, 80),
        ("xck26", 117_120, 288, 1_248, 64),
        # Virtex UltraScale+: overview DS890. Alveo cards have these devices under names of their own: the U50 a
        # XCVU35P, U55C and U280 a XCVU37P, the U200 a XCVU9P, the U250 a XCVU13P. Their shells take a part of it.
        ("xcu50", 871_680, 2_688, 5_952, 640),
        ("xcu55c", 1_303_680, 4_032, 9_024, 960),
        ("xcu200", 1_182_240, 4_320, 6_840, 960),
        ("xcu250", 1_728_000, 5_376, 12_288, 1_280),
        ("xcu280", 1_303_680, 4_032, 9_024, 960),
        # Versal: overview DS950; xcve2802 and xcv80 as published reports of Vitis HLS for these parts have them
        ("xcvc1902", 899_840, 1_934, 1_968, 463),
        ("xcve2802", 520_704, 1_200, 1_312, 264),
        ("xcv80", 2_574_208, 7_482, 10_848, 1_925),
    )
}
"""Parts by name: 6-input LUTs, two flip-flops each."""

BOARDS: dict[str, str] = {
    "Pynq-Z1": "xc7z020clg400-1",
    "Pynq-Z2": "xc7z020clg400-1",
    "AUP-ZU3_8GB": "xczu3eg-sfvc784-2-e",
    "Ultra96": "xczu3eg-sbva484-1-e",
    "Ultra96-V2": "xczu3eg-sbva484-1-i",
    "ZCU102": "xczu9eg-ffvb1156-2-e",
    "ZCU104": "xczu7ev-ffvc1156-2-e",
    "ZCU111": "xczu28dr-ffvg1517-2-e",
    "RFSoC2x2": "xczu28dr-ffvg1517-2-e",
    "RFSoC4x2": "xczu48dr-ffvg1517-2-e",
    "KV260_SOM": "xck26-sfvc784-2LV-c",
    "KV260": "xck26-sfvc784-2LV-c",
    "U50": "xcu50-fsvh2104-2L-e",
    "U55C": "xcu55c-fsvh2892-2L-e",
    "U200": "xcu200-fsgd2104-2-e",
    "U250": "xcu250-figd2104-2L-e",
    "U280": "xcu280-fsvh2892-2L-e",
    "VCK190": "xcvc1902-vsva2197-2MP-e-S",
    "VEK280": "xcve2802-vsvh1760-2MP-e-S",
    "V80": "xcv80-lsva4737-2MHP-e-S",
}
"""Full ordering code of the part on each board, by the names that FINN uses."""


def find_part(name: str) -> Part:
    """The part that *name* means: an ordering code with or without package and speed grade, or a board.

    Raises:
        FoldingError: for one that is not in the tables; names what is close to it.
    """
    boards = {board.lower(): part for board, part in BOARDS.items()}
    code = boards.get(name.lower(), name).lower()
    device = max((part for part in PARTS if code.startswith(part)), key=len, default=None)
    if device is None:
        known = [*BOARDS, *PARTS]
        raise FoldingError(f"unknown part or board '{name}'{did_you_mean(name, known)}; known: {', '.join(known)}")
    return PARTS[device]
