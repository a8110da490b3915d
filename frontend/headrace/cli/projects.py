"""Commands that start something: ``init`` writes a project, ``demo`` builds an example."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.session import Session, new_journal, told_as_json
from headrace.errors import printable


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder; its name is the project's.")],
    model: Annotated[Path | None, typer.Option("--model", metavar="MODEL.onnx", help="A model to start from.")] = None,
) -> None:
    """Write a project: network, build script, RTL regression, and its continuous integration."""
    from headrace.build.project import write_project

    written = write_project(folder, model)
    told = told_as_json("init", lambda: {"output": str(folder), "files": [str(path) for path in written]})
    if not told and Session.verbosity >= 0:
        typer.echo(f"{len(written)} files in {printable(str(folder))}; README.md says what to do first")


class Example(StrEnum):
    """What ``headrace demo`` demonstrates."""

    mnist_mlp = "mnist_mlp"
    mnist_cnn = "mnist_cnn"
    keyword_spotting = "keyword_spotting"
    jet_tagging = "jet_tagging"
    intrusion_detection = "intrusion_detection"


def demo(
    chosen: Annotated[
        Example, typer.Option("--example", help="Digits, sounds, jets, or flows in a computer network.")
    ] = Example.mnist_mlp,
    bits: Annotated[
        int | None,
        typer.Option(
            "--bits", min=1, max=8, help="Of weights and activations; 1 is bipolar.", show_default="2; jets 4"
        ),
    ] = None,
    images: Annotated[int, typer.Option("--images", min=1, max=1000, help="Test samples to simulate.")] = 100,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="Folder to write.", show_default="out/mnist_w2a2"),
    ] = None,
) -> None:
    """Train a network, build it, simulate it and compare it with PyTorch."""
    from headrace.build.examples import load_example

    example = load_example(chosen.value, "demo")
    journal = new_journal()
    chosen_bits = {} if bits is None else {"bits": bits}
    outcome = example.main(**chosen_bits, images=images, output=output, journal=journal)
    if not told_as_json("demo", lambda: example.outcome_data(outcome), journal) and Session.verbosity >= 0:
        example.print_outcome(outcome)
