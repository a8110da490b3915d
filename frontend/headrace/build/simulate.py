"""Modes ``rtl`` and ``hls``: the head of a model on the host, its core in simulation, its tail on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.build.arrays import plain_arrays
from headrace.build.journal import Journal
from headrace.errors import HeadraceError, InputError, ToolError, VerificationError, counted
from headrace.ir import Array

if TYPE_CHECKING:
    from headrace.build.design import Design
    from headrace_sim import CsimResult, SimResult


@dataclass(frozen=True)
class Simulation:
    """What a simulation gave.

    Attributes:
        outputs: one array per model output, in the model's real values.
        core: integers by output of the hardware, ``(frames, *shape)``.
        result: cycle counts and timing, from the simulator.
    """

    of: ClassVar[str] = "RTL"

    outputs: dict[str, Array]
    core: dict[str, Array]
    result: SimResult


@dataclass(frozen=True)
class CSimulation:
    """What a C simulation gave: as :class:`Simulation`, but without a clock.

    Attributes:
        outputs, core: as there.
        result: the values of the streams, when they were traced.
    """

    of: ClassVar[str] = "C++"

    outputs: dict[str, Array]
    core: dict[str, Array]
    result: CsimResult


def simulate_core(
    design: Design, feeds: Mapping[str, Array], folder: Path, engine: str, journal: Journal, options: Mapping[str, Any]
) -> Simulation:
    """Simulate the generated files in *folder* on checked *feeds*.

    Raises:
        ToolError: when Verilator or a compiler is missing or fails.
        VerificationError: when the design deadlocks or breaks its protocol.
    """
    import headrace_sim

    head = design.core_feeds(feeds)
    packed = design.hardware.pack_frames(head)
    with journal.step("simulate") as note, as_headrace_errors():
        journal.progress("preparing the simulator")
        told = _teller(design, len(next(iter(packed.values()))), int(options.get("pace", 0)), journal)
        result = headrace_sim.simulate(folder, packed, engine=engine, progress=told, **options)
        how = "cached" if result.cached else f"compiled in {result.build_seconds:.1f} s"
        note(f"{result.cycles:,} cycles, {engine} engine, simulator {how}")
    core = design.hardware.unpack_frames(result.outputs)
    return Simulation(_real_outputs(design, head, core), core, result)


def _teller(design: Design, frames: int, pace: int, journal: Journal) -> Callable[[int, int], None]:
    """Tells *journal* how far a simulation is, in cycles, of as many as the schedule and the frames so far suggest."""
    expected = design.performance.latency + (frames - 1) * max(design.performance.interval, pace)

    def tell(out: int, cycles: int) -> None:
        total = expected if out < 2 else round(cycles * frames / out)
        journal.progress(f"{out:,} of {counted(frames, 'frame')} out, cycles", cycles, max(total, cycles))

    return tell


def csim_core(
    design: Design, feeds: Mapping[str, Array], folder: Path, journal: Journal, options: Mapping[str, Any]
) -> CSimulation:
    """Compile and run the generated C++ in *folder* on checked *feeds*.

    Raises:
        ToolError: when a compiler is missing or fails.
        VerificationError: when a stream is read while it is empty, words are left over, or functions wait for each
            other.
    """
    import headrace_sim

    head = design.core_feeds(feeds)
    packed = design.hardware.pack_frames(head)
    with journal.step("csim") as note, as_headrace_errors():
        result = headrace_sim.csim(folder, packed, options=headrace_sim.CsimOptions(**options))
        how = "cached" if result.cached else f"compiled in {result.build_seconds:.1f} s"
        cycles = f"{result.cycles:,} cycles, " if result.cycles is not None else ""
        note(f"{len(next(iter(result.outputs.values()))):,} frames, {cycles}program {how}")
    core = design.hardware.unpack_frames(result.outputs)
    return CSimulation(_real_outputs(design, head, core), core, result)


def _real_outputs(design: Design, head: Mapping[str, Array], core: Mapping[str, Array]) -> dict[str, Array]:
    """What the host's tail makes of the hardware's outputs."""
    tail = design.parts.tail
    known = {**head, **core}
    outputs = plain_arrays(tail.run({name: known[name] for name in tail.inputs}))
    return {name: outputs[name] for name in design.source.outputs} | design.source.constant_outputs


@contextmanager
def as_headrace_errors() -> Iterator[None]:
    """The simulator's errors, as Headrace's: it knows nothing of these."""
    from headrace_sim import errors

    kinds: tuple[tuple[type[Exception], type[HeadraceError]], ...] = (
        (errors.SimulatorNotFound, ToolError),
        (errors.BuildError, ToolError),
        (errors.ArrayError, InputError),
        (errors.ManifestError, InputError),
        (errors.SimError, VerificationError),
    )
    try:
        yield
    except errors.SimError as error:
        kind = next(ours for theirs, ours in kinds if isinstance(error, theirs))
        raise kind(str(error)) from error
