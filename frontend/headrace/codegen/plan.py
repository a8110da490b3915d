"""What a generation makes: texts by path, checked and with a digest, before anything is written."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headrace.errors import InputError

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, eq=False)
class Plan:
    """Generated files.

    Attributes:
        files: text by relative path, in a fixed order.
        latency: cycles from the first word of a frame into the empty design to its last word out, estimated.
        streams: by node and output port of the hardware graph, the name of its stream in ``design.json``.

    Raises:
        ValueError: when a path could leave the folder, or two paths are one on a file system that ignores case.
    """

    files: Mapping[str, str]
    latency: int
    streams: Mapping[tuple[str, int], str]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for path in self.files:
            if not all(_PART.fullmatch(part) for part in path.split("/")):
                raise ValueError(f"{path!r} is not a path for a generated file")
            if path.lower() in seen:
                raise ValueError(f"two generated files are called {path!r}")
            seen.add(path.lower())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all paths and texts, in hexadecimal."""
        return digest(self.files)

    def write(self, folder: Path) -> None:
        """Write the files below *folder*, which is made when it is not there."""
        for path, text in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")


def digest(files: Mapping[str, str]) -> str:
    """SHA-256 of paths and texts, whatever their order."""
    total = hashlib.sha256()
    for path in sorted(files):
        for part in (path, files[path]):
            data = part.encode()
            total.update(len(data).to_bytes(8, "little"))
            total.update(data)
    return total.hexdigest()


def write_plan(plan: Plan, folder: Path) -> None:
    """Write *plan* to *folder*, which appears when it is whole: a new folder, or one that is empty.

    Raises:
        InputError: when the folder holds files or cannot be written.
    """
    target = folder.resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder; choose another")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror})") from error
    try:
        whole = scratch / "whole"
        plan.write(whole)
        os.replace(whole, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
