"""The other demos after little training: PyTorch, integer graph and RTL agree, at the folded rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.build.examples import load_example


@pytest.mark.sim
@pytest.mark.parametrize(
    ("example", "bits"), [("mnist_cnn", 2), ("keyword_spotting", 3), ("jet_tagging", 3), ("intrusion_detection", 1)]
)
def test_after_one_epoch(
    example: str, bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = load_example(example, "demo")
    monkeypatch.setattr(demo, "EPOCHS", 1)
    if example == "jet_tagging":  # unrolled, the whole network takes most of a minute to compile
        monkeypatch.setattr(demo, "WIDTHS", (16, 16, 8, 8, 5))
    outcome = demo.main(bits=bits, images=4, output=tmp_path)
    torch, integer, rtl = outcome.predictions.values()
    assert np.array_equal(torch, integer)
    assert np.array_equal(torch[:4], rtl)
    (interval,) = outcome.simulation.result.interval.values()
    assert interval == outcome.design.performance.interval
    assert example != "jet_tagging" or interval == 1
    demo.print_outcome(outcome)
    assert f"{outcome.compared:,}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("example", "module", "load", "shape"),
    [("jet_tagging", "jets", "load_jets", (16,)), ("intrusion_detection", "flows", "load_flows", (593,))],
)
def test_data_are_always_the_same(example: str, module: str, load: str, shape: tuple[int, ...]) -> None:
    make = getattr(load_example(example, module), load)
    one, two = make(300, 100), make(300, 100)
    assert one.inputs.equal(two.inputs)
    assert one.labels.equal(two.labels)
    assert (one.inputs.shape, one.test_inputs.shape) == ((300, *shape), (100, *shape))
    assert one.inputs.abs().max() <= 1
    assert not one.inputs[0].equal(one.test_inputs[0])


def test_jets_have_the_mass_of_their_kind() -> None:
    jets = load_example("jet_tagging", "jets")
    rng = np.random.default_rng(1)
    median = []
    for kind in range(len(jets.KINDS)):
        momentum, z, places = jets.sprays(np.full(500, kind), rng)
        assert np.allclose(z.sum(1), 1)
        median.append(np.exp(np.median(jets.describe(momentum, z, places)[:, 0])))
    assert median[1] < median[2] < median[3] < median[4]
    assert 80 < median[2] < 130
    assert 150 < median[4] < 230


def test_sounds_are_always_the_same() -> None:
    sounds = load_example("keyword_spotting", "sounds")
    one, two = sounds.load_sounds(20, 5), sounds.load_sounds(20, 5)
    assert one.inputs.equal(two.inputs)
    assert one.inputs.shape == (20, sounds.BANDS, sounds.FRAMES)
    assert one.inputs.abs().max() <= 1
    assert not one.inputs[0].equal(one.test_inputs[0])
