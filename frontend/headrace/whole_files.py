"""Files that are whole or absent, whenever the writing ends, and whoever writes the same one at the same time."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of *path* when the block ends without an exception.

    A link, a pipe or a device of that name is replaced, not written to.

    Raises:
        OSError: when it cannot be written.
    """
    draft = path.parent / f".headrace-{secrets.token_hex(8)}.part"  # a name of any length leaves room for this one
    try:
        with draft.open("xb") as file:
            yield file
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write *text*, as UTF-8 with plain line ends, to a file that is whole or absent.

    Raises:
        OSError: when it cannot be written.
    """
    with whole_file(path) as file:
        file.write(text.encode())
