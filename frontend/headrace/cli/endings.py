"""How the command ends: one sentence and an exit status, never a traceback that nobody asked for."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from headrace.cli.session import Session, say
from headrace.errors import HeadraceError, InputError, printable
from headrace.stopping import Stopped, stoppable


def run_to_end(app: Callable[[], object]) -> None:
    """Run a command line and exit with 0, 1 (verification failed), 2 (bad input) or 70 (a bug in Headrace)."""
    _open_standard_streams()
    try:
        with stoppable():
            app()
    except SystemExit:
        if Session.refused and "--json" in sys.argv and not Session.said:
            _say_failure(InputError(), Session.refused, 2)
        raise
    except KeyboardInterrupt as signal:
        interrupted(signal)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read the output has gone
        sys.exit(1)
    except HeadraceError as error:
        fail(error, str(error), error.exit_status)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(error, f"{where}{error.strerror or error}", 2)
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        fail(error, f"not enough memory for this model and batch{why}; run fewer frames at once, or smaller ones", 2)
    except Exception as error:
        fail(error, f"{type(error).__name__}: {error} (a bug in Headrace; --debug shows where)", 70)


def _open_standard_streams() -> None:
    """Give a command whose output is closed nothing to write to, and one whose output has few characters their codes.

    Otherwise the first file that is opened would be the standard output of every program that is run.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, and lower ones are not
            os.set_inheritable(null, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for good
    reconfigure = getattr(sys.stdout, "reconfigure", None)  # not of what tests put there
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def interrupted(signal: KeyboardInterrupt) -> NoReturn:
    """Exit as a program does that was interrupted, with 130, or that was asked to end by another signal."""
    number, what = (signal.number, f"ended by {signal}") if isinstance(signal, Stopped) else (2, "interrupted")
    if Session.json and not Session.said:
        _say_failure(signal, what, 128 + number)
    _complain(f"headrace: {what}")
    sys.exit(128 + number)


def fail(error: BaseException, message: str, status: int) -> NoReturn:
    """Say an error in one line, or as a document, and exit with its status."""
    if Session.debug:
        traceback.print_exc()
    if Session.json and not Session.said:
        _say_failure(error, message, status)
    colour = ("\033[31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    safe = printable(message, keep="\n\t")  # names come from model files
    _complain(f"headrace: {colour[0]}error:{colour[1]} {safe}")
    sys.exit(status)


def _complain(text: str) -> None:
    """Print to standard error, which may be gone, on a full disk, or a terminal that was closed."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _say_failure(error: BaseException, message: str, status: int) -> None:
    from headrace.build.machine import failure

    say(failure(Session.command, error, message, status))
