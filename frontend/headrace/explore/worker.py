"""A process that evaluates one point: ``python -m headrace.explore.worker FOLDER``.

A point in a process of its own can run out of memory, or be killed, without taking anything else along.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from headrace.explore.point import Point, evaluate
from headrace.explore.processes import job_process
from headrace.whole_files import write_whole

RESULT = "result.json"


def write_point(point: Point, folder: Path) -> None:
    """Leave *point* in *folder* for a worker."""
    arrays = {f"input:{name}": array for name, array in point.inputs.items()}
    if point.classes is not None:
        arrays["classes"] = point.classes
    np.savez(folder / "arrays.npz", allow_pickle=False, **arrays)
    (folder / "model.onnx").write_bytes(point.proto)
    names = ("model", "labels", "settings", "evaluate", "family", "frames")
    (folder / "point.json").write_text(json.dumps({name: getattr(point, name) for name in names}), encoding="utf-8")


def read_point(folder: Path) -> Point:
    """The point that :func:`write_point` left."""
    values = json.loads((folder / "point.json").read_text(encoding="utf-8"))
    with np.load(folder / "arrays.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return Point(
        **{**values, "evaluate": tuple(values["evaluate"])},
        proto=(folder / "model.onnx").read_bytes(),
        inputs={name.removeprefix("input:"): array for name, array in arrays.items() if name != "classes"},
        classes=arrays.get("classes"),
    )


def main(folder: Path) -> None:
    """Evaluate the point in *folder*; the result appears there as a whole or not at all."""
    result = evaluate(read_point(folder))
    write_whole(folder / RESULT, result.to_json())


if __name__ == "__main__":
    with job_process():
        main(Path(sys.argv[1]))
