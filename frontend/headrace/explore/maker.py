"""A process in which a function of the user's makes a model: ``python -m headrace.explore.maker ... MODEL.onnx``.

A script that trains can take all memory, print what it likes or end the process, and nothing else is harmed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.errors import InputError
from headrace.explore.processes import job_process
from headrace.ingest import read_onnx, unwrapped
from headrace.whole_files import whole_file

_MODULE = "headrace_made_model"


def main(script: Path, function: str, arguments: dict[str, Any], target: Path) -> None:
    """Call *function* of *script*, and leave its model in *target*, as a whole or not at all.

    Raises:
        InputError: when there is no such function, or what it returns is no model.
        ModelError: when it returns the path of a file that is no model.
    """
    made = _function(script, function)(**arguments)
    if isinstance(made, str | os.PathLike):
        made = read_onnx(Path(made))
    made = unwrapped(made)
    if not hasattr(made, "SerializeToString"):
        raise InputError(
            f"{script.name}: {function} returned {type(made).__name__}; expected an ONNX model (as export_qonnx "
            "returns it) or the path of one"
        )
    with whole_file(target) as file:
        file.write(made.SerializeToString())


def _function(script: Path, name: str) -> Callable[..., Any]:
    sys.path.insert(0, str(script.parent))  # as for a script that is run
    spec = importlib.util.spec_from_file_location(_MODULE, script)
    if spec is None or spec.loader is None:
        raise InputError(f"{script} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # where dataclasses and pickles look for it
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"{script.name} has no function '{name}'")
    return found  # type: ignore[no-any-return]


if __name__ == "__main__":
    with job_process():
        main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), Path(sys.argv[4]))
