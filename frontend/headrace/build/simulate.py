"""Mode ``rtl``: the head of a model on the host, its core in simulation, its tail on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.build.arrays import plain_arrays
from headrace.build.journal import Journal
from headrace.errors import HeadraceError, InputError, ToolError, VerificationError
from headrace.ir import Array

if TYPE_CHECKING:
    from headrace.build.design import Design
    from headrace_sim import SimResult


@dataclass(frozen=True)
class Simulation:
    """What a simulation gave.

    Attributes:
        outputs: one array per model output, in the model's real values.
        core: integers by output of the hardware, ``(frames, *shape)``.
        result: cycle counts and timing, from the simulator.
    """

    outputs: dict[str, Array]
    core: dict[str, Array]
    result: SimResult


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
    with journal.step("simulate") as note, _as_headrace_errors():
        result = headrace_sim.simulate(folder, packed, engine=engine, **options)
        how = "cached" if result.cached else f"compiled in {result.build_seconds:.1f} s"
        note(f"{result.cycles:,} cycles, {engine} engine, simulator {how}")
    core = design.hardware.unpack_frames(result.outputs)
    tail = design.parts.tail
    known = {**head, **core}
    outputs = plain_arrays(tail.run({name: known[name] for name in tail.inputs}))
    return Simulation({name: outputs[name] for name in design.source.outputs}, core, result)


@contextmanager
def _as_headrace_errors() -> Iterator[None]:
    """The simulator's errors, as Headrace's: it knows nothing of these."""
    from headrace_sim import errors

    kinds: tuple[tuple[type[Exception], type[HeadraceError]], ...] = (
        (errors.SimulatorNotFound, ToolError),
        (errors.BuildError, ToolError),
        (errors.ArrayError, InputError),
        (errors.SimError, VerificationError),
    )
    try:
        yield
    except errors.SimError as error:
        kind = next(ours for theirs, ours in kinds if isinstance(error, theirs))
        raise kind(str(error)) from error
