"""``headrace.build`` and ``headrace.load``: what a user calls, and FINN's two entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from headrace.build.config import CONFIG_FILE, BuildConfig, Folding, read_config, read_finn_config
from headrace.build.design import Design
from headrace.build.failed import forget_failure, keep_failure
from headrace.build.journal import Journal
from headrace.build.listeners import attended_journal
from headrace.build.output import FOLDING_FILE, MARKER, named_folder, staged, write_files
from headrace.build.report import REPORT_PAGE, report_files
from headrace.build.running import check_settings, resumed, run_steps
from headrace.build.state import BuildState
from headrace.build.vocabulary import DataflowOutputType, LargeFIFOMemStyle, VerificationStepType
from headrace.codegen.design import Backend
from headrace.errors import InputError, VerificationError, counted
from headrace.schedule import read_folding

if TYPE_CHECKING:
    from onnx import ModelProto

MODEL_COPY = "model.onnx"
LOG_FILE = "build.log"


class BuildSettings(TypedDict, total=False):
    """Keywords of :func:`build`; :class:`~headrace.build.config.BuildConfig` says what each means."""

    name: str | None
    target_fps: float | None
    unroll: bool
    clock_mhz: float
    synth_clk_period_ns: float
    folding: Path | str | Folding | None
    folding_config_file: Path | str | None
    finn_compatible: bool
    standalone_thresholds: bool
    fit_part: str | None
    resource_limits: Mapping[str, float] | None
    mvau_wwidth_max: int | None
    large_fifo_mem_style: LargeFIFOMemStyle | str | None
    performance_counters: bool
    backend: Backend
    generate_outputs: list[DataflowOutputType | str]
    steps: list[str | Callable[..., Any]] | None
    inject_steps_before: Mapping[str, list[str | Callable[..., Any]]] | None
    inject_steps_after: Mapping[str, list[str | Callable[..., Any]]] | None
    start_step: str | None
    stop_step: str | None
    save_intermediate_models: bool
    verify_frames: int
    seed: int
    verify_steps: list[VerificationStepType | str] | None
    verify_input_npy: Path | str | None
    verify_expected_output_npy: Path | str | None
    verification_atol: float | None
    verify_save_full_context: bool
    verify_save_rtlsim_waveforms: bool
    validation_input_npy: Path | str | None
    validation_labels_npy: Path | str | None
    validation_rtlsim_frames: int
    validation_reference: float | None
    rtlsim_batch_size: int
    force_python_rtlsim: bool


def load(model: str | Path | ModelProto) -> Design:
    """Read a model, or reopen a build.

    Args:
        model: an ONNX file, an ``onnx.ModelProto``, a ``ModelWrapper`` of qonnx, or the folder that an earlier
            :func:`build` wrote.

    Raises:
        ModelError: when it cannot be read or is not well formed.
        UnsupportedError: when it holds an operator that is not known.
    """
    design, _ = _read(model)
    return design


def build(
    model: str | Path | ModelProto | None,
    output_dir: str | Path | None = None,
    *,
    config: BuildConfig | None = None,
    journal: Journal | None = None,
    **settings: Unpack[BuildSettings],
) -> Design:
    """Compile a model into a verified design on disk.

    Args:
        model: as for :func:`load`; None where ``start_step`` continues an earlier build, which has it.
        output_dir: folder to write; it may be new, empty, or an earlier build, which is replaced once the new one is
            whole. None takes that of the configuration.
        config: all settings at once.
        journal: told of the steps.
        settings: or settings by keyword: the fields of :class:`~headrace.build.config.BuildConfig`; also ``clock_mhz``
            (default 200) and ``folding`` (a dictionary or a JSON file).

    Returns:
        the design; ``design.run(feeds, mode="rtl")`` simulates it.

    Raises:
        ModelError, UnsupportedError: as for :func:`load`, or when no exact hardware exists.
        FoldingError: for PE or SIMD that do not divide.
        InputError: for a setting that is not known or an output folder that may not be written.
        VerificationError: when two stages of the compiler disagree, or a stage and the expected output. What there was
            is then in a folder beside *output_dir*, named as it with ``.failed`` behind; the message names its page.
    """
    if config is not None and settings:
        raise InputError("settings are given as 'config' and by keyword; give one of them")
    config = BuildConfig.checked(**settings) if config is None else config.with_folding_read()
    target = output_dir if output_dir is not None else config.output_dir
    if target is None:
        raise InputError("setting 'output_dir' is missing: the folder to write")
    folder = named_folder(target, "output_dir")
    journal = journal or Journal()
    check_settings(config)
    with staged(folder, upon_earlier=config.start_step is not None) as scratch:
        for warning in config.without_effect():
            journal.warn(warning)
        state = _begin(model, config, scratch, journal, folder)
        try:
            state = run_steps(state, config)
        except VerificationError as error:
            page = keep_failure(scratch, folder, state.design.name, error, journal)
            if page is None:
                raise
            raise VerificationError(f"{error}; see {page}") from error
        _finish(state)
    forget_failure(folder)
    design = state.design
    design.folder = folder
    design.simulated = frozenset(c.simulated for c in state.comparisons if c.simulated)
    return design


def build_dataflow_cfg(model_filename: str | Path | ModelProto, cfg: BuildConfig) -> int:
    """FINN's entry point: build with a configuration, told on standard error; returns 0.

    Raises:
        HeadraceError: as :func:`build`, instead of FINN's -1.
    """
    build(model_filename, config=cfg, journal=attended_journal())
    return 0


def build_dataflow_directory(path_to_cfg_dir: str | Path) -> int:
    """FINN's entry point for a folder with ``model.onnx`` and ``dataflow_build_config.json``; returns 0.

    Raises:
        HeadraceError: as :func:`build`, instead of FINN's -1.
    """
    folder = Path(path_to_cfg_dir)
    return build_dataflow_cfg(folder / MODEL_COPY, read_finn_config(folder / "dataflow_build_config.json"))


def _begin(
    model: str | Path | ModelProto | None, config: BuildConfig, scratch: Path, journal: Journal, folder: Path
) -> BuildState:
    """The state before the first step that runs."""
    if config.start_step is not None:
        state = resumed(scratch, config, journal, folder)
        if state is not None:
            return state
    if model is None:
        raise InputError("there is no model; give one, or a 'start_step' after the first")
    with journal.step("load"):
        read, proto = _read(model)
        journal.note(counted(len(read.source), "node"))
    named = config.model_copy(update={"name": config.name or read.name})
    return BuildState(proto, Design(read.source, named), scratch, journal)


def _finish(state: BuildState) -> None:
    """What every build leaves, whichever steps it ran."""
    if state.design.reached("hardware"):
        with state.journal.step("report"):
            files = report_files(state.design, state.comparisons, state.journal.records, state.folder)
            write_files(state.folder, files)
            state.note(REPORT_PAGE)
    state.write(CONFIG_FILE, state.design.config.model_copy(update={"name": state.design.name}).kept_json())
    (state.folder / MODEL_COPY).write_bytes(state.model.SerializeToString(deterministic=True))
    state.write(LOG_FILE, state.journal.text())


def _read(model: str | Path | ModelProto) -> tuple[Design, ModelProto]:
    """The design as it was built, or the model alone; and the model's text."""
    from headrace.ingest import from_proto, read_onnx, unwrapped

    if not isinstance(model, str | Path):
        return Design(from_proto(model)), unwrapped(model)
    path = Path(model)
    if not (path / MARKER).is_file():
        proto = read_onnx(path)
        return Design(from_proto(proto, str(path))), proto
    proto = read_onnx(path / MODEL_COPY)
    source, config = from_proto(proto, str(path / MODEL_COPY)), read_config(path / CONFIG_FILE)
    kept = read_folding(path / FOLDING_FILE) if (path / FOLDING_FILE).is_file() else None
    return Design(source, config, path, kept), proto
