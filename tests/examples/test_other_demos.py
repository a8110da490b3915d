"""The convolutional demos after little training: PyTorch, integer graph and RTL agree, at the folded rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.build.examples import load_example


@pytest.mark.sim
@pytest.mark.parametrize(("example", "bits"), [("mnist_cnn", 2), ("keyword_spotting", 3)])
def test_after_one_epoch(
    example: str, bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = load_example(example, "demo")
    monkeypatch.setattr(demo, "EPOCHS", 1)
    outcome = demo.main(bits=bits, images=4, output=tmp_path)
    torch, integer, rtl = outcome.predictions.values()
    assert np.array_equal(torch, integer)
    assert np.array_equal(torch[:4], rtl)
    (interval,) = outcome.simulation.result.interval.values()
    assert interval == outcome.design.performance.interval
    demo.print_outcome(outcome)
    assert f"{outcome.compared:,}" in capsys.readouterr().out


def test_sounds_are_always_the_same() -> None:
    sounds = load_example("keyword_spotting", "sounds")
    one, two = sounds.load_sounds(20, 5), sounds.load_sounds(20, 5)
    assert one.inputs.equal(two.inputs)
    assert one.inputs.shape == (20, sounds.BANDS, sounds.FRAMES)
    assert one.inputs.abs().max() <= 1
    assert not one.inputs[0].equal(one.test_inputs[0])
