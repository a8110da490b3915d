"""Project files: read by a YAML parser, and scripts run by a Tcl interpreter before a model of Vivado."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from models import quantized_mlp
from runtime.networks import ALL, network, two_ends
from vivado import Refused, Vivado

from headrace import build
from headrace.build.config import BuildConfig
from headrace.build.vendor import BOARD_FILES, part_of
from headrace.errors import InputError
from headrace.schedule.parts import BOARDS
from headrace_sim.toolchain import verilator

OUTPUTS = ["stitched_ip", "pynq_driver"]


def packaged(folder: Path) -> Vivado:
    tool = Vivado()
    tool.run(folder / "package_ip.tcl")
    return tool


def projected(folder: Path, **options: Any) -> Vivado:
    """Vivado after both scripts: the second finds what the first has made."""
    cores = packaged(folder).cores
    found = {f"headrace:user:{core['name']}:{core['version']}": core["verilog"] for core in cores}
    tool = Vivado(packaged=found, **options)
    tool.run(folder / "build_zynq.tcl")
    return tool


@pytest.mark.parametrize("board", [None, *BOARD_FILES, "U250"])
def test_projects(board: str | None, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(quantized_mlp((12, 8, 5), 3, seed=1), out, name="net", board=board, generate_outputs=OUTPUTS)
    folder = out / "stitched_ip"
    part = BOARDS[board or "Pynq-Z1"]
    tool = packaged(folder)
    assert tool.part == part
    zynq = (folder / "build_zynq.tcl").exists()
    assert zynq == (board != "U250")
    assert [core["name"] for core in tool.cores] == ["net", "net_dma"]
    for core in tool.cores:
        assert core["root"] == str(folder / "ip" / core["name"])
        files = {Path(path).name: kind for path, kind in core["files"].items()}
        memories = {path.name for path in folder.glob("*.hex")}
        assert {name for name, kind in files.items() if kind == "Memory File"} == memories
        read = re.findall(r'readmemh\("([^"]+)"', "".join(path.read_text() for path in folder.glob("*.sv")))
        assert set(read) == memories, "files are read by name alone, which is where the packager puts them"
        assert all("/" not in name for name in read)
    core = yaml.safe_load((folder / "net.core").read_text().removeprefix("CAPI=2:\n"))
    assert core["targets"]["lint"]["toplevel"] == "net"
    assert core["targets"]["synth"]["flow_options"]["part"] == part
    if memories:
        assert core["filesets"]["memories"]["file_type"] == "mem", "else they are in no project of Vivado"
        assert {name for entry in core["filesets"]["memories"]["files"] for name in entry} == memories
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert not [name for name, text in texts.items() if str(tmp_path) in text], "a path of this machine"
    if not zynq:
        return
    patterns = () if board is None else (BOARD_FILES[board].replace("*", "1.0"),)
    for installed in (patterns, ()):
        tool = projected(folder, board_parts=installed)
        assert tool.validated
        assert tool.part == part
        assert tool.board_part == "".join(installed)
        assert bool(tool.said) == (board is not None and not installed)
        assert [Path(target).name for _, target in tool.copied] == ["net.bit", "net.hwh"]
    processor = tool.cells["processor"].config
    clock = "PCW_FPGA0_PERIPHERAL_FREQMHZ" if part.startswith("xc7z") else "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ"
    assert processor[clock] == "200"
    assert processor.get("PCW_CRYSTAL_PERIPHERAL_FREQMHZ") == ("50" if board in ("Pynq-Z1", "Pynq-Z2") else None)


@pytest.mark.parametrize("board", ["Pynq-Z1", "ZCU104"])
def test_streams_and_control_of_a_project(board: str, tmp_path: Path) -> None:
    """Two inputs and two outputs by two DMAs; the control interface beside theirs; widths as the driver has them."""
    models = {"ends": (two_ends(0), {}), "control": (network(0), {"folding": ALL, "performance_counters": True})}
    for name, (model, settings) in models.items():
        build(model, tmp_path / name, name="net", board=board, generate_outputs=OUTPUTS, **settings)
        tool = projected(tmp_path / name / "stitched_ip")
        table = json.loads((tmp_path / name / "driver" / "io.json").read_text())
        for k, stream in enumerate(table["inputs"]):
            assert tool.buses[f"axi_dma_{k}/M_AXIS_MM2S"] == f"accelerator/{stream['port']}"
            assert tool.interface(f"accelerator/{stream['port']}").bits == 8 * stream["beat_bytes"]
        for k, stream in enumerate(table["outputs"]):
            assert tool.buses[f"accelerator/{stream['port']}"] == f"axi_dma_{k}/S_AXIS_S2MM"
            assert tool.interface(f"accelerator/{stream['port']}").bits == 8 * stream["beat_bytes"]
        slaves = {slave for slave in tool.buses.values() if slave.endswith(("S_AXI_LITE", "s_axi_control"))}
        dmas = {f"axi_dma_{k}/S_AXI_LITE" for k in range(max(len(table["inputs"]), len(table["outputs"])))}
        assert slaves == dmas | ({"accelerator/s_axi_control"} if name == "control" else set())


def test_registers_of_the_packaged_ip(tmp_path: Path) -> None:
    """The memory map is as large as the address map, and its registers are those of control.json."""
    build(network(0), tmp_path / "out", name="net", folding=ALL, performance_counters=True, generate_outputs=OUTPUTS)
    table = json.loads((tmp_path / "out" / "control.json").read_text())
    expected = {r["name"]: {"address_offset": str(r["address"]), "size": "32"} for r in table["registers"]}
    for core in packaged(tmp_path / "out" / "stitched_ip").cores:
        assert core["maps"] == {"s_axi_control"}
        assert core["block"]["range"] == str(1 << table["address_bits"])
        assert core["registers"] == expected


@pytest.mark.sim
def test_fusesoc_takes_the_core(tmp_path: Path) -> None:
    """The program itself: the lint target runs, the one for Vivado is set up with its memories."""
    program = shutil.which("fusesoc")
    if program is None:
        pytest.skip("FuseSoC was not found")
    build(network(0), tmp_path / "out", name="net", folding=ALL, generate_outputs=OUTPUTS)
    found = verilator()
    path = f"{found.binary.parent}:{os.environ['PATH']}"
    command = [program, "--cores-root", str(tmp_path / "out" / "stitched_ip"), "run"]
    for options in (["--target", "lint"], ["--setup", "--target", "synth"]):
        run = [*command, *options, "headrace:accelerators:net:1.0.0"]
        environment = {**found.environment(), "PATH": path}
        done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    scripts = "".join(path.read_text() for path in tmp_path.glob("build/**/*.tcl"))
    memories = {path.name for path in (tmp_path / "out" / "stitched_ip").glob("*.hex")}
    assert set(re.findall(r"read_mem \{(\S+)\}", scripts)) == memories


BROKEN = [
    (r"wire \$clock axi_dma_0/m_axi_mm2s_aclk\n", "", "axi_dma_0/m_axi_mm2s_aclk has no driver"),
    (r"tdata_width \d+", "tdata_width 1024", "M_AXI_MM2S: 32 bits for a stream of 1024|1024 bits"),
    (r"CONFIG.c_sg_length_width 26 ", "", "2\\*\\*26"),
    (
        r"axi_dma_0/M_AXI_MM2S memory_bus/S00_AXI",
        "axi_dma_0/M_AXI_MM2S memory_bus/S02_AXI",
        "no interface memory_bus/S02",
    ),
    (r"bus \$master register_bus/S00_AXI\n", "", "is not connected"),
    (r"CONFIG.PSU__USE__M_AXI_GP1 0 ", "", "processor/maxihpm1_fpd_aclk has no driver"),
    (r"wire system_reset/peripheral_aresetn accelerator/ap_rst_n\n", "", "accelerator/ap_rst_n has no driver"),
    (r"CONFIG.PSU__FPGA_PL0_ENABLE", "CONFIG.PSU__FPGA_PL0_ENABLED", "has no property CONFIG.PSU__FPGA_PL0_ENABLED"),
    (r"zynq_ultra_ps_e processor", "processing_system7 processor", "is not for xczu7ev"),
    (r"\nassign_bd_address\n", "\n", "no addresses"),
    (r"\nlaunch_runs", "\nlaunch_run", "no command launch_run"),
]


@pytest.mark.parametrize(("pattern", "text", "message"), BROKEN)
def test_the_model_of_vivado_refuses(pattern: str, text: str, message: str, tmp_path: Path) -> None:
    """Each of these is a script that Vivado would stop at, or that would fail on the board."""
    model = quantized_mlp((12, 8, 5), 3, seed=1)
    build(model, tmp_path / "out", name="net", board="ZCU104", generate_outputs=OUTPUTS)
    folder = tmp_path / "out" / "stitched_ip"
    script = (folder / "build_zynq.tcl").read_text()
    broken, count = re.subn(pattern, text, script)
    assert count
    (folder / "build_zynq.tcl").write_text(broken)
    with pytest.raises((Refused, AssertionError), match=message):
        projected(folder)


def test_an_ip_with_a_top_in_systemverilog_is_refused(tmp_path: Path) -> None:
    build(quantized_mlp((6, 4), 3, seed=1), tmp_path / "out", name="net", generate_outputs=OUTPUTS)
    script = tmp_path / "out" / "stitched_ip" / "package_ip.tcl"
    script.write_text(script.read_text().replace('package_ip "net" "net_ip"', 'package_ip "net" "net"'))
    with pytest.raises(Refused, match="UG1118"):
        packaged(script.parent)


def test_names_of_tops_are_free(tmp_path: Path) -> None:
    """A layer may be called as the tops would be."""
    model = quantized_mlp((6, 4, 3), 3, seed=1)
    for node in model.graph.node:
        node.name = {"fc0": "dma", "fc1": "ip"}.get(node.name, node.name)
    build(model, tmp_path / "out", name="net", generate_outputs=OUTPUTS)
    folder = tmp_path / "out" / "stitched_ip"
    modules = re.findall(r"^module (\w+)", "".join(p.read_text() for p in folder.glob("*.*v")), re.MULTILINE)
    assert len(modules) == len(set(modules))
    assert {path.stem for path in folder.glob("*.*v")} == set(modules)
    assert projected(folder).validated


def test_parts() -> None:
    assert part_of(BuildConfig(fpga_part="xczu3eg-sbva484-1-e", board="U250")) == "xczu3eg-sbva484-1-e"
    with pytest.raises(InputError, match=r"setting 'board': unknown board 'Pynq-Z3' \(did you mean 'Pynq-Z"):
        part_of(BuildConfig(board="Pynq-Z3"))
    with pytest.raises(InputError, match="setting 'fpga_part': unknown part or board 'lfe5u'"):
        part_of(BuildConfig(fpga_part="lfe5u"))


@pytest.mark.parametrize(
    "part", ["xcvu9p-flgb2104-2-i", "xcvu13p-flga2577-2-e", "xc7k325tffg900-2", "XCAU25P-ffvb676-2-e"]
)
def test_a_project_takes_any_part_whose_code_is_whole(part: str) -> None:
    assert part_of(BuildConfig(fpga_part=part)) == part


def test_half_of_a_code_that_is_not_known_is_no_part() -> None:
    with pytest.raises(InputError, match=r"unknown part or board 'xcvu9p'.*; or a whole ordering code, such as"):
        part_of(BuildConfig(fpga_part="xcvu9p"))
