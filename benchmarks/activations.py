"""What an activation costs in each of its styles, and whether the automatic choice is the cheapest.

    python benchmarks/activations.py [--outputs 2 4] [--pe 1 8] [--family xc7]

64 channels, 16-bit accumulators, outputs of 2, 4 and 8 bits, PE 1, 8 and 64, of two kinds: a uniform quantizer after a
scale and an offset of its own in every channel (thresholds on a line), and thresholds at random (no line). Every style
that computes the function is synthesised; the cost is LUT + FF / 2 + 100 DSP + 200 BRAM18. Exit status 1 when an
automatic choice costs more than 1.2 times the cheapest.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.thresholding import Thresholding
from headrace.synth import FAMILIES, Settings, Utilisation, synthesise, unit_of_layer
from headrace_sim.cache import default_folder

CHANNELS, BITS = 64, 16
TOLERANCE = 1.2
MOST_LUTS = 30_000
"""Styles estimated to need more are not synthesised: it would take an hour."""


def thresholds(kind: str, steps: int) -> NDArray[np.int64]:
    """``(64, steps)``."""
    rng = np.random.default_rng(steps)
    if kind == "random":
        return np.sort(rng.integers(-30000, 30000, (CHANNELS, steps)), axis=1)
    scale = 40000 / (steps + 1) * rng.uniform(0.7, 1.4, (CHANNELS, 1))
    return np.ceil(rng.uniform(-3000, 3000, (CHANNELS, 1)) + scale * np.arange(steps)).astype(np.int64)


def cost(used: Utilisation) -> float:
    """Resources as one number."""
    return used.luts + used.ff / 2 + 100 * used.dsp + 200 * used.bram18


def compare(kind: str, out: int, pe: int, family: str) -> float:
    """Print a line for every style; the cost of the automatic choice by that of the cheapest."""
    steps, one = (1 << out) - 1, np.ones(1, np.int64)
    stream = StreamType((CHANNELS,), IntRange(-(1 << (BITS - 1)), (1 << (BITS - 1)) - 1))
    layer = Thresholding(thresholds(kind, steps), 0 * one, one, stream, IntRange(0, steps), pe)
    costs: dict[str, float] = {}
    for style in layer.legal_styles:
        forced = replace(layer, style=style)
        label = f"{kind:7} {out} bits PE {pe:2} {style:9}"
        if forced.resources().lut > MOST_LUTS:
            print(f"{label} not synthesised: about {forced.resources().lut:,.0f} LUT")
            continue
        settings = Settings(cache=default_folder() / "synthesis")
        used = synthesise([unit_of_layer(forced)], FAMILIES[family], settings).total
        costs[style] = cost(used)
        print(
            f"{label} {used.luts:6} LUT {used.ff:6} FF {used.dsp:3} DSP {used.bram18:3} BRAM18 "
            f"cost {costs[style]:8.0f}",
            flush=True,
        )
    rank = sorted(costs, key=lambda style: costs[style]).index(layer.method) + 1
    ratio = costs[layer.method] / min(costs.values())
    outcome = f"automatic {layer.method}, rank {rank} of {len(costs)}, {ratio:.2f} x the cheapest"
    print(f"{kind:7} {out} bits PE {pe:2}: {outcome}")
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outputs", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--pe", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--family", default="xc7")
    options = parser.parse_args()
    ratios = [
        compare(kind, out, pe, options.family)
        for kind in ("uniform", "random")
        for out in options.outputs
        for pe in options.pe
    ]
    print(f"worst ratio to the cheapest style: {max(ratios):.2f} (at most {TOLERANCE} is asked for)")
    return 0 if max(ratios) <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
