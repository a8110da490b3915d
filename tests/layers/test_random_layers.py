"""Random matrix-vector units, depthwise convolutions and activations in every style, over ranges that no one chooses.

The cases of the conformance suite have the ranges of usual quantizers; arithmetic also has to be right where a range
begins or ends anywhere, as sums, pools and clips leave it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.adder_graph import Rounding
from headrace.ir import IntRange
from headrace.layers import Layer
from headrace.numerics import divisors
from headrace_sim import simulate
from layers.cases.activations import thresholding
from layers.cases.mvau import mvau
from layers.cases.vvau import NONE, vvau
from layers.conformance import build_bench, input_frames

BIPOLAR = IntRange(-1, 1, bipolar=True)
LAYERS = 60


def any_range(rng: np.random.Generator) -> IntRange:
    """A range of a quantizer, one that ends at a power of two, or one from anywhere to anywhere."""
    bits = int(rng.integers(1, 6))
    start = int(rng.integers(-40, 40))
    anywhere = IntRange(start, start + int(rng.integers(0, rng.choice([3, 20, 200]))))
    usual = (IntRange(0, 2**bits - 1), IntRange(-(2**bits), 2**bits - 1), IntRange(0, 2**bits))
    return (*usual, anywhere)[rng.integers(4)]


def any_matrix(rng: np.random.Generator) -> Layer:
    """A matrix-vector unit, folded or not, with its rounding where it is a graph of adders."""
    x = BIPOLAR if rng.random() < 0.15 else any_range(rng)
    w, (k, m) = any_range(rng), rng.integers(1, 13, 2)
    ends = rng.random() < 0.4
    weights = rng.choice([w.lo, 0, w.hi], (k, m)) if ends else rng.integers(w.lo, w.hi, (k, m), endpoint=True)
    whole = rng.random() < 0.4
    pe, simd = (m, k) if whole else (rng.choice(divisors(m)), rng.choice(divisors(k)))
    layer = mvau(x, weights, int(pe), int(simd))
    if whole and layer.arithmetic == "graph" and rng.random() < 0.5:
        bits = int(rng.integers(1, 7))
        base = int(rng.choice([0, -(2 ** (bits - 1))]))
        bias, rounding = rng.integers(-60, 60, m), Rounding(int(rng.integers(6)), bits, base)
        return replace(layer, output=IntRange(base, base + 2**bits - 1), bias=bias, rounding=rounding)
    return replace(layer, style=str(rng.choice(["auto", *layer.legal_styles])))


def any_depthwise(rng: np.random.Generator) -> Layer:
    """A depthwise convolution of a small image."""
    x, w, channels = any_range(rng), any_range(rng), int(rng.integers(1, 5))
    kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    values = tuple(range(w.lo, w.hi + 1)) if rng.random() < 0.5 else (w.lo, 0, w.hi)
    pe, simd = int(rng.choice(divisors(channels))), int(rng.choice([1, kernel[1], kernel[0] * kernel[1]]))
    layer = vvau((4, 4, channels), x, values, pe, simd, int(rng.integers(1, 3)), kernel, pads=NONE)
    return replace(layer, style=str(rng.choice(["auto", *layer.legal_styles])))


def any_activation(rng: np.random.Generator) -> Layer:
    """Thresholds at random or on a line."""
    x, channels, steps = any_range(rng), int(rng.integers(1, 9)), int(rng.integers(1, 20))
    rows = int(rng.choice([1, channels]))
    found = rng.integers(x.lo, x.hi + 1, (rows, steps), endpoint=True)
    if rng.random() < 0.4:
        line = rng.integers(-50, 50, (rows, 1)) + np.arange(steps) * rng.integers(1, 12, (rows, 1))
        found = np.clip(line, x.lo, x.hi + 1)
    base, step = (int(rng.integers(-9, 9)),), (int(rng.choice([1, 1, -1, 2])),)
    layer = thresholding(channels, found, int(rng.choice(divisors(channels))), x, base, step, lead=(2,))
    return replace(layer, style=str(rng.choice(["auto", *layer.legal_styles])))


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("seed", range(3))
def test_random_layers(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    kinds = (any_matrix, any_matrix, any_depthwise, any_activation)
    layers = {f"layer{k}": kinds[k % len(kinds)](rng) for k in range(LAYERS)}
    manifest, frames = build_bench(layers, tmp_path / "bench").manifest, input_frames(layers, seed)
    for stall in (0.0, 0.4):
        result = simulate(manifest, frames, seed=seed, stall_in=stall, stall_out=stall, optimize="0")
        for case, layer in layers.items():
            (expected,) = layer.execute(frames[f"{case}.in0"])
            got = result.outputs[f"{case}.out0"]
            np.testing.assert_array_equal(got, expected.reshape(len(expected), -1), err_msg=f"{case}: {layer}")
            assert stall or result.interval[f"{case}.out0"] == layer.cycles
