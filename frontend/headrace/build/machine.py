"""What commands print with ``--json``: one document, with the same keys at its top for every command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.bounded_text import kept_text
from headrace.build.report import REPORT_DATA
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.build.design import Design
    from headrace.build.journal import Journal
    from headrace.ir import Array

Data = dict[str, Any]


def document(command: str, data: Mapping[str, object], journal: Journal | None = None) -> str:
    """The text for a command that has done its work: what it did, and what it found."""
    told: Data = {}
    if journal is not None:
        told = {"warnings": journal.warnings, "steps": [asdict(record) for record in journal.records]}
    return _text({"command": command, "ok": True, **told, **data})


def failure(command: str, error: BaseException, message: str, status: int) -> str:
    """The text for a command that ended with an error."""
    kind = type(error).__name__ if isinstance(error, HeadraceError) else "Error"
    return _text({"command": command, "ok": False, "error": {"kind": kind, "message": message, "exit_status": status}})


def build_data(design: Design) -> Data:
    """A design that was built; ``report`` is the content of ``report/report.json``, or null for a partial build."""
    assert design.folder is not None
    report = design.folder / REPORT_DATA
    made = json.loads(kept_text(report)) if report.is_file() else None
    return {"output": str(design.folder), "name": design.name, "report": made}


def run_data(outputs: Mapping[str, Array], mode: str, path: str) -> Data:
    """Arrays that were written to *path*."""
    shapes = {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in outputs.items()}
    return {"mode": mode, "output": path, "outputs": shapes}


def _text(data: object) -> str:
    return json.dumps(data, indent=2, default=_plain) + "\n"


def _plain(value: object) -> object:
    """Numbers of numpy, paths and members of enumerations as JSON has them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)
