"""A file system that forgets what was not fsynced: the daemon behind `nemesis.storage.fuse`.

`python -m nemesis.storage.layer CACHE DURABLE MOUNT FULL`. Everything written goes to a file below CACHE,
which stands for the page cache; fsync copies what is dirty to its twin below DURABLE, which stands for the
disk. Names, sizes set by truncate, and permissions are durable at once, as with a journal that commits at
once. This is the harshest realistic model: no write-back ever saves unsynced bytes, however long one waits.
While the file FULL exists, no file can grow.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mfusepy import FUSE, Operations

_STAT = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_blocks", "st_ino")
_STAT_NS = (("st_atime", "st_atime_ns"), ("st_mtime", "st_mtime_ns"), ("st_ctime", "st_ctime_ns"))
_STATFS = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize")


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

    def __init__(self, cache: str, durable: str, full: Path) -> None:
        self._cache, self._durable = cache, durable
        self._dirty = Dirty()
        self._full = full

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

    def mkdir(self, path: str, mode: int) -> int:
        return self._both(lambda tree: Path(tree + path).mkdir(mode))

    def rmdir(self, path: str) -> int:
        return self._both(lambda tree: Path(tree + path).rmdir())

    def unlink(self, path: str) -> int:
        return self._both(lambda tree: Path(tree + path).unlink())

    def rename(self, old: str, new: str) -> int:
        return self._both(lambda tree: Path(tree + old).replace(tree + new))

    def chmod(self, path: str, mode: int) -> int:
        return self._both(lambda tree: Path(tree + path).chmod(mode))

    def chown(self, path: str, uid: int, gid: int) -> int:
        return self._both(lambda tree: os.chown(tree + path, uid, gid))

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        return self._both(lambda tree: os.utime(tree + path, ns=times) if times else os.utime(tree + path))

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        return self._both(lambda tree: os.truncate(tree + path, length))

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        twin = os.open(self._durable + path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)
        os.close(twin)
        return os.open(self._cache + path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def open(self, path: str, flags: int) -> int:
        # The kernel resolves O_APPEND itself and reads pages of files that were opened for writing only.
        return os.open(self._cache + path, (flags & ~os.O_APPEND & ~os.O_ACCMODE) | os.O_RDWR)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        if self._full.exists() and offset + len(data) > os.fstat(fh).st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.pwrite(fh, data, offset)
        self._dirty.add(os.fstat(fh).st_ino, offset, offset + written)
        return written

    def flush(self, path: str, fh: int) -> int:
        return 0

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
    cache, durable, mount, full = sys.argv[1:5]
    threading.Thread(target=_end_with_starter, daemon=True).start()
    FUSE(Layer(cache, durable, Path(full)), mount, foreground=True, fsname="acked", default_permissions=True)


if __name__ == "__main__":
    main()
