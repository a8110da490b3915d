"""Generated designs in simulation: every stream equals the graph, and the slowest layer never waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.ir.integer import IntAdd, IntTopK, Reshape, Transpose

from .cores import BIPOLAR, INT4, Core, mlp, random_frames
from .simulated import Settings, check_rtl

pytestmark = pytest.mark.sim


FOLDED = Settings(folding={"fc0": {"PE": 2, "SIMD": 12}, "fc1": {"PE": 3, "SIMD": 4}})


@pytest.mark.parametrize("settings", [Settings(), Settings(target_fps=200e6 / 24), FOLDED])
def test_chain(tmp_path: Path, settings: Settings) -> None:
    core = mlp((12, 8, 6, 4))
    check_rtl(core, random_frames(core, 12), tmp_path / "d", settings)


def test_chain_under_stalls(tmp_path: Path) -> None:
    core = mlp((12, 8, 6, 4))
    for k, (stall_in, stall_out) in enumerate([(0.5, 0.0), (0.0, 0.5), (0.3, 0.6)]):
        check_rtl(core, random_frames(core, 6), tmp_path / str(k), stall_in=stall_in, stall_out=stall_out)


def test_bipolar_network_with_a_label(tmp_path: Path) -> None:
    core = Core()
    x = core.activation(core.input((28,), INT4), output=BIPOLAR, name="sign")
    for k in range(2):
        x = core.activation(core.matmul(x, 12, f"fc{k}"), output=BIPOLAR, name=f"act{k}")
    x = core.matmul(x, 10, "last")
    core.output(core.graph.add(IntTopK(1), (x,), "label"))
    check_rtl(core.graph, random_frames(core.graph, 12), tmp_path / "d", Settings(target_fps=200e6 / 40))


def test_fork_with_two_outputs_and_two_inputs(tmp_path: Path) -> None:
    core = Core()
    a, b = core.input((6,), INT4, "a"), core.input((4,), name="b")
    x = core.lookup(core.matmul(a, 4, "fa"))
    core.output(x, "inner")
    core.output(core.matmul(x, 3, "fc"), "outer")
    core.output(core.matmul(b, 5, "fb"), "other")
    core.output(b, "copy")
    check_rtl(core.graph, random_frames(core.graph, 8), tmp_path / "d")
    check_rtl(core.graph, random_frames(core.graph, 8), tmp_path / "e", stall_in=0.4, stall_out=0.4)


def test_residual_branches(tmp_path: Path) -> None:
    core = Core()
    x = core.activation(core.input((16,), INT4), name="first")
    y = core.activation(core.matmul(x, 24, "up"), name="act")
    y = core.activation(core.matmul(y, 16, "down"), name="act2")
    core.output(core.matmul(core.graph.add(IntAdd((1, 2)), (x, y), "join"), 4, "head"))
    check_rtl(core.graph, random_frames(core.graph, 12), tmp_path / "d", Settings(target_fps=200e6 / 30))


def test_convolutions_flatten_product(tmp_path: Path) -> None:
    core = Core()
    x = core.input((3, 6, 5))
    x = core.activation(core.conv(x, 4, (3, 3), "conv", pad=1), name="act")
    x = core.activation(core.conv(x, 6, (1, 1), "point"), name="act2")
    x = core.graph.add(Reshape((180,)), (x,))
    core.output(core.matmul(x, 5, "fc"))
    check_rtl(core.graph, random_frames(core.graph, 6), tmp_path / "d", Settings(target_fps=200e6 / 300))


def test_tokens_after_an_image(tmp_path: Path) -> None:
    core = Core()
    x = core.activation(core.conv(core.input((2, 4, 3)), 4, (1, 1)), name="act")
    x = core.graph.add(Transpose((1, 0)), (core.graph.add(Reshape((4, 12)), (x,)),))
    core.output(core.matmul(x, 3, "tokens"))
    check_rtl(core.graph, random_frames(core.graph, 8), tmp_path / "d")


def test_streams_that_have_to_be_put_in_order(tmp_path: Path) -> None:
    core = Core()
    x = core.activation(core.conv(core.input((3, 4, 5)), 4, (1, 1)), name="act")
    turned = core.graph.add(Transpose((0, 2, 1)), (x,))
    y = core.activation(core.conv(turned, 4, (3, 3), "turned", pad=1), name="act2")
    y = core.graph.add(IntAdd(), (core.graph.add(Transpose((0, 2, 1)), (y,)), x), "join")
    core.output(core.matmul(core.graph.add(Reshape((4, 20)), (y,)), 3, "across"))
    check_rtl(core.graph, random_frames(core.graph, 8), tmp_path / "d", Settings(target_fps=200e6 / 300))
