"""Fixtures that several suites use."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from models import quantized_mlp


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A 3-bit network of two layers that ends in ArgMax."""
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(quantized_mlp((12, 8, 5), 3, seed=1), str(path))
    return path
