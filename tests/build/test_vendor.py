"""Project files: read by a YAML parser and run by a Tcl interpreter that records what is called."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from models import quantized_mlp
from tcl_scripts import calls_of

from headrace import build
from headrace.build.config import BuildConfig
from headrace.build.vendor import part_of
from headrace.errors import InputError


@pytest.mark.parametrize(
    ("board", "part", "zynq"),
    [
        (None, "xc7z020clg400-1", True),
        ("ZCU104", "xczu7ev-ffvc1156-2-e", True),
        ("KV260", "xck26-sfvc784-2LV-c", True),
        ("U250", "xcu250-figd2104-2L-e", False),
    ],
)
def test_projects(board: str | None, part: str, zynq: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outputs = ["stitched_ip", "pynq_driver"]
    design = build(quantized_mlp((12, 8, 5), 3, seed=1), out, name="net", board=board, generate_outputs=outputs)
    folder = out / "stitched_ip"
    called = calls_of(folder / "package_ip.tcl")
    added = {Path(call.split()[-1]).name for call in called if call.startswith("add_files")}
    assert added == {path.name for path in folder.iterdir() if path.suffix in (".sv", ".hex")}
    assert any(call.startswith("create_project") and part in call for call in called)
    assert sum(call.startswith("ipx::associate_bus_interfaces") for call in called) == 2
    core = yaml.safe_load((folder / "net.core").read_text().removeprefix("CAPI=2:\n"))
    assert core["targets"]["lint"]["toplevel"] == "net"
    assert {*core["filesets"]["rtl"]["files"]} == {path.name for path in folder.glob("*.sv")}
    assert (folder / "build_zynq.tcl").exists() == zynq
    if zynq:
        called = calls_of(folder / "build_zynq.tcl")
        cells = [call.split()[-1] for call in called if call.startswith("create_bd_cell")]
        assert cells == ["accelerator", "processor", "axi_dma_0", "axi_dma_0_in", "axi_dma_0_out"]
        joined = " ".join(called)
        assert "accelerator/s_axis_0" in joined
        assert "accelerator/m_axis_0" in joined
    assert design.folder == out


def test_parts() -> None:
    assert part_of(BuildConfig(fpga_part="xczu3eg-sbva484-1-e", board="U250")) == "xczu3eg-sbva484-1-e"
    with pytest.raises(InputError, match=r"setting 'board': unknown board 'Pynq-Z3' \(did you mean 'Pynq-Z"):
        part_of(BuildConfig(board="Pynq-Z3"))
    with pytest.raises(InputError, match="setting 'fpga_part': unknown part or board 'lfe5u'"):
        part_of(BuildConfig(fpga_part="lfe5u"))
