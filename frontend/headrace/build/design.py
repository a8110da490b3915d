"""A model and what the compiler makes of it, each stage when it is first asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from headrace.build.arrays import check_feeds, plain_arrays
from headrace.build.config import BuildConfig
from headrace.build.info import ModelInfo, describe
from headrace.build.journal import Journal
from headrace.build.simulate import Simulation, simulate_core
from headrace.codegen.design import Plan, generate
from headrace.errors import InputError, did_you_mean
from headrace.ir import Array, Graph
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.partition import Partition
from headrace.passes.to_hardware import to_hardware
from headrace.passes.to_integer import IntegerModel, to_integer
from headrace.schedule import Performance, performance, schedule

Mode = Literal["float", "integer", "rtl"]
MODES: tuple[Mode, ...] = ("float", "integer", "rtl")


class Design:
    """A model on its way to hardware.

    Attributes:
        source: the model as it was read.
        config: how it is folded.
        folder: the build on disk, or None for a model that was only loaded.
    """

    def __init__(self, source: Graph, config: BuildConfig | None = None, folder: Path | None = None) -> None:
        self.source = source
        self.config = config or BuildConfig()
        self.folder = folder

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.source.name

    @cached_property
    def integer(self) -> IntegerModel:
        """The integer graph."""
        return to_integer(self.source)

    @cached_property
    def parts(self) -> Partition:
        """The integer graph cut into host head, hardware core and host tail.

        Raises:
            UnsupportedError: when nothing of the model can be hardware; lists every blocker.
        """
        return self.integer.partition()

    @cached_property
    def unfolded(self) -> HardwareDesign:
        """The hardware graph before folding.

        Raises:
            UnsupportedError: as :attr:`parts`, or when an integer operator has no layer.
        """
        return to_hardware(self.parts.core)

    @cached_property
    def hardware(self) -> HardwareDesign:
        """The hardware graph, folded, with width converters and FIFOs.

        Raises:
            FoldingError: when the configuration's folding does not fit.
        """
        return schedule(self.unfolded, self.config)

    @cached_property
    def performance(self) -> Performance:
        """Expected cycles, latency and resources of the folded design."""
        return performance(self.hardware.graph)

    @cached_property
    def plan(self) -> Plan:
        """The generated files."""
        return generate(self.hardware)

    def info(self) -> ModelInfo:
        """Tensors with their integer types, ranges and scales, and everything that blocks hardware."""
        return describe(self.source, self.integer)

    def core_feeds(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Checked feeds of the model, and what the host's head makes of them for the core (and for the tail)."""
        head = self.parts.head
        return {**feeds, **plain_arrays(head.run({name: feeds[name] for name in head.inputs}))}

    def run(
        self,
        feeds: Mapping[str, Array],
        mode: Mode = "integer",
        *,
        origin: str = "feeds",
        journal: Journal | None = None,
    ) -> dict[str, Array]:
        """The model's outputs, in its own real values.

        Args:
            feeds: one array ``(frames, *shape)`` per model input; any number of frames.
            mode: ``"float"`` runs the model, ``"integer"`` its integer graph, ``"rtl"`` simulates the hardware.
            origin: what to call the feeds in messages, for example their file.
            journal: told of the steps.

        Returns:
            one array per model output; the three modes agree in every bit.

        Raises:
            InputError: when the feeds do not fit the model.
            UnsupportedError: in mode ``"rtl"``, when the model has no hardware.
            ToolError: in mode ``"rtl"``, when a tool is missing.
        """
        if mode not in MODES:
            raise InputError(f"no mode '{mode}'{did_you_mean(mode, MODES)}; expected one of {', '.join(MODES)}")
        checked = check_feeds(self.source, feeds, origin)
        if mode == "rtl":
            return self.simulate(checked, origin=origin, journal=journal).outputs
        graph = self.source if mode == "float" else self.integer.graph
        with (journal or Journal()).step(f"run {mode}"), np.errstate(all="ignore"):
            return plain_arrays(graph.run(checked))

    def simulate(
        self,
        feeds: Mapping[str, Array],
        *,
        engine: Literal["cpp", "cocotb"] = "cpp",
        origin: str = "feeds",
        journal: Journal | None = None,
        **options: object,
    ) -> Simulation:
        """Run in mode ``"rtl"``, with the timing of the simulation.

        Args:
            feeds: as for :meth:`run`.
            engine: the compiled C++ bench, or cocotb.
            origin, journal: as for :meth:`run`.
            options: handed to :func:`headrace_sim.simulate`, for example ``stall_in``, ``stall_out``, ``waves``.
        """
        checked = check_feeds(self.source, feeds, origin)
        journal = journal or Journal()
        if self.folder is not None:
            return simulate_core(self, checked, self.folder, engine, journal, options)
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            with journal.step("generate") as note:
                self.plan.write(Path(folder))
                note(f"{len(self.plan.files)} files")
            return simulate_core(self, checked, Path(folder), engine, journal, options)
