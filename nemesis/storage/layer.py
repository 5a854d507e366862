"""A file system that forgets what was not fsynced: the daemon behind `nemesis.storage.fuse`.

`python -m nemesis.storage.layer CACHE DURABLE MOUNT CONTROL`. Everything written goes to a file below CACHE,
which stands for the page cache; fsync copies what is dirty to its twin below DURABLE, which stands for the
disk. Names, sizes set by truncate, and permissions are durable at once, as with a journal that commits at
once. This is the harshest realistic model: no write-back ever saves unsynced bytes, however long one waits.

The harness tells the daemon by files in the folder CONTROL what to do. While `full` exists, no file can grow.
While `hold` exists, the operations that it names (`Hold`) take longer; `held` says how many did.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import mfusepy
from mfusepy import FUSE, Operations

from nemesis.storage.hold import FULL, HELD, HOLD, Held, Hold, Operation

_STAT = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_blocks", "st_ino")
_STAT_NS = (("st_atime", "st_atime_ns"), ("st_mtime", "st_mtime_ns"), ("st_ctime", "st_ctime_ns"))
_STATFS = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize")

_THREADS = 100
"""Operations that may be held at one time while others go on: Kafka's threads are fewer."""
_HOLD_POLL_S = 0.01
Method = TypeVar("Method", bound=Callable[..., Any])


class Holding:
    """Makes operations wait as the file `hold` says, and counts them."""

    def __init__(self, control: Path) -> None:
        self._order, self._counts = control / HOLD, control / HELD
        self._lock, self._pause = threading.Lock(), threading.Event()
        self._held: dict[int, Held] = {}

    def wait(self, operation: Operation) -> None:
        """Return at once, or when the operation was held for long enough or the hold is over."""
        hold = Hold.read(self._order)
        if hold is None or operation not in hold.operations:
            return
        number, since = hold.number, time.monotonic()
        self._count(number, operation, began=True)
        while hold is not None and hold.number == number and hold.lasts(time.monotonic() - since):
            self._pause.wait(_HOLD_POLL_S)
            hold = Hold.read(self._order)
        self._count(number, operation, began=False, seconds=time.monotonic() - since)

    def _count(self, number: int, operation: Operation, *, began: bool, seconds: float = 0.0) -> None:
        with self._lock:
            held = self._held.get(number, Held()).counted(operation, began=began, seconds=seconds)
            self._held = {number: held}
            held.write(self._counts)


def _held(operation: Operation) -> Callable[[Method], Method]:
    """A method that is an operation on the disk."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def wait_first(self: Layer, *arguments: Any, **options: Any) -> Any:
            self.holding.wait(operation)
            return method(self, *arguments, **options)

        return wait_first  # type: ignore[return-value]

    return decorate


class Dirty:
    """The bytes of each file, by inode of its cached twin, that are not on the disk yet."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        self._lock = threading.Lock()

    def add(self, inode: int, start: int, end: int) -> None:
        """Bytes ``start`` to ``end`` were written."""
        with self._lock:
            ranges = self._ranges.setdefault(inode, [])
            if ranges and ranges[-1][0] <= start <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            else:
                ranges.append((start, end))

    def take(self, inode: int) -> list[tuple[int, int]]:
        """Return all dirty ranges of a file, and mark them as clean."""
        with self._lock:
            return self._ranges.pop(inode, [])


class Layer(Operations):  # type: ignore[misc]
    """Two trees with the same names: what readers see, and what survives."""

    use_ns = True

    def __init__(self, cache: str, durable: str, control: Path) -> None:
        self._cache, self._durable = cache, durable
        self._dirty = Dirty()
        self._full = control / FULL
        self.holding = Holding(control)

    def _both(self, act: Callable[[str], object]) -> int:
        act(self._cache)
        act(self._durable)
        return 0

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        status = os.lstat(self._cache + path)
        times = {name: getattr(status, source) for name, source in _STAT_NS}
        return {name: getattr(status, name) for name in _STAT} | times

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._cache + path)]  # noqa: PTH208 - names, not paths

    def statfs(self, path: str) -> dict[str, int]:
        status = os.statvfs(self._cache + path)
        return {name: getattr(status, name) for name in _STATFS}

    @_held("writes")
    def mkdir(self, path: str, mode: int) -> int:
        return self._both(lambda tree: Path(tree + path).mkdir(mode))

    @_held("writes")
    def rmdir(self, path: str) -> int:
        return self._both(lambda tree: Path(tree + path).rmdir())

    @_held("writes")
    def unlink(self, path: str) -> int:
        return self._both(lambda tree: Path(tree + path).unlink())

    @_held("writes")
    def rename(self, old: str, new: str) -> int:
        return self._both(lambda tree: Path(tree + old).replace(tree + new))

    def chmod(self, path: str, mode: int) -> int:
        return self._both(lambda tree: Path(tree + path).chmod(mode))

    def chown(self, path: str, uid: int, gid: int) -> int:
        return self._both(lambda tree: os.chown(tree + path, uid, gid))

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        return self._both(lambda tree: os.utime(tree + path, ns=times) if times else os.utime(tree + path))

    @_held("writes")
    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        return self._both(lambda tree: os.truncate(tree + path, length))

    @_held("writes")
    def create(self, path: str, mode: int, fi: Any = None) -> int:
        twin = os.open(self._durable + path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)
        os.close(twin)
        return os.open(self._cache + path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def open(self, path: str, flags: int) -> int:
        # The kernel resolves O_APPEND itself and reads pages of files that were opened for writing only.
        return os.open(self._cache + path, (flags & ~os.O_APPEND & ~os.O_ACCMODE) | os.O_RDWR)

    @_held("reads")
    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    @_held("writes")
    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        if self._full.exists() and offset + len(data) > os.fstat(fh).st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.pwrite(fh, data, offset)
        self._dirty.add(os.fstat(fh).st_ino, offset, offset + written)
        return written

    def flush(self, path: str, fh: int) -> int:
        return 0

    @_held("fsyncs")
    def fsync(self, path: str, datasync: int, fh: int) -> int:
        status = os.fstat(fh)
        twin = os.open(self._durable + path, os.O_RDWR)
        try:
            for start, end in self._dirty.take(status.st_ino):
                os.pwrite(twin, os.pread(fh, end - start, start), start)
            os.ftruncate(twin, status.st_size)
        finally:
            os.close(twin)
        return 0

    @_held("fsyncs")
    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        return 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0


def _end_with_starter() -> None:
    """Exit with the parent process: another mount namespace may hold a copy of the mount after an unmount."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serve until the file system is unmounted, the parent process has ended, or this process is killed."""
    cache, durable, mount, control = sys.argv[1:5]
    threading.Thread(target=_end_with_starter, daemon=True).start()
    # libfuse has a limit, of 10, since 3.12 only.
    limited = (mfusepy.fuse_version_major, mfusepy.fuse_version_minor) >= (3, 12)
    options = {"max_threads": _THREADS} if limited else {}
    layer = Layer(cache, durable, Path(control))
    FUSE(layer, mount, foreground=True, fsname="acked", default_permissions=True, **options)


if __name__ == "__main__":
    main()
