"""The shared cache folder: its place, its locks, and folders that are not finished."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from harness.errors import UnfitError

VARIABLE = "ACKED_CACHE"
UNFINISHED = ".new-"
"""Beginning of the names of folders that are renamed when they are complete."""


def cache_dir() -> Path:
    """`ACKED_CACHE` if it is set, else `~/.cache/acked`."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".cache" / "acked"


def writable(folder: Path) -> Path:
    """Create ``folder`` and return it. Raises UnfitError if it cannot be created or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UnfitError(
            f"The cache folder {folder} cannot be written ({error.strerror}); "
            f"make it writable, or set {VARIABLE} to another folder."
        ) from error
    return folder


@contextmanager
def locked(folder: Path, say: Callable[[str], None], name: str = "") -> Iterator[None]:
    """Hold the folder's lock, so that one process or thread at a time works on it. It ends with the process.

    With ``name`` it is the lock of one thing in the folder; others may be worked on meanwhile.
    """
    with (folder / (f".lock-{name}" if name else ".lock")).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that is working on {folder / name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def held_folder(parent: Path, prefix: str, mode: int = 0o777) -> Iterator[Path]:
    """A new folder below ``parent`` that is removed at the end, unless it has been renamed.

    Its owner holds a lock on it, and so do the owner's forks: while one of them lives, the folder stays. A
    process that is killed leaves its folder; the next one with the same ``prefix`` removes it first.
    """
    remove_abandoned(parent, prefix)
    folder, lock = _held(parent, prefix, mode)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned(parent: Path, pattern: str, *, dry_run: bool = False) -> list[Path]:
    """Remove the folders that begin with, or match, ``pattern`` and that nobody holds; returns them."""
    removed = []
    for folder in sorted(parent.glob(f"{pattern}*")):
        with suppress(OSError):  # in use, somebody else's, no folder, or gone already
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not dry_run:
                    shutil.rmtree(folder)
                removed.append(folder)
            finally:
                os.close(lock)
    return removed


def _held(parent: Path, prefix: str, mode: int) -> tuple[Path, int]:
    while True:
        folder = parent / f"{prefix}{secrets.token_hex(6)}"
        folder.mkdir(mode)
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another process has removed it before it was locked
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)
