"""Simulation: cycles a second of the C++ bench beside the cocotb bench, and CPU seconds to compile the simulator.

    python benchmarks/simulation_speed.py [tfc-w2a2|cnv-w2a2 ...] [--frames N]

Both benches run the same design in Verilator on the same frames; the simulators are compiled anew, in an empty cache.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import networks
import numpy as np

import headrace
import headrace_sim
from headrace.codegen.plan import write_plan
from headrace.ir import Array

TARGETS = {"tfc-w2a2": 15, "cnv-w2a2": 90}
"""CPU seconds in which the simulator of each network should compile."""

ENGINES = ("cpp", "cocotb")


@dataclass(frozen=True)
class Figures:
    """CPU seconds of a compilation, and of a run with the cycles that it took."""

    compile: float
    run: float
    cycles: int

    @property
    def speed(self) -> float:
        """Cycles a CPU second."""
        return self.cycles / self.run


def spent() -> float:
    """CPU seconds of finished subprocesses so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def simulated(folder: Path, frames: dict[str, Array], engine: str, cache: Path) -> Figures:
    """One bench: the first call compiles and runs, the second only runs."""
    start = spent()
    headrace_sim.simulate(folder, frames, engine=engine, cache=cache)
    first = spent()
    result = headrace_sim.simulate(folder, frames, engine=engine, cache=cache)
    second = spent()
    return Figures(2 * first - start - second, second - first, result.cycles)


def measure(name: str, count: int) -> None:
    """Print the figures for one network."""
    design = headrace.load(networks.NETWORKS[name]())
    (port,) = design.hardware.inputs
    rng = np.random.default_rng(0)
    shape = port.layout.shape
    feeds = {port.name: rng.integers(port.range.lo, port.range.hi, (count, *shape), endpoint=True)}
    start = time.process_time()
    plan = design.plan
    generated = time.process_time() - start
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        write_plan(plan, folder / "design")
        packed = design.hardware.pack_frames(feeds)
        figures = {e: simulated(folder / "design", packed, e, folder / "cache") for e in ENGINES}
    fast, slow = figures["cpp"], figures["cocotb"]
    aim = f" (aim: {TARGETS[name]})" if name in TARGETS else ""
    print(
        f"{name}: RTL in {generated:.1f} CPU s; C++ bench compiled in {fast.compile:.0f} CPU s{aim}, "
        f"{fast.speed:,.0f} cycles/s; cocotb bench {slow.speed:,.0f} cycles/s; {fast.speed / slow.speed:.0f}x",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", help=f"any of {', '.join(TARGETS)}; all when none is given")
    parser.add_argument("--frames", type=int, default=20, help="that are simulated")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.networks if name not in networks.NETWORKS]
    if unknown:
        parser.error(f"no network '{unknown[0]}'; there are: {', '.join(networks.NETWORKS)}")
    for name in arguments.networks or TARGETS:
        measure(name, arguments.frames)


if __name__ == "__main__":
    main()
