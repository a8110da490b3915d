"""Good designs: every engine returns the right values in the same cycles, stalled or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace_sim import load, simulate
from sim import designs

pytestmark = pytest.mark.sim
STALLS = [{"stall_in": a, "stall_out": b} for a, b in ((0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.3, 0.4))]


def draw(seed: int, low: int, high: int, *shape: int) -> np.ndarray:
    """Random integers low..high with both extremes present."""
    array = np.random.default_rng(seed).integers(low, high, shape, endpoint=True)
    array.flat[0], array.flat[-1] = low, high
    return array


def test_wide_words_pass_through(tmp_path: Path, rtl_sim, agree) -> None:
    manifest = designs.register_slice(tmp_path, bits=3, epw=103, frame=515)
    x = draw(1, -4, 3, 9, 515)
    for run, stalls in ((rtl_sim, STALLS), (agree, STALLS[::3])):
        for stall in stalls:
            result = run(manifest, {"x": x}, **stall, trace=True, seed=5)
            np.testing.assert_array_equal(result.outputs["y"], x)
            np.testing.assert_array_equal(result.streams["mid"], x)


@pytest.mark.parametrize(
    ("bits", "epw", "encoding", "low", "high"),
    [
        (1, 1, "bipolar", -1, 1),
        (1, 77, "bipolar", -1, 1),
        (8, 40, "unsigned", 0, 255),
        (33, 5, "signed", -(2**32), 2**32 - 1),
        (63, 2, "unsigned", 0, 2**63 - 1),
    ],
)
def test_every_encoding(tmp_path: Path, rtl_sim, bits: int, epw: int, encoding: str, low: int, high: int) -> None:
    manifest = designs.register_slice(tmp_path, bits=bits, epw=epw, frame=2 * epw, encoding=encoding)
    x = draw(2, low, high, 7, 2 * epw)
    if encoding == "bipolar":
        x[x == 0] = 1
    result = rtl_sim(manifest, {"x": x}, trace=True)
    np.testing.assert_array_equal(result.outputs["y"], x)
    np.testing.assert_array_equal(result.streams["mid"], x)


def test_decimator_with_memory(tmp_path: Path, rtl_sim, agree) -> None:
    weights = draw(3, -128, 127, 12)
    manifest = designs.dot_product(tmp_path, weights.tolist())
    x = draw(4, -128, 127, 20, 12)
    for run, stalls in ((rtl_sim, STALLS), (agree, STALLS[3:])):
        for stall in stalls:
            result = run(manifest, {"x": x}, **stall, seed=9)
            np.testing.assert_array_equal(result.outputs["dot"][:, 0], x @ weights)


def test_memory_contents_are_read_at_run_time(tmp_path: Path, rtl_sim) -> None:
    x = draw(5, -128, 127, 3, 4)
    first = rtl_sim(designs.dot_product(tmp_path / "a", [1, 2, 3, 4]), {"x": x})
    second = rtl_sim(designs.dot_product(tmp_path / "b", [-4, 3, -2, 1]), {"x": x})
    assert second.cached  # the sources are equal, only the weights differ
    np.testing.assert_array_equal(first.outputs["dot"][:, 0], x @ [1, 2, 3, 4])
    np.testing.assert_array_equal(second.outputs["dot"][:, 0], x @ [-4, 3, -2, 1])


def test_two_inputs(tmp_path: Path, rtl_sim, agree) -> None:
    manifest = designs.adder(tmp_path, frame=16)
    a, b = draw(6, -8, 7, 8, 16), draw(7, -8, 7, 8, 16)
    for run, stalls in ((rtl_sim, STALLS), (agree, STALLS[3:])):
        for stall in stalls:
            result = run(manifest, {"a": a, "s_axis_1": b}, **stall)
            np.testing.assert_array_equal(result.outputs["sum"], a + b)


def test_two_outputs(tmp_path: Path, rtl_sim, agree) -> None:
    manifest = designs.fork(tmp_path, frame=16)
    x = draw(8, 0, 255, 8, 16)
    for run, stalls in ((rtl_sim, STALLS), (agree, STALLS[3:])):
        for stall in stalls:
            result = run(manifest, {"x": x}, **stall)
            np.testing.assert_array_equal(result.outputs["y0"], x)
            np.testing.assert_array_equal(result.outputs["y1"], 255 - x)


def test_interval_and_latency(tmp_path: Path, rtl_sim, agree) -> None:
    x = draw(9, -128, 127, 10, 12)
    result = agree(designs.dot_product(tmp_path / "dot", [1] * 12), {"x": x})
    assert result.interval == {"dot": 12.0}
    assert result.first_output_latency == result.first_frame_latency == 12
    assert result.cycles == 10 * 12 + 1
    slow = rtl_sim(designs.every_third_cycle(tmp_path / "slow", frame=12), {"x": x})
    assert slow.interval == {"y": 36.0}
    assert slow.first_frame_latency == slow.first_output_latency + 11 * 3  # twelve words, three cycles apart
    one = rtl_sim(designs.dot_product(tmp_path / "dot", [1] * 12), {"x": x[:1]})
    assert one.interval == {"dot": None}
    stalled = rtl_sim(designs.dot_product(tmp_path / "dot", [1] * 12), {"x": x}, stall_in=0.5)
    assert stalled.interval == {"dot": None}
    assert stalled.cycles > result.cycles


def test_time_stamps(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.register_slice(tmp_path, bits=8, epw=1, frame=3)
    result = rtl_sim(manifest, {"x": np.arange(6).reshape(2, 3)}, trace=True)
    np.testing.assert_array_equal(result.time_stamps["x"], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(result.time_stamps["mid"], [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(result.time_stamps["y"], [[2, 3, 4], [5, 6, 7]])


def test_pace(tmp_path: Path, agree) -> None:
    manifest = designs.register_slice(tmp_path, bits=8, epw=1, frame=3)
    result = agree(manifest, {"x": np.arange(9).reshape(3, 3)}, pace=10)
    np.testing.assert_array_equal(result.time_stamps["x"], [[0, 4, 7], [10, 14, 17], [20, 24, 27]])
    assert result.interval == {"y": 10.0}


def test_seed_decides_the_stalls(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.register_slice(tmp_path, bits=8, epw=1, frame=50)
    x = draw(10, -128, 127, 10, 50)
    runs = [rtl_sim(manifest, {"x": x}, stall_in=0.3, stall_out=0.3, seed=seed) for seed in (1, 1, 2)]
    stamps = [run.time_stamps["y"].tolist() for run in runs]
    assert stamps[0] == stamps[1] != stamps[2]


def test_frames_may_have_more_dimensions(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.register_slice(tmp_path, bits=8, epw=2, frame=12)
    x = draw(11, -128, 127, 3, 2, 6).astype(np.int8)
    np.testing.assert_array_equal(rtl_sim(manifest, {"x": x}).outputs["y"], x.reshape(3, 12))


def test_a_manifest_file_or_its_folder(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.register_slice(tmp_path, bits=8, epw=2, frame=4)
    assert load(tmp_path) == manifest
    x = draw(12, -128, 127, 2, 4)
    for path in (tmp_path, tmp_path / "design.json", str(tmp_path)):
        np.testing.assert_array_equal(rtl_sim(path, {"x": x}).outputs["y"], x)


def test_waves(tmp_path: Path, rtl_sim, engine: dict[str, str]) -> None:
    manifest = designs.register_slice(tmp_path, bits=8, epw=2, frame=4)
    suffix = "fst" if engine.get("simulator") == "icarus" else "vcd"
    path = tmp_path / "with space" / f"waves.{suffix}"
    result = rtl_sim(manifest, {"x": draw(13, -128, 127, 2, 4)}, waves=path, **engine)
    assert result.waves == path
    data = path.read_bytes()
    assert len(data) > 200
    if suffix == "vcd":
        assert b"$enddefinitions" in data
        assert b"s_mid_tdata" in data


@pytest.mark.parametrize("optimize", ["0", "2"])
def test_optimize(tmp_path: Path, rtl_sim, optimize: str) -> None:
    manifest = designs.dot_product(tmp_path, [3, 1, 2])
    x = draw(14, -128, 127, 4, 3)
    result = rtl_sim(manifest, {"x": x}, optimize=optimize)
    np.testing.assert_array_equal(result.outputs["dot"][:, 0], x @ [3, 1, 2])


def test_simulate_without_the_fixture(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.dot_product(tmp_path, [3, 1, 2])
    x = draw(15, -128, 127, 4, 3)
    rtl_sim(manifest, {"x": x})  # skips where there is no simulator
    assert simulate(manifest, {"x": x}).cached
