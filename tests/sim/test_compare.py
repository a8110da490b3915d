"""The first mismatch is the first in data order, not in the order of the dictionary."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from headrace_sim import ArrayError, Manifest, SimResult, first_mismatch
from sim import designs

X = np.arange(24).reshape(4, 6)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return designs.register_slice(tmp_path, bits=8, epw=2, frame=6)


@pytest.fixture
def result() -> SimResult:
    return SimResult(
        outputs={"y": X.copy()},
        streams={"mid": X.copy()},
        cycles=1,
        first_output_latency=1,
        interval={},
        time_stamps={},
    )


def test_equal(manifest: Manifest, result: SimResult) -> None:
    assert first_mismatch(result, {"mid": X, "y": X.reshape(4, 2, 3).astype(np.int8)}, manifest) is None
    assert first_mismatch(result, {"m_axis_0": X}, manifest) is None
    assert first_mismatch(result, {}, manifest) is None


def test_the_earlier_layer_is_reported(manifest: Manifest, result: SimResult) -> None:
    result.outputs["y"][0, 0] = 100
    result.streams["mid"][2, 5] = -7
    result.streams["mid"][3, 1] = -8
    mismatch = first_mismatch(result, {"y": X, "mid": X}, manifest)
    assert mismatch is not None
    assert (mismatch.layer, mismatch.stream, mismatch.frame, mismatch.position) == ("first", "mid", 2, 5)
    assert (mismatch.expected, mismatch.got, mismatch.total, mismatch.compared) == (17, -7, 2, 24)
    assert str(mismatch) == (
        "layer first (Slice), stream mid: frame 2, element 5: expected 17, got -7 (2 of 24 elements differ)"
    )


def test_only_given_streams_are_compared(manifest: Manifest, result: SimResult) -> None:
    result.streams["mid"][0, 0] = 100
    assert first_mismatch(result, {"y": X}, manifest) is None
    result.outputs["y"][1, 2] = 100
    mismatch = first_mismatch(result, {"m_axis_0": X}, manifest)
    assert mismatch is not None
    assert (mismatch.layer, mismatch.stream, mismatch.frame, mismatch.position) == ("second", "y", 1, 2)


def test_missing_frames(manifest: Manifest, result: SimResult) -> None:
    result.streams["mid"] = X[:3]
    mismatch = first_mismatch(result, {"mid": X}, manifest)
    assert mismatch is not None
    assert (mismatch.frame, mismatch.position, mismatch.expected, mismatch.got) == (3, 0, 18, None)
    assert "expected 18, got nothing (6 of 24" in str(mismatch)


def test_without_layers(manifest: Manifest, result: SimResult) -> None:
    plain = dataclasses.replace(manifest, layers=(), streams=())
    result.outputs["y"][1, 2] = 100
    mismatch = first_mismatch(result, {"y": X}, plain)
    assert mismatch is not None
    assert str(mismatch).startswith("stream y: frame 1, element 2: expected 8, got 100")


def test_wrong_calls(manifest: Manifest, result: SimResult) -> None:
    with pytest.raises(ArrayError, match="no stream or output 'z'; it has 'mid', 'y'"):
        first_mismatch(result, {"z": X}, manifest)
    with pytest.raises(ArrayError, match="not frames of 6"):
        first_mismatch(result, {"y": X[:, :5]}, manifest)
    with pytest.raises(ArrayError, match="must be integers"):
        first_mismatch(result, {"y": X.astype(float)}, manifest)
    untraced = dataclasses.replace(result, streams={})
    with pytest.raises(ArrayError, match="'mid' was not traced"):
        first_mismatch(untraced, {"mid": X}, manifest)
