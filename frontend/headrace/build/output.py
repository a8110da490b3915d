"""The folder a build writes: made under another name, and put in place when it is whole.

One build at a time writes a folder, which a lock file beside it sees to. A build that is killed leaves the earlier
folder as it was, and a scratch folder that the next build removes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.build.config import CONFIG_FILE
from headrace.errors import InputError
from headrace.whole_files import write_whole

if sys.platform != "win32":
    import fcntl

MARKER = CONFIG_FILE
"""The file by which a folder is known to be a build of Headrace, and may be replaced by another."""

MANIFEST = "design.json"
"""The description of the generated design, for the simulator."""

FOLDING_FILE = "folding.json"
"""The folding of a build."""

_SCRATCH = ".headrace-"
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2
_HERE = -100  # AT_FDCWD
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def named_folder(path: object, setting: str) -> Path:
    """*path* as a folder to write.

    Raises:
        InputError: when it is no path, or empty, which would be the current folder; names the *setting*.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"setting '{setting}': expected a path, not {type(path).__name__}")
    if not os.fspath(path):
        raise InputError(f"setting '{setting}': the path is empty")
    return Path(path)


def check_replaceable(folder: Path) -> None:
    """Refuse to write over anything that is not an earlier build.

    Raises:
        InputError: when *folder* is a file, or holds files that no build put there.
    """
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise InputError(f"{folder}: is a file; expected a new folder, an empty one or an earlier build")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise InputError(f"{folder}: holds files but no {MARKER}, so it is not an earlier build; choose another folder")


@contextmanager
def staged(folder: Path, upon_earlier: bool = False) -> Iterator[Path]:
    """A scratch folder beside *folder* that replaces it when the block ends without an exception.

    Args:
        folder: what is replaced.
        upon_earlier: whether the scratch folder starts as a copy of *folder*.

    Raises:
        InputError: when *folder* may not be replaced, its parent cannot be written, the disk is full, or another build
            is writing it.
    """
    check_replaceable(folder)
    target = folder.resolve()  # a link stays a link: what it names is replaced
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target, folder) as alone:
            for left in target.parent.glob(f".{_escaped(target.name)}{_SCRATCH}*") if alone else ():
                shutil.rmtree(left, ignore_errors=True)  # of a build that was killed
            with _scratch(target) as whole:
                if upon_earlier and target.is_dir():
                    _copy(target, whole, folder)
                yield whole
                check_replaceable(folder)
                _put_in_place(whole, target)
    except OSError as error:
        if error.errno in _FULL or not os.access(target.parent, os.W_OK) or not target.parent.is_dir():
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
        raise


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """An empty folder that takes the place of *folder*, inside a build, when the block ends without an exception.

    Raises:
        OSError: when it cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(folder) as whole:
        yield whole
        _put_in_place(whole, folder)


def _copy(target: Path, whole: Path, folder: Path) -> None:
    """Copy an earlier build, all of which is then this one's own to write.

    Raises:
        InputError: when there is something else than files and folders: through a link another file would be written,
            and a pipe has no end.
    """
    size = 0
    for place, folders, files in os.walk(target):
        for name in (*folders, *files):
            path = Path(place, name)
            info = path.lstat()
            size += info.st_size
            if not stat.S_ISDIR(mode := info.st_mode) and not stat.S_ISREG(mode):
                kind = "a link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
                where = folder / path.relative_to(target)
                raise InputError(f"{where}: is {kind}, which no build puts there; remove it, or build anew")
    if size > (free := shutil.disk_usage(whole).free):  # perhaps of holes, which a copy has not
        raise InputError(f"{folder}: cannot be copied: it has {size:,} bytes, and {free:,} are free; build anew")
    try:
        shutil.copytree(target, whole, symlinks=True, dirs_exist_ok=True)
    except shutil.Error as error:  # has a list of all that failed
        raise InputError(f"{folder}: cannot be copied ({error.args[0][0][2]})") from error


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}{_SCRATCH}"))
    try:
        whole = scratch / "whole"
        whole.mkdir()
        yield whole
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _locked(target: Path, folder: Path) -> Iterator[bool]:
    """Hold the lock of *target*, which ends with the process at the latest; yields whether there are locks here.

    Raises:
        InputError: when another build holds it.
    """
    if sys.platform == "win32":
        yield False
        return
    path = target.parent / f".{target.name}{_SCRATCH[:-1]}.lock"
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise InputError(
                f"{folder}: another build is writing this folder; wait for it, or choose another"
            ) from error
        except OSError as error:  # some network file systems have no locks; renaming is still all or nothing
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            path.unlink(missing_ok=True)
            os.close(handle)
            yield False
            return
        if _names(path, handle):
            break
        os.close(handle)  # the holder before us removed the file: a lock that nobody else sees
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _names(path: Path, handle: int) -> bool:
    """Whether *path* still names the open file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(handle))
    return False


def _put_in_place(whole: Path, target: Path) -> None:
    """Give *whole* the name *target*; what was there takes its place, and is removed with the scratch folder."""
    if not target.is_dir():
        os.rename(whole, target)
    elif not _exchange(whole, target):
        os.rename(target, whole.parent / "earlier")
        os.rename(whole, target)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step, where the system can: no moment without either."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


def _escaped(name: str) -> str:
    """*name* in a pattern that matches just itself."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by relative path; each file is whole, or what it was before.

    Raises:
        ValueError: when a path leaves *folder*; the code generator promises that none does.
        InputError: when a link in *folder* leads out of it.
    """
    root = folder.resolve()
    for name, text in files.items():
        path = Path(os.path.normpath(root / name))
        if not path.is_relative_to(root):
            raise ValueError(f"generated file '{name}' lies outside the output folder")
        check_inside(folder, path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)


def check_inside(folder: Path, place: Path) -> None:
    """Refuse to write to a *place* in *folder* that is somewhere else.

    Raises:
        InputError: when a link leads out of it.
    """
    if not place.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{place}: leads out of {folder} by a link; remove it, or build anew")
