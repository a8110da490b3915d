"""From the driver's bytes through the simulated top of a project to its results: what a board would do.

The DMAs refuse what those of pynq refuse; the top is the Verilog that ``package_ip.tcl`` packages for a Zynq.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import quantized_mlp
from module_files import module_of
from runtime.networks import ALL, core_outputs, network, two_ends
from simulated_dma import Board, Memory, read_table, run_top

import headrace
from headrace.build.verify import random_frames
from headrace_sim.toolchain import verilator

from .test_driver import bipolar_model, image_model

pytestmark = pytest.mark.skipif(not shutil.which("iverilog"), reason="Icarus Verilog was not found")

DESIGNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "three bits": (lambda: quantized_mlp((12, 8, 5), 3, seed=1), {"board": "Pynq-Z1"}),
    "words of many beats": (lambda: quantized_mlp((96, 8, 5), 3, seed=1), {"board": "Pynq-Z1", "target_fps": 1e8}),
    "words of many wide beats": (
        lambda: quantized_mlp((96, 8, 70), 3, seed=1, argmax=False),
        {"board": "KV260", "target_fps": 1e8},
    ),
    "bipolar": (bipolar_model, {"board": "ZCU104"}),
    "image": (image_model, {"board": "Pynq-Z2", "target_fps": 3e6}),
    "two ends": (lambda: two_ends(0), {"board": "ZCU104"}),
    "nine bits": (lambda: quantized_mlp((10, 6, 4), 9, seed=2, argmax=False), {"board": "Pynq-Z2"}),
}


def built(out: Path, make: Any, settings: dict[str, Any]) -> headrace.Design:
    return headrace.build(make(), out, name="net", generate_outputs=["stitched_ip", "pynq_driver"], **settings)


def board_of(out: Path, stall: int) -> tuple[Any, Board, Memory]:
    """The driver of a build in front of a simulated board."""
    board = Board(out / "stitched_ip", read_table(out / "driver"), "net_dma", out.parent, stall)
    memory = Memory()
    driver = module_of(out / "driver" / "driver.py")
    return driver.Accelerator(overlay=board, allocate=memory), board, memory


def core_of(design: headrace.Design, frames: int, seed: int) -> dict[str, Any]:
    feeds = design.core_feeds(random_frames(design.source, frames, seed))
    return {port.name: feeds[port.name] for port in design.hardware.inputs}


@pytest.mark.sim
@pytest.mark.parametrize("stall", [0, 40])
@pytest.mark.parametrize("name", DESIGNS)
def test_bytes_of_the_driver_through_the_top(name: str, stall: int, tmp_path: Path) -> None:
    design = built(tmp_path / "out", *DESIGNS[name])
    accelerator, board, memory = board_of(tmp_path / "out", stall)
    for frames in (1, 7):
        core = core_of(design, frames, frames)
        got, expected = accelerator.execute(core), design.hardware.run(core)
        assert got.keys() == expected.keys()
        for output, values in expected.items():
            np.testing.assert_array_equal(got[output], values)
    assert board.runs == 2  # all frames of a batch in one transfer
    assert memory.held == len(design.hardware.inputs) + len(design.hardware.outputs)


def test_designs_differ_in_their_beats(tmp_path: Path) -> None:
    """Words of one beat, of several, of less than a beat; widths that are no power of two."""
    sizes = set()
    for number, (make, settings) in enumerate(DESIGNS.values()):
        built(tmp_path / str(number), make, settings)
        table = read_table(tmp_path / str(number) / "driver")
        sizes |= {(s["word_bytes"], s["beat_bytes"]) for s in (*table["inputs"], *table["outputs"])}
    assert any(word > beat and word % beat for word, beat in sizes)
    assert any(word < beat for word, beat in sizes)
    assert {beat for _, beat in sizes} >= {1, 2, 8, 16}


@pytest.mark.sim
@pytest.mark.parametrize("stall", [0, 60])
def test_transfers_one_after_the_other(stall: int, tmp_path: Path) -> None:
    """Bytes of three transfers without a pause, one of no frames: each output has a tlast for each that has frames."""
    design = built(tmp_path / "out", lambda: two_ends(0), {"board": "Pynq-Z1"})
    table = read_table(tmp_path / "out" / "driver")
    driver = module_of(tmp_path / "out" / "driver" / "driver.py")
    inputs, outputs = ([driver.Stream(s) for s in table[side]] for side in ("inputs", "outputs"))
    sent: dict[str, list[bytes]] = {s["port"]: [] for s in table["inputs"]}
    expected = []
    for frames in (2, 0, 5):
        core = core_of(design, frames, frames) if frames else {s.name: np.zeros((0, *s.shape), int) for s in inputs}
        head = frames.to_bytes(4, "little").ljust(max(4, inputs[0].beat_bytes), b"\x00")
        for k, (stream, port) in enumerate(zip(inputs, sent, strict=True)):
            sent[port].append((head if k == 0 else b"") + stream.pack(core[stream.name]).tobytes())
        if frames:
            expected.append(design.hardware.run(core))
    joined = {port: np.frombuffer(b"".join(parts), np.uint8) for port, parts in sent.items()}
    got = run_top(tmp_path / "out" / "stitched_ip", "net_dma", table, joined, stall, transfers=2)
    for stream, (port, parts) in zip(outputs, got.items(), strict=True):
        assert len(parts) == len(expected), port
        for part, values in zip(parts, expected, strict=True):
            np.testing.assert_array_equal(stream.unpack(part), values[stream.name])


@pytest.mark.sim
def test_large_batches_go_in_several_transfers(tmp_path: Path) -> None:
    design = built(tmp_path / "out", *DESIGNS["three bits"])
    accelerator, board, memory = board_of(tmp_path / "out", 0)
    accelerator.CHUNK = 4 + 5 * max(s.bytes_of(1) for s in (*accelerator.inputs, *accelerator.outputs))
    core = core_of(design, 12, 0)
    got, expected = accelerator.execute(core), design.hardware.run(core)
    assert all(np.array_equal(got[name], expected[name]) for name in expected)
    assert board.runs == 3
    assert memory.held == 2
    assert accelerator.execute({name: values[:0] for name, values in core.items()}).keys() == got.keys()
    assert board.runs == 3
    accelerator.LONGEST_TRANSFER = 5
    with pytest.raises(ValueError, match=r"a frame takes \d+ bytes; a DMA moves 5 at once"):
        accelerator.execute(core)


@pytest.mark.sim
def test_throughput_test(tmp_path: Path) -> None:
    built(tmp_path / "out", *DESIGNS["three bits"])
    accelerator, board, _ = board_of(tmp_path / "out", 0)
    found = accelerator.throughput_test(9)
    assert (found["batch_size"], board.runs) == (9, 1)
    seconds = found["runtime[ms]"] / 1000
    assert found["throughput[images/s]"] == pytest.approx(9 / seconds)
    sent = sum(s.bytes_of(9) for s in accelerator.inputs)
    assert found["DRAM_in_bandwidth[MB/s]"] == pytest.approx(sent / seconds / 1e6)


@pytest.mark.sim
def test_weights_that_the_driver_writes(tmp_path: Path) -> None:
    """Another model's weights and thresholds through the AXI4-Lite slave of the packaged top, then frames by DMA."""
    out = tmp_path / "out"
    design = built(out, lambda: network(0), {"board": "Pynq-Z1", "folding": ALL, "performance_counters": True})
    table = json.loads((out / "driver" / "control.json").read_text())
    board = Board(out / "stitched_ip", read_table(out / "driver"), "net_dma", tmp_path, 20)
    board.writes = []

    class Registers:
        """What is written goes to the simulated slave; reads are of what it would hold."""

        def __init__(self) -> None:
            self.words = {0x00: 0x43524448, 0x04: table["version"], 0x0C: table["map_id"], 0x14: 1}

        def read(self, address: int) -> int:
            return self.words.get(address, 0)

        def write(self, address: int, word: int) -> None:
            assert board.writes is not None
            board.writes.append((address, word))
            self.words[address] = word

    board.accelerator = Registers()  # type: ignore[attr-defined]
    driver = module_of(out / "driver" / "driver.py")
    accelerator = driver.Accelerator(overlay=board, allocate=Memory())
    feeds = random_frames(design.source, 3, 0)
    core = {port.name: design.core_feeds(feeds)[port.name] for port in design.hardware.inputs}
    for name, entry in design.runtime_weights(network(1)).items():
        for array, values in entry.arrays.items():
            accelerator.write_array(name, array, values)
    got = accelerator.execute(core)
    for name, values in core_outputs(network(1), feeds).items():
        np.testing.assert_array_equal(got[name], values)
    assert any((values != core_outputs(network(0), feeds)[name]).any() for name, values in got.items())


def test_fewer_bytes_than_frames_are_noticed(tmp_path: Path) -> None:
    design = built(tmp_path / "out", *DESIGNS["three bits"])
    accelerator, board, _ = board_of(tmp_path / "out", 0)
    board.run = lambda: None  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match=r"0 of 2 bytes; is io\.json of this bitfile"):
        accelerator.execute(core_of(design, 2, 0))


@pytest.mark.parametrize("name", DESIGNS)
def test_tops_are_clean(name: str, tmp_path: Path) -> None:
    """Both Verilog tops, with all warnings of Verilator, and by the Verilog-2005 front-end of Icarus."""
    built(tmp_path / "out", *DESIGNS[name])
    folder = tmp_path / "out" / "stitched_ip"
    sources = sorted(path.name for path in folder.glob("*.sv"))
    found = verilator()
    for top in ("net_ip", "net_dma"):
        command = [
            str(found.binary),
            "--lint-only",
            "-Wall",
            "-Wno-DECLFILENAME",
            "--top-module",
            top,
            f"{top}.v",
            *sources,
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=found.environment(), check=False)
        assert done.returncode == 0, done.stderr
        command = ["iverilog", "-g2005", "-E", "-o", "one.v", f"{top}.v"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
