"""Commands that run a model or a design: ``run``, ``profile``, ``validate``, ``weights``, ``vectors``."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.session import Built, Model, Session, new_journal, told_as_json
from headrace.errors import printable

_ARRAYS = typer.Option("--input", metavar="X.npz", help="Arrays named as the model's inputs.")
Frames = Annotated[int, typer.Option("--frames", min=1, help="Random frames, without --input.")]


class Mode(StrEnum):
    """What computes the outputs of ``headrace run``."""

    float = "float"
    integer = "integer"
    rtl = "rtl"
    hls = "hls"


def run(
    model: Model,
    source: Annotated[Path, _ARRAYS],
    output: Annotated[Path, typer.Option("--output", metavar="Y.npz", help="File to write the outputs to.")],
    mode: Annotated[
        Mode, typer.Option("--mode", help="What computes: the model, its integer graph, the RTL or the HLS C++.")
    ],
    trace: Annotated[
        bool, typer.Option("--trace", help="rtl, hls: compare every stream between layers with their arithmetic.")
    ] = False,
    dataflow: Annotated[
        bool, typer.Option("--dataflow", help="hls: layers side by side, with streams as deep as in hardware.")
    ] = False,
) -> None:
    """Run a model on arrays, in its own real values: as a float model, as integers, or as simulated RTL or HLS C++."""
    from headrace.build.api import load
    from headrace.build.arrays import check_writable, read_arrays, write_arrays
    from headrace.build.machine import run_data
    from headrace.build.traced import RunOptions, run_design

    check_writable(output)
    options = RunOptions(mode.value, trace, dataflow)
    design = load(model)
    journal = new_journal()
    outputs = run_design(design, read_arrays(source), options, str(source), journal)
    write_arrays(output, outputs)
    told_as_json("run", lambda: run_data(outputs, mode.value, str(output)), journal)


def profile(output: Built, source: Annotated[Path | None, _ARRAYS] = None, frames: Frames = 4) -> None:
    """Simulate a build and show where it spends its time: how busy layers are, how full FIFOs; in the report, too."""
    from headrace.build.api import load
    from headrace.build.arrays import read_arrays
    from headrace.build.profile import profile_build

    journal = new_journal()
    feeds = None if source is None else read_arrays(source)
    found = profile_build(load(output), feeds, frames, str(source), journal)
    if not told_as_json("profile", lambda: asdict(found), journal) and Session.verbosity >= 0:
        from headrace.build.summary import print_profile

        print_profile(found)


def validate(
    output: Built,
    source: Annotated[
        Path, typer.Option("--input", metavar="X.npy", help="Frames; an .npz has them by the model's inputs.")
    ],
    labels: Annotated[Path, typer.Option("--labels", metavar="L.npy", help="The right class of every frame.")],
    frames: Annotated[
        int | None, typer.Option("--frames", min=0, help="Frames to simulate, from the first.", show_default="16")
    ] = None,
    reference: Annotated[
        float | None,
        typer.Option("--reference", metavar="A", min=0, max=1, help="Accuracy known from elsewhere, to show beside."),
    ] = None,
) -> None:
    """Find the top-1 accuracy of a build on labelled frames, of the integer network and of the simulation."""
    from headrace.build.api import load
    from headrace.build.config import VALIDATED
    from headrace.build.expected import read_frames
    from headrace.build.validation import Settings, read_labels, validate_build

    classes = read_labels(labels)
    design = load(output)
    journal = new_journal()
    settings = Settings(VALIDATED if frames is None else frames, reference=reference)
    found = validate_build(design, read_frames(source, design.source), classes, settings, journal)
    if not told_as_json("validate", lambda: found.data, journal) and Session.verbosity >= 0:
        from headrace.build.summary import print_validation

        print_validation(found)


def weights(
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="Folder of a build with layers to write.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write the files to.")],
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="MODEL.onnx", help="A model trained anew; the build's own without."),
    ] = None,
) -> None:
    """Write the files of weights and thresholds that the driver loads at run time."""
    from headrace.build.api import load
    from headrace.build.runtime import write_runtime_weights

    paths = [str(path) for path in write_runtime_weights(load(build).runtime_weights(model), output)]
    told = told_as_json("weights", lambda: {"output": str(output), "files": paths})
    if not told and Session.verbosity >= 0:
        typer.echo(f"{len(paths)} files in {printable(str(output))}")


def vectors(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="V.npz", help="File to write.")],
    source: Annotated[Path | None, _ARRAYS] = None,
    frames: Frames = 32,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the random frames.")] = 0,
    streams: Annotated[bool, typer.Option("--streams", help="Expect the words between layers as well.")] = False,
) -> None:
    """Write integers for the design's inputs and what its outputs must be, for an RTL regression without the model."""
    from headrace.build.api import load
    from headrace.build.arrays import check_writable, read_arrays

    check_writable(output)
    feeds = None if source is None else read_arrays(source)
    load(model).write_vectors(output, feeds, frames=frames, seed=seed, streams=streams, origin=str(source))
    told_as_json("vectors", lambda: {"output": str(output)})
