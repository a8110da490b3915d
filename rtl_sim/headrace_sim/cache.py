"""A folder of compiled simulators, keyed by content, safe with many processes at once."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headrace_sim.errors import BuildError

DEFAULT_MAX_BYTES = 2 << 30
_RECENT_SECONDS = 3600.0  # an entry used this recently may be about to run: never evicted
_STALE_SECONDS = 86400.0  # a temporary folder this old was left by a process that died
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_whole: dict[Path, object] = {}  # entries that were whole when this process last looked, and the state of their files
_SEAL = ".used"  # says what an entry holds; its time is when the entry was used last


def default_folder() -> Path:
    """HEADRACE_CACHE if set, else `headrace` in the platform's folder for caches.

    Raises:
        BuildError: none is set, and the user has no home folder.
    """
    if chosen := os.environ.get("HEADRACE_CACHE"):
        return Path(chosen)
    if sys.platform != "darwin" and (caches := os.environ.get("XDG_CACHE_HOME")):
        return Path(caches) / "headrace"
    try:
        home = Path.home()
    except RuntimeError as error:  # in a container, by a number that no name belongs to
        raise BuildError("this user has no home folder for the build cache: choose one with HEADRACE_CACHE") from error
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "headrace"


def content_key(parts: Iterable[str | bytes]) -> str:
    """A hexadecimal key of `parts`; the order and the borders between parts count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:40]


class BuildCache:
    """Folders made once per key and never changed afterwards.

    An entry is built in a temporary folder that is renamed when it is whole, under a lock per key, so that
    two processes that want the same entry build it once and a process that dies leaves nothing half
    written. An entry has digests of its files: one that a full disk, a crash of the machine or anybody else has damaged
    is built again. When the entries exceed `max_bytes`, those not used for longest are removed.
    """

    def __init__(self, folder: Path | str | None = None, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder = (default_folder() if folder is None else Path(folder)).resolve() / "simulators"
        self.max_bytes = max_bytes

    def get(self, key: str, build: Callable[[Path], None]) -> tuple[Path, bool]:
        """The folder of entry `key`, and whether it already existed; `build(folder)` makes a missing one.

        Raises:
            BuildError: the cache folder cannot be written, or its disk is full.
        """
        entry = self.folder / key
        if self._touch(entry):
            return entry, True
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{key}.lock").touch()
        except OSError as error:
            raise self._unwritable(error) from error
        with _lock(self.folder / f"{key}.lock") as alone:
            if self._touch(entry):
                return entry, True
            for left in self.folder.glob(f"tmp-{key}-*") if alone else ():
                shutil.rmtree(left, ignore_errors=True)  # of a process that was killed
            try:
                self._make(entry, build)
            except OSError as error:
                if error.errno in _FULL:
                    raise self._unwritable(error) from error
                raise
        self.trim()
        return entry, False

    def _make(self, entry: Path, build: Callable[[Path], None]) -> None:
        work = self.folder / f"tmp-{entry.name}-{secrets.token_hex(8)}"
        work.mkdir()
        try:
            build(work)
            (work / _SEAL).write_text(_contents(work))
            shutil.rmtree(entry, ignore_errors=True)  # an entry that something has damaged
            try:
                work.rename(entry)
            except OSError:
                if not self._touch(entry):  # unless another process was first
                    raise
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _unwritable(self, error: OSError) -> BuildError:
        return BuildError(
            f"the build cache {self.folder} cannot be written ({error.strerror}): choose another folder with "
            "HEADRACE_CACHE"
        )

    def trim(self) -> None:
        """Remove the least recently used entries until at most `max_bytes` remain, and stale leftovers."""
        now = time.time()
        entries: list[tuple[float, int, Path]] = []
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):  # another process may remove it meanwhile
                if path.name.startswith("tmp-"):
                    if now - path.stat().st_mtime > _STALE_SECONDS:
                        shutil.rmtree(path, ignore_errors=True)
                elif path.is_dir():
                    size = sum(file.stat().st_size for file in path.iterdir())
                    entries.append(((path / _SEAL).stat().st_mtime, size, path))
        total = sum(size for _, size, _ in entries)
        for used, size, path in sorted(entries):
            if total <= self.max_bytes or now - used < _RECENT_SECONDS:
                break
            total -= size
            shutil.rmtree(path, ignore_errors=True)
            path.with_name(f"{path.name}.lock").unlink(missing_ok=True)

    @staticmethod
    def _touch(entry: Path) -> bool:
        """Whether `entry` is whole; notes that it is in use, unless the cache is read-only."""
        try:
            state = [(path, s.st_mode, s.st_ino, s.st_size, s.st_mtime_ns) for path, s in _files(entry)]
            if _whole.get(entry) != state or not (entry / _SEAL).is_file():
                if (entry / _SEAL).read_text() != _contents(entry):
                    return False
                _whole[entry] = state
        except (OSError, ValueError):  # something is missing, or no text
            return False
        with contextlib.suppress(OSError):
            os.utime(entry / _SEAL)
        return True


def _files(entry: Path) -> list[tuple[Path, os.stat_result]]:
    return [(path, path.stat()) for path in sorted(entry.rglob("*")) if path.name != _SEAL and path.is_file()]


def _contents(entry: Path) -> str:
    """The files of an entry, with their digests and whether they can be run."""
    lines = []
    for path, info in _files(entry):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{digest} {'x' if info.st_mode & 0o100 else '-'} {path.relative_to(entry)}\n")
    return "".join(lines)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock on `path`; without locks (not a Unix) the rename alone keeps entries whole.

    Yields whether it is held.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    held = False
    while not held:
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError:  # some network file systems have none
                yield False
                return
            with contextlib.suppress(FileNotFoundError):  # the entry was removed meanwhile, and its lock with it
                held = os.path.samestat(os.fstat(file.fileno()), path.stat())
            if held:
                yield True
