"""What a build may be told, checked before anything runs.

The names are FINN's where the meaning is the same. ``DataflowBuildConfig``, the enumerations and the lists of steps are
here under FINN's names, so that a build script changes its imports and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    field_serializer,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from headrace.build.finn_methods import FinnMethods
from headrace.build.finn_settings import FinnSettings, Lenient
from headrace.build.settings_text import YAML_SUFFIXES, from_text, read_text
from headrace.build.vocabulary import (
    AutoFIFOSizingMethod,
    ComputeEngineMemMode,
    DataflowOutputType,
    FpgaMemoryType,
    LargeFIFOMemStyle,
    ShellFlowType,
    VerificationStepType,
    VitisOptStrategyCfg,
    default_build_dataflow_steps,
    estimate_only_dataflow_steps,
    hls_codegen_dataflow_steps,
    hw_codegen_dataflow_steps,
)
from headrace.codegen.design import Backend
from headrace.errors import FoldingError, InputError, did_you_mean
from headrace.schedule import Budget, Extras, Goal
from headrace.schedule.folding_file import read_folding
from headrace.schedule.folding_keys import Reading

__all__ = [
    "AutoFIFOSizingMethod",
    "BuildConfig",
    "ComputeEngineMemMode",
    "DataflowBuildConfig",
    "DataflowOutputType",
    "FpgaMemoryType",
    "LargeFIFOMemStyle",
    "ShellFlowType",
    "VerificationStepType",
    "VitisOptStrategyCfg",
    "default_build_dataflow_steps",
    "estimate_only_dataflow_steps",
    "hls_codegen_dataflow_steps",
    "hw_codegen_dataflow_steps",
]

Folding = Mapping[str, Mapping[str, object]]
"""Folding values by layer: ``{"MVAU_0": {"PE": 8, "SIMD": 49}}``, FINN's file format."""

CONFIG_FILE = "build.json"
"""Where a build keeps its settings."""

VALIDATED = 16
"""Labelled frames that are simulated, where nothing else is said."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SHORTEST_NS, LONGEST_NS = 1e-3, 1e9
"""Of the clock, so that rates and intervals stay numbers: 1 THz and 1 Hz."""
Period = Annotated[float, Field(ge=SHORTEST_NS, le=LONGEST_NS, allow_inf_nan=False)]


def _path_text(path: object) -> str:
    """A path as text; ``""`` is refused, which would be the current folder."""
    if not isinstance(path, str | os.PathLike):
        raise PydanticCustomError("path_type", "input should be the path of a file")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise PydanticCustomError("path_type", "input should be the path of a file")
    if not text:
        raise PydanticCustomError("empty_path", "the path is empty")
    return text


PathText = Annotated[str, BeforeValidator(_path_text), WithJsonSchema({"type": "string", "format": "path"})]
"""A path, given in any form and kept as text, as in FINN, whose scripts write ``cfg.output_dir + "/report"``."""


StepList = Annotated[list[str | SkipJsonSchema[Callable[..., Any]]], Lenient]


class BuildConfig(FinnSettings):
    """Settings of one build; all have defaults, and those of FINN that mean nothing here are accepted with a warning.

    Attributes:
        name: of the design and its top module; the name of the model file when None.
        output_dir: folder to write; it may be new, empty, or an earlier build, which is replaced by a whole one.
        synth_clk_period_ns: clock period in nanoseconds that rates refer to.
        target_fps: frames a second to fold for; None folds for a modest rate by default.
        unroll: folds every layer as far as it goes: one vector a cycle from each matrix, as shared adders.
        folding: PE and SIMD by layer, overriding what the target would choose.
        folding_config_file: JSON file that holds a folding dictionary.
        board: board that the project beside the stitched RTL is for.
        fpga_part: or its part, by ordering code, any of AMD's; the design itself is the same for every device.
        fit_part: part or board whose resources the design must fit, by the estimates; without a target rate the design
            becomes as fast as fits.
        resource_limits: most of each resource that the design may take: ``lut``, ``ff``, ``dsp``, ``bram18``,
            ``uram``.
        specialize_layers_config_file: JSON file that says, as FINN's, whether a layer is made in RTL or in C++
            (``preferred_impl_style``); read like a folding file.
        mvau_wwidth_max: most bits of weights that one PE reads a cycle when folding for a rate; None for any number.
        large_fifo_mem_style: what FIFOs of more than 256 words are made of, where the folding does not say: ``auto``,
            ``block``, ``distributed`` or ``ultra``.
        standalone_thresholds: whether numbers in a folding file of FINN count all thresholds, or (False) only those
            that follow no matrix-vector unit. Here thresholds always are layers of their own.
        finn_compatible: reads folding files as FINN does: what fits no layer is a warning, not an error; a rate out of
            reach becomes the fastest; the default list of steps is FINN's.
        performance_counters: adds counters of cycles, words and stalls of every stream, read through AXI4-Lite.
        backend: what is generated: ``"rtl"``, ``"hls"`` (C++ for high-level synthesis) or ``"both"``.
        generate_outputs: what is made besides the design.
        steps: names of steps, or functions ``step(state, config) -> state``; None for the default list.
        inject_steps_before, inject_steps_after: names of steps, or functions, that run before or after a named one.
        start_step: first step to run, upon what an earlier build of this folder left.
        stop_step: last step to run.
        save_intermediate_models: keep what ``start_step`` needs.
        verify_frames: random frames on which the stages of the compiler are compared.
        seed: of those frames.
        verify_steps: stages to compare with the expected output.
        verify_input_npy: file with the input for that, ``(frames, *shape)``.
        verify_expected_output_npy: file with the expected output.
        verification_atol: less than which real outputs may differ from expected ones in FINN's reading, with a warning.
        verify_save_full_context: also keep the tensors inside.
        verify_save_rtlsim_waveforms: keep a waveform of simulations.
        validation_input_npy: file with frames of known class, ``(frames, *shape)``, for the accuracy in the report.
        validation_labels_npy: file with their classes, whole numbers.
        validation_rtlsim_frames: how many of them, from the first, are simulated.
        validation_reference: accuracy that is known from elsewhere, 0 to 1, to show beside; of PyTorch, for example.
        rtlsim_batch_size: frames whose throughput is measured in simulation.
        force_python_rtlsim: simulate with cocotb instead of the C++ bench, which makes the same decisions.
    """

    model_config = ConfigDict(extra="forbid", strict=True, validate_assignment=True)

    name: str | None = None
    output_dir: PathText | None = None
    synth_clk_period_ns: Period = 5.0
    target_fps: Positive | None = None
    unroll: bool = False
    folding: Folding | None = None
    folding_config_file: PathText | None = None
    specialize_layers_config_file: PathText | None = None
    board: str | None = None
    fpga_part: str | None = None
    fit_part: str | None = None
    resource_limits: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] | None = None
    mvau_wwidth_max: Annotated[int, Field(ge=1)] | None = None
    large_fifo_mem_style: Annotated[LargeFIFOMemStyle, Lenient] | None = LargeFIFOMemStyle.AUTO
    standalone_thresholds: bool | None = False
    finn_compatible: bool = False
    performance_counters: bool = False
    backend: Backend = "rtl"
    generate_outputs: Annotated[list[Annotated[DataflowOutputType, Lenient]], Lenient] = Field(
        default_factory=lambda: [DataflowOutputType.ESTIMATE_REPORTS]
    )
    steps: StepList | None = None
    inject_steps_before: Annotated[dict[str, StepList], Lenient] | None = None
    inject_steps_after: Annotated[dict[str, StepList], Lenient] | None = None
    start_step: str | None = None
    stop_step: str | None = None
    save_intermediate_models: bool | None = True
    verify_frames: Annotated[int, Field(ge=1)] = 32
    seed: Annotated[int, Field(ge=0)] = 0
    verify_steps: Annotated[list[Annotated[VerificationStepType, Lenient]], Lenient] | None = None
    verify_input_npy: PathText | None = "input.npy"
    verify_expected_output_npy: PathText | None = "expected_output.npy"
    verification_atol: Positive | None = 1e-3
    verify_save_full_context: bool | None = False
    verify_save_rtlsim_waveforms: bool | None = False
    validation_input_npy: PathText | None = None
    validation_labels_npy: PathText | None = None
    validation_rtlsim_frames: Annotated[int, Field(ge=0)] = VALIDATED
    validation_reference: Annotated[float, Field(ge=0, le=1)] | None = None
    rtlsim_batch_size: Annotated[int, Field(ge=1)] | None = 1
    force_python_rtlsim: bool | None = False
    _folding_file: str | None = PrivateAttr(default=None)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise InputError(_sentence(error, type(self))) from error
        self.refuse_what_cannot_be()

    def __setattr__(self, name: str, value: Any) -> None:
        if name[0] != "_" and name not in type(self).model_fields:
            raise InputError(_unknown(name, type(self)))
        try:
            super().__setattr__(name, value)
        except ValidationError as error:
            raise InputError(_sentence(error, type(self))) from error

    @property
    def clock_mhz(self) -> float:
        """The clock in MHz; a period that was computed from a frequency gives that frequency."""
        return float(f"{1000 / self.synth_clk_period_ns:.12g}")

    @property
    def folding_file(self) -> str | None:
        """The file that holds the folding, or that it was read from."""
        return self.folding_config_file or self._folding_file

    @property
    def folding_source(self) -> str:
        """What messages call the place that the folding was given in."""
        return self._folding_file or "the folding dictionary"

    @property
    def folding_reading(self) -> Reading:
        """How the folding dictionary is read."""
        if not self.finn_compatible:
            return Reading.STRICT
        return Reading.FINN_STANDALONE if self.standalone_thresholds else Reading.FINN

    @property
    def goal(self) -> Goal:
        """What the design is folded for.

        Raises:
            FoldingError: when the part or a resource is not known, or the goals exclude each other.
        """
        limited = self.fit_part is not None or self.resource_limits is not None
        if self.unroll and (limited or self.target_fps is not None):
            other = "a target rate" if self.target_fps is not None else "resources to fit"
            raise FoldingError(f"unroll folds every layer as far as it goes and leaves no choice for {other}; give one")
        budget = Budget.of(self.fit_part, self.resource_limits) if limited else None
        return Goal(self.target_fps, self.clock_mhz, self.mvau_wwidth_max, self.finn_compatible, budget, self.unroll)

    @property
    def extras(self) -> Extras:
        """What the design has besides its layers."""
        return Extras(self.performance_counters, str(self.large_fifo_mem_style or "auto"))

    def with_folding_read(self) -> Self:
        """This configuration with the content of ``folding_config_file`` in ``folding``.

        Raises:
            FoldingError: when the file cannot be read.
            InputError: when there is a dictionary too.
        """
        if self.folding_config_file is None:
            return self
        if self.folding is not None:
            raise InputError("settings 'folding' and 'folding_config_file' are both given; give one of them")
        values = read_folding(self.folding_config_file)
        config = self.model_copy(update={"folding": values, "folding_config_file": None})
        config._folding_file = self.folding_config_file
        return config

    def relative_to(self, folder: Path) -> Self:
        """This configuration with its relative paths read from *folder*."""
        names = (
            *("output_dir", "folding_config_file", "specialize_layers_config_file"),
            *("verify_input_npy", "verify_expected_output_npy", "validation_input_npy", "validation_labels_npy"),
        )
        paths = {name: getattr(self, name) for name in names}
        return self.model_copy(update={name: str(folder / path) for name, path in paths.items() if path is not None})

    def to_json(self) -> str:
        """All settings as the text of a file that :func:`read_config` reads; functions are given by name."""
        return self.model_dump_json(indent=2) + "\n"

    def kept_json(self) -> str:
        """The text of ``build.json``: what the design depends on, the same wherever it is built."""
        places = {
            "output_dir",
            "specialize_layers_config_file",
            "verify_input_npy",
            "verify_expected_output_npy",
            "validation_input_npy",
            "validation_labels_npy",
            "validation_rtlsim_frames",
            "validation_reference",
            "start_step",
            "stop_step",
        }
        left_out = {*places, *FinnSettings.model_fields}
        return self.model_dump_json(indent=2, exclude=left_out) + "\n"

    @field_serializer("steps")
    def _names(self, steps: list[Any] | None) -> list[str] | None:
        return None if steps is None else [step_name(step) for step in steps]

    @field_serializer("inject_steps_before", "inject_steps_after")
    def _injected_names(self, injected: dict[str, list[Any]] | None) -> dict[str, list[str]] | None:
        return None if injected is None else {key: [step_name(step) for step in injected[key]] for key in injected}

    @classmethod
    def checked(
        cls, folding: Path | str | Folding | None = None, clock_mhz: float | None = None, **settings: object
    ) -> Self:
        """The configuration from settings as :func:`headrace.build.build` takes them.

        Args:
            folding: a folding dictionary, or the JSON file that holds one.
            clock_mhz: the clock in MHz, instead of ``synth_clk_period_ns``.
            settings: the other fields by name.

        Raises:
            InputError: for an unknown name or a value that is not acceptable.
            FoldingError: when the folding file cannot be read.
        """
        if isinstance(folding, str | Path):
            settings["folding_config_file"] = folding
        elif folding is not None:
            settings["folding"] = folding
        if clock_mhz is not None:
            if "synth_clk_period_ns" in settings:
                raise InputError("settings 'clock_mhz' and 'synth_clk_period_ns' are both given; give one of them")
            settings["synth_clk_period_ns"] = _period(clock_mhz)
        return cls(**settings).with_folding_read()


class DataflowBuildConfig(FinnMethods, BuildConfig):
    """A configuration as FINN takes it: three settings must be given, and the reading is FINN's."""

    output_dir: PathText
    synth_clk_period_ns: Period
    generate_outputs: Annotated[list[Annotated[DataflowOutputType, Lenient]], Lenient]
    finn_compatible: bool = True
    mvau_wwidth_max: Annotated[int, Field(ge=1)] | None = 36

    @classmethod
    def from_json(cls, text: str) -> Self:
        """From the text of ``dataflow_build_config.json``.

        Raises:
            InputError: when it is not one.
        """
        return _from_text(text, "the configuration", cls)

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """From the text of a YAML file, as FINN+ takes it.

        Raises:
            InputError: when it is not one.
        """
        return _from_text(text, "the configuration", cls, "YAML")

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """From settings by name.

        Raises:
            InputError: for an unknown name or a value that is not acceptable.
        """
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, as a file has them."""
        return self.model_dump(mode="json")


def step_name(step: object) -> str:
    """What a step is called: its own text, or the name of the function."""
    if isinstance(step, str):
        return step
    inner = getattr(step, "func", step)  # functools.partial
    return str(getattr(inner, "__name__", type(inner).__name__))


def read_config(path: Path) -> BuildConfig:
    """The settings in a file of Headrace, such as the ``build.json`` that a build keeps.

    Raises:
        InputError: when they cannot be read.
    """
    return _from_text(read_text(path), str(path), BuildConfig)


def read_finn_config(path: Path) -> DataflowBuildConfig:
    """The settings in a ``dataflow_build_config.json`` of FINN, or in YAML of FINN+; paths are read from its folder.

    Raises:
        InputError: when they cannot be read.
    """
    form = "YAML" if path.suffix in YAML_SUFFIXES else "JSON"
    return _from_text(read_text(path), str(path), DataflowBuildConfig, form).relative_to(path.parent)


_Config = TypeVar("_Config", bound=BuildConfig)


def _from_text(text: str, where: str, kind: type[_Config], form: str = "JSON") -> _Config:
    settings = from_text(text, where, form)
    try:
        return kind(**settings)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _period(clock_mhz: float) -> float:
    if isinstance(clock_mhz, bool) or not isinstance(clock_mhz, int | float) or not 0 < clock_mhz < float("inf"):
        raise InputError(f"setting 'clock_mhz': must be a positive number, got {clock_mhz!r}")
    if not 1000 / LONGEST_NS <= clock_mhz <= 1000 / SHORTEST_NS:
        raise InputError(f"setting 'clock_mhz': must be from 1e-06 to 1,000,000, got {clock_mhz!r}")
    return 1000 / clock_mhz


def complaint(found: Mapping[str, Any]) -> str:
    """What pydantic has against a value, in the words of who wrote it, with the value as it was given."""
    message = "input should be the path of a file" if found["type"] == "path_type" else found["msg"]
    message = message.replace("a valid tuple", "a list").replace("a valid dictionary", "names with values")
    return f"{message[0].lower()}{message[1:]}, got {found['input']!r}"


def _sentence(error: ValidationError, kind: type[BuildConfig]) -> str:
    """What is wrong, in one sentence, with the value as it was given."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if part not in ("str", "callable"))  # the kinds of a union
    if first["type"] == "extra_forbidden":
        return _unknown(name, kind)
    if first["type"] == "missing":
        return f"setting '{name}' is missing"
    return f"setting '{name}': {complaint(first)}"


def _unknown(name: str, kind: type[BuildConfig]) -> str:
    known = [name for name in kind.model_fields if name not in FinnSettings.model_fields]
    return f"unknown setting '{name}'{did_you_mean(name, kind.model_fields)}; known: {', '.join(known)}"
