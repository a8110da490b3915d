"""What ``headrace demo`` hands to the chosen example; the examples themselves are tested apart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.build import examples
from headrace.cli import Example, app


@pytest.mark.parametrize(
    ("arguments", "bits"), [([], None), (["--bits", "1"], 1), (["--example", "jet_tagging"], None)]
)
def test_an_example_keeps_its_own_bits_unless_told(
    arguments: list[str], bits: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, Any] = {}

    def load(name: str, module: str) -> SimpleNamespace:
        told["example"] = (name, module)
        return SimpleNamespace(main=told.update, print_outcome=lambda outcome: None)

    monkeypatch.setattr(examples, "load_example", load)
    assert CliRunner().invoke(app, ["demo", *arguments, "--images", "7"]).exit_code == 0
    assert told["example"] == (arguments[1] if "--example" in arguments else "mnist_mlp", "demo")
    assert told["images"] == 7
    assert told.get("bits") == bits


def test_every_example_can_be_loaded() -> None:
    for example in Example:
        assert callable(examples.load_example(example.value, "demo").main)
