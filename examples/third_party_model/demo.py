"""Builds a file that another tool has made, and verifies it; neither step needs PyTorch.

python -m third_party_model.demo MODEL.onnx [OUT]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import headrace
from headrace.build import Design
from headrace.ir.op import Array
from third_party_model.make import SIZE

FRAMES = 16


def main(model: Path, output: Path) -> tuple[Design, str]:
    """Build *model*, and compare the integer graph and the simulated RTL with an executor of another project.

    Args:
        model: as :mod:`third_party_model.make` writes it.
        output: folder for the design.

    Returns:
        The design, and who executed the model: qonnx where it is installed, else Headrace's own reference.

    Raises:
        VerificationError: when any value differs.
    """
    images = np.random.default_rng(1).normal(0, 1, (FRAMES, 1, SIZE, SIZE)).astype(np.float32)
    expected, executor = execute(model, images)
    output.mkdir(parents=True, exist_ok=True)
    np.save(output / "input.npy", images)
    np.save(output / "expected_output.npy", expected)
    design = headrace.build(
        model,
        output / "design",
        target_fps=100_000,
        verify_steps=["initial_python", "streamlined_python", "stitched_ip_rtlsim"],
        verify_input_npy=output / "input.npy",
        verify_expected_output_npy=output / "expected_output.npy",
        generate_outputs=["estimate_reports", "stitched_ip"],
    )
    return design, executor


def execute(model: Path, images: Array) -> tuple[Array, str]:
    """The outputs of *model* frame by frame, and who computed them."""
    try:
        from qonnx.core.modelwrapper import ModelWrapper
        from qonnx.core.onnx_exec import execute_onnx
        from qonnx.transformation.infer_shapes import InferShapes
    except ImportError:
        (outputs,) = headrace.load(model).run({headrace.load(model).source.inputs[0]: images}, mode="float").values()
        return outputs, "Headrace"
    wrapper = ModelWrapper(str(model))
    source, result = wrapper.graph.input[0].name, wrapper.graph.output[0].name
    wrapper.set_tensor_shape(source, [1, *images.shape[1:]])
    wrapper = wrapper.transform(InferShapes())
    frames = [execute_onnx(wrapper, {source: image[None]})[result] for image in images]
    return np.concatenate(frames), "qonnx"


if __name__ == "__main__":
    built, by = main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "out/third_party"))
    print(f"equal to {by} in integer graph and simulated RTL; {built.folder}")
