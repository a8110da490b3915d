"""``headrace view``: the report of a build, or a model in netron, in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from headrace.build.report import REPORT_PAGE
from headrace.errors import InputError, ToolError


def open_report(folder: Path, browse: bool) -> Path:
    """Open the report of the build in *folder*; returns its path.

    Raises:
        InputError: when there is none.
    """
    page = folder / REPORT_PAGE
    if not page.is_file():
        raise InputError(f"{folder}: holds no {REPORT_PAGE}; expected the folder of a build, or an ONNX file")
    if browse:
        webbrowser.open(page.resolve().as_uri())
    return page


def serve_model(path: Path, port: int, browse: bool) -> None:
    """Show an ONNX file in netron, which serves it on this machine until it is interrupted.

    Raises:
        InputError: when the file is missing or the port is taken.
        ToolError: when netron is not installed.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected an ONNX model or the folder of a build")
    try:
        import netron
    except ImportError as error:
        raise ToolError("netron is not installed: pip install netron") from error
    try:
        netron.start(str(path), address=("localhost", port), browse=browse)
        netron.wait()
    except OSError as error:
        raise InputError(f"port {port} cannot be used ({error.strerror}); choose another with --port") from error
