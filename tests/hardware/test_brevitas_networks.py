"""Networks made and exported by Brevitas, in simulated RTL."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("brevitas")

from ingest.test_brevitas import export

import headrace


@pytest.mark.sim
@pytest.mark.parametrize("name", ["residual_of_two_scales", "signs"])
def test_rtl_equals_the_file(name: str, tmp_path) -> None:
    file, _, x = export(name, "qonnx", False, tmp_path / "model.onnx")
    design = headrace.load(file)
    (source,), (result,) = design.source.inputs, design.source.outputs
    feeds = {source: x[:6].astype(np.float32)}
    expected = design.run(feeds, mode="float")[result]
    assert np.array_equal(design.simulate(feeds).outputs[result], expected)
