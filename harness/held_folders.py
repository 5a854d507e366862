"""Folders that stay as long as a process holds them; a process that is killed leaves its own to the next."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_locks: dict[Path, int] = {}
"""By folder that `held_folder` holds, the descriptor of its lock."""


@contextmanager
def held_folder(parent: Path, prefix: str, mode: int = 0o777) -> Iterator[Path]:
    """A new folder below ``parent`` that is removed at the end, unless it has been renamed.

    Its owner holds a lock on it, and so do the owner's forks: while one of them lives, the folder stays. A
    process that is killed leaves its folder; the next one with the same ``prefix`` removes it first.
    """
    remove_abandoned(parent, prefix)
    folder, lock = _held(parent, prefix, mode)
    _locks[folder] = lock
    try:
        yield folder
    finally:
        del _locks[folder]
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def lock_of(folder: Path) -> int | None:
    """The descriptor with which this process holds a folder: a child that inherits it holds it as well."""
    return _locks.get(folder)


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
