"""FINN's steps under their names: the steps of Headrace that do the same, or a reason why there is nothing to do."""

from __future__ import annotations

from headrace.build import steps
from headrace.build.config import BuildConfig
from headrace.build.driver import write_driver
from headrace.build.state import BuildState
from headrace.build.steps import Step
from headrace.build.vocabulary import DataflowOutputType


def step_qonnx_to_finn(state: BuildState, config: BuildConfig) -> BuildState:
    """QONNX, QCDQ, QOp and FINN-ONNX are read as they are; compares with the expected output."""
    return steps.read(state, config)


def step_tidy_up(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing: shapes, types and constants are settled while a model is read."""
    state.note("done while the model is read")
    return state


def step_streamline(state: BuildState, config: BuildConfig) -> BuildState:
    """Scaled-integer analysis takes the place of rewriting."""
    return steps.analyse(state, config)


def step_convert_to_hw(state: BuildState, config: BuildConfig) -> BuildState:
    """Integer operators become layers."""
    return steps.lower(state, config)


def step_create_dataflow_partition(state: BuildState, config: BuildConfig) -> BuildState:
    """Says what stays on the host, which the analysis decides."""
    parts = state.design.parts
    head, tail = (len(part) - len(part.inputs) - len(part.outputs) for part in (parts.head, parts.tail))
    state.note(f"on the host: {head} operators before the hardware, {tail} after it")
    return state


def step_specialize_layers(state: BuildState, config: BuildConfig) -> BuildState:
    """RTL or C++ by layer, where a file says so."""
    return steps.specialize(state, config)


def step_target_fps_parallelization(state: BuildState, config: BuildConfig) -> BuildState:
    """PE and SIMD for the target rate; without one they stay at 1, as in FINN."""
    if config.target_fps is None:
        state.note("no target_fps")
        return state
    return steps.fold_to_rate(state, config)


def step_apply_folding_config(state: BuildState, config: BuildConfig) -> BuildState:
    """PE and SIMD by the folding file."""
    return steps.apply_folding(state, config)


def step_minimize_bit_width(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing: every width is proven to be the smallest."""
    state.note("every width is the smallest already")
    return state


def step_generate_estimate_reports(state: BuildState, config: BuildConfig) -> BuildState:
    """Cycles and resources by layer, FIFOs among them: their depths are computed, not simulated."""
    return steps.estimate(_connected(state, config), config)


def step_hw_codegen(state: BuildState, config: BuildConfig) -> BuildState:
    """Compares the stages of the compiler on random frames, and generates the design."""
    return steps.generate(steps.verify(_connected(state, config), config), config)


def step_hw_ipgen(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing: the generated SystemVerilog is what is synthesised."""
    state.note("nothing is left to synthesise before the design is")
    return state


def step_set_fifo_depths(state: BuildState, config: BuildConfig) -> BuildState:
    """Streams are matched in width and get FIFOs, where that has not been done."""
    return steps.connect(state, config)


def step_create_stitched_ip(state: BuildState, config: BuildConfig) -> BuildState:
    """The RTL in a folder of its own; compares its simulation with the expected output."""
    return steps.stitch(state, config)


def step_measure_rtlsim_performance(state: BuildState, config: BuildConfig) -> BuildState:
    """Throughput and latency in simulation; the accuracy on labelled frames, where such are given."""
    return steps.validate(steps.measure(state, config), config)


def step_out_of_context_synthesis(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing but to name the command that does it, with open tools."""
    return steps.say_not_made(state, config, DataflowOutputType.OOC_SYNTH)


def step_synthesize_bitfile(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing but to say so: a bitstream takes the vendor's tool."""
    return steps.say_not_made(state, config, DataflowOutputType.BITFILE)


def step_make_driver(state: BuildState, config: BuildConfig) -> BuildState:
    """A driver in Python for PYNQ, which packs and unpacks frames."""
    if DataflowOutputType.PYNQ_DRIVER in config.generate_outputs:
        state.note(write_driver(state, "driver"))
    return steps.say_not_made(state, config, DataflowOutputType.CPP_DRIVER)


def step_deployment_package(state: BuildState, config: BuildConfig) -> BuildState:
    """The driver in `deploy/`; the bitstream that the vendor's tool makes goes beside it."""
    if DataflowOutputType.DEPLOYMENT_PACKAGE in config.generate_outputs:
        state.note(write_driver(state, "deploy/driver"))
    return state


def _connected(state: BuildState, config: BuildConfig) -> BuildState:
    return state if state.design.reached("hardware") else steps.connect(state, config)


build_dataflow_step_lookup: dict[str, Step] = {
    step.__name__: step
    for step in (
        step_qonnx_to_finn,
        step_tidy_up,
        step_streamline,
        step_convert_to_hw,
        step_create_dataflow_partition,
        step_specialize_layers,
        step_target_fps_parallelization,
        step_apply_folding_config,
        step_minimize_bit_width,
        step_generate_estimate_reports,
        step_hw_codegen,
        step_hw_ipgen,
        step_set_fifo_depths,
        step_create_stitched_ip,
        step_measure_rtlsim_performance,
        step_out_of_context_synthesis,
        step_synthesize_bitfile,
        step_make_driver,
        step_deployment_package,
    )
}
"""FINN's steps by name."""

build_dataflow_step_lookup["step_make_pynq_driver"] = step_make_driver  # its name in FINN until 2024
