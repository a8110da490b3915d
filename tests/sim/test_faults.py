"""Designs that misbehave, sources that do not compile, calls that are wrong: each has its own error."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from headrace_sim import (
    ArrayError,
    BuildError,
    DeadlockError,
    ManifestError,
    ProtocolError,
    SimulationError,
    SimulatorNotFound,
    Stream,
    simulate,
    verilate,
)
from sim import designs

pytestmark = pytest.mark.sim
X = np.arange(designs.FRAMES * designs.FRAME).reshape(designs.FRAMES, designs.FRAME) - 120


@pytest.mark.parametrize("kind", designs.BROKEN)
def test_protocol_violation(tmp_path: Path, rtl_sim, engine: dict[str, str], kind: str) -> None:
    manifest = designs.broken(tmp_path, kind)
    with pytest.raises(ProtocolError, match="stream y") as caught:
        rtl_sim(manifest, {"x": X}, stall_out=0.5, seed=3, **engine)
    assert {violation.kind for violation in caught.value.violations} == {kind}
    assert all(violation.stream == "y" for violation in caught.value.violations)


def test_violations_are_placed_alike_by_every_engine(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.broken(tmp_path, "last_early")
    runs = []
    for options in ({"engine": "cpp"}, {"engine": "cocotb"}):
        result = rtl_sim(manifest, {"x": X}, check=False, **options)
        np.testing.assert_array_equal(result.outputs["y"], X)
        runs.append(result.violations)
    assert runs[0] == runs[1]
    assert [(v.frame, v.word) for v in runs[0]] == [(0, 2)]


@pytest.mark.parametrize("kind", [kind for kind in designs.BROKEN if "last_" not in kind and kind != "extra_word"])
def test_faults_under_stall_need_stalls_to_show(tmp_path: Path, rtl_sim, kind: str) -> None:
    result = rtl_sim(designs.broken(tmp_path, kind), {"x": X})
    np.testing.assert_array_equal(result.outputs["y"], X)


def test_deadlock_names_who_waits(tmp_path: Path, rtl_sim, engine: dict[str, str]) -> None:
    manifest = designs.broken(tmp_path, "deadlock")
    with pytest.raises(DeadlockError) as caught:
        rtl_sim(manifest, {"x": X}, timeout_cycles=300, **engine)
    message = str(caught.value)
    assert "no word moved for 300 cycles" in message
    assert "input x offers frame 1 word 3 but its receiver is not ready" in message
    assert "output y waits for frame 1 word 3" in message


def test_deadlock_names_inner_streams(tmp_path: Path, rtl_sim, engine: dict[str, str]) -> None:
    manifest = designs.register_slice(tmp_path, bits=8, epw=1, frame=4)
    source = tmp_path / manifest.sources[0]
    stuck = source.read_text().replace("s_mid_tready = !m_axis_0_tvalid || m_axis_0_tready", "s_mid_tready = 1'b0")
    source.write_text(stuck)
    x = np.zeros((1, 4), dtype=np.int64)
    with pytest.raises(DeadlockError, match="internal stream mid offers frame 0 word 0"):
        rtl_sim(manifest, {"x": x}, timeout_cycles=100, trace=True, **engine)


def test_deadlock_tells_how_to_see_inner_streams(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.register_slice(tmp_path, bits=8, epw=1, frame=4)
    source = tmp_path / manifest.sources[0]
    source.write_text(source.read_text().replace("s_axis_0_tready = ", "s_axis_0_tready = 1'b0; //"))
    with pytest.raises(DeadlockError, match="simulate with trace=True"):
        rtl_sim(manifest, {"x": np.zeros((1, 4), dtype=np.int64)}, timeout_cycles=100)


def test_padding_must_be_zero(tmp_path: Path, rtl_sim, engine: dict[str, str]) -> None:
    manifest = designs.pass_through(tmp_path, "dirty", data="{5'b00010, s_axis_0_tdata[2:0]}")
    with pytest.raises(ProtocolError, match="above the elements are not zero"):
        rtl_sim(manifest, {"x": np.zeros((2, 4), dtype=int)}, **engine)


def test_unknown_value(tmp_path: Path, rtl_sim) -> None:
    """A register without a value is X in Icarus and random, by seed, in Verilator."""
    manifest = designs.pass_through(
        tmp_path,
        "no_value",
        data="{5'b0, s_axis_0_tdata[2:0] ^ keep_q}",
        extra="logic [2:0] keep_q; always_ff @(posedge ap_clk) if (!ap_rst_n) keep_q <= keep_q;",
    )
    x = np.zeros((1, 4), dtype=int)
    seen = {tuple(rtl_sim(manifest, {"x": x}, seed=seed).outputs["y"][0]) for seed in range(12)}
    assert len(seen) > 1
    rtl_sim(manifest, {"x": x}, engine="cocotb")
    with pytest.raises(ProtocolError, match="neither 0 nor 1"):
        rtl_sim(manifest, {"x": x}, engine="cocotb", simulator="icarus")


def test_fatal_in_the_design(tmp_path: Path, rtl_sim, engine: dict[str, str]) -> None:
    extra = 'always_ff @(posedge ap_clk) if (ap_rst_n && s_axis_0_tdata[2:0] == 3\'d2) $fatal(1, "two is bad");'
    manifest = designs.pass_through(tmp_path, "fatal", extra=extra)
    with pytest.raises(SimulationError, match="two is bad"):
        rtl_sim(manifest, {"x": np.array([[0, 1, 2, 3]])}, **engine)


def test_missing_memory_file(tmp_path: Path, rtl_sim) -> None:
    manifest = dataclasses.replace(designs.dot_product(tmp_path, [1, 2]), memories=())
    with pytest.raises(SimulationError, match=r"weights\.hex"):
        rtl_sim(manifest, {"x": np.zeros((1, 2), dtype=int)})


def test_syntax_error(tmp_path: Path, rtl_sim, engine: dict[str, str]) -> None:
    manifest = designs.pass_through(tmp_path, "wrong", extra="assign = 1;")
    with pytest.raises(BuildError, match="syntax error"):
        rtl_sim(manifest, {"x": np.zeros((1, 4), dtype=int)}, **engine)


def test_ports_differ_from_the_manifest(tmp_path: Path, rtl_sim) -> None:
    good = designs.pass_through(tmp_path, "ports")
    x = np.zeros((1, 4), dtype=int)
    other = dataclasses.replace(good.outputs[0], port="m_axis_7")
    with pytest.raises(ManifestError, match="names a port m_axis_7_tdata, the RTL has none"):
        rtl_sim(dataclasses.replace(good, outputs=(other,)), {"x": x})
    wide = dataclasses.replace(good.inputs[0], tdata_bits=16)
    with pytest.raises(ManifestError, match="s_axis_0_tdata is input, 8 bits in the RTL"):
        rtl_sim(dataclasses.replace(good, inputs=(wide,)), {"x": x})


@pytest.mark.parametrize(
    ("bits", "signal", "text"),
    [(4, "s_mid", "s_mid_tdata"), (8, "s_none", "s_none_tdata")],
)
def test_internal_stream_differs_from_the_manifest(
    tmp_path: Path, rtl_sim, engine: dict[str, str], bits: int, signal: str, text: str
) -> None:
    good = designs.register_slice(tmp_path, bits=8, epw=1, frame=4)
    stream = Stream(
        name="mid", layer="first", signal=signal, bits=bits, encoding="signed", elements_per_word=1, frame_elements=4
    )
    with pytest.raises((SimulationError, BuildError), match=text):
        rtl_sim(dataclasses.replace(good, streams=(stream,)), {"x": np.zeros((1, 4), dtype=int)}, trace=True, **engine)


def test_missing_frames_of_an_inner_stream_are_not_invented(tmp_path: Path, rtl_sim) -> None:
    good = designs.register_slice(tmp_path, bits=8, epw=1, frame=4)
    longer = dataclasses.replace(good.streams[0], frame_elements=5)
    result = rtl_sim(dataclasses.replace(good, streams=(longer,)), {"x": np.arange(12).reshape(3, 4)}, trace=True)
    np.testing.assert_array_equal(result.streams["mid"], np.arange(10).reshape(2, 5))


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({}, "no array for input 'x'; the design's inputs are 'x'"),
        ({"x": np.zeros((1, 4), int), "z": np.zeros((1, 4), int)}, "the design has no input 'z'"),
        ({"x": np.zeros((1, 4))}, "expected integers, got float64"),
        ({"x": np.zeros((1, 5), int)}, r"expected shape \(frames, 4\) with at least one frame, got \(1, 5\)"),
        ({"x": np.zeros((0, 4), int)}, "at least one frame"),
        ({"x": np.zeros(4, int)}, "expected shape"),
        ({"x": np.array([[0, 1, 4, 0]])}, r"value 4 at index \(0, 2\) is not -4..3"),
        ({"x": np.array([[0, 1, 0, -5]])}, r"value -5 at index \(0, 3\)"),
        ({"x": np.full((1, 4), 2**64 - 1, dtype=np.uint64)}, "value 18446744073709551615 at index"),
    ],
)
def test_wrong_arrays(tmp_path: Path, rtl_sim, inputs: dict[str, np.ndarray], text: str) -> None:
    with pytest.raises(ArrayError, match=text):
        rtl_sim(designs.pass_through(tmp_path, "arrays"), inputs)


def test_frame_counts_differ(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.adder(tmp_path, frame=4)
    with pytest.raises(ArrayError, match=r"different numbers of frames: \[1, 2\]"):
        rtl_sim(manifest, {"a": np.zeros((1, 4), int), "b": np.zeros((2, 4), int)})


def test_bipolar_zero_is_refused(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.register_slice(tmp_path, bits=1, epw=4, frame=4, encoding="bipolar")
    with pytest.raises(ArrayError, match=r"value 0 at index \(0, 1\) is not -1 or \+1"):
        rtl_sim(manifest, {"x": np.array([[1, 0, -1, 1]])})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"engine": "vcs"}, "engine 'vcs' is not one of cpp, cocotb"),
        ({"simulator": "questa"}, "simulator 'questa' is not one of"),
        ({"engine": "cpp", "simulator": "icarus"}, "'icarus' runs with engine 'cocotb'"),
        ({"stall_in": 1.0}, "stall_in=1.0 is outside"),
        ({"stall_out": -0.1}, "stall_out=-0.1 is outside"),
        ({"waves": "x.ghw"}, r"verilator writes \.vcd or \.fst"),
        ({"waves": "x.vcd", "engine": "cocotb", "simulator": "icarus"}, r"icarus writes \.fst"),
    ],
)
def test_wrong_options(tmp_path: Path, rtl_sim, options: dict[str, object], text: str) -> None:
    manifest = designs.pass_through(tmp_path, "options")
    with pytest.raises(SimulationError, match=text):
        rtl_sim(manifest, {"x": np.zeros((1, 4), int)}, **options)


def test_fst_without_its_headers(tmp_path: Path, rtl_sim, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = designs.pass_through(tmp_path, "options")
    x = np.zeros((1, 4), int)
    rtl_sim(manifest, {"x": x})  # skips where there is no simulator
    monkeypatch.setattr(verilate, "has_fst", lambda: False)
    with pytest.raises(SimulatorNotFound, match=r"liblz4-dev.*\.vcd needs nothing"):
        simulate(manifest, {"x": x}, waves=tmp_path / "x.fst")


def test_wrong_optimize(tmp_path: Path, rtl_sim) -> None:
    with pytest.raises(BuildError, match="optimize='fast' is not one of 0, s, 1, 2, 3"):
        rtl_sim(designs.pass_through(tmp_path, "opt"), {"x": np.zeros((1, 4), int)}, optimize="fast")
