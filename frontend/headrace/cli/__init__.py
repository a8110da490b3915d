"""The command ``headrace``: bad input ends in one sentence and an exit status, never in a traceback.

One file a group of commands. Whatever is heavy is imported inside the commands, so that ``headrace --help`` answers at
once.
"""

from __future__ import annotations

from headrace.cli.application import app
from headrace.cli.building import build, schema
from headrace.cli.endings import run_to_end
from headrace.cli.exploring import explore
from headrace.cli.inspecting import doctor, info, view
from headrace.cli.projects import Example, demo, init
from headrace.cli.running import profile, run, validate, vectors, weights
from headrace.cli.session import with_options
from headrace.cli.synthesis import bitstream, synth

__all__ = ["Example", "app", "main"]

for _command in (
    build,
    run,
    info,
    profile,
    validate,
    view,
    synth,
    vectors,
    weights,
    init,
    explore,
    bitstream,
    demo,
    doctor,
    schema,
):
    app.command()(with_options(_command))  # in the order in which --help lists them


def main() -> None:
    """Run the command line and exit with 0, 1 (verification failed), 2 (bad input) or 70 (a bug in Headrace)."""
    run_to_end(app)
