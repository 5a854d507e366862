"""The shared cache folder: its place, its locks, and how folders that are not finished are called."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
