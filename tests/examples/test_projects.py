"""The examples that train nothing: a file of another tool, and a build script for FINN."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import headrace
from headrace.build.examples import load_example
from headrace.errors import VerificationError
from headrace.resources import examples

WITHOUT = """
import sys
from pathlib import Path

sys.modules.update(dict.fromkeys({hidden}))
sys.path.insert(0, {examples!r})
from third_party_model import demo, make

print(make.main(Path("model.onnx")), demo.main(Path("model.onnx"), Path("out"))[1])
"""


@pytest.mark.sim
@pytest.mark.parametrize(
    ("hidden", "says"),
    [
        (["torch", "brevitas", "brevitas.nn"], "onnx.helper qonnx"),
        (["torch", "brevitas", "brevitas.nn", "qonnx"], "onnx.helper Headrace"),
    ],
)
def test_third_party_model_without_torch(hidden: list[str], says: str, tmp_path: Path) -> None:
    script = WITHOUT.format(hidden=hidden, examples=str(examples()))
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == says
    assert {c.name for c in (tmp_path / "out" / "design" / "verification_output").iterdir()}


@pytest.mark.sim
def test_third_party_model_of_brevitas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, demo = load_example("third_party_model", "make"), load_example("third_party_model", "demo")
    assert make.main(tmp_path / "model.onnx") == "Brevitas"
    design, executor = demo.main(tmp_path / "model.onnx", tmp_path / "out")
    assert executor == "qonnx"
    assert not design.integer.blockers
    assert "SystemVerilog" in design.simulated

    def off_by_one(model: Path, images: np.ndarray) -> tuple[np.ndarray, str]:
        outputs = np.zeros((len(images), make.CLASSES), np.float32)
        return outputs, "nobody"

    monkeypatch.setattr(demo, "execute", off_by_one)
    with pytest.raises(VerificationError, match="initial_python"):
        demo.main(tmp_path / "model.onnx", tmp_path / "other")


@pytest.mark.sim
def test_finn_build(tmp_path: Path) -> None:
    """The script in a folder of its own, as FINN's users run it."""
    prepare = load_example("finn_build", "prepare")
    prepare.main(tmp_path)
    script = examples() / "finn_build" / "build.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "output_separable_Pynq-Z1"
    for stage in ("initial_python", "streamlined_python", "stitched_ip_rtlsim"):
        assert f"{stage}: equal to the expected output" in done.stderr
    assert "mem_mode has no effect" in done.stderr
    cycles = json.loads((out / "report" / "estimate_layer_cycles.json").read_text())
    assert cycles["MVAU_0"] == 64 * 4  # 8 x 8 pixels, (9 / SIMD) (8 / PE) = 4 cycles each
    assert (out / "report" / "rtlsim_performance.json").is_file()
    assert (out / "driver" / "driver.py").is_file()
    names = [node.name for node in onnx.load(out / "model.onnx").graph.node]
    assert names[0] == "Quant_0"  # the custom step
    assert headrace.load(out).performance.interval == max(cycles.values())
