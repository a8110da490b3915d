"""A model and what the compiler makes of it, each stage when it is first asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headrace.bounded_text import kept_text
from headrace.build.arrays import check_feeds, plain_arrays, run_frames
from headrace.build.config import BuildConfig, Folding
from headrace.build.info import ModelInfo, describe
from headrace.build.journal import Journal
from headrace.build.output import FOLDING_FILE, MANIFEST
from headrace.build.runtime import LayerWeights, alike, runtime_weights
from headrace.build.simulate import CSimulation, Simulation, csim_core, simulate_core
from headrace.build.vectors import write_vectors
from headrace.codegen.control import address_map
from headrace.codegen.design import Plan, generate
from headrace.errors import InputError, UnsupportedError, counted, did_you_mean, printable
from headrace.ir import Array, Graph
from headrace.ir.scaled import Writable
from headrace.layers.runtime import SETTING
from headrace.passes.hardware_design import HardwareDesign
from headrace.passes.partition import Partition
from headrace.passes.pixels import pixels_for
from headrace.passes.to_hardware import to_hardware
from headrace.passes.to_integer import IntegerModel, to_integer
from headrace.schedule import (
    Performance,
    asked_pixels,
    asked_writable,
    connect,
    fold_by_file,
    fold_for_rate,
    performance,
    pixels_within,
    target_cycles,
    write_folding,
)
from headrace.schedule.folding_keys import PIXELS
from headrace.schedule.streams import layers

if TYPE_CHECKING:
    from onnx import ModelProto

STAGES = ("integer", "parts", "unfolded", "folded", "hardware", "performance", "plan")
"""What becomes of a model, in this order; each is an attribute of :class:`Design`."""

Mode = Literal["float", "integer", "rtl", "hls"]
MODES: tuple[Mode, ...] = ("float", "integer", "rtl", "hls")


class Design:
    """A model on its way to hardware.

    Attributes:
        source: the model as it was read.
        config: how it is folded.
        folder: the build on disk, or None for a model that was only loaded.
        given: stages that :meth:`with_stage` has set.
        simulated: generated languages that the build has simulated.
    """

    def __init__(
        self,
        source: Graph,
        config: BuildConfig | None = None,
        folder: Path | None = None,
        kept_folding: Folding | None = None,
    ) -> None:
        self.source = source
        self.config = config or BuildConfig()
        self.folder = folder
        self._kept_folding = kept_folding  # of an earlier build, complete
        self.given: frozenset[str] = frozenset()
        self.simulated: frozenset[str] = frozenset()

    def with_stage(self, **stages: object) -> Design:
        """A copy in which some of :data:`STAGES` are as given; those after the first of them are made anew.

        Raises:
            ValueError: for a name that is no stage.
        """
        if wrong := [name for name in stages if name not in STAGES]:
            raise ValueError(f"no stage '{wrong[0]}'{did_you_mean(wrong[0], STAGES)}; expected one of {STAGES}")
        copy = Design(self.source, self.config, self.folder, self._kept_folding)
        first = min((STAGES.index(name) for name in stages), default=len(STAGES))
        kept = {name: vars(self)[name] for name in STAGES[:first] if self.reached(name)}
        vars(copy).update({**kept, **stages})
        copy.given = (self.given & kept.keys()) | stages.keys()
        return copy

    def with_config(self, config: BuildConfig) -> Design:
        """A copy for another configuration, with the stages that are there."""
        copy = Design(self.source, config, self.folder, self._kept_folding)
        vars(copy).update({name: vars(self)[name] for name in STAGES if self.reached(name)})
        copy.given, copy.simulated = self.given, self.simulated
        return copy

    def reached(self, stage: str) -> bool:
        """Whether *stage* has been made."""
        return stage in vars(self)

    def __repr__(self) -> str:
        ends = f"{', '.join(self.source.inputs)} -> {', '.join(self.source.outputs)}"
        where = f"built in {str(self.folder)!r}" if self.folder is not None else "not built"
        return printable(f"<headrace.Design {self.name!r}: {ends}, {where}>")

    @property
    def name(self) -> str:
        """The configured name, that of the model's file, or that of its graph."""
        return self.config.name or (Path(self.source.file).stem if self.source.file else self.source.name)

    @cached_property
    def integer(self) -> IntegerModel:
        """The integer graph.

        Raises:
            FoldingError: when the folding wants constants to be replaceable that cannot be.
        """
        plain = to_integer(self.source)
        asked = self._asked_writable(plain)
        return to_integer(self.source, asked) if asked else plain

    def _asked_writable(self, plain: IntegerModel) -> dict[str, Writable]:
        """The layers whose constants the folding wants to be replaceable; they are made only where it does."""
        kept, config = self._kept_folding, self.config
        folding = kept if kept is not None else config.folding
        if folding is None or all(SETTING not in values for values in folding.values()):
            return {}
        graph = to_hardware(plain.partition().core).graph
        if kept is not None:
            return asked_writable(graph, kept, file=FOLDING_FILE)
        found = asked_writable(graph, folding, config.folding_reading, config.folding_source)
        if found and config.backend != "rtl":
            why = f"the backend is '{config.backend}', and in C++ constants stay what they are"
            raise next(iter(found.values())).refused(why, "backend 'rtl'")
        return found

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
            UnsupportedError: as :attr:`parts`, or when an integer operator has no layer, or there is no layer at all.
        """
        plain, extras = to_hardware(self.parts.core, self._pixels()), self.config.extras
        if not layers(plain.graph):
            why = "what follows its quantizers only puts elements in another order, which the host does"
            raise UnsupportedError(f"no part of the model can become hardware: {why}", file=self.source.file)
        return replace(plain, counters=extras.counters, large_fifos=extras.large_fifos)

    def _pixels(self) -> dict[str, int]:
        """How many pixels operators make at once: as a folding says, the rate needs, or the device allows."""
        core, config = self.parts.core, self.config
        if self._kept_folding is not None:
            return _asked(core, self._kept_folding, FOLDING_FILE)
        found: dict[str, int] = {}
        if config.target_fps is not None:
            found = pixels_for(core, target_cycles(config.target_fps, config.clock_mhz))
        elif (budget := config.goal.budget) is not None:
            found = pixels_within(core, budget, config.mvau_wwidth_max, config.extras)
        if config.folding is not None and not config.finn_compatible:
            found |= _asked(core, config.folding, config.folding_source)
        return found

    @cached_property
    def folded(self) -> HardwareDesign:
        """The hardware graph, folded as the configuration says.

        Raises:
            FoldingError: when the configuration's folding does not fit.
        """
        config = self.config
        if self._kept_folding is not None:
            return fold_by_file(self.unfolded, self._kept_folding, file=FOLDING_FILE)
        folded = fold_for_rate(self.unfolded, config.goal)
        if config.folding is None:
            return folded
        return fold_by_file(folded, config.folding, config.folding_reading, config.folding_source)

    @cached_property
    def hardware(self) -> HardwareDesign:
        """The folded hardware graph with width converters and FIFOs."""
        return connect(self.folded)

    @cached_property
    def performance(self) -> Performance:
        """Expected cycles, latency and resources of the folded design."""
        return performance(self.hardware.graph, self.hardware.counters, self.hardware.pixels)

    @property
    def final_folding(self) -> Folding:
        """The folding of every layer, as its file says it: with it, the model makes this design."""
        whole = self.hardware
        return write_folding(self.folded.graph, whole.backends, whole.pixels, whole.fifos)

    @property
    def shortfall(self) -> str:
        """By how much the folded design misses the target rate, in one sentence; empty when it does not.

        Only a folding dictionary or FINN's reading can make it miss: otherwise a target out of reach is refused.
        """
        target, clock = self.config.target_fps, self.config.clock_mhz
        if target is None or self.performance.interval <= target_cycles(target, clock):
            return ""
        reached = self.performance.fps(clock)
        given = f"the folding of {self.config.folding_source}" if self.config.folding is not None else "the folding"
        return (
            f"layer '{self.performance.bottleneck}' needs {self.performance.interval:,} cycles a frame, so that "
            f"{given} reaches {reached:,.0f} of the {target:,.0f} frames a second that were the target at "
            f"{clock:g} MHz"
        )

    @cached_property
    def plan(self) -> Plan:
        """The generated files."""
        return generate(self.hardware, self.name, backend=self.config.backend)

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
            mode: ``"float"`` runs the model, ``"integer"`` its integer graph, ``"rtl"`` simulates the hardware,
                ``"hls"`` its C++ for high-level synthesis.
            origin: what to call the feeds in messages, for example their file.
            journal: told of the steps.

        Returns:
            one array per model output; all modes agree in every bit.

        Raises:
            InputError: when the feeds do not fit the model.
            UnsupportedError: in modes ``"rtl"`` and ``"hls"``, when the model has no hardware.
            ToolError: in these modes, when a tool is missing.
        """
        if mode not in MODES:
            raise InputError(f"no mode '{mode}'{did_you_mean(mode, MODES)}; expected one of {', '.join(MODES)}")
        checked = check_feeds(self.source, feeds, origin)
        if mode == "rtl":
            return self.simulate(checked, origin=origin, journal=journal).outputs
        if mode == "hls":
            return self.csim(checked, origin=origin, journal=journal).outputs
        journal = journal or Journal()
        with journal.step(f"run {mode}"), np.errstate(all="ignore"):
            return run_frames(self.source if mode == "float" else self.integer.graph, checked, journal)

    def simulate(
        self,
        feeds: Mapping[str, Array],
        *,
        engine: Literal["cpp", "cocotb"] = "cpp",
        model: str | Path | ModelProto | None = None,
        origin: str = "feeds",
        journal: Journal | None = None,
        **options: object,
    ) -> Simulation:
        """Run in mode ``"rtl"``, with the timing of the simulation.

        Args:
            feeds: as for :meth:`run`.
            engine: the compiled C++ bench, or cocotb.
            model: another model whose weights, from :meth:`runtime_weights`, the option ``control`` writes: what is
                computed on the host, before and after the hardware, is then of this model.
            origin, journal: as for :meth:`run`.
            options: handed to :func:`headrace_sim.simulate`, for example ``stall_in``, ``stall_out``, ``waves``.

        Raises:
            InputError: when the feeds do not fit, or *model* differs in more than what is written at run time.
        """
        host = self if model is None else alike(self, model)
        checked = check_feeds(host.source, feeds, origin)
        journal = journal or Journal()
        with self._files("rtl", journal) as folder:
            return simulate_core(host, checked, folder, engine, journal, options)

    def csim(
        self,
        feeds: Mapping[str, Array],
        *,
        trace: bool = False,
        dataflow: bool = False,
        origin: str = "feeds",
        journal: Journal | None = None,
    ) -> CSimulation:
        """Run in mode ``"hls"``.

        Args:
            feeds: as for :meth:`run`.
            trace: keep the values of every stream between layers.
            dataflow: run the functions side by side, cycle by cycle, with streams as deep as in hardware, so that a
                deadlock shows; counts the cycles.
            origin, journal: as for :meth:`run`.
        """
        checked = check_feeds(self.source, feeds, origin)
        journal = journal or Journal()
        with self._files("hls", journal) as folder:
            return csim_core(self, checked, folder, journal, {"trace": trace, "dataflow": dataflow})

    @property
    def address_map(self) -> dict[str, Any]:
        """What is at which address of the control interface, the content of ``control.json``.

        Raises:
            InputError: when the design has no such interface.
        """
        found = address_map(self.plan.files)
        if found is None:
            raise InputError(
                f"design '{self.name}' has no control interface; performance_counters=True gives it one, or "
                "runtime_writeable_weights=1 for a layer in the folding"
            )
        return found

    def runtime_weights(self, model: str | Path | ModelProto | None = None) -> dict[str, LayerWeights]:
        """What to write through the control interface so that the hardware computes *model*, by layer.

        Args:
            model: as for :func:`headrace.load`: the design's own with other weights and thresholds; None for its own.

        Raises:
            InputError: when no layer can be written, or the model differs in something else; names it.
        """
        return runtime_weights(self, model)

    def write_vectors(
        self,
        path: str | Path,
        feeds: Mapping[str, Array] | None = None,
        *,
        frames: int = 32,
        seed: int = 0,
        streams: bool = False,
        origin: str = "feeds",
    ) -> None:
        """Write what an RTL regression gives the design and expects of it, for ``headrace_sim.read_vectors``.

        Args:
            path: the ``.npz`` file.
            feeds: as for :meth:`run`; random frames, extremes among them, when None.
            frames, seed: of these.
            streams: expect the words on every stream between the layers as well.
            origin: as for :meth:`run`.

        Raises:
            InputError: when the feeds do not fit the model, or the file cannot be written.
            UnsupportedError: when the model has no hardware.
        """
        checked = None if feeds is None else check_feeds(self.source, feeds, origin)
        write_vectors(self, Path(path), checked, frames, seed, streams)

    @contextmanager
    def _files(self, backend: Literal["rtl", "hls"], journal: Journal) -> Iterator[Path]:
        """A folder with what *backend* generates: that of the build, or a temporary one."""
        built = self.config.backend in (backend, "both")
        if self.folder is not None and built:
            yield self.built_folder("simulate")
            return
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            with journal.step("generate") as note:
                whole = self.hardware
                if backend == "hls":  # C++ of all layers, which counts nothing
                    whole = replace(whole, backends={}, counters=False)
                plan = self.plan if built else generate(whole, self.name, backend=backend)
                plan.write(Path(folder))
                note(counted(len(plan.files), "file"))
            yield Path(folder)

    def built_folder(self, purpose: str) -> Path:
        """The folder of the build that this design was opened from.

        Args:
            purpose: what is to be done with it, as in ``nothing to profile``.

        Raises:
            InputError: when nothing was built, or this version of Headrace would generate other files, whose streams
                may mean something else; names the manifest.
        """
        if self.folder is None:
            raise InputError(
                f"nothing to {purpose}: expected the folder of a build; make one with `headrace build MODEL`"
            )
        manifest = self.folder / MANIFEST
        if not manifest.is_file() or kept_text(manifest) != self.plan.files[MANIFEST]:
            raise InputError(f"{manifest}: not the design that this version of Headrace generates; build it again")
        return self.folder


def _asked(core: Graph, folding: Folding, file: str) -> dict[str, int]:
    """The pixels at once that a folding dictionary asks for; layers are made only where it does."""
    if all(PIXELS not in values for values in folding.values()):
        return {}
    return asked_pixels(to_hardware(core).graph, folding, file)
