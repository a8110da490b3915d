"""``headrace run``: a design on arrays, with what the command line may ask for beside the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.build.arrays import check_feeds
from headrace.build.design import Design, Mode
from headrace.build.journal import Journal
from headrace.build.simulate import CSimulation, Simulation
from headrace.build.verify import compare_simulation
from headrace.errors import InputError
from headrace.ir import Array


@dataclass(frozen=True)
class RunOptions:
    """How to run.

    Attributes:
        mode: what computes.
        trace: compare every stream between layers with the arithmetic of the layers; needs a simulation.
        dataflow: of mode ``"hls"``: functions side by side, with streams as deep as in hardware.

    Raises:
        InputError: when these do not go together.
    """

    mode: Mode = "integer"
    trace: bool = False
    dataflow: bool = False

    def __post_init__(self) -> None:
        if self.trace and self.mode not in ("rtl", "hls"):
            raise InputError(f"mode '{self.mode}' has no streams to trace; --trace goes with --mode rtl or hls")
        if self.dataflow and self.mode != "hls":
            raise InputError(
                f"mode '{self.mode}' has no functions to run side by side; --dataflow goes with --mode hls"
            )


def run_design(
    design: Design, feeds: Mapping[str, Array], options: RunOptions, origin: str, journal: Journal
) -> dict[str, Array]:
    """The outputs of *design* on *feeds*.

    Raises:
        VerificationError: when a traced stream differs: names the first, with frame, position and both values.
        InputError, UnsupportedError, ToolError: as :meth:`Design.run`.
    """
    if not (options.trace or options.dataflow):
        return design.run(feeds, mode=options.mode, origin=origin, journal=journal)
    checked = check_feeds(design.source, feeds, origin)
    simulation: Simulation | CSimulation
    if options.mode == "hls":
        simulation = design.csim(
            checked, trace=options.trace, dataflow=options.dataflow, origin=origin, journal=journal
        )
    else:
        simulation = design.simulate(checked, origin=origin, journal=journal, trace=True)
    if options.trace:
        with journal.step("compare") as note:
            compared = compare_simulation(design, checked, simulation)
            note(f"{sum(c.values for c in compared):,} values of {len(compared)} streams equal")
    return simulation.outputs
