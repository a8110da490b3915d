"""The command ``headrace``: bad input ends in one sentence and an exit status, never in a traceback.

Whatever is heavy is imported inside the commands, so that ``headrace --help`` answers at once.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from headrace import __version__
from headrace.errors import HeadraceError, ToolError, printable

if TYPE_CHECKING:
    from headrace.build.journal import Journal


class _Commands(TyperGroup):
    """All commands; an interrupt says so."""

    def invoke(self, ctx: Any) -> object:  # typer has a click of its own, whose name is private
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _interrupted()
        finally:
            _Session.command = ctx.invoked_subcommand or ""


app = typer.Typer(
    cls=_Commands,
    name="headrace",
    help="Carry a low-bit network to simulated, bit-exact FPGA dataflow hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Mode(StrEnum):
    """What computes the outputs of ``headrace run``."""

    float = "float"
    integer = "integer"
    rtl = "rtl"
    hls = "hls"


class Generated(StrEnum):
    """What ``headrace build`` generates."""

    rtl = "rtl"
    hls = "hls"
    both = "both"


class _Session:
    """What the options that every command takes have set, and which command runs."""

    debug = False
    verbosity = 0
    json = False
    said = False
    command = ""


def _debug(on: bool) -> None:
    _Session.debug |= on


def _louder(count: int) -> None:
    _Session.verbosity += count


def _quieter(on: bool) -> None:
    _Session.verbosity -= on


def _machine(on: bool) -> None:
    _Session.json |= on


Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_debug)]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, help="Say more.", callback=_louder)]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say errors only.", callback=_quieter)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.", callback=_machine)]

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A QONNX file, or the folder of an earlier build.")]
TargetFps = Annotated[float | None, typer.Option("--target-fps", metavar="N", help="Frames a second to fold for.")]
ClockMhz = Annotated[
    float | None, typer.Option("--clock-mhz", metavar="F", help="Clock frequency in MHz, 200 by default.")
]
FoldingFile = Annotated[Path | None, typer.Option("--folding", metavar="F.json", help="PE and SIMD by layer.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def _globals(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ] = False,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Carry a low-bit network to simulated, bit-exact FPGA dataflow hardware."""


@app.command()
def build(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL.onnx]", help="An ONNX file; with --finn-config, model.onnx beside it."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="Folder to write the design to.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="F.json", help="Settings; `headrace schema` says which.")
    ] = None,
    finn_config: Annotated[
        Path | None, typer.Option("--finn-config", metavar="F.json", help="A dataflow_build_config.json of FINN.")
    ] = None,
    target_fps: TargetFps = None,
    clock_mhz: ClockMhz = None,
    folding: FoldingFile = None,
    unroll: Annotated[
        bool, typer.Option("--unroll", help="Fold every layer as far as it goes: a vector a cycle, in shared adders.")
    ] = False,
    fit: Annotated[
        str | None, typer.Option("--fit", metavar="PART", help="Part or board whose resources the design must fit.")
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", metavar="lut=N", help="Most of a resource: lut, ff, dsp, bram18.")
    ] = None,
    backend: Annotated[
        Generated | None,
        typer.Option("--backend", help="Generate SystemVerilog (the default), C++ for high-level synthesis, or both."),
    ] = None,
    start_step: Annotated[
        str | None, typer.Option("--start-step", metavar="STEP", help="Continue the build in OUT with this step.")
    ] = None,
    stop_step: Annotated[str | None, typer.Option("--stop-step", metavar="STEP", help="End after this step.")] = None,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compile a model to a verified design: SystemVerilog or HLS C++, manifest, folding and report."""
    from headrace.build.api import build as build_design
    from headrace.build.command import Overrides, limits_of, settings_of
    from headrace.build.machine import build_data

    chosen = backend.value if backend else None
    limits = limits_of(limit or [])
    given = Overrides(
        output, target_fps, clock_mhz, folding, fit, limits, chosen, start_step, stop_step, unroll or None
    )
    model, settings = settings_of(model, config, finn_config, given)
    journal = _journal()
    design = build_design(model, config=settings, journal=journal)
    if not _told("build", lambda: build_data(design), journal) and _Session.verbosity >= 0:
        from headrace.build.summary import print_design

        print_design(design)


@app.command()
def run(
    model: Model,
    source: Annotated[Path, typer.Option("--input", metavar="X.npz", help="Arrays named as the model's inputs.")],
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
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a model on arrays, in its own real values: as a float model, as integers, or as simulated RTL or HLS C++."""
    from headrace.build.api import load
    from headrace.build.arrays import check_writable, read_arrays, write_arrays
    from headrace.build.machine import run_data
    from headrace.build.traced import RunOptions, run_design

    check_writable(output)
    options = RunOptions(mode.value, trace, dataflow)
    design = load(model)
    journal = _journal()
    outputs = run_design(design, read_arrays(source), options, str(source), journal)
    write_arrays(output, outputs)
    _told("run", lambda: run_data(outputs, mode.value, str(output)), journal)


@app.command()
def info(
    model: Model,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show the tensors of a model with their integer types, ranges and scales, and what blocks hardware."""
    from dataclasses import asdict

    from headrace.build.api import load
    from headrace.build.summary import print_info

    found = load(model).info()
    if not _told("info", lambda: asdict(found)):
        print_info(found)


@app.command()
def profile(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a build.")],
    source: Annotated[
        Path | None, typer.Option("--input", metavar="X.npz", help="Arrays named as the model's inputs.")
    ] = None,
    frames: Annotated[int, typer.Option("--frames", min=1, help="Random frames, without --input.")] = 4,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Simulate a build and show where it spends its time: how busy layers are, how full FIFOs; in the report, too."""
    from headrace.build.api import load
    from headrace.build.arrays import read_arrays
    from headrace.build.profile import profile_build

    journal = _journal()
    feeds = None if source is None else read_arrays(source)
    found = profile_build(load(output), feeds, frames, str(source), journal)
    if not _told("profile", lambda: asdict(found), journal) and _Session.verbosity >= 0:
        from headrace.build.summary import print_profile

        print_profile(found)


@app.command()
def view(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file, or the folder of a build.")],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Of the page on this machine.")] = 8081,
    browse: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show a model in netron, or the report of a build, in a browser."""
    from headrace.build.viewing import open_report, serve_model

    if model.is_dir():
        page = open_report(model, browse)
        if not _told("view", lambda: {"page": str(page)}):
            typer.echo(printable(str(page)))
    else:
        serve_model(model, port, browse)


@app.command()
def synth(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a build.")],
    family: Annotated[
        str, typer.Option("--family", metavar="F", help="Devices: xc7, xcup, ecp5, ice40 or gowin.")
    ] = "xc7",
    layer: Annotated[str | None, typer.Option("--layer", metavar="NAME", help="Synthesise this layer only.")] = None,
    pnr: Annotated[bool, typer.Option("--pnr", help="Place and route each layer, for its clock frequency.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", min=1, help="Seconds for one layer.")] = 1800.0,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=0, help="Layers at a time; 0 is half the processors.")
    ] = 0,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Synthesise a build with yosys: LUTs, registers, DSPs, memories and logic depth of every layer."""
    from headrace.build.api import load
    from headrace.build.synthesis import failures, synthesise_build
    from headrace.synth import Settings
    from headrace_sim.cache import default_folder

    design = load(output)
    settings = Settings(pnr, timeout, jobs, default_folder() / "synthesis")
    found = synthesise_build(design, family, layer, settings, _journal())
    if _Session.json:
        _say(found.json())
    elif _Session.verbosity >= 0:
        from headrace.build.summary import print_synthesis

        print_synthesis(found, design)
    if found.failed:
        raise failures(found)


@app.command()
def vectors(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="V.npz", help="File to write.")],
    source: Annotated[
        Path | None, typer.Option("--input", metavar="X.npz", help="Arrays named as the model's inputs.")
    ] = None,
    frames: Annotated[int, typer.Option("--frames", min=1, help="Random frames, without --input.")] = 32,
    seed: Annotated[int, typer.Option("--seed", help="Of the random frames.")] = 0,
    streams: Annotated[bool, typer.Option("--streams", help="Expect the words between layers as well.")] = False,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write integers for the design's inputs and what its outputs must be, for an RTL regression without the model."""
    from headrace.build.api import load
    from headrace.build.arrays import check_writable, read_arrays

    check_writable(output)
    feeds = None if source is None else read_arrays(source)
    load(model).write_vectors(output, feeds, frames=frames, seed=seed, streams=streams, origin=str(source))
    _told("vectors", lambda: {"output": str(output)})


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder; its name is the project's.")],
    model: Annotated[Path | None, typer.Option("--model", metavar="MODEL.onnx", help="A model to start from.")] = None,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a project: network, build script, RTL regression, and its continuous integration."""
    from headrace.build.project import write_project

    written = write_project(folder, model)
    told = _told("init", lambda: {"output": str(folder), "files": [str(path) for path in written]})
    if not told and _Session.verbosity >= 0:
        typer.echo(f"{len(written)} files in {printable(str(folder))}; README.md says what to do first")


class Example(StrEnum):
    """What ``headrace demo`` demonstrates."""

    mnist_mlp = "mnist_mlp"
    mnist_cnn = "mnist_cnn"
    keyword_spotting = "keyword_spotting"
    jet_tagging = "jet_tagging"
    intrusion_detection = "intrusion_detection"


@app.command()
def explore(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="[MODEL.onnx ...]", help="Models, besides those of the sweep.")
    ] = None,
    sweep: Annotated[Path | None, typer.Option("--sweep", metavar="S.yaml", help="What varies, what counts.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Folder of the results.")] = Path(
        "exploration"
    ),
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=0, help="Processes; 0 is one a processor.")] = 0,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="tcp://HOST:PORT", help="Of a running Dask cluster.")
    ] = None,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Evaluate many builds of some models, and find those that no other beats; goes on where it was interrupted."""
    from headrace.explore import DaskRunner, LocalRunner, Sweep, read_sweep
    from headrace.explore import explore as run_sweep

    given = Sweep() if sweep is None else read_sweep(sweep)
    given = given.with_models(models or [])
    runner = LocalRunner(jobs) if scheduler is None else DaskRunner(scheduler)
    journal = _journal()
    found = run_sweep(given, output, runner, journal)
    none = bool(found.results) and len(found.failed) == len(found.results)
    told = _told("explore", lambda: {"ok": not none, "output": str(output), **json.loads(found.json())}, journal)
    if not told and _Session.verbosity >= 0:
        from headrace.explore.table import print_exploration

        print_exploration(found, output)
    if none:
        raise ToolError(f"no point has a result; the first: {found.results[0].error}")


@app.command()
def bitstream(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a build.")],
    board: Annotated[str, typer.Option("--board", metavar="B", help="ulx3s-85f, icebreaker or ice40hx8k.")],
    baud: Annotated[int, typer.Option("--baud", metavar="N", min=1, help="Of the serial port.")] = 115_200,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", min=1, help="Seconds for a program.")] = 3600.0,
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a bitstream by open tools: the design behind a serial port; utilisation and timing in the report."""
    from headrace.board import find_board, make_bitstream
    from headrace.build.api import load

    journal = _journal()
    chosen = find_board(board)
    found = make_bitstream(load(output), chosen, baud, timeout, journal)
    if not _told("bitstream", lambda: asdict(found), journal) and _Session.verbosity >= 0:
        from headrace.build.summary import print_bitstream

        print_bitstream(found, output)
    if not found.meets_timing:
        message = f"the design reaches {found.fmax_mhz:g} MHz, {chosen.title} has {found.clock_mhz:g}; fold it further"
        raise ToolError(f"the timing is not met: {message}")


@app.command()
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
    debug: Debug = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a network, build it, simulate it and compare it with PyTorch."""
    from headrace.build.examples import load_example

    example = load_example(chosen.value, "demo")
    journal = _journal()
    chosen_bits = {} if bits is None else {"bits": bits}
    outcome = example.main(**chosen_bits, images=images, output=output, journal=journal)
    if not _told("demo", lambda: example.outcome_data(outcome), journal) and _Session.verbosity >= 0:
        example.print_outcome(outcome)


@app.command()
def doctor(debug: Debug = False, verbose: Verbose = 0, quiet: Quiet = False, as_json: Json = False) -> None:
    """Show which tools are found, in which version, and what each is needed for."""
    from dataclasses import asdict

    from headrace.build.doctor import examine, print_tools

    tools = examine()
    whole = all(tool.found for tool in tools if tool.required)
    if not _told("doctor", lambda: {"ok": whole, "tools": [asdict(tool) for tool in tools]}):
        print_tools(tools)
    if not whole:
        raise typer.Exit(2)


@app.command()
def schema(debug: Debug = False, verbose: Verbose = 0, quiet: Quiet = False, as_json: Json = False) -> None:
    """Print the JSON schema of configuration files, for editors and checkers."""
    from headrace.build.config import config_schema

    _say(config_schema())


def _journal() -> Journal:
    from headrace.build.journal import Journal, attended_journal

    return Journal() if _Session.verbosity < 0 else attended_journal(_Session.verbosity > 0)


def _told(command: str, data: Callable[[], Mapping[str, object]], journal: Journal | None = None) -> bool:
    """Whether the result is wanted as JSON, which is then printed."""
    if _Session.json:
        from headrace.build.machine import document

        _say(document(command, data(), journal))
    return _Session.json


def _say(text: str) -> None:
    """Print a document to standard output, alone."""
    _Session.said = True
    typer.echo(text, nl=False)


def main() -> None:
    """Run the command line and exit with 0, 1 (verification failed), 2 (bad input) or 70 (a bug in Headrace)."""
    _Session.debug, _Session.verbosity, _Session.json, _Session.command = False, 0, False, ""
    _Session.said = False
    try:
        app()
    except KeyboardInterrupt:
        _interrupted()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read the output has gone
        sys.exit(1)
    except HeadraceError as error:
        _fail(error, str(error), error.exit_status)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(error, f"{where}{error.strerror or error}", 2)
    except MemoryError as error:
        _fail(error, "not enough memory for this model and batch; run fewer frames at once", 2)
    except Exception as error:
        _fail(error, f"{type(error).__name__}: {error} (a bug in Headrace; --debug shows where)", 70)


def _interrupted() -> NoReturn:
    if _Session.json and not _Session.said:
        from headrace.build.machine import failure

        _say(failure(_Session.command, KeyboardInterrupt(), "interrupted", 130))
    print("headrace: interrupted", file=sys.stderr)
    sys.exit(130)


def _fail(error: BaseException, message: str, status: int) -> NoReturn:
    if _Session.debug:
        traceback.print_exc()
    if _Session.json and not _Session.said:
        from headrace.build.machine import failure

        _say(failure(_Session.command, error, message, status))
    colour = ("\033[31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    safe = printable(message, keep="\n\t")  # names come from model files
    print(f"headrace: {colour[0]}error:{colour[1]} {safe}", file=sys.stderr)
    sys.exit(status)
