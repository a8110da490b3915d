"""How the command ends: one sentence and an exit status, never a traceback that nobody asked for."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from headrace.cli.session import Session, say
from headrace.errors import HeadraceError, InputError, printable


def run_to_end(app: Callable[[], object]) -> None:
    """Run a command line and exit with 0, 1 (verification failed), 2 (bad input) or 70 (a bug in Headrace)."""
    try:
        app()
    except SystemExit:
        if Session.refused and "--json" in sys.argv and not Session.said:
            _say_failure(InputError(), Session.refused, 2)
        raise
    except KeyboardInterrupt:
        interrupted()
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


def interrupted() -> NoReturn:
    """Exit as an interrupted program does, with 130."""
    if Session.json and not Session.said:
        _say_failure(KeyboardInterrupt(), "interrupted", 130)
    print("headrace: interrupted", file=sys.stderr)
    sys.exit(130)


def fail(error: BaseException, message: str, status: int) -> NoReturn:
    """Say an error in one line, or as a document, and exit with its status."""
    if Session.debug:
        traceback.print_exc()
    if Session.json and not Session.said:
        _say_failure(error, message, status)
    colour = ("\033[31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    safe = printable(message, keep="\n\t")  # names come from model files
    print(f"headrace: {colour[0]}error:{colour[1]} {safe}", file=sys.stderr)
    sys.exit(status)


def _say_failure(error: BaseException, message: str, status: int) -> None:
    from headrace.build.machine import failure

    say(failure(Session.command, error, message, status))
