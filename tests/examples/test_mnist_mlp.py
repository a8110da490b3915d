"""The demo, whole: accuracy, equality of PyTorch, integer graph and RTL, the interval, and what a second run keeps."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headrace.build.examples import load_example
from headrace.build.journal import Journal


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    return load_example("mnist_mlp", "demo")


def test_two_bits(demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = demo.main(bits=2, images=100, output=tmp_path)
    torch, integer, rtl = outcome.predictions.values()
    assert (torch == outcome.labels).mean() >= 0.93
    assert np.array_equal(torch, integer)
    assert np.array_equal(torch[:100], rtl)
    assert outcome.compared > 100 * (784 + 3 * 64 + 10)
    (interval,) = outcome.simulation.result.interval.values()
    assert interval == outcome.design.performance.interval
    demo.print_outcome(outcome)
    shown = capsys.readouterr().out
    assert f"{100 * (torch == outcome.labels).mean():.1f}%" in shown
    assert str(tmp_path / "design" / "report" / "index.html") in shown
    page = (tmp_path / "design" / "report" / "index.html").read_text(encoding="utf-8")
    assert "What is generated was simulated, too, since it was built." in page

    journal = Journal()
    again = demo.main(bits=2, images=100, output=tmp_path, journal=journal)
    (training,) = [record for record in journal.records if record.name == "train"]
    assert "kept" in training.note
    assert again.simulation.result.cached
    assert np.array_equal(again.predictions["PyTorch (finalized)"], torch)


def test_bipolar_after_one_epoch(demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_example("mnist_mlp", "training"), "EPOCHS", 1)
    outcome = demo.main(bits=1, images=3, output=tmp_path)
    torch, integer, rtl = outcome.predictions.values()
    assert np.array_equal(torch, integer)
    assert np.array_equal(torch[:3], rtl)
    assert [port.range.bipolar for port in outcome.design.hardware.inputs] == [True]
