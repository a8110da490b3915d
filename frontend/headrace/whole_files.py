"""Files that are whole or absent, whenever the writing ends, and whoever writes the same one at the same time."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of *path* when the block ends without an exception.

    A link of that name is replaced, not followed; what is no file stays what it is.

    Raises:
        OSError: when it cannot be written, or *path* is a folder, a device or a pipe.
    """
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):  # who may, would replace /dev/null by a file
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.ENOTSUP, "it is no file", str(path))
    draft = path.parent / f".headrace-{secrets.token_hex(8)}.part"  # a name of any length leaves room for this one
    try:
        with draft.open("xb") as file:
            yield file
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """A file that a user names as an output: as :func:`whole_file`, but through a link, and into a device or a pipe.

    Raises:
        OSError: when it cannot be written.
    """
    mode = stat.S_IFREG
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        with whole_file(path.resolve()) as file:
            yield file
    else:
        with path.open("wb") as file:
            yield file


def write_whole(path: Path, text: str) -> None:
    """Write *text*, as UTF-8 with plain line ends, to a file that is whole or absent.

    Raises:
        OSError: when it cannot be written; see :func:`whole_file`.
    """
    with whole_file(path) as file:
        file.write(text.encode())
