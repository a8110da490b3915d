"""An independent check of the control interface: the public cocotbext-axi models, which know nothing of Headrace."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from models import quantized_mlp
from runtime.networks import ALL, core_outputs

from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.verify import random_frames
from headrace.ingest import from_proto
from headrace_sim import load, pack, unpack

pytest.importorskip("cocotbext.axi", reason="cocotbext-axi is not installed")
pytest.importorskip("cocotb_tools", reason="cocotb is not installed")
FRAMES = 6


@pytest.mark.sim
@pytest.mark.parametrize("pause", [0.0, 0.6])
def test_protocol_weights_and_counters(pause: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cocotb_tools.runner import get_runner

    if not shutil.which("iverilog"):
        pytest.skip("Icarus Verilog was not found")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=":")
    model = quantized_mlp((12, 8, 5), 3, seed=9, argmax=False)
    config = BuildConfig.checked(name="net", folding=ALL, performance_counters=True)
    design = Design(from_proto(quantized_mlp((12, 8, 5), 3, seed=1, argmax=False)), config)
    design.plan.write(tmp_path / "net")
    manifest, table = load(tmp_path / "net"), design.address_map
    (source,), (target,) = manifest.inputs, manifest.outputs
    feeds = design.core_feeds(random_frames(design.source, FRAMES, 0))
    packed = pack(design.hardware.pack_frames(feeds)[source.tensor], source).reshape(FRAMES, -1)
    end = max(layer["base"] + layer["size"] for layer in table["layers"])
    top = (tmp_path / "net" / "rtl" / "net.sv").read_text()
    job = {
        "seed": 1,
        "pause": pause,
        "map_id": table["map_id"],
        "unmapped": [end] if end < 1 << table["address_bits"] else [],
        "input": (source.port, source.tdata_bits // 8),
        "output": (target.port, target.tdata_bits // 8),
        "writes": [write for entry in design.runtime_weights(model).values() for write in entry.writes],
        "frames": [bytes(frame).hex() for frame in packed],
        "signals": re.findall(r"assign stream_valid\[\d+\] = (\w+)_tvalid;", top),
        "counters": [[stream[n] for n in ("words", "stalled", "starved")] for stream in table["counters"]["streams"]],
        "result": str(tmp_path / "result.json"),
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    for path in manifest.memory_paths:
        shutil.copy(path, tmp_path / path.name)
    runner = get_runner("icarus")
    runner.build(
        sources=list(manifest.source_paths), hdl_toplevel="net", build_dir=tmp_path / "sim", timescale=("1ns", "1ps")
    )
    runner.test(
        test_module="sim.axi_lite_bench",
        hdl_toplevel="net",
        build_dir=tmp_path / "sim",
        test_dir=tmp_path,
        extra_env={"AXI_JOB": str(tmp_path / "job.json"), "COCOTB_LOG_LEVEL": "WARNING"},
        results_xml=str(tmp_path / "results.xml"),
    )
    result = json.loads((tmp_path / "result.json").read_text())
    words = np.frombuffer(bytes.fromhex("".join(result["frames"])), np.uint8).reshape(-1, target.word_bytes)
    got = design.hardware.unpack_frames({target.tensor: unpack(words, target)})
    for name, values in core_outputs(model, random_frames(design.source, FRAMES, 0)).items():
        np.testing.assert_array_equal(got[name], values)
    assert result["read"] == result["expected"]
    assert result["read"][0][0] == FRAMES * source.words_per_frame
    assert result["idle"][1] == 1
