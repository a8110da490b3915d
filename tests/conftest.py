"""Fixtures that several suites use."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import settings
from models import quantized_mlp

# No test depends on time, and a run of one state has one outcome; the long fuzz runs draw at random.
settings.register_profile("headrace", deadline=None, derandomize=True)
settings.load_profile("headrace")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A 3-bit network of two layers that ends in ArgMax."""
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(quantized_mlp((12, 8, 5), 3, seed=1), str(path))
    return path
