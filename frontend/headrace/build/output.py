"""The folder a build writes: made under another name, and put in place when it is whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import InputError

MARKER = "design.json"
"""The file by which a folder is known to be a build of Headrace, and may be replaced by another."""


def check_replaceable(folder: Path) -> None:
    """Refuse to write over anything that is not an earlier build.

    Raises:
        InputError: when *folder* is a file, or holds files that no build put there.
    """
    if folder.is_file() or (folder.is_symlink() and not folder.is_dir()):
        raise InputError(f"{folder}: is a file; expected a new folder, an empty one or an earlier build")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise InputError(f"{folder}: holds files but no {MARKER}, so it is not an earlier build; choose another folder")


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A scratch folder beside *folder* that replaces it when the block ends without an exception.

    Raises:
        InputError: when *folder* may not be replaced or its parent cannot be written.
    """
    check_replaceable(folder)
    target = folder.resolve()  # a link stays a link: what it names is replaced
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    try:
        whole = scratch / "whole"
        whole.mkdir()
        yield whole
        check_replaceable(folder)
        if target.is_dir():
            os.rename(target, scratch / "earlier")
        os.rename(whole, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by relative path.

    Raises:
        ValueError: when a path leaves *folder*; the code generator promises that none does.
    """
    root = folder.resolve()
    for name, text in files.items():
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise ValueError(f"generated file '{name}' lies outside the output folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
