"""C simulation as a dataflow region: functions side by side, streams as deep as in hardware."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hardware.cores import mlp, random_frames
from hardware.random_networks import random_network
from hardware.simulated import Settings

from headrace.codegen.design import generate
from headrace.codegen.plan import write_plan
from headrace.passes.to_hardware import to_hardware
from headrace.resources import hls_templates
from headrace.schedule import performance, schedule
from headrace_sim import CsimOptions, DeadlockError, csim
from hls.networks import check_hls, residual_network

DATAFLOW = CsimOptions(dataflow=True, optimize="0")


def test_residual_network(tmp_path: Path) -> None:
    """Branches meet without a deadlock, and frames overlap: under the sanitizers, traced, without a warning."""
    flags = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
    options = CsimOptions(dataflow=True, trace=True, sanitize=True, optimize="0", flags=flags)
    core = residual_network()
    feeds = random_frames(core, 6)
    design = check_hls(core, feeds, tmp_path / "design", options)
    result = csim(tmp_path / "design", design.pack_frames(feeds), options=options)
    expected = performance(design.graph)
    assert result.cycles is not None
    assert 6 * expected.interval < result.cycles < 6 * (expected.interval + expected.latency)
    assert max(result.iterations.values()) >= 6 * expected.interval


def test_rate(tmp_path: Path) -> None:
    """A vector waits in its stream while the MVAU works on the one before: the rate is that of the RTL."""
    core = mlp((24, 16, 12, 4))
    design = schedule(to_hardware(core), Settings())
    write_plan(generate(design, "net", "hls"), tmp_path / "design")
    cycles = []
    for frames in (4, 20):
        result = csim(tmp_path / "design", design.pack_frames(random_frames(core, frames)), options=DATAFLOW)
        assert result.cycles is not None
        cycles.append(result.cycles)
    assert cycles[1] - cycles[0] == 16 * performance(design.graph).interval


@pytest.mark.parametrize("seed", [2, 13, 28, 1000])
def test_random_networks(tmp_path: Path, seed: int) -> None:
    core = random_network(seed)
    check_hls(core, random_frames(core, 3), tmp_path / "design", DATAFLOW)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1001, 1040))
def test_many_random_networks(tmp_path: Path, seed: int) -> None:
    core = random_network(seed)
    check_hls(core, random_frames(core, 3), tmp_path / "design", DATAFLOW)


def test_streams_too_shallow(tmp_path: Path) -> None:
    """A branch with too little room: who waits for what is named. One after the other, the functions do not notice."""
    core = residual_network()
    feeds = random_frames(core, 2)
    design = schedule(to_hardware(core), Settings())
    write_plan(generate(design, "net", "hls"), tmp_path / "design")
    source = tmp_path / "design" / "hls" / "net.cpp"
    text = source.read_text()
    depths = {stream: int(depth) for stream, depth in re.findall(r"variable=(\w+) depth=(\d+)", text)}
    bypass = max((s for s in depths if s.startswith("s_act0_fork")), key=lambda stream: depths[stream])
    assert depths[bypass] > 5
    source.write_text(text.replace(f"variable={bypass} depth={depths[bypass]}", f"variable={bypass} depth=3"))
    packed = design.pack_frames(feeds)
    full = rf"waits to write to the full stream '{bypass}', which holds 3 of 3 words"
    with pytest.raises(DeadlockError, match=full):
        csim(tmp_path / "design", packed, options=DATAFLOW)
    outputs = design.unpack_frames(csim(tmp_path / "design", packed, options=CsimOptions(optimize="0")).outputs)
    assert np.array_equal(outputs["y"], core.run(feeds)["y"])


PROGRAM = """
#include "headrace/types.hpp"
#include <cstdio>

void count(hls::stream<int>& out) {
    for (int k = 0; k < 10; ++k) {
        PRAGMA_HLS(HLS PIPELINE II=1)
        out.write(k);
    }
}

void pairs(hls::stream<int>& in, hls::stream<int>& out) {
    for (int k = 0; k < 5; ++k) {
        PRAGMA_HLS(HLS PIPELINE II=1)
        const int first = in.read();
        out.write(first + in.read());
    }
}

void top(hls::stream<int>& out) {
    hls::stream<int> between("between");
    PRAGMA_HLS(HLS STREAM variable=between depth=2)
    REGION
    PROCESS(pairs(between, out));  // before what it waits for
    PROCESS(count(between));
}

int main() {
    headrace_sim::engine engine(3);
    hls::stream<int> out("out");
    engine.spawn("top", [&] { top(out); });
    engine.run();
    engine.report();
    for (int k = 0; k < 15; ++k) {
        if (out.read() != 4 * (k % 5) + 1) return 1;
    }
    return 0;
}
"""


def test_iterations_and_cycles(tmp_path: Path) -> None:
    """An iteration is a cycle, a word is seen in the cycle after it was written, calls follow without a pause."""
    source, program = tmp_path / "region.cpp", tmp_path / "region"
    source.write_text(PROGRAM)
    folder = hls_templates() / "hls"
    flags = ["-std=c++17", "-O1", "-DHEADRACE_DATAFLOW", f"-I{folder}", f"-I{folder / 'sim'}"]
    subprocess.run(["g++", *flags, "-o", str(program), str(source)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    counts = dict(re.findall(r"(\w+): (\d+) iterations", done.stdout))
    assert (counts["count"], counts["pairs"]) == ("30", "15")
    cycles = re.search(r"(\d+) cycles", done.stdout)
    assert cycles is not None
    assert 30 < int(cycles[1]) <= 36
