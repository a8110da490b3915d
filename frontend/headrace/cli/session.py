"""What every command takes and how it answers: debugging, loudness, JSON, the journal, the one document."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

if TYPE_CHECKING:
    from headrace.build.journal import Journal


class Session:
    """What the options that every command takes have set, and which command runs."""

    debug = False
    verbosity = 0
    json = False
    said = False
    command = ""
    refused = ""
    """What is wrong with the command line."""

    @classmethod
    def begin(cls) -> None:
        """Nothing is set: one process may run several commands."""
        cls.debug, cls.verbosity, cls.json, cls.said, cls.command, cls.refused = False, 0, False, False, "", ""


def _debug(on: bool) -> None:
    Session.debug |= on


def _louder(count: int) -> None:
    Session.verbosity += count


def _quieter(on: bool) -> None:
    Session.verbosity -= on


def _machine(on: bool) -> None:
    Session.json |= on


def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_debug)] = False,
    verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, help="Say more.", callback=_louder)] = 0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say errors only.", callback=_quieter)] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON document.", callback=_machine)
    ] = False,
) -> None:
    """The options that every command takes."""


def _path(text: object) -> Path:
    """A path of the command line; an empty one, as of a variable that is not set, would be the current folder."""
    if not str(text):
        raise typer.BadParameter("the path is empty")
    if "\0" in str(text):
        raise typer.BadParameter("no path holds a null character")
    return Path(str(text))


def _of_paths(kind: object) -> bool:
    return kind is Path or any(map(_of_paths, get_args(kind)))


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """*command* as typer shall see it: with the options that every command takes, whose callbacks tell the session, and
    with paths that are not empty."""
    own, common = (inspect.signature(function, eval_str=True) for function in (command, _options))
    parameters = [*own.parameters.values(), *common.parameters.values()]
    for annotation in (parameter.annotation for parameter in parameters):
        kind, info = get_args(annotation)
        if _of_paths(kind):
            info.parser = _path

    @wraps(command)
    def run(**values: object) -> None:
        command(**{name: value for name, value in values.items() if name in own.parameters})

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


Built = Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a build.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A QONNX file, or the folder of an earlier build.")]
TargetFps = Annotated[float | None, typer.Option("--target-fps", metavar="N", help="Frames a second to fold for.")]
ClockMhz = Annotated[
    float | None, typer.Option("--clock-mhz", metavar="F", help="Clock frequency in MHz, 200 by default.")
]
FoldingFile = Annotated[Path | None, typer.Option("--folding", metavar="F.json", help="PE and SIMD by layer.")]


def new_journal() -> Journal:
    """What a command says while it works, as loud as its options ask."""
    from headrace.build.journal import Journal
    from headrace.build.listeners import EventListener, attended_journal

    if Session.verbosity < 0:
        return Journal()
    return Journal(EventListener()) if Session.json else attended_journal(Session.verbosity > 0)


def told_as_json(command: str, data: Callable[[], Mapping[str, object]], journal: Journal | None = None) -> bool:
    """Whether the result is wanted as JSON, which is then printed."""
    if Session.json:
        from headrace.build.machine import document

        say(document(command, data(), journal))
    return Session.json


def say(text: str) -> None:
    """Print a document to standard output, alone."""
    Session.said = True
    typer.echo(text, nl=False)
