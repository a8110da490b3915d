"""FINN's steps under their names: the steps of Headrace that do the same, or a reason why there is nothing to do.

They work on the state of a build. Called with a ``ModelWrapper``, as scripts for FINN do inside steps of their own,
those that change no model in Headrace return it as it is; the others are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, cast

from headrace.build import steps
from headrace.build.config import BuildConfig
from headrace.build.design import Design
from headrace.build.driver import write_driver
from headrace.build.expected import check_expected
from headrace.build.journal import Journal
from headrace.build.state import BuildState
from headrace.build.steps import Step
from headrace.build.vocabulary import DataflowOutputType, VerificationStepType
from headrace.errors import InputError


def _finn(step: Step, /) -> Step:
    """*step* as others of FINN may call it, too: with a model, which it cannot do anything to."""

    @wraps(step)
    def called(state: BuildState, config: BuildConfig) -> BuildState:
        if isinstance(state, BuildState):
            return step(state, config)
        name = step.__name__
        if name not in _ON_MODELS:
            raise InputError(
                f"step '{name}' was called with a {type(state).__name__}; there are no layers in a model here. Run "
                "steps by their names: build_dataflow_cfg(model, cfg), with steps=[...], or stop_step to end early"
            )
        warnings.warn(f"{name}() leaves the model as it is; put '{name}' into the list of steps", stacklevel=2)
        return state

    return called


_ON_MODELS = (
    "step_qonnx_to_finn",
    "step_tidy_up",
    "step_streamline",
    "step_passes_frontend",
    "step_convert_to_hw",
    "step_create_dataflow_partition",
    "step_specialize_layers",
    "step_minimize_bit_width",
    "step_minimize_bit_width_initial",
    "step_transpose_decomposition",
    "step_loop_rolling",
)
"""Steps that rewrite a model in FINN, and leave one that computes the same."""


@_finn
def step_qonnx_to_finn(state: BuildState, config: BuildConfig) -> BuildState:
    """QONNX, QCDQ, QOp and FINN-ONNX are read as they are; compares with the expected output."""
    return steps.read(state, config)


@_finn
def step_tidy_up(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing: shapes, types and constants are settled while a model is read."""
    state.note("done while the model is read")
    return state


@_finn
def step_streamline(state: BuildState, config: BuildConfig) -> BuildState:
    """Scaled-integer analysis takes the place of rewriting."""
    return steps.analyse(state, config)


@_finn
def step_passes_frontend(state: BuildState, config: BuildConfig) -> BuildState:
    """In FINN+: `step_qonnx_to_finn`, `step_tidy_up` and `step_streamline`."""
    return step_streamline(step_qonnx_to_finn(state, config), config)


@_finn
def step_convert_to_hw(state: BuildState, config: BuildConfig) -> BuildState:
    """Integer operators become layers."""
    return steps.lower(state, config)


@_finn
def step_create_dataflow_partition(state: BuildState, config: BuildConfig) -> BuildState:
    """Says what stays on the host, which the analysis decides."""
    parts = state.design.parts
    head, tail = (len(part) - len(part.inputs) - len(part.outputs) for part in (parts.head, parts.tail))
    state.note(f"on the host: {head} operators before the hardware, {tail} after it")
    return state


@_finn
def step_specialize_layers(state: BuildState, config: BuildConfig) -> BuildState:
    """RTL or C++ by layer, where a file says so."""
    return steps.specialize(state, config)


@_finn
def step_target_fps_parallelization(state: BuildState, config: BuildConfig) -> BuildState:
    """PE and SIMD for the target rate; without one they stay at 1, as in FINN."""
    if config.target_fps is None:
        state.note("no target_fps")
        return state
    return steps.fold_to_rate(state, config)


@_finn
def step_apply_folding_config(state: BuildState, config: BuildConfig) -> BuildState:
    """PE and SIMD by the folding file."""
    return steps.apply_folding(state, config)


@_finn
def step_minimize_bit_width(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing: every width is proven to be the smallest."""
    state.note("every width is the smallest already")
    return state


@_finn
def step_minimize_bit_width_initial(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing: every width is proven to be the smallest."""
    return step_minimize_bit_width(state, config)


@_finn
def step_transpose_decomposition(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing: transposes became an order of streams, or layers, with the other operators."""
    state.note("transposes are lowered with the other operators")
    return state


@_finn
def step_loop_rolling(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing: every layer is hardware of its own; equal ones do not share it."""
    state.note("equal layers do not share hardware")
    return state


@_finn
def step_generate_estimate_reports(state: BuildState, config: BuildConfig) -> BuildState:
    """Cycles and resources by layer, FIFOs among them: their depths are computed, not simulated."""
    return steps.estimate(_connected(state, config), config)


@_finn
def step_hw_codegen(state: BuildState, config: BuildConfig) -> BuildState:
    """Compares the stages of the compiler on random frames, and generates the design."""
    return steps.generate(steps.verify(_connected(state, config), config), config)


@_finn
def step_hw_ipgen(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing: the generated SystemVerilog is what is synthesised."""
    state.note("nothing is left to synthesise before the design is")
    return state


@_finn
def step_generate_hardware(state: BuildState, config: BuildConfig) -> BuildState:
    """In FINN+: `step_hw_codegen`, `step_hw_ipgen` and `step_set_fifo_depths`."""
    return step_hw_codegen(state, config)


@_finn
def step_set_fifo_depths(state: BuildState, config: BuildConfig) -> BuildState:
    """Streams are matched in width and get FIFOs, where that has not been done."""
    return steps.connect(state, config)


@_finn
def step_create_stitched_ip(state: BuildState, config: BuildConfig) -> BuildState:
    """The RTL in a folder of its own; compares its simulation with the expected output."""
    return steps.stitch(state, config)


@_finn
def step_measure_rtlsim_performance(state: BuildState, config: BuildConfig) -> BuildState:
    """Throughput and latency in simulation; the accuracy on labelled frames, where such are given."""
    return steps.validate(steps.measure(state, config), config)


@_finn
def step_out_of_context_synthesis(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing but to name the command that does it, with open tools."""
    return steps.say_not_made(state, config, DataflowOutputType.OOC_SYNTH)


@_finn
def step_synthesize_bitfile(state: BuildState, config: BuildConfig) -> BuildState:
    """Nothing but to say so: a bitstream takes the vendor's tool."""
    return steps.say_not_made(state, config, DataflowOutputType.BITFILE)


@_finn
def step_make_driver(state: BuildState, config: BuildConfig) -> BuildState:
    """A driver in Python for PYNQ, which packs and unpacks frames."""
    if DataflowOutputType.PYNQ_DRIVER in config.generate_outputs:
        state.note(write_driver(state, "driver"))
    return steps.say_not_made(state, config, DataflowOutputType.CPP_DRIVER)


@_finn
def step_deployment_package(state: BuildState, config: BuildConfig) -> BuildState:
    """The driver in `deploy/`; the bitstream that the vendor's tool makes goes beside it."""
    if DataflowOutputType.DEPLOYMENT_PACKAGE in config.generate_outputs:
        state.note(write_driver(state, "deploy/driver"))
    return state


def _connected(state: BuildState, config: BuildConfig) -> BuildState:
    return state if state.design.reached("hardware") else steps.connect(state, config)


def verify_step(
    model: object,
    cfg: BuildConfig,
    step_name: str,
    need_parent: bool = False,
    rtlsim_pre_hook: Callable[..., Any] | None = None,
) -> None:
    """FINN's comparison with the expected output, inside a step of a user's own.

    Args:
        model: a ``ModelWrapper``; it is read and run by Headrace.
        cfg: the configuration that the step was given.
        step_name: of Python's kinds: ``"finn_onnx_python"``, ``"initial_python"``, ``"streamlined_python"``.
        need_parent, rtlsim_pre_hook: as in FINN; not needed.

    Raises:
        InputError: for another kind, which Headrace's own steps compare; or when a file does not fit.
        VerificationError: at the first value that differs.
    """
    from headrace.ingest import from_proto, unwrapped

    kinds = [kind for kind in VerificationStepType if kind == step_name]
    if not kinds or not step_name.endswith("_python"):
        raise InputError(f"verify_step: '{step_name}' is compared by steps of Headrace; list it in 'verify_steps'")
    proto = unwrapped(cast("Any", model))
    journal = Journal()
    config = cfg.model_copy(update={"verify_steps": kinds})
    state = BuildState(proto, Design(from_proto(proto), config), Path(cfg.output_dir or "."), journal)
    check_expected(state, config, *kinds)
    for warning in journal.warnings:
        warnings.warn(warning, stacklevel=2)


build_dataflow_step_lookup: dict[str, Step] = {
    step.__name__: step
    for step in (
        step_qonnx_to_finn,
        step_tidy_up,
        step_streamline,
        step_passes_frontend,
        step_convert_to_hw,
        step_create_dataflow_partition,
        step_specialize_layers,
        step_target_fps_parallelization,
        step_apply_folding_config,
        step_minimize_bit_width,
        step_minimize_bit_width_initial,
        step_transpose_decomposition,
        step_loop_rolling,
        step_generate_estimate_reports,
        step_hw_codegen,
        step_hw_ipgen,
        step_generate_hardware,
        step_set_fifo_depths,
        step_create_stitched_ip,
        step_measure_rtlsim_performance,
        step_out_of_context_synthesis,
        step_synthesize_bitfile,
        step_make_driver,
        step_deployment_package,
    )
}
"""FINN's steps by name; scripts put steps of their own into it."""

EARLIER_NAMES = {
    "step_convert_to_hls": step_convert_to_hw,
    "step_hls_codegen": step_hw_codegen,
    "step_hls_ipgen": step_hw_ipgen,
    "step_make_pynq_driver": step_make_driver,
}
"""Names of steps in FINN before 0.10, and until 2024."""

build_dataflow_step_lookup.update(EARLIER_NAMES)
