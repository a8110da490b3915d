"""The steps of a build: plain functions ``step(state, config) -> state``, in the order of :data:`STEPS`.

Each does its part and notes in one line what came out. A step of a user's own is a function of the same form, put into
the list of steps in any place; :mod:`headrace.build.finn_steps` has those of FINN by their names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.build.config import BuildConfig
from headrace.build.driver import write_driver
from headrace.build.estimates import estimates, hardware_config, rtlsim_performance, specializing_template
from headrace.build.expected import check_expected, read_frames, simulated, validation_files
from headrace.build.output import FOLDING_FILE
from headrace.build.profile import FILE as PROFILE
from headrace.build.profile import profile_of
from headrace.build.state import BuildState
from headrace.build.validation import FILE as VALIDATION
from headrace.build.validation import Settings, check_labels, read_labels
from headrace.build.validation import validate as validated
from headrace.build.vendor import part_of, project_files
from headrace.build.verify import random_frames, verify_stages
from headrace.build.vocabulary import DataflowOutputType, VerificationStepType
from headrace.codegen.control import MAP_HEADER, MAP_JSON
from headrace.errors import counted
from headrace.passes.hardware_design import HardwareDesign
from headrace.schedule import connect as connected
from headrace.schedule import fold_by_file, fold_for_rate, folding_json, read_folding
from headrace.schedule.fifos import fifos
from headrace.schedule.streams import layers

Step = Callable[[BuildState, BuildConfig], BuildState]


def read(state: BuildState, config: BuildConfig) -> BuildState:
    """The model as it was read, against the expected output."""
    state.note(counted(len(state.design.source), "node"))
    return check_expected(state, config, VerificationStepType.QONNX_TO_FINN_PYTHON, VerificationStepType.TIDY_UP_PYTHON)


def analyse(state: BuildState, config: BuildConfig) -> BuildState:
    """Scaled-integer analysis: the model becomes head, core and tail."""
    core = state.design.parts.core
    operators = len(core) - len(core.inputs) - len(core.outputs)
    state.note(f"{counted(operators, 'integer operator')}, {len(state.design.integer.blockers)} left to the host")
    return check_expected(state, config, VerificationStepType.STREAMLINED_PYTHON)


def lower(state: BuildState, config: BuildConfig) -> BuildState:
    """Integer operators become hardware layers; files to start from for folding and languages are written."""
    graph = state.design.unfolded.graph
    state.note(counted(len(layers(graph)), "layer"))
    state.write("template_folding_config.json", folding_json(graph, pixels=state.design.unfolded.pixels, whole=True))
    state.write_json("template_specialize_layers_config.json", specializing_template(graph))
    return state


def specialize(state: BuildState, config: BuildConfig) -> BuildState:
    """Layers are made in RTL or in C++, as the file of FINN says, else as the backend says."""
    path = config.specialize_layers_config_file
    if path is None:
        state.note(f"every layer is generated for the backend '{config.backend}'")
        return state
    before = _folded(state)
    after = fold_by_file(before, read_folding(path), config.folding_reading, path)
    _warn_of_new_notes(state, before, after)
    state.note(", ".join(f"'{node}' in {kind}" for node, kind in after.backends.items()))
    return state.with_stage(folded=after)


def fold_to_rate(state: BuildState, config: BuildConfig) -> BuildState:
    """PE and SIMD are chosen for the target rate or the part, or for a modest rate."""
    before = _folded(state)
    folded = fold_for_rate(before, config.goal)
    _warn_of_new_notes(state, before, folded)
    state.note(_slowest(folded))
    if config.target_fps is not None:
        state.write(
            "auto_folding_config.json", folding_json(folded.graph, pixels=folded.pixels, fifos=folded.fifos, whole=True)
        )
    return state.with_stage(folded=folded)


def apply_folding(state: BuildState, config: BuildConfig) -> BuildState:
    """PE and SIMD are set as the folding dictionary says."""
    before = _folded(state)
    after = before
    if config.folding is not None:
        after = fold_by_file(before, config.folding, config.folding_reading, config.folding_source)
        _warn_of_new_notes(state, before, after)
    state = state.with_stage(folded=after)
    state.note(_slowest(after))
    return check_expected(state, config, VerificationStepType.FOLDED_HLS_CPPSIM)


def connect(state: BuildState, config: BuildConfig) -> BuildState:
    """Streams are matched in width, and get FIFOs as deep as the schedule needs."""
    if not state.design.reached("hardware"):
        state = state.with_stage(hardware=connected(_folded(state)))
    expected = state.design.performance
    state.write_json("final_hw_config.json", hardware_config(state.design))
    depths = [fifo.depth for fifo in fifos(state.design.hardware.graph).values()]
    state.note(f"{counted(len(depths), 'FIFO')}, the deepest of {counted(max(depths, default=0), 'word')}")
    state.note(f"interval {counted(expected.interval, 'cycle')}, set by '{expected.bottleneck}'")
    if missed := state.design.shortfall:
        state.note(missed)
        state.journal.warn(missed)
    return state


def verify(state: BuildState, config: BuildConfig) -> BuildState:
    """The stages so far compute the same values on random frames (E4)."""
    found = verify_stages(state.design, config.verify_frames, config.seed)
    state.note(f"{sum(c.values for c in found):,} values equal in model, integer graph and layer arithmetic")
    return replace(state, comparisons=(*state.comparisons, *found))


def estimate(state: BuildState, config: BuildConfig) -> BuildState:
    """Cycles, resources, operations and parameters by layer, under FINN's names."""
    if DataflowOutputType.ESTIMATE_REPORTS in config.generate_outputs:
        reports = estimates(state.design)
        for name, data in reports.items():
            state.write_json(f"report/{name}", data)
        state.note(counted(len(reports), "file"))
    return state


def generate(state: BuildState, config: BuildConfig) -> BuildState:
    """SystemVerilog, memory files, manifest, and the folding that was used."""
    state.design.plan.write(state.folder)
    state.write_json(FOLDING_FILE, dict(state.design.final_folding))
    ips = sum(path.startswith("ip/") and path.endswith("run_hls.tcl") for path in state.design.plan.files)
    state.note(
        counted(len(state.design.plan.files), "file") + (f", {counted(ips, 'layer')} in C++ (HLS IP)" if ips else "")
    )
    return check_expected(state, config, VerificationStepType.NODE_BY_NODE_RTLSIM)


def stitch(state: BuildState, config: BuildConfig) -> BuildState:
    """The RTL alone in a folder, with the list of its files and the IPs that it needs, to be put into a project."""
    plan = state.design.plan
    if DataflowOutputType.STITCHED_IP in config.generate_outputs and config.backend != "hls":
        kept = ("rtl/", "ip/", MAP_JSON, MAP_HEADER)
        wanted = {path: text for path, text in plan.files.items() if path.startswith(kept)}
        files = {path.removeprefix("rtl/"): text for path, text in wanted.items()}
        for path, text in files.items():
            state.write(f"stitched_ip/{path}", text)
        sources = [path for path in files if path.endswith(".sv") and not path.startswith("ip/")]
        state.write("stitched_ip/all_verilog_srcs.txt", "".join(f"{path}\n" for path in sources))
        for path, text in project_files(state.design, list(files), config).items():
            state.write(f"stitched_ip/{path}", text)
        state.note(f"{counted(len(files), 'file')}, for {part_of(config)}")
    return check_expected(state, config, VerificationStepType.STITCHED_IP_RTLSIM)


def measure(state: BuildState, config: BuildConfig) -> BuildState:
    """Throughput and latency of the simulated RTL."""
    if DataflowOutputType.RTLSIM_PERFORMANCE in config.generate_outputs:
        frames = config.rtlsim_batch_size or 1
        feeds = random_frames(state.design.source, frames, config.seed)
        waves = f"report/rtlsim_perf_batch_{frames}.vcd"
        result = simulated(state.design, feeds, state, config, waves)
        state.write_json("report/rtlsim_performance.json", rtlsim_performance(state.design, result, frames))
        state.write(PROFILE, profile_of(state.design, result).json())
        state.note(f"{counted(result.result.cycles, 'cycle')} for {counted(frames, 'frame')}")
    return state


def validate(state: BuildState, config: BuildConfig) -> BuildState:
    """Top-1 accuracy on labelled frames: of model, integer network and simulation, where such frames are given."""
    files = validation_files(config)
    if files is None:
        return state
    feeds, labels = read_frames(files[0], state.design.source), read_labels(files[1])
    check_labels(feeds, labels, str(files[1]))
    settings = Settings(
        config.validation_rtlsim_frames, "cocotb" if config.force_python_rtlsim else "cpp", config.validation_reference
    )
    found, equal = validated(state.design, feeds, labels, settings, state.journal)
    state.write(VALIDATION, found.json())
    state.note(found.note)
    return replace(state, comparisons=(*state.comparisons, *equal))


def drive(state: BuildState, config: BuildConfig) -> BuildState:
    """A driver in Python for PYNQ, which packs and unpacks frames, alone and to be deployed."""
    for output, folder in _DRIVERS.items():
        if output in config.generate_outputs:
            state.note(write_driver(state, folder))
    return say_not_made(state, config, *NOT_MADE)


def say_not_made(state: BuildState, config: BuildConfig, *outputs: DataflowOutputType) -> BuildState:
    """Warn of those *outputs* that are asked for and are not made here."""
    for output in outputs:
        if output in config.generate_outputs:
            state.note("not made")
            state.journal.warn(f"output '{output}' is not made: {NOT_MADE[output]}")
    return state


NOT_MADE = {
    DataflowOutputType.OOC_SYNTH: "it takes minutes, and has a command of its own: `headrace synth OUT`",
    DataflowOutputType.BITFILE: "it takes the vendor's tool; stitched_ip/ is what that reads",
    DataflowOutputType.CPP_DRIVER: "the driver is in Python: generate 'pynq_driver'",
}
"""Outputs of FINN that a build does not make, and why."""

_DRIVERS = {DataflowOutputType.PYNQ_DRIVER: "driver", DataflowOutputType.DEPLOYMENT_PACKAGE: "deploy/driver"}


def _folded(state: BuildState) -> HardwareDesign:
    """The layers as they are folded so far: not at all, where no step did it."""
    return state.design.folded if state.design.reached("folded") else state.design.unfolded


def _slowest(design: HardwareDesign) -> str:
    node, layer = max(layers(design.graph).items(), key=lambda item: item[1].cycles)
    return f"{counted(layer.cycles, 'cycle')} a frame in '{node}', the slowest layer"


def _warn_of_new_notes(state: BuildState, before: HardwareDesign, after: HardwareDesign) -> None:
    for note in after.notes[len(before.notes) :]:
        state.journal.warn(note)


STEPS: tuple[Step, ...] = (
    read,
    analyse,
    lower,
    specialize,
    fold_to_rate,
    apply_folding,
    connect,
    verify,
    estimate,
    generate,
    stitch,
    measure,
    validate,
    drive,
)
"""What a build does by default."""
