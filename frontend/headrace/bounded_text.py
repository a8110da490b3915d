"""Texts that are read whole, of files that nobody has vouched for: no larger than any such file has a reason to be."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

LARGEST = 2**28
"""Bytes of a text."""


def given_text(path: Path) -> str:
    """The text of a file that a user names, which may be a pipe; a byte order mark is left out.

    Raises:
        OSError: when it cannot be read, or is larger than :data:`LARGEST`, as an endless device is.
        ValueError: when it is not UTF-8.
    """
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST:,} bytes", str(path))
    return data.decode("utf-8-sig")


def kept_text(path: Path) -> str:
    """The text of a file that a program has left in a folder: a pipe there would have no end.

    Raises:
        OSError: when it cannot be read, is no file, or is larger than :data:`LARGEST`.
        ValueError: when it is not UTF-8.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.ENOTSUP, "it is no file", str(path))
    return given_text(path)
