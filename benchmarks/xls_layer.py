"""An open high-level synthesis tool on one layer: XLS makes a pipeline of a matrix product with thresholds.

    pip install xls-python                      # in an environment of its own: 200 MB
    python benchmarks/xls_layer.py --xls OTHER/bin/python --mw 16 --mh 8

XLS takes no C++ from Python, but its own language DSLX: the layer's arithmetic is written in it, every weight a
constant, and a frame is one word, as in an MVAU and a Thresholding with PE = MH and SIMD = MW. Icarus simulates what
XLS makes, its outputs are compared with those of the layer. Exit status 1 when one differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.ir import IntRange
from headrace.ir.exact import accumulator_range

Int = NDArray[np.int64]

X = IntRange(-8, 7)
STEPS = 3
STAGES = 4

CONVERT = """
import sys
from xls import Package, convert_dslx_to_ir, mangle_dslx_name, optimize_ir
text = open(sys.argv[1]).read()
top = mangle_dslx_name("layer", "layer")
package = Package.parse_ir(optimize_ir(convert_dslx_to_ir(text, "layer.x", "layer"), top))
result = package.schedule_and_codegen(
    with_delay_model=True, delay_model="unit", pipeline_stages=int(sys.argv[3]), generator="pipeline", top=top,
    module_name="layer", use_system_verilog=False, flop_inputs=True, flop_outputs=True,
)
open(sys.argv[2], "w").write(result.get_verilog_text())
"""

BENCH = """
module bench;
  reg clk = 0;
  reg [{x_bits}-1:0] x = 0;
  wire [{y_bits}-1:0] y;
  reg [{x_bits}-1:0] frames [0:{last}];
  integer k;
  layer dut (.clk(clk), .x(x), .out(y));
  initial begin
    $readmemh("frames.hex", frames);
    for (k = 0; k <= {last} + {latency}; k = k + 1) begin
      x = k <= {last} ? frames[k] : 0;
      #1 clk = 1;
      #1 clk = 0;
      if (k >= {latency}) $display("%h", y);
    end
  end
endmodule
"""


def dslx(weights: Int, cuts: Int, acc_bits: int) -> str:
    """The layer as a function of one frame."""
    mh, mw = weights.shape

    def rows(values: Int, bits: int) -> str:
        texts = (f"sN[{bits}][{values.shape[1]}]:[{', '.join(map(str, row))}]" for row in values.tolist())
        return ",\n  ".join(texts)

    weight_bits = IntRange(int(weights.min()), int(weights.max())).bits
    return f"""
const WEIGHTS = sN[{weight_bits}][{mw}][{mh}]:[
  {rows(weights, weight_bits)}];
const CUTS = sN[{acc_bits}][{STEPS}][{mh}]:[
  {rows(cuts, acc_bits)}];

pub fn layer(x: sN[{X.bits}][{mw}]) -> u2[{mh}] {{
  for (m, y): (u32, u2[{mh}]) in u32:0..u32:{mh} {{
    let sum = for (k, acc): (u32, sN[{acc_bits}]) in u32:0..u32:{mw} {{
      acc + (x[k] as sN[{acc_bits}]) * (WEIGHTS[m][k] as sN[{acc_bits}])
    }}(sN[{acc_bits}]:0);
    let count = for (step, n): (u32, u2) in u32:0..u32:{STEPS} {{
      if sum > CUTS[m][step] {{ n + u2:1 }} else {{ n }}
    }}(u2:0);
    update(y, m, count)
  }}(u2[{mh}]:[u2:0, ...])
}}
"""


def word(values: list[int], bits: int) -> int:
    """A word with element 0 in its least significant bits."""
    return sum((value & ((1 << bits) - 1)) << (bits * k) for k, value in enumerate(values))


def simulate(folder: Path, x: Int, mh: int) -> Int:
    """What the Verilog gives for the frames *x*."""
    mw = x.shape[1]
    (folder / "frames.hex").write_text("".join(f"{word(row, X.bits):x}\n" for row in x.tolist()))
    sizes = {"x_bits": X.bits * mw, "y_bits": 2 * mh, "last": len(x) - 1, "latency": STAGES}
    (folder / "bench.v").write_text(BENCH.format(**sizes))
    subprocess.run(["iverilog", "-g2012", "-o", "bench", "bench.v", "layer.v"], cwd=folder, check=True)
    done = subprocess.run(["vvp", "-n", "bench"], cwd=folder, capture_output=True, text=True, check=True)
    words = [int(line, 16) for line in done.stdout.splitlines() if line and set(line) <= set("0123456789abcdef")]
    return np.array([[w >> (2 * m) & 3 for m in range(mh)] for w in words])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--xls", default=sys.executable, help="the Python interpreter that has xls-python")
    parser.add_argument("--mw", type=int, default=16)
    parser.add_argument("--mh", type=int, default=8)
    parser.add_argument("--frames", type=int, default=1000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    weights = rng.integers(-2, 1, (arguments.mh, arguments.mw), endpoint=True)
    lo, hi = accumulator_range(weights.T, X.lo, X.hi)
    cuts = np.sort(rng.integers(int(min(lo)) // 4, int(max(hi)) // 4, (arguments.mh, STEPS)), axis=1)
    acc_bits = IntRange(int(min(lo)), int(max(hi))).bits
    x = rng.integers(X.lo, X.hi, (arguments.frames, arguments.mw), endpoint=True)
    x[0], x[1] = X.lo, X.hi
    expected = ((x @ weights.T)[:, :, None] > cuts).sum(axis=2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "layer.x").write_text(dslx(weights, cuts, acc_bits))
        command = [arguments.xls, "-c", CONVERT, "layer.x", "layer.v", str(STAGES)]
        subprocess.run(command, cwd=folder, check=True)
        got = simulate(folder, x, arguments.mh)
        lines = len((folder / "layer.v").read_text().splitlines())
    equal = bool(np.array_equal(got, expected))
    print(f"{lines} lines of Verilog, {len(x)} frames, {'equal' if equal else 'NOT equal'}")
    return int(not equal)


if __name__ == "__main__":
    sys.exit(main())
