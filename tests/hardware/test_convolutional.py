"""Generated convolutional and branching networks in simulation: exact, and never slower than their slowest layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.ir import Graph, Value
from headrace.ir.integer import (
    Concat,
    Gather,
    IntAdd,
    IntMaxPool,
    IntPad,
    IntSumPool,
    IntUpsample,
    IntZeroInsert,
    Reshape,
    Slice,
)

from .cores import BIPOLAR, INT4, Core, random_frames
from .simulated import Settings, check_rtl

pytestmark = pytest.mark.sim


def block(core: Core, x: Value, outputs: int, name: str, **how: int) -> Value:
    """A 3 x 3 convolution and its activation."""
    return core.activation(core.conv(x, outputs, (3, 3), name, **how), name=f"{name}_act")


def pool(core: Core, x: Value, size: int, stride: int, pad: int = 0) -> Value:
    op = IntMaxPool((size, size), (stride, stride), (1, 1), ((pad, pad), (pad, pad)))
    return core.graph.add(op, (x,), "pool")


def plain_network() -> Graph:
    """Convolutions without padding, pools, fully connected layers: like CNV."""
    core = Core(1)
    x = block(core, core.input((3, 12, 12), INT4), 4, "conv0")
    x = pool(core, block(core, x, 6, "conv1"), 2, 2)
    x = block(core, x, 8, "conv2")
    x = core.graph.add(Reshape((32,)), (x,))
    core.output(core.matmul(core.activation(core.matmul(x, 12, "fc0"), name="act"), 5, "fc1"))
    return core.graph


def residual_network() -> Graph:
    """A block with an identity branch and one with a strided pointwise branch, then a global average: like ResNet."""
    core = Core(2)
    x = pool(core, block(core, core.input((2, 8, 8), INT4), 4, "stem", pad=1), 3, 1, 1)
    y = core.conv(block(core, x, 6, "a1", pad=1), 4, (3, 3), "a2", pad=1)
    x = core.activation(core.graph.add(IntAdd((3, 1)), (x, y), "join_a"), name="act_a")
    y = core.conv(block(core, x, 8, "b1", pad=1, stride=2), 8, (3, 3), "b2", pad=1)
    z = core.conv(x, 8, (1, 1), "short", stride=2)
    x = core.activation(core.graph.add(IntAdd((1, 2)), (y, z), "join_b"), name="act_b")
    x = core.graph.add(IntSumPool((4, 4), (1, 1), (1, 1), ((0, 0), (0, 0))), (x,), "average")
    core.output(core.matmul(core.graph.add(Reshape((8,)), (x,)), 3, "fc"))
    return core.graph


def separable_network() -> Graph:
    """Depthwise and pointwise convolutions, a channel multiplier, a grouped convolution: like MobileNet."""
    core = Core(3)
    x = block(core, core.input((3, 9, 8), INT4), 4, "stem", pad=1, stride=2)
    for k, (outputs, stride) in enumerate([(6, 1), (8, 2)]):
        channels = core.graph.type(x).shape[0]
        x = block(core, x, channels, f"depthwise{k}", pad=1, stride=stride, groups=channels)
        x = core.activation(core.conv(x, outputs, (1, 1), f"pointwise{k}"), name=f"act{k}")
    x = block(core, x, 16, "multiplied", pad=1, groups=8)
    x = block(core, x, 4, "grouped", pad=1, groups=4)
    core.output(x)
    return core.graph


def u_network() -> Graph:
    """Down, up again, joined with what came before: like U-Net; and channels that are split."""
    core = Core(4)
    x = block(core, core.input((1, 8, 8), INT4), 4, "down0", pad=1)
    y = block(core, pool(core, x, 2, 2), 6, "down1", pad=1)
    y = block(core, y, 8, "bottom", pad=1)
    y = core.graph.add(IntUpsample((2, 2)), (y,), "up")
    z = core.graph.add(Concat(0), (x, y), "skip")
    core.output(block(core, z, 3, "out", pad=1))
    core.output(core.graph.add(Slice(0, 2, 4), (y,), "half"), "part")
    return core.graph


def one_dimensional_network() -> Graph:
    """A keyword spotter: strided, dilated by pooling, averaged over time."""
    core = Core(5)
    x = core.activation(core.conv(core.input((4, 20), INT4), 6, (5,), "conv0", stride=2, pad=2), name="act0")
    x = core.graph.add(IntMaxPool((2,), (2,), (1,), ((0, 0),)), (x,), "pool")
    x = core.activation(core.conv(x, 6, (3,), "conv1", pad=1, groups=6), name="act1")
    x = core.graph.add(IntSumPool((5,), (1,), (1,), ((0, 0),)), (x,), "average")
    core.output(core.matmul(core.graph.add(Reshape((6,)), (x,)), 3, "fc"))
    return core.graph


def bipolar_network() -> Graph:
    """Signs all through, padded: a padded sign is 0, so these windows carry three values."""
    core = Core(6)
    x = core.activation(core.input((2, 6, 6), INT4), output=BIPOLAR, name="sign")
    x = core.activation(core.conv(x, 4, (3, 3), "conv0", pad=1), output=BIPOLAR, name="act0")
    x = core.activation(core.conv(pool(core, x, 2, 2), 4, (3, 3), "conv1"), output=BIPOLAR, name="act1")
    core.output(x)
    return core.graph


def rearranged_network() -> Graph:
    """Padding by a constant per channel, a transposed convolution, channels shuffled, repeated and left out."""
    core = Core(7)
    x = core.input((4, 5, 4), INT4)
    x = core.graph.add(IntPad(((0, 0), (1, 2), (2, 1)), np.array([1, -2, 3, 0])), (x,), "pad")
    x = block(core, core.graph.add(Gather(0, (2, 0, 3, 1)), (x,), "shuffle"), 4, "conv", groups=1)
    x = core.graph.add(IntZeroInsert((2, 2), np.array([0])), (x,), "spread")
    x = block(core, x, 4, "transposed", pad=2)
    x = core.graph.add(Gather(0, (3, 3, 0)), (x,), "pick")
    core.output(core.activation(core.conv(x, 3, (1, 1), "point"), name="last"))
    return core.graph


NETWORKS = {
    "rearranged": rearranged_network(),
    "plain": plain_network(),
    "residual": residual_network(),
    "separable": separable_network(),
    "u": u_network(),
    "one_dimensional": one_dimensional_network(),
    "bipolar": bipolar_network(),
}


@pytest.mark.parametrize("cycles", [None, 600])
@pytest.mark.parametrize("network", NETWORKS)
def test_exact_at_full_rate(tmp_path: Path, network: str, cycles: int | None) -> None:
    core = NETWORKS[network]
    settings = Settings(target_fps=200e6 / cycles if cycles else None)
    check_rtl(core, random_frames(core, 8), tmp_path / "d", settings)


@pytest.mark.parametrize("network", NETWORKS)
def test_exact_under_stalls(tmp_path: Path, network: str) -> None:
    core = NETWORKS[network]
    check_rtl(core, random_frames(core, 5), tmp_path / "d", stall_in=0.4, stall_out=0.4)
