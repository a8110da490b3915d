"""FIFO: its styles in a second simulator, what stands in for one where a device lacks it, and which it takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.errors import FoldingError
from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.fifo import FIFO, STYLES
from headrace_sim import simulate
from headrace_sim.errors import SimulatorNotFound
from headrace_sim.toolchain import icarus
from layers.cases.fifos import CASES, STREAM
from layers.conformance import Bench, build_bench, random_frames


def assert_passes_on(bench: Bench, **how: object) -> None:
    """Every FIFO of *bench* gives what it is given, with stalls."""
    rng = np.random.default_rng(3)
    inputs = {f"{case}.in0": random_frames(layer.inputs[0], 6, rng) for case, layer in bench.layers.items()}
    result = simulate(bench.manifest, inputs, stall_in=0.4, stall_out=0.4, **how)
    for case in bench.layers:
        np.testing.assert_array_equal(result.outputs[f"{case}.out0"], inputs[f"{case}.in0"].reshape(6, -1))


@pytest.mark.sim
def test_every_style_in_icarus(tmp_path: Path) -> None:
    try:
        icarus()
    except SimulatorNotFound as error:
        pytest.skip(str(error))
    assert {layer.style for layer in CASES.values()} == {*STYLES} - {"auto"}
    assert_passes_on(build_bench(CASES, tmp_path / "bench"), engine="cocotb", simulator="icarus")


@pytest.mark.sim
@pytest.mark.parametrize(
    ("macros", "modules"),
    [
        (("HEADRACE_NO_SRL",), ("ram", "ram")),
        (("HEADRACE_NO_SRL", "HEADRACE_NO_LUTRAM"), ("block", "block")),
        ((), ("srl", "ram")),
    ],
)
def test_devices_without_a_style(tmp_path: Path, macros: tuple[str, ...], modules: tuple[str, str]) -> None:
    """What synthesis takes for families that lack shift registers or memories in look-up tables works as well."""
    fifos = {"shallow": FIFO(STREAM, 5), "deep": FIFO(STREAM, 150)}
    assert [fifo.style for fifo in fifos.values()] == ["srl", "distributed"]
    bench = build_bench(fifos, tmp_path / "bench")
    for name, module in zip(bench.modules.values(), modules, strict=True):
        path = bench.manifest.root / "rtl" / f"{name}.sv"
        text = path.read_text()
        assert f"headrace_fifo_{module} #(" in text
        path.write_text("".join(f"`define {macro}\n" for macro in macros) + text)
    assert_passes_on(bench)


def test_style_by_size() -> None:
    """Narrow ones are shift registers, wide or deep ones memories; none is where another takes fewer."""

    def style(depth: int, bits: int) -> str:
        return FIFO(StreamType((2,), IntRange(0, (1 << bits) - 1)), depth).style

    assert {style(depth, 8) for depth in (3, 16, 32, 64)} == {"srl"}
    assert {style(depth, 200) for depth in (3, 16, 32, 64)} == {"distributed"}
    assert style(1000, 2) == "distributed"
    assert style(512, 36) == "block"
    assert {style(depth, 512) for depth in (0, 1, 2)} == {"registers"}
    for depth in (3, 20, 40, 100):
        for bits in (1, 12, 30, 50, 90):
            stream = StreamType((2,), IntRange(0, (1 << bits) - 1))
            sizes = {s: FIFO(stream, depth, s).resources() for s in ("srl", "distributed")}
            chosen = FIFO(stream, depth).resources()
            assert chosen.lut + chosen.ff == min(r.lut + r.ff for r in sizes.values())


def test_unknown_style() -> None:
    with pytest.raises(FoldingError, match=r"FIFO: ram_style='bloc' is not one of auto, registers, srl.*'block'"):
        FIFO(STREAM, 4, "bloc")
