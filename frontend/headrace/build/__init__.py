"""From a model file to a verified design on disk, and running it.

This package is also the function that builds. Call it::

    design = headrace.build("model.onnx", "out", target_fps=100_000, clock_mhz=200)
    y = design.run({"x": x}, mode="rtl")

``help(headrace.build.build)`` tells all of its arguments; ``headrace.load`` opens a model or an earlier build.
(Importing a package binds its name in the parent: package and function can only share the name by being one object.)
"""

from __future__ import annotations

import sys
from types import ModuleType

from headrace.build.api import build, build_dataflow_cfg, build_dataflow_directory, load
from headrace.build.config import BuildConfig, DataflowBuildConfig
from headrace.build.design import Design
from headrace.build.runtime import LayerWeights, write_runtime_weights
from headrace.build.state import BuildState
from headrace.build.step_list import resolve_build_steps
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

__all__ = [
    "AutoFIFOSizingMethod",
    "BuildConfig",
    "BuildState",
    "ComputeEngineMemMode",
    "DataflowBuildConfig",
    "DataflowOutputType",
    "Design",
    "FpgaMemoryType",
    "LargeFIFOMemStyle",
    "LayerWeights",
    "ShellFlowType",
    "VerificationStepType",
    "VitisOptStrategyCfg",
    "build",
    "build_dataflow_cfg",
    "build_dataflow_directory",
    "default_build_dataflow_steps",
    "estimate_only_dataflow_steps",
    "hls_codegen_dataflow_steps",
    "hw_codegen_dataflow_steps",
    "load",
    "resolve_build_steps",
    "write_runtime_weights",
]


class _Package(ModuleType):
    __call__ = staticmethod(build)


sys.modules[__name__].__class__ = _Package
