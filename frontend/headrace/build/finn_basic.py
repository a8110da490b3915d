"""Boards under the names that scripts for FINN look them up by; see :mod:`headrace.schedule.parts` for their parts."""

from __future__ import annotations

import tempfile

from headrace.schedule.parts import BOARDS

alveo_default_platform = {
    "U50": "xilinx_u50_gen3x16_xdma_5_202210_1",
    "U200": "xilinx_u200_gen3x16_xdma_2_202110_1",
    "U250": "xilinx_u250_gen3x16_xdma_2_1_202010_1",
    "U280": "xilinx_u280_gen3x16_xdma_1_202211_1",
    "U55C": "xilinx_u55c_gen3x16_xdma_3_202210_1",
}
"""The vendor's platform that FINN takes for each accelerator card."""

_OTHERS = ("V80", "VCK190", "VEK280")

part_map = dict(BOARDS)
"""The part on every board."""

alveo_part_map = {board: BOARDS[board] for board in alveo_default_platform}
"""The parts of accelerator cards."""

pynq_part_map = {name: part for name, part in BOARDS.items() if name not in alveo_part_map and name not in _OTHERS}
"""The parts of boards with a processor."""

vitis_default_platform = alveo_default_platform
vitis_part_map = alveo_part_map


def make_build_dir(prefix: str = "") -> str:
    """A new temporary folder."""
    return tempfile.mkdtemp(prefix=prefix)
