"""For an Alveo card: the kernel, what moves its beats, how they are linked, and the driver before them."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from module_files import module_of
from runtime.networks import ALL, network, two_ends
from simulated_dma import Board, Buffer, Channel, Memory, read_table
from vivado import Vivado, interfaces_of

import headrace
from headrace.build.finn_basic import alveo_default_platform
from headrace.build.verify import random_frames
from headrace.resources import hls_templates

MAIN = """
#include <cstdio>
#include "movers.cpp"
int main() {{
    ap_uint<{bits}> from[5], to[5] = {{0, 0, 0, 0, 0}};
    for (int n = 0; n < 5; ++n) from[n] = 7 * n + 1;
    hls::stream<ap_axiu<{bits}, 0, 0, 0>> beats;
    move_mm2s_0(from, 4, beats);
    for (int n = 0; n < 4; ++n) {{
        ap_axiu<{bits}, 0, 0, 0> beat = beats.read();
        if (beat.last != (n == 3)) return 1;
        if (beat.data != from[n] || beat.keep != ap_uint<{bits} / 8>(-1)) return 2;
    }}
    hls::stream<ap_axiu<{out}, 0, 0, 0>> back;
    ap_uint<{out}> memory[5] = {{0, 0, 0, 0, 0}};
    for (int n = 0; n < 4; ++n) {{
        ap_axiu<{out}, 0, 0, 0> beat;
        beat.data = 11 * n + 3;
        back.write(beat);
    }}
    move_s2mm_0(memory, 4, back);
    for (int n = 0; n < 4; ++n) if (memory[n] != ap_uint<{out}>(11 * n + 3)) return 3;
    return memory[4] == 0 ? 0 : 4;
}}
"""


def built(out: Path, model: Any, **settings: Any) -> headrace.Design:
    return headrace.build(model, out, name="net", generate_outputs=["stitched_ip", "pynq_driver"], **settings)


@pytest.mark.parametrize("card", alveo_default_platform)
@pytest.mark.parametrize("controlled", [False, True])
def test_kernels_and_their_links(card: str, controlled: bool, tmp_path: Path) -> None:
    """Every stream of the kernel is linked once, to a mover of its direction that is compiled."""
    settings = {"folding": ALL, "performance_counters": True} if controlled else {}
    built(tmp_path / "out", network(0) if controlled else two_ends(0), board=card, **settings)
    folder = tmp_path / "out" / "stitched_ip"
    tool = Vivado()
    tool.run(folder / "package_ip.tcl")
    assert tool.kernels == {"net_dma": folder / "xo" / "net_dma.xo"}
    streams = {
        name: pin for name, pin in interfaces_of((folder / "net_dma.v").read_text()).items() if pin.kind == "axis"
    }
    lines = [line.split("=", 1) for line in (folder / "link.cfg").read_text().splitlines() if "=" in line]
    movers = re.findall(r'extern "C" void (\w+)\(', (folder / "movers.cpp").read_text())
    kernels = {name.split(":")[2]: name.split(":")[0] for key, name in lines if key == "nk"}
    assert kernels.pop("accelerator") == "net_dma"
    assert sorted(kernels.values()) == sorted(movers)
    linked = {}
    for source, target in (value.split(":") for key, value in lines if key == "sc"):
        own, other = (source, target) if source.startswith("accelerator.") else (target, source)
        assert streams[own.partition(".")[2]].master == (own == source)
        assert other.endswith(".beats")
        assert kernels[other.partition(".")[0]].startswith("move_mm2s" if other == source else "move_s2mm")
        linked[own.partition(".")[2]] = other
    assert linked.keys() == streams.keys()
    assert len(set(linked.values())) == len(linked)
    banks = {value.partition(":")[2] for key, value in lines if key == "sp"}
    assert banks == {"DDR[0]" if card in ("U200", "U250") else "HBM[0]"}
    assert configparser.ConfigParser(strict=False).read_string((folder / "link.cfg").read_text()) is None


@pytest.mark.skipif(not shutil.which("make"), reason="make was not found")
def test_the_makefile_makes_each_kernel_before_the_link(tmp_path: Path) -> None:
    built(tmp_path / "out", two_ends(0), board="U250", synth_clk_period_ns=4.0)
    command = ["make", "-n", "-f", "build_alveo.mk"]
    done = subprocess.run(command, cwd=tmp_path / "out" / "stitched_ip", capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("mkdir")]
    compiled = sorted(match[1] for line in lines if (match := re.search(r"v\+\+ --compile .*-k (\w+)", line)))
    assert compiled == ["move_mm2s_0", "move_mm2s_1", "move_s2mm_0", "move_s2mm_1"]
    assert "vivado -mode batch -source package_ip.tcl" in lines
    assert lines[-1].startswith(f"v++ --link -t hw --platform {alveo_default_platform['U250']} --kernel_frequency 250 ")
    assert lines[-1].count(".xo") == 5


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
def test_movers_in_c_simulation(tmp_path: Path) -> None:
    built(tmp_path / "out", network(0), board="U250")
    table = read_table(tmp_path / "out" / "driver")
    bits, out = (8 * table[side][0]["beat_bytes"] for side in ("inputs", "outputs"))
    (tmp_path / "main.cpp").write_text(MAIN.format(bits=bits, out=out))
    folders = [hls_templates() / "hls" / "sim", tmp_path / "out" / "stitched_ip"]
    flags = [flag for folder in folders for flag in ("-I", str(folder))]
    command = ["g++", "-std=c++17", "-Wall", "-Wno-unknown-pragmas", *flags, "main.cpp", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


class Kernel:
    """A kernel of the card as pynq calls it: a buffer and a number of beats, then a handle to wait for."""

    def __init__(self, channel: Channel, beat_bytes: int) -> None:
        self.channel, self.beat_bytes = channel, beat_bytes

    def start(self, buffer: Buffer, count: int) -> Any:
        assert buffer.nbytes == count * self.beat_bytes
        self.channel.transfer(buffer)
        return SimpleNamespace(wait=self.channel.wait)


@pytest.mark.sim
@pytest.mark.skipif(not shutil.which("iverilog"), reason="Icarus Verilog was not found")
def test_the_driver_on_a_card(tmp_path: Path) -> None:
    """The driver's bytes through kernels and the simulated top, in beats of up to 64 bytes."""
    design = built(tmp_path / "out", network(0), board="U250", target_fps=1e7)
    table = read_table(tmp_path / "out" / "driver")
    board = Board(tmp_path / "out" / "stitched_ip", table, "net_dma", tmp_path, 30)
    kernels = {}
    for side, name in (("inputs", "mm2s"), ("outputs", "s2mm")):
        for k, stream in enumerate(table[side]):
            kernels[f"{name}_{k}"] = Kernel(board.channels[stream["port"]], stream["beat_bytes"])
    memory = Memory()
    driver = module_of(tmp_path / "out" / "driver" / "driver.py")
    accelerator = driver.Accelerator(overlay=SimpleNamespace(**kernels), allocate=memory)
    feeds = random_frames(design.source, 5, 0)
    core = {port.name: design.core_feeds(feeds)[port.name] for port in design.hardware.inputs}
    got, expected = accelerator.execute(core), design.hardware.run(core)
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values)
    assert all(buffer.synced for buffer in memory.buffers)
