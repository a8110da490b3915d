"""Writing model files: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import onnx

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
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        written = Path(folder) / target.name
        if external_data or model.ByteSize() > LARGEST_FILE:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            location = target.name + ".data"
            onnx.save_model(copy, str(written), save_as_external_data=True, location=location, size_threshold=1024)
            if (Path(folder) / location).exists():
                os.replace(Path(folder) / location, target.parent / location)
        else:
            onnx.save_model(model, str(written))
        os.replace(written, target)
