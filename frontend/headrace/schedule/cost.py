"""One number for resources of different kinds, so that foldings can be compared."""

from __future__ import annotations

from headrace.layers.base import Resources

FF_WEIGHT = 0.25
DSP_WEIGHT = 100.0
BRAM18_WEIGHT = 120.0
"""LUTs that one flip-flop, DSP block or 18 kbit block RAM counts for: roughly their ratios on mid-size devices (a
Zynq UltraScale+ ZU7 has 133 LUTs per DSP and 369 per 18 kbit RAM, a Zynq-7020 240 and 190), lowered for DSPs and RAMs
because layers that can use them should."""


def cost(resources: Resources) -> float:
    """LUT equivalents of *resources*."""
    return resources.lut + FF_WEIGHT * resources.ff + DSP_WEIGHT * resources.dsp + BRAM18_WEIGHT * resources.bram18
