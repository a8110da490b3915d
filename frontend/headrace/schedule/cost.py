"""One number for resources of different kinds, so that foldings can be compared."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.layers.base import Resources


@dataclass(frozen=True)
class Weights:
    """LUTs that one of each kind counts for.

    The defaults are roughly the ratios on mid-size devices (a Zynq UltraScale+ ZU7 has 133 LUTs per DSP and 369 per
    18 kbit RAM, a Zynq-7020 240 and 190), lowered for DSPs and RAMs because layers that can use them should. An
    UltraRAM, which is taken only where it is asked for, holds as much as 16 RAMs of 18 kbit; half of that is rarely
    used.
    """

    lut: float = 1.0
    ff: float = 0.25
    dsp: float = 100.0
    bram18: float = 120.0
    uram: float = 960.0

    def cost(self, resources: Resources) -> float:
        """LUT equivalents of *resources*."""
        r = resources
        logic = self.lut * r.lut + self.ff * r.ff
        return logic + self.dsp * r.dsp + self.bram18 * r.bram18 + self.uram * r.uram


USUAL = Weights()
"""What folding without a device in mind weighs with."""
