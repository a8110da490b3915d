"""The words of build configurations: FINN's enumerations, member by member, and its lists of steps."""

from __future__ import annotations

from enum import StrEnum


class AutoFIFOSizingMethod(StrEnum):
    """FINN's ways to find FIFO depths."""

    CHARACTERIZE = "characterize"
    LARGEFIFO_RTLSIM = "largefifo_rtlsim"
    DISTRIBUTED_SIMULATION = "distributed_simulation"
    FORCE_MINIMAL_FIFOS = "force_minimal_fifos"


class ShellFlowType(StrEnum):
    """What a bitstream is built with."""

    VIVADO_ZYNQ = "vivado_zynq"
    VITIS_ALVEO = "vitis_alveo"
    SLASH_ALVEO = "slash_alveo"


class DataflowOutputType(StrEnum):
    """What a build makes besides the design itself."""

    STITCHED_IP = "stitched_ip"
    ESTIMATE_REPORTS = "estimate_reports"
    OOC_SYNTH = "out_of_context_synth"
    RTLSIM_PERFORMANCE = "rtlsim_performance"
    BITFILE = "bitfile"
    PYNQ_DRIVER = "pynq_driver"
    CPP_DRIVER = "cpp_driver"
    DEPLOYMENT_PACKAGE = "deployment_package"


class VitisOptStrategyCfg(StrEnum):
    """Strategies of a vendor's linker."""

    DEFAULT = "default"
    POWER = "power"
    PERFORMANCE = "performance"
    PERFORMANCE_BEST = "performance_best"
    SIZE = "size"
    BUILD_SPEED = "quick"


class ComputeEngineMemMode(StrEnum):
    """Where FINN before 0.10 kept weights, if nothing else was said."""

    CONST = "const"
    DECOUPLED = "decoupled"


class LargeFIFOMemStyle(StrEnum):
    """Memories of large FIFOs."""

    AUTO = "auto"
    BRAM = "block"
    LUTRAM = "distributed"
    URAM = "ultra"


class FpgaMemoryType(StrEnum):
    """Where an accelerator card keeps its inputs and outputs."""

    DEFAULT = "default"
    HOST_MEM = "host_memory"


class VerificationStepType(StrEnum):
    """When a build is compared with the expected output of the user."""

    QONNX_TO_FINN_PYTHON = "finn_onnx_python"
    """The model as it was read."""

    TIDY_UP_PYTHON = "initial_python"
    """The model as it was read."""

    STREAMLINED_PYTHON = "streamlined_python"
    """The integer graph."""

    FOLDED_HLS_CPPSIM = "folded_hls_cppsim"
    """The folded layers as C++, compiled and run."""

    NODE_BY_NODE_RTLSIM = "node_by_node_rtlsim"
    """The simulated RTL, and every stream between its layers against the layers' arithmetic."""

    STITCHED_IP_RTLSIM = "stitched_ip_rtlsim"
    """The simulated RTL."""


estimate_only_dataflow_steps = [
    "step_qonnx_to_finn",
    "step_tidy_up",
    "step_streamline",
    "step_convert_to_hw",
    "step_create_dataflow_partition",
    "step_specialize_layers",
    "step_target_fps_parallelization",
    "step_apply_folding_config",
    "step_minimize_bit_width",
    "step_generate_estimate_reports",
]
"""FINN's steps up to the estimates."""

hw_codegen_dataflow_steps = [*estimate_only_dataflow_steps, "step_hw_codegen"]
"""FINN's steps up to the generated code."""

hls_codegen_dataflow_steps = hw_codegen_dataflow_steps
"""The same, by their name in FINN before 0.10."""

default_build_dataflow_steps = [
    *hw_codegen_dataflow_steps,
    "step_hw_ipgen",
    "step_set_fifo_depths",
    "step_create_stitched_ip",
    "step_measure_rtlsim_performance",
    "step_out_of_context_synthesis",
    "step_synthesize_bitfile",
    "step_make_driver",
    "step_deployment_package",
]
"""All of FINN's steps."""

PHASES = {
    "phase_prepare_model": ("step_qonnx_to_finn", "step_tidy_up"),
    "phase_optimize_model": ("step_streamline",),
    "phase_convert_to_hardware": (
        "step_convert_to_hw",
        "step_create_dataflow_partition",
        "step_specialize_layers",
        "step_loop_rolling",
    ),
    "phase_optimize_hardware": (
        "step_target_fps_parallelization",
        "step_apply_folding_config",
        "step_minimize_bit_width",
        "step_transpose_decomposition",
        "step_generate_estimate_reports",
    ),
    "phase_build_hardware": ("step_hw_codegen", "step_hw_ipgen", "step_set_fifo_depths"),
    "phase_generate_outputs": (
        "step_create_stitched_ip",
        "step_measure_rtlsim_performance",
        "step_out_of_context_synthesis",
        "step_synthesize_bitfile",
        "step_make_driver",
        "step_deployment_package",
    ),
}
"""The steps that each phase of FINN (2026) stands for."""

STEP_OF = {
    VerificationStepType.QONNX_TO_FINN_PYTHON: ("read", "step_qonnx_to_finn"),
    VerificationStepType.TIDY_UP_PYTHON: ("read", "step_qonnx_to_finn"),
    VerificationStepType.STREAMLINED_PYTHON: ("analyse", "step_streamline"),
    VerificationStepType.FOLDED_HLS_CPPSIM: ("apply_folding", "step_apply_folding_config"),
    VerificationStepType.NODE_BY_NODE_RTLSIM: ("generate", "step_hw_codegen"),
    VerificationStepType.STITCHED_IP_RTLSIM: ("stitch", "step_create_stitched_ip"),
}
"""Which step compares with the expected output: its name here, and FINN's."""
