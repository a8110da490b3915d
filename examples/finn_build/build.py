"""A build script as one writes it for FINN: a custom step, a folding file, verification, board and shell.

python build.py, in a folder with model.onnx, folding.json, input.npy and expected_output.npy
"""

# In FINN:
#   import finn.builder.build_dataflow as build
#   import finn.builder.build_dataflow_config as build_cfg
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.transformation.general import GiveUniqueNodeNames

import headrace.build as build
import headrace.build.config as build_cfg

model_name = "separable"
board = "Pynq-Z1"


def step_unique_names(model: ModelWrapper, cfg: build_cfg.DataflowBuildConfig) -> ModelWrapper:
    return model.transform(GiveUniqueNodeNames())


steps = list(build_cfg.default_build_dataflow_steps)
steps.insert(steps.index("step_tidy_up") + 1, step_unique_names)

cfg = build_cfg.DataflowBuildConfig(
    output_dir=f"output_{model_name}_{board}",
    board=board,
    shell_flow_type=build_cfg.ShellFlowType.VIVADO_ZYNQ,
    synth_clk_period_ns=10.0,
    target_fps=100_000,
    folding_config_file="folding.json",
    auto_fifo_depths=True,
    steps=steps,
    generate_outputs=[
        build_cfg.DataflowOutputType.ESTIMATE_REPORTS,
        build_cfg.DataflowOutputType.STITCHED_IP,
        build_cfg.DataflowOutputType.RTLSIM_PERFORMANCE,
        build_cfg.DataflowOutputType.PYNQ_DRIVER,
    ],
    verify_steps=[
        build_cfg.VerificationStepType.TIDY_UP_PYTHON,
        build_cfg.VerificationStepType.STREAMLINED_PYTHON,
        build_cfg.VerificationStepType.STITCHED_IP_RTLSIM,
    ],
    save_intermediate_models=True,
)

if __name__ == "__main__":
    build.build_dataflow_cfg("model.onnx", cfg)
