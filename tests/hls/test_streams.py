"""The stream for C simulation: what would hang or lose words in hardware stops the program and names the stream."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.upsample import Upsample
from headrace.resources import hls_templates
from headrace_sim import CsimOptions, DeadlockError, SimulationError, csim
from headrace_sim.manifest import Manifest
from hls.bench import build_bench

LAYER = Upsample(StreamType((2, 3, 2), IntRange(0, 3)), (1, 2), 2)
FEEDS = {"up.in0": np.ones((2, 12), np.int64)}
FAST = CsimOptions(optimize="0")


def tampered(folder: Path, name: str, value: int) -> Manifest:
    """The C++ of one layer, with one number of its configuration changed."""
    manifest = build_bench({"up": LAYER}, folder)
    path = folder / "hls" / "params.hpp"
    text = path.read_text()
    start = text.index("struct bench_up_config")
    changed = re.sub(rf"int {name} = \d+;", f"int {name} = {value};", text[start:], count=1)
    assert changed != text[start:]
    path.write_text(text[:start] + changed)
    return manifest


def test_reading_an_empty_stream(tmp_path: Path) -> None:
    with pytest.raises(
        DeadlockError, match=r"stream 'input0': deadlock: read while it is empty \(6 words written, 6 r"
    ):
        csim(tampered(tmp_path, "width", 4), FEEDS, options=FAST)


def test_words_left_over(tmp_path: Path) -> None:
    with pytest.raises(DeadlockError, match=r"stream 's_up_out0': words are left over \(24 words written, 12 read\)"):
        csim(tampered(tmp_path, "wide", 4), FEEDS, options=FAST)


def test_missing_output(tmp_path: Path) -> None:
    with pytest.raises(DeadlockError, match="stream 's_up_out0': deadlock"):
        csim(tampered(tmp_path, "wide", 1), FEEDS, options=FAST)


def test_undefined_behaviour_is_seen(tmp_path: Path) -> None:
    """Under the sanitizers, an index past an array stops the program."""
    manifest = build_bench({"up": LAYER}, tmp_path)
    path = tmp_path / "hls" / "headrace" / "upsample.hpp"
    path.write_text(path.read_text().replace("x = line[place];", "x = line[place + 100];"))
    with pytest.raises(SimulationError, match=r"runtime error|AddressSanitizer"):
        csim(manifest, FEEDS, options=CsimOptions(optimize="0", sanitize=True))


PROGRAM = """
#include <hls_stream.h>
#include <cstdio>
int main(int argc, char**) {
    hls::stream<int> first("first");
    for (int k = 0; k < 1000; ++k) {  // reading in between: the buffer goes round while it grows
        first.write(k);
        first.write(-k);
        if (k % 3 == 0 && first.read() != (k / 3 % 2 ? -(k / 3 / 2) : k / 3 / 2)) return 1;
    }
    int seen = 334;
    for (; !first.empty(); ++seen) {
        if (first.read() != (seen % 2 ? -(seen / 2) : seen / 2)) return 2;
    }
    if (seen != 2000) return 4;
    headrace_sim::stream_limit() = 64;
    if (argc > 1) {
        hls::stream<int, 2> endless("endless");
        for (;;) endless.write(1);
    }
    std::puts("fine");
}
"""


def test_order_and_limit(tmp_path: Path) -> None:
    source, program = tmp_path / "stream.cpp", tmp_path / "stream"
    source.write_text(PROGRAM)
    flags = ["-std=c++17", "-O0", "-fsanitize=address,undefined", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    command = ["g++", *flags, f"-I{hls_templates() / 'hls' / 'sim'}", "-o", str(program), str(source)]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
    done = subprocess.run([program, "more"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "stream 'endless': overflow" in done.stderr
