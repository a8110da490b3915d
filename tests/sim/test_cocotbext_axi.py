"""An independent check of the protocol: designs driven by the public cocotbext-axi models, with random pauses.

They bring a GPL library along, so that they are no part of what Headrace installs, not even for its tests.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from models import quantized_mlp

from headrace_sim import Manifest, load, pack, unpack

pytest.importorskip("cocotbext.axi", reason="cocotbext-axi is not installed")
pytest.importorskip("cocotb_tools", reason="cocotb is not installed")
FRAMES = 6


def run(manifest: Manifest, inputs: dict[str, np.ndarray], folder: Path, pause: float) -> dict[str, np.ndarray]:
    import shutil

    from cocotb_tools.runner import get_runner

    if not shutil.which("iverilog"):
        pytest.skip("Icarus Verilog was not found")
    words = {p.port: pack(inputs[p.tensor].reshape(FRAMES, -1), p).reshape(FRAMES, -1) for p in manifest.inputs}
    job = {
        "seed": 1,
        "pause": pause,
        "count": FRAMES,
        "inputs": [(p.port, p.tdata_bits // 8) for p in manifest.inputs],
        "outputs": [(p.port, p.tdata_bits // 8) for p in manifest.outputs],
        "frames": {port: [bytes(frame).hex() for frame in frames] for port, frames in words.items()},
        "result": str(folder / "result.json"),
    }
    (folder / "job.json").write_text(json.dumps(job))
    for path in manifest.memory_paths:
        shutil.copy(path, folder / path.name)
    runner = get_runner("icarus")
    runner.build(
        sources=list(manifest.source_paths),
        hdl_toplevel=manifest.top,
        build_dir=folder / "sim",
        timescale=("1ns", "1ps"),
    )
    runner.test(
        test_module="sim.axi_bench",
        hdl_toplevel=manifest.top,
        build_dir=folder / "sim",
        test_dir=folder,
        extra_env={"AXI_JOB": str(folder / "job.json"), "COCOTB_LOG_LEVEL": "WARNING"},
        results_xml=str(folder / "results.xml"),
    )
    got = json.loads((folder / "result.json").read_text())
    return {
        p.tensor: unpack(np.frombuffer(bytes.fromhex("".join(got[p.port])), np.uint8).reshape(-1, p.word_bytes), p)
        for p in manifest.outputs
    }


@pytest.mark.sim
@pytest.mark.parametrize("pause", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("argmax", [True, False])
def test_a_network(pause: float, argmax: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import headrace
    from headrace.build.verify import random_frames

    tests = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", tests, prepend=":")
    design = headrace.build(quantized_mlp((12, 8, 5), 3, seed=1, argmax=argmax), tmp_path / "out", target_fps=5e6)
    feeds = design.core_feeds(random_frames(design.source, FRAMES, 0))
    packed = design.hardware.pack_frames(feeds)
    got = run(load(tmp_path / "out"), packed, tmp_path, pause)
    expected = design.hardware.run(feeds)
    assert {name: values.shape[0] for name, values in got.items()} == dict.fromkeys(expected, FRAMES)
    unpacked = design.hardware.unpack_frames(got)
    assert all(np.array_equal(unpacked[name], expected[name]) for name in expected)
