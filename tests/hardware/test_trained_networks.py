"""Networks from PyTorch to RTL: the simulated hardware returns what the finalized module returns, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import headrace
from headrace.export import export_qonnx

from .pytorch_networks import NETWORKS, trained


@pytest.mark.sim
@pytest.mark.parametrize("name", NETWORKS)
def test_rtl_equals_pytorch(name: str, tmp_path: Path) -> None:
    model, x = trained(name)
    final = headrace.finalize(model)
    with torch.no_grad():
        expected = final(x).numpy()
    export_qonnx(final, args=(x[:1],), export_path=tmp_path / "model.onnx", input_names=["x"], output_names=["y"])
    design = headrace.load(tmp_path / "model.onnx")
    assert np.array_equal(design.run({"x": x.numpy()}, mode="integer")["y"], expected)
    simulation = design.simulate({"x": x.numpy()})
    assert np.array_equal(simulation.outputs["y"], expected)
    (interval,) = simulation.result.interval.values()
    assert interval is not None
    assert interval <= 1.01 * design.performance.interval
