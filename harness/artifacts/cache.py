"""The shared cache folder: where it is, that it can be written, and one writer at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from harness.errors import UnfitError

VARIABLE = "ACKED_CACHE"


def cache_dir() -> Path:
    """`ACKED_CACHE` where that is set, else `~/.cache/acked`."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".cache" / "acked"


def writable(folder: Path) -> Path:
    """Make ``folder`` and return it. Raises UnfitError where it cannot be made or written."""
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
def locked(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the folder's lock, so that two resolvers do not work on it at once; the kernel frees it."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process works on {folder}, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
