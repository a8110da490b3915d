"""Writing model files: whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import onnx

from headrace.whole_files import output_file

LARGEST_FILE = 2**31 - 2**20
"""Bytes of the largest model that is written as one file; protocol buffers end at 2 GB."""


def write(model: onnx.ModelProto, path: str | os.PathLike[str] | None, external_data: bool = False) -> None:
    """Write *model* to *path*; nothing is left there if writing fails.

    Args:
        model: the model.
        path: the file; ``None`` writes nothing.
        external_data: put large tensors into ``<file name>.data`` next to it, as is done anyway where the file would
            be larger than a file can be.
    """
    if path is None:
        return
    target = Path(path)
    if not external_data and model.ByteSize() <= LARGEST_FILE:
        with output_file(target) as file:
            file.write(model.SerializeToString())
        return
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".headrace-") as folder:
        written, location = Path(folder) / target.name, target.name + ".data"
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        onnx.save_model(copy, str(written), save_as_external_data=True, location=location, size_threshold=1024)
        if (Path(folder) / location).exists():
            os.replace(Path(folder) / location, target.parent / location)
        with output_file(target) as file, written.open("rb") as source:
            shutil.copyfileobj(source, file)
