"""The driver on a PC: its registers are those of a model of the hardware that holds words, and of the simulated RTL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from module_files import module_of

import headrace
from headrace.build.runtime import write_runtime_weights
from headrace.build.verify import random_frames
from headrace_sim import ControlScript, Write

from .networks import ALL, core_outputs, network


class FakeMmio:
    """Words by address; those of the registers are as the hardware gives them, memories keep as many bits as they have.

    Attributes:
        writes: every write, in order.
        busy: how often STATUS still says that frames are inside.
    """

    def __init__(self, table: dict[str, Any]) -> None:
        self.words: dict[int, int] = {0x00: 0x43524448, 0x04: table["version"], 0x0C: table["map_id"]}
        self.writes: list[tuple[int, int]] = []
        self.busy = 0

    def read(self, address: int) -> int:
        if address == 0x14:
            self.busy -= 1
            return int(self.busy < 0)
        return self.words.get(address, 0)

    def write(self, address: int, word: int) -> None:
        self.writes.append((address, word))
        self.words[address] = word


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "out"
    outputs = ["pynq_driver", "stitched_ip"]
    headrace.build(network(0), out, name="net", folding=ALL, performance_counters=True, generate_outputs=outputs)
    return out


def accelerator(built: Path) -> tuple[Any, FakeMmio]:
    mmio = FakeMmio(json.loads((built / "driver" / "control.json").read_text()))
    overlay = SimpleNamespace(accelerator=mmio)
    return module_of(built / "driver" / "driver.py").Accelerator(overlay=overlay, allocate=lambda: None), mmio


def test_files_hold_what_the_design_has(built: Path) -> None:
    device, mmio = accelerator(built)
    mmio.busy = 3
    loaded = device.load_runtime_weights()
    design = headrace.load(built)
    weights = design.runtime_weights()
    assert loaded == list(weights) == ["conv", "act0", "depthwise", "act1", "pointwise", "act2", "fc"]
    assert mmio.writes == [write for entry in weights.values() for write in entry.writes]
    for name, entry in weights.items():
        for array, values in entry.arrays.items():
            np.testing.assert_array_equal(device.read_array(name, array), values)


def test_another_model_by_files_and_by_arrays(built: Path, tmp_path: Path) -> None:
    weights = headrace.load(built).runtime_weights(network(1))
    write_runtime_weights(weights, tmp_path / "runtime_weights")
    by_files, first = accelerator(built)
    by_files.load_runtime_weights(tmp_path / "runtime_weights")
    by_arrays, second = accelerator(built)
    for name, entry in weights.items():
        for array, values in entry.arrays.items():
            by_arrays.write_array(name, array, values)
            np.testing.assert_array_equal(by_files.read_array(name, array), values)
    assert {a: w for a, w in first.words.items() if w} == {a: w for a, w in second.words.items() if w}


@pytest.mark.sim
def test_what_the_driver_writes_runs(built: Path) -> None:
    """The writes of the driver, given to the simulated hardware: it computes the other model."""
    design, model = headrace.load(built), network(3)
    device, mmio = accelerator(built)
    for name, entry in design.runtime_weights(model).items():
        for array, values in entry.arrays.items():
            device.write_array(name, array, values)
    feeds = random_frames(design.source, 4, 0)
    script = ControlScript(before=tuple(Write(address, word) for address, word in mmio.writes))
    run = design.simulate(feeds, control=script, stall_out=0.2, optimize="0")
    for name, values in core_outputs(model, feeds).items():
        np.testing.assert_array_equal(run.core[name], values)


def test_files_from_the_command_line(built: Path, tmp_path: Path) -> None:
    onnx.save(network(1), tmp_path / "new.onnx")
    folder = tmp_path / "weights"
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "weights", str(built)]
    options = ["--model", str(tmp_path / "new.onnx"), "-o", str(folder)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "7 files" in done.stdout
    weights = headrace.load(built).runtime_weights(network(1))
    assert {path.name: path.read_text() for path in folder.iterdir()} == {e.file: e.text for e in weights.values()}


def test_counters(built: Path) -> None:
    device, mmio = accelerator(built)
    table = json.loads((built / "driver" / "control.json").read_text())["counters"]
    mmio.words |= {table["cycles"]: 7, table["cycles"] + 4: 1, table["span"]: 5}
    first = table["streams"][0]
    mmio.words |= {first["words"]: 11, first["stalled"]: 12, first["starved"]: 13, first["frames"]: 14}
    counters = device.read_counters()
    assert (counters["cycles"], counters["span"]) == (7 + 2**32, 5)
    assert counters["streams"][first["stream"]] == {"words": 11, "stalled": 12, "starved": 13, "frames": 14}
    device.clear_counters()
    device.stop_counters()
    assert mmio.writes == [(0x10, 3), (0x10, 0)]


def test_what_does_not_fit_is_refused(built: Path, tmp_path: Path) -> None:
    device, mmio = accelerator(built)
    with pytest.raises(KeyError, match="no layer 'fc9' can be written; there are: conv, act0"):
        device.write_array("fc9", "weights", np.zeros(1))
    with pytest.raises(KeyError, match="layer 'fc' has no array 'thresholds'; it has: weights"):
        device.read_array("fc", "thresholds")
    with pytest.raises(ValueError, match=r"expected shape \[5, 96\]"):
        device.write_array("fc", "weights", np.zeros((5, 95), np.int64))
    with pytest.raises(ValueError, match="values must be -8 to 7"):
        device.write_array("fc", "weights", np.full((5, 96), 8))
    thresholds = device.read_array("act0", "thresholds")
    with pytest.raises(ValueError, match="must ascend"):
        device.write_array("act0", "thresholds", np.flip(np.arange(thresholds.size).reshape(thresholds.shape), 1))
    (tmp_path / "0_conv.dat").write_text("00000000\n")
    with pytest.raises(ValueError, match=r"0_conv.dat: expected \d+ words of 32 bits for layer 'conv', got 1"):
        device.load_runtime_weights(tmp_path)
    mmio.busy = 10**9
    with pytest.raises(TimeoutError, match="frames are in the accelerator"):
        device.load_runtime_weights(seconds=0.01)
    assert mmio.writes == []
    mmio.busy = 0
    mmio.write = lambda address, word: None  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match=r"holds 0x\w+ after"):
        device.load_runtime_weights()


def test_other_hardware_is_noticed(built: Path) -> None:
    table = json.loads((built / "driver" / "control.json").read_text())
    mmio = FakeMmio({**table, "map_id": 5})
    with pytest.raises(RuntimeError, match=r"not that of control\.json"):
        module_of(built / "driver" / "driver.py").Accelerator(
            overlay=SimpleNamespace(accelerator=mmio), allocate=lambda: None
        )


def test_a_design_without_control(tmp_path: Path) -> None:
    out = tmp_path / "out"
    headrace.build(network(0), out, generate_outputs=["pynq_driver"])
    assert sorted(path.name for path in (out / "driver").iterdir()) == ["driver.py", "io.json"]
    device = module_of(out / "driver" / "driver.py").Accelerator(overlay=SimpleNamespace(), allocate=lambda: None)
    with pytest.raises(RuntimeError, match="no control interface"):
        device.read_counters()
