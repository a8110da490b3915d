"""The command itself: its name, its help, and the options before a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headrace import __version__
from headrace.cli.endings import interrupted
from headrace.cli.session import Session, told_as_json, with_options

_PYDANTIC = "Value error, "
"""What pydantic puts before the sentence of whoever checked a value; newer releases of typer show it."""


class _Commands(TyperGroup):
    """All commands; an interrupt says so, and an option that is not acceptable in typer's words alone."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        Session.begin()  # before the first option is read
        with _remembered():
            return super().make_context(*arguments, **options)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        rest = super().parse_args(ctx, args)
        if ctx.params["version"]:  # once all options are read: one of them may ask for JSON
            if not told_as_json("version", lambda: {"version": __version__}):
                typer.echo(f"headrace {__version__}")
            raise typer.Exit
        return rest

    def invoke(self, ctx: Any) -> object:  # typer has a click of its own, whose name is private
        try:
            with _remembered():
                return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix(_PYDANTIC)
            raise
        except KeyboardInterrupt as signal:
            interrupted(signal)
        finally:
            Session.command = ctx.invoked_subcommand or ""


@contextmanager
def _remembered() -> Iterator[None]:
    """Keep what typer says of a command line that it does not accept; it prints that itself, for people."""
    try:
        yield
    except Exception as error:
        if (sentence := getattr(error, "format_message", None)) is not None:
            Session.refused = sentence().replace(_PYDANTIC, "")
        raise


app = typer.Typer(
    cls=_Commands,
    name="headrace",
    help="Carry a low-bit network to simulated, bit-exact FPGA dataflow hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
@with_options
def _globals(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Carry a low-bit network to simulated, bit-exact FPGA dataflow hardware."""
