"""A folder of compiled simulators, keyed by content, safe with many processes at once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headrace_sim.errors import BuildError

DEFAULT_MAX_BYTES = 2 << 30
_RECENT_SECONDS = 3600.0  # an entry used this recently may be about to run: never evicted
_STALE_SECONDS = 86400.0  # a temporary folder this old was left by a process that died


def default_folder() -> Path:
    """HEADRACE_CACHE if set, else `headrace` in the platform's folder for caches."""
    if chosen := os.environ.get("HEADRACE_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "headrace"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


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
    written. When the entries exceed `max_bytes`, those not used for longest are removed.
    """

    def __init__(self, folder: Path | str | None = None, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder = (default_folder() if folder is None else Path(folder)).resolve() / "simulators"
        self.max_bytes = max_bytes

    def get(self, key: str, build: Callable[[Path], None]) -> tuple[Path, bool]:
        """The folder of entry `key`, and whether it already existed; `build(folder)` makes a missing one.

        Raises:
            BuildError: the cache folder cannot be written.
        """
        entry = self.folder / key
        if self._touch(entry):
            return entry, True
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{key}.lock").touch()
        except OSError as error:
            raise BuildError(
                f"the build cache {self.folder} cannot be written ({error.strerror}): choose another folder with "
                "HEADRACE_CACHE"
            ) from error
        with _lock(self.folder / f"{key}.lock"):
            if self._touch(entry):
                return entry, True
            work = Path(tempfile.mkdtemp(prefix="tmp-", dir=self.folder))
            try:
                build(work)
                (work / ".used").touch()
                shutil.rmtree(entry, ignore_errors=True)  # an entry that something has damaged
                try:
                    work.rename(entry)
                except OSError:
                    if not self._touch(entry):  # unless another process was first
                        raise
            finally:
                shutil.rmtree(work, ignore_errors=True)
        self.trim()
        return entry, False

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
                    entries.append(((path / ".used").stat().st_mtime, size, path))
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
        with contextlib.suppress(OSError):
            os.utime(entry / ".used")
        return (entry / ".used").is_file()


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; without fcntl (not a Unix) the rename alone keeps entries whole."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
